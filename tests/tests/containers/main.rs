//! Named volumes, by the command line and by the real docker and podman.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod docker;
mod kit;
mod kube;
mod mounts;
mod named;
mod plugin_api;
mod podman;
mod yardstick;
