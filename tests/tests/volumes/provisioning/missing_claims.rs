//! Claims that are missing without a deletion: their volumes stay until the grace period is over.

use std::fs;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::provisioning::kit::{Host, claim, claimed};

/// A node with a claim in a manifest, its volume, and other manifests.
fn with_claim(grace: Option<&str>) -> (Host, String) {
    let host = Host::with_grace(grace);
    host.class("fast", "");
    host.claim("other", "fast", "4Mi");
    host.claim("data", "fast", "4Mi");
    host.bound("other");
    let volume = host.bound("data");
    (host, volume)
}

/// Another claim gets a volume: whatever would be deleted by mistake has been by then.
fn assert_kept(host: &Host, volume: &str, probe: &str) {
    host.claim(probe, "fast", "4Mi");
    host.bound(probe);
    assert!(host.images().iter().any(|image| image == volume), "{:?}\n{}", host.images(), host.node.log());
}

#[test]
fn a_claim_whose_manifest_is_missing_for_a_while_keeps_its_volume() {
    let (host, volume) = with_claim(None);
    host.remove_claim("data");
    host.node.wait_event(&["ClaimMissing", "default/data", &volume, "missing since", "in 1h0m", "volhost delete pvc"]);
    assert_kept(&host, &volume, "probe");
    let shown = host.node.ok(&["get", "pv", &volume, "-o", "json"]);
    assert!(shown.contains("missing since"), "{shown}");
    host.claim("data", "fast", "4Mi");
    host.node.wait_event(&["ClaimFound", "default/data", &volume]);
    assert_eq!(host.bound("data"), volume);
}

#[test]
fn a_claim_that_is_missing_at_a_restart_keeps_its_volume_and_the_grace_goes_on() {
    let (mut host, volume) = with_claim(None);
    let since = |host: &Host| {
        let record = host.node.path(&host.node.root().join(format!("provisioned/{volume}.json")));
        let record: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
        record["missing_since"].as_u64()
    };
    host.node.kill();
    host.remove_claim("data");
    host.node.start();
    host.node.wait_event(&["ClaimMissing", "default/data", &volume]);
    assert_kept(&host, &volume, "first");
    // The event comes before the record.
    assert!(eventually(|| since(&host).is_some()), "{}", host.node.log());
    let first = since(&host);
    host.node.kill();
    host.node.start();
    host.node.wait_event(&["ClaimMissing", "default/data", &volume]);
    assert_kept(&host, &volume, "second");
    assert_eq!(since(&host), first, "it is missing since then");
    host.claim("data", "fast", "4Mi");
    assert_eq!(host.bound("data"), volume);
    assert!(eventually(|| since(&host).is_none()), "{}", host.node.log());
}

#[test]
fn the_volume_of_a_claim_that_stays_missing_is_deleted_after_the_grace() {
    let (host, volume) = with_claim(Some("300ms"));
    host.remove_claim("data");
    host.node.wait_event(&["ClaimMissing", "default/data", &volume]);
    host.node.wait_event(&["VolumeDeleted", &volume]);
    assert!(!host.images().contains(&volume));
    host.bound("other");
}

#[test]
fn a_missing_claim_can_be_deleted_at_once() {
    let (host, volume) = with_claim(None);
    assert!(host.node.fails(&["delete", "pvc", "data"]).contains("manifest"), "it is in a manifest");
    host.remove_claim("data");
    host.node.wait_event(&["ClaimMissing", "default/data", &volume]);
    assert!(host.node.ok(&["delete", "pvc", "data"]).contains("reclaim policy"));
    host.node.wait_event(&["VolumeDeleted", &volume]);
}

#[test]
fn a_claim_with_a_deletion_timestamp_is_deleted_without_grace_when_no_pod_has_it() {
    let (mut host, volume) = with_claim(None);
    host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("data")]));
    host.node.wait_mounted("default/a");
    let deleted =
        claim("data", "fast", "4Mi", "").replace("name: data", "name: data, deletionTimestamp: 2026-01-01T00:00:00Z");
    host.node.manifest("claim-data.yaml", &deleted);
    host.node.wait_event(&["VolumeStillUsed", &volume]);
    // What was stated counts although the manifest goes.
    host.remove_claim("data");
    host.node.kill();
    host.node.start();
    host.node.remove_manifest("a.yaml");
    host.node.wait_event(&["VolumeDeleted", &volume]);
}

#[test]
fn a_claim_that_may_be_in_a_manifest_that_cannot_be_read_is_not_missing() {
    let (host, volume) = with_claim(Some("0s"));
    host.node.manifest("renamed.yaml", "kind: [\n");
    host.node.wait_event(&["InvalidManifest", "renamed.yaml"]);
    host.remove_claim("data");
    assert_kept(&host, &volume, "probe");
    host.node.manifest("renamed.yaml", &claim("data", "fast", "4Mi", ""));
    assert_eq!(host.bound("data"), volume);
}
