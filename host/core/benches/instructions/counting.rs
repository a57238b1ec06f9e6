//! The program: counts its workloads, and compares with the record or replaces it. Another crate's
//! workloads are counted by the same file.

use std::process::ExitCode;

use crate::record::{Change, Record};
use crate::valgrind;

/// A part of the work, repeated.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// A number of rounds that takes some tenths of a second under valgrind.
    pub(crate) rounds: u64,
    pub(crate) run: fn(u64),
}

/// Does what the arguments say.
pub(crate) fn main(workloads: &'static [Workload]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        ["--run", name, rounds] => {
            let workload = workloads.iter().find(|workload| workload.name == name).expect("it has such a workload");
            (workload.run)(rounds.parse().expect("a number"));
            ExitCode::SUCCESS
        }
        [] => compare(workloads),
        ["--record"] => {
            Record::of(count(workloads)).write();
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("instructions: nothing, or --record, is expected after --");
            ExitCode::from(2)
        }
    }
}

fn count(workloads: &'static [Workload]) -> Vec<(&'static str, u64)> {
    let mut counted = Vec::new();
    for workload in workloads {
        let instructions = valgrind::per_round(workload.name, workload.rounds);
        println!("{:>12} instructions  {}", instructions, workload.name);
        counted.push((workload.name, instructions));
    }
    counted
}

fn compare(workloads: &'static [Workload]) -> ExitCode {
    let recorded = Record::read();
    let now = Record::of(count(workloads));
    if !recorded.is_comparable(&now) {
        println!("not compared: the record is of {recorded}, this is {now}; record it again with -- --record");
        return ExitCode::SUCCESS;
    }
    let changes = recorded.changes(&now);
    for change in &changes {
        println!("{change}");
    }
    if changes.iter().any(Change::is_worse) {
        println!("if that is meant: make instructions RECORD=yes, and say why in the commit");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
