//! From a claim to a mounted volume, and back to nothing.

use std::fs;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::provisioning::kit::{Host, claim, claimed, class};

/// The plugin's folder of the driver's volumes in a pod.
fn plugin_folder(host: &Host) -> &'static str {
    if host.served.is_some() { "kubernetes.io~csi" } else { "volhost.io~loop" }
}

fn lives(host: &Host) {
    host.class("fast", "parameters: { csi.storage.k8s.io/fstype: ext4 }\n");
    host.claim("data", "fast", "16Mi");
    host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("data")]));
    host.node.wait_mounted("default/a");
    let volume = host.bound("data");
    assert!(volume.starts_with("pvc-"), "{volume}");
    let inside = host.node.volume("uid-a", plugin_folder(host), &volume);
    fs::write(inside.join("hello"), "x").unwrap();
    assert_eq!(host.images(), std::slice::from_ref(&volume));
    let listed = host.node.ok(&["get", "pv", &volume, "-o", "json"]);
    assert!(listed.contains("\"Bound\"") && listed.contains("default/data"), "{listed}");

    // A claim that goes while a pod has its volume takes nothing from the pod.
    host.remove_claim("data");
    host.node.wait_event(&["VolumeStillUsed", &volume]);
    assert_eq!(host.images(), std::slice::from_ref(&volume));
    assert_eq!(fs::read_to_string(inside.join("hello")).unwrap(), "x");
    host.node.remove_manifest("a.yaml");
    host.node.wait_event(&["VolumeDeleted", &volume]);
    host.assert_clean();
}

#[test]
fn a_claim_gets_a_volume_of_a_plugin_that_makes_volumes_and_gives_it_back() {
    lives(&Host::native());
}

#[test]
fn a_claim_gets_a_volume_of_a_csi_driver_and_gives_it_back() {
    for arguments in [&[][..], &["--enable-attach"][..]] {
        lives(&Host::served(arguments));
    }
}

#[test]
fn a_restart_changes_nothing_of_what_was_made() {
    let mut host = Host::native();
    host.class("fast", "");
    host.claim("data", "fast", "4Mi");
    let volume = host.bound("data");
    host.node.kill();
    host.node.start();
    assert_eq!(host.bound("data"), volume);
    assert_eq!(host.images(), std::slice::from_ref(&volume));
    // Claims that were removed while no daemon ran are deleted then.
    host.node.kill();
    host.remove_claim("data");
    host.node.start();
    host.assert_clean();
}

#[test]
fn a_retained_volume_stays_released_until_it_is_forgotten_and_belongs_to_no_claim_afterwards() {
    let host = Host::native();
    host.class("keep", "reclaimPolicy: Retain\n");
    host.claim("data", "keep", "4Mi");
    let first = host.bound("data");
    assert!(host.node.fails(&["delete", "pv", &first]).contains("default/data"));
    host.remove_claim("data");
    let released = || host.node.ok(&["get", "pv", &first]).contains("Released");
    assert!(eventually(released), "{}", host.node.log());
    host.claim("data", "keep", "4Mi");
    let second = host.bound("data");
    assert_ne!(first, second, "a claim of the same name is another claim");
    assert_eq!(host.images(), [first.clone(), second.clone()]);
    assert!(host.node.ok(&["delete", "pv", &first]).contains("stays in the storage"));
    assert!(host.node.fails(&["get", "pv", &first]).contains("no "));
    assert_eq!(host.images(), [first.clone(), second], "its content stays");
    assert!(host.records().contains(&format!("{first}.json")), "its name is not used again");
}

#[test]
fn what_is_added_and_deleted_by_request_outlives_the_machine() {
    let mut host = Host::native();
    let text = format!("{}---\n{}", class("fast", host.driver, ""), claim("data", "fast", "4Mi", ""));
    let file = host.node.folder().join("both.yaml");
    fs::write(&file, text).unwrap();
    host.node.ok(&["apply", "-f", &file.display().to_string()]);
    let volume = host.bound("data");
    // A machine that ends has no tmpfs of records any more.
    host.node.kill();
    let state = host.node.root().join("state");
    assert!(host.node.inside("umount").args(["-l"]).arg(&state).status().unwrap().success());
    host.node.start();
    assert_eq!(host.bound("data"), volume);
    assert_eq!(host.images(), std::slice::from_ref(&volume));
    let said = host.node.ok(&["delete", "pvc", "data"]);
    assert!(said.contains("reclaim policy"), "{said}");
    host.assert_clean();
    assert!(host.node.fails(&["delete", "pvc", "data"]).contains("default/data"));
    assert!(host.node.ok(&["delete", "sc", "fast"]).contains("removed"));
}

#[test]
fn without_the_option_nothing_is_made() {
    let node = volhost_tests::Node::builder().plugin(volhost_tests::artifacts::plugin("loop")).start();
    node.manifest("class.yaml", &class("fast", crate::provisioning::kit::OWN, ""));
    node.manifest("claim.yaml", &claim("data", "fast", "4Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("data")]));
    assert!(eventually(|| node.ok(&["get", "pvc"]).contains("no free PersistentVolume")), "{}", node.log());
    assert!(!node.path(&node.root().join("provisioned")).exists());
}
