//! Plugins that make no volumes are served, too: the driver records the volumes that are created.

use std::fs;

use tonic::Code;
use volhost_proto::csi::*;
use volhost_tests::artifacts;

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, code, map, mount, wanted};

fn writer() -> VolumeCapability {
    let mut capability = mount(SINGLE_NODE_WRITER);
    if let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type {
        mount.fs_type = String::new();
    }
    capability
}

#[test]
fn a_folder_of_the_host_is_a_volume_by_its_parameters() {
    let mut host = Host::serve(&artifacts::plugin("host-path"), &["--driver-name", "folders.example.com"]);
    let path = host.node.folder().join("disk/data").display().to_string();
    let wanted = CreateVolumeRequest {
        parameters: map(&[("path", &path), ("type", "DirectoryOrCreate")]),
        ..wanted("pvc", MIB, writer())
    };
    let volume = host.create(wanted.clone()).unwrap();
    assert_eq!((volume.volume_id.as_str(), volume.capacity_bytes), ("pvc", MIB));
    assert_eq!(volume.volume_context, wanted.parameters);
    assert_eq!(host.create(wanted.clone()).unwrap(), volume);
    let other = CreateVolumeRequest { parameters: map(&[("path", "/srv")]), ..wanted.clone() };
    assert_eq!(code(host.create(other)), Code::AlreadyExists);

    // It is not staged: it is published at once.
    let request =
        NodePublishVolumeRequest { staging_target_path: String::new(), ..host.publish_request(&volume, writer(), "a") };
    for _ in 0..2 {
        host.publish(request.clone()).unwrap();
    }
    fs::write(host.seen(&host.target("a")).join("word"), "x").unwrap();
    assert_eq!(fs::read_to_string(format!("{path}/word")).unwrap(), "x");
    assert!(host.figures("pvc", "a").unwrap().usage[0].total > 0);
    host.served.kill();
    host.revive();
    assert_eq!(code(host.delete("pvc")), Code::FailedPrecondition, "it is used");
    for _ in 0..2 {
        host.unpublish("pvc", "a").unwrap();
    }
    host.assert_clean();
    let list = ListVolumesRequest::default();
    let listed = host.controller(async move |mut client| client.list_volumes(list).await).unwrap();
    assert_eq!(listed.entries.len(), 1);
    for _ in 0..2 {
        host.delete("pvc").unwrap();
    }
    assert_eq!(fs::read_to_string(format!("{path}/word")).unwrap(), "x", "the note is gone, the data stays");
    let refused = CreateVolumeRequest { volume_capabilities: vec![crate::csi_serve::kit::block()], ..wanted };
    assert_eq!(code(host.create(refused)), Code::InvalidArgument);
}

#[test]
fn a_plugin_says_what_is_wrong_with_a_context() {
    let host = Host::serve(&artifacts::plugin("host-path"), &[]);
    let volume = Volume { volume_id: "v".to_owned(), volume_context: map(&[("paht", "/srv")]), ..Volume::default() };
    let refused = host.publish(host.publish_request(&volume, writer(), "a")).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("paht") && refused.message().contains("host-path"), "{refused}");
    let ungranted = Volume { volume_context: map(&[("path", "/etc")]), ..volume };
    let refused = host.publish(host.publish_request(&ungranted, writer(), "a")).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    host.assert_clean();
}
