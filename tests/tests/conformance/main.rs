//! The conformance suite: a plugin that holds the contract passes, each broken rule is found by the case that is named for it, and every
//! plugin of this repository passes.
//!
//! These tests mount in this very process, so it is theirs alone: a child that another test starts
//! would keep their mounts busy until it runs its program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod command;
mod csi;
mod flex;
mod mutants;
mod page;
mod plugins;
mod run;
