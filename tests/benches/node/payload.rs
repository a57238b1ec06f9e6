//! Config maps: how long one of 1, 100 and 1,000 keys takes to be published, and to reach a running
//! pod when it changes; and one that changes under many pods at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use volhost_tests::benchmark::{Figure, number};

use crate::daemon::Daemon;
use crate::options::Sizes;
use crate::report::{Report, Times};

/// How often each figure of one pod is taken.
const ROUNDS: usize = 20;
/// An update that takes longer than this is lost.
const LOST: Duration = Duration::from_secs(120);

/// Returns a config map in which every key has this value.
fn config_map(name: &str, keys: usize, value: &str) -> String {
    let data: Vec<String> = (0..keys).map(|key| format!(r#""key-{key:04}":"{value}""#)).collect();
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{{}}}}}"#, data.join(","))
}

fn pod(name: &str, map: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"main","image":"none","volumeMounts":[{{"name":"v","mountPath":"/v"}}]}}],"volumes":[{{"name":"v","configMap":{{"name":"{map}"}}}}]}}}}"#
    )
}

/// Puts a manifest in place, at once and whole.
fn put(folder: &Path, name: &str, text: &str) {
    let hidden = folder.join(format!(".{name}.new"));
    fs::write(&hidden, text).expect("the manifest is written");
    fs::rename(hidden, folder.join(name)).expect("the manifest is put in place");
}

/// The file of a pod's volume that is looked at.
fn shown(folder: &Path, uid: &str) -> PathBuf {
    folder.join("root/pods").join(uid).join("volumes/kubernetes.io~configmap/v/key-0000")
}

/// Waits until the file has the value.
fn wait_for(file: &Path, value: &str) {
    let begun = Instant::now();
    while fs::read_to_string(file).ok().as_deref() != Some(value) {
        assert!(begun.elapsed() < LOST, "{} never became {value}", file.display());
        std::thread::yield_now();
    }
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path, sizes: &Sizes) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let folder = folder.path();
    let mut daemon = Daemon::start(folder).await;
    let manifests = folder.join("manifests");
    for keys in [1, 100, 1000] {
        let map = format!("map-{keys}");
        let file = format!("{map}.json");
        put(&manifests, &file, &config_map(&map, keys, "first"));
        // The first pod waits until the daemon has read the manifest; it is not timed.
        let first = daemon.add(pod(&format!("first-{keys}"), &map)).await.remove(0);
        daemon.wait_mounted(&first).await;
        let mut published = Vec::new();
        for round in 0..ROUNDS {
            let text = pod(&format!("pod-{keys}-{round}"), &map);
            let begun = Instant::now();
            let uid = daemon.add(text).await.remove(0);
            daemon.wait_mounted(&uid).await;
            published.push(begun.elapsed());
            daemon.remove(&uid).await;
        }
        let mut updated = Vec::new();
        for round in 0..ROUNDS {
            let value = format!("value-{round}");
            let text = config_map(&map, keys, &value);
            let begun = Instant::now();
            put(&manifests, &file, &text);
            wait_for(&shown(folder, &first), &value);
            updated.push(begun.elapsed());
        }
        daemon.remove(&first).await;
        let (published, updated) = (Times::new(published), Times::new(updated));
        let what = format!("config map, keys: {}; published: API call to ready", number(keys));
        report.add(Figure::new(format!("config-map-{keys}-published"), what, published.median()));
        let what = "the same updated: manifest renamed to file read";
        report.add(Figure::new(format!("config-map-{keys}-updated"), what, updated.median()));
    }

    let pods = sizes.payload_pods;
    put(&manifests, "shared.json", &config_map("shared", 10, "first"));
    let first = daemon.add(pod("shared-first", "shared")).await.remove(0);
    daemon.wait_mounted(&first).await;
    let many: Vec<String> = (0..pods).map(|number| pod(&format!("shared-{number}"), "shared")).collect();
    let begun = Instant::now();
    let uids = daemon.add(format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, many.join(","))).await;
    for uid in &uids {
        daemon.wait_mounted(uid).await;
    }
    let published = begun.elapsed();
    let begun = Instant::now();
    put(&manifests, "shared.json", &config_map("shared", 10, "second"));
    let mut reached = Vec::new();
    for uid in &uids {
        wait_for(&shown(folder, uid), "second");
        reached.push(begun.elapsed());
    }
    let what = format!("one config map of 10 keys published under {} pods of one request", number(pods));
    report.add(Figure::new(format!("config-map-{pods}-pods-published"), what, published));
    let last = *reached.iter().max().expect("there are pods");
    let what = "the same updated: until the last pod has it";
    report.add(Figure::new(format!("config-map-{pods}-pods-updated"), what, last).aim(Duration::from_secs(1)));
    daemon.drain().await;
    daemon.end().await;
}
