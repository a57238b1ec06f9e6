//! Creating, expanding and deleting volumes and snapshots, on the double.

use std::collections::BTreeMap;

use volhost_plugin_sdk::grpc::Failure;
use volhost_plugin_sdk::testing::{TestCall, TestHost, TestVolumeRequest};

use super::call::controller;
use super::controller_messages::*;
use super::messages::{Capabilities, Capability, Rpc};
use super::*;

const DRIVER: &str = "csi.example.com";
const ALL: [i32; 5] = [
    controller::CREATE_DELETE_VOLUME,
    controller::CREATE_DELETE_SNAPSHOT,
    controller::CLONE_VOLUME,
    controller::EXPAND_VOLUME,
    controller::SINGLE_NODE_MULTI_WRITER,
];

/// A driver that fulfils each request; `change` changes its answers.
fn host(kinds: &'static [i32], change: impl Fn(&mut CreatedVolume) + 'static) -> TestHost {
    let host = TestHost::new();
    host.provisioner(DRIVER).secret("key", &[("token", b"hunter2")]);
    host.driver(DRIVER, move |call: &TestCall| {
        let zone = || Topology { segments: BTreeMap::from([("zone".to_owned(), "a".to_owned())]) };
        Ok(match call.method.rsplit('/').next().unwrap() {
            "ControllerGetCapabilities" => {
                let one = |kind: &i32| Capability { rpc: Some(Rpc { kind: *kind }) };
                Capabilities { capabilities: kinds.iter().map(one).collect() }.encode_to_vec()
            }
            "GetPluginCapabilities" => {
                let service = PluginCapability { service: Some(Service { kind: 2 }) };
                GetPluginCapabilitiesResponse { capabilities: vec![service] }.encode_to_vec()
            }
            "NodeGetInfo" => NodeGetInfoResponse { accessible_topology: Some(zone()) }.encode_to_vec(),
            "CreateVolume" => {
                let request = CreateVolumeRequest::decode(call.message.as_slice()).unwrap();
                let mut made = CreatedVolume {
                    capacity_bytes: request.capacity_range.unwrap_or_default().required_bytes,
                    volume_id: format!("id-of-{}", request.name),
                    volume_context: request.parameters,
                    content_source: request.volume_content_source,
                    accessible_topology: vec![zone()],
                };
                change(&mut made);
                CreateVolumeResponse { volume: Some(made) }.encode_to_vec()
            }
            "ControllerExpandVolume" => {
                let request = ControllerExpandVolumeRequest::decode(call.message.as_slice()).unwrap();
                let capacity_bytes = request.capacity_range.unwrap_or_default().required_bytes;
                ControllerExpandVolumeResponse { capacity_bytes }.encode_to_vec()
            }
            "CreateSnapshot" => {
                let request = CreateSnapshotRequest::decode(call.message.as_slice()).unwrap();
                let snapshot = CreatedSnapshot {
                    size_bytes: 5,
                    snapshot_id: request.name,
                    source_volume_id: request.source_volume_id,
                    creation_time: Some(Timestamp { seconds: 7 }),
                    ready_to_use: true,
                };
                CreateSnapshotResponse { snapshot: Some(snapshot) }.encode_to_vec()
            }
            _ => Vec::new(),
        })
    });
    host
}

fn last(host: &TestHost, call: &str) -> TestCall {
    let calls = host.driver_calls();
    calls.into_iter().rev().find(|one| one.method.ends_with(&format!("/{call}"))).unwrap()
}

fn wanted() -> TestVolumeRequest {
    TestVolumeRequest::new("pvc-1").required(100).limit(200).parameter("tier", "gold").fs_type("xfs")
}

#[test]
fn a_volume_is_made_by_its_class_and_deleted_with_the_same_secret() {
    let host = host(&ALL, |_| {});
    host.provisioner_secret("key");
    let made = host.create_volume::<Csi>(&wanted()).unwrap();
    assert_eq!((made.id.as_str(), made.capacity), ("id-of-pvc-1", 100));
    assert_eq!(made.attributes.get("tier").map(String::as_str), Some("gold"));
    assert_eq!(host.reachable_from(), [vec![("zone".to_owned(), "a".to_owned())]]);
    let call = last(&host, "CreateVolume");
    let sent = CreateVolumeRequest::decode(call.message.as_slice()).unwrap();
    assert_eq!(sent.capacity_range.map(|range| (range.required_bytes, range.limit_bytes)), Some((100, 200)));
    assert_eq!(sent.accessibility_requirements.unwrap_or_default().requisite.len(), 1);
    let has_secret = |call: &TestCall| call.message.windows(7).any(|bytes| bytes == b"hunter2");
    assert!(has_secret(&call));
    host.delete_volume::<Csi>("id-of-pvc-1").unwrap();
    assert!(has_secret(&last(&host, "DeleteVolume")));
    assert_eq!(host.expand_volume::<Csi>("id-of-pvc-1", 300, None), Ok(300));
}

#[test]
fn without_its_secret_the_driver_is_not_called() {
    let host = host(&ALL, |_| {});
    host.provisioner_secret("none");
    let error = host.create_volume::<Csi>(&wanted()).unwrap_err();
    assert!(error.to_string().contains("StorageClass's secret"), "{error}");
    assert!(host.driver_calls().iter().all(|call| !call.method.ends_with("CreateVolume")));
}

#[test]
fn a_driver_without_the_capability_is_not_called() {
    let host = host(&[], |_| {});
    assert!(matches!(host.create_volume::<Csi>(&wanted()), Err(Error::Unsupported(_))));
    assert!(matches!(host.expand_volume::<Csi>("v", 1, None), Err(Error::Unsupported(_))));
    assert!(matches!(host.create_snapshot::<Csi>("s", "v"), Err(Error::Unsupported(_))));
}

#[test]
fn without_a_provisioner_no_volume_is_made() {
    let _host = TestHost::new();
    assert!(matches!(_host.create_volume::<Csi>(&wanted()), Err(Error::Precondition(_))));
}

#[test]
fn an_unusable_answer_leaves_the_volume_uncertain() {
    for change in [
        (|made: &mut CreatedVolume| made.volume_id.clear()) as fn(&mut CreatedVolume),
        |made| made.volume_id = "x".repeat(129),
        |made| made.volume_id = "a\nb".to_owned(),
        |made| drop(made.volume_context.insert("k".to_owned(), "x".repeat(5000))),
    ] {
        let host = host(&ALL, change);
        assert!(matches!(host.create_volume::<Csi>(&wanted()), Err(Error::Uncertain(_))));
    }
}

#[test]
fn a_copy_that_came_out_empty_is_deleted() {
    let copied = host(&ALL, |_| {});
    copied.create_volume::<Csi>(&wanted().source_volume("first")).unwrap();
    let sent = CreateVolumeRequest::decode(last(&copied, "CreateVolume").message.as_slice()).unwrap();
    let content = sent.volume_content_source.and_then(|source| source.content);
    assert_eq!(content, Some(Content::Volume(SourceId { id: "first".to_owned() })));
    drop(copied);
    let host = host(&ALL, |made| made.content_source = None);
    assert!(matches!(host.create_volume::<Csi>(&wanted().source_snapshot("s")), Err(Error::Precondition(_))));
    let sent = DeleteRequest::decode(last(&host, "DeleteVolume").message.as_slice()).unwrap();
    assert_eq!(sent.id, "id-of-pvc-1");
}

#[test]
fn a_topology_that_is_not_allowed_is_refused_with_this_nodes() {
    let host = host(&ALL, |_| {});
    host.allowed_place(&[("zone", &["b", "c"])]);
    let error = host.create_volume::<Csi>(&wanted()).unwrap_err();
    assert!(error.to_string().contains("zone=a"), "{error}");
    host.allowed_place(&[("zone", &["a"])]);
    host.create_volume::<Csi>(&wanted()).unwrap();
}

#[test]
fn a_snapshot_is_made_and_deleted() {
    let host = host(&ALL, |_| {});
    let (made, _) = host.create_snapshot::<Csi>("s", "v").unwrap();
    assert_eq!((made[0].id.as_str(), made[0].volume_id.as_str(), made[0].bytes), ("s", "v", 5));
    host.delete_snapshot::<Csi>("s").unwrap();
}

#[test]
fn statuses_have_their_meaning_in_kubernetes() {
    for (code, uncertain) in [(3, false), (8, true), (13, false), (14, true)] {
        let host = TestHost::new();
        host.provisioner(DRIVER);
        host.driver(DRIVER, move |call: &TestCall| match call.method.rsplit('/').next().unwrap() {
            "ControllerGetCapabilities" => {
                let one = Capability { rpc: Some(Rpc { kind: controller::CREATE_DELETE_VOLUME }) };
                Ok(Capabilities { capabilities: vec![one] }.encode_to_vec())
            }
            "CreateVolume" | "DeleteVolume" => Err(Failure::Status { code, message: "no".to_owned() }),
            _ => Ok(Vec::new()),
        });
        let error = host.create_volume::<Csi>(&wanted()).unwrap_err();
        assert_eq!(matches!(error, Error::Uncertain(_)), uncertain, "{code}: {error}");
    }
    let host = TestHost::new();
    host.provisioner(DRIVER);
    host.driver(DRIVER, |_: &TestCall| Err(Failure::Status { code: 5, message: "gone".to_owned() }));
    host.delete_volume::<Csi>("v").unwrap();
}
