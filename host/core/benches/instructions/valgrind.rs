//! Counting instructions: valgrind runs this very program with one workload.

use std::process::Command;

/// Returns the instructions of one round of the workload with this name: the difference between
/// runs of twice and of once its rounds, so that neither the program's start nor the workload's
/// preparation counts.
pub(crate) fn per_round(workload: &str, rounds: u64) -> u64 {
    let (few, many) = (of(workload, rounds), of(workload, 2 * rounds));
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
