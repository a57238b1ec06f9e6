//! `volhost explain`.

use volhost_tests::Node;
use volhost_tests::manifests::pod;

#[test]
fn a_missing_claim_is_named_and_the_operator_is_to_add_it() {
    let node = Node::start_default();
    let volumes = ["name: data, persistentVolumeClaim: { claimName: nowhere }", "name: scratch, emptyDir: {}"];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_event(&["UnresolvedVolume", "default/a", "nowhere"]);
    node.wait_event(&["SuccessfulMountVolume", "default/a"]);
    let said = node.ok(&["explain", "pod", "a"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "Pod default/a is not mounted: 1 of 2 volumes ready.");
    assert_eq!(lines[2], "Volume data of pod default/a cannot be resolved: volhost does not know what to mount.");
    assert_eq!(lines[3], "It comes by claim default/nowhere, which no source has.");
    assert!(lines[4].starts_with("The cause: ") && lines[4].contains("default/nowhere"), "{said}");
    assert!(lines.last().unwrap().starts_with("You must act: add claim default/nowhere"), "{said}");
    assert!(!said.contains("Volume scratch"), "what is ready needs no explanation: {said}");
    assert_eq!(node.ok(&["explain", "volume", "default/a/data"]), lines[2..].join("\n") + "\n");

    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: nowhere }\nspec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }\n";
    node.manifest("claim.yaml", claim);
    node.wait_event(&["UnresolvedVolume", "default/a", "not bound"]);
    let said = node.ok(&["explain", "volume/default/a/data"]);
    assert!(said.contains("claim default/nowhere, which is Pending"), "{said}");
    assert!(said.contains("You must act: add a PersistentVolume that fits claim default/nowhere"), "{said}");
}

#[test]
fn a_plugin_that_is_not_loaded_is_what_the_operator_is_to_add() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: share, nfs: { server: x, path: /y }"]));
    node.wait_event(&["UnresolvedVolume", "default/a", "nfs"]);
    let said = node.ok(&["explain", "volume", "share"]);
    assert!(said.contains("no loaded plugin serves the volume source \"nfs\""), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("You must act: put a plugin that serves this source into the plugin folder"), "{said}");
}

#[test]
fn a_mount_that_fails_has_its_plugin_its_step_its_cause_and_the_next_try() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, hostPath: { path: /no/such/folder, type: Directory }"]));
    node.wait_event(&["FailedMount", "default/a", "/no/such/folder"]);
    let said = node.ok(&["explain", "pod/default/a"]);
    for part in [
        "Volume data of pod default/a is not mounted.",
        "Plugin kubernetes.io/host-path serves it, and is Ready.",
        "Step MountVolume.SetUp failed",
        "/no/such/folder",
        "The next try is",
        "the way out for FailedMount.",
    ] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    node.remove_manifest("a.yaml");
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/b");
    assert_eq!(
        node.ok(&["explain", "pod", "b"]),
        "Pod default/b is mounted: 1 of 1 volumes ready. You need not act.\n"
    );
    assert!(node.fails(&["explain", "pod", "nowhere"]).contains("no pod nowhere found"));
    assert_eq!(node.cli(&["explain", "plugin", "x"]).status.code(), Some(2));
}
