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

#[path = "../../tests/scenarios/kit.rs"]
mod kit;
mod record;
mod valgrind;
mod workloads;

use std::process::ExitCode;

use record::Record;
use workloads::WORKLOADS;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        ["--run", name, rounds] => {
            let workload = WORKLOADS.iter().find(|workload| workload.name == name).expect("it has such a workload");
            (workload.run)(rounds.parse().expect("a number"));
            ExitCode::SUCCESS
        }
        [] => compare(),
        ["--record"] => {
            Record::of(count()).write();
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("instructions: nothing, or --record, is expected after --");
            ExitCode::from(2)
        }
    }
}

fn count() -> Vec<(&'static str, u64)> {
    let mut counted = Vec::new();
    for workload in WORKLOADS {
        let instructions = valgrind::per_round(workload);
        println!("{:>12} instructions  {}", instructions, workload.name);
        counted.push((workload.name, instructions));
    }
    counted
}

fn compare() -> ExitCode {
    let recorded = Record::read();
    let now = Record::of(count());
    if !recorded.is_comparable(&now) {
        println!("not compared: the record is of {recorded}, this is {now}; record it again with -- --record");
        return ExitCode::SUCCESS;
    }
    let changes = recorded.changes(&now);
    for change in &changes {
        println!("{change}");
    }
    if changes.iter().any(record::Change::is_worse) {
        println!("if that is meant: make instructions RECORD=yes, and say why in the commit");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
