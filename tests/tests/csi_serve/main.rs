//! A plugin as a CSI driver: `volhost csi-serve` over a real socket, with real mounts and devices.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod adapter;
mod attach;
mod bad_input;
mod content;
mod crash;
mod groups;
mod helpers;
mod inline;
mod kit;
mod life;
mod manifests;
mod modify;
mod node_only;
mod sanity;
mod secrets;
