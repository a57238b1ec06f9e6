//! Volumes that pods describe themselves, of a plugin that stages: a CO publishes such a volume and
//! stages nothing.

use std::fs;
use std::process::Command;

use tonic::Code;
use volhost_proto::csi::*;
use volhost_tests::artifacts;

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, code, map, mount_of, wanted};

const READER: i32 = 3;
/// The attached volumes of `fixture-array` have files of these names.
const ATTACHED: &str = "shared@test-node";

/// An image with one file, and the plugin `image-file` served.
fn start() -> Host {
    let host = Host::serve(&artifacts::plugin("image-file"), &[]);
    let (base, image) = (host.node.folder().join("disk/base"), host.node.folder().join("disk/image"));
    fs::create_dir_all(&base).unwrap();
    fs::write(base.join("word"), "kept").unwrap();
    let packed = Command::new("mkfs.erofs").args([&image, &base]).output().expect("mkfs.erofs is installed");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    host
}

/// As a kubelet asks for a volume of a pod.
fn request(host: &Host, id: &str) -> NodePublishVolumeRequest {
    let context = map(&[("image", "image"), ("csi.storage.k8s.io/ephemeral", "true")]);
    let volume = Volume { volume_id: id.to_owned(), volume_context: context, ..Volume::default() };
    NodePublishVolumeRequest {
        staging_target_path: String::new(),
        ..host.publish_request(&volume, mount_of("erofs", READER), id)
    }
}

fn word(host: &Host, id: &str) -> std::io::Result<String> {
    fs::read_to_string(host.seen(&host.target(id)).join("word"))
}

#[test]
fn a_volume_that_a_pod_describes_is_staged_by_the_driver_itself() {
    let mut host = start();
    for id in ["csi-a", "csi-b"] {
        for _ in 0..2 {
            host.publish(request(&host, id)).unwrap();
        }
        assert_eq!(word(&host, id).unwrap(), "kept");
    }
    host.served.kill();
    host.revive();
    host.publish(request(&host, "csi-a")).unwrap();
    for _ in 0..2 {
        host.unpublish("csi-a", "csi-a").unwrap();
    }
    assert_eq!(word(&host, "csi-b").unwrap(), "kept", "the other pod has the image still");
    host.unpublish("csi-b", "csi-b").unwrap();
    host.assert_clean();
    assert_eq!(fs::read_dir(host.served.state().join("ephemeral")).unwrap().count(), 0);
}

#[test]
fn what_a_failed_publication_of_such_a_volume_has_staged_is_taken_back() {
    let host = start();
    fs::write(host.node.folder().join("disk/image"), "no file system").unwrap();
    host.publish(request(&host, "csi-a")).unwrap_err();
    host.unpublish("csi-a", "csi-a").unwrap();
    host.assert_clean();
    let not_the_pods = NodePublishVolumeRequest { volume_context: map(&[("image", "image")]), ..request(&host, "v") };
    assert_eq!(code(host.publish(not_the_pods)), Code::FailedPrecondition, "a PersistentVolume is staged by the CO");
}

/// As a kubelet asks for a volume of a pod that shows the array's volume `shared`.
fn of_array(host: &Host, id: &str, fs_type: &str) -> NodePublishVolumeRequest {
    let context = map(&[("lun", "shared"), ("csi.storage.k8s.io/ephemeral", "true")]);
    let volume = Volume { volume_id: id.to_owned(), volume_context: context, ..Volume::default() };
    NodePublishVolumeRequest {
        staging_target_path: String::new(),
        ..host.publish_request(&volume, mount_of(fs_type, SINGLE_NODE_WRITER), id)
    }
}

#[test]
fn a_failed_stage_of_a_storage_leaves_it_attached_for_another_volume_that_shows_it() {
    let host = Host::serve(&artifacts::fixture("fixture-array"), &[]);
    host.publish(of_array(&host, "csi-a", "")).unwrap();
    fs::write(host.seen(&host.target("csi-a")).join("word"), "kept").unwrap();
    assert_eq!(host.images(), [ATTACHED]);
    assert_eq!(code(host.publish(of_array(&host, "csi-b", "unknown"))), Code::InvalidArgument);
    assert_eq!(host.images(), [ATTACHED], "the first pod's volume is still attached");
    assert_eq!(word(&host, "csi-a").unwrap(), "kept");
    host.unpublish("csi-b", "csi-b").unwrap();
    assert_eq!(host.images(), [ATTACHED]);
    host.unpublish("csi-a", "csi-a").unwrap();
    assert!(host.images().is_empty(), "the last volume detaches it");
    host.assert_clean();
}

#[test]
fn unstaging_a_persistent_volume_leaves_its_storage_attached_for_a_pods_own_volume() {
    let host = Host::serve(&artifacts::fixture("fixture-array"), &[]);
    let capability = || mount_of("", SINGLE_NODE_WRITER);
    let persistent = host.create(wanted("shared", MIB, capability())).unwrap();
    host.stage(&persistent, capability()).unwrap();
    host.publish(of_array(&host, "csi-a", "")).unwrap();
    host.unstage("shared").unwrap();
    assert!(host.images().iter().any(|name| name == ATTACHED), "{:?}", host.images());
    host.unpublish("csi-a", "csi-a").unwrap();
    assert!(!host.images().iter().any(|name| name == ATTACHED), "{:?}", host.images());
}
