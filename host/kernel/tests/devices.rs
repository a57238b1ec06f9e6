//! Block devices on this machine's kernel: the suite, and devices as only a real one has them, with other programs' data on them, damaged,
//! raced for, left by the dead. Needs root, e2fsprogs, xfsprogs, btrfs-progs and util-linux.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "tests may panic, and share a suite of which each runs a part"
)]

mod real;
mod suite;

use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use volhost_kernel::{
    BlockDevice, BlockDevices, CheckOutcome, Contents, Detach, DeviceNumber, ErrorKind, Filesystems, FsOption, Kernel,
    KernelError, LinuxKernel, LoopDevices, Step,
};

use real::{RealWorld, in_namespace, loops_over, run_program};
use suite::{House, MIB, World, name};

fn run(case: impl FnOnce(&dyn World) + Send + 'static) {
    in_namespace(LinuxKernel::new(), |world| case(world));
}

fn run_with_mountinfo(case: impl FnOnce(&dyn World) + Send + 'static) {
    in_namespace(LinuxKernel::with_mountinfo(), |world| case(world));
}

mod statmount {
    use super::run;
    crate::device_cases!(run);
}

mod mountinfo {
    use super::run_with_mountinfo;
    crate::device_cases!(run_with_mountinfo);
}

fn real(case: impl FnOnce(&RealWorld) + Send + 'static) {
    in_namespace(LinuxKernel::new(), case);
}

/// Runs a program that must succeed.
fn tool(program: &str, arguments: &[&str]) -> String {
    let (success, out, complaints) = run_program(program, arguments);
    assert!(success, "{program} {arguments:?}: {complaints}");
    out.trim().to_owned()
}

fn path_of(device: &BlockDevice) -> &str {
    device.path().to_str().unwrap()
}

/// An ext4 that was used once and is not mounted.
fn used_ext4(house: &House<'_>) -> BlockDevice {
    let (_, device) = house.disk("disk", 16 * MIB);
    house.kernel.format(&device, "ext4", &[]).unwrap();
    house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "volume");
    house.world.write(&house.at("volume/file"), b"precious").unwrap();
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    device
}

/// A partition table in the style of DOS: one Linux partition, and the two bytes that end its sector.
fn partition_table() -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 0, 0, 0x00, 0x08, 0, 0, 0x00, 0x20, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    sector
}

#[test]
fn data_of_any_known_kind_is_never_formatted_over() {
    let luks = [&b"LUKS\xba\xbe\0\x01"[..], &[0; 584]].concat();
    let swap = [&[0; 1024][..], &[1, 0, 0, 0, 0xff], &[0; 3057], &b"SWAPSPACE2"[..]].concat();
    let kinds = [("a partition table", partition_table()), ("crypto_LUKS", luks), ("swap", swap)];
    real(move |world| {
        let house = House::new(world);
        for (at, (known, bytes)) in kinds.into_iter().enumerate() {
            let file = format!("disk{at}");
            let (image, device) = house.disk(&file, 16 * MIB);
            let raw = std::fs::OpenOptions::new().write(true).open(device.path()).unwrap();
            raw.write_all_at(&bytes, 0).unwrap();
            raw.sync_all().unwrap();
            drop(raw);
            let before = std::fs::read(world.base().join(&file)).unwrap();
            assert!(before.starts_with(&bytes));
            for fs_type in ["ext4", "xfs", "btrfs"] {
                let error = house.kernel.format(&device, fs_type, &[]).unwrap_err();
                assert!(matches!(error, KernelError::NotBlank { .. }), "{known}: {error:?}");
                assert!(error.to_string().contains(known), "{error}");
            }
            house.kernel.detach_loop(&image).unwrap();
            assert!(std::fs::read(world.base().join(&file)).unwrap() == before, "{known}: not a byte has changed");
        }
    });
}

#[test]
fn a_device_that_can_not_be_read_is_not_blank() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        // blkid sees nothing on it, as on a blank one.
        std::fs::File::options().write(true).open(world.base().join("disk")).unwrap().set_len(8 * MIB).unwrap();
        for error in [house.kernel.probe(&device).unwrap_err(), house.kernel.format(&device, "ext4", &[]).unwrap_err()]
        {
            assert_eq!((error.step(), error.kind()), (Some(Step::ReadDevice), ErrorKind::Io), "{error}");
        }
    });
}

#[test]
fn a_label_can_not_pass_for_another_type() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        let options = ["-L".to_owned(), "a b\nTYPE=xfs".to_owned()];
        house.kernel.format(&device, "ext4", &options).unwrap();
        let Contents::Filesystem { fs_type, label } = house.kernel.probe(&device).unwrap() else { panic!() };
        assert_eq!(fs_type, "ext4");
        assert!(label.unwrap().starts_with("a"), "a label is told");
    });
}

#[test]
fn a_mkfs_that_fails_says_why_and_leaves_the_device_blank() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        for (fs_type, options) in [("ext4", vec!["-b".to_owned(), "7".to_owned()]), ("xfs", vec![])] {
            let error = house.kernel.format(&device, fs_type, &options).unwrap_err();
            assert!(matches!(error, KernelError::ToolFailed { .. }), "{error:?}");
            assert!(error.to_string().contains("It said: "), "{error}");
            assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank);
        }
        house.kernel.format(&device, "ext4", &[]).unwrap();
    });
}

#[test]
fn a_damaged_ext4_is_repaired_or_told_with_the_way_out() {
    real(|world| {
        let house = House::new(world);
        let device = used_ext4(&house);
        assert_eq!(house.kernel.check(&device, "ext4").unwrap(), CheckOutcome::Clean);
        tool("debugfs", &["-w", "-R", "set_super_value free_blocks_count 1", path_of(&device)]);
        tool("debugfs", &["-w", "-R", "set_super_value state 2", path_of(&device)]);
        assert_eq!(house.kernel.check(&device, "ext4").unwrap(), CheckOutcome::Repaired);
        assert_eq!(house.kernel.check(&device, "ext4").unwrap(), CheckOutcome::Clean);

        tool("debugfs", &["-w", "-R", "clri <2>", path_of(&device)]);
        tool("debugfs", &["-w", "-R", "set_super_value state 2", path_of(&device)]);
        for error in [
            house.kernel.check(&device, "ext4").unwrap_err(),
            house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap_err(),
        ] {
            assert!(matches!(error, KernelError::FilesystemDamaged { .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("e2fsck -f {}", path_of(&device))), "{error}");
        }
        let error = house.kernel.format(&device, "ext4", &[]).unwrap_err();
        assert!(matches!(error, KernelError::NotBlank { .. }), "{error:?}");
    });
}

#[test]
fn a_wrong_type_is_checked_by_nobody() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 320 * MIB);
        house.kernel.format(&device, "xfs", &[]).unwrap();
        let error = house.kernel.check(&device, "ext4").unwrap_err();
        assert!(matches!(&error, KernelError::FilesystemMismatch { found, .. } if found == "xfs"), "{error:?}");
        drop(house.kernel.mount_filesystem(&device, "xfs", &[], false).unwrap());
    });
}

#[test]
fn a_journal_left_by_a_crash_is_replayed_or_the_refusal_told() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        house.kernel.format(&device, "ext4", &[]).unwrap();
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "volume");
        let file = std::fs::File::create(house.at("volume/file")).unwrap();
        file.write_all_at(b"synced", 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        // The disk as a power cut would leave it: what was synced is in the journal alone.
        world.write(&world.base().join("cut"), &std::fs::read(device.path()).unwrap()).unwrap();
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();

        let cut = house.open(&world.base().join("cut"));
        let frozen = house.kernel.attach_loop(&cut, true).unwrap();
        let error = house.kernel.mount_filesystem(&frozen, "ext4", &[], true).unwrap_err();
        assert!(error.to_string().contains("noload"), "the kernel's own advice: {error}");
        house.kernel.detach_loop(&cut).unwrap();

        let device = house.kernel.attach_loop(&cut, false).unwrap();
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], true).unwrap(), "volume");
        assert_eq!(world.read(&house.at("volume/file")).unwrap(), b"synced");
        assert!(world.write(&house.at("volume/file"), b"x").is_err());
    });
}

#[test]
fn a_volume_that_asks_for_a_panic_gets_a_read_only_mount() {
    real(|world| {
        let house = House::new(world);
        let device = used_ext4(&house);
        tool("tune2fs", &["-e", "panic", path_of(&device)]);
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "volume");
        let told = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
        assert!(told.options.iter().any(|option| option == "errors=remount-ro"), "{told:?}");
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();

        let own = [FsOption::new("errors", "continue"), FsOption::flag("discard")];
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &own, false).unwrap(), "volume");
        let told = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
        assert!(told.options.iter().any(|option| option == "discard"), "{told:?}");
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
        let bad = [FsOption::flag("no-such-option")];
        let error = house.kernel.mount_filesystem(&device, "ext4", &bad, false).unwrap_err();
        assert!(matches!(error, KernelError::UnsupportedOption { .. }), "{error:?}");
    });
}

#[test]
fn many_who_attach_one_file_at_once_get_one_device() {
    real(|world| {
        let house = House::new(world);
        for round in 0..10 {
            let path = world.base().join(format!("disk{round}"));
            house.image(&format!("disk{round}"), MIB);
            let base = world.base();
            let attach = || {
                let kernel = LinuxKernel::new();
                let file = kernel.open_host_path(&path, std::slice::from_ref(&base)).unwrap();
                kernel.attach_loop(&file, false).unwrap().number()
            };
            let numbers: Vec<DeviceNumber> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..6).map(|_| scope.spawn(attach)).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let settled = attach();
            assert_eq!(numbers, [settled; 6]);
            assert_eq!(loops_over(&path), [Path::new("/dev").join(format!("loop{}", settled.minor))]);
        }
    });
}

#[test]
fn many_devices_come_and_go_at_once_and_none_is_in_anothers_way() {
    real(|world| {
        world.claim_devices();
        let base = world.base();
        let churn = |worker: usize| {
            let kernel = LinuxKernel::new();
            for round in 0..20 {
                let path = base.join(format!("disk{worker}-{round}"));
                let image = kernel.create_image(&path, std::slice::from_ref(&base), MIB).unwrap();
                let device = kernel.attach_loop(&image, false).unwrap();
                assert_eq!(kernel.probe(&device).unwrap(), Contents::Blank);
                kernel.detach_loop(&image).unwrap();
            }
        };
        std::thread::scope(|scope| {
            for worker in 0..4 {
                scope.spawn(move || churn(worker));
            }
        });
        assert!(loops_over(&base).is_empty());
    });
}

#[test]
fn what_a_dead_host_left_is_found_by_the_next() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 4 * MIB);
        house.kernel.map_device(&device, &house.root, name("block")).unwrap();
        let pin = house.kernel.pin_device(&house.root, name("block")).unwrap();
        let (number, pin) = (device.number(), pin.number());
        let path = house.path.clone();
        drop((house, device));

        let next = LinuxKernel::new();
        let root = next.open_directory(&path).unwrap();
        let image = next.open_host_path(&world.base().join("disk"), &[world.base()]).unwrap();
        assert_eq!(next.find_loop(&image).unwrap().unwrap().number(), number);
        assert_eq!(next.mapped_device(&root, name("block")).unwrap(), Some(number));
        assert_eq!(next.pin_device(&root, name("block")).unwrap().number(), pin);
        next.unpin_device(&root, name("block")).unwrap();
        next.detach(&root, name("block"), Detach::Normal).unwrap();
        next.detach_loop(&image).unwrap();
        assert!(loops_over(&world.base()).is_empty());
    });
}

#[test]
fn a_strangers_loop_device_that_would_go_with_its_user_stays() {
    real(|world| {
        let house = House::new(world);
        let image = house.image("disk", 16 * MIB);
        let path = world.base().join("disk");
        tool("mkfs.ext4", &["-q", path.to_str().unwrap()]);
        world.add_folder(&house.at("theirs"));
        tool("mount", &["-o", "loop", path.to_str().unwrap(), house.at("theirs").to_str().unwrap()]);
        let device = house.kernel.attach_loop(&image, false).unwrap();
        tool("umount", &[house.at("theirs").to_str().unwrap()]);
        assert_eq!(house.kernel.device_size(&device).unwrap(), 16 * MIB);
        assert_eq!(house.kernel.find_loop(&image).unwrap().unwrap().number(), device.number());
        // A device over a part of the file is not the file's.
        house.kernel.detach_loop(&image).unwrap();
        let part = tool("losetup", &["-f", "--show", "-o", "4096", path.to_str().unwrap()]);
        assert!(house.kernel.find_loop(&image).unwrap().is_none());
        assert_ne!(path_of(&house.kernel.attach_loop(&image, false).unwrap()), part);
    });
}

#[test]
fn a_node_that_was_replaced_is_not_taken_for_the_device() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        let (_, other) = house.disk("other", 16 * MIB);
        let node = world.base().join("node");
        let make = |number: DeviceNumber| {
            let device = makedev(number.major.into(), number.minor.into());
            mknod(&node, SFlag::S_IFBLK, Mode::S_IRUSR | Mode::S_IWUSR, device).unwrap();
        };
        make(device.number());
        let opened = house.kernel.open_block_device(&node).unwrap();
        std::fs::remove_file(&node).unwrap();
        make(other.number());
        for refused in [
            house.kernel.format(&opened, "ext4", &[]),
            house.kernel.probe(&opened).map(drop),
            house.kernel.mount_filesystem(&opened, "ext4", &[], false).map(drop),
            house.kernel.link_device(&opened, &house.root, name("link")),
        ] {
            let error = refused.unwrap_err();
            assert!(
                matches!(&error, KernelError::DeviceGone { wanted, .. } if *wanted == device.number()),
                "{error:?}"
            );
        }
        assert_eq!(house.kernel.probe(&other).unwrap(), Contents::Blank);
    });
}

#[test]
fn a_loop_device_goes_past_the_page_cache_where_it_can() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        let attribute = Path::new("/sys/block").join(device.path().file_name().unwrap()).join("loop/dio");
        let direct = std::fs::read_to_string(attribute).unwrap();
        // A file that can be opened for direct I/O can be used by it.
        let flags = nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_DIRECT;
        let can = nix::fcntl::open(&world.base().join("disk"), flags, Mode::empty()).is_ok();
        assert_eq!(direct.trim() == "1", can);
    });
}
