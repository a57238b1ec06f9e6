//! Secrets of calls: the plugin has them for the call that they came with, and nothing else ever
//! has them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tonic::{Code, Status};
use volhost_proto::csi::*;
use volhost_tests::artifacts;

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, code, map, mount, wanted};

/// What opens the volumes of the fixture, and what does not.
const WORD: &str = "open-sesame";
const WRONG: &str = "open-barley";

fn secrets(word: &str) -> HashMap<String, String> {
    map(&[("word", word)])
}

fn capability() -> VolumeCapability {
    let mut capability = mount(SINGLE_NODE_WRITER);
    if let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type {
        mount.fs_type = String::new();
    }
    capability
}

/// Every call that has secrets, made with these; a volume is published already.
fn all(host: &Host, volume: &Volume, secrets: &HashMap<String, String>) -> Vec<(&'static str, Result<(), Status>)> {
    let (id, secrets) = (volume.volume_id.clone(), secrets.clone());
    let create = CreateVolumeRequest { secrets: secrets.clone(), ..wanted("other", MIB, capability()) };
    let expand = ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(CapacityRange { required_bytes: MIB, limit_bytes: 0 }),
        secrets: secrets.clone(),
        ..ControllerExpandVolumeRequest::default()
    };
    let take = CreateSnapshotRequest {
        name: "snap".to_owned(),
        source_volume_id: id.clone(),
        secrets: secrets.clone(),
        ..CreateSnapshotRequest::default()
    };
    let snapshot_id = "snap".to_owned();
    let find = GetSnapshotRequest { snapshot_id: snapshot_id.clone(), secrets: secrets.clone() };
    let list = ListSnapshotsRequest { secrets: secrets.clone(), ..ListSnapshotsRequest::default() };
    let drop_it = DeleteSnapshotRequest { snapshot_id, secrets: secrets.clone() };
    let publish =
        NodePublishVolumeRequest { secrets: secrets.clone(), ..host.publish_request(volume, capability(), "b") };
    let delete = DeleteVolumeRequest { volume_id: "other".to_owned(), secrets };
    let mut answers = vec![
        ("CreateVolume", host.create(create).map(drop)),
        ("ControllerExpandVolume", host.controller(async |mut c| c.controller_expand_volume(expand).await).map(drop)),
        ("CreateSnapshot", host.controller(async |mut c| c.create_snapshot(take).await).map(drop)),
        ("GetSnapshot", host.controller(async |mut c| c.get_snapshot(find).await).map(drop)),
        ("ListSnapshots", host.controller(async |mut c| c.list_snapshots(list).await).map(drop)),
        ("DeleteSnapshot", host.controller(async |mut c| c.delete_snapshot(drop_it).await).map(drop)),
        ("NodePublishVolume", host.publish(publish)),
    ];
    if answers.iter().all(|(_, answer)| answer.is_ok()) {
        let file = host.seen(&host.target("b")).join("word");
        assert_eq!(fs::read_to_string(file).unwrap(), WORD, "the plugin passes on what it cannot see");
        host.unpublish(&id, "b").unwrap();
    }
    answers.push(("DeleteVolume", host.controller(async |mut c| c.delete_volume(delete).await).map(drop)));
    answers
}

/// Returns whether a file below the folder contains the text.
fn contains(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => contains(&path, text),
            kind if kind.is_file() => fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes()),
            _ => false,
        }
    })
}

#[test]
fn the_plugin_has_the_secrets_of_a_call_for_that_call_and_they_are_not_stored() {
    let host = Host::serve(&artifacts::fixture("fixture-keeper"), &["--log-level", "trace"]);
    let create = CreateVolumeRequest { secrets: secrets(WORD), ..wanted("pvc", MIB, capability()) };
    let volume = host.create(create).unwrap();
    let publish =
        NodePublishVolumeRequest { secrets: secrets(WORD), ..host.publish_request(&volume, capability(), "a") };
    for _ in 0..2 {
        host.publish(publish.clone()).unwrap();
    }
    for (name, answer) in all(&host, &volume, &secrets(WORD)) {
        answer.unwrap_or_else(|status| panic!("{name}: {status}\n{}", host.served.log()));
    }
    // Each call has its own: those of another one are not remembered.
    for (name, answer) in all(&host, &volume, &HashMap::new()) {
        assert_eq!(answer.map_err(|status| status.code()), Err(Code::FailedPrecondition), "{name}");
    }
    for (name, answer) in all(&host, &volume, &secrets(WRONG)) {
        assert_eq!(answer.map_err(|status| status.code()), Err(Code::PermissionDenied), "{name}");
    }
    let hostile = CreateVolumeRequest { secrets: map(&[("word", "open-sesame\0")]), ..wanted("x", MIB, capability()) };
    let refused = host.create(hostile).unwrap_err();
    assert!(refused.message().starts_with("secrets: ") && !refused.message().contains(WORD), "{refused}");
    let huge = CreateVolumeRequest { secrets: secrets(&WORD.repeat(1 << 20)), ..wanted("x", MIB, capability()) };
    assert_eq!(code(host.create(huge)), Code::InvalidArgument);

    for word in [WORD, WRONG] {
        assert!(!contains(&host.served.state(), word), "a record contains {word}");
        assert!(!host.served.log().contains(word), "{}", host.served.log());
    }
    assert!(host.served.log().contains("audit: secret (of the call) was used"), "{}", host.served.log());
    host.unpublish("pvc", "a").unwrap();
    host.assert_clean();
}

#[test]
fn a_plugin_that_requires_a_reference_to_secrets_finds_it_when_it_names_a_volume() {
    let host = Host::serve(&artifacts::plugin("cifs"), &[]);
    // Port 1: no server is there.
    let mut capability = capability();
    if let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type {
        mount.mount_flags = vec!["port=1".to_owned()];
    }
    let create = CreateVolumeRequest {
        parameters: map(&[("source", "//127.0.0.1/team")]),
        ..wanted("pvc", MIB, capability.clone())
    };
    let volume = host.create(create).unwrap();
    let request = NodePublishVolumeRequest {
        staging_target_path: String::new(),
        ..host.publish_request(&volume, capability, "a")
    };
    let without = host.publish(request.clone()).unwrap_err();
    assert_eq!(without.code(), Code::InvalidArgument, "{without}");
    let login = map(&[("username", "somebody"), ("password", WORD)]);
    let with = host.publish(NodePublishVolumeRequest { secrets: login, ..request }).unwrap_err();
    assert_eq!(with.code(), Code::Unavailable, "{with}");
    assert!(with.message().contains("port 1") && !with.message().contains(WORD), "{with}");
    host.unpublish("pvc", "a").unwrap();
    host.delete("pvc").unwrap();
    host.assert_clean();
}
