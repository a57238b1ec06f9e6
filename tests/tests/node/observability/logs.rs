//! Log lines: each line of an operation says of which.

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::manifests::pod;

fn lines(node: &Node) -> Vec<Value> {
    node.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn every_line_of_an_operation_has_its_volume_pod_plugin_kind_and_number() {
    let node = Node::builder().arguments(&["--log-format", "json", "--log-level", "info,volhost=debug"]).start();
    node.manifest(
        "a.yaml",
        &pod(
            "a",
            "uid-a",
            &["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }", "name: fast, emptyDir: {}"],
        ),
    );
    node.wait_event(&["FailedMount", "nowhere"]);
    node.wait_event(&["SuccessfulMount", "fast"]);
    let lines = lines(&node);
    let said = |text: &str| {
        let found = lines.iter().find(|line| line["fields"].to_string().contains(text));
        found.unwrap_or_else(|| panic!("no line says {text}:\n{}", node.log()))
    };
    for (text, plugin, volume) in [
        ("FailedMount", "kubernetes.io/host-path", "gone"),
        ("SuccessfulMount", "kubernetes.io/empty-dir", "fast"),
        ("operation begins", "kubernetes.io/", ""),
    ] {
        let span = &said(text)["span"];
        assert!(span["plugin"].as_str().is_some_and(|name| name.starts_with(plugin)), "{text}: {span}");
        assert!(span["volume"].as_str().is_some_and(|name| name.contains(volume)), "{text}: {span}");
        assert_eq!(span["pod"], "default/a", "{text}: {span}");
        assert_eq!(span["operation"], "volume_mount", "{text}: {span}");
        assert!(span["id"].as_u64().is_some(), "{text}: {span}");
    }
}

#[test]
fn a_warning_keeps_its_fields_when_only_warnings_are_logged() {
    let node = Node::builder().arguments(&["--log-format", "json", "--log-level", "warn"]).start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }"]));
    node.wait_event(&["FailedMount", "nowhere"]);
    let lines = lines(&node);
    let failed = lines.iter().find(|line| line["fields"].to_string().contains("FailedMount")).unwrap();
    assert_eq!(failed["span"]["operation"], "volume_mount", "{failed}");
    assert!(lines.iter().all(|line| line["level"] == "WARN" || line["level"] == "ERROR"), "{}", node.log());
}
