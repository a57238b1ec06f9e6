//! The API and the command line over a real unix socket, with a made-up node behind it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod act;
mod api;
mod approval;
mod daemon;
mod errors;
mod offline;
mod show;
mod socket;
mod world;
