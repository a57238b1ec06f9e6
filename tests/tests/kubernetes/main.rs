//! A stock Kubernetes: its kubelet uses plugins that `csi-serve` serves, and containers write to
//! their volumes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod adopted;
mod agent_node;
mod attach_detach;
mod capacity;
mod controller;
mod controllers;
mod definitions;
mod demo;
mod deploy;
mod deployed;
mod driver_object;
mod faults;
mod groups;
mod helm;
mod image;
mod kit;
mod kubectl_plugin;
mod migrated;
mod node_agent;
mod node_agent_faults;
mod plugin_rollout;
mod plugins;
mod proxy;
mod reconcile;
mod scale;
mod snapshots;
mod storage;
mod supervised;
mod volumes;
