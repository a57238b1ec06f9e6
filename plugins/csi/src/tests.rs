use std::collections::BTreeMap;

use volhost_plugin_sdk::grpc::Failure;
use volhost_plugin_sdk::testing::{TestAttachment, TestCall, TestDriver, TestHost, TestMount, TestPod, TestVolume};

use super::call::{controller, node};
use super::messages::*;
use super::*;

const DRIVER: &str = "csi.example.com";
const ID: &str = "vol-1";
const ALL: [i32; 6] = [
    node::STAGE_UNSTAGE_VOLUME,
    node::GET_VOLUME_STATS,
    node::EXPAND_VOLUME,
    node::VOLUME_CONDITION,
    node::SINGLE_NODE_MULTI_WRITER,
    node::VOLUME_MOUNT_GROUP,
];

fn abilities(kinds: &[i32]) -> Vec<u8> {
    let capabilities = kinds.iter().map(|kind| Capability { rpc: Some(Rpc { kind: *kind }) }).collect();
    Capabilities { capabilities }.encode_to_vec()
}

/// A driver that mounts where it publishes, with these capabilities of its node service.
fn well_behaved(kinds: &'static [i32]) -> impl Fn(&TestCall) -> Result<Vec<u8>, Failure> {
    move |call| {
        Ok(match call.method.rsplit('/').next().unwrap() {
            "NodeGetCapabilities" => abilities(kinds),
            "ControllerGetCapabilities" => abilities(&[controller::PUBLISH_UNPUBLISH_VOLUME]),
            "ControllerPublishVolume" => {
                let publish_context = BTreeMap::from([("lun".to_owned(), "4".to_owned())]);
                ControllerPublishVolumeResponse { publish_context }.encode_to_vec()
            }
            "NodePublishVolume" => {
                let path = NodePublishVolumeRequest::decode(call.message.as_slice()).unwrap().target_path;
                TestDriver::mount(&path, TestMount::tmpfs());
                Vec::new()
            }
            "NodeUnpublishVolume" => {
                TestDriver::unmount(&LeavePathRequest::decode(call.message.as_slice()).unwrap().path);
                Vec::new()
            }
            _ => Vec::new(),
        })
    }
}

fn host(kinds: &'static [i32]) -> TestHost {
    let host = TestHost::new();
    host.driver(DRIVER, well_behaved(kinds));
    host
}

fn volume() -> TestVolume {
    Volume::builder("csi")
        .persistent_volume("pv-1")
        .field("driver", DRIVER)
        .field("volumeHandle", ID)
        .access_mode("ReadWriteOnce")
}

fn inline() -> TestVolume {
    Volume::builder("csi").named("scratch").field("driver", DRIVER)
}

/// The last message of this call.
fn last<M: prost::Message + Default>(host: &TestHost, call: &str) -> M {
    let calls = host.driver_calls();
    let found = calls.iter().rev().find(|one| one.method.ends_with(&format!("/{call}"))).unwrap();
    M::decode(found.message.as_slice()).unwrap()
}

fn count(host: &TestHost, call: &str) -> usize {
    host.driver_calls().iter().filter(|one| one.method.ends_with(&format!("/{call}"))).count()
}

/// The fields of `NodePublishVolumeRequest` that only the host fills in.
#[derive(Clone, PartialEq, prost::Message)]
struct Filled {
    #[prost(btree_map = "string, string", tag = "7")]
    secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "8")]
    context: BTreeMap<String, String>,
}

#[test]
fn a_volume_is_named_by_driver_and_handle_and_attached_if_its_driver_requires_it() {
    let host = host(&ALL);
    let said = host.identity::<Csi>(&volume()).unwrap();
    assert_eq!((said.name.as_deref(), said.attachable), (Some("csi.example.com^vol-1"), Some(true)));
    host.csi_driver(DRIVER, r#"{"attachRequired":false}"#);
    assert_eq!(host.identity::<Csi>(&volume()).unwrap().attachable, Some(false));
    let refused = host.identity::<Csi>(&inline()).unwrap_err().to_string();
    assert!(refused.contains("spec.volumeLifecycleModes") && refused.contains("Ephemeral"), "{refused}");
    host.csi_driver(DRIVER, r#"{"volumeLifecycleModes":["Ephemeral"]}"#);
    let said = host.identity::<Csi>(&inline()).unwrap();
    assert_eq!((said.name, said.attachable, said.stageable), (None, Some(false), Some(false)));
    assert!(host.identity::<Csi>(&volume()).unwrap_err().to_string().contains("Persistent"));
}

#[test]
fn the_settings_of_driver_and_object_apply_to_each_volume() {
    let host = host(&ALL);
    let said = host.identity::<Csi>(&volume()).unwrap();
    assert_eq!((said.attach_limit_of, said.selinux_mount, said.refreshed), (None, false, false));
    host.volume_limit(DRIVER, 4).csi_driver(DRIVER, r#"{"seLinuxMount":true,"requiresRepublish":true}"#);
    let said = host.identity::<Csi>(&volume()).unwrap();
    assert_eq!(said.attach_limit_of, Some(("csi.example.com^".to_owned(), 4)));
    assert!(said.selinux_mount && said.refreshed && said.attach_limit.is_none());
}

#[test]
fn a_group_and_a_label_reach_the_driver_when_it_stages_and_when_it_publishes() {
    for (kinds, group) in [(&ALL[..], "9"), (&[node::STAGE_UNSTAGE_VOLUME][..], "")] {
        let host = host(kinds);
        let volume = volume().mount_group(9).mount_option("noatime").selinux_label("u:r:t:s0:c1,c2");
        host.stage::<Csi>(&volume, None).unwrap();
        host.publish::<Csi>(&volume, &TestPod::new().fs_group(9)).unwrap();
        let staged = last::<NodeStageVolumeRequest>(&host, "NodeStageVolume").volume_capability;
        let published = last::<NodePublishVolumeRequest>(&host, "NodePublishVolume").volume_capability;
        for capability in [staged, published] {
            let Some(AccessType::Mount(mount)) = capability.unwrap().access_type else { panic!("not mounted") };
            assert_eq!(mount.mount_flags, ["noatime", "context=\"u:r:t:s0:c1,c2\""]);
            assert_eq!(mount.volume_mount_group, group);
        }
    }
}

#[test]
fn attachment_metadata_is_the_publish_context() {
    let host = host(&[node::STAGE_UNSTAGE_VOLUME]);
    let attached = TestAttachment::new("csi-0123").with_metadata("lun", "7");
    host.stage::<Csi>(&volume(), Some(&attached)).unwrap();
    assert_eq!(last::<NodeStageVolumeRequest>(&host, "NodeStageVolume").publish_context["lun"], "7");
    TestDriver::attached_as("csi-0123");
    TestDriver::attachment_metadata("lun", "7");
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    assert_eq!(last::<NodePublishVolumeRequest>(&host, "NodePublishVolume").publish_context["lun"], "7");
}

#[test]
fn each_call_gets_the_secret_of_its_name() {
    /// The map of secrets has another number in each request.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Secrets {
        #[prost(btree_map = "string, string", tag = "5")]
        five: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "7")]
        seven: BTreeMap<String, String>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct OfExpand {
        #[prost(btree_map = "string, string", tag = "6")]
        six: BTreeMap<String, String>,
    }
    let host = host(&ALL);
    let mut volume = volume();
    for name in ["controllerPublish", "nodeStage", "nodePublish", "nodeExpand"] {
        host.secret(name, &[("of", name.as_bytes())]);
        volume = volume
            .field(&format!("{name}SecretRef"), format!(r#"{{"name":"{name}","namespace":"default"}}"#))
            .field(&format!("{name}SecretRef.name"), name)
            .field(&format!("{name}SecretRef.namespace"), "default");
    }
    host.attach::<Csi>(&volume).unwrap();
    host.stage::<Csi>(&volume, None).unwrap();
    host.publish::<Csi>(&volume, &TestPod::new()).unwrap();
    host.expand::<Csi>(&volume, None, true, 5).unwrap();
    assert_eq!(last::<Secrets>(&host, "ControllerPublishVolume").five["of"], "controllerPublish");
    assert_eq!(last::<Secrets>(&host, "NodeStageVolume").five["of"], "nodeStage");
    assert_eq!(last::<Secrets>(&host, "NodePublishVolume").seven["of"], "nodePublish");
    assert_eq!(last::<OfExpand>(&host, "NodeExpandVolume").six["of"], "nodeExpand");
}

#[test]
fn a_request_to_expand_that_cannot_be_sent_is_not_final() {
    let host = host(&ALL);
    host.stage::<Csi>(&volume(), None).unwrap();
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    let calls = count(&host, "NodeExpandVolume");
    let error = host.expand::<Csi>(&volume().field("nodeExpandSecretRef", "{}"), None, true, 5).unwrap_err();
    assert!(matches!(&error, Error::Other(other) if other.code == "not-begun"), "{error:?}");
    assert!(error.message().contains("nodeExpandSecretRef"), "{error:?}");
    assert_eq!(count(&host, "NodeExpandVolume"), calls, "the driver was not called");
}

#[test]
fn the_limit_of_a_driver_that_is_full_is_refreshed() {
    let host = TestHost::new();
    host.driver(DRIVER, |call| match call.method.rsplit('/').next().unwrap() {
        "ControllerPublishVolume" => Err(Failure::Status { code: 8, message: "full".to_owned() }),
        _ => well_behaved(&ALL)(call),
    });
    assert!(matches!(host.attach::<Csi>(&volume()), Err(Error::Uncertain(_))));
    assert_eq!(host.drivers_to_refresh(), [DRIVER]);
}

#[test]
fn a_bad_field_is_named() {
    let host = host(&ALL);
    for (volume, said) in [
        (volume().without("volumeHandle"), "csi.volumeHandle: is missing"),
        (volume().without("driver"), "csi.driver: is missing"),
        (volume().field("driver", "a/b"), "csi.driver: \"a/b\" must be a CSI driver's name"),
        (volume().field("volumeHandle", "x".repeat(901)), "must have 900 bytes at most"),
        (volume().field("readonly", "true"), "readonly"),
        (volume().field("nodeStageSecretRef.name", "s").field("nodeStageSecretRef", "{}"), "nodeStageSecretRef"),
        (inline().field("nodeStageSecretRef", "{}"), "nodeStageSecretRef"),
    ] {
        let error = host.identity::<Csi>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().contains(said), "{said}: {error:?}");
    }
}

#[test]
fn a_volume_goes_through_every_step_and_back() {
    let host = host(&[node::STAGE_UNSTAGE_VOLUME]);
    let volume = volume().field("fsType", "ext4").mount_option("noatime");
    let attached = host.attach::<Csi>(&volume).unwrap();
    assert_eq!(attached, TestAttachment::new(r#"{"lun":"4"}"#));
    let sent: ControllerPublishVolumeRequest = last(&host, "ControllerPublishVolume");
    assert_eq!((sent.volume_id.as_str(), sent.node_id.as_str()), (ID, "node-1"));

    host.stage::<Csi>(&volume, Some(&attached)).unwrap();
    assert!(TestDriver::takes_folder("pv-1"), "a driver need not mount where it stages");
    let staged: NodeStageVolumeRequest = last(&host, "NodeStageVolume");
    assert_eq!(staged.publish_context["lun"], "4");
    let capability = staged.volume_capability.unwrap();
    let Some(AccessType::Mount(mount)) = capability.access_type else { panic!("not mounted") };
    assert_eq!((mount.fs_type.as_str(), mount.mount_flags), ("ext4", vec!["noatime".to_owned()]));
    assert_eq!(capability.access_mode.unwrap().mode(), Mode::SingleNodeWriter);

    TestDriver::attached_as(r#"{"lun":"4"}"#);
    host.publish::<Csi>(&volume, &TestPod::new().fs_group(7)).unwrap();
    let sent: NodePublishVolumeRequest = last(&host, "NodePublishVolume");
    assert_eq!(sent.staging_target_path, staged.staging_target_path);
    assert_eq!(sent.publish_context["lun"], "4");
    assert!(host.target("pv-1").mount().is_some());
    assert_eq!(host.target("pv-1").group(), Some(7), "fsType is set and there is one writer");

    host.unpublish::<Csi>("pv-1").unwrap();
    let left: LeavePathRequest = last(&host, "NodeUnpublishVolume");
    assert_eq!((left.volume_id.as_str(), left.path), (ID, sent.target_path));
    assert!(host.target("pv-1").is_absent());
    host.unstage::<Csi>("csi.example.com^vol-1", "pv-1").unwrap();
    let left: LeavePathRequest = last(&host, "NodeUnstageVolume");
    assert_eq!((left.volume_id.as_str(), left.path), (ID, staged.staging_target_path));
    assert!(host.node_target("pv-1").is_absent());
    host.detach::<Csi>("csi.example.com^vol-1").unwrap();
    assert_eq!(last::<ControllerUnpublishVolumeRequest>(&host, "ControllerUnpublishVolume").node_id, "node-1");
}

#[test]
fn a_driver_without_staging_or_controller_is_called_for_neither() {
    let host = TestHost::new();
    host.driver(DRIVER, |call| match call.method.rsplit('/').next().unwrap() {
        "ControllerGetCapabilities" => Err(Failure::Status { code: 12, message: "no such service".to_owned() }),
        _ => well_behaved(&[])(call),
    });
    assert_eq!(host.attach::<Csi>(&volume()).unwrap(), TestAttachment::new(request::NOTHING));
    host.stage::<Csi>(&volume(), None).unwrap();
    assert!(host.node_target("pv-1").folder().is_some(), "a folder represents it");
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    assert_eq!(last::<NodePublishVolumeRequest>(&host, "NodePublishVolume").staging_target_path, "");
    host.unpublish::<Csi>("pv-1").unwrap();
    host.unstage::<Csi>("csi.example.com^vol-1", "pv-1").unwrap();
    assert_eq!((count(&host, "NodeStageVolume"), count(&host, "NodeUnstageVolume")), (0, 0));
    assert_eq!(host.expand::<Csi>(&volume(), None, true, 5), Ok(5), "there is nothing to expand on the node");
}

#[test]
fn codes_are_final_or_uncertain_as_with_the_kubelet() {
    for code in 1..=16 {
        let host = TestHost::new();
        host.driver(DRIVER, move |call| match call.method.rsplit('/').next().unwrap() {
            "NodePublishVolume" | "NodeStageVolume" => Err(Failure::Status { code, message: "no".to_owned() }),
            _ => well_behaved(&[node::STAGE_UNSTAGE_VOLUME])(call),
        });
        let uncertain = [1, 4, 8, 10, 14].contains(&code);
        let staged = host.stage::<Csi>(&volume(), None).unwrap_err();
        let published = host.publish::<Csi>(&volume(), &TestPod::new()).unwrap_err();
        for error in [staged, published] {
            assert_eq!(matches!(error, Error::Uncertain(_)), uncertain, "{code}: {error:?}");
            assert!(error.message().contains(DRIVER) && error.message().contains(&format!("gRPC code {code}")));
        }
        let note = TestDriver::note(TestPod::new().uid(), "pv-1");
        assert_eq!(note.is_some(), uncertain, "{code}: only a volume that may be published has a note");
    }
}

#[test]
fn a_call_that_never_reached_the_driver_leaves_the_volume_as_it_was() {
    let host = TestHost::new();
    for error in [
        host.stage::<Csi>(&volume(), None).unwrap_err(),
        host.publish::<Csi>(&volume(), &TestPod::new()).unwrap_err(),
        host.attach::<Csi>(&volume()).unwrap_err(),
    ] {
        let Error::Other(other) = &error else { panic!("{error:?}") };
        assert_eq!(other.code, "not-begun");
    }
}

#[test]
fn leftovers_and_omissions_of_a_driver_are_found() {
    let host = TestHost::new();
    host.driver(DRIVER, |call| match call.method.rsplit('/').next().unwrap() {
        "NodeGetCapabilities" => Ok(abilities(&[])),
        _ => Ok(Vec::new()),
    });
    let error = host.publish::<Csi>(&volume(), &TestPod::new()).unwrap_err();
    assert!(matches!(error, Error::Uncertain(_)) && error.message().contains("has mounted nothing"), "{error:?}");
    host.driver(DRIVER, well_behaved(&[]));
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    host.driver(DRIVER, |_| Ok(Vec::new()));
    host.unpublish::<Csi>("pv-1").unwrap();
    assert!(host.target("pv-1").is_absent(), "the mount that the driver left is unmounted");
    assert!(host.lines().iter().any(|line| line.message.contains("has left a mount")));
}

#[test]
fn a_published_volume_is_published_again_only_if_the_driver_requires_it() {
    let host = host(&[]);
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    TestDriver::refreshes(true);
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    assert_eq!(count(&host, "NodePublishVolume"), 1);
    host.csi_driver(DRIVER, r#"{"requiresRepublish":true}"#);
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    assert_eq!(count(&host, "NodePublishVolume"), 2);
    host.driver(DRIVER, |call| match call.method.rsplit('/').next().unwrap() {
        "NodePublishVolume" => Err(Failure::Status { code: 13, message: "no".to_owned() }),
        _ => well_behaved(&[])(call),
    });
    let error = host.publish::<Csi>(&volume(), &TestPod::new()).unwrap_err();
    assert!(matches!(&error, Error::Other(other) if other.code == "not-begun"), "the mount stays: {error:?}");
    assert!(host.target("pv-1").mount().is_some());
}

#[test]
fn a_mount_that_the_host_does_not_know_is_published_again() {
    let host = host(&[]);
    for published in 1..3 {
        host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
        assert_eq!(count(&host, "NodePublishVolume"), published);
    }
}

#[test]
fn secrets_tokens_and_the_pod_reach_the_driver_only() {
    let host = host(&[]);
    host.secret("login", &[("user", b"ann"), ("password", b"s3cret")]).issues_tokens();
    host.csi_driver(
        DRIVER,
        r#"{"podInfoOnMount":true,"tokenRequests":[{"audience":"vault"},{"audience":"","expirationSeconds":600}]}"#,
    );
    let volume = volume()
        .field("volumeAttributes.a", "")
        .field("volumeAttributes", r#"{"a.b/c":"d"}"#)
        .field("nodePublishSecretRef", r#"{"name":"login","namespace":"default"}"#)
        .field("nodePublishSecretRef.name", "login")
        .field("nodePublishSecretRef.namespace", "default");
    host.publish::<Csi>(&volume, &TestPod::new().named("default", "web")).unwrap();
    let filled: Filled = last(&host, "NodePublishVolume");
    assert_eq!(filled.secrets["password"], "s3cret");
    assert_eq!(filled.context["a.b/c"], "d");
    assert_eq!(filled.context["csi.storage.k8s.io/pod.name"], "web");
    assert_eq!(filled.context["csi.storage.k8s.io/ephemeral"], "false");
    let tokens: serde_json::Value =
        serde_json::from_str(&filled.context["csi.storage.k8s.io/serviceAccount.tokens"]).unwrap();
    assert!(tokens["vault"]["token"].as_str().unwrap().contains("for vault during 3600 s"), "{tokens}");
    assert!(tokens[""]["token"].as_str().unwrap().contains("for the issuer during 600 s"), "{tokens}");
    assert_eq!(tokens["vault"]["expirationTimestamp"], "2030-01-02T03:04:05Z");
    assert!(host.lines().iter().all(|line| !line.message.contains("s3cret")));

    host.csi_driver(
        DRIVER,
        r#"{"requiresRepublish":true,"serviceAccountTokenInSecrets":true,"tokenRequests":[{"audience":"vault"}]}"#,
    );
    host.publish::<Csi>(&volume, &TestPod::new()).unwrap();
    let filled: Filled = last(&host, "NodePublishVolume");
    assert!(filled.secrets.contains_key("csi.storage.k8s.io/serviceAccount.tokens"));
    assert_eq!(
        filled.context.len(),
        1,
        "the driver gets the pod's identity only when it requests it: {:?}",
        filled.context
    );
}

#[test]
fn access_modes_depend_on_the_drivers_capabilities() {
    for (mode, kinds, expected) in [
        ("ReadWriteOnce", &[][..], Mode::SingleNodeWriter),
        ("ReadWriteOnce", &ALL[..], Mode::SingleNodeMultiWriter),
        ("ReadWriteOncePod", &[][..], Mode::SingleNodeWriter),
        ("ReadWriteOncePod", &ALL[..], Mode::SingleNodeSingleWriter),
        ("ReadOnlyMany", &[][..], Mode::MultiNodeReaderOnly),
        ("ReadWriteMany", &[][..], Mode::MultiNodeMultiWriter),
    ] {
        let host = host(kinds);
        let volume = Volume::builder("csi")
            .persistent_volume("pv-1")
            .field("driver", DRIVER)
            .field("volumeHandle", ID)
            .access_mode(mode);
        host.publish::<Csi>(&volume, &TestPod::new().fs_group(9)).unwrap();
        let capability = last::<NodePublishVolumeRequest>(&host, "NodePublishVolume").volume_capability.unwrap();
        assert_eq!(capability.access_mode.unwrap().mode(), expected, "{mode}");
        let Some(AccessType::Mount(mount)) = capability.access_type else { panic!("not mounted") };
        let group = if kinds.is_empty() { "" } else { "9" };
        assert_eq!(mount.volume_mount_group, group, "a driver with the capability applies the group itself");
    }
}

#[test]
fn the_group_is_applied_by_the_policy_of_the_driver() {
    for (policy, fs_type, mode, applied) in [
        ("ReadWriteOnceWithFSType", "ext4", "ReadWriteOnce", true),
        ("ReadWriteOnceWithFSType", "", "ReadWriteOnce", false),
        ("ReadWriteOnceWithFSType", "ext4", "ReadWriteMany", false),
        ("File", "", "ReadWriteMany", true),
        ("None", "ext4", "ReadWriteOnce", false),
    ] {
        let host = host(&[]);
        host.csi_driver(DRIVER, &format!(r#"{{"fsGroupPolicy":"{policy}"}}"#));
        let volume = Volume::builder("csi")
            .persistent_volume("pv-1")
            .field("driver", DRIVER)
            .field("volumeHandle", ID)
            .field("fsType", fs_type)
            .access_mode(mode);
        host.publish::<Csi>(&volume, &TestPod::new().fs_group(9)).unwrap();
        assert_eq!(host.target("pv-1").group().is_some(), applied, "{policy} {fs_type} {mode}");
    }
}

#[test]
fn an_ephemeral_volume_has_an_id_of_its_pod_and_is_only_published() {
    let host = host(&ALL);
    host.csi_driver(DRIVER, r#"{"podInfoOnMount":true,"volumeLifecycleModes":["Ephemeral"]}"#);
    host.publish::<Csi>(&inline(), &TestPod::new()).unwrap();
    let sent: NodePublishVolumeRequest = last(&host, "NodePublishVolume");
    assert!(sent.volume_id.starts_with("csi-") && sent.volume_id.len() == 68, "{}", sent.volume_id);
    assert_eq!((sent.staging_target_path.as_str(), count(&host, "NodeStageVolume")), ("", 0));
    assert_eq!(sent.volume_context["csi.storage.k8s.io/ephemeral"], "true");
    host.publish::<Csi>(&inline(), &TestPod::new().with_uid("other")).unwrap();
    assert_ne!(last::<NodePublishVolumeRequest>(&host, "NodePublishVolume").volume_id, sent.volume_id);
    host.unpublish::<Csi>("scratch").unwrap();
    assert_eq!(last::<LeavePathRequest>(&host, "NodeUnpublishVolume").volume_id, sent.volume_id);
}

#[test]
fn a_device_is_staged_once_and_published_for_each_pod_with_its_context() {
    let host = TestHost::new();
    host.disk_device("/dev/disk7", 1 << 20);
    host.driver(DRIVER, |call| match call.method.rsplit('/').next().unwrap() {
        "NodePublishVolume" => {
            let sent = NodePublishVolumeRequest::decode(call.message.as_slice()).unwrap();
            assert!(matches!(sent.volume_capability.unwrap().access_type, Some(AccessType::Block(_))));
            TestDriver::show_device(&sent.target_path, "/dev/disk7");
            Ok(Vec::new())
        }
        _ => well_behaved(&[node::STAGE_UNSTAGE_VOLUME])(call),
    });
    host.csi_driver(DRIVER, r#"{"podInfoOnMount":true}"#);
    let (volume, name) = (volume().as_device(), "csi.example.com^vol-1");
    assert_eq!(host.stage_device::<Csi>(&volume, None), Ok(None));
    let mut targets = Vec::new();
    for uid in ["one", "two"] {
        let pod = TestPod::new().with_uid(uid);
        assert_eq!(host.map_device::<Csi>(&volume, &pod, None), Ok(Some("/dev/disk7".to_owned())));
        let sent: NodePublishVolumeRequest = last(&host, "NodePublishVolume");
        assert_eq!(sent.volume_context["csi.storage.k8s.io/pod.uid"], uid);
        assert!(!sent.staging_target_path.is_empty());
        targets.push(sent.target_path);
    }
    assert_ne!(targets[0], targets[1]);
    assert_eq!(count(&host, "NodeStageVolume"), 1);
    Csi::unmap_device(name, "one").unwrap();
    assert_eq!(last::<LeavePathRequest>(&host, "NodeUnpublishVolume").path, targets[0]);
    // The host has forgotten the other pod: the plugin unpublishes it before it unstages.
    Csi::unstage_device(name).unwrap();
    assert_eq!(last::<LeavePathRequest>(&host, "NodeUnpublishVolume").path, targets[1]);
    assert_eq!((count(&host, "NodeUnpublishVolume"), count(&host, "NodeUnstageVolume")), (2, 1));
}

#[test]
fn the_driver_expands_and_measures() {
    let host = TestHost::new();
    host.driver(DRIVER, |call| match call.method.rsplit('/').next().unwrap() {
        "NodeExpandVolume" => {
            let sent = NodeExpandVolumeRequest::decode(call.message.as_slice()).unwrap();
            match sent.capacity_range.unwrap().required_bytes {
                5 => Ok(NodeExpandVolumeResponse { capacity_bytes: 8 }.encode_to_vec()),
                6 => Err(Failure::Status { code: 9, message: "in use".to_owned() }),
                _ => Err(Failure::Status { code: 11, message: "too large".to_owned() }),
            }
        }
        "NodeGetVolumeStats" => {
            let bytes = VolumeUsage { available: 1, total: 4, used: 3, unit: Unit::Bytes.into() };
            let inodes = VolumeUsage { available: 5, total: 9, used: 4, unit: Unit::Inodes.into() };
            let condition = VolumeCondition { abnormal: true, message: "a path is lost".to_owned() };
            let answer = NodeGetVolumeStatsResponse { usage: vec![bytes, inodes], volume_condition: Some(condition) };
            Ok(answer.encode_to_vec())
        }
        _ => well_behaved(&ALL)(call),
    });
    host.stage::<Csi>(&volume(), None).unwrap();
    host.publish::<Csi>(&volume(), &TestPod::new()).unwrap();
    assert_eq!(host.expand::<Csi>(&volume(), None, true, 5), Ok(8));
    assert!(matches!(host.expand::<Csi>(&volume(), None, true, 6), Err(Error::Precondition(_))));
    assert!(matches!(host.expand::<Csi>(&volume(), None, true, 7), Err(Error::InvalidArgument(_))));
    let figures = host.measure::<Csi>("csi.example.com^vol-1", Some(&host.target("pv-1"))).unwrap();
    assert_eq!((figures.capacity, figures.available, figures.used), (Some(4), Some(1), Some(3)));
    assert_eq!((figures.inodes, figures.inodes_free, figures.inodes_used), (Some(9), Some(5), Some(4)));
    assert_eq!(figures.abnormal.as_deref(), Some("a path is lost"));
}
