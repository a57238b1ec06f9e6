//! The table of kinds and grants in the documents is what the built plugins say of themselves, and
//! no plugin is granted more than it needs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use volhost_runtime::{Compiler, GrantPolicy, Limits, Runtime, RuntimeConfig};
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts::{builtin_grants, plugin, volhost, workspace};

const BEGIN: &str = "<!-- made from the built plugins by `tests/tests/docs/volume_kinds.rs` -->\n";
const END: &str = "<!-- end -->";
/// Interfaces that every plugin may use.
const FREE: [&str; 11] = [
    "types",
    "volumes",
    "mounts",
    "tmpfs",
    "log",
    "events",
    "node",
    "settings",
    "devices",
    "filesystems",
    "provisioning",
];
/// Set to write the table instead of comparing it.
const WRITE: &str = "VOLHOST_WRITE_DOCS";

fn list(value: &serde_json::Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn row(name: &str) -> String {
    let output =
        Command::new(volhost()).args(["plugin", "inspect", "-o", "json"]).arg(plugin(name)).output().expect("it runs");
    let about: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let code = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let grants: Vec<String> =
        list(&about["imports"]).into_iter().filter(|name| !FREE.contains(&name.as_str())).collect();
    let grants = if grants.is_empty() { "none".to_owned() } else { code(&grants) };
    format!("| {} | `{}` | {} |\n", code(&list(&about["sources"])), about["name"].as_str().unwrap(), grants)
}

/// The plugins that come with volhost.
fn shipped() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(workspace().join("plugins"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_table_of_kinds_and_grants_is_what_the_plugins_ask_for() {
    let rows: String = shipped().iter().map(|name| row(name)).collect();
    let table = format!("\n| source | plugin | grants |\n|---|---|---|\n{rows}\n");

    let page = workspace().join("docs/volume-kinds.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning is marked");
    let (current, after) = rest.split_once(END).expect("the table's end is marked");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(current, table, "docs/volume-kinds.md is stale; run this test with {WRITE}=1 to write it anew");
}

/// The grants of one plugin without one interface, as the configuration file has them.
fn without(granted: &[&str], plugin: &str, left_out: &str) -> GrantPolicy {
    let mut lines = format!("[{plugin:?}]\n");
    let mut interfaces = Vec::new();
    for interface in granted.iter().filter(|interface| **interface != left_out) {
        match *interface {
            "host-paths" => lines.push_str("host-paths = [\"/\"]\n"),
            "loop-devices" => lines.push_str("loop-files = [\"/\"]\n"),
            "network-mounts" => lines.push_str("network-servers = [\"*\"]\n"),
            "iscsi-sessions" => lines.push_str("iscsi-portals = [\"*\"]\n"),
            "fc-devices" => lines.push_str("fc-targets = [\"*\"]\n"),
            "oci-images" => lines.push_str("image-registries = [\"*\"]\n"),
            "image-files" => lines.push_str("image-files = [\"/\"]\n"),
            other => interfaces.push(other),
        }
    }
    toml::from_str(&format!("{lines}interfaces = {interfaces:?}\n")).unwrap()
}

#[test]
fn without_any_one_of_its_grants_a_plugin_is_not_loaded_and_it_has_no_other() {
    let cache = tempfile::tempdir().unwrap();
    let runtime = |cache_dir: &Path, grants: GrantPolicy| {
        let compiler = Compiler { program: volhost(), args: vec!["internal".into(), "compile-plugin".into()] };
        let config = RuntimeConfig { cache_dir: cache_dir.join("cache"), limits: Limits::default(), compiler, grants };
        Runtime::new(config, Arc::new(InMemoryKernel::new())).unwrap()
    };
    let mut tried = 0;
    for file in shipped() {
        let loaded = runtime(cache.path(), builtin_grants()).load(&plugin(&file));
        let loaded = loaded.unwrap_or_else(|error| panic!("{}", error.message()));
        let name = &loaded.info().name;
        let granted = builtin_grants().granted_to(name);
        for interface in &granted {
            assert!(
                loaded.info().imports.iter().any(|import| import == interface),
                "{name} never asks for {interface}"
            );
            let grants = builtin_grants().overridden_by(without(&granted, name.as_str(), interface));
            let error = runtime(cache.path(), grants).load(&plugin(&file)).expect_err("it is refused").message();
            assert!(error.contains(interface) && error.contains("[grants."), "{name} without {interface}: {error}");
            tried += 1;
        }
    }
    assert!(tried >= 15, "{tried}");
}
