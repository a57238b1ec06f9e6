//! `make bench-scale` in small.

use std::process::{Command, Stdio};

use serde_json::Value;
use volhost_tests::artifacts;

/// Of 40 claims, each is attached once and half of them twice; each of 20 pods has two, and two
/// volumes besides.
const ARGUMENTS: [&str; 5] = ["--attach-detach", "volhost", "10", "2", "2"];

#[test]
fn many_volumes_move_while_controllers_agents_and_daemons_end_and_none_is_lost_or_attached_twice() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("scale.json");
    let mut command = Command::new(artifacts::volhost().with_file_name("cluster-scale"));
    let output = command.args(ARGUMENTS).arg(&report).stdin(Stdio::null()).output().unwrap();
    let (shown, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}\n{failed}");
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!(figures["complete"], true, "{figures:#}");
    let count = |component: &str, request: &str| {
        figures["requests"][component][request].as_u64().unwrap_or_else(|| panic!("no {component}: {figures:#}"))
    };
    // A leader that was killed may have written what the next one writes again.
    let controller = "volhost-controller";
    assert_eq!(count(controller, "create persistentvolumes"), 40);
    assert!(count(controller, "patch volumeattachments/status") <= 70, "{figures:#}");
    // An attachment is created with its finalizer, which goes at the end.
    assert!(count(controller, "patch volumeattachments") <= 75, "{figures:#}");
    let attacher = "volhost-attach-detach-controller";
    // Those of a replica that was killed before the answer came have no success in the log.
    assert!((50..=60).contains(&count(attacher, "create volumeattachments")), "{figures:#}");
    // The volumes of a pod are listed together, and taken from the list together.
    assert!(count(attacher, "patch nodes/status") <= 150, "{figures:#}");
    let agent = "volhost-node-agent";
    // Likewise: 30 times a pod comes, and 30 times one goes.
    assert!(count(agent, "patch nodes/status") <= 150, "{figures:#}");
    // 30 times a pod comes; 10 pods at most are at a daemon that restarts; and of 10 each that are made
    // and moved while agents are killed, a token may not have reached the daemon.
    assert!((30..=60).contains(&count(agent, "create serviceaccounts/token")), "{figures:#}");
    // Requests have the shares of `deploy/flow-schemas`.
    let flows = &figures["requests by FlowSchema"];
    for flow in ["volhost-node-agents", "volhost-controllers", "volhost-leader-election"] {
        assert!(flows["passed on"][flow].as_f64().is_some_and(|count| count > 0.0), "{flow}: {figures:#}");
    }
}
