//! What plugins that run for ever cost the volumes of another plugin.

use std::path::Path;
use std::time::{Duration, Instant};

use volhost_tests::artifacts;

use crate::daemon::Daemon;
use crate::report::{Report, Times, us};
use crate::setting;

/// Volumes of the plugin that runs for ever: two for each processor of a small node.
const HOSTILE: usize = 4;
/// How long a plugin may run by default. What is measured must have been begun within it.
const THEIR_TIME: Duration = Duration::from_secs(10);

fn pod(name: &str, source: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"main","image":"none","volumeMounts":[{{"name":"data","mountPath":"/a"}}]}}],"volumes":[{{"name":"data",{source}}}]}}}}"#
    )
}

/// Adds and removes pods with an emptyDir in memory, as long as `time` lasts; how long each took to
/// be mounted.
async fn good(daemon: &mut Daemon, called: &str, most: usize, time: Duration) -> Vec<Duration> {
    let (begun, mut took) = (Instant::now(), Vec::new());
    while took.len() < most && begun.elapsed() < time {
        let text = pod(&format!("{called}-{}", took.len()), r#""emptyDir":{"medium":"Memory","sizeLimit":"1Mi"}"#);
        let asked = Instant::now();
        let uid = daemon.add_and_wait(text).await;
        took.push(asked.elapsed());
        daemon.remove(&uid).await;
    }
    took
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let pods = setting("VOLHOST_BENCH_PODS", 300);
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let plugins = folder.path().join("plugins");
    std::fs::create_dir(&plugins).expect("a folder");
    std::fs::create_dir(folder.path().join("manifests")).expect("a folder");
    std::fs::copy(artifacts::plugin("empty-dir"), plugins.join("empty-dir.wasm")).expect("the plugin is copied");
    std::fs::copy(artifacts::fixture("fixture-misbehaving"), plugins.join("bad.wasm")).expect("the plugin is copied");
    let mut daemon = Daemon::start_again(folder.path()).await;
    let alone = Times::new(good(&mut daemon, "alone", pods, THEIR_TIME).await);
    for bad in 0..HOSTILE {
        daemon.add(pod(&format!("bad-{bad}"), r#""misbehaving":{"at":"publish","how":"loop"}"#)).await;
    }
    let beside = Times::new(good(&mut daemon, "beside", pods, THEIR_TIME).await);
    daemon.kill();
    report.add(
        format!("pod with an emptyDir mounted beside {HOSTILE} volumes whose plugin runs for ever: median, p99"),
        format!("{}, {}", us(beside.median()), us(beside.quantile(0.99))),
        format!("without them {}, {}; aim: no more than 100 ms longer", us(alone.median()), us(alone.quantile(0.99))),
    );
}
