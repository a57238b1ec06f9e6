//! From the API call to a pod's three volumes ready: emptyDir, tmpfs, hostPath.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use volhost_tests::benchmark::Figure;

use crate::daemon::Daemon;
use crate::options::Sizes;
use crate::raw;
use crate::report::{Report, Times, tail};

/// How often a thread is woken.
const HAND_OVERS: usize = 1_000;

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
    let empty = daemon.memory();
    // A node has other pods: with the first one that is added by request and after the last one,
    // files on the disk change, too.
    daemon.add_and_wait(manifest(sizes.pods, &source.display().to_string())).await;
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
    let handed = hand_overs();
    report.add(Figure::new("hand-over", "work given to a thread that sleeps, and its answer awaited", handed.median()));
    report.add_memory("memory-0", "resident memory with no volume", empty, Some(15.0));
}

/// How long it takes to wake a thread and to be woken by it: what each step of an operation that
/// may block costs besides its work.
fn hand_overs() -> Times {
    let ((ask, asked), (answer, answered)) = (mpsc::channel::<()>(), mpsc::channel());
    let other = std::thread::spawn(move || asked.iter().try_for_each(|()| answer.send(())));
    let round = |_| {
        let begun = Instant::now();
        ask.send(()).expect("the other thread waits");
        answered.recv().expect("the other thread answers");
        begun.elapsed()
    };
    let times = Times::new((0..HAND_OVERS).map(round).collect::<Vec<_>>());
    drop(ask);
    other.join().expect("the other thread ends").expect("every answer was awaited");
    times
}

/// Makes a folder a mount of its own, as volhost does with its root folder.
pub(crate) fn own_mount(folder: &Path) {
    rustix::mount::mount_bind(folder, folder).expect("bind");
    let flags = rustix::mount::MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change(folder, flags).expect("propagation");
}
