//! Counting instructions: valgrind runs this very program with one workload.

use std::process::Command;

use crate::counting::Workload;

/// Returns the instructions of one round of the workload: the difference between runs of twice and
/// of once its rounds, so that neither the program's start nor the workload's preparation counts.
pub(crate) fn per_round(workload: &Workload) -> u64 {
    let rounds = workload.rounds;
    let (few, many) = (of(workload.name, rounds), of(workload.name, 2 * rounds));
    many.saturating_sub(few) / rounds
}

fn of(workload: &str, rounds: u64) -> u64 {
    let this = std::env::current_exe().expect("the program has a path");
    let run = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(this)
        .args(["--run", workload, &rounds.to_string()])
        .output()
        .expect("valgrind (Debian package valgrind) runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{workload}: {said}");
    let count = said.lines().find_map(|line| line.split_once("I   refs:")).expect("valgrind has counted");
    count.1.replace(',', "").trim().parse().expect("a count")
}
