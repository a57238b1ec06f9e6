//! A pod with many parts of one volume (subPath): how long it takes to be ready, and to be gone.

use std::path::Path;
use std::time::Instant;

use crate::daemon::Daemon;
use crate::report::{Report, Times};

/// Parts of the pod's one volume.
const PARTS: usize = 500;
/// How often each figure is taken.
const ROUNDS: usize = 10;

fn pod(round: usize) -> String {
    let mounts: Vec<String> =
        (0..PARTS).map(|part| format!(r#"{{"name":"v","mountPath":"/v/{part}","subPath":"part-{part}"}}"#)).collect();
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"parts-{round}"}},"spec":{{"containers":[{{"name":"main","image":"none","volumeMounts":[{}]}}],"volumes":[{{"name":"v","emptyDir":{{}}}}]}}}}"#,
        mounts.join(",")
    )
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let mut daemon = Daemon::start(folder.path()).await;
    let (mut shown, mut gone) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let text = pod(round);
        let begun = Instant::now();
        let uid = daemon.add(text).await.remove(0);
        daemon.wait_mounted(&uid).await;
        shown.push(begun.elapsed());
        let begun = Instant::now();
        daemon.remove(&uid).await;
        gone.push(begun.elapsed());
    }
    let (shown, gone) = (Times::new(shown), Times::new(gone));
    let id = format!("sub-paths-{PARTS}");
    report.add_times(&format!("{id}-ready"), &format!("pod with {PARTS} sub-paths: API call to ready"), &shown);
    report.add_times(&format!("{id}-gone"), "the same pod removed to nothing left", &gone);
    daemon.drain().await;
    daemon.end().await;
}
