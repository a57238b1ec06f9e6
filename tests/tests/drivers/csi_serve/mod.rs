//! A plugin as a CSI driver: `volhost csi-serve` over a real socket, with real mounts and devices.

mod adapter;
mod attach;
mod bad_input;
mod content;
mod crash;
mod fuse_servers;
mod groups;
mod inline;
mod kit;
mod life;
mod manifests;
mod metrics;
mod modify;
mod node_only;
mod sanity;
mod secrets;
mod system_calls;
