//! volhost's benchmark: the daemon as users run it, and bare system calls for comparison. `make
//! bench` runs it.
//!
//! Runs in a mount namespace of its own, on a tmpfs. It prints the figures as a Markdown table,
//! writes them to `target/bench.json`, and compares them with `recorded.json` beside this file.
//! docs/benchmarks.md says how to read them.
//!
//! | argument | `make bench` | |
//! |---|---|---|
//! | `--full` | `FULL=yes` | up to 40,000 volumes and a million files, an idle minute, and volumes that fail |
//! | `--only SECTION` | `ONLY=SECTION` | one section alone |
//! | `--record` | `RECORD=yes` | replaces the record and the table in docs/benchmarks.md; implies `FULL=yes` there |
//! | `--check` | `CHECK=yes` | the exit status is 1 if a figure got worse by more than its margin |
//! | `--profile` | | `make profile`: nothing is compared, but 10,000 volumes are mounted under `perf` |
//!
//! `VOLHOST_BENCH_CSI_AGAINST` names the command of another CSI driver to compare `csi-serve` with:
//! FOLDER in it is a folder, and it listens at FOLDER/csi.sock.
//!
//! The exit status is 0 even if an aim is missed or a figure got worse; it is 1 if a section could
//! not be measured. The other sections are measured nevertheless.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "a benchmark may panic, and rounds its figures"
)]

mod csi_adapter;
mod csi_client;
mod csi_serve;
mod daemon;
mod failing;
mod hostile;
#[allow(dead_code, unreachable_pub, reason = "it is a part of the scenarios' kit")]
#[path = "../../../host/core/tests/scenarios/kit.rs"]
mod kit;
mod latency;
mod noise;
mod options;
mod outcome;
mod ownership;
mod payload;
mod plugin_calls;
mod probe;
mod profile;
mod raw;
mod recovery;
mod report;
mod scale;
mod sections;
mod start;
mod state_machine;
mod sub_paths;
mod unrelated;
mod wide;

use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use volhost_tests::benchmark::Run;

use noise::Noise;
use options::Options;
use report::Report;
use sections::{SECTIONS, Section};

/// Set in the inner run, which has a mount namespace of its own.
const INSIDE: &str = "VOLHOST_BENCH_INSIDE";

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("benchmark: {error}");
            return ExitCode::from(2);
        }
    };
    if std::env::var_os(INSIDE).is_none() {
        let own = std::env::current_exe().expect("the benchmark has a path");
        let mut inner = Command::new("unshare");
        inner.args(["--mount", "--propagation", "private"]).arg(own).args(std::env::args_os().skip(1));
        let error = inner.env(INSIDE, "1").exec();
        panic!("unshare (util-linux, root) does not run: {error}");
    }
    // In memory, so that the disk's own work is neither measured nor in the way.
    let scratch = tempfile::tempdir().expect("a folder");
    // Files cost memory only while they are there: a million of them must not end at a limit.
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "nr_inodes=0", "bench"])
        .arg(scratch.path())
        .status()
        .expect("mount runs");
    assert!(mounted.success(), "no tmpfs can be mounted");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let code = if options.profile {
        runtime.block_on(profile::run(&options, scratch.path()))
    } else {
        measure(&options, &runtime, scratch.path())
    };
    let unmounted = Command::new("umount").arg("--lazy").arg(scratch.path()).status().expect("umount runs");
    assert!(unmounted.success(), "the benchmark's tmpfs cannot be unmounted");
    code
}

/// Measures what is asked for, and reports it.
fn measure(options: &Options, runtime: &tokio::runtime::Runtime, scratch: &Path) -> ExitCode {
    let (begun, sizes) = (Instant::now(), options.sizes());
    let is_wanted = |section: &Section| match options.only {
        Some(only) => *section == only,
        None => options.full || !section.is_long(),
    };
    let (mut report, mut noise, mut failed) = (Report::default(), Noise::default(), Vec::new());
    for section in SECTIONS.iter().copied().filter(is_wanted) {
        noise.sample(scratch);
        eprintln!("--- {}", section.name());
        let measured =
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(section.measure(&mut report, scratch, &sizes))));
        if measured.is_err() {
            failed.push(section.name());
        }
    }
    noise.sample(scratch);
    let run = Run::of(report.into_figures(), noise.share(), begun.elapsed(), !cfg!(debug_assertions));
    outcome::report(&run, options, &failed)
}
