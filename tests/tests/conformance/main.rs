//! The conformance suite: a plugin that holds the contract passes, each broken rule is found by the case that is named for it, and every
//! plugin of this repository passes.
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
