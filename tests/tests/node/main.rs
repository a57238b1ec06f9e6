//! The daemon on a node, whatever the kind of volume: a pod from manifest to mount and back, starts
//! and restarts, plugins that come and go, trust, bad input, and what an operator can observe.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod bad_input;
mod cold_start;
mod command_line;
mod observability;
mod plugins;
mod restart;
mod settings;
mod system_calls;
mod trust;
mod walk;
mod watchdog;
