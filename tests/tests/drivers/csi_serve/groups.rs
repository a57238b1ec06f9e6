//! Snapshots of several volumes at one moment.

use std::fs;

use tonic::{Code, Status};
use volhost_proto::csi::group_controller_client::GroupControllerClient;
use volhost_proto::csi::*;
use volhost_tests::artifacts;
use volhost_tests::kill_points::{KillPoint, KilledProcess, Trace};

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, code, mount, wanted};

fn writer() -> VolumeCapability {
    mount(SINGLE_NODE_WRITER)
}

fn ids(all: &[&str]) -> Vec<String> {
    all.iter().map(|id| (*id).to_owned()).collect()
}

fn take(host: &Host, name: &str, volumes: &[&str]) -> Result<VolumeGroupSnapshot, Status> {
    let request = CreateVolumeGroupSnapshotRequest {
        name: name.to_owned(),
        source_volume_ids: ids(volumes),
        ..CreateVolumeGroupSnapshotRequest::default()
    };
    host.of_groups(async move |mut client: GroupControllerClient<_>| client.create_volume_group_snapshot(request).await)
        .map(|answer| answer.group_snapshot.unwrap())
}

fn find(host: &Host, id: &str, snapshots: &[&str]) -> Result<VolumeGroupSnapshot, Status> {
    let request = GetVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        snapshot_ids: ids(snapshots),
        ..GetVolumeGroupSnapshotRequest::default()
    };
    host.of_groups(async move |mut client| client.get_volume_group_snapshot(request).await)
        .map(|answer| answer.group_snapshot.unwrap())
}

fn delete(host: &Host, id: &str, snapshots: &[&str]) -> Result<(), Status> {
    let request = DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        snapshot_ids: ids(snapshots),
        ..DeleteVolumeGroupSnapshotRequest::default()
    };
    host.of_groups(async move |mut client| client.delete_volume_group_snapshot(request).await).map(drop)
}

fn listed(host: &Host) -> Vec<Snapshot> {
    let request = ListSnapshotsRequest::default();
    let answer = host.controller(async move |mut client| client.list_snapshots(request).await).unwrap();
    answer.entries.into_iter().map(|entry| entry.snapshot.unwrap()).collect()
}

fn with_volumes(names: &[&str]) -> Host {
    let host = Host::start(&[]);
    for name in names {
        host.create(wanted(name, 16 * MIB, writer())).unwrap();
    }
    host
}

#[test]
fn a_group_is_taken_found_restored_and_deleted_as_one() {
    let host = with_volumes(&["a", "b", "c"]);
    let taken = take(&host, "g", &["b", "a"]).unwrap();
    let members: Vec<&str> = taken.snapshots.iter().map(|snapshot| snapshot.snapshot_id.as_str()).collect();
    assert_eq!(members, ["+g@a", "+g@b"]);
    assert!(taken.ready_to_use && taken.creation_time.is_some_and(|time| time.seconds > 1_600_000_000), "{taken:?}");
    assert!(taken.snapshots.iter().all(|snapshot| snapshot.group_snapshot_id == taken.group_snapshot_id));
    assert_eq!(take(&host, "g", &["a", "b"]).unwrap(), taken);
    assert_eq!(find(&host, "g", &members).unwrap(), taken);
    assert_eq!(listed(&host), taken.snapshots);
    assert_eq!(code(take(&host, "g", &["a"])), Code::AlreadyExists);

    let source = volume_content_source::SnapshotSource { snapshot_id: members[1].to_owned() };
    let content = VolumeContentSource { r#type: Some(volume_content_source::Type::Snapshot(source)) };
    let restored = CreateVolumeRequest { volume_content_source: Some(content), ..wanted("new", 16 * MIB, writer()) };
    host.create(restored).unwrap();
    let alone = DeleteSnapshotRequest { snapshot_id: members[0].to_owned(), ..DeleteSnapshotRequest::default() };
    let refused = host.controller(async move |mut client| client.delete_snapshot(alone).await).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("the group \"g\""), "{refused}");

    // The snapshots that the caller names are checked against the group's.
    for wrong in [&members[..1], &["+g@a", "+g@b", "+h@c"]] {
        take(&host, "h", &["c"]).unwrap();
        assert_eq!(code(find(&host, "g", wrong)), Code::InvalidArgument, "{wrong:?}");
        assert_eq!(code(delete(&host, "g", wrong)), Code::InvalidArgument, "{wrong:?}");
    }
    delete(&host, "h", &["+h@c"]).unwrap();
    for _ in 0..2 {
        delete(&host, "g", &members).unwrap();
    }
    assert_eq!(code(find(&host, "g", &members)), Code::NotFound);
    assert_eq!(host.images(), ["a", "b", "c", "new"]);
}

#[test]
fn volumes_that_a_node_uses_are_not_taken_as_a_group() {
    let host = with_volumes(&["a", "b"]);
    let volume = Volume { volume_id: "b".to_owned(), ..Volume::default() };
    host.stage(&volume, writer()).unwrap();
    let refused = take(&host, "g", &["a", "b"]).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("\"b\" is in use on a node"), "{refused}");
    host.unstage("b").unwrap();
    take(&host, "g", &["a", "b"]).unwrap();
    host.assert_clean();
}

#[test]
fn every_field_of_a_group_is_checked_against_the_specification() {
    let host = with_volumes(&["a"]);
    let long = "n".repeat(129);
    let huge = "n".repeat(10 << 20);
    let many: Vec<String> = (0..300).map(|number| format!("v-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (name, volumes, expected) in [
        ("", &["a"][..], Code::InvalidArgument),
        ("a\0b", &["a"], Code::InvalidArgument),
        (&long, &["a"], Code::InvalidArgument),
        (&huge, &["a"], Code::InvalidArgument),
        ("g", &[], Code::InvalidArgument),
        ("g", &[""], Code::InvalidArgument),
        ("g", &["a", "a"], Code::InvalidArgument),
        ("g", &["a", "b\n"], Code::InvalidArgument),
        ("g", &many, Code::InvalidArgument),
        ("g", &["a", "none"], Code::NotFound),
        ("g", &["../../etc/passwd"], Code::NotFound),
    ] {
        let refused = take(&host, name, volumes).expect_err("it is wrong");
        assert_eq!(refused.code(), expected, "{volumes:?}: {refused}");
        assert!(refused.message().len() < 600 && refused.details().is_empty(), "{refused}");
    }
    for id in ["../../etc/passwd", "..", "a", "+g", ".group-a"] {
        delete(&host, id, &[]).unwrap();
        assert_eq!(code(find(&host, id, &[])), Code::NotFound, "{id}");
    }
    assert_eq!(code(delete(&host, "", &[])), Code::InvalidArgument);
    assert_eq!(code(find(&host, "g", &["a\0"])), Code::InvalidArgument);
    let odd = take(&host, "../Fünf/\u{1f4be}", &["a"]).unwrap();
    assert!(!odd.group_snapshot_id.contains('/'), "{odd:?}");
    assert_eq!(take(&host, "../Fünf/\u{1f4be}", &["a"]).unwrap(), odd);
    delete(&host, &odd.group_snapshot_id, &[]).unwrap();
    assert_eq!(host.images(), ["a"]);

    let other = Host::serve(&artifacts::plugin("host-path"), &[]);
    assert_eq!(code(take(&other, "g", &["a"])), Code::Unimplemented);
}

#[test]
fn a_driver_that_is_killed_while_it_makes_or_deletes_a_group_leaves_no_half_of_one() {
    let mut host = with_volumes(&["a", "b"]);
    for deleting in [false, true] {
        let mut points = 0;
        loop {
            if deleting {
                take(&host, "g", &["a", "b"]).unwrap();
            }
            let death = KillPoint { who: KilledProcess::Daemon, before: Some(points) };
            let following = Trace::begin(host.served.pid(), death);
            let answer = match deleting {
                true => delete(&host, "g", &["+g@a", "+g@b"]),
                false => take(&host, "g", &["a", "b"]).map(drop),
            };
            let seen = following.end();
            host.served.kill();
            for copy in host.images().iter().filter(|name| name.starts_with(".snapshot-")) {
                let size = fs::metadata(host.node.folder().join("disk").join(copy)).unwrap().len();
                assert_eq!(size, 16 << 20, "{copy} is no whole copy");
            }
            host.revive();
            if !deleting {
                // Nothing of it shows before all of it is there.
                assert!([0, 2].contains(&listed(&host).len()), "{:?}", listed(&host));
                assert_eq!(take(&host, "g", &["a", "b"]).unwrap().snapshots.len(), 2);
            }
            delete(&host, "g", &["+g@a", "+g@b"]).unwrap();
            assert_eq!(host.images(), ["a", "b"], "point {points}, deleting: {deleting}");
            if !seen.killed {
                answer.unwrap();
                break;
            }
            points += 1;
        }
        assert!(points > 0, "no call of the kernel was seen");
    }
}
