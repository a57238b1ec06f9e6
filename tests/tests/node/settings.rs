//! Values that the operator gives to a plugin.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const GRANT: &str = "[grants.\"fixture.volhost/configured\"]\ninterfaces = [\"files\"]\n";
const PLUGIN: &str = "fixture.volhost~configured";

fn config(values: &str) -> String {
    format!("{GRANT}\n[settings.\"fixture.volhost/configured\"]\n{values}")
}

/// Replaces the configuration as editors do.
fn configure(node: &Node, values: &str) {
    let file = node.folder().join("volhost.toml");
    fs::write(node.folder().join(".volhost.toml"), config(values)).unwrap();
    fs::rename(node.folder().join(".volhost.toml"), file).unwrap();
}

fn secret(node: &Node, text: &str, mode: u32) -> PathBuf {
    let file = node.folder().join("password");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    file
}

fn mount(node: &Node, name: &str) {
    let uid = format!("uid-{name}");
    node.manifest(&format!("{name}.yaml"), &pod(name, &uid, &["name: data, configured: {}"]));
    node.wait_mounted(&format!("default/{name}"));
}

/// The content of a file in the volume of a pod.
fn shown(node: &Node, name: &str, file: &str) -> String {
    fs::read_to_string(node.volume(&format!("uid-{name}"), PLUGIN, "data").join(file)).unwrap()
}

#[test]
fn a_plugin_gets_the_values_of_the_configuration_and_new_ones_without_a_restart() {
    let node = Node::builder()
        .config(&config("server = \"archive.example.com\"\nmirrors = [\"a\", \"b\"]\n"))
        .plugin(artifacts::fixture("fixture-configured"))
        .start();
    mount(&node, "first");
    assert_eq!(shown(&node, "first", "server"), "archive.example.com");
    assert_eq!(shown(&node, "first", "retries"), "3");
    assert_eq!(shown(&node, "first", "compress"), "false");
    assert_eq!(shown(&node, "first", "mirrors"), "a b");

    let file = secret(&node, "hunter2\n", 0o600);
    let secret_at = format!("password = {{ file = {:?} }}\n", file.display().to_string());
    configure(&node, &format!("server = \"new.example.com\"\nretries = 5\ncompress = true\n{secret_at}"));
    let mut tries = 0;
    let is_loaded_again = || {
        tries += 1;
        let name = format!("try-{tries}");
        mount(&node, &name);
        shown(&node, &name, "server") == "new.example.com"
    };
    assert!(eventually(is_loaded_again), "{}", node.log());
    mount(&node, "second");
    assert_eq!(shown(&node, "second", "retries"), "5");
    assert_eq!(shown(&node, "second", "compress"), "true");
    assert_eq!(shown(&node, "second", "password"), "hunter2");
    // The secret is read when it is used: a rotated one needs no reload.
    secret(&node, "hunter3\n", 0o600);
    mount(&node, "third");
    assert_eq!(shown(&node, "third", "password"), "hunter3");
    assert_eq!(shown(&node, "first", "server"), "archive.example.com", "a mounted volume stays as it is");
}

#[test]
fn a_plugin_without_a_required_value_waits_until_the_operator_gives_it() {
    let node = Node::builder().config(GRANT).plugin(artifacts::fixture("fixture-configured")).start();
    node.wait_event(&[
        "PluginNotLoaded",
        "[settings.\"fixture.volhost/configured\"]",
        "server: it is required, and missing (text: the host name of the server)",
    ]);
    configure(&node, "server = \"archive.example.com\"\n");
    mount(&node, "late");
    assert_eq!(shown(&node, "late", "server"), "archive.example.com");
}

#[test]
fn values_that_do_not_fit_change_nothing() {
    let node = Node::builder()
        .config(&config("server = \"archive.example.com\"\n"))
        .plugin(artifacts::fixture("fixture-configured"))
        .start();
    mount(&node, "before");
    for (values, words) in [
        ("server = 1\n", "server: it must be a text, and is a number"),
        ("server = \"a\"\nserevr = \"b\"\n", "serevr: the plugin has no such setting; it has: server, retries"),
        (
            "server = \"a\"\npassword = \"hunter2\"\n",
            "password: it must be a secret, and is a text; put it into a file",
        ),
    ] {
        configure(&node, values);
        node.wait_event(&["PluginNotLoaded", words]);
    }
    assert!(!node.log().contains("hunter2"));
    // A file with a mistake counts as not changed; the plugin goes on with what it had.
    configure(&node, "server = [1]\n");
    assert!(eventually(|| node.log().contains("expected a string")), "{}", node.log());
    mount(&node, "after");
    assert_eq!(shown(&node, "after", "server"), "archive.example.com");
}

#[test]
fn a_secret_that_others_can_read_is_refused_and_a_secret_is_in_no_text() {
    let node = Node::builder()
        .config(&config("server = \"archive.example.com\"\npassword = { file = \"/absent\" }\n"))
        .plugin(artifacts::fixture("fixture-configured"))
        .start();
    node.manifest("pod.yaml", &pod("pod", "uid-pod", &["name: data, configured: {}"]));
    node.wait_event(&["default/pod", "the secret of the setting password: /absent cannot be read: No such file"]);
    let file = secret(&node, "hunter2", 0o644);
    let values = format!("server = \"a\"\npassword = {{ file = {:?} }}\n", file.display().to_string());
    configure(&node, &values);
    node.wait_event(&["default/pod", "has mode 644, and only its owner may be able to read it (chmod 600)"]);
    secret(&node, "hunter2", 0o600);
    node.wait_mounted("default/pod");
    assert_eq!(shown(&node, "pod", "password"), "hunter2");

    node.manifest("failed.yaml", &pod("failed", "uid-failed", &["name: data, configured: { fail: it is hunter2 }"]));
    node.wait_event(&["default/failed", "it is [redacted]"]);
    assert!(!node.log().contains("hunter2"), "{}", node.log());
}

#[test]
fn values_are_for_the_first_content_that_used_them() {
    let node = Node::builder()
        .config(&config("server = \"archive.example.com\"\n"))
        .plugin(artifacts::fixture("fixture-configured"))
        .start();
    let file = node.folder().join("plugins/fixture-configured.wasm");
    let mut other = fs::read(&file).unwrap();
    // A custom section without content: another file, and the same plugin.
    other.extend([0, 2, 1, b'x']);
    fs::write(node.folder().join("plugins/.other"), other).unwrap();
    fs::rename(node.folder().join("plugins/.other"), &file).unwrap();
    node.wait_event(&["PluginNotLoaded", "pending approval", "volhost plugin grant fixture.volhost/configured"]);
}

#[test]
fn inspect_shows_settings_and_values() {
    let node = Node::builder().config(&config("server = \"a\"\npassword = { file = \"/p\" }\n")).start();
    let (plugin, config) = (artifacts::fixture("fixture-configured"), node.folder().join("volhost.toml"));
    let words = ["plugin", "inspect", plugin.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let said = node.ok(&words);
    let line = |name: &str| said.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(line("server ").contains("text") && line("server ").contains("yes"), "{said}");
    assert!(line("server ").contains("\"a\"") && line("server ").contains("the host name of the server"), "{said}");
    assert!(line("password ").contains("{ file = \"/p\" }"), "{said}");
    assert!(line("retries ").contains("number") && line("retries ").contains("no"), "{said}");
    let json: serde_json::Value = serde_json::from_str(&node.ok(&[&words[..], &["-o", "json"]].concat())).unwrap();
    assert_eq!(json["settings"][0]["required"], true, "{json}");
}
