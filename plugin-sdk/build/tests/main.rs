//! Crates become components, with the toolchain that the machine has.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod encode;
mod plugins;
mod toolchain;
