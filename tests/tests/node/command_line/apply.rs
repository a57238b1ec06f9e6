//! `volhost apply`.

use volhost_tests::Node;
use volhost_tests::manifests::pod;

use super::file;

const SCRATCH: &str = "name: scratch, emptyDir: {}";

/// A config map and a pod, which has two misspelt fields.
fn misspelt() -> String {
    let pod = pod("web", "uid-web", &[SCRATCH])
        .replace("mountPath: /scratch", "mountPath: /scratch, readonly: true")
        .replace("spec:\n", "spec:\n  securityContexts: { fsGroup: 5 }\n");
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: settings }}\n---\n{pod}")
}

#[test]
fn a_misspelt_field_is_refused_and_nothing_of_the_file_is_added() {
    let node = Node::start_default();
    let path = file(&node, "web.yaml", &misspelt());
    for level in [&[][..], &["--validate=strict"]] {
        let said = node.fails(&[&["apply", "-f", &path][..], level].concat());
        let expected = format!(
            "Error: {path}:9: spec.securityContexts: is no field of a Pod; did you mean securityContext?\n\
             {path}:14: spec.containers[0].volumeMounts[0].readonly: is no field of a Pod; did you mean readOnly?\n"
        );
        assert_eq!(said, expected);
    }
    let said = node.fails(&["get", "pod", "web"]);
    assert!(said.contains("no pod web found"), "{said}");
    let said = node.fails(&["delete", "configmap", "settings"]);
    assert!(said.contains("no ConfigMap default/settings is known"), "{said}");
    assert!(!node.ok(&["events"]).contains("IgnoredInManifest"));
}

#[test]
fn an_unknown_field_is_warned_about_or_passed_over_as_the_operator_wants() {
    let node = Node::start_default();
    let path = file(&node, "web.yaml", &misspelt());
    let ignored = node.cli(&["apply", "-f", &path, "--validate=ignore"]);
    assert!(ignored.status.success() && ignored.stderr.is_empty(), "{ignored:?}");
    node.wait_mounted("default/web");
    assert!(!node.ok(&["events"]).contains("IgnoredInManifest"));
    let warned = node.cli(&["apply", "-f", &path, "--validate", "warn"]);
    let said = String::from_utf8_lossy(&warned.stderr).into_owned();
    let warning = format!(
        "Warning: {path}:9: spec.securityContexts: is no field of a Pod; ignored (did you mean securityContext?)\n"
    );
    assert!(warned.status.success() && said.contains(&warning), "{said}");
    node.wait_event(&["IgnoredInManifest", "spec.securityContexts"]);
}

#[test]
fn a_file_of_the_manifest_folder_is_used_without_its_misspelt_fields() {
    let node = Node::start_default();
    node.manifest("web.yaml", &misspelt());
    node.wait_event(&["IgnoredInManifest", "web.yaml:9", "spec.securityContexts"]);
    node.wait_mounted("default/web");
}

#[test]
fn a_dry_run_says_what_would_happen_and_adds_nothing() {
    let node = Node::start_default();
    let good = file(&node, "good.yaml", &pod("web", "uid-web", &[SCRATCH]));
    let said = node.ok(&["apply", "-f", &good, "--dry-run=server"]);
    assert_eq!(said, "pod default/web applied (server dry run)\n");
    let said = node.fails(&["apply", "-f", &file(&node, "slip.yaml", &misspelt()), "--dry-run=server"]);
    assert!(said.contains("spec.securityContexts: is no field of a Pod"), "{said}");
    node.manifest("kept.yaml", &pod("kept", "uid-kept", &[SCRATCH]));
    node.wait_mounted("default/kept");
    let taken = file(&node, "taken.yaml", &pod("kept", "uid-kept", &[SCRATCH]));
    let (dry, wet) = (node.fails(&["apply", "-f", &taken, "--dry-run=server"]), node.fails(&["apply", "-f", &taken]));
    assert!(dry.contains("kept.yaml") && dry == wet, "a dry run is refused as the other: {dry}{wet}");
    assert_eq!(node.ok(&["get", "pods", "-o", "name"]), "pod/default/kept\n");
    let kept = std::fs::read_dir(node.path(&node.root().join("state/objects"))).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "nothing is kept for the next start");

    let said = node.ok(&["apply", "-f", &good, "--dry-run=client"]);
    assert_eq!(said, "Pod web applied (client dry run)\n");
    assert_eq!(node.cli(&["apply", "-f", &good, "--dry-run=server", "--wait"]).status.code(), Some(2));
    node.ok(&["apply", "-f", &good, "--dry-run=none", "--validate=strict"]);
    node.wait_mounted("default/web");
}
