//! From the API call to a pod's three volumes ready: emptyDir, tmpfs, hostPath.

use std::path::Path;
use std::time::Instant;

use crate::daemon::Daemon;
use crate::raw;
use crate::report::{Report, Times, us};
use crate::setting;

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

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let pods = setting("VOLHOST_BENCH_PODS", 300);
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a folder");

    let bare_root = folder.path().join("bare");
    std::fs::create_dir(&bare_root).expect("a folder");
    own_mount(&bare_root);
    let bare = Times::new(raw::pods(&bare_root, &source, pods));
    raw::unmount_all(&bare_root);

    let mut daemon = Daemon::start(folder.path()).await;
    let empty = daemon.memory_mib();
    let mut asked = Vec::new();
    let mut ready = Vec::new();
    let mut gone = Vec::new();
    for pod in 0..pods {
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
    daemon.end();
    let (asked, ready, gone) = (Times::new(asked), Times::new(ready), Times::new(gone));
    report.add(
        "API call that only asks: median, p99",
        format!("{}, {}", us(asked.median()), us(asked.quantile(0.99))),
        "one of them is in the next line, two in the one after it",
    );
    report.add(
        format!("API call to a pod's three volumes ready ({pods} pods, one after another): median, p99"),
        format!("{}, {}", us(ready.median()), us(ready.quantile(0.99))),
        format!("bare system calls {}, {}", us(bare.median()), us(bare.quantile(0.99))),
    );
    report.add(
        "pod removed to nothing left: median, p99",
        format!("{}, {}", us(gone.median()), us(gone.quantile(0.99))),
        "",
    );
    report.add("resident memory with no volume", format!("{empty:.1} MiB"), "aim: under 40");
}

/// Makes a folder a mount of its own, as volhost does with its root folder.
pub(crate) fn own_mount(folder: &Path) {
    rustix::mount::mount_bind(folder, folder).expect("bind");
    let flags = rustix::mount::MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change(folder, flags).expect("propagation");
}
