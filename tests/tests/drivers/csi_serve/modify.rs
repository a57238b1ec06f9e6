//! Mutable parameters: what a volume is like is changed while it is there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tonic::{Code, Status};
use volhost_proto::csi::*;
use volhost_tests::artifacts;

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, code, map, mount_of, wanted};

/// What the kernel counts a file's blocks in, in bytes.
const STAT_BLOCK: u64 = 512;

fn modify(host: &Host, id: &str, parameters: &[(&str, &str)]) -> Result<(), Status> {
    let request = ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        mutable_parameters: map(parameters),
        ..ControllerModifyVolumeRequest::default()
    };
    host.controller(async move |mut client| client.controller_modify_volume(request).await).map(drop)
}

/// The bytes of the disk that a volume's image takes, and its size.
fn taken(host: &Host, id: &str) -> (u64, u64) {
    let image = fs::metadata(host.node.folder().join("disk").join(id)).unwrap();
    (image.blocks() * STAT_BLOCK, image.len())
}

fn is_full(host: &Host, id: &str) -> bool {
    let (taken, size) = taken(host, id);
    taken >= size
}

const FULL: &[(&str, &str)] = &[("allocation", "full")];
const SPARSE: &[(&str, &str)] = &[("allocation", "sparse")];

#[test]
fn the_space_of_a_volume_is_reserved_and_released_and_its_content_stays() {
    let host = Host::start(&[]);
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let size = 320 * MIB;
        let capability = || mount_of(fs_type, SINGLE_NODE_WRITER);
        let sparse = host.create(wanted("pvc", size, capability())).unwrap();
        assert!(!is_full(&host, "pvc"));
        for _ in 0..2 {
            modify(&host, "pvc", FULL).unwrap();
            assert!(is_full(&host, "pvc"), "{fs_type}: {:?}", taken(&host, "pvc"));
        }
        host.stage(&sparse, capability()).unwrap();
        host.publish(host.publish_request(&sparse, capability(), "a")).unwrap();
        assert!(is_full(&host, "pvc"), "{fs_type}: formatting has given it back: {:?}", taken(&host, "pvc"));
        let file = host.seen(&host.target("a")).join("word");
        fs::write(&file, "kept").unwrap();
        assert_eq!(code(modify(&host, "pvc", SPARSE)), Code::FailedPrecondition, "not while it is used");
        assert!(is_full(&host, "pvc"));
        let request = ControllerExpandVolumeRequest {
            volume_id: "pvc".to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: size + 64 * MIB, limit_bytes: 0 }),
            ..ControllerExpandVolumeRequest::default()
        };
        host.controller(async move |mut client| client.controller_expand_volume(request).await).unwrap();
        assert!(is_full(&host, "pvc"), "{fs_type}: it grew with holes");
        host.unpublish("pvc", "a").unwrap();
        host.unstage("pvc").unwrap();
        modify(&host, "pvc", SPARSE).unwrap();
        assert!(!is_full(&host, "pvc"), "{fs_type}");
        host.stage(&sparse, capability()).unwrap();
        host.publish(host.publish_request(&sparse, capability(), "a")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        host.unpublish("pvc", "a").unwrap();
        host.unstage("pvc").unwrap();
        host.delete("pvc").unwrap();
    }
    host.assert_clean();
}

#[test]
fn a_volume_is_made_as_its_class_says_and_what_cannot_be_is_refused_whole() {
    let host = Host::start(&[]);
    let of = |parameters: &[(&str, &str)]| CreateVolumeRequest {
        mutable_parameters: map(parameters),
        ..wanted("pvc", 8 * MIB, mount_of("ext4", SINGLE_NODE_WRITER))
    };
    for bad in [
        &[("allocation", "half")][..],
        &[("allocation", "")],
        &[("allocation", "full\0")],
        &[("speed", "high")],
        &[("allocation", "full"), ("speed", "high")],
    ] {
        assert_eq!(code(host.create(of(bad))), Code::InvalidArgument, "{bad:?}");
    }
    assert!(host.images().is_empty(), "{:?}", host.images());
    host.create(of(FULL)).unwrap();
    assert!(is_full(&host, "pvc"));
    host.create(of(FULL)).unwrap();
    assert_eq!(code(host.create(of(SPARSE))), Code::AlreadyExists);
    let there = taken(&host, "pvc");
    let huge = "x".repeat(10 << 20);
    for (id, parameters, expected) in [
        ("", FULL, Code::InvalidArgument),
        ("a\0b", FULL, Code::InvalidArgument),
        ("none", FULL, Code::NotFound),
        ("../../etc/passwd", FULL, Code::NotFound),
        (".snapshot-x@y", FULL, Code::NotFound),
        ("pvc", &[], Code::InvalidArgument),
        ("pvc", &[("allocation", "sparse"), ("speed", "high")], Code::InvalidArgument),
        ("pvc", &[("allocation", &huge)], Code::InvalidArgument),
    ] {
        let refused = modify(&host, id, parameters).expect_err(id);
        assert_eq!(refused.code(), expected, "{id}: {refused}");
        assert!(refused.message().len() < 600 && refused.details().is_empty(), "{refused}");
    }
    assert_eq!(taken(&host, "pvc"), there);
    // More than any disk has: nothing of it is left, and nothing else on the disk ever lacks room.
    let room = Room::watch(&host);
    let request = CreateVolumeRequest { name: "huge".to_owned(), ..wanted("huge", 8 << 40, mount_of("ext4", 1)) };
    let huge = CreateVolumeRequest { mutable_parameters: map(FULL), ..request };
    assert_eq!(code(host.create(huge)), Code::ResourceExhausted);
    let (first, least) = room.end();
    assert!(least > first / 2, "{least} of {first} bytes");
    assert_eq!(host.images(), ["pvc"]);
}

/// Looks again and again at how much room the disk with the images has.
struct Room {
    is_over: Arc<AtomicBool>,
    looking: JoinHandle<(u64, u64)>,
}

impl Room {
    fn watch(host: &Host) -> Self {
        let (folder, is_over) = (host.node.folder().join("disk"), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&is_over);
        let room = move || {
            let room = rustix::fs::statvfs(&folder).unwrap();
            room.f_bavail * room.f_frsize
        };
        let first = room();
        let looking = std::thread::spawn(move || {
            let mut least = first;
            while !ended.load(Ordering::Relaxed) {
                least = least.min(room());
            }
            (first, least)
        });
        Self { is_over, looking }
    }

    /// The room at first, and the least there was.
    fn end(self) -> (u64, u64) {
        self.is_over.store(true, Ordering::Relaxed);
        self.looking.join().unwrap()
    }
}

#[test]
fn a_plugin_that_changes_nothing_says_so() {
    let host = Host::serve(&artifacts::plugin("host-path"), &[]);
    assert_eq!(code(modify(&host, "v", FULL)), Code::Unimplemented);
    let request =
        CreateVolumeRequest { mutable_parameters: map(FULL), ..wanted("v", MIB, mount_of("", SINGLE_NODE_WRITER)) };
    assert_eq!(code(host.create(request)), Code::InvalidArgument);
}
