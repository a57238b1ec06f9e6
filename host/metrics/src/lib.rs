//! Figures of the node for Prometheus, in the OpenMetrics text format.
//!
//! | module | its job |
//! |---|---|
//! | [`operations`] | what is counted while it happens: operations, their ends and how long they took |
//! | [`labels`] | the labels; none grows with the number of pods |
//! | `counts` | gauges of desired and actual state of world, counted at each scrape |
//! | `drivers` | the external drivers |
//! | `fuse_servers` | running FUSE servers |
//! | `selinux` | how SELinux labels fit together |
//! | `process` | the daemon's own memory, processor time and files |
//! | `volumes` | how full volumes of claims are |
//! | [`exposition`] | all of it as text |
//! | [`listener`] | the text over HTTP, if it is configured |
//! | [`site`] | the status page beside it |
//!
//! A metric that the kubelet has keeps its name and labels, so that dashboards and alerts for it
//! keep working.
#![forbid(unsafe_code)]

mod connections;
mod counts;
mod drivers;
pub mod exposition;
mod fuse_servers;
pub mod labels;
pub mod listener;
pub mod operations;
mod process;
mod selinux;
pub mod site;
mod volumes;

pub use exposition::Exposition;
pub use operations::Operations;
