//! A thousand kills at random moments, while pods of every kind come and go.
//!
//! `VOLHOST_CHURN_SEED` repeats a run, as far as threads let it; `VOLHOST_CHURN_KILLS` asks for
//! more or fewer.

use std::io::Write;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use volhost_tests::manifests::{device_pod, loop_volume, pod};
use volhost_tests::wait::eventually;

use crate::site::{Inventory, LOOP, Site};
use crate::witness::Witness;

/// Kills in all.
const KILLS: u64 = 1000;
/// Nodes under churn side by side: as many as CI has processors.
const NODES: u64 = 2;
/// Kills between two checks of the whole node.
const REST: u64 = 25;
/// The longest life, in microseconds from the moment that the daemon serves.
const LONGEST_LIFE: u64 = 40_000;

/// Numbers that look random and come again with their seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn a_thousand_kills_under_churn_end_in_the_desired_state() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let seed = number("VOLHOST_CHURN_SEED", now.as_secs());
    let kills = number("VOLHOST_CHURN_KILLS", KILLS).div_ceil(NODES);
    // Printed past the test runner, which hides the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "churn: seed {seed}, {NODES} nodes, {kills} deaths each");
    let nodes: Vec<_> =
        (0..NODES).map(|node| std::thread::spawn(move || churn(Random(seed * NODES + node + 1), kills))).collect();
    // All of them, so that no daemon outlives the test because another's node failed.
    let ended: Vec<_> = nodes.into_iter().map(JoinHandle::join).collect();
    assert!(ended.iter().all(Result::is_ok), "seed {seed}");
}

/// The pods that come and go. Two share a volume, one has it as a device.
fn pods(disk: &Path) -> Vec<(&'static str, String)> {
    let claimed = |name: &str| format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}");
    let of = |name: &str, volumes: &[&str]| pod(name, &format!("uid-{name}"), volumes);
    let host = format!("name: a, hostPath: {{ path: {} }}", disk.display());
    vec![
        ("folder", of("folder", &["name: a, emptyDir: {}", "name: b, emptyDir: { medium: Memory }"])),
        ("host", of("host", &[&host, "name: b, emptyDir: {}"])),
        ("config", of("config", &["name: a, configMap: { name: app }", "name: b, secret: { secretName: login }"])),
        ("files", of("files", &[&claimed("files")])),
        ("more", of("more", &[&claimed("files"), "name: own, emptyDir: {}"])),
        ("raw", device_pod("raw", "uid-raw", "raw-claim")),
    ]
}

fn config_map(version: u64) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: app }}\ndata: {{ version: \"{version}\" }}\n")
}

fn churn(mut random: Random, kills: u64) {
    let mut site = Site::start().with_witness(Witness::of_folders());
    let node = &mut site.node;
    node.manifest("files-pv.yaml", &loop_volume("files", "files.img", "ext4", "16Mi", ""));
    node.manifest("raw-pv.yaml", &loop_volume("raw", "raw.img", "ext4", "4Mi", "  volumeMode: Block"));
    node.manifest("app.yaml", &config_map(0));
    node.manifest("login.yaml", "apiVersion: v1\nkind: Secret\nmetadata: { name: login }\nstringData: { pin: x }\n");
    let (pods, empty) = (pods(&site.node.folder().join("disk")), site.inventory());
    let mut named = vec![false; pods.len()];
    let mut data = None;
    for life in 1..=kills {
        for _ in 0..random.below(4) {
            let chosen = usize::try_from(random.below(pods.len() as u64)).expect("it is small");
            let (name, manifest) = &pods[chosen];
            named[chosen] = !named[chosen];
            if named[chosen] {
                site.node.manifest(&format!("{name}.yaml"), manifest);
            } else {
                site.node.remove_manifest(&format!("{name}.yaml"));
            }
        }
        if random.below(4) == 0 {
            site.node.manifest("app.yaml", &config_map(life));
        }
        if life % REST == 0 {
            rest(&site, &pods, &named, &mut data);
        }
        // However long it takes to come up, sometimes it dies on the way.
        std::thread::park_timeout(Duration::from_micros(random.below(LONGEST_LIFE)));
        site.node.kill();
        if random.below(8) == 0 {
            let readiness = site.node.start_at_once();
            std::thread::park_timeout(Duration::from_micros(random.below(LONGEST_LIFE)));
            drop(readiness);
            site.node.kill();
        }
        site.revive();
        site.check_witness();
    }
    for ((name, _), named) in pods.iter().zip(named) {
        if named {
            site.node.remove_manifest(&format!("{name}.yaml"));
        }
    }
    site.assert_becomes(&empty, "in the end");
    site.dismiss_witness();
    site.node.ok(&["drain"]);
    assert!(site.node.terminate().success());
    assert_eq!(site.node.all_mounts(), Vec::new());
}

/// Waits for the desired state, and checks it.
fn rest(site: &Site, pods: &[(&str, String)], named: &[bool], data: &mut Option<String>) {
    for ((name, _), named) in pods.iter().zip(named) {
        let uid = format!("uid-{name}");
        if *named {
            site.node.wait_mounted(&format!("default/{name}"));
        } else {
            let folder = site.node.path(&site.node.root().join("pods").join(uid));
            assert!(eventually(|| !folder.exists()), "{name} is gone, and its folder stays\n{}", site.log());
        }
    }
    let volumes: Inventory = site.inventory();
    let left = |text: &str| volumes.iter().find(|line| line.contains(text)).cloned();
    assert!(
        named[5] || eventually(|| !site.inventory().iter().any(|line| line.contains("raw.img"))),
        "{:?}",
        left("raw")
    );
    // What a pod once wrote is there whenever a pod has the volume again.
    if let Some(name) = [3, 4].into_iter().find(|pod| named[*pod]).map(|pod| pods[pod].0) {
        let file = site.node.volume(&format!("uid-{name}"), LOOP, "files").join("file");
        match data {
            Some(text) => assert_eq!(std::fs::read_to_string(&file).unwrap(), *text),
            None => {
                std::fs::write(&file, "kept").unwrap();
                *data = Some("kept".to_owned());
            }
        }
    }
    site.check_witness();
}
