//! Snapshots, clones, lists and room.

use std::fs;

use tonic::{Code, Status};
use volhost_proto::csi::*;
use volhost_tests::{Node, artifacts};

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, code, map, mount_of, wanted};

/// Of a type that every root may grow while it is mounted.
fn writer() -> VolumeCapability {
    mount_of("xfs", SINGLE_NODE_WRITER)
}

/// What the type needs at least.
const SIZE: i64 = 300 * MIB;

fn snapshot(host: &Host, name: &str, volume: &str) -> Result<Snapshot, Status> {
    let request = CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume.to_owned(),
        ..CreateSnapshotRequest::default()
    };
    host.controller(async move |mut client| client.create_snapshot(request).await)
        .map(|answer| answer.snapshot.unwrap())
}

fn delete_snapshot(host: &Host, id: &str) -> Result<(), Status> {
    let request = DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..DeleteSnapshotRequest::default() };
    host.controller(async move |mut client| client.delete_snapshot(request).await).map(drop)
}

fn from(name: &str, bytes: i64, source: volume_content_source::Type) -> CreateVolumeRequest {
    let volume_content_source = Some(VolumeContentSource { r#type: Some(source) });
    CreateVolumeRequest { volume_content_source, ..wanted(name, bytes, writer()) }
}

fn of_snapshot(id: &str) -> volume_content_source::Type {
    volume_content_source::Type::Snapshot(volume_content_source::SnapshotSource { snapshot_id: id.to_owned() })
}

fn of_volume(id: &str) -> volume_content_source::Type {
    volume_content_source::Type::Volume(volume_content_source::VolumeSource { volume_id: id.to_owned() })
}

/// Puts a file into a volume, or reads it, and takes the volume from the node again.
fn use_volume<T>(host: &Host, volume: &Volume, with: impl FnOnce(&std::path::Path) -> T) -> T {
    host.stage(volume, writer()).unwrap();
    host.publish(host.publish_request(volume, writer(), "target")).unwrap();
    let done = with(&host.seen(&host.target("target")));
    host.unpublish(&volume.volume_id, "target").unwrap();
    host.unstage(&volume.volume_id).unwrap();
    done
}

#[test]
fn a_snapshot_keeps_the_volumes_content_and_volumes_are_made_of_it() {
    let host = Host::start(&[]);
    let volume = host.create(wanted("pvc", SIZE, writer())).unwrap();
    use_volume(&host, &volume, |folder| fs::write(folder.join("word"), "old").unwrap());
    let taken = snapshot(&host, "snap", "pvc").unwrap();
    assert!(taken.ready_to_use && taken.size_bytes == SIZE && taken.source_volume_id == "pvc", "{taken:?}");
    assert!(taken.creation_time.is_some_and(|time| time.seconds > 1_600_000_000));
    use_volume(&host, &volume, |folder| fs::write(folder.join("word"), "new").unwrap());
    assert_eq!(snapshot(&host, "snap", "pvc").unwrap(), taken, "the same name, the same snapshot");

    let read = |volume: &Volume| use_volume(&host, volume, |folder| fs::read_to_string(folder.join("word")).unwrap());
    let restored = host.create(from("restored", 2 * SIZE, of_snapshot(&taken.snapshot_id))).unwrap();
    assert_eq!((read(&restored).as_str(), restored.capacity_bytes), ("old", 2 * SIZE));
    assert!(restored.content_source.is_some());
    host.stage(&restored, writer()).unwrap();
    host.publish(host.publish_request(&restored, writer(), "large")).unwrap();
    assert!(
        host.figures("restored", "large").unwrap().usage[0].total > SIZE + 100 * MIB,
        "the file system has grown with it"
    );
    host.unpublish("restored", "large").unwrap();
    host.unstage("restored").unwrap();
    let clone = host.create(from("clone", 0, of_volume("pvc"))).unwrap();
    assert_eq!((read(&clone).as_str(), clone.capacity_bytes), ("new", SIZE));
    assert_eq!(host.create(from("clone", 0, of_volume("pvc"))).unwrap(), clone);
    assert_eq!(code(host.create(from("x", 0, of_snapshot("none@pvc")))), Code::NotFound);

    let other = host.create(wanted("other", MIB, writer())).unwrap();
    assert_eq!(code(snapshot(&host, "snap", &other.volume_id)), Code::AlreadyExists);
    assert_eq!(code(snapshot(&host, "s", "none")), Code::NotFound);
    assert_eq!(code(snapshot(&host, "", "pvc")), Code::InvalidArgument);
    // It outlives its volume.
    host.delete("pvc").unwrap();
    let again = host.create(from("again", 0, of_snapshot(&taken.snapshot_id))).unwrap();
    assert_eq!(read(&again), "old");
    for id in [taken.snapshot_id.as_str(), taken.snapshot_id.as_str(), "none", "../x@y", "a@../b"] {
        delete_snapshot(&host, id).unwrap();
    }
    assert_eq!(host.images(), ["again", "clone", "other", "restored"]);
    host.assert_clean();
}

#[test]
fn a_volume_in_use_is_copied_at_one_moment_or_not_at_all() {
    let host = Host::start(&[]);
    let volume = host.create(wanted("pvc", SIZE, writer())).unwrap();
    host.stage(&volume, writer()).unwrap();
    match snapshot(&host, "snap", "pvc") {
        // The file system of the folder shares blocks.
        Ok(taken) => assert!(taken.ready_to_use),
        Err(refused) => {
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
            let ways_out = "copy it when no node uses it, or keep images on XFS (reflink=1) or btrfs";
            assert!(refused.message().contains(ways_out), "{refused}");
            assert_eq!(host.images(), ["pvc"], "nothing is left of it");
        }
    }
    host.unstage("pvc").unwrap();
    host.assert_clean();
}

/// mkfs.xfs's defaults: its files share blocks.
pub(crate) const SHARING_DISK: &str = r#"
truncate -s 4G "$NODE/pool"
mkfs.xfs -q -m reflink=1 "$NODE/pool"
mount -o loop "$NODE/pool" "$NODE/disk"
"#;

/// XFS asks for larger blocks of direct I/O once a file shares its blocks. A loop device that
/// followed would put the volume's data out of reach: an ext4 of this size has blocks of 1 KiB, an
/// XFS has sectors of 512 bytes.
#[test]
fn a_volume_is_staged_again_after_a_snapshot_has_shared_its_blocks() {
    let host = Host::serve_on(Node::builder().prepare(SHARING_DISK).build(), &artifacts::plugin("loop"), &[]);
    for fs_type in ["ext4", "xfs"] {
        let writer = || mount_of(fs_type, SINGLE_NODE_WRITER);
        let read = |volume: &Volume| {
            host.stage(volume, writer()).unwrap();
            host.publish(host.publish_request(volume, writer(), "target")).unwrap();
            let word = fs::read_to_string(host.seen(&host.target("target")).join("word"));
            fs::write(host.seen(&host.target("target")).join("more"), "x").unwrap();
            host.unpublish(&volume.volume_id, "target").unwrap();
            host.unstage(&volume.volume_id).unwrap();
            word.unwrap()
        };
        let volume = host.create(wanted(fs_type, SIZE, writer())).unwrap();
        host.stage(&volume, writer()).unwrap();
        host.publish(host.publish_request(&volume, writer(), "target")).unwrap();
        fs::write(host.seen(&host.target("target")).join("word"), "kept").unwrap();
        rustix::fs::sync();
        // A volume in use: the copy is of one moment, as after a power failure.
        let taken = snapshot(&host, &format!("snap-{fs_type}"), fs_type).unwrap();
        host.unpublish(fs_type, "target").unwrap();
        host.unstage(fs_type).unwrap();
        assert_eq!(read(&volume), "kept", "{fs_type}");
        let source = of_snapshot(&taken.snapshot_id);
        let request =
            CreateVolumeRequest { volume_capabilities: vec![writer()], ..from(&format!("of-{fs_type}"), 0, source) };
        assert_eq!(read(&host.create(request).unwrap()), "kept", "{fs_type}");
        // Deleting the snapshot does not undo what XFS asks for.
        delete_snapshot(&host, &taken.snapshot_id).unwrap();
        assert_eq!(read(&volume), "kept", "{fs_type}");
    }
}

#[test]
fn a_list_goes_on_where_it_stood_although_volumes_come_and_go() {
    let host = Host::start(&[]);
    for number in 0..7 {
        host.create(wanted(&format!("v-{number}"), MIB, writer())).unwrap();
    }
    let page = |max_entries: i32, token: &str| {
        let request = ListVolumesRequest { max_entries, starting_token: token.to_owned() };
        let answer = host.controller(async move |mut client| client.list_volumes(request).await)?;
        let ids: Vec<String> = answer.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect();
        Ok::<_, Status>((ids, answer.next_token))
    };
    let (ids, token) = page(3, "").unwrap();
    assert_eq!(ids, ["v-0", "v-1", "v-2"]);
    host.delete("v-2").unwrap();
    host.delete("v-3").unwrap();
    host.create(wanted("v-35", MIB, writer())).unwrap();
    let (ids, token) = page(3, &token).unwrap();
    assert_eq!(ids, ["v-35", "v-4", "v-5"]);
    assert_eq!(page(3, &token).unwrap(), (vec!["v-6".to_owned()], String::new()));
    assert_eq!(page(0, "").unwrap().0.len(), 6);
    assert_eq!(code(page(3, "never-given")), Code::Aborted);
    assert_eq!(code(page(-1, "")), Code::InvalidArgument);

    for name in ["s-1", "s-2", "s-3"] {
        snapshot(&host, name, "v-0").unwrap();
    }
    snapshot(&host, "t", "v-1").unwrap();
    let snapshots = |request: ListSnapshotsRequest| {
        let answer = host.controller(async move |mut client| client.list_snapshots(request).await).unwrap();
        let ids: Vec<String> = answer.entries.into_iter().map(|entry| entry.snapshot.unwrap().snapshot_id).collect();
        (ids, answer.next_token)
    };
    let of =
        |volume: &str| ListSnapshotsRequest { source_volume_id: volume.to_owned(), ..ListSnapshotsRequest::default() };
    assert_eq!(snapshots(of("v-1")).0, ["t@v-1"]);
    assert_eq!(snapshots(of("none")).0, [] as [&str; 0]);
    let (ids, token) = snapshots(ListSnapshotsRequest { max_entries: 2, ..of("v-0") });
    assert_eq!(ids, ["s-1@v-0", "s-2@v-0"]);
    assert_eq!(snapshots(ListSnapshotsRequest { max_entries: 2, starting_token: token, ..of("v-0") }).0, ["s-3@v-0"]);
    let one = ListSnapshotsRequest { snapshot_id: "t@v-1".to_owned(), ..ListSnapshotsRequest::default() };
    assert_eq!(snapshots(one).0, ["t@v-1"]);
}

#[test]
fn there_is_as_much_room_as_the_folder_has() {
    let host = Host::start(&["--topology", "zone=a"]);
    let room = |zone: &str| {
        let accessible_topology = Some(Topology { segments: map(&[("zone", zone)]) });
        let request = GetCapacityRequest { accessible_topology, ..GetCapacityRequest::default() };
        host.controller(async move |mut client| client.get_capacity(request).await).unwrap().available_capacity
    };
    assert!(room("a") > MIB);
    assert_eq!(room("b"), 0);
}
