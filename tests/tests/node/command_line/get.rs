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

#[test]
fn several_types_and_names_are_listed_at_once() {
    let node = with_labels();
    let both = node.ok(&["get", "pods,pvc"]);
    let (pods, claims) = both.split_once("\n\n").unwrap_or_else(|| panic!("{both}"));
    assert_eq!(column(pods, 1), ["NAME", "pod/back", "pod/base", "pod/front"], "{both}");
    assert_eq!(column(claims, 1), ["NAME", "claim/logs"], "{both}");

    let named = node.ok(&["get", "pod/front", "volume/default/back/scratch", "--no-headers"]);
    let (pods, volumes) = named.split_once("\n\n").unwrap_or_else(|| panic!("{named}"));
    assert_eq!((column(pods, 1), column(volumes, 1)), (vec!["pod/front"], vec!["volume/scratch"]));

    let missing = node.cli(&["get", "pod", "front", "nowhere", "default/base", "--no-headers"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(column(&String::from_utf8_lossy(&missing.stdout), 1), ["front", "base"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(said, "Error: no pod nowhere found; `volhost get pods` lists all\n");
    for (arguments, wrong) in [
        (&["get", "pds"][..], "\"pds\" is no type"),
        (&["get", "pod/front", "base"], "\"base\" is no TYPE/NAME"),
        (&["get", "pods,volumes", "-w"], "-w watches one type"),
        (&["get", "pods", "-o", "jason"], "there is json, yaml"),
        (&["get", "pods", "-o", "jsonpath={.items[*}"], "no closing brace"),
        (&["get", "pods", "--sort-by", "colour"], "there is no column \"COLOUR\"; there are NAMESPACE"),
    ] {
        let output = node.cli(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(wrong), "{arguments:?}: {said}");
    }
}

#[test]
fn lists_are_printed_for_scripts_as_kubectl_prints_them() {
    let node = with_labels();
    assert_eq!(node.ok(&["get", "pods", "-o", "name"]), "pod/default/back\npod/default/base\npod/default/front\n");
    let names = node.ok(&["get", "pods,pvc", "-o", "name", "-l", "app=web"]);
    assert_eq!(names, "pod/default/back\npod/default/front\npvc/default/logs\n");
    // What `-o name` prints is what `get` takes.
    let words: Vec<&str> = ["get"].into_iter().chain(names.split_whitespace()).chain(["-o", "name"]).collect();
    assert_eq!(node.ok(&words), names);

    let template = "jsonpath={range .items[*]}{.metadata.name}={.status.phase} {.metadata.labels.tier};{end}";
    assert_eq!(node.ok(&["get", "pods", "-o", template]), "back=Mounted back;base=Mounted ;front=Mounted front;");
    let uid = node.ok(&["get", "pod", "front", "-o", "jsonpath={.metadata.uid}"]);
    assert_eq!(uid, "uid-front");
    let columns = node.ok(&["get", "pods", "-o", "custom-columns=POD:.metadata.name,TIER:.metadata.labels.tier"]);
    let rows: Vec<Vec<&str>> = columns.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["POD", "TIER"], ["back", "back"], ["base", "<none>"], ["front", "front"]]);

    let list: serde_json::Value = serde_json::from_str(&node.ok(&["get", "pods,pv", "-o", "json"])).unwrap();
    let kinds: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!((&list["kind"], kinds), (&"List".into(), vec!["Pod", "Pod", "Pod", "PersistentVolume"]));
    let time = list["items"][0]["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(time.len() >= "2026-01-01T00:00:00Z".len() && time.ends_with('Z'), "{time}");
}

#[test]
fn lists_are_sorted_by_a_column_or_a_field() {
    let node = Node::start_default();
    for name in ["p-2", "p-10", "p-1"] {
        node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &["name: scratch, emptyDir: {}"]));
        node.wait_mounted(&format!("default/{name}"));
    }
    let sorted = |key: &str| node.ok(&["get", "pods", "--no-headers", "--sort-by", key]);
    assert_eq!(column(&sorted(".metadata.name"), 1), ["p-1", "p-2", "p-10"]);
    assert_eq!(column(&sorted("name"), 1), ["p-1", "p-2", "p-10"]);
    assert_eq!(column(&sorted("{.metadata.creationTimestamp}"), 1), ["p-2", "p-10", "p-1"]);
    assert_eq!(column(&sorted("age"), 1), ["p-1", "p-10", "p-2"], "the youngest first");
}

#[test]
fn the_reason_of_a_failure_is_a_word_that_events_have_too() {
    let node = Node::start_default();
    let volumes = [
        "name: data, hostPath: { path: /no/such/folder, type: Directory }",
        "name: claimed, persistentVolumeClaim: { claimName: nowhere }",
    ];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_event(&["FailedMount", "default/a", "/no/such/folder"]);
    node.wait_event(&["UnresolvedVolume", "default/a", "nowhere"]);
    let reasons =
        node.ok(&["get", "volumes", "-o", "jsonpath={range .items[*]}{.metadata.name}={.status.reason};{end}"]);
    assert_eq!(reasons, "data=FailedMount;claimed=UnresolvedVolume;");
    let pods = node.ok(&["get", "pods"]);
    assert!(pods.lines().next().unwrap().trim_end().ends_with("REASON"), "{pods}");
    assert!(pods.trim_end().ends_with("FailedMount,UnresolvedVolume"), "{pods}");
}
