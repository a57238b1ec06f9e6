//! `volhost get`.

use volhost_tests::Node;
use volhost_tests::manifests::pod;

/// A pod with labels, which are a YAML flow map.
fn labelled(name: &str, labels: &str) -> String {
    pod(name, &format!("uid-{name}"), &["name: scratch, emptyDir: {}"])
        .replace(&format!("uid: uid-{name} }}"), &format!("uid: uid-{name}, labels: {labels} }}"))
}

/// Three mounted pods with labels, and a claim and a PersistentVolume with the same.
fn with_labels() -> Node {
    let node = Node::start_default();
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: { name: archive, labels: { app: web } }\nspec: { capacity: { storage: 1Gi }, accessModes: [ReadWriteOnce], local: { path: /x } }\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: logs, labels: { app: web } }\nspec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }\n";
    let pods = [
        labelled("front", "{ app: web, tier: front }"),
        labelled("back", "{ app: web, tier: back }"),
        labelled("base", "{ app: db, canary: \"\" }"),
    ];
    node.manifest("pods.yaml", &format!("{}---\n{volume}", pods.join("---\n")));
    for name in ["front", "back", "base"] {
        node.wait_mounted(&format!("default/{name}"));
    }
    node
}

/// The words of one column.
fn column(table: &str, index: usize) -> Vec<&str> {
    table.lines().map(|line| line.split_whitespace().nth(index).unwrap_or_default()).collect()
}

#[test]
fn objects_are_selected_by_their_labels() {
    let node = with_labels();
    for (selector, names) in [
        ("app=web", &["back", "front"][..]),
        ("app==web,tier!=back", &["front"]),
        ("tier in (back, other)", &["back"]),
        ("app notin (web)", &["base"]),
        ("tier", &["back", "front"]),
        ("!canary,app", &["back", "front"]),
        ("app=other", &[]),
    ] {
        let pods = node.ok(&["get", "pods", "--no-headers", "-l", selector]);
        assert_eq!(column(&pods, 1), names, "{selector}");
        let volumes = node.ok(&["get", "volumes", "-A", "--no-headers", "--selector", selector]);
        let of_pods: Vec<String> = names.iter().map(|name| format!("default/{name}")).collect();
        assert_eq!(column(&volumes, 0), of_pods, "{selector}");
    }
    assert_eq!(column(&node.ok(&["get", "pvc", "--no-headers", "-l", "app=web"]), 1), ["logs"]);
    assert_eq!(column(&node.ok(&["get", "pv", "--no-headers", "-l", "app"]), 0), ["archive"]);
}

#[test]
fn a_selector_that_cannot_be_right_is_refused() {
    let node = Node::start_default();
    let wrong = node.cli(&["get", "pods", "-l", "app in (web"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(2) && said.contains("no closing parenthesis"), "{said}");
    let said = node.fails(&["get", "plugins", "-l", "app=web"]);
    assert!(said.contains("plugins have no labels"), "{said}");
}
