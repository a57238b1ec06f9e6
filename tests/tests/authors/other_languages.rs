//! Plugins in other languages than Rust: built by their usual tools, checked against the contract,
//! with the WASI that their languages import.

use std::path::PathBuf;
use std::process::Command;

use volhost_tests::node::Node;
use volhost_tests::{artifacts, compiled};

/// The component that `examples/plugins/build.sh` makes.
fn built(language: &str, folder: &tempfile::TempDir) -> PathBuf {
    let out = folder.path().join(format!("{language}.wasm"));
    let script = artifacts::workspace().join("examples/plugins/build.sh");
    let build = Command::new(script).arg(language).arg(&out).env("VOLHOST", artifacts::volhost()).output().unwrap();
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    out
}

fn pod(name: &str, fields: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: uid-{name}}}\nspec:\n  securityContext: {{fsGroup: 2000}}\n  containers:\n    - name: c\n      \
         image: i\n      volumeMounts: [{{name: data, mountPath: /data}}]\n  volumes:\n    - name: data\n      {fields}\n"
    )
}

/// Mounts, mounts again after a restart, refuses invalid fields, unmounts.
fn keeps_the_contract(language: &str, plugin: &str, field: &str) {
    let folder = tempfile::tempdir().unwrap();
    let component = built(language, &folder);
    // An interpreter takes a minute to compile: once for all that follows.
    let cache = folder.path().join("cache");
    compiled::seed(&cache, std::slice::from_ref(&component));
    let inspect = ["plugin", "inspect", "--cache-dir"];
    let inspected = Command::new(artifacts::volhost()).args(inspect).arg(&cache).arg(&component).output().unwrap();
    compiled::keep(&cache);
    let inspected = String::from_utf8_lossy(&inspected.stdout).into_owned();
    assert!(inspected.contains("wasi:") && !inspected.contains("Problem:"), "it imports WASI and loads: {inspected}");

    let imports = inspected.lines().find(|line| line.starts_with("Imports:")).unwrap();
    let of_contract: Vec<&str> = imports
        .split([':', ','])
        .map(str::trim)
        .skip(1)
        .filter(|name| !name.contains(['/', '@']) && *name != "wasi")
        .collect();
    let world = ["log", "mounts", "tmpfs", "types", "volumes"];
    assert!(of_contract.iter().all(|name| world.contains(name)) && of_contract.contains(&"tmpfs"), "{inspected}");

    let mut node = Node::builder().plugin(component.clone()).start();
    node.manifest("good.yaml", &pod("good", &format!("{field}: {{size: 64Mi}}")));
    node.wait_mounted("default/good");
    let mounts = node.pod_mounts();
    let point = node.volume_inside("uid-good", plugin, "data");
    let mount = mounts.iter().find(|mount| mount.point == point).unwrap_or_else(|| panic!("{mounts:?}"));
    let listed = node.inside("findmnt").args(["-n", "-o", "FSTYPE,OPTIONS"]).arg(&mount.point).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("tmpfs") && listed.contains("size=65536k") && listed.contains("gid=2000"), "{listed}");

    let report = Command::new(artifacts::volhost())
        .args(["conformance", component.to_str().unwrap(), "--config"])
        .arg(artifacts::workspace().join(format!("examples/plugins/{language}/conformance.yaml")))
        .arg("--cache-dir")
        .arg(&cache)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&report.stdout);
    assert!(report.status.success() && said.contains(" 0 failed"), "{said}");

    node.manifest("bad.yaml", &pod("bad", &format!("{field}: {{size: lots}}")));
    node.wait_event(&[&format!("{field}.size:"), "is no quantity"]);
    node.manifest("unknown.yaml", &pod("unknown", &format!("{field}: {{colour: red}}")));
    node.wait_event(&[&format!("{field}.colour: no such field")]);

    node.terminate();
    node.start();
    node.wait_mounted("default/good");
    assert_eq!(node.pod_mounts().len(), 1, "{:?}", node.pod_mounts());
    for name in ["good.yaml", "bad.yaml", "unknown.yaml"] {
        node.remove_manifest(name);
    }
    node.wait_unmounted("default/good");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_plugin_in_python_keeps_the_contract() {
    keeps_the_contract("python", "example.com~py-scratch", "pyScratch");
}

#[test]
fn a_plugin_in_javascript_keeps_the_contract() {
    keeps_the_contract("javascript", "example.com~js-scratch", "jsScratch");
}

#[test]
fn a_plugin_in_go_keeps_the_contract() {
    keeps_the_contract("go", "example.com~go-scratch", "goScratch");
}
