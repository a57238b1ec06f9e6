//! `make bench-kubernetes`: how soon a pod's volumes are mounted by the stock kubelet, by the stock
//! kubelet with `csi-serve`, and by volhost's own node, in one cluster on one machine.
//!
//! Prints a Markdown table, and writes the same as JSON into the file that it is given. One observer
//! looks at all three: at the folders and mounts of pods' volumes, every millisecond. A pod whose
//! start is timed names a RuntimeClass that no runtime serves: its volumes are mounted and no
//! container is started, on either node.
//!
//! | variable | default | |
//! |---|---|---|
//! | `VOLHOST_BENCH_ROUNDS` | 20 | pods whose start is timed one by one, for each of the three |
//! | `VOLHOST_BENCH_PODS` | 100 | pods that are created at once |
//! | `VOLHOST_BENCH_RESTARTS` | 3 | times that each node's program is killed and started |
//! | `VOLHOST_BENCH_IDLE_SECONDS` | 30 | how long idle nodes are watched |
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark may panic, and rounds its figures"
)]

mod observer;
mod pods;
mod process;
mod report;
mod side;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use process::Usage;
use report::Report;
use side::Side;
use world::World;

/// How many pods have the volumes that are mounted while a node is restarted, and is idle.
const WIDE_PODS: usize = 100;
/// How many volumes each of these has.
const WIDE_VOLUMES: usize = 10;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("usage: cluster-bench FILE.json; `make bench-kubernetes` builds for release and runs this");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    let mut report = Report::new();
    let mut world = World::start();
    let idle = Duration::from_secs(setting("VOLHOST_BENCH_IDLE_SECONDS", 30) as u64);
    measure_idle(&world, idle, "no pod", &mut report);
    measure_one_by_one(&world, &mut report);
    measure_at_once(&world, &mut report);
    mount_many(&world);
    measure_idle(&world, idle, "1,000 volumes of 100 pods", &mut report);
    measure_restarts(&mut world, &mut report);
    drop(world);
    report.print();
    std::fs::write(&file, report.json()).expect("the result is written");
    eprintln!("{:.0} s; {} has the figures", begun.elapsed().as_secs_f64(), file.display());
    ExitCode::SUCCESS
}

/// One pod after another, the three sides in turn, each until nothing of it is left.
fn measure_one_by_one(world: &World, report: &mut Report) {
    let rounds = setting("VOLHOST_BENCH_ROUNDS", 20);
    let mut times = Side::ALL.map(|_| Vec::new());
    for round in 0..rounds {
        for (side, times) in Side::ALL.into_iter().zip(&mut times) {
            let name = format!("one-{}-{round}", side.word());
            let begun = Instant::now();
            let pod = world.create(&pods::timed(world, side, &name), side, &name);
            observer::wait_mounted(world, &pod);
            times.push(begun.elapsed());
            world.delete(&pod);
            observer::wait_gone(world, &pod);
        }
    }
    report.add_times("one pod: created to its volumes mounted", times);
}

/// Many pods at once, one side after the other.
fn measure_at_once(world: &World, report: &mut Report) {
    let count = setting("VOLHOST_BENCH_PODS", 100);
    let times = Side::ALL.map(|side| {
        let (times, pods) = observer::time_at_once(world, side, count);
        for pod in &pods {
            world.delete(pod);
        }
        for pod in &pods {
            observer::wait_gone(world, pod);
        }
        times
    });
    let whole = times.each_ref().map(|times| vec![times.whole]);
    report.add_times(
        &format!("{count} pods at once: each created to its volumes mounted"),
        times.map(|times| times.each),
    );
    report.add_times(&format!("{count} pods at once: the first created to the last mounted"), whole);
}

/// Mounts the same volumes on both nodes, and leaves them.
fn mount_many(world: &World) {
    for side in Side::NODES {
        let names = (0..WIDE_PODS).map(|number| format!("wide-{}-{number}", side.word()));
        let pods: Vec<_> =
            names.map(|name| world.create(&pods::wide(world, side, &name, WIDE_VOLUMES), side, &name)).collect();
        for pod in &pods {
            observer::wait_mounted(world, pod);
        }
    }
    world.wait_running("wide-kubelet");
}

/// What each node's programs take while nothing happens.
fn measure_idle(world: &World, time: Duration, with: &str, report: &mut Report) {
    let (begun, before) = (Instant::now(), Side::NODES.map(|side| Usage::of(&world.processes(side))));
    while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
    let time = begun.elapsed();
    let after = Side::NODES.map(|side| Usage::of(&world.processes(side)));
    let mut shares = Vec::new();
    for (before, after) in before.iter().zip(&after) {
        shares.push((after.cpu - before.cpu).as_secs_f64() / time.as_secs_f64() * 100.0);
    }
    report.add_nodes(&format!("idle with {with}: of a core"), "%", &shares);
    report.add_nodes(&format!("idle with {with}: resident"), "MiB", &after.map(|usage| usage.resident_mib));
}

/// Kills each node's program while its volumes are mounted, and starts it: until it serves, and
/// until a pod that was created meanwhile has its volumes.
fn measure_restarts(world: &mut World, report: &mut Report) {
    let restarts = setting("VOLHOST_BENCH_RESTARTS", 3);
    let (mut serving, mut mounted) = (Side::NODES.map(|_| Vec::new()), Side::NODES.map(|_| Vec::new()));
    for restart in 0..restarts {
        for (index, side) in Side::NODES.into_iter().enumerate() {
            let name = format!("restart-{}-{restart}", side.word());
            world.kill(side);
            let pod = world.create(&pods::timed(world, side, &name), side, &name);
            let begun = Instant::now();
            world.start_again(side);
            serving[index].push(begun.elapsed());
            observer::wait_mounted(world, &pod);
            mounted[index].push(begun.elapsed());
            world.delete(&pod);
            observer::wait_gone(world, &pod);
        }
    }
    report.add_node_times("killed with 1,000 volumes and started: until it serves", serving);
    report.add_node_times("the same: until a pod that was created meanwhile has its volumes", mounted);
}

/// A number from the environment, or the default.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
}
