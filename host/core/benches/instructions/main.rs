//! How many instructions the state machine takes for what it does most: a figure that is the same
//! on a busy machine and on a quiet one.
//!
//! `cargo bench -p volhost-core --bench instructions` counts, compares with `recorded.json`, and
//! fails if one has grown by more than 5 %. With `-- --record` it replaces the record. Needs
//! valgrind, which counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "a benchmark may panic, and uses a part of the scenarios' kit"
)]

mod counting;
#[path = "../../tests/scenarios/kit.rs"]
mod kit;
mod record;
mod valgrind;
mod workloads;

use std::process::ExitCode;

fn main() -> ExitCode {
    counting::main(workloads::WORKLOADS)
}
