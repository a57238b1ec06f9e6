//! The suite against the in-memory kernel, and the faults that only a test can order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests may panic"
)]

mod in_memory_world;
mod suite;

use std::net::IpAddr;
use std::path::Path;

use in_memory_world::InMemoryWorld;
use suite::{House, MIB, World, name};
use volhost_kernel::{
    CheckOutcome, Contents, Detach, DeviceError, Durability, Entry, Errno, ErrorKind, FilesystemError, FormatOptions,
    FsOption, Kernel, KernelError, Share, Step,
};
use volhost_testing_kernel::{Damage, InMemoryKernel};

fn run(case: impl FnOnce(&dyn World)) {
    case(&InMemoryWorld::new());
}

mod in_memory {
    use super::run;
    crate::all_cases!(run);
    crate::device_cases!(run);
}

#[test]
fn an_attach_that_fails_at_any_step_leaves_nothing() {
    let mut failures = 0;
    for step in 0.. {
        let world = InMemoryWorld::new();
        let house = House::new(&world);
        let mount = house.bind(&house.outside("source"));
        let before = world.mount_count();
        world.0.fail_at(step, Errno::IO);
        let attached = house.kernel.attach(mount, &house.root, name("volume"));
        world.0.clear_faults();
        let Err(error) = attached else {
            assert!(house.is_mount("volume"));
            break;
        };
        failures += 1;
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(house.entry("volume"), Entry::Absent);
        assert_eq!((world.mount_count(), world.0.detached_count()), (before, 0));
    }
    assert_eq!(failures, 3, "mount point, attach, check");
}

#[test]
fn a_share_shows_the_same_files_wherever_it_is_mounted() {
    let world = InMemoryWorld::new();
    let house = House::new(&world);
    let (down, up) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    world.0.add_server_name("nas", &[down, up]);
    world.0.add_share(up, "/export");
    let share = Share { fs_type: "nfs", server: "nas", path: "/export" };
    let addresses = house.kernel.server_addresses("nas").unwrap();
    let before = world.mount_count();
    for place in ["first", "second"] {
        house
            .attach(house.kernel.mount_share(&share, &addresses, &[FsOption::new("vers", "4.2")], &[]).unwrap(), place);
    }
    world.write(&house.at("first/word"), b"shared").unwrap();
    assert_eq!(world.read(&house.at("second/word")).unwrap(), b"shared");
    assert_eq!(house.kernel.mount_at(&house.root, name("first")).unwrap().unwrap().fs_type, "nfs");
    let error = house.kernel.mount_share(&Share { path: "/other", ..share }, &addresses, &[], &[]).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("exports no such folder"), "{error}");
    for place in ["first", "second"] {
        house.kernel.detach(&house.root, name(place), Detach::Normal).unwrap();
    }
    assert_eq!(world.mount_count(), before);
}

#[test]
fn a_detach_that_fails_is_finished_by_the_next() {
    let world = InMemoryWorld::new();
    let house = House::new(&world);
    house.attach(house.bind(&house.outside("source")), "volume");
    world.0.fail_next(Step::RemoveMountPoint, Errno::IO);
    let error = house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap_err();
    assert_eq!(error.step(), Some(Step::RemoveMountPoint));
    assert_eq!(house.entry("volume"), Entry::Folder);
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    assert_eq!(house.entry("volume"), Entry::Absent);
}

#[test]
fn a_folder_whose_group_fails_is_taken_back() {
    let world = InMemoryWorld::new();
    let house = House::new(&world);
    world.0.fail_next(Step::SetGroup, Errno::PERM);
    let error = house.kernel.make_folder(&house.root, name("a"), 0o750, Some(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(house.entry("a"), Entry::Absent);
}

#[test]
fn a_write_that_fails_keeps_the_old_content() {
    let world = InMemoryWorld::new();
    let house = House::new(&world);
    let write = |bytes| house.kernel.write_atomic(&house.root, name("f"), bytes, 0o600, Durability::Machine);
    write(b"old").unwrap();
    for step in [Step::WriteFile, Step::PublishFile] {
        world.0.fail_next(step, Errno::IO);
        assert_eq!(write(b"new").unwrap_err().step(), Some(step));
        assert_eq!(world.list(&house.path), ["f"]);
        assert_eq!(world.read(&house.at("f")).unwrap(), b"old");
    }
}

#[test]
fn a_missing_tmpfs_option_is_unsupported_by_name() {
    let kernel = InMemoryKernel::new();
    kernel.without_option("noswap");
    let error = kernel.tmpfs(&[FsOption::flag("noswap")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("noswap"), "{error}");
}

#[test]
fn a_pin_that_fails_at_any_step_leaves_nothing() {
    let mut failures = 0;
    for step in 0.. {
        let world = InMemoryWorld::new();
        let house = House::new(&world);
        world.0.add_disk("/dev/disk", 4 * MIB).unwrap();
        let device = house.kernel.open_block_device(Path::new("/dev/disk")).unwrap();
        house.kernel.map_device(&device, &house.root, name("block")).unwrap();
        world.0.fail_at(step, Errno::IO);
        let pinned = house.kernel.pin_device(&house.root, name("block"));
        world.0.clear_faults();
        if pinned.is_ok() {
            assert_eq!(world.0.loops(), [Path::new("/dev/loop0")]);
            break;
        }
        failures += 1;
        assert!(world.0.loops().is_empty());
        house.kernel.detach(&house.root, name("block"), Detach::Normal).unwrap();
    }
    assert_eq!(failures, 3, "looking, finding, making");
}

#[test]
fn a_format_that_fails_leaves_the_disk_blank() {
    let world = InMemoryWorld::new();
    let kernel = world.kernel();
    world.0.add_disk("/dev/disk", 4 * MIB).unwrap();
    let device = kernel.open_block_device(Path::new("/dev/disk")).unwrap();
    for step in [Step::ReadDevice, Step::ProbeDevice, Step::FormatDevice] {
        world.0.fail_next(step, Errno::IO);
        assert_eq!(kernel.format(&device, "xfs", &FormatOptions::default()).unwrap_err().step(), Some(step));
        assert_eq!(kernel.probe(&device).unwrap(), Contents::Blank);
    }
    kernel.format(&device, "xfs", &FormatOptions::default()).unwrap();
}

#[test]
fn foreign_data_on_a_disk_is_kept() {
    let world = InMemoryWorld::new();
    let kernel = world.kernel();
    world.0.add_disk("/dev/disk", 4 * MIB).unwrap();
    let device = kernel.open_block_device(Path::new("/dev/disk")).unwrap();
    world.0.put_on_device("/dev/disk", Contents::Partitions).unwrap();
    let error = kernel.format(&device, "ext4", &FormatOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a partition table"), "{error}");
    assert_eq!(kernel.probe(&device).unwrap(), Contents::Partitions);
}

#[test]
fn a_damaged_file_system_is_repaired_if_it_can_be() {
    let world = InMemoryWorld::new();
    let kernel = world.kernel();
    world.0.add_disk("/dev/disk", 4 * MIB).unwrap();
    let device = kernel.open_block_device(Path::new("/dev/disk")).unwrap();
    kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    world.0.damage("/dev/disk", Damage::Repairable).unwrap();
    assert_eq!(kernel.check(&device, "ext4").unwrap(), CheckOutcome::Repaired);
    assert_eq!(kernel.check(&device, "ext4").unwrap(), CheckOutcome::Clean);
    world.0.damage("/dev/disk", Damage::Lasting).unwrap();
    for _ in 0..2 {
        let error = kernel.check(&device, "ext4").unwrap_err();
        assert!(matches!(error, KernelError::Filesystem(FilesystemError::Damaged { .. })), "{error:?}");
    }
    assert!(kernel.mount_filesystem(&device, "ext4", &[], false).is_err());
}

#[test]
fn a_disk_that_is_unplugged_is_gone_and_a_changed_one_is_reported() {
    let world = InMemoryWorld::new();
    let kernel = world.kernel();
    world.0.add_disk("/dev/disk", 4 * MIB).unwrap();
    let device = kernel.open_block_device(Path::new("/dev/disk")).unwrap();
    world.0.change_disk("/dev/disk", 8 * MIB, true).unwrap();
    assert_eq!(kernel.device_size(&device).unwrap(), 8 * MIB);
    assert!(kernel.device_read_only(&device).unwrap());
    world.0.unplug("/dev/disk").unwrap();
    let error = kernel.device_size(&device).unwrap_err();
    assert!(matches!(error, KernelError::Device(DeviceError::Gone { .. })), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_second_host_finds_what_the_first_left() {
    let world = InMemoryWorld::new();
    let house = House::new(&world);
    house.attach(house.bind(&house.outside("source")), "volume");
    let listed = house.kernel.mounts_below(&house.root).unwrap();
    drop(house);
    let second = world.0.clone();
    let root = second.open_directory(Path::new("/srv/root")).unwrap();
    assert_eq!(second.mounts_below(&root).unwrap(), listed);
}

#[test]
fn a_handle_of_another_machine_is_refused() {
    let (one, other) = (InMemoryWorld::new(), InMemoryWorld::new());
    let (house, stranger) = (House::new(&one), House::new(&other));
    let error = house.kernel.names(&stranger.root).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::BADF), "{error}");
    let mount = stranger.kernel.tmpfs(&[]).unwrap();
    let error = house.kernel.attach(mount, &house.root, name("x")).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::BADF), "{error}");
    assert_eq!(other.0.detached_count(), 0, "the mount was discarded by its own machine");
}
