//! The conformance suite: a plugin that follows the contract passes, the case that is named for a
//! rule finds a plugin that breaks it, and every plugin of this repository passes.
//!
//! These tests mount in their own process, so no other tests share it: a child that another test
//! starts would keep their mounts busy until it runs its program.
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
mod targets;
