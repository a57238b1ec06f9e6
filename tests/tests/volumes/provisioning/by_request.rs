//! Claims that were added by request: what is kept of them, and what a deletion does.

use std::fs;

use crate::provisioning::kit::{Host, claim, class};

fn apply(host: &Host, text: &str) {
    let file = host.node.folder().join("applied.yaml");
    fs::write(&file, text).unwrap();
    host.node.ok(&["apply", "-f", &file.display().to_string()]);
}

fn class_and_claim(host: &Host) -> String {
    format!("{}---\n{}", class("fast", host.driver, ""), claim("data", "fast", "4Mi", ""))
}

fn restart(host: &mut Host) {
    host.node.kill();
    host.node.start();
}

#[test]
fn a_claim_that_was_added_before_and_after_volumes_are_made_keeps_its_volume() {
    let mut host = Host::without_provisioning();
    let both = class_and_claim(&host);
    apply(&host, &both);
    host.node.add_arguments(&["--provision"]);
    restart(&mut host);
    let volume = host.bound("data");
    apply(&host, &both);
    restart(&mut host);
    assert_eq!(host.bound("data"), volume);
    // A machine that ends has no tmpfs any more.
    host.node.kill();
    assert!(host.node.inside("umount").arg("-l").arg(host.node.root().join("state")).status().unwrap().success());
    host.node.start();
    assert_eq!(host.bound("data"), volume);
    assert_eq!(host.images(), std::slice::from_ref(&volume));
    assert!(!host.node.ok(&["events"]).contains("ClaimMissing"), "{}", host.node.log());
    // And a deletion removes it for good.
    host.node.ok(&["delete", "pvc", "data"]);
    host.node.wait_event(&["VolumeDeleted", &volume]);
    restart(&mut host);
    assert!(host.seen("data").is_null(), "{}", host.seen("data"));
    host.assert_clean();
}

#[test]
fn a_stated_deletion_counts_although_another_object_cannot_be_read() {
    let mut host = Host::with_grace(None);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\n";
    apply(&host, &format!("{}---\n{map}", class_and_claim(&host)));
    let volume = host.bound("data");
    host.node.kill();
    let folder = host.node.path(&host.node.root().join("state/objects"));
    for file in fs::read_dir(folder).unwrap() {
        fs::write(file.unwrap().path(), "{").unwrap();
    }
    host.node.start();
    host.node.wait_event(&["RecoveryProblem", "add the object again"]);
    assert_eq!(host.bound("data"), volume);
    host.node.ok(&["delete", "pvc", "data"]);
    host.node.wait_event(&["VolumeDeleted", &volume]);
    host.assert_clean();
}
