//! `volhost status`.

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

/// The status as JSON, and the exit code.
fn status(node: &Node) -> (Value, Option<i32>) {
    let output = node.cli(&["status", "-o", "json"]);
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

/// Waits until the node has exactly this problem with this object, and its exit code says so.
fn wait_problem(node: &Node, object: &str, message: &str) {
    let has_it = || {
        let (status, code) = status(node);
        let problems = status["problems"].as_array().unwrap();
        let is_it = |problem: &Value| problem["message"].as_str().is_some_and(|text| text.contains(message));
        code == Some(1)
            && status["healthy"] == false
            && problems.len() == 1
            && problems[0]["object"] == object
            && is_it(&problems[0])
    };
    assert!(eventually(has_it), "{object}: {message}: {}", status(node).0);
}

fn wait_healthy(node: &Node) {
    assert!(eventually(|| status(node).1 == Some(0)), "{}", status(node).0);
    assert_eq!((&status(node).0["healthy"], &status(node).0["problems"]), (&true.into(), &Value::Array(vec![])));
}

#[test]
fn a_healthy_node_is_one_page_and_exit_code_0() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
    wait_healthy(&node);
    let page = node.ok(&["status"]);
    let root = node.root().display().to_string();
    let version = format!("(process {})", node.pid());
    for part in [
        "Health:       healthy",
        &root,
        &version,
        "1: 1 Mounted",
        "3: 3 Ready",
        "Problems:     none",
        "Drain:        no",
    ] {
        assert!(page.contains(part), "{part:?} is not in:\n{page}");
    }
    let (status, _) = status(&node);
    assert_eq!((&status["plugins"]["Ready"], &status["volumes"]["Mounted"]), (&3.into(), &1.into()));
    assert!(status["startTime"].as_str().unwrap().ends_with('Z'), "{status}");
}

#[test]
fn what_is_wrong_is_named_and_goes_when_it_is_mended() {
    let node = Node::start_default();
    node.manifest("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: { name: [] }\n");
    wait_problem(&node, "manifest bad.yaml", "bad.yaml:3: metadata.name");
    let said = node.fails(&["status"]);
    assert!(
        said.contains("Health:       not healthy") && said.contains("the node is not healthy: 1 problem"),
        "{said}"
    );
    assert!(said.contains("InvalidManifest"), "the last warnings: {said}");
    node.remove_manifest("bad.yaml");
    wait_healthy(&node);

    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, hostPath: { path: /no/such/folder, type: Directory }"]));
    wait_problem(&node, "volume default/a/data", "MountVolume.SetUp failed");
    node.remove_manifest("a.yaml");
    wait_healthy(&node);

    std::fs::write(node.folder().join("plugins/broken.wasm"), "no component").unwrap();
    wait_problem(&node, "plugin broken.wasm", "Failed: ");
    std::fs::remove_file(node.folder().join("plugins/broken.wasm")).unwrap();
    wait_healthy(&node);

    node.ok(&["drain"]);
    wait_problem(&node, "node", "volhost uncordon");
    node.ok(&["uncordon"]);
    wait_healthy(&node);
}
