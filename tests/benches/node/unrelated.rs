//! What many volumes that are being mounted cost a pod that has nothing to do with them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use volhost_tests::benchmark::{Figure, number};

use crate::daemon::{Api, Daemon};
use crate::options::Sizes;
use crate::probe::small_pods;
use crate::report::{Report, Times, tail};
use crate::scale::{PODS_A_REQUEST, VOLUMES_A_POD, manifest};

/// Pods that are timed before the many volumes come.
const ALONE: usize = 200;

pub(crate) async fn measure(report: &mut Report, scratch: &Path, sizes: &Sizes) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");
    let mut daemon = Daemon::start(folder.path()).await;
    let alone = Times::new(small_pods(&mut daemon, "alone", |done| done < ALONE).await);

    // Another client on a thread of its own, so that it waits for the daemon and for nothing else.
    let (socket, mounting) = (daemon.socket().to_owned(), Arc::new(AtomicBool::new(true)));
    let goes_on = mounting.clone();
    let probing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut api = Api::connect(&socket).await;
            small_pods(&mut api, "beside", |_| goes_on.load(Ordering::Relaxed)).await
        })
    });
    for mounted in (0..sizes.mounts).step_by(PODS_A_REQUEST * VOLUMES_A_POD) {
        let text = manifest(mounted / VOLUMES_A_POD, PODS_A_REQUEST, &source.display().to_string());
        for uid in daemon.add(text).await {
            daemon.wait_mounted(&uid).await;
        }
    }
    mounting.store(false, Ordering::Relaxed);
    let beside = Times::new(probing.join().expect("the other client ends"));
    daemon.drain().await;
    daemon.end().await;

    let id = format!("unrelated-{}", sizes.mounts);
    let what = format!("pod of one volume ready while {} others are mounted", number(sizes.mounts));
    report.add(Figure::new(&id, &what, beside.median()).beside("alone", alone.median()));
    let figure = tail(&id, &what, beside.p99()).beside("alone", alone.p99());
    report.add(figure.aim(Duration::from_millis(5)));
}
