//! Pods of one to many volumes: what one of the volumes costs.

use std::path::Path;
use std::time::Instant;

use volhost_tests::benchmark::Figure;

use crate::daemon::Daemon;
use crate::latency::own_mount;
use crate::raw;
use crate::report::{Report, Times};
use crate::scale::pod;

/// Volumes of a pod, and how many such pods are timed.
const WIDTHS: [(usize, usize); 5] = [(1, 200), (10, 100), (50, 40), (100, 20), (500, 10)];

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");
    let mut daemon = Daemon::start(folder.path()).await;
    for (volumes, rounds) in WIDTHS {
        let mut ready = Vec::new();
        for round in 0..rounds {
            let text = pod(volumes * 1000 + round, volumes, &source.display().to_string());
            let begun = Instant::now();
            let uid = daemon.add_and_wait(text).await;
            ready.push(begun.elapsed());
            daemon.remove(&uid).await;
        }
        let bare_root = folder.path().join(format!("bare-{volumes}"));
        std::fs::create_dir(&bare_root).expect("a folder");
        own_mount(&bare_root);
        let bare = Times::new(raw::wide_pods(&bare_root, &source, volumes, rounds)).median();
        raw::unmount_all(&bare_root);
        let each = Times::new(ready).median().div_f64(volumes as f64);
        let what = format!("API call to ready of a pod's bind volumes, for one of {volumes}");
        let figure = Figure::new(format!("wide-{volumes}"), what, each);
        report.add(figure.beside("a bare loop", bare.div_f64(volumes as f64)));
    }
    daemon.drain().await;
    daemon.end().await;
}
