//! From the start of the process to its first answer, with every plugin that comes with volhost:
//! with and without compiled plugins in the cache.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use volhost_tests::artifacts;
use volhost_tests::benchmark::Figure;

use crate::daemon::Daemon;
use crate::probe::pod;
use crate::report::{Report, Times};

/// Starts that each figure is taken over.
const COLD: usize = 5;
const WARM: usize = 20;

/// The plugins that `make plugins` has built.
const PLUGINS: [&str; 21] = [
    "cifs",
    "config-map",
    "csi",
    "downward-api",
    "empty-dir",
    "fc",
    "flex-volume",
    "git-repo",
    "host-path",
    "image",
    "image-file",
    "iscsi",
    "local",
    "loop",
    "nfs",
    "overlay",
    "projected",
    "s3",
    "secret",
    "sshfs",
    "tmpfs",
];

/// A start to the first answer.
async fn start(folder: &Path) -> (Daemon, Duration) {
    let begun = Instant::now();
    let mut daemon = Daemon::serve(folder).await;
    daemon.ask().await;
    (daemon, begun.elapsed())
}

/// A start and an end of the program that does nothing between.
fn program() -> Duration {
    let begun = Instant::now();
    let status = Command::new(artifacts::volhostd()).arg("--version").stdout(Stdio::null()).status();
    assert!(status.expect("volhostd runs").success());
    begun.elapsed()
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let folder = folder.path();
    Daemon::prepare(folder, PLUGINS.map(artifacts::plugin));
    let bare = Times::new((0..WARM).map(|_| program()).collect()).median();
    let (mut cold, mut ready, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..COLD {
        if round > 0 {
            std::fs::remove_dir_all(folder.join("cache")).expect("the cache is removed");
        }
        let begun = Instant::now();
        let (mut daemon, answered) = start(folder).await;
        cold.push(answered);
        // The others are still being compiled then.
        let uid = daemon.add_and_wait(pod(&format!("cold-{round}"), r#""emptyDir":{}"#)).await;
        ready.push(begun.elapsed());
        daemon.remove(&uid).await;
        let begun = Instant::now();
        daemon.end().await;
        ended.push(begun.elapsed());
    }
    let mut daemon = Daemon::start_again(folder).await;
    let mut warm = Vec::new();
    for _ in 0..WARM {
        daemon.end().await;
        let (started, answered) = start(folder).await;
        daemon = started;
        warm.push(answered);
    }
    daemon.end().await;
    let [cold, ready, ended, warm] = [cold, ready, ended, warm].map(|times| Times::new(times).median());
    let aim = Duration::from_millis(100);
    let all = PLUGINS.len();
    let what = format!("process start to first answer, {all} plugins to be compiled");
    report.add(Figure::new("start-cold", what, cold).beside("`volhostd --version`", bare).aim(aim));
    let what = "the same start, until a pod with an emptyDir is ready";
    report.add(Figure::new("start-cold-ready", what, ready));
    report.add(Figure::new("start-cold-end", "ended by SIGTERM while the others are being compiled", ended));
    let what = format!("process start to first answer, {all} plugins in the cache");
    report.add(Figure::new("start-warm", what, warm).beside("`volhostd --version`", bare).aim(aim));
}
