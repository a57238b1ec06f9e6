//! `volhost delete`.

use volhost_tests::Node;
use volhost_tests::manifests::pod;

use super::file;

const SCRATCH: &str = "name: scratch, emptyDir: {}";

/// A node with two pods and a config map that were applied, and the file with the first pod and the
/// config map.
fn with_applied() -> (Node, String) {
    let node = Node::start_default();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\n---\n";
    let first = file(&node, "first.yaml", &format!("{map}{}", pod("first", "uid-first", &[SCRATCH])));
    let second = file(&node, "second.yaml", &pod("second", "uid-second", &[SCRATCH]));
    node.ok(&["apply", "-f", &first, "-f", &second, "--wait"]);
    (node, first)
}

#[test]
fn what_a_file_added_is_removed_by_the_file() {
    let (node, first) = with_applied();
    let said = node.ok(&["delete", "-f", &first]);
    let words: Vec<&str> = said.lines().map(|line| line.split(';').next().unwrap()).collect();
    assert_eq!(words, ["pod default/first removed", "ConfigMap default/settings removed"], "{said}");
    node.wait_unmounted("default/first");
    assert_eq!(node.ok(&["get", "pods", "-o", "name"]), "pod/default/second\n");
    let again = node.cli(&["delete", "-f", &first]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(1));
    assert!(said.contains("no pod default/first is known") && said.contains("ConfigMap default/settings"), "{said}");
}

#[test]
fn a_file_with_something_that_cannot_be_removed_removes_nothing() {
    let (node, first) = with_applied();
    let text = format!("{}---\nkind: Deployment\nmetadata: {{ name: d }}\n", std::fs::read_to_string(&first).unwrap());
    for (name, text, wrong) in [
        ("deployment.yaml", text.as_str(), "Deployment d is nothing that can be removed, and nothing was"),
        (
            "nameless.yaml",
            "kind: Pod\nmetadata: { name: first }\n---\nkind: Pod\n",
            "document 2: metadata.name: is missing",
        ),
        ("broken.yaml", "kind: [", "broken.yaml: "),
        ("empty.yaml", "# nothing\n", "there is no object in it"),
    ] {
        let said = node.fails(&["delete", "-f", &file(&node, name, text)]);
        assert!(said.contains(wrong) && said.contains(name), "{said}");
    }
    assert_eq!(node.ok(&["get", "pods", "-o", "name"]), "pod/default/first\npod/default/second\n");
}

#[test]
fn objects_are_removed_by_type_and_name_and_one_failure_keeps_no_other() {
    let (node, _) = with_applied();
    node.manifest("kept.yaml", &pod("kept", "uid-kept", &[SCRATCH]));
    node.wait_mounted("default/kept");
    let mixed = node.cli(&["delete", "pod/first", "pod/nowhere", "pod/kept", "configmap/settings"]);
    let (out, err) = (String::from_utf8_lossy(&mixed.stdout), String::from_utf8_lossy(&mixed.stderr));
    assert_eq!(mixed.status.code(), Some(1));
    assert!(out.contains("pod default/first removed") && out.contains("ConfigMap default/settings removed"), "{out}");
    assert!(err.contains("no pod default/nowhere is known") && err.contains("kept.yaml"), "{err}");
    let said = node.ok(&["delete", "pods", "second", "-n", "default"]);
    assert!(said.contains("pod default/second removed"), "{said}");
    node.wait_unmounted("default/second");
    assert_eq!(node.ok(&["get", "pods", "-o", "name"]), "pod/default/kept\n");

    let wrong = node.cli(&["delete", "volume/default/kept/scratch"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(2) && said.contains("A pod's volumes go with the pod"), "{said}");
}
