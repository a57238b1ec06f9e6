//! The life of a volume, as a CO drives it.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use tonic::Code;
use volhost_proto::csi::volume_usage::Unit;
use volhost_proto::csi::*;

use crate::csi_serve::kit::{
    Host, MIB, SINGLE_NODE_READER, SINGLE_NODE_SINGLE_WRITER, SINGLE_NODE_WRITER, block, code, mount, wanted,
};

#[test]
fn a_volume_lives_from_its_creation_to_its_deletion() {
    let host = Host::start(&[]);
    let writer = || mount(SINGLE_NODE_WRITER);
    let volume = host.create(wanted("pvc-1", 32 * MIB, writer())).unwrap();
    assert_eq!((volume.volume_id.as_str(), volume.capacity_bytes), ("pvc-1", 32 * MIB));
    assert_eq!(host.create(wanted("pvc-1", 32 * MIB, writer())).unwrap(), volume, "the same name, the same volume");
    assert_eq!(code(host.create(wanted("pvc-1", 64 * MIB, writer()))), Code::AlreadyExists);

    let request = host.publish_request(&volume, writer(), "a");
    assert_eq!(code(host.publish(request.clone())), Code::FailedPrecondition, "it is not staged");
    for _ in 0..2 {
        host.stage(&volume, writer()).unwrap();
        host.publish(request.clone()).unwrap();
    }
    fs::write(host.seen(&host.target("a")).join("hello"), "x").unwrap();
    let read_only = NodePublishVolumeRequest { readonly: true, ..host.publish_request(&volume, writer(), "b") };
    host.publish(read_only).unwrap();
    assert_eq!(fs::read_to_string(host.seen(&host.target("b")).join("hello")).unwrap(), "x");
    assert!(fs::write(host.seen(&host.target("b")).join("more"), "x").is_err(), "it is published read-only");
    let otherwise = NodePublishVolumeRequest { readonly: true, ..request };
    assert_eq!(code(host.publish(otherwise)), Code::AlreadyExists);

    let printed = host.figures("pvc-1", "a").unwrap();
    let bytes = printed.usage.iter().find(|usage| usage.unit() == Unit::Bytes).unwrap();
    assert!(bytes.total > 16 * MIB && bytes.total < 32 * MIB && bytes.used > 0, "{bytes:?}");
    assert!(!printed.volume_condition.unwrap().abnormal);
    assert_eq!(code(host.figures("pvc-1", "c")), Code::NotFound);
    assert_eq!(code(host.figures("pvc-2", "a")), Code::NotFound);

    assert_eq!(code(host.delete("pvc-1")), Code::FailedPrecondition, "it is used");
    assert_eq!(code(host.unstage("pvc-1")), Code::FailedPrecondition, "it is published");
    for _ in 0..2 {
        host.unpublish("pvc-1", "a").unwrap();
    }
    host.unpublish("pvc-1", "b").unwrap();
    for _ in 0..2 {
        host.unstage("pvc-1").unwrap();
    }
    host.assert_clean();
    assert_eq!(host.images(), ["pvc-1"]);
    for _ in 0..2 {
        host.delete("pvc-1").unwrap();
    }
    assert!(host.images().is_empty());
    assert_eq!(code(host.stage(&volume, writer())), Code::NotFound);
    host.assert_clean();
}

#[test]
fn a_device_is_shown_at_a_file_and_grows() {
    let mut host = Host::start(&[]);
    let volume = host.create(wanted("raw", 8 * MIB, block())).unwrap();
    host.stage(&volume, block()).unwrap();
    host.publish(host.publish_request(&volume, block(), "dev")).unwrap();
    let target = host.seen(&host.target("dev"));
    assert!(fs::metadata(&target).unwrap().file_type().is_block_device());
    let total = |host: &Host| host.figures("raw", "dev").unwrap().usage[0].total;
    assert_eq!(total(&host), 8 * MIB);

    let to = CapacityRange { required_bytes: 24 * MIB, limit_bytes: 0 };
    let request = ControllerExpandVolumeRequest {
        volume_id: "raw".to_owned(),
        capacity_range: Some(to),
        ..ControllerExpandVolumeRequest::default()
    };
    let grown = host.controller(async move |mut client| client.controller_expand_volume(request).await).unwrap();
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (24 * MIB, true));
    let request = NodeExpandVolumeRequest {
        volume_id: "raw".to_owned(),
        volume_path: host.target("dev"),
        capacity_range: Some(to),
        ..NodeExpandVolumeRequest::default()
    };
    host.on_node(async move |mut client| client.node_expand_volume(request).await).unwrap();
    assert_eq!(total(&host), 24 * MIB);

    // A restarted driver knows what is published, and that a target is a device's.
    assert!(host.served.terminate().success());
    host.revive();
    host.publish(host.publish_request(&volume, block(), "dev")).unwrap();
    host.unpublish("raw", "dev").unwrap();
    host.unstage("raw").unwrap();
    host.assert_clean();
}

#[test]
fn a_file_system_grows_while_it_is_used() {
    let host = Host::start(&[]);
    let capability = || {
        let mut capability = mount(SINGLE_NODE_WRITER);
        if let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type {
            mount.fs_type = "xfs".to_owned();
            mount.mount_flags = vec!["noatime".to_owned()];
        }
        capability
    };
    let volume = host.create(wanted("data", 1, capability())).unwrap();
    assert_eq!(volume.capacity_bytes, 300 * MIB, "xfs needs as much");
    host.stage(&volume, capability()).unwrap();
    host.publish(host.publish_request(&volume, capability(), "a")).unwrap();
    let total = || host.figures("data", "a").unwrap().usage[0].total;
    let before = total();
    let to = CapacityRange { required_bytes: 500 * MIB, limit_bytes: 600 * MIB };
    let request = NodeExpandVolumeRequest {
        volume_id: "data".to_owned(),
        volume_path: host.target("a"),
        capacity_range: Some(to),
        ..NodeExpandVolumeRequest::default()
    };
    let grown = host.on_node(async move |mut client| client.node_expand_volume(request).await).unwrap();
    assert!(grown.capacity_bytes >= 500 * MIB && total() > before + 100 * MIB, "{grown:?}");
    host.unpublish("data", "a").unwrap();
    host.unstage("data").unwrap();
    host.assert_clean();
}

#[test]
fn access_modes_are_enforced() {
    let host = Host::start(&[]);
    let alone = || mount(SINGLE_NODE_SINGLE_WRITER);
    let volume = host.create(wanted("one", 16 * MIB, alone())).unwrap();
    host.stage(&volume, alone()).unwrap();
    host.publish(host.publish_request(&volume, alone(), "a")).unwrap();
    assert_eq!(code(host.publish(host.publish_request(&volume, alone(), "b"))), Code::FailedPrecondition);
    assert_eq!(code(host.stage(&volume, mount(SINGLE_NODE_WRITER))), Code::AlreadyExists, "staged otherwise");
    assert!(!host.seen(&host.target("b")).exists());
    host.unpublish("one", "a").unwrap();
    host.unstage("one").unwrap();

    // What was formatted once can be read by others.
    let reader = || mount(SINGLE_NODE_READER);
    host.stage(&volume, reader()).unwrap();
    host.publish(host.publish_request(&volume, reader(), "a")).unwrap();
    assert!(fs::write(host.seen(&host.target("a")).join("x"), "x").is_err());
    host.unpublish("one", "a").unwrap();
    host.unstage("one").unwrap();
    host.assert_clean();
}

#[test]
fn the_controller_publishes_to_its_node_as_far_as_that_takes_volumes() {
    let host = Host::start(&["--enable-attach", "--max-volumes-per-node", "1"]);
    let publish = |volume: &Volume, node: &str, readonly: bool| {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            node_id: node.to_owned(),
            volume_capability: Some(mount(SINGLE_NODE_WRITER)),
            readonly,
            ..ControllerPublishVolumeRequest::default()
        };
        host.controller(async move |mut client| client.controller_publish_volume(request).await).map(drop)
    };
    let release = |id: &str| {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            ..ControllerUnpublishVolumeRequest::default()
        };
        host.controller(async move |mut client| client.controller_unpublish_volume(request).await).map(drop)
    };
    let info = host.on_node(async |mut client| client.node_get_info(NodeGetInfoRequest {}).await).unwrap();
    assert_eq!((info.node_id.as_str(), info.max_volumes_per_node), ("test-node", 1));
    let [one, two] = ["one", "two"].map(|name| host.create(wanted(name, MIB, mount(SINGLE_NODE_WRITER))).unwrap());
    for _ in 0..2 {
        publish(&one, "test-node", false).unwrap();
    }
    assert_eq!(code(publish(&one, "test-node", true)), Code::AlreadyExists);
    assert_eq!(code(publish(&two, "test-node", false)), Code::ResourceExhausted);
    assert_eq!(code(publish(&two, "elsewhere", false)), Code::NotFound);
    assert_eq!(code(host.delete("one")), Code::FailedPrecondition);
    for _ in 0..2 {
        release("one").unwrap();
    }
    publish(&two, "test-node", false).unwrap();
    release("two").unwrap();
    release("never").unwrap();
    host.delete("one").unwrap();
}
