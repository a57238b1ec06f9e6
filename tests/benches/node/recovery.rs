//! A daemon that is killed with many volumes mounted: how long until the next one serves and knows
//! every volume as mounted, and that it mounts none again.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::daemon::Daemon;
use crate::report::{Report, Times};
use crate::scale::{PODS_A_REQUEST, VOLUMES_A_POD, manifest};
use crate::setting;

/// Deaths that the figures are taken over.
const ROUNDS: usize = 5;

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let volumes = setting("VOLHOST_BENCH_RECOVERED", 10_000);
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");
    let mut daemon = Daemon::start(folder.path()).await;
    let mut uids = Vec::new();
    for mounted in (0..volumes).step_by(PODS_A_REQUEST * VOLUMES_A_POD) {
        uids.extend(daemon.add(manifest(mounted / VOLUMES_A_POD, &source.display().to_string())).await);
    }
    for uid in &uids {
        daemon.wait_mounted(uid).await;
    }
    let (mut ready, mut known, mut operations) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..ROUNDS {
        daemon.kill();
        let begun = Instant::now();
        daemon = Daemon::start_again(folder.path()).await;
        ready.push(begun.elapsed());
        for uid in &uids {
            daemon.wait_mounted(uid).await;
        }
        known.push(begun.elapsed());
        operations += daemon.operations();
    }
    let ms = |times: Vec<Duration>| format!("{:.0} ms", Times::new(times).median().as_secs_f64() * 1e3);
    report.add(
        format!("killed with {volumes} volumes of {} pods, and started again: until it serves", uids.len()),
        ms(ready),
        "process start, plugins and recovery included",
    );
    report.add(
        "the same: until it has answered for each pod that it is mounted".to_owned(),
        ms(known),
        format!("a call a pod; {operations} operations"),
    );
    let memory = daemon.memory_mib();
    report.add("resident memory after that start", format!("{memory:.1} MiB"), "");
    daemon.drain().await;
    daemon.end();
}
