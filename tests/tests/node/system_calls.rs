//! How many system calls a volume takes. Times differ from run to run and from machine to machine;
//! these numbers do not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use volhost_tests::kill_points::{KillPoint, KilledProcess, Trace};
use volhost_tests::manifests::pod;
use volhost_tests::{Node, wait::eventually};

const PODS: usize = 10;
const VOLUMES: usize = 10;
/// What the daemon may do beside: half a call a volume.
const BESIDE: usize = PODS * VOLUMES / 2;
/// Recorded for a hundred volumes, also in docs/benchmarks.md: mounted, and unmounted.
const HOST_PATH: (usize, usize) = (1577, 831);
const EMPTY_DIR: (usize, usize) = (876, 732);

type Counts = BTreeMap<&'static str, usize>;

/// Mounts and unmounts ten pods of ten such volumes. One thread works, so that no two volumes make
/// the same folder at once.
fn counts_of(volume: impl Fn(&str) -> String) -> (Counts, Counts) {
    let config = "[grants.\"volhost.io/host-path\"]\nhost-paths = [\"$NODE/disk\"]\n";
    let mut node = Node::builder().config(config).arguments(&["--max-operations", "1"]).build();
    node.start();
    let source = node.folder().join("disk");
    let pods: Vec<String> = (0..PODS)
        .map(|number| {
            let volumes: Vec<String> = (0..VOLUMES)
                .map(|number| format!("name: v{number}, {}", volume(&source.display().to_string())))
                .collect();
            let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
            pod(&format!("p{number}"), &format!("uid-{number}"), &volumes)
        })
        .collect();
    let trace = Trace::begin(node.pid(), KillPoint { who: KilledProcess::Daemon, before: None });
    node.manifest("pods.yaml", &pods.join("---\n"));
    for number in 0..PODS {
        node.wait_mounted(&format!("default/p{number}"));
    }
    let mounted = trace.take_counts();
    node.remove_manifest("pods.yaml");
    let pods = node.path(&node.root().join("pods"));
    let is_gone = || fs::read_dir(&pods).is_ok_and(|mut pods| pods.next().is_none());
    assert!(eventually(is_gone), "{}", node.log());
    let unmounted = trace.take_counts();
    trace.end();
    node.kill();
    (mounted, unmounted)
}

/// Checks the calls for all volumes against the recorded number.
fn assert_at_most(recorded: usize, what: &str, counts: &Counts) {
    let volumes = PODS * VOLUMES;
    let total: usize = counts.values().sum();
    let mut table = String::new();
    for (name, count) in counts {
        let _ = writeln!(table, "{name:16} {:5}.{:02}", count / volumes, count % volumes);
    }
    eprintln!("{what}: {total} calls for {volumes} volumes; by the volume:\n{table}");
    assert!(
        total <= recorded + BESIDE,
        "{what}: {total} system calls for {volumes} volumes, where {recorded} are recorded here and in docs/benchmarks.md; by the volume:\n{table}",
    );
}

#[test]
fn a_bind_volume_takes_no_more_system_calls_than_recorded() {
    let (mounted, unmounted) = counts_of(|source| format!("hostPath: {{ path: {source} }}"));
    assert_eq!(mounted.get("move_mount"), Some(&(PODS * VOLUMES)), "{mounted:?}");
    assert_eq!(unmounted.get("umount2"), Some(&(PODS * VOLUMES)), "{unmounted:?}");
    assert_at_most(HOST_PATH.0, "a hostPath volume that is mounted", &mounted);
    assert_at_most(HOST_PATH.1, "a hostPath volume that is unmounted", &unmounted);
}

#[test]
fn a_folder_volume_takes_no_more_system_calls_than_recorded() {
    let (mounted, unmounted) = counts_of(|_| "emptyDir: {}".to_owned());
    assert_at_most(EMPTY_DIR.0, "an emptyDir that is mounted", &mounted);
    assert_at_most(EMPTY_DIR.1, "an emptyDir that is unmounted", &unmounted);
}
