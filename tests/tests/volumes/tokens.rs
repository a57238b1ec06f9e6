//! Tokens in running pods, and objects that must not change below them.

use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::mpsc;

use rustix::fs::inotify;
use volhost_tests::manifests::pod;
use volhost_tests::wait::TIMEOUT;
use volhost_tests::{Node, NodeBuilder, artifacts};

const PROJECTED: &str = "kubernetes.io~projected";
const CONFIG_MAP: &str = "kubernetes.io~configmap";
const TOKEN: &str =
    "name: all, projected: { sources: [{ serviceAccountToken: { path: token, expirationSeconds: 3600 } }] }";

fn builder() -> NodeBuilder {
    ["config-map", "projected"].map(artifacts::plugin).into_iter().fold(Node::builder(), NodeBuilder::plugin)
}

/// Waits until something is put in place in the folder, unless `act` says that there is nothing to
/// wait for any more.
fn changed_by(folder: &Path, act: impl FnOnce() -> bool) {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, folder, inotify::WatchFlags::MOVED_TO).unwrap();
    let (done, changed) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let seen = inotify::Reader::new(watch, &mut buffer).next().is_ok();
        let _ = done.send(seen);
    });
    if !act() {
        return;
    }
    assert_eq!(changed.recv_timeout(TIMEOUT), Ok(true), "nothing changed in {}", folder.display());
}

#[test]
fn a_running_pods_token_is_renewed_before_it_ends() {
    let mut node = builder()
        .prepare("umask 077; openssl genpkey -algorithm ed25519 -out $NODE/disk/key.pem")
        .config("token-issuer = 'https://node.example'\ntoken-max-lifetime = '10s'\n")
        .build();
    let key = node.folder().join("disk/key.pem");
    node.add_arguments(&["--token-signing-key", &key.display().to_string()]);
    node.start();
    node.manifest("a.yaml", &pod("a", "uid-a", &[TOKEN]));
    node.wait_mounted("default/a");
    let folder = node.volume("uid-a", PROJECTED, "all");
    let read = || fs::read_to_string(folder.join("token")).unwrap();
    let mut tokens = vec![read()];
    for _ in 0..2 {
        changed_by(&folder, || read() == *tokens.last().unwrap());
        tokens.push(read());
    }
    let times: Vec<(u64, u64)> = tokens.iter().map(|token| times(token)).collect();
    for (before, after) in times.iter().zip(&times[1..]) {
        assert!(after.0 > before.0 && after.0 < before.1, "issued anew, and before the old one ended: {times:?}");
        assert_eq!(after.1 - after.0, 10, "as long as the operator lets it");
    }
    assert!(!node.ok(&["events"]).contains("FailedMount"));
}

/// When a token was issued and when it ends, in seconds.
fn times(token: &str) -> (u64, u64) {
    let claims = token.split('.').nth(1).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&base64_url(claims)).unwrap();
    (claims["iat"].as_u64().unwrap(), claims["exp"].as_u64().unwrap())
}

/// Base64 for URLs, without padding.
fn base64_url(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes() {
        let value = LETTERS.iter().position(|known| *known == letter).expect("a letter of Base64");
        bits = bits << 6 | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn a_pod_certificate_is_refused_with_what_to_use() {
    let node = builder().start();
    let volume = "name: all, projected: { sources: [{ podCertificate: { signerName: example.com/s, keyType: ED25519, credentialBundlePath: c.pem } }] }";
    node.manifest("a.yaml", &pod("a", "uid-a", &[volume]));
    node.wait_event(&[
        "FailedMount",
        "default/a",
        "projected.sources.0.podCertificate",
        "use a secret with the certificate",
    ]);
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn an_immutable_object_keeps_its_content_below_running_pods() {
    let node = builder().start();
    let map = |more: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: app }}\n{more}");
    node.manifest("app.yaml", &map("immutable: true\ndata: { colour: blue }\n"));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cfg, configMap: { name: app }"]));
    node.wait_mounted("default/a");
    let file = node.volume("uid-a", CONFIG_MAP, "cfg").join("colour");
    node.manifest("app.yaml", &map("immutable: true\ndata: { colour: red }\n"));
    node.wait_event(&["InvalidManifest", "app.yaml", "data.colour", "immutable"]);
    node.manifest("app.yaml", &map("data: { colour: blue }\n"));
    node.wait_event(&["InvalidManifest", "app.yaml", "immutable: was true"]);
    // A pod that comes now gets what the others have, too.
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: cfg, configMap: { name: app }"]));
    node.wait_mounted("default/b");
    let other = node.volume("uid-b", CONFIG_MAP, "cfg").join("colour");
    assert_eq!([&file, &other].map(|file| fs::read_to_string(file).unwrap()), ["blue", "blue"]);

    // A new one may have any content.
    changed_by(file.parent().unwrap(), || {
        node.remove_manifest("app.yaml");
        node.wait_event(&["FailedMount", "default/a", "app"]);
        node.manifest("app.yaml", &map("immutable: true\ndata: { colour: red }\n"));
        true
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), "red");
}
