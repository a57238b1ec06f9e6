//! Publishing under readers, on the real kernel.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};
use volhost_kernel::{Errno, Payload, PayloadFile};
use volhost_process::linux_kernel;

use super::in_namespace;
use crate::suite::{House, World, name};

const FILES: [&str; 4] = ["a", "b", "dir/c", "dir/inner/d"];
const UPDATES: usize = 200;

fn version(number: usize) -> Payload {
    let text = number.to_string().repeat(2000);
    let mode = if number.is_multiple_of(2) { 0o640 } else { 0o444 };
    let files = FILES.iter().map(|path| PayloadFile::new(*path, text.as_bytes(), mode)).collect();
    Payload { files, owner: Some(u32::try_from(number).unwrap()), group: Some(3), folder_mode: 0o755 }
}

/// Reads a whole set through one opening of `..data`; none if it was replaced and removed
/// meanwhile.
fn read_set(data: &OwnedFd) -> Option<(Vec<u8>, u32, u32)> {
    let mut first = None;
    for path in FILES {
        let file = match openat(data, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return None,
            opened => opened.unwrap(),
        };
        let mut file = std::fs::File::from(file);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let seen = file.metadata().unwrap();
        let this = (bytes, seen.mode() & 0o7777, seen.uid());
        assert_eq!(*first.get_or_insert(this.clone()), this, "a mix of two sets, or a file without its mode");
    }
    first
}

#[test]
fn readers_see_whole_sets_only() {
    in_namespace(linux_kernel(), |world| {
        let house = House::new(world);
        world.add_folder(&house.at("volume"));
        let publish = |number| house.kernel.publish_payload(&house.root, name("volume"), &version(number)).unwrap();
        publish(0);
        let (stop, whole) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let reader = std::thread::spawn({
            let (stop, whole, data) = (Arc::clone(&stop), Arc::clone(&whole), house.at("volume/..data"));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let data = match openat(CWD, &data, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
                        // The link was read, and its folder removed before it was entered.
                        Err(Errno::NOENT) => continue,
                        opened => opened.unwrap(),
                    };
                    if let Some((bytes, mode, owner)) = read_set(&data) {
                        let text = owner.to_string().repeat(2000);
                        assert_eq!((bytes, mode), (text.into_bytes(), if owner % 2 == 0 { 0o640 } else { 0o444 }));
                        whole.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        for number in 1..=UPDATES {
            assert!(publish(number).changed);
            // Each version is up until a reader has seen a set, so that readers and updates really
            // meet.
            let before = whole.load(Ordering::Relaxed);
            while whole.load(Ordering::Relaxed) == before && !reader.is_finished() {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        assert!(whole.load(Ordering::Relaxed) >= UPDATES);
        assert_eq!(world.list(&house.at("volume")).len(), 5, "a, b, dir, ..data and one set");
    });
}

#[test]
fn an_umask_or_a_setgid_volume_changes_no_payload() {
    in_namespace(linux_kernel(), |world| {
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
        let house = House::new(world);
        world.add_folder(&house.at("volume"));
        world.give(&house.at("volume"), 0, 1234, 0o2775);
        let mut payload = Payload { files: vec![PayloadFile::new("dir/f", *b"x", 0o666)], ..Payload::default() };
        payload.folder_mode = 0o777;
        let publish = |payload: &Payload| house.kernel.publish_payload(&house.root, name("volume"), payload).unwrap();
        publish(&payload);
        assert_eq!(world.mode_and_group(&house.at("volume/dir")), (0o777, 0));
        assert_eq!(world.mode_and_group(&house.at("volume/dir/f")), (0o666, 0));
        assert!(!publish(&payload).changed);
        assert_eq!(world.mode_and_group(&house.at("volume")), (0o2775, 1234), "the volume's own are left alone");
    });
}

#[test]
fn a_pipe_or_device_in_a_set_blocks_no_update() {
    in_namespace(linux_kernel(), |world| {
        let house = House::new(world);
        world.add_folder(&house.at("volume"));
        let payload = Payload { files: vec![PayloadFile::new("f", *b"x", 0o644)], ..Payload::default() };
        let publish = || house.kernel.publish_payload(&house.root, name("volume"), &payload).unwrap().changed;
        for kind in [volhost_kernel::SourceKind::Fifo, volhost_kernel::SourceKind::CharDevice] {
            publish();
            let file = house.at("volume/..data/f");
            world.remove(&file);
            world.add_node(&file, kind);
            assert!(publish());
            assert_eq!(world.read(&file).unwrap(), b"x");
        }
    });
}
