//! Several images that are copied as of one moment, on file systems that share blocks.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::mount::{MntFlags, umount2};
use volhost_kernel::{Detach, ErrorKind, FormatOptions, FsOption, MountSource};

use crate::real::RealWorld;
use crate::suite::{House, MIB, World as _, name};
use crate::{real, tool};

/// A folder whose files share blocks: an XFS, which is mounted at this name.
fn pool(house: &House<'_>, image: &MountSource, place: &str) -> PathBuf {
    let device = house.kernel.attach_loop(image, false).unwrap();
    house.kernel.format(&device, "xfs", &FormatOptions::default()).unwrap();
    house.attach(house.kernel.mount_filesystem(&device, "xfs", &[], false).unwrap(), place);
    house.at(place)
}

/// A file system of this type in a new image in the folder, mounted at its type.
fn volume(house: &House<'_>, folder: &Path, fs_type: &str, bytes: u64) -> MountSource {
    let image = house.kernel.create_image(&folder.join(fs_type), &[folder.to_owned()], bytes).unwrap();
    let device = house.kernel.attach_loop(&image, false).unwrap();
    house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap();
    house.attach(house.kernel.mount_filesystem(&device, fs_type, &[], false).unwrap(), fs_type);
    image
}

/// The number in a file.
fn number(world: &RealWorld, file: &Path) -> u64 {
    u64::from_le_bytes(world.read(file).unwrap().try_into().unwrap())
}

/// Writes ever higher numbers into all files, each time into one after the other, until it is to
/// end. Each is on its disk before the next one is written.
fn count(files: &[PathBuf], written: &AtomicU64, ended: &AtomicBool) {
    let open = |file| OpenOptions::new().create(true).truncate(false).write(true).open(file).unwrap();
    let files: Vec<_> = files.iter().map(open).collect();
    for number in 1_u64.. {
        for file in &files {
            file.write_all_at(&number.to_le_bytes(), 0).unwrap();
            file.sync_data().unwrap();
        }
        written.store(number, Ordering::Relaxed);
        if ended.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn images_that_are_written_are_copied_as_of_one_moment() {
    real(|world| {
        let house = House::new(world);
        let folder = pool(&house, &house.image("pool", 4 << 30), "pool");
        let roots = [folder.clone()];
        let types = [("ext4", 64 * MIB), ("xfs", 320 * MIB), ("btrfs", 128 * MIB)];
        let images = types.map(|(fs_type, bytes)| volume(&house, &folder, fs_type, bytes));
        let files = types.map(|(fs_type, _)| house.at(fs_type).join("count"));
        let (written, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let groups = thread::scope(|scope| {
            let writer = scope.spawn(|| count(&files, &written, &ended));
            let mut groups = Vec::new();
            for group in 0..6 {
                // In the order in which it is not written: copied one after another, the first would lag.
                let before = written.load(Ordering::Relaxed);
                while written.load(Ordering::Relaxed) <= before {
                    thread::yield_now();
                }
                let copies =
                    [0, 1, 2].map(|at| (house.open(&folder.join(types[at].0)), folder.join(format!("{group}-{at}"))));
                house.kernel.copy_images_together(&copies, &roots).unwrap();
                groups.push(copies.map(|(_, to)| to));
                assert!(!writer.is_finished(), "nothing stays frozen");
            }
            ended.store(true, Ordering::Relaxed);
            groups
        });
        for group in groups {
            let numbers: Vec<u64> = group
                .iter()
                .zip(types)
                .map(|(copy, (fs_type, _))| {
                    let image = house.open(copy);
                    let device = house.kernel.attach_loop(&image, false).unwrap();
                    let options = if fs_type == "xfs" { vec![FsOption::flag("nouuid")] } else { Vec::new() };
                    // btrfs knows its volumes by their UUIDs: two are never mounted at once.
                    if fs_type == "btrfs" {
                        tool("btrfstune", &["-f", "-u", device.path().to_str().unwrap()]);
                    }
                    house.attach(house.kernel.mount_filesystem(&device, fs_type, &options, false).unwrap(), "copy");
                    let found = number(world, &house.at("copy/count"));
                    house.kernel.detach(&house.root, name("copy"), Detach::Normal).unwrap();
                    house.kernel.detach_loop(&image).unwrap();
                    found
                })
                .collect();
            let [first, second, third] = numbers[..] else { panic!("{numbers:?}") };
            assert!(first >= second && second >= third && third + 1 >= first, "of several moments: {numbers:?}");
            assert!(first > 0);
        }
        drop(images);
        for place in ["ext4", "xfs", "btrfs"] {
            house.kernel.detach(&house.root, name(place), Detach::Normal).unwrap();
            house.kernel.detach_loop(&house.open(&folder.join(place))).unwrap();
        }
        house.kernel.detach(&house.root, name("pool"), Detach::Normal).unwrap();
    });
}

#[test]
fn images_are_not_copied_where_nothing_can_hold_them_still() {
    real(|world| {
        let house = House::new(world);
        let folder = pool(&house, &house.image("pool", 1 << 30), "pool");
        let roots = [folder.clone()];
        volume(&house, &folder, "ext4", 64 * MIB);
        let raw = house.kernel.create_image(&folder.join("raw"), &roots, 16 * MIB).unwrap();
        let device = house.kernel.attach_loop(&raw, false).unwrap();
        let copies = |to: &str| {
            ["ext4", "raw"].map(|image| (house.open(&folder.join(image)), folder.join(format!("{to}-{image}"))))
        };
        let left = || world.list(&folder);
        let before = left();
        let refused = |to: &str, words: &str| {
            let error = house.kernel.copy_images_together(&copies(to), &roots).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(left(), before, "all or none");
            world.write(&house.at("ext4/file"), b"it can be written").unwrap();
        };
        refused("raw", "from which no file system is mounted");
        house.kernel.detach_loop(&raw).unwrap();
        drop(device);

        let volume = house.at("ext4");
        let point = volume.to_str().unwrap();
        tool("fsfreeze", &["--freeze", point]);
        let error = house.kernel.copy_images_together(&copies("frozen"), &roots).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Busy && error.to_string().contains("another program has frozen it"),
            "{error}"
        );
        assert_eq!(left(), before);
        // As after the death of a process that had frozen it.
        assert_eq!(house.kernel.thaw_images(&[world.base().join("elsewhere")]).unwrap(), Vec::<PathBuf>::new());
        let device = house.kernel.find_loop(&house.open(&folder.join("ext4"))).unwrap().unwrap();
        assert_eq!(house.kernel.thaw_images(&roots).unwrap(), [device.path()]);
        assert_eq!(house.kernel.thaw_images(&roots).unwrap(), Vec::<PathBuf>::new());
        world.write(&house.at("ext4/file"), b"it can be written").unwrap();

        // One of the two places is taken: the other copy goes.
        world.write(&folder.join("taken-raw"), b"precious").unwrap();
        let error = house.kernel.copy_images_together(&copies("taken"), &roots).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(!world.exists(&folder.join("taken-ext4")));
        let twice = ["ext4", "raw"].map(|image| (house.open(&folder.join(image)), folder.join("twice")));
        let error = house.kernel.copy_images_together(&twice, &roots).unwrap_err();
        assert!(error.kind() == ErrorKind::Conflict && !world.exists(&folder.join("twice")), "{error}");
        // One image to two places.
        let both = ["one", "two"].map(|to| (house.open(&folder.join("ext4")), folder.join(to)));
        house.kernel.copy_images_together(&both, &roots).unwrap();
        assert!(both.iter().all(|(_, to)| world.exists(to)));
        drop((raw, twice, both));
        house.kernel.detach(&house.root, name("ext4"), Detach::Normal).unwrap();
        house.kernel.detach_loop(&house.open(&folder.join("ext4"))).unwrap();
        house.kernel.detach(&house.root, name("pool"), Detach::Normal).unwrap();
    });
}

#[test]
fn file_systems_within_one_another_are_writable_again_in_seconds() {
    real(|world| {
        let house = House::new(world);
        let outer = pool(&house, &house.image("outer", 2 << 30), "outer");
        let image = house.kernel.create_image(&outer.join("inner"), std::slice::from_ref(&outer), 1 << 30).unwrap();
        let inner = pool(&house, &image, "inner");
        volume(&house, &inner, "ext4", 64 * MIB);
        // The second one's image is in a file system that is frozen for the first.
        let copies =
            [outer.join("inner"), inner.join("ext4")].map(|path| (house.open(&path), path.with_extension("copy")));
        let error = house.kernel.copy_images_together(&copies, &[outer.clone(), inner.clone()]).unwrap_err();
        assert!(error.kind() == ErrorKind::Busy && error.to_string().contains("within 5 s"), "{error}");
        assert!(copies.iter().all(|(_, to)| !world.exists(to)));
        for place in ["ext4", "inner", "outer"] {
            world.write(&house.at(place).join("file"), b"it can be written").unwrap();
        }
        drop((image, copies));
        for (place, image) in [("ext4", inner.join("ext4")), ("inner", outer.join("inner"))] {
            house.kernel.detach(&house.root, name(place), Detach::Normal).unwrap();
            house.kernel.detach_loop(&house.open(&image)).unwrap();
        }
        house.kernel.detach(&house.root, name("outer"), Detach::Normal).unwrap();
    });
}

/// As in a container that has the images and the devices, and not the folders of pods.
#[test]
fn images_are_copied_where_their_file_systems_are_not_seen() {
    real(|world| {
        let house = House::new(world);
        let folder = pool(&house, &house.image("pool", 1 << 30), "pool");
        let roots = [folder.clone()];
        let image = volume(&house, &folder, "ext4", 64 * MIB);
        world.write(&house.at("ext4/file"), b"only in memory").unwrap();
        // It stays mounted for who has it open.
        let held = world.hold(&house.at("ext4"));
        umount2(&house.at("ext4"), MntFlags::MNT_DETACH).unwrap();
        let to = folder.join("copy");
        house.kernel.copy_images_together(&[(house.open(&folder.join("ext4")), to.clone())], &roots).unwrap();
        drop(held);
        house.kernel.detach_loop(&image).unwrap();
        let copy = house.open(&to);
        let device = house.kernel.attach_loop(&copy, false).unwrap();
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "copy");
        assert_eq!(world.read(&house.at("copy/file")).unwrap(), b"only in memory");
        house.kernel.detach(&house.root, name("copy"), Detach::Normal).unwrap();
        house.kernel.detach_loop(&copy).unwrap();
        drop((image, copy));
        house.kernel.detach(&house.root, name("pool"), Detach::Normal).unwrap();
    });
}
