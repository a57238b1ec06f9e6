//! Plugins come, go, are replaced and misbehave; volumes and other plugins do not suffer.

use std::fs;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const WELL_BEHAVED: &str = "fixture.volhost~well-behaved";

fn install(node: &Node, file: &str, bytes: &[u8]) {
    let folder = node.folder().join("plugins");
    fs::write(folder.join(format!(".{file}")), bytes).unwrap();
    fs::rename(folder.join(format!(".{file}")), folder.join(file)).unwrap();
}

fn install_fixture(node: &Node, fixture: &str, file: &str) {
    install(node, file, &fs::read(artifacts::fixture(fixture)).unwrap());
}

#[test]
fn files_that_are_no_plugins_are_refused_with_the_reason_and_the_rest_goes_on() {
    let node = Node::start_default();
    install(&node, "garbage.wasm", b"this is not WebAssembly");
    node.wait_event(&["PluginNotLoaded", "garbage.wasm"]);
    install(&node, "module.wasm", b"\0asm\x01\0\0\0");
    node.wait_event(&["PluginNotLoaded", "module.wasm", "core module"]);
    for (fixture, words) in [
        ("fixture-wrong-world", &["publisher"][..]),
        ("fixture-newer-abi", &["0.9.0", "0.1"]),
        ("fixture-wrong-shape", &["wrong-shape"]),
        ("fixture-describe-panic", &["describe"]),
        ("fixture-describe-loop", &["describe"]),
        ("fixture-describe-nothing", &["describe"]),
        ("fixture-describe-bad-name", &["name"]),
        (
            "fixture-same-name",
            &["calls itself kubernetes.io/empty-dir", "belong to the plugins that come with volhost"],
        ),
        ("fixture-same-source", &["\"emptyDir\"", "Kubernetes' own", "--source emptyDir"]),
        ("fixture-ungranted", &["host-paths", "grant"]),
    ] {
        let file = format!("{}.wasm", fixture.trim_start_matches("fixture-"));
        install_fixture(&node, fixture, &file);
        let mut all = vec!["PluginNotLoaded", file.as_str()];
        all.extend(words);
        node.wait_event(&all);
    }
    let listed = node.ok(&["get", "plugins"]);
    assert!(listed.contains("garbage.wasm") && listed.contains("Failed"), "{listed}");
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
}

#[test]
fn a_grant_in_the_configuration_lets_the_plugin_in() {
    let node = Node::builder()
        .config("[grants.\"fixture.volhost/ungranted\"]\nhost-paths = [\"/srv\"]\n")
        .plugin(artifacts::fixture("fixture-ungranted"))
        .start();
    let listed = node.ok(&["get", "plugins"]);
    assert!(
        listed.lines().any(|line| line.contains("ungranted") && line.contains("Ready")),
        "{listed}\n{}",
        node.log()
    );
}

#[test]
fn a_replaced_plugin_takes_over_under_mounted_volumes() {
    let node = Node::builder().plugin(artifacts::fixture("fixture-well-behaved")).start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, wellBehaved: { size: 1Mi }"]));
    node.wait_mounted("default/a");
    let before = node.pod_mounts();
    install_fixture(&node, "fixture-well-behaved-next", "fixture-well-behaved.wasm");
    node.wait_event(&["PluginLoaded", "fixture.volhost/well-behaved", "version 2.0.0"]);
    let described = node.ok(&["describe", "plugin", "fixture.volhost/well-behaved"]);
    assert!(described.contains("2.0.0"), "{described}");
    assert_eq!(node.pod_mounts(), before);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_replacement_that_cannot_be_loaded_leaves_the_old_version_in_service() {
    let node = Node::builder().plugin(artifacts::fixture("fixture-well-behaved")).start();
    install(&node, "fixture-well-behaved.wasm", b"half a file");
    node.wait_event(&["PluginNotLoaded", "fixture-well-behaved.wasm"]);
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, wellBehaved: {}"]));
    node.wait_mounted("default/a");
}

#[test]
fn a_removed_plugin_refuses_new_volumes_and_takes_old_ones_away_even_after_a_restart() {
    let mut node = Node::builder().plugin(artifacts::fixture("fixture-well-behaved")).start();
    for name in ["a", "b"] {
        node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &["name: data, wellBehaved: {}"]));
        node.wait_mounted(&format!("default/{name}"));
    }
    fs::remove_file(node.folder().join("plugins/fixture-well-behaved.wasm")).unwrap();
    node.wait_event(&["PluginRetired", "fixture.volhost/well-behaved"]);
    let listed = node.ok(&["get", "plugins"]);
    assert!(listed.contains("Retired"), "{listed}");

    node.manifest("c.yaml", &pod("c", "uid-c", &["name: data, wellBehaved: {}"]));
    node.wait_event(&["default/c", "no loaded plugin serves"]);
    assert!(node.volume("uid-a", WELL_BEHAVED, "data").is_dir());
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");

    node.kill();
    node.start();
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_plugin_that_was_missing_serves_waiting_pods_when_it_comes() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, wellBehaved: {}"]));
    node.wait_event(&["UnresolvedVolume", "default/a"]);
    install_fixture(&node, "fixture-well-behaved", "well-behaved.wasm");
    node.wait_mounted("default/a");
}

#[test]
fn a_misbehaving_plugin_hurts_only_its_own_volume() {
    let node = Node::builder()
        .plugin(artifacts::fixture("fixture-misbehaving"))
        .arguments(&["--plugin-cpu-time", "200ms"])
        .start();
    for (how, words) in [
        ("loop", "was stopped"),
        ("panic", "crashed"),
        ("memory", "memory"),
        ("lie", "reported"),
        ("huge-answer", "bytes at once"),
    ] {
        let name = format!("bad-{how}");
        node.manifest(
            &format!("{name}.yaml"),
            &pod(&name, &format!("uid-{name}"), &[&format!("name: data, misbehaving: {{ at: publish, how: {how} }}")]),
        );
        node.wait_event(&["FailedMount", &format!("default/{name}"), words]);
        let good = format!("good-{how}");
        node.manifest(
            &format!("{good}.yaml"),
            &pod(
                &good,
                &format!("uid-{good}"),
                &["name: fast, emptyDir: { medium: Memory }", "name: data, misbehaving: {}"],
            ),
        );
        node.wait_mounted(&format!("default/{good}"));
        let said = node.fails(&["wait", "pod", &format!("default/{name}"), "--timeout", "10ms"]);
        assert!(said.contains("fixture.volhost/misbehaving") && said.contains("data"), "{said}");
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
}

#[test]
fn deleting_a_pod_ends_the_call_that_sets_its_volume_up() {
    // Far longer than the test waits.
    let node = Node::builder()
        .plugin(artifacts::fixture("fixture-misbehaving"))
        .arguments(&["--plugin-cpu-time", "1h", "--operation-deadline", "1s"])
        .start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, misbehaving: { at: publish, how: loop }"]));
    node.wait_event(&["VolumeOverdue", "default/a", "plugin code"]);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    let operations = node.ok(&["get", "operations"]);
    assert!(!operations.contains("volume_mount"), "{operations}");
    let plugins = node.ok(&["get", "plugins"]);
    assert!(plugins.lines().any(|line| line.contains("misbehaving") && line.contains("Ready")), "{plugins}");
}

#[test]
fn a_plugin_that_fails_with_one_volume_after_another_is_set_aside_until_it_is_released() {
    let node = Node::builder().plugin(artifacts::fixture("fixture-misbehaving")).start();
    for name in ["a", "b", "c"] {
        let volume = "name: data, misbehaving: { at: publish, how: panic }";
        node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[volume]));
    }
    node.wait_event(&["PluginQuarantined", "fixture.volhost/misbehaving"]);
    let listed = node.ok(&["get", "plugins"]);
    assert!(listed.lines().any(|line| line.contains("misbehaving") && line.contains("Quarantined")), "{listed}");
    node.manifest("good.yaml", &pod("good", "uid-good", &["name: data, misbehaving: {}", "name: fast, emptyDir: {}"]));
    node.wait_event(&["FailedMount", "default/good", "is quarantined", "the volume asked for it"]);

    for name in ["a", "b", "c"] {
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
    node.poke("-HUP");
    node.wait_mounted("default/good");
}

#[test]
fn an_unpublish_that_lies_is_detected_and_reported() {
    let node = Node::builder().plugin(artifacts::fixture("fixture-misbehaving")).start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: unpublish-lie, misbehaving: {}"]));
    node.wait_mounted("default/a");
    node.remove_manifest("a.yaml");
    node.wait_event(&["FailedUnmount", "default/a", "reported unpublish as done"]);
    assert_eq!(node.pod_mounts().len(), 1, "the volume is not forgotten");
    let said = node.fails(&["wait", "pod", "default/a", "--for", "unmounted", "--timeout", "10ms"]);
    assert!(said.contains("unpublish-lie"), "{said}");
}

#[test]
fn inspect_describes_a_file_without_a_daemon() {
    let file = artifacts::plugin("host-path");
    let output =
        std::process::Command::new(artifacts::volhost()).args(["plugin", "inspect"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for word in ["kubernetes.io/host-path", "publisher", "host-paths", "0.1.0"] {
        assert!(said.contains(word), "{word} is missing:\n{said}");
    }
}

/// A pod of the plugin with every capability, whose volume makes it misbehave when it is asked what
/// the volume is.
fn asked(node: &Node, name: &str, how: &str) {
    let volume = format!("name: v, lyingDevices: {{at: identify, how: {how}, image: {name}}}");
    node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[&volume]));
}

/// The objects that a command lists.
fn items(node: &Node, command: &[&str]) -> Vec<serde_json::Value> {
    let list: serde_json::Value = serde_json::from_str(&node.ok(&[command, &["-o", "json"]].concat())).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// The number of the first event of this reason on this object.
fn sequence(node: &Node, reason: &str, object: &str) -> u64 {
    let events = items(node, &["events"]);
    let event = events.iter().find(|event| event["reason"] == reason && event["object"] == object);
    event.and_then(|event| event["sequence"].as_u64()).unwrap_or_else(|| panic!("no {reason} on {object}: {events:?}"))
}

/// Has a plugin asked what the volumes of many pods are, which it never says. Returns whether
/// another pod was mounted before the plugin was quarantined, so before it was asked for all.
fn other_pod_is_mounted_first() -> bool {
    let node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config("[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n")
        .start();
    let names: Vec<String> = (0..40).map(|number| format!("spins-{number}")).collect();
    for name in &names {
        asked(&node, name, "spin");
    }
    node.manifest("quick.yaml", &pod("quick", "uid-quick", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/quick");
    // Its faults count.
    node.wait_event(&["PluginQuarantined", "fixture.volhost/lying-devices"]);
    asked(&node, "late", "spin");
    node.wait_event(&["UnresolvedVolume", "late", "is quarantined and is not asked"]);
    let listed = node.ok(&["get", "plugins"]);
    assert!(listed.lines().any(|line| line.contains("lying-devices") && line.contains("Quarantined")), "{listed}");
    let quarantined = sequence(&node, "PluginQuarantined", "plugin fixture.volhost/lying-devices");
    sequence(&node, "SuccessfulMountVolume", "pod default/quick") < quarantined
}

#[test]
fn a_plugin_that_never_identifies_a_volume_delays_no_other_pod_and_is_quarantined() {
    // A busy machine may need longer for a mount than the plugin for enough faults.
    const TRIES: usize = 5;
    assert!((0..TRIES).any(|_| other_pod_is_mounted_first()), "the other pod waited for the plugin");
}

#[test]
fn a_quarantined_plugin_is_not_asked_the_questions_that_wait() {
    const VOLUMES: usize = 200;
    let plugin = "fixture.volhost/lying-devices";
    let mut node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config("[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n")
        .build();
    let pods = (0..VOLUMES).map(|number| {
        let volume = format!("name: v, lyingDevices: {{at: identify, how: spin, image: spins-{number}}}");
        pod(&format!("spins-{number}"), &format!("uid-{number}"), &[&volume])
    });
    node.manifest("pods.yaml", &pods.collect::<Vec<_>>().join("---\n"));
    // It is removed once every source has spoken, and every plugin has said what the volumes are.
    let orphan = node.path(&node.root().join("pods/uid-of-no-pod"));
    std::fs::create_dir_all(&orphan).unwrap();
    node.start();
    node.wait_event(&["PluginQuarantined", plugin]);
    assert!(eventually(|| !orphan.exists()), "{}", node.log());
    let listed = |words: &str| {
        let shown = items(&node, &["get", "volumes"]);
        shown.iter().filter(|volume| volume.to_string().contains(words)).count()
    };
    // Eight were answered with a fault, and a few ran meanwhile.
    let not_asked = "is quarantined and is not asked";
    assert!(eventually(|| listed(not_asked) > VOLUMES * 3 / 4), "{}", node.log());
    assert!(eventually(|| listed("is being asked") == 0), "{}", node.log());
    // What was not asked is asked once the plugin is released, which brings it into quarantine once
    // more.
    let quarantines = || {
        let printed = items(&node, &["events"]);
        let those = printed.iter().filter(|event| event["reason"] == "PluginQuarantined");
        those.map(|event| event["count"].as_u64().unwrap_or(1)).sum::<u64>()
    };
    let before = quarantines();
    node.poke("-HUP");
    assert!(eventually(|| quarantines() > before), "{}", node.log());
}
