//! Plugins by way of a real registry: what a maker publishes, an operator pulls into a running
//! daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::Value;
use tempfile::TempDir;
use volhost_tests::manifests::pod;
use volhost_tests::registry::{PASSWORD, Registry, USER};
use volhost_tests::{Node, artifacts};

/// A maker's desk: a home, and a plugin file under a name of its own.
pub(crate) struct Desk {
    folder: TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn plugin(&self, fixture: &str) -> PathBuf {
        let file = self.path().join("well-behaved.wasm");
        fs::copy(artifacts::fixture(fixture), &file).unwrap();
        file
    }

    fn log_in(&self, registry: &Registry, password: &str) {
        let auth = BASE64.encode(format!("{USER}:{password}"));
        let host = registry.reference("");
        let config = serde_json::json!({ "auths": { host.trim_end_matches('/'): { "auth": auth } } });
        fs::create_dir_all(self.path().join(".docker")).unwrap();
        fs::write(self.path().join(".docker/config.json"), config.to_string()).unwrap();
    }

    pub(crate) fn publish(&self, registry: &Registry, reference: &str, file: &Path, more: &[&str]) -> Output {
        let words = [&["publish", reference, file.to_str().unwrap()], more].concat();
        registry.volhost(self.path(), &words)
    }

    pub(crate) fn pull(&self, registry: &Registry, reference: &str, out: &Path) -> Output {
        registry.volhost(self.path(), &["pull", reference, "--out", out.to_str().unwrap()])
    }
}

pub(crate) fn said(output: &Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
    out.trim().to_owned()
}

pub(crate) fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A key of minisign's, and what it signs.
struct Key(Ed25519KeyPair);

impl Key {
    const ID: &[u8] = b"of tests";

    fn new(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn public(&self) -> String {
        let key = [b"Ed", Self::ID, self.0.public_key().as_ref()].concat();
        format!("untrusted comment: a maker\n{}\n", BASE64.encode(key))
    }

    fn sign(&self, file: &Path) {
        let signature = self.0.sign(&fs::read(file).unwrap());
        let whole = self.0.sign(&[signature.as_ref(), b"a test"].concat());
        let encoded = BASE64.encode([b"Ed", Self::ID, signature.as_ref()].concat());
        let whole = BASE64.encode(whole.as_ref());
        let text = format!("untrusted comment: a plugin\n{encoded}\ntrusted comment: a test\n{whole}\n");
        fs::write(format!("{}.minisig", file.display()), text).unwrap();
    }
}

#[test]
fn a_running_daemon_loads_a_published_and_signed_plugin() {
    let (registry, desk, key) = (Registry::protected(), Desk::new(), Key::new(7));
    let plugin = desk.plugin("fixture-well-behaved");
    key.sign(&plugin);
    desk.log_in(&registry, PASSWORD);
    let reference = registry.reference("acme/well-behaved:1.0.0");
    let pinned = said(&desk.publish(&registry, &reference, &plugin, &[]));
    assert!(pinned.starts_with(&format!("{reference}@sha256:")), "{pinned}");
    assert_eq!(said(&desk.publish(&registry, &reference, &plugin, &[])), pinned, "publishing again changes nothing");

    let keys = desk.path().join("keys");
    fs::create_dir(&keys).unwrap();
    fs::write(keys.join("acme.pub"), key.public()).unwrap();
    for path in [keys.clone(), keys.join("acme.pub")] {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode & 0o755)).unwrap();
    }
    let config = format!("trusted-keys = \"{}\"\n", keys.display());
    let node = Node::builder().config(&config).start();
    let printed = said(&desk.pull(&registry, &pinned, &node.folder().join("plugins")));
    assert!(printed.contains(&pinned) && printed.contains("signature:  beside it"), "{printed}");
    node.wait_event(&["PluginLoaded", "fixture.volhost/well-behaved"]);
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, wellBehaved: { size: 1Mi }"]));
    node.wait_mounted("default/a");

    let other = Desk::new();
    let stranger = other.plugin("fixture-well-behaved-greedy");
    Key::new(8).sign(&stranger);
    other.log_in(&registry, PASSWORD);
    let reference = registry.reference("evil/well-behaved:1.0.0");
    said(&other.publish(&registry, &reference, &stranger, &[]));
    said(&desk.pull(&registry, &reference, &node.folder().join("plugins")));
    node.wait_event(&["PluginNotLoaded", "well-behaved.wasm"]);
    assert!(node.ok(&["get", "plugins"]).contains("1.0.0"), "the old one serves on");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
}

#[test]
fn a_published_plugin_has_the_layout_of_wasm_oci_artifacts() {
    let (registry, desk) = (Registry::plain(), Desk::new());
    let plugin = desk.plugin("fixture-well-behaved");
    Key::new(7).sign(&plugin);
    let pinned = said(&desk.publish(&registry, &registry.reference("a:1"), &plugin, &[]));
    let blobs = registry.blobs();
    let parsed: Vec<Value> = blobs.iter().filter_map(|blob| serde_json::from_slice(blob).ok()).collect();
    let of_config = |kind: &str| parsed.iter().find(|one| one["config"]["mediaType"] == kind).unwrap();
    let manifest = of_config("application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    let config = parsed.iter().find(|one| one["architecture"] == "wasm").unwrap();
    assert_eq!(config["os"], "wasip2");
    assert_eq!(config["layerDigests"][0], manifest["layers"][0]["digest"]);
    let exports = config["component"]["exports"].as_array().unwrap();
    assert!(exports.iter().any(|one| one.as_str().unwrap().starts_with("volhost:plugin/")), "{exports:?}");
    assert!(blobs.contains(&fs::read(&plugin).unwrap()));
    let signature = of_config("application/vnd.oci.empty.v1+json");
    assert!(pinned.ends_with(signature["subject"]["digest"].as_str().unwrap()));
}

#[test]
fn a_tag_is_not_overwritten_and_a_digest_names_one_plugin_for_ever() {
    let (registry, desk) = (Registry::plain(), Desk::new());
    let reference = registry.reference("acme/well-behaved:1");
    let first = said(&desk.publish(&registry, &reference, &desk.plugin("fixture-well-behaved"), &[]));
    let content = fs::read(desk.path().join("well-behaved.wasm")).unwrap();
    let other = desk.plugin("fixture-well-behaved-greedy");
    Key::new(7).sign(&other);
    let printed = refused(&desk.publish(&registry, &reference, &other, &[]));
    assert!(printed.contains("--force") && printed.contains(first.split_once('@').unwrap().1), "{printed}");
    let second = said(&desk.publish(&registry, &reference, &other, &["--force"]));
    assert_ne!(first, second);

    let out = desk.path().join("out");
    said(&desk.pull(&registry, &reference, &out));
    assert!(out.join("well-behaved.wasm.minisig").exists());
    assert_ne!(fs::read(out.join("well-behaved.wasm")).unwrap(), content);
    let printed = said(&desk.pull(&registry, &first, &out));
    assert!(printed.contains("signature:  none"), "{printed}");
    assert_eq!(fs::read(out.join("well-behaved.wasm")).unwrap(), content);
    assert!(!out.join("well-behaved.wasm.minisig").exists(), "the signature of the other one");
    let printed = refused(&desk.pull(&registry, &registry.reference("acme/well-behaved:2"), &out));
    assert!(printed.contains("well-behaved:2 is not there"), "{printed}");
}

#[test]
fn a_missing_or_wrong_login_is_reported_without_the_secret() {
    let (registry, desk) = (Registry::protected(), Desk::new());
    let plugin = desk.plugin("fixture-well-behaved");
    let reference = registry.reference("acme/well-behaved:1");
    let printed = refused(&desk.publish(&registry, &reference, &plugin, &[]));
    assert!(printed.contains("docker login"), "{printed}");
    desk.log_in(&registry, "a wrong secret");
    let printed = refused(&desk.publish(&registry, &reference, &plugin, &[]));
    assert!(printed.contains("does not let this login") && !printed.contains("wrong secret"), "{printed}");
    assert!(registry_is_empty(&registry));
}

fn registry_is_empty(registry: &Registry) -> bool {
    !registry.authority().with_file_name("data/docker/registry/v2/blobs").exists()
}

#[test]
fn plain_http_reaches_only_this_machine_and_only_on_request() {
    let (registry, desk) = (Registry::plain(), Desk::new());
    let plugin = desk.plugin("fixture-well-behaved");
    let printed = refused(&desk.publish(&registry, "registry.example/acme/a:1", &plugin, &[]));
    assert!(printed.contains("registry.example would be spoken to without TLS"), "{printed}");
    let protected = Registry::protected();
    let printed = refused(&desk.publish(&protected, &registry.reference("a:1"), &plugin, &[]));
    assert!(printed.contains("--plain-http"), "{printed}");
    let home = desk.path();
    let stranger = protected.reference("a:1");
    let printed = refused(&registry.untrusting(home, &["pull", &stranger]));
    assert!(printed.contains("SSL_CERT_FILE"), "{printed}");
}

#[test]
fn a_file_that_is_no_plugin_is_not_published() {
    let (registry, desk) = (Registry::plain(), Desk::new());
    let file = desk.path().join("a.wasm");
    fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
    let printed = refused(&desk.publish(&registry, &registry.reference("a:1"), &file, &[]));
    assert!(printed.contains("core module"), "{printed}");
    let plugin = desk.plugin("fixture-well-behaved");
    fs::write(desk.path().join("well-behaved.wasm.minisig"), "my word on it").unwrap();
    let printed = refused(&desk.publish(&registry, &registry.reference("a:1"), &plugin, &[]));
    assert!(printed.contains("signature"), "{printed}");
    let usage = desk.publish(&registry, "acme/a:1", &plugin, &[]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("names no registry"));
}
