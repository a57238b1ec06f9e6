//! FlexVolume drivers, unchanged: real programs, real mounts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod attaching;
mod bad_input;
mod calls;
mod crash;
mod disagreements;
mod discovery;
mod examples;
mod folders;
mod kit;
mod uncertain;
