//! From the API call to a pod's three volumes ready: emptyDir, tmpfs, hostPath.

use std::path::Path;
use std::time::{Duration, Instant};

use volhost_tests::benchmark::{Figure, Measured};

use crate::daemon::Daemon;
use crate::options::Sizes;
use crate::raw;
use crate::report::{Report, Times, tail};

fn manifest(pod: usize, source: &str) -> String {
    // Without line breaks, as programs send it.
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"latency-{pod}"}},"spec":{{
        "containers":[{{"name":"main","image":"none","volumeMounts":[
            {{"name":"scratch","mountPath":"/a"}},{{"name":"fast","mountPath":"/b"}},{{"name":"data","mountPath":"/c"}}]}}],
        "volumes":[{{"name":"scratch","emptyDir":{{}}}},{{"name":"fast","emptyDir":{{"medium":"Memory","sizeLimit":"1Mi"}}}},
            {{"name":"data","hostPath":{{"path":"{source}"}}}}]}}}}"#
    );
    text.replace('\n', "")
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path, sizes: &Sizes) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");

    let bare_root = folder.path().join("bare");
    std::fs::create_dir(&bare_root).expect("a folder");
    own_mount(&bare_root);
    let bare = Times::new(raw::pods(&bare_root, &source, sizes.pods));
    raw::unmount_all(&bare_root);

    let mut daemon = Daemon::start(folder.path()).await;
    let empty = daemon.memory_mib();
    let mut asked = Vec::new();
    let mut ready = Vec::new();
    let mut gone = Vec::new();
    for pod in 0..sizes.pods {
        let text = manifest(pod, &source.display().to_string());
        let begun = Instant::now();
        daemon.ask().await;
        asked.push(begun.elapsed());
        let begun = Instant::now();
        let uid = daemon.add_and_wait(text).await;
        ready.push(begun.elapsed());
        let begun = Instant::now();
        daemon.remove(&uid).await;
        gone.push(begun.elapsed());
    }
    daemon.drain().await;
    daemon.end().await;
    let (asked, ready, gone) = (Times::new(asked), Times::new(ready), Times::new(gone));
    let what = "pod of 3 volumes: API call to ready";
    let figure = Figure::new("ready-3-volumes", what, ready.median()).beside("bare system calls", bare.median());
    report.add(figure.aim(Duration::from_micros(300)));
    report.add(tail("ready-3-volumes", what, ready.p99()).beside("bare system calls", bare.p99()));
    report.add_times("gone-3-volumes", "the same pod removed: two API calls to nothing left", &gone);
    report.add_times("api-call", "API call that only asks, one of which is part of ready", &asked);
    let figure = Figure::new("memory-0", "resident memory with no volume", Measured::mebibytes(empty));
    report.add(figure.aim(Measured::mebibytes(15.0)));
}

/// Makes a folder a mount of its own, as volhost does with its root folder.
pub(crate) fn own_mount(folder: &Path) {
    rustix::mount::mount_bind(folder, folder).expect("bind");
    let flags = rustix::mount::MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change(folder, flags).expect("propagation");
}
