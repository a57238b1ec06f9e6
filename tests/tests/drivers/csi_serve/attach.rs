//! The controller and the node as two processes, and volumes that the controller publishes to
//! nodes.

use std::collections::HashMap;
use std::fs;

use tonic::{Code, Status};
use volhost_proto::csi::volume_capability::MountVolume;
use volhost_proto::csi::*;
use volhost_tests::artifacts;
use volhost_tests::kill_points::{KillPoint, KilledProcess, Trace};

use crate::csi_serve::kit::{Beside, Host, MIB, SINGLE_NODE_WRITER, code, mount, mount_of, wanted};

const MULTI_NODE_READER: i32 = 3;

fn publish_to(controller: &Beside<'_>, id: &str, node: &str, mode: i32) -> Result<HashMap<String, String>, Status> {
    let request = ControllerPublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(mount_of("", mode)),
        ..ControllerPublishVolumeRequest::default()
    };
    controller
        .controller(async move |mut client| client.controller_publish_volume(request).await)
        .map(|answer| answer.publish_context)
}

fn unpublish_from(controller: &Beside<'_>, id: &str, node: &str) -> Result<(), Status> {
    let request = ControllerUnpublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        ..ControllerUnpublishVolumeRequest::default()
    };
    controller.controller(async move |mut client| client.controller_unpublish_volume(request).await).map(drop)
}

#[test]
fn a_controller_and_a_node_of_their_own_know_of_each_other_by_the_storage() {
    let host = Host::start(&[]);
    let controller = host.beside("controller", &artifacts::plugin("loop"), &["--enable-attach"]);
    let writer = || mount(SINGLE_NODE_WRITER);
    let volume = controller.create(wanted("pvc", 16 * MIB, writer())).unwrap();
    host.stage(&volume, writer()).unwrap();
    host.publish(host.publish_request(&volume, writer(), "a")).unwrap();
    fs::write(host.seen(&host.target("a")).join("word"), "x").unwrap();
    assert_eq!(code(controller.delete("pvc")), Code::FailedPrecondition, "a node uses it");
    let request = ControllerExpandVolumeRequest {
        volume_id: "pvc".to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 32 * MIB, limit_bytes: 0 }),
        ..ControllerExpandVolumeRequest::default()
    };
    controller.controller(async move |mut client| client.controller_expand_volume(request).await).unwrap();
    host.unpublish("pvc", "a").unwrap();
    host.unstage("pvc").unwrap();
    controller.delete("pvc").unwrap();
    assert!(host.images().is_empty());
    assert_eq!(code(host.stage(&volume, writer())), Code::NotFound, "what the controller deleted is gone for the node");
    host.assert_clean();
}

#[test]
fn a_storage_that_knows_nodes_attaches_to_any_of_them_and_the_node_finds_it_attached() {
    let plugin = artifacts::fixture("fixture-array");
    let host = Host::serve(&plugin, &[]);
    let mut controller = host.beside(
        "controller",
        &plugin,
        &["--enable-attach", "--max-volumes-per-node", "2", "--node-id", "elsewhere"],
    );
    let capability = || mount_of("", SINGLE_NODE_WRITER);
    for name in ["v", "w", "x"] {
        controller.create(wanted(name, MIB, capability())).unwrap();
    }
    let attached = || host.images().into_iter().filter(|name| name.contains('@')).collect::<Vec<_>>();
    assert_eq!(code(publish_to(&controller, "v", "nowhere", SINGLE_NODE_WRITER)), Code::NotFound);
    assert_eq!(code(publish_to(&controller, "none", "node-a", SINGLE_NODE_WRITER)), Code::NotFound);
    let context = publish_to(&controller, "v", "test-node", SINGLE_NODE_WRITER).unwrap();
    assert_eq!(context["volhost.io/attached-as"], "port of test-node");
    assert_eq!(publish_to(&controller, "v", "test-node", SINGLE_NODE_WRITER).unwrap(), context);
    assert_eq!(attached(), ["v@test-node"]);
    assert_eq!(code(publish_to(&controller, "v", "node-b", SINGLE_NODE_WRITER)), Code::FailedPrecondition);
    assert_eq!(code(publish_to(&controller, "v", "test-node", MULTI_NODE_READER)), Code::AlreadyExists);

    let volume = Volume { volume_id: "v".to_owned(), ..Volume::default() };
    let request = NodeStageVolumeRequest {
        volume_id: "v".to_owned(),
        staging_target_path: host.staging("v"),
        volume_capability: Some(capability()),
        publish_context: context,
        ..NodeStageVolumeRequest::default()
    };
    host.on_node(async move |mut client| client.node_stage_volume(request).await).unwrap();
    host.publish(host.publish_request(&volume, capability(), "a")).unwrap();
    host.unpublish("v", "a").unwrap();
    host.unstage("v").unwrap();
    assert_eq!(attached(), ["v@test-node"], "who attached it detaches it");
    assert_eq!(code(controller.delete("v")), Code::FailedPrecondition, "it is published");

    // Every node takes two; several nodes take what they only read.
    publish_to(&controller, "w", "test-node", MULTI_NODE_READER).unwrap();
    publish_to(&controller, "w", "node-a", MULTI_NODE_READER).unwrap();
    assert_eq!(code(publish_to(&controller, "x", "test-node", SINGLE_NODE_WRITER)), Code::ResourceExhausted);
    assert_eq!(attached(), ["v@test-node", "w@node-a", "w@test-node"]);
    // Another process goes on with it.
    controller.kill();
    controller.revive();
    for _ in 0..2 {
        unpublish_from(&controller, "w", "").unwrap();
        unpublish_from(&controller, "v", "test-node").unwrap();
        unpublish_from(&controller, "v", "node-a").unwrap();
    }
    assert_eq!(attached(), [] as [&str; 0]);
    host.assert_clean();
}

#[test]
fn a_controller_that_is_killed_while_it_attaches_or_detaches_repeats_it() {
    let plugin = artifacts::fixture("fixture-array");
    let host = Host::serve(&plugin, &[]);
    let mut controller = host.beside("controller", &plugin, &["--enable-attach"]);
    controller.create(wanted("v", MIB, mount_of("", SINGLE_NODE_WRITER))).unwrap();
    let is_attached = || host.images().contains(&"v@node-a".to_owned());
    for detaching in [false, true] {
        for point in 0.. {
            if detaching {
                publish_to(&controller, "v", "node-a", SINGLE_NODE_WRITER).unwrap();
            }
            let death = KillPoint { who: KilledProcess::Daemon, before: Some(point) };
            let following = Trace::begin(controller.pid(), death);
            let answer = match detaching {
                true => unpublish_from(&controller, "v", "node-a"),
                false => publish_to(&controller, "v", "node-a", SINGLE_NODE_WRITER).map(drop),
            };
            let seen = following.end();
            controller.kill();
            controller.revive();
            if !seen.killed {
                answer.unwrap();
                assert_eq!(is_attached(), !detaching);
                unpublish_from(&controller, "v", "").unwrap();
                assert!(point > 0, "no call of the kernel was seen");
                break;
            }
            if point % 2 == 0 && !detaching {
                publish_to(&controller, "v", "node-a", SINGLE_NODE_WRITER).unwrap();
                assert!(is_attached());
            }
            // Begun or done: it is taken back, and another node can have it.
            unpublish_from(&controller, "v", "node-a").unwrap();
            assert!(!is_attached(), "point {point}, detaching: {detaching}");
            publish_to(&controller, "v", "node-b", SINGLE_NODE_WRITER).unwrap();
            unpublish_from(&controller, "v", "").unwrap();
        }
    }
}

#[test]
fn a_controller_reserves_volumes_for_nodes_of_every_name_with_any_node() {
    let host = Host::start(&[]);
    let controller = host.beside(
        "controller",
        &artifacts::plugin("loop"),
        &["--enable-attach", "--any-node", "--max-volumes-per-node", "1"],
    );
    for name in ["v", "w"] {
        controller.create(wanted(name, 16 * MIB, mount(SINGLE_NODE_WRITER))).unwrap();
    }
    assert_eq!(publish_to(&controller, "v", "node-a", SINGLE_NODE_WRITER).unwrap(), HashMap::new());
    assert_eq!(code(publish_to(&controller, "v", "node-b", SINGLE_NODE_WRITER)), Code::FailedPrecondition);
    assert_eq!(code(publish_to(&controller, "w", "node-a", SINGLE_NODE_WRITER)), Code::ResourceExhausted);
    publish_to(&controller, "w", "node-b", SINGLE_NODE_WRITER).unwrap();
    let hostile = "n".repeat(300);
    for bad in ["", "a\0b", &hostile] {
        assert_eq!(code(publish_to(&controller, "v", bad, SINGLE_NODE_WRITER)), Code::InvalidArgument, "{bad:?}");
    }
    let request = ListVolumesRequest::default();
    let listed = controller.controller(async move |mut client| client.list_volumes(request).await).unwrap();
    let nodes: Vec<Vec<String>> =
        listed.entries.into_iter().map(|entry| entry.status.unwrap().published_node_ids).collect();
    assert_eq!(nodes, [["node-a"], ["node-b"]]);
    for name in ["v", "w"] {
        unpublish_from(&controller, name, "").unwrap();
        controller.delete(name).unwrap();
    }
}

#[test]
fn the_files_of_a_volume_are_given_to_the_group_that_the_co_names() {
    use std::os::unix::fs::MetadataExt;

    let host = Host::start(&[]);
    let of_group = |group: &str| {
        let mount =
            MountVolume { fs_type: "ext4".to_owned(), volume_mount_group: group.to_owned(), ..MountVolume::default() };
        VolumeCapability {
            access_type: Some(volume_capability::AccessType::Mount(mount)),
            ..crate::csi_serve::kit::mount(SINGLE_NODE_WRITER)
        }
    };
    let groups = |host: &Host| {
        let answer = host.on_node(async |mut client| client.node_get_capabilities(NodeGetCapabilitiesRequest {}).await);
        let wanted = node_service_capability::rpc::Type::VolumeMountGroup;
        answer.unwrap().capabilities.into_iter().any(|capability| match capability.r#type {
            Some(node_service_capability::Type::Rpc(rpc)) => rpc.r#type() == wanted,
            None => false,
        })
    };
    // The CO gives the files of a staged volume to the group itself, by the pod's policy. One that
    // names a group all the same gets it.
    assert!(!groups(&host));
    let volume = host.create(wanted("pvc", 16 * MIB, of_group("2345"))).unwrap();
    host.stage(&volume, of_group("2345")).unwrap();
    host.publish(host.publish_request(&volume, of_group("2345"), "a")).unwrap();
    let folder = host.seen(&host.target("a"));
    let seen = fs::metadata(&folder).unwrap();
    assert_eq!((seen.gid(), seen.mode() & 0o2070), (2345, 0o2070));
    fs::write(folder.join("word"), "x").unwrap();
    assert_eq!(fs::metadata(folder.join("word")).unwrap().gid(), 2345);
    // The kubelet stages a volume for one pod, and publishes it for others.
    host.stage(&volume, of_group("3456")).unwrap();
    host.publish(host.publish_request(&volume, of_group("3456"), "b")).unwrap();
    assert_eq!(fs::metadata(folder.join("word")).unwrap().gid(), 3456);
    assert_eq!(code(host.publish(host.publish_request(&volume, of_group("staff"), "c"))), Code::InvalidArgument);
    for target in ["a", "b"] {
        host.unpublish("pvc", target).unwrap();
    }
    host.unstage("pvc").unwrap();
    host.assert_clean();

    let plain = Host::serve(&artifacts::plugin("host-path"), &[]);
    assert!(!groups(&plain), "its plugin changes no owner");
    let volume = Volume { volume_id: "v".to_owned(), ..Volume::default() };
    let mut capability = of_group("2345");
    if let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type {
        mount.fs_type = String::new();
    }
    assert_eq!(code(plain.publish(plain.publish_request(&volume, capability, "a"))), Code::InvalidArgument);
}
