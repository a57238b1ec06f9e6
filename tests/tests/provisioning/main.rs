//! Volumes for claims without Kubernetes: real drivers, real records, real mounts, and daemons that die in between.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod bad_input;
mod by_request;
mod content;
mod crash;
mod faults;
mod kit;
mod life;
mod manifests_gone;
mod missing_claims;
mod not_read;
