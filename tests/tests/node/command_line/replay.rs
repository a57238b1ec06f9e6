//! `volhost debug record` and `volhost replay`, against a daemon whose pods come and go.

use std::fs;

use serde_json::Value;
use sha2::{Digest, Sha256};
use volhost_tests::manifests::{local_volume, pod};
use volhost_tests::{Node, artifacts};

use super::file;

/// Pods come, share a volume, fail, change and go.
fn churn(node: &Node, round: u32) {
    for number in 0..6 {
        let (name, uid) = (format!("p{number}"), format!("uid-{round}-{number}"));
        let volumes = [
            "name: scratch, emptyDir: {}",
            "name: fast, emptyDir: { medium: Memory }",
            "name: data, persistentVolumeClaim: { claimName: disk1-claim }",
        ];
        node.manifest(&format!("{name}.yaml"), &pod(&name, &uid, &volumes));
    }
    let missing = ["name: gone, hostPath: { path: /no/such/folder, type: Directory }"];
    node.manifest("failing.yaml", &pod("failing", &format!("uid-{round}-failing"), &missing));
    for number in 0..6 {
        node.wait_mounted(&format!("default/p{number}"));
    }
    node.wait_event(&["FailedMount", "default/failing"]);
    for number in 0..3 {
        node.remove_manifest(&format!("p{number}.yaml"));
        node.wait_unmounted(&format!("default/p{number}"));
    }
}

fn node() -> Node {
    let node = Node::start_default();
    fs::create_dir_all(node.folder().join("disk")).unwrap();
    node.manifest("pv.yaml", &local_volume("disk1", &node.folder().join("disk").display().to_string(), "test-node"));
    node
}

/// Records, and returns the file's path.
fn record(node: &Node, name: &str) -> String {
    let path = node.folder().join(name).display().to_string();
    let said = node.ok(&["debug", "record", "-o", &path]);
    assert!(said.contains(&format!("{path} written")), "{said}");
    path
}

#[test]
fn what_a_daemon_decided_is_decided_again_after_a_kill_too() {
    let mut node = node();
    churn(&node, 1);
    let first = record(&node, "first.jsonl");
    let told = node.ok(&["replay", &first]);
    assert!(told.contains("every decision is the recorded one"), "{told}");
    for words in [
        "pod default/p0 exists, with volumes scratch, fast, data",
        "-> start volume_mount of volume",
        "pod default/p0 is gone",
        "failed: MountVolume.SetUp failed",
        "-> warning FailedMount",
    ] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }

    node.kill();
    node.remove_manifest("p4.yaml");
    node.start();
    node.wait_unmounted("default/p4");
    churn(&node, 2);
    let second = record(&node, "second.jsonl");
    let told = node.ok(&["replay", &second]);
    assert!(told.contains("an earlier run left volume"), "{told}");
    assert!(told.contains("every decision is the recorded one"), "{told}");
    // It is not written over.
    assert!(node.fails(&["debug", "record", "-o", &second]).contains("it exists"));
}

#[test]
fn a_replay_stops_at_a_step_and_shows_one_pod() {
    let node = node();
    churn(&node, 1);
    let path = record(&node, "churn.jsonl");
    let all: Value = serde_json::from_str(&node.ok(&["replay", &path, "-o", "json"])).unwrap();
    let steps = all["steps"].as_array().unwrap();
    assert_eq!(all["difference"], Value::Null);
    let arrived =
        steps.iter().find(|step| step["event"].as_str().unwrap().starts_with("pod default/p1 exists")).unwrap();
    let at = arrived["step"].to_string();
    let told = node.ok(&["replay", &path, "--pod", "p1", "--until", &at]);
    assert!(told.contains("pod default/p1: Mounting, 0 of 3 volumes ready"), "{told}");
    assert!(told.contains("volume scratch: Mounting"), "{told}");
    assert!(!told.contains("default/p2"), "{told}");
    // The same by time.
    assert_eq!(node.ok(&["replay", &path, "--pod", "p1", "--until", arrived["time"].as_str().unwrap()]), told);
    let of_volume = node.ok(&["replay", &path, "--volume", "gone"]);
    assert!(of_volume.contains("volume gone: Pending; ") && of_volume.contains("next try: "), "{of_volume}");
    assert!(!of_volume.contains("scratch"), "{of_volume}");
    let none = node.ok(&["replay", &path, "--pod", "nobody"]);
    assert!(none.contains("Nothing that was asked for is in it."), "{none}");
    assert!(node.fails(&["replay", &path, "--until", "noon"]).contains("no step and no time"));
}

#[test]
fn a_decision_that_differs_is_named_with_both_sides() {
    let node = node();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
    let path = record(&node, "a.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    // As if the daemon that recorded had decided to refresh what is to be mounted.
    let content: String =
        text.lines().filter(|line| !line.contains("\"end\"")).map(|line| format!("{line}\n")).collect();
    let changed = content.replace("\"remount\":false", "\"remount\":true");
    assert_ne!(changed, content);
    let steps = changed.lines().filter(|line| line.contains("\"step\"")).count();
    let digest: String = Sha256::digest(changed.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let end = serde_json::json!({"end": {"steps": steps, "sha256": digest}});
    let other = file(&node, "other.jsonl", &format!("{changed}{end}\n"));
    let said = node.fails(&["replay", &other]);
    assert!(said.contains(".Start.kind.Mount.remount"), "{said}");
    assert!(said.contains(": true\n") && said.contains(": false"), "{said}");
    let both: Value = {
        let output = node.cli(&["replay", &other, "-o", "json"]);
        assert_eq!(output.status.code(), Some(1));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!((&both["difference"]["recorded"], &both["difference"]["replayed"]), (&true.into(), &false.into()));

    // Damaged and foreign files.
    let damaged = file(&node, "damaged.jsonl", &text.replace("\"remount\":false", "\"remount\":true"));
    assert!(node.fails(&["replay", &damaged]).contains("it is damaged"));
    let half = file(&node, "half.jsonl", &text[..text.len() / 2]);
    assert!(node.fails(&["replay", &half]).contains("it is truncated"));
    assert!(node.fails(&["replay", &file(&node, "pod.yaml", "kind: Pod\n")]).contains("no recording of volhost"));
    assert!(node.fails(&["replay", "/no/such/file"]).contains("/no/such/file"));
}

#[test]
fn a_recording_has_no_content_of_a_secret() {
    let node = Node::builder().plugin(artifacts::plugin("secret")).start();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: login }\nstringData: { password: KNOWN-SECRET-1, other: KNOWN-SECRET-2 }\n";
    let volumes = ["name: s, secret: { secretName: login }"];
    let path = file(&node, "a.yaml", &format!("{secret}---\n{}", pod("a", "uid-a", &volumes)));
    node.ok(&["apply", "-f", &path, "--wait"]);
    let changed = file(&node, "b.yaml", &secret.replace("SECRET-1", "SECRET-3"));
    node.ok(&["apply", "-f", &changed]);
    let text = fs::read_to_string(record(&node, "a.jsonl")).unwrap();
    assert!(text.contains("login"), "the secret's name is in it");
    for secret in ["KNOWN-SECRET", "S05PV04tU0VDUkVU", "tOT1dOLVNFQ1JFV", "LTk9XTi1TRUNSRV"] {
        assert!(!text.contains(secret), "{secret} is in the recording");
    }
}
