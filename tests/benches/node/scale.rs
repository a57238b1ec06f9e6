//! Many volumes: ten bind mounts a pod, up to 40,000; the speed beside a bare loop's; the cost and
//! the memory as their number grows; where a volume's processor time goes; an idle daemon with all
//! of them; and their unmounting.

use std::path::Path;
use std::time::{Duration, Instant};

use volhost_tests::benchmark::{Figure, Measured, number};

use crate::daemon::{Cpu, Daemon, Memory};
use crate::latency::own_mount;
use crate::options::Sizes;
use crate::raw;
use crate::report::Report;

/// Pods in one request: a node's whole manifest folder is read at once, too.
pub(crate) const PODS_A_REQUEST: usize = 100;
pub(crate) const VOLUMES_A_POD: usize = 10;
/// The name of the threads that run operations.
const OPERATIONS: &str = "volhost-op";
/// The number of volumes that a bare loop mounts, too.
const COMPARED: usize = 10_000;
/// What the daemon puts off until it has time is done after this, and is no part of the idle figure.
const SETTLING: Duration = Duration::from_secs(5);
/// The numbers of volumes at which the cost of one more, and the memory, are reported.
const CURVE: [usize; 4] = [100, 1_000, 10_000, 40_000];

/// A request's pods, numbered from `first`, each with its volumes, all of one folder.
pub(crate) fn manifest(first: usize, pods: usize, source: &str) -> String {
    let pods: Vec<String> = (first..first + pods).map(|number| pod(number, VOLUMES_A_POD, source)).collect();
    format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, pods.join(","))
}

/// A pod with this many volumes of one folder.
pub(crate) fn pod(number: usize, volumes: usize, source: &str) -> String {
    let mounts: Vec<String> = (0..volumes).map(|v| format!(r#"{{"name":"v{v}","mountPath":"/v{v}"}}"#)).collect();
    let volumes: Vec<String> =
        (0..volumes).map(|v| format!(r#"{{"name":"v{v}","hostPath":{{"path":"{source}"}}}}"#)).collect();
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"scale-{number}"}},"spec":{{"containers":[{{"name":"main","image":"none","volumeMounts":[{}]}}],"volumes":[{}]}}}}"#,
        mounts.join(","),
        volumes.join(",")
    )
}

/// What has been used when this many volumes are mounted.
struct Reached {
    volumes: usize,
    /// Volumes of the last request, and its time.
    last: (usize, Duration),
    /// Since the first.
    wall: Duration,
    cpu: Cpu,
    operations: Duration,
    memory: Memory,
}

/// `total` for one of `count`.
fn each(total: Duration, count: usize) -> Duration {
    total.div_f64(count as f64)
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path, sizes: &Sizes) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");

    let bare_root = folder.path().join("bare");
    std::fs::create_dir(&bare_root).expect("a folder");
    own_mount(&bare_root);
    let bare_before = raw::cpu();
    let bare_mounts = raw::binds(&bare_root, &source, COMPARED);
    let bare_cpu = raw::cpu() - bare_before;
    let bare_unmounts = raw::unbinds(&bare_root, COMPARED);
    raw::unmount_all(&bare_root);

    let mut daemon = Daemon::start(folder.path()).await;
    let (cpu_before, operations_before) = (daemon.cpu(), daemon.cpu_of_threads(OPERATIONS));
    let (mut wall, mut mounted) = (Duration::ZERO, 0);
    while mounted < sizes.mounts {
        // The first hundred, the first thousand, and a thousand at a time.
        let next = if mounted == 0 { CURVE[0] } else { (mounted / 1000 + 1) * 1000 };
        let pods = (next - mounted) / VOLUMES_A_POD;
        let text = manifest(mounted / VOLUMES_A_POD, pods, &source.display().to_string());
        let begun = Instant::now();
        for uid in daemon.add(text).await {
            daemon.wait_mounted(&uid).await;
        }
        let took = begun.elapsed();
        wall += took;
        let last = (next - mounted, took);
        mounted = next;
        if !CURVE.contains(&mounted) {
            continue;
        }
        let reached = Reached {
            volumes: mounted,
            last,
            wall,
            cpu: daemon.cpu() - cpu_before,
            operations: daemon.cpu_of_threads(OPERATIONS) - operations_before,
            memory: daemon.memory(),
        };
        curve(report, &reached);
        if mounted == COMPARED {
            speed(report, &reached, bare_mounts);
            parts(report, &reached, bare_cpu);
            idle(report, &daemon, sizes.idle).await;
        }
    }
    let begun = Instant::now();
    daemon.drain().await;
    let drained = each(begun.elapsed(), sizes.mounts);
    let what = format!("drain of {} volumes, for one", number(sizes.mounts));
    let figure = Figure::new(format!("drain-{}", sizes.mounts), what, drained);
    report.add(figure.beside("a bare loop with umount2", each(bare_unmounts, COMPARED)));
    daemon.end().await;
}

/// One more volume among so many.
fn curve(report: &mut Report, reached: &Reached) {
    let volumes = reached.volumes;
    let (count, took) = reached.last;
    let figure =
        Figure::new(format!("cost-{volumes}"), format!("a volume more among {}", number(volumes)), each(took, count));
    // The first thousand are what more of them are compared with.
    let first = report.value_of("cost-1000");
    report.add(match first {
        Some(first) => figure.beside("among 1,000", first).aim_ratio(1.5),
        None => figure,
    });
    let (id, what) = (format!("memory-{volumes}"), format!("resident memory with {} volumes", number(volumes)));
    report.add_memory(&id, &what, reached.memory, (volumes == COMPARED).then_some(40.0));
}

fn speed(report: &mut Report, reached: &Reached, bare: Duration) {
    let rate = |time: Duration| Measured::per_second(COMPARED as f64 / time.as_secs_f64());
    let what = format!("{} bind volumes of {} pods", number(COMPARED), number(COMPARED / VOLUMES_A_POD));
    let figure = Figure::new(format!("bind-{COMPARED}-rate"), what, rate(reached.wall));
    report.add(figure.beside("a bare loop", rate(bare)).aim_ratio(0.5));
}

/// Where the processor time of a volume goes.
fn parts(report: &mut Report, reached: &Reached, bare: Duration) {
    let cpu = reached.cpu;
    let others = cpu.all().saturating_sub(reached.operations);
    let what = "processor time of one of them";
    let figure = Figure::new("cpu-volume", what, each(cpu.all(), COMPARED));
    report.add(figure.beside("a bare loop", each(bare, COMPARED)));
    let what = "of it in the kernel, the mount itself included";
    let figure = Figure::new("cpu-volume-kernel", what, each(cpu.kernel, COMPARED));
    report.add(figure.beside("a bare loop", each(bare, COMPARED)));
    let what = "of it on the threads of operations: sandbox, system calls, records";
    report.add(Figure::new("cpu-volume-operations", what, each(reached.operations, COMPARED)));
    let what = "of it on the others: API, sources, state machine";
    report.add(Figure::new("cpu-volume-loop", what, each(others, COMPARED)).aim(Duration::from_micros(10)));
}

async fn idle(report: &mut Report, daemon: &Daemon, time: Duration) {
    tokio::time::sleep(SETTLING).await;
    let before = daemon.cpu();
    tokio::time::sleep(time).await;
    let used = (daemon.cpu() - before).all();
    let (id, what) = (format!("idle-{COMPARED}-cpu"), format!("idle with {} volumes", number(COMPARED)));
    let figure = Figure::new(id, what, Measured::percent_of_core(used, time));
    report.add(figure.aim(Measured::percent(0.5)));
}
