//! Block devices on this machine's kernel: the suite, and devices as only a real one has them, with
//! other programs' data on them, damaged, raced for, left by the dead. Needs root, e2fsprogs,
//! xfsprogs, btrfs-progs and util-linux.
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

mod confined;
mod real;
mod suite;
mod together;
mod unfinished;

use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use volhost_kernel::{
    BlockDevice, BlockDevices, CheckOutcome, Contents, Detach, DeviceError, DeviceNumber, ErrorKind, FilesystemError,
    Filesystems, FormatOptions, FsOption, Kernel, KernelError, LoopDevices, Step, ToolError,
};
use volhost_process::linux_kernel;

use confined::{disk_with_text, instead_of_e2fsck};
use real::{RealWorld, assert_no_loop_over, in_namespace, loops_over, run_program};
use suite::{House, MIB, World, name};

fn run(case: impl FnOnce(&dyn World) + Send + 'static) {
    in_namespace(linux_kernel(), |world| case(world));
}

fn run_with_mountinfo(case: impl FnOnce(&dyn World) + Send + 'static) {
    in_namespace(linux_kernel().with_mountinfo(), |world| case(world));
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
    in_namespace(linux_kernel(), case);
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
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "volume");
    house.world.write(&house.at("volume/file"), b"precious").unwrap();
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    device
}

/// A partition table in the style of DOS: one Linux partition, and the two bytes that end its
/// sector.
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
                let error = house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap_err();
                assert!(
                    matches!(error, KernelError::Filesystem(FilesystemError::NotBlank { .. })),
                    "{known}: {error:?}"
                );
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
        for error in [
            house.kernel.probe(&device).unwrap_err(),
            house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap_err(),
        ] {
            assert_eq!((error.step(), error.kind()), (Some(Step::ReadDevice), ErrorKind::Io), "{error}");
        }
    });
}

#[test]
fn a_label_can_not_pass_for_another_type() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        tool("mkfs.ext4", &["-q", "-L", "a b\nTYPE=xfs", path_of(&device)]);
        let Contents::Filesystem { fs_type, label } = house.kernel.probe(&device).unwrap() else { panic!() };
        assert_eq!(fs_type, "ext4");
        assert!(label.unwrap().starts_with("a"), "a label is reported");
    });
}

#[test]
fn a_mkfs_that_fails_says_why_and_leaves_the_device_blank() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        // An inode does not fit into a block; and the device is too small for XFS.
        let small = FormatOptions { block_size: Some(1024), inode_size: Some(4096), ..FormatOptions::default() };
        for (fs_type, options) in [("ext4", small), ("xfs", FormatOptions::default())] {
            let error = house.kernel.format(&device, fs_type, &options).unwrap_err();
            assert!(matches!(error, KernelError::Tool(ToolError::Failed { .. })), "{error:?}");
            assert!(error.to_string().contains("It said: "), "{error}");
            assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank);
        }
        house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
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
            assert!(matches!(error, KernelError::Filesystem(FilesystemError::Damaged { .. })), "{error:?}");
            assert!(error.to_string().contains(&format!("e2fsck -f {}", path_of(&device))), "{error}");
        }
        let error = house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap_err();
        assert!(matches!(error, KernelError::Filesystem(FilesystemError::NotBlank { .. })), "{error:?}");
    });
}

#[test]
fn a_wrong_type_is_not_checked() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 320 * MIB);
        house.kernel.format(&device, "xfs", &FormatOptions::default()).unwrap();
        let error = house.kernel.check(&device, "ext4").unwrap_err();
        assert!(
            matches!(&error, KernelError::Filesystem(FilesystemError::Mismatch { found, .. }) if found == "xfs"),
            "{error:?}"
        );
        drop(house.kernel.mount_filesystem(&device, "xfs", &[], false).unwrap());
    });
}

#[test]
fn a_journal_left_by_a_crash_is_replayed_or_the_refusal_reported() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
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
        let found = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
        assert!(found.options.iter().any(|option| option == "errors=remount-ro"), "{found:?}");
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();

        let own = [FsOption::new("errors", "continue"), FsOption::flag("discard")];
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &own, false).unwrap(), "volume");
        let found = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
        assert!(found.options.iter().any(|option| option == "discard"), "{found:?}");
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
                let kernel = linux_kernel();
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
            let kernel = linux_kernel();
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
        assert_no_loop_over(&base);
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

        let next = linux_kernel();
        let root = next.open_directory(&path).unwrap();
        let image = next.open_host_path(&world.base().join("disk"), &[world.base()]).unwrap();
        assert_eq!(next.find_loop(&image).unwrap().unwrap().number(), number);
        assert_eq!(next.mapped_device(&root, name("block")).unwrap(), Some(number));
        assert_eq!(next.pin_device(&root, name("block")).unwrap().number(), pin);
        next.unpin_device(&root, name("block")).unwrap();
        next.detach(&root, name("block"), Detach::Normal).unwrap();
        next.detach_loop(&image).unwrap();
        assert_no_loop_over(&world.base());
    });
}

/// As the kubelet pins a device that it maps: by a loop device over the mapping's path.
#[test]
fn a_kubelets_pin_is_a_pin_and_is_taken_away() {
    real(|world| {
        let house = House::new(world);
        let (_image, device) = house.disk("disk", 4 * MIB);
        house.kernel.map_device(&device, &house.root, name("block")).unwrap();
        let mapping = house.at("block");
        let pinned = std::process::Command::new("losetup").args(["-f", "--show"]).arg(&mapping).output().unwrap();
        assert!(pinned.status.success(), "{}", String::from_utf8_lossy(&pinned.stderr));
        let path = String::from_utf8(pinned.stdout).unwrap();
        let pin = house.kernel.pin_device(&house.root, name("block")).unwrap();
        assert_eq!(pin.path(), std::path::Path::new(path.trim()), "it is pinned already");
        // A loop device that another program has over the device itself is none of it.
        let other = std::process::Command::new("losetup").args(["-f", "--show"]).arg(device.path()).output().unwrap();
        let other = String::from_utf8(other.stdout).unwrap();
        house.kernel.unpin_device(&house.root, name("block")).unwrap();
        house.kernel.detach(&house.root, name("block"), Detach::Normal).unwrap();
        tool("losetup", &["-d", other.trim()]);
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
            house.kernel.format(&opened, "ext4", &FormatOptions::default()),
            house.kernel.probe(&opened).map(drop),
            house.kernel.mount_filesystem(&opened, "ext4", &[], false).map(drop),
            house.kernel.link_device(&opened, &house.root, name("link")),
        ] {
            let error = refused.unwrap_err();
            assert!(
                matches!(&error, KernelError::Device(DeviceError::Gone { wanted, .. }) if *wanted == device.number()),
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

/// Content that no tool takes for a file system, each with where it is in a disk of 64 MiB.
fn was_ever_written() -> Vec<(&'static str, u64, Vec<u8>)> {
    // Bytes without a pattern: a linear congruence is enough for that.
    let mut seed = 1_u32;
    let mut noise = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed.to_be_bytes()[0]
    };
    let random: Vec<u8> = (0..8192).map(|_| noise()).collect();
    let mut tar = b"folder/file".to_vec();
    tar.resize(257, 0);
    tar.extend(b"ustar\x0000");
    vec![
        ("random bytes", 0, random),
        ("a tar", 0, tar),
        ("an SQLite file", 0, b"SQLite format 3\0\x10\0\x01\x01\0".to_vec()),
        ("a line in the middle", 37 << 20, b"by the pod".to_vec()),
        ("the last byte", (64 << 20) - 1, b"x".to_vec()),
    ]
}

#[test]
fn written_data_is_never_formatted_over() {
    real(|world| {
        let house = House::new(world);
        for (what, at, bytes) in was_ever_written() {
            let (image, device) = house.disk("disk", 64 * MIB);
            // Through the device, as a pod that has it as a Block volume; nothing is synced.
            let raw = std::fs::OpenOptions::new().write(true).open(device.path()).unwrap();
            raw.write_all_at(&bytes, at).unwrap();
            drop(raw);
            for fs_type in ["ext4", "xfs", "btrfs"] {
                let error = house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap_err();
                assert!(
                    matches!(error, KernelError::Filesystem(FilesystemError::NotBlank { .. })),
                    "{what}: {error:?}"
                );
            }
            // The way out that the error names.
            tool("blkdiscard", &["--force", "--zeroout", path_of(&device)]);
            assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank, "{what}");
            house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
            house.kernel.detach_loop(&image).unwrap();
            house.kernel.remove_image(&world.base().join("disk"), &[world.base()]).unwrap();
        }
    });
}

#[test]
fn one_byte_in_a_large_sparse_image_is_found() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 1 << 40);
        assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank, "looking at a TiB of holes takes no time");
        let file = std::fs::OpenOptions::new().write(true).open(world.base().join("disk")).unwrap();
        file.write_all_at(b"x", (1 << 39) + 12_345).unwrap();
        assert!(matches!(house.kernel.probe(&device).unwrap(), Contents::Other(_)));
    });
}

#[test]
fn an_old_superblock_farther_in_is_not_brought_back_over_what_was_written_since() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 64 * MIB);
        house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
        let raw = std::fs::OpenOptions::new().write(true).open(device.path()).unwrap();
        let written = [b'x'; 65536];
        raw.write_all_at(&written, 0).unwrap();
        raw.sync_all().unwrap();
        drop(raw);
        let error = house.kernel.check(&device, "ext4").unwrap_err();
        assert!(matches!(error, KernelError::Filesystem(FilesystemError::Missing { .. })), "{error:?}");
        let mut there = [0; 65536];
        std::fs::File::open(device.path()).unwrap().read_exact_at(&mut there, 0).unwrap();
        assert!(there == written, "not a byte has changed");
    });
}

#[test]
fn a_program_that_its_device_took_over_reaches_nothing_else() {
    real(|world| {
        let house = House::new(world);
        // Its words are `-p -- /dev/loopN`: a shell runs what is on the device.
        instead_of_e2fsck("/bin/sh");
        let script = "for f in /* /etc/* /dev/* /proc/* /usr/*; do echo \"$f\"; done\n\
                      read line < /etc/mke2fs.conf && echo CAN-READ-ITS-CONFIGURATION\n\
                      (: > /etc/mke2fs.conf) && echo CAN-WRITE-ITS-CONFIGURATION\n\
                      (: > /file) && echo CAN-WRITE-A-FILE\n\
                      read line < /etc/shadow && echo CAN-READ-THE-HOST\n\
                      cd /.. && [ -e home ] && echo CAN-LEAVE\n\
                      kill -0 1 && echo CAN-SIGNAL\n\
                      exit 4\n";
        let device = disk_with_text(&house, script);
        let error = house.kernel.check(&device, "ext4").unwrap_err();
        let KernelError::Filesystem(FilesystemError::Damaged { said, .. }) = &error else { panic!("{error:?}") };
        assert!(said.contains("CAN-READ-ITS-CONFIGURATION"), "the script has run: {said}");
        assert!(said.contains(&format!("/dev/{}", device.path().file_name().unwrap().to_str().unwrap())), "{said}");
        for never in [
            "CAN-WRITE",
            "CAN-READ-THE-HOST",
            "CAN-LEAVE",
            "CAN-SIGNAL",
            "/home",
            "/root",
            "/etc/passwd",
            "/dev/tty",
            "/usr/bin",
        ] {
            assert!(!said.contains(never), "{never}: {said}");
        }
    });
}

#[test]
fn a_snapshot_on_xfs_leaves_source_and_copy_mountable() {
    real(|world| {
        let house = House::new(world);
        let (_, disk) = house.disk("pool", 2 << 30);
        house.kernel.format(&disk, "xfs", &FormatOptions::default()).unwrap();
        house.attach(house.kernel.mount_filesystem(&disk, "xfs", &[], false).unwrap(), "pool");
        let folder = house.at("pool");
        let roots = [folder.clone()];
        for (fs_type, bytes, options) in [
            ("ext4", 64 * MIB, vec![]),
            ("xfs", 320 * MIB, vec![FsOption::flag("nouuid")]),
            ("btrfs", 128 * MIB, vec![]),
        ] {
            let (source, copy) = (folder.join(fs_type), folder.join(format!("{fs_type}-copy")));
            let image = house.kernel.create_image(&source, &roots, bytes).unwrap();
            let mount = |image: &volhost_kernel::MountSource, place: &str| {
                let device = house.kernel.attach_loop(image, false).unwrap();
                house.attach(house.kernel.mount_filesystem(&device, fs_type, &options, false).unwrap(), place);
                tool("blockdev", &["--getss", path_of(&device)])
            };
            let unmount = |image: &volhost_kernel::MountSource, place: &str| {
                house.kernel.detach(&house.root, name(place), Detach::Normal).unwrap();
                house.kernel.detach_loop(image).unwrap();
            };
            let device = house.kernel.attach_loop(&image, false).unwrap();
            house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap();
            let before = mount(&image, "volume");
            world.write(&house.at("volume/file"), fs_type.as_bytes()).unwrap();
            write_out(&house.at("volume"));
            house.kernel.copy_image(&image, &copy, &roots).unwrap();
            unmount(&image, "volume");
            let copied = house.open(&copy);
            for (image, place) in [(&image, "volume"), (&copied, "copy")] {
                assert_eq!(mount(image, place), before, "{fs_type}: sectors stay as they were");
                assert_eq!(world.read(&house.at(place).join("file")).unwrap(), fs_type.as_bytes());
                world.write(&house.at(place).join("more"), b"x").unwrap();
                unmount(image, place);
            }
        }
        house.kernel.detach(&house.root, name("pool"), Detach::Normal).unwrap();
    });
}

/// Writes out what a file system has in memory, so that a copy of its image has it.
fn write_out(folder: &Path) {
    let opened = std::fs::File::open(folder).unwrap();
    nix::unistd::syncfs(std::os::fd::AsFd::as_fd(&opened)).unwrap();
}

#[test]
fn an_image_whose_sectors_were_noted_keeps_them_on_any_disk() {
    real(|world| {
        let house = House::new(world);
        let image = house.image("disk", 16 * MIB);
        let noted = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(world.base().join("disk"), "trusted.volhost.sector-size", b"4096", noted).unwrap();
        let device = house.kernel.attach_loop(&image, false).unwrap();
        assert_eq!(tool("blockdev", &["--getss", path_of(&device)]), "4096");
        house.kernel.copy_image(&image, &world.base().join("copy"), &[world.base()]).unwrap_err();
        house.kernel.detach_loop(&image).unwrap();
        house.kernel.copy_image(&image, &world.base().join("copy"), &[world.base()]).unwrap();
        let copy = house.kernel.attach_loop(&house.open(&world.base().join("copy")), false).unwrap();
        assert_eq!(tool("blockdev", &["--getss", path_of(&copy)]), "4096");
    });
}

#[test]
fn sectors_that_are_too_large_are_reported_with_the_way_out() {
    real(|world| {
        let house = House::new(world);
        for fs_type in ["ext4", "xfs"] {
            let (image, device) = house.disk(fs_type, 320 * MIB);
            let options = match fs_type {
                "ext4" => FormatOptions { block_size: Some(1024), ..FormatOptions::default() },
                _ => FormatOptions::default(),
            };
            house.kernel.format(&device, fs_type, &options).unwrap();
            house.kernel.detach_loop(&image).unwrap();
            // As an earlier version left it.
            let file = world.base().join(fs_type);
            let stale = tool("losetup", &["-f", "--show", "-b", "4096", file.to_str().unwrap()]);
            let used = std::fs::File::open(&stale).unwrap();
            let device = house.kernel.attach_loop(&image, false).unwrap();
            assert_eq!(path_of(&device), stale, "it stays while it is in use");
            drop(used);
            let error = house.kernel.mount_filesystem(&device, fs_type, &[], false).unwrap_err();
            let KernelError::Device(DeviceError::SectorsTooLarge { sector: 4096, wanted: 512, .. }) = &error else {
                panic!("{error:?}")
            };
            assert!(error.to_string().contains(&format!("losetup --detach {stale}")), "{error}");
            // It needs no person where it is attached again.
            let device = house.kernel.attach_loop(&image, false).unwrap();
            assert_eq!(tool("blockdev", &["--getss", path_of(&device)]), "512");
            drop(house.kernel.mount_filesystem(&device, fs_type, &[], false).unwrap());
            house.kernel.detach_loop(&image).unwrap();
        }
    });
}

#[test]
fn a_device_that_is_taken_while_it_is_checked_is_busy_and_not_damaged() {
    real(|world| {
        let house = House::new(world);
        let (_image, device) = house.disk("disk", 16 * MIB);
        house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
        let path = path_of(&device).to_owned();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let over = || is_over.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            // As every look whether it is used takes it, again and again.
            scope.spawn(|| {
                let excl = nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_EXCL;
                while !over() {
                    drop(nix::fcntl::open(path.as_str(), excl, Mode::empty()));
                }
            });
            let checks: Vec<_> = (0..20).map(|_| house.kernel.check(&device, "ext4")).collect();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            for check in checks {
                match check {
                    Ok(outcome) => assert_eq!(outcome, CheckOutcome::Clean),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
                }
            }
        });
        assert_eq!(house.kernel.check(&device, "ext4").unwrap(), CheckOutcome::Clean);
    });
}

#[test]
fn a_second_pod_gets_a_device_that_the_first_has_for_itself() {
    real(|world| {
        let house = House::new(world);
        let (_image, device) = house.disk("disk", 16 * MIB);
        house.kernel.map_device(&device, &house.root, name("a")).unwrap();
        house.kernel.pin_device(&house.root, name("a")).unwrap();
        // As a database opens it.
        let excl = nix::fcntl::OFlag::O_RDWR | nix::fcntl::OFlag::O_EXCL;
        let opened = nix::fcntl::open(device.path(), excl, Mode::empty()).unwrap();
        house.kernel.map_device(&device, &house.root, name("b")).unwrap();
        house.kernel.pin_device(&house.root, name("b")).unwrap();
        drop(opened);
        for place in ["a", "b"] {
            house.kernel.unpin_device(&house.root, name(place)).unwrap();
            house.kernel.detach(&house.root, name(place), Detach::Normal).unwrap();
        }
    });
}
