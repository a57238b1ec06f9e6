//! Many volumes: ten bind mounts a pod, up to 40,000; the share of a bare loop's speed; the cost as
//! their number grows; an idle daemon with all of them.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::daemon::Daemon;
use crate::latency::own_mount;
use crate::raw;
use crate::report::{Report, us};
use crate::setting;

/// Pods in one request: a node's whole manifest folder is read at once, too.
pub(crate) const PODS_A_REQUEST: usize = 100;
pub(crate) const VOLUMES_A_POD: usize = 10;
/// The volumes that one figure of the cost by number is taken over.
const WINDOW: usize = PODS_A_REQUEST * VOLUMES_A_POD;

/// A request's pods, each with its volumes, all of one folder.
pub(crate) fn manifest(first: usize, source: &str) -> String {
    let pod = |pod: usize| {
        let mounts: Vec<String> =
            (0..VOLUMES_A_POD).map(|v| format!(r#"{{"name":"v{v}","mountPath":"/v{v}"}}"#)).collect();
        let volumes: Vec<String> =
            (0..VOLUMES_A_POD).map(|v| format!(r#"{{"name":"v{v}","hostPath":{{"path":"{source}"}}}}"#)).collect();
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"scale-{pod}"}},"spec":{{"containers":[{{"name":"main","image":"none","volumeMounts":[{}]}}],"volumes":[{}]}}}}"#,
            mounts.join(","),
            volumes.join(",")
        )
    };
    let pods: Vec<String> = (first..first + PODS_A_REQUEST).map(pod).collect();
    format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, pods.join(","))
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let most = setting("VOLHOST_BENCH_MOUNTS", 40_000);
    let idle_for = Duration::from_secs(setting("VOLHOST_BENCH_IDLE_SECONDS", 60) as u64);
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");

    let compared = most.min(10_000);
    let bare_root = folder.path().join("bare");
    std::fs::create_dir(&bare_root).expect("a folder");
    own_mount(&bare_root);
    let bare = raw::binds(&bare_root, &source, compared);
    raw::unmount_all(&bare_root);

    let mut daemon = Daemon::start(folder.path()).await;
    let mut windows = Vec::new();
    let mut uids = Vec::new();
    for mounted in (0..most).step_by(WINDOW) {
        let text = manifest(mounted / VOLUMES_A_POD, &source.display().to_string());
        let begun = Instant::now();
        let added = daemon.add(text).await;
        for uid in &added {
            daemon.wait_mounted(uid).await;
        }
        windows.push(begun.elapsed());
        uids.extend(added);
        if mounted + WINDOW == compared {
            idle(report, &daemon, compared, idle_for).await;
        }
    }
    let until = |volumes: usize| windows.iter().take(volumes / WINDOW).sum::<Duration>();
    let rate = |time: Duration| compared as f64 / time.as_secs_f64();
    let own = until(compared);
    report.add(
        format!("{compared} bind volumes over {} pods: volumes a second", compared / VOLUMES_A_POD),
        format!("{:.0} ({:.0} % of the bare loop)", rate(own), 100.0 * rate(own) / rate(bare)),
        format!("bare loop {:.0} ({} a mount)", rate(bare), us(bare / u32::try_from(compared).expect("it fits"))),
    );
    let window =
        |upto: usize| windows.get(upto / WINDOW - 1).map(|time| *time / u32::try_from(WINDOW).expect("it fits"));
    let first = window(WINDOW).expect("there is one");
    for upto in [WINDOW, 10_000, 40_000] {
        if let Some(cost) = window(upto) {
            report.add(
                format!("cost of a volume among {upto}"),
                format!("{} ({:.2} x the first thousand)", us(cost), cost.as_secs_f64() / first.as_secs_f64()),
                "aim: within 1.5 x",
            );
        }
    }
    report.add(format!("resident memory with {most} volumes"), format!("{:.1} MiB", daemon.memory_mib()), "");
    let begun = Instant::now();
    daemon.drain().await;
    let drained = begun.elapsed();
    report.add(
        format!("drain of {most} volumes"),
        format!("{:.1} s", drained.as_secs_f64()),
        us(drained / u32::try_from(most).expect("it fits")) + " a volume",
    );
    daemon.end();
}

async fn idle(report: &mut Report, daemon: &Daemon, volumes: usize, time: Duration) {
    let before = daemon.cpu();
    tokio::time::sleep(time).await;
    let used = daemon.cpu() - before;
    report.add(
        format!("idle with {volumes} volumes over {} s", time.as_secs()),
        format!(
            "{:.3} % of a core, {:.1} MiB resident",
            100.0 * used.as_secs_f64() / time.as_secs_f64(),
            daemon.memory_mib()
        ),
        "aim: under 0.5 %, under 100 MiB",
    );
}
