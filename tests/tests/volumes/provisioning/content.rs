//! Volumes that begin with others' content, and volumes that grow.

use std::fs;
use std::path::PathBuf;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::provisioning::kit::{Host, claim, claimed};

/// The file `hello` in the pod's volume.
fn hello(host: &Host, uid: &str, volume: &str) -> PathBuf {
    let plugin = if host.served.is_some() { "kubernetes.io~csi" } else { "volhost.io~loop" };
    host.node.volume(uid, plugin, volume).join("hello")
}

#[test]
fn a_claim_begins_with_the_content_of_another_and_lives_without_it() {
    for host in [Host::native(), Host::served(&[])] {
        host.class("fast", "");
        host.claim("first", "fast", "16Mi");
        host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("first")]));
        host.node.wait_mounted("default/a");
        let first = host.bound("first");
        fs::write(hello(&host, "uid-a", &first), "x").unwrap();
        host.node.remove_manifest("a.yaml");
        host.node.wait_unmounted("default/a");

        let source = "  dataSource: { kind: PersistentVolumeClaim, name: first }\n";
        host.node.manifest("claim-small.yaml", &claim("small", "fast", "8Mi", source));
        let reason = || host.seen("small")["message"].as_str().unwrap_or_default().to_owned();
        assert!(eventually(|| reason().contains("as large or larger")), "{}", reason());
        host.remove_claim("small");
        host.node.manifest("claim-copy.yaml", &claim("copy", "fast", "16Mi", source));
        let copy = host.bound("copy");
        host.remove_claim("first");
        assert!(eventually(|| host.images() == [copy.clone()]), "{:?}", host.images());
        host.node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("copy")]));
        host.node.wait_mounted("default/b");
        assert_eq!(fs::read_to_string(hello(&host, "uid-b", &copy)).unwrap(), "x");
        host.node.remove_manifest("b.yaml");
        host.remove_claim("copy");
        host.assert_clean();
    }
}

#[test]
fn a_claim_begins_with_a_snapshot_that_exists() {
    let host = Host::native();
    host.class("fast", "");
    host.claim("first", "fast", "16Mi");
    let first = host.bound("first");
    // A snapshot of `loop` is a file beside its volume's.
    let disk = host.node.folder().join("disk");
    fs::copy(disk.join(&first), disk.join(format!(".snapshot-s@{first}"))).unwrap();
    let source = "  dataSourceRef: { apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: monday }\n";
    host.node.manifest("claim-back.yaml", &claim("back", "fast", "16Mi", source));
    let reason = || host.seen("back")["message"].as_str().unwrap_or_default().to_owned();
    assert!(eventually(|| reason().contains("there is no VolumeSnapshot default/monday")), "{}", reason());
    let head = "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshot";
    host.node.manifest(
        "snapshot.yaml",
        &format!(
            "{head}\nmetadata: {{ name: monday }}\nspec: {{ source: {{ volumeSnapshotContentName: stored }} }}\n---\n{head}Content\nmetadata: {{ name: stored }}\nspec: {{ driver: {}, deletionPolicy: Retain, source: {{ snapshotHandle: s@{first} }}, volumeSnapshotRef: {{ name: monday, namespace: default }} }}\n",
            host.driver
        ),
    );
    let back = host.bound("back");
    assert_eq!(fs::read(disk.join(&back)).unwrap().len(), 16 << 20);
}

#[test]
fn a_claim_that_asks_for_more_grows_while_its_pod_uses_it() {
    for host in [Host::native(), Host::served(&[])] {
        host.class("fixed", "parameters: { csi.storage.k8s.io/fstype: xfs }\n");
        host.claim("data", "fixed", "320Mi");
        host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("data")]));
        host.node.wait_mounted("default/a");
        let volume = host.bound("data");
        host.claim("data", "fixed", "400Mi");
        host.node.wait_event(&["VolumeResizeFailed", "allowVolumeExpansion"]);
        assert_eq!(host.bound("data"), volume, "it keeps what it has");
        host.class("fixed", "allowVolumeExpansion: true\nparameters: { csi.storage.k8s.io/fstype: xfs }\n");
        host.node.wait_event(&["VolumeResizeSuccessful", "claim default/data"]);
        host.node.wait_event(&["FileSystemResizeSuccessful"]);
        let size = fs::metadata(host.node.folder().join("disk").join(&volume)).unwrap().len();
        assert_eq!(size, 400 << 20);
        assert_eq!(host.seen("data")["capacity"], 400 << 20);
        host.node.remove_manifest("a.yaml");
        host.remove_claim("data");
        host.assert_clean();
    }
}
