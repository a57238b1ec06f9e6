//! `make bench-scale` in small.

use std::process::{Command, Stdio};

use serde_json::Value;
use volhost_tests::artifacts;

#[test]
fn many_volumes_move_while_controllers_are_killed_and_none_is_lost_or_attached_twice() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("scale.json");
    let mut command = Command::new(artifacts::volhost().with_file_name("cluster-scale"));
    let output = command
        .args(["--attach-detach", "volhost", "10", "2", "2"])
        .arg(&report)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (shown, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}\n{failed}");
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    let requests = &figures["requests of all replicas"];
    // Of 40 volumes, all attached once and half of them twice. A leader that was killed may have
    // written what the next one writes again.
    assert_eq!(requests["create persistentvolumes"], 40, "{requests}");
    assert!(requests["patch volumeattachments/status"].as_u64().unwrap() <= 70, "{requests}");
    let requests = &figures["requests to attach and detach"];
    // Those of a replica that was killed before the answer came have no success in the log.
    let created = requests["create volumeattachments"].as_u64().unwrap();
    assert!((50..=60).contains(&created), "{requests}");
    // The volumes of a pod are listed together, and taken from the list together.
    assert!(requests["patch nodes/status"].as_u64().unwrap() <= 150, "{requests}");
}
