//! volhost's benchmark: the daemon as users run it, and bare system calls for comparison. `make
//! bench` runs it.
//!
//! Runs in a mount namespace of its own, on a tmpfs. What it prints is a Markdown table;
//! docs/benchmarks.md says how to read it.
//!
//! | variable | default | |
//! |---|---|---|
//! | `VOLHOST_BENCH_PODS` | 300 | pods whose start is timed one by one |
//! | `VOLHOST_BENCH_PAYLOAD_PODS` | 1000 | pods under one config map that is updated |
//! | `VOLHOST_BENCH_RECOVERED` | 10000 | volumes that are mounted when the daemon is killed |
//! | `VOLHOST_BENCH_MOUNTS` | 40000 | volumes mounted in the end |
//! | `VOLHOST_BENCH_CSI_CALLS` | 500 | publications by a plugin that is served as a CSI driver, and as many through the plugin `csi` |
//! | `VOLHOST_BENCH_CSI_AGAINST` | | the command of another driver to compare with: FOLDER in it is a folder, and it listens at FOLDER/csi.sock |
//! | `VOLHOST_BENCH_CSI_ALONE` | | set: nothing else is measured |
//! | `VOLHOST_BENCH_IDLE_SECONDS` | 60 | how long it watches an idle daemon |
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
mod hostile;
mod latency;
mod payload;
mod plugin_calls;
mod raw;
mod recovery;
mod report;
mod scale;
mod sub_paths;

use std::os::unix::process::CommandExt;
use std::process::Command;

use report::Report;

/// Set in the inner run, which has a mount namespace of its own.
const INSIDE: &str = "VOLHOST_BENCH_INSIDE";

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        let own = std::env::current_exe().expect("the benchmark has a path");
        let error =
            Command::new("unshare").args(["--mount", "--propagation", "private"]).arg(own).env(INSIDE, "1").exec();
        panic!("unshare (util-linux, root) does not run: {error}");
    }
    // In memory, so that the disk's own work is neither measured nor in the way.
    let scratch = tempfile::tempdir().expect("a folder");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "bench"]).arg(scratch.path()).status().expect("mount runs");
    assert!(mounted.success(), "no tmpfs can be mounted");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut report = Report::new();
    let alone = std::env::var_os("VOLHOST_BENCH_CSI_ALONE").is_some();
    if !alone {
        plugin_calls::measure(&mut report, scratch.path());
    }
    runtime.block_on(async {
        csi_serve::measure(&mut report, scratch.path()).await;
        csi_client::measure(&mut report, scratch.path()).await;
        if alone {
            return;
        }
        hostile::measure(&mut report, scratch.path()).await;
        latency::measure(&mut report, scratch.path()).await;
        payload::measure(&mut report, scratch.path()).await;
        recovery::measure(&mut report, scratch.path()).await;
        sub_paths::measure(&mut report, scratch.path()).await;
        scale::measure(&mut report, scratch.path()).await;
    });
    let unmounted = Command::new("umount").arg("--lazy").arg(scratch.path()).status().expect("umount runs");
    assert!(unmounted.success(), "the benchmark's tmpfs cannot be unmounted");
    report.print();
}

/// A number from the environment, or the default.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
}
