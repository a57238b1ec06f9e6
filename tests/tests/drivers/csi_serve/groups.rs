//! Snapshots of several volumes at one moment.

use std::fs;
use std::path::PathBuf;

use tonic::{Code, Status};
use volhost_proto::csi::group_controller_client::GroupControllerClient;
use volhost_proto::csi::*;
use volhost_tests::artifacts;
use volhost_tests::kill_points::{KillPoint, KilledProcess, Trace};
use volhost_tests::node::Node;

use crate::csi_serve::content::SHARING_DISK;
use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, block, code, mount, wanted};

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

/// A driver whose images share blocks with their copies, with volumes that pods use.
fn with_used_volumes(names: &[&str]) -> Host {
    let host = Host::serve_on(Node::builder().prepare(SHARING_DISK).build(), &artifacts::plugin("loop"), &[]);
    for name in names {
        let volume = host.create(wanted(name, 16 * MIB, writer())).unwrap();
        use_volume(&host, &volume);
    }
    host
}

/// Stages it, and publishes it at a target of its name.
fn use_volume(host: &Host, volume: &Volume) {
    host.stage(volume, writer()).unwrap();
    host.publish(host.publish_request(volume, writer(), &volume.volume_id)).unwrap();
}

fn leave_volume(host: &Host, volume: &str) {
    host.unpublish(volume, volume).unwrap();
    host.unstage(volume).unwrap();
}

/// Where it is published.
fn seen(host: &Host, volume: &str) -> PathBuf {
    host.seen(&host.target(volume))
}

#[test]
fn volumes_in_use_are_taken_as_a_group_where_copies_share_blocks() {
    let host = with_used_volumes(&["a", "b"]);
    let file = |volume: &str| seen(&host, volume).join("word");
    for volume in ["a", "b"] {
        fs::write(file(volume), volume).unwrap();
    }
    let taken = take(&host, "g", &["a", "b"]).unwrap();
    for (snapshot, volume) in taken.snapshots.iter().zip(["a", "b"]) {
        fs::write(file(volume), "later").unwrap();
        let source = volume_content_source::SnapshotSource { snapshot_id: snapshot.snapshot_id.clone() };
        let content = VolumeContentSource { r#type: Some(volume_content_source::Type::Snapshot(source)) };
        let name = format!("of-{volume}");
        let restored =
            CreateVolumeRequest { volume_content_source: Some(content), ..wanted(&name, 16 * MIB, writer()) };
        use_volume(&host, &host.create(restored).unwrap());
        // Nobody has written it to the disk: freezing has.
        assert_eq!(fs::read_to_string(file(&name)).unwrap(), volume);
    }

    // Nothing keeps a pod from writing to a device.
    let raw = host.create(wanted("raw", 16 * MIB, block())).unwrap();
    host.stage(&raw, block()).unwrap();
    let refused = take(&host, "h", &["a", "raw"]).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("no file system is mounted"), "{refused}");
    host.unstage("raw").unwrap();
    ["a", "b", "of-a", "of-b"].iter().for_each(|volume| leave_volume(&host, volume));
    take(&host, "h", &["a", "raw"]).unwrap();
}

#[test]
fn volumes_in_use_are_not_taken_as_a_group_where_copies_take_time() {
    let host = with_volumes(&["a", "b"]);
    let volume = Volume { volume_id: "b".to_owned(), ..Volume::default() };
    host.stage(&volume, writer()).unwrap();
    // Unless the machine's own disk shares blocks.
    if let Err(refused) = take(&host, "g", &["a", "b"]) {
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("keep images on XFS (reflink=1) or btrfs"), "{refused}");
        assert_eq!(host.images(), ["a", "b"], "nothing is left of it");
    }
    host.unstage("b").unwrap();
    take(&host, "g", &["a", "b"]).unwrap();
    host.assert_clean();
}

/// Whether a volume's file system is frozen: it cannot be frozen twice.
fn is_frozen(host: &Host, volume: &str) -> bool {
    let target = host.target(volume);
    let run = |program: &str, option: &str| {
        host.node.inside(program).arg(option).arg(&target).output().unwrap().status.success()
    };
    assert!(run("mountpoint", "-q"));
    let is_frozen = !run("fsfreeze", "--freeze");
    assert!(is_frozen || run("fsfreeze", "--unfreeze"));
    is_frozen
}

#[test]
fn a_driver_that_is_killed_while_volumes_are_frozen_thaws_them_when_it_begins() {
    let mut host = with_used_volumes(&["a", "b"]);
    let frozen = |host: &Host| ["a", "b"].map(|volume| is_frozen(host, volume));
    let (mut points, mut left_frozen) = (0, 0);
    loop {
        let death = KillPoint { who: KilledProcess::Daemon, before: Some(points) };
        let following = Trace::begin(host.served.pid(), death);
        let answer = take(&host, "g", &["a", "b"]).map(drop);
        let seen = following.end();
        host.served.kill();
        left_frozen += frozen(&host).into_iter().filter(|frozen| *frozen).count();
        host.revive();
        assert_eq!(frozen(&host), [false, false], "point {points}");
        assert_eq!(take(&host, "g", &["a", "b"]).unwrap().snapshots.len(), 2);
        delete(&host, "g", &["+g@a", "+g@b"]).unwrap();
        if !seen.killed {
            answer.unwrap();
            break;
        }
        points += 1;
    }
    // Before the second is frozen, before the first is thawed, and before the second is.
    assert!(left_frozen >= 4, "{left_frozen} of {points} points");
    ["a", "b"].iter().for_each(|volume| leave_volume(&host, volume));
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
