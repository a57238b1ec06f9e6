//! Plugins that are signed by cosign with a key pair. Its signatures are those of
//! `openssl dgst -sha256 -sign`, in base64; in a registry they lie where `cosign sign` puts them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;
use sha2::Digest as _;
use volhost_tests::registry::Registry;
use volhost_tests::{Node, artifacts};

use crate::registry::{Desk, said};

const PLUGIN: &str = "fixture.volhost/well-behaved";

/// A key of cosign's.
struct Key {
    secret: PathBuf,
    public: PathBuf,
}

fn openssl(words: &[&str]) -> Vec<u8> {
    let output = Command::new("openssl").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Key {
    fn new(folder: &Path) -> Self {
        let key = Self { secret: folder.join("cosign.key"), public: folder.join("cosign.pub") };
        let (secret, public) = (key.secret.to_str().unwrap(), key.public.to_str().unwrap());
        openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", secret]);
        openssl(&["ec", "-in", secret, "-pubout", "-out", public]);
        key
    }

    fn sign(&self, file: &Path) -> String {
        BASE64.encode(openssl(&["dgst", "-sha256", "-sign", self.secret.to_str().unwrap(), file.to_str().unwrap()]))
    }
}

/// A node that loads only what this key has signed.
fn trusting(key: &Key) -> Node {
    let mut node = Node::builder().build();
    let keys = node.folder().join("keys");
    fs::create_dir(&keys).unwrap();
    fs::set_permissions(&keys, PermissionsExt::from_mode(0o755)).unwrap();
    fs::copy(&key.public, keys.join("cosign.pub")).unwrap();
    fs::set_permissions(keys.join("cosign.pub"), PermissionsExt::from_mode(0o644)).unwrap();
    node.add_arguments(&["--trusted-keys", keys.to_str().unwrap(), "--require-signature"]);
    node.start();
    node
}

/// Puts a blob into a repository of the registry, and returns its description.
fn push(registry: &Registry, repository: &str, media_type: &str, content: &[u8], folder: &Path) -> serde_json::Value {
    let host = format!("http://{}", registry.address());
    let digest = digest(content);
    let file = folder.join("blob");
    fs::write(&file, content).unwrap();
    let begun = curl(&["-X", "POST", "-D", "-", &format!("{host}/v2/{repository}/blobs/uploads/")]);
    let place = begun.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_else(|| panic!("{begun}"));
    let place = format!("{}&digest={digest}", place.trim());
    let data = format!("@{}", file.display());
    curl(&["-X", "PUT", "-H", "Content-Type: application/octet-stream", "--data-binary", &data, &place]);
    json!({"mediaType": media_type, "digest": digest, "size": content.len()})
}

fn curl(words: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--fail", "--noproxy", "*"]).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn digest(content: &[u8]) -> String {
    let hex: String = sha2::Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// As `cosign sign --key KEY REPOSITORY@DIGEST`: a payload with the manifest's digest, its
/// signature in an annotation, under a tag of the digest.
fn cosign_sign(registry: &Registry, repository: &str, signed: &str, key: &Key, folder: &Path) {
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": registry.reference(repository)},
            "image": {"docker-manifest-digest": signed},
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let payload = payload.to_string();
    fs::write(folder.join("payload"), &payload).unwrap();
    let kind = "application/vnd.dev.cosign.simplesigning.v1+json";
    let mut layer = push(registry, repository, kind, payload.as_bytes(), folder);
    layer["annotations"] = json!({"dev.cosignproject.cosign/signature": key.sign(&folder.join("payload"))});
    let config = push(registry, repository, "application/vnd.oci.image.config.v1+json", b"{}", folder);
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer]});
    fs::write(folder.join("manifest"), manifest.to_string()).unwrap();
    let tag = format!("{}.sig", signed.replace(':', "-"));
    let place = format!("http://{}/v2/{repository}/manifests/{tag}", registry.address());
    let data = format!("@{}", folder.join("manifest").display());
    curl(&["-X", "PUT", "-H", &format!("Content-Type: {media_type}"), "--data-binary", &data, &place]);
}

#[test]
fn a_file_that_cosign_has_signed_is_loaded_and_a_changed_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let key = Key::new(folder.path());
    let node = trusting(&key);
    let plugin = artifacts::fixture("fixture-well-behaved");
    let plugins = node.folder().join("plugins");
    fs::write(plugins.join("well-behaved.wasm.sig"), key.sign(&plugin)).unwrap();
    fs::copy(&plugin, plugins.join("well-behaved.wasm")).unwrap();
    node.wait_event(&["PluginLoaded", PLUGIN]);

    let mut changed = fs::read(&plugin).unwrap();
    changed.extend_from_slice(b"\0\x05\x04more");
    fs::write(folder.path().join("changed"), changed).unwrap();
    fs::copy(folder.path().join("changed"), plugins.join("other.wasm")).unwrap();
    node.wait_event(&["PluginNotLoaded", "other.wasm", "is not signed"]);
    // The signature of the file as it was. It alone changes, and the plugin is looked at again.
    fs::copy(plugins.join("well-behaved.wasm.sig"), plugins.join("other.wasm.sig")).unwrap();
    node.wait_event(&["PluginNotLoaded", "other.wasm.sig", "cosign.pub"]);
}

#[test]
fn a_plugin_that_cosign_has_signed_in_a_registry_is_pulled_with_the_signature_and_loaded() {
    let (registry, desk) = (Registry::plain(), Desk::new());
    let key = Key::new(desk.path());
    let plugin = desk.plugin("fixture-well-behaved");
    let pinned = said(&desk.publish(&registry, &registry.reference("acme/well-behaved:1"), &plugin, &[]));
    let (_, digest) = pinned.split_once('@').unwrap();
    let node = trusting(&key);
    let plugins = node.folder().join("plugins");

    said(&desk.pull(&registry, &pinned, &plugins));
    node.wait_event(&["PluginNotLoaded", "well-behaved.wasm", "is not signed"]);
    cosign_sign(&registry, "acme/well-behaved", digest, &key, desk.path());
    let printed = said(&desk.pull(&registry, &pinned, &plugins));
    assert!(printed.contains("signature:  beside it, of cosign"), "{printed}");
    node.wait_event(&["PluginLoaded", PLUGIN]);

    // The same signature says nothing of another plugin.
    fs::copy(plugins.join("well-behaved.wasm.cosign.json"), plugins.join("other.wasm.cosign.json")).unwrap();
    fs::copy(artifacts::fixture("fixture-well-behaved-greedy"), plugins.join("other.wasm")).unwrap();
    node.wait_event(&["PluginNotLoaded", "other.wasm.cosign.json", "is for the file sha256:"]);
}
