//! How many instructions a call of the API takes: a figure that is the same on a busy machine and
//! on a quiet one.
//!
//! `cargo test --workspace --bench api-instructions` counts, compares with `recorded.json`, and
//! fails if one has grown by more than 5 %. With `-- --record` it replaces the record. Needs
//! valgrind, which counts. A development build: CI has built everything that it links.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark may panic"
)]

mod api;
#[path = "../../../core/benches/instructions/counting.rs"]
mod counting;
#[path = "../../../core/benches/instructions/record.rs"]
mod record;
#[path = "../../../core/benches/instructions/valgrind.rs"]
mod valgrind;

use std::process::ExitCode;

use counting::Workload;

const WORKLOADS: &[Workload] =
    &[Workload { name: "a call of the API, both ends: the 3 mounted volumes of a pod", rounds: 200, run: api::ask }];

fn main() -> ExitCode {
    counting::main(WORKLOADS)
}
