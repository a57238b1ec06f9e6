//! What the end-to-end tests share: a node of their own, in a mount namespace of its own, with the
//! real daemon, real plugins and real mounts.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

pub mod artifacts;
pub mod attach_detach;
pub mod benchmark;
pub mod cluster;
pub mod compiled;
pub mod csi;
pub mod csi_serve;
pub mod disks;
pub mod figures;
pub mod fuse;
pub mod http;
pub mod images;
pub mod interruptions;
pub mod kill_points;
pub mod loop_devices;
pub mod manifests;
pub mod namespace;
pub mod node;
pub mod pages;
pub mod registry;
pub mod s3_server;
pub mod ssh_server;
pub mod vm;
pub mod wait;

pub use node::{Node, NodeBuilder};
