//! What the kubelet's own tests of its volume manager cover, and where volhost means to be better, one scenario each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests may panic"
)]

mod attach;
mod kit;
mod operations;
mod pods;
mod recovery;
mod uncertain;
mod waits;
