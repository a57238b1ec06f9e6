//! Figures of the node for Prometheus, in the OpenMetrics text format.
//!
//! | module | its job |
//! |---|---|
//! | [`operations`] | what is counted while it happens: operations, their ends and how long they took |
//! | [`labels`] | the labels; none grows with the number of pods |
//! | [`csi_calls`] | calls of CSI drivers, counted as they end |
//! | `counts` | gauges of desired and actual state of world, counted at each scrape |
//! | [`node`] | the node as a whole: plugins, manifests, drain, folders of pods that are gone |
//! | [`disks`] | the room in the root folder and for the records |
//! | `drivers` | the external drivers |
//! | `plugin_sockets` | their registration sockets |
//! | `fuse_servers` | running FUSE servers |
//! | `images` | the store of OCI images |
//! | `selinux` | how SELinux labels fit together |
//! | `volumes` | how full volumes of claims are |
//! | [`exposition`] | all of it as text |
//!
//! A metric that the kubelet has keeps its name and labels, so that dashboards and alerts for it
//! keep working.
#![forbid(unsafe_code)]

mod counts;
pub mod csi_calls;
pub mod disks;
mod drivers;
pub mod exposition;
mod fuse_servers;
mod images;
pub mod labels;
pub mod node;
pub mod operations;
mod plugin_sockets;
mod selinux;
mod volumes;

pub use csi_calls::CsiCalls;
pub use disks::NodeDisks;
pub use exposition::Exposition;
pub use node::{NodeCounts, OrphanCounts};
pub use operations::Operations;
