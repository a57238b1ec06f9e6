//! Figures of the node for Prometheus, in the OpenMetrics text format.
//!
//! | module | its job |
//! |---|---|
//! | [`operations`] | what is counted while it happens: operations, their ends and how long they took |
//! | [`labels`] | the labels; none grows with the number of pods |
//! | `census` | what is counted when somebody asks: the two worlds |
//! | `drivers` | the drivers outside |
//! | `fuse_servers` | running FUSE servers |
//! | `selinux` | how SELinux labels fit together |
//! | `process` | the daemon's own memory, processor time and files |
//! | `volumes` | how full volumes of claims are |
//! | [`exposition`] | all of it as text |
//! | [`listener`] | the text over HTTP, for those who opt in |
//!
//! Names and labels are the kubelet's wherever it has the figure, so that dashboards and alerts made for it go on working.
#![forbid(unsafe_code)]

mod census;
mod connections;
mod drivers;
pub mod exposition;
mod fuse_servers;
pub mod labels;
pub mod listener;
pub mod operations;
mod process;
mod selinux;
mod volumes;

pub use exposition::Exposition;
pub use operations::Operations;
