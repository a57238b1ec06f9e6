//! A daemon that is killed with many volumes mounted: how long until the next one serves and knows
//! every volume as mounted, and that it mounts none again.

use std::path::Path;
use std::time::{Duration, Instant};

use volhost_kernel::Kernel;
use volhost_process::linux_kernel;
use volhost_tests::benchmark::{Figure, number};

use crate::daemon::Daemon;
use crate::options::Sizes;
use crate::report::{Report, Times};
use crate::scale::{PODS_A_REQUEST, VOLUMES_A_POD, manifest};

/// Deaths that the figures are taken over.
const ROUNDS: usize = 5;

pub(crate) async fn measure(report: &mut Report, scratch: &Path, sizes: &Sizes) {
    let volumes = sizes.recovered;
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");
    let mut daemon = Daemon::start(folder.path()).await;
    let mut uids = Vec::new();
    for mounted in (0..volumes).step_by(PODS_A_REQUEST * VOLUMES_A_POD) {
        let text = manifest(mounted / VOLUMES_A_POD, PODS_A_REQUEST, &source.display().to_string());
        uids.extend(daemon.add(text).await);
    }
    for uid in &uids {
        daemon.wait_mounted(uid).await;
    }
    let (mut bare, mut serves, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        daemon.kill();
        bare.push(table_read(&folder.path().join("root"), volumes));
        let begun = Instant::now();
        daemon = Daemon::serve(folder.path()).await;
        serves.push(begun.elapsed());
        for uid in &uids {
            daemon.wait_mounted(uid).await;
        }
        known.push(begun.elapsed());
        assert!(daemon.operations() == 0.0, "what is mounted is mounted again");
    }
    let [bare, serves, known] = [bare, serves, known].map(|times| Times::new(times).median());
    let (all, pods) = (number(volumes), number(uids.len()));
    let what = format!("killed with {all} volumes of {pods} pods, and started again: until it serves");
    let figure = Figure::new(format!("recovery-{volumes}"), what, serves).beside("statmount of them all", bare);
    report.add(figure.aim(Duration::from_millis(150)));
    let what = "the same: until it has answered for each pod, a call each, that it is mounted";
    report.add(Figure::new(format!("recovery-{volumes}-answered"), what, known));
    let id = format!("memory-{volumes}-recovered");
    report.add_memory(&id, "resident memory after that start", daemon.memory(), None);
    daemon.drain().await;
    daemon.end().await;
}

/// How long the kernel takes to list the mounts below a folder, with all that volhost reads of each.
fn table_read(root: &Path, least: usize) -> Duration {
    let kernel = linux_kernel();
    let root = kernel.open_directory(root).expect("the folder opens");
    let begun = Instant::now();
    let mounts = kernel.mounts_below(&root).expect("the mount table is read");
    let took = begun.elapsed();
    assert!(mounts.len() >= least, "{} mounts of {least}", mounts.len());
    took
}
