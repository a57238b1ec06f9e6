//! What a format leaves that ended with the machine, or with its program and who started it: it is
//! formatted again. What anybody else wrote is not.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use rustix::fs::XattrFlags;
use volhost_kernel::{
    BlockDevice, CheckOutcome, Contents, Detach, ErrorKind, FilesystemError, FormatOptions, KernelError,
};
use volhost_process::Program;

use crate::real::{RealWorld, run_program};
use crate::suite::{House, MIB, World, name};
use crate::{partition_table, path_of, real, tool, used_ext4};

const ATTRIBUTE: &str = "trusted.volhost.format";

/// Marks an image as one in which a format began so many seconds ago.
fn mark(world: &RealWorld, image: &str, seconds_ago: u64) {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let begun = (now - seconds_ago).to_string();
    rustix::fs::setxattr(world.base().join(image), ATTRIBUTE, begun.as_bytes(), XattrFlags::empty()).unwrap();
}

fn is_marked(world: &RealWorld, image: &str) -> bool {
    let mut value = [0; 32];
    rustix::fs::getxattr(world.base().join(image), ATTRIBUTE, &mut value).is_ok()
}

/// Writes as a mkfs does that is killed: where no superblock is.
fn write_a_part(device: &BlockDevice) {
    let raw = File::options().write(true).open(device.path()).unwrap();
    raw.write_all_at(b"group descriptors", 2048).unwrap();
    raw.sync_all().unwrap();
}

fn assert_kept(house: &House<'_>, device: &BlockDevice, why: &str) {
    assert_ne!(house.kernel.probe(device).unwrap(), Contents::Blank, "{why}");
    let error = house.kernel.format(device, "ext4", &FormatOptions::default()).unwrap_err();
    assert!(matches!(error, KernelError::Filesystem(FilesystemError::NotBlank { .. })), "{why}: {error:?}");
}

#[test]
fn what_an_unfinished_format_left_is_formatted_again() {
    real(|world| {
        let house = House::new(world);
        for (fs_type, bytes) in [("ext4", 16 * MIB), ("xfs", 320 * MIB), ("btrfs", 128 * MIB)] {
            let (image, device) = house.disk(fs_type, bytes);
            write_a_part(&device);
            mark(world, fs_type, 5);
            assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank, "{fs_type}");
            house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap();
            assert!(matches!(house.kernel.probe(&device).unwrap(), Contents::Filesystem { .. }), "{fs_type}: made");
            house.attach(house.kernel.mount_filesystem(&device, fs_type, &[], false).unwrap(), "volume");
            assert!(!is_marked(world, fs_type), "{fs_type}: it is in use");
            house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
            house.kernel.detach_loop(&image).unwrap();
        }
    });
}

#[test]
fn a_file_system_that_was_never_mounted_is_part_of_an_unfinished_format() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        tool("mkfs.ext4", &["-q", path_of(&device)]);
        assert!(matches!(house.kernel.probe(&device).unwrap(), Contents::Filesystem { .. }), "without the mark");
        mark(world, "disk", 5);
        assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank);
    });
}

#[test]
fn data_that_no_format_left_is_kept_though_the_image_is_marked() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("unmarked", 16 * MIB);
        write_a_part(&device);
        assert_kept(&house, &device, "without the mark");
        // No format takes so long: somebody else wrote.
        mark(world, "unmarked", 3600);
        assert_kept(&house, &device, "written later");

        let (_, device) = house.disk("partitions", 16 * MIB);
        File::options().write(true).open(device.path()).unwrap().write_all_at(&partition_table(), 0).unwrap();
        mark(world, "partitions", 5);
        assert_kept(&house, &device, "no mkfs makes partitions");

        let device = used_ext4(&house);
        mark(world, "disk", 5);
        assert_kept(&house, &device, "it was mounted");
    });
}

#[test]
fn an_unfinished_format_that_another_process_may_still_write_is_left_alone_until_it_ends() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        write_a_part(&device);
        mark(world, "disk", 5);
        // As a mkfs that outlived who started it.
        let script = format!("exec 3<{}; echo open; read line || true", path_of(&device));
        let mut writer = Program::new("/bin/sh").with_arguments(["-c", &script]).start().unwrap();
        let mut said = [0; 5];
        std::io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut said).unwrap();
        let by = format!("process {} (sh)", writer.pid());
        let still_open = |error: KernelError| {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert!(error.to_string().contains(&by), "{error}");
        };
        // It is nobody's data: the volume is not refused for good, and the call can be repeated.
        still_open(house.kernel.probe(&device).unwrap_err());
        still_open(house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap_err());
        drop(writer.stdin.take());
        assert!(writer.wait().unwrap().success());
        assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank);
    });
}

#[test]
fn an_image_that_is_used_is_not_marked_any_more() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("block", 16 * MIB);
        mark(world, "block", 5);
        house.kernel.map_device(&device, &house.root, name("device")).unwrap();
        assert!(!is_marked(world, "block"), "a pod has it as a device");
        house.kernel.detach(&house.root, name("device"), Detach::Normal).unwrap();
        write_a_part(&device);
        assert_kept(&house, &device, "the pod wrote it");

        let (_, device) = house.disk("mounted", 16 * MIB);
        tool("mkfs.ext4", &["-q", path_of(&device)]);
        mark(world, "mounted", 5);
        drop(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap());
        assert!(!is_marked(world, "mounted"), "it was mounted");
    });
}

/// A check that was killed would leave half a superblock.
#[test]
fn a_file_system_that_was_just_made_is_not_written_by_a_check() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
        let before = std::fs::read(world.base().join("disk")).unwrap();
        assert_eq!(house.kernel.check(&device, "ext4").unwrap(), CheckOutcome::Clean);
        assert!(std::fs::read(world.base().join("disk")).unwrap() == before);
        house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "volume");
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
        tool("debugfs", &["-w", "-R", "set_super_value state 2", path_of(&device)]);
        assert_eq!(house.kernel.check(&device, "ext4").unwrap(), CheckOutcome::Repaired, "it was mounted");
    });
}

#[test]
fn a_mkfs_that_fails_leaves_no_mark() {
    real(|world| {
        let house = House::new(world);
        let (_, device) = house.disk("disk", 16 * MIB);
        house.kernel.format(&device, "xfs", &FormatOptions::default()).unwrap_err();
        assert!(!is_marked(world, "disk"));
        let (success, _, _) = run_program("blkid", &["-p", path_of(&device)]);
        assert!(!success, "it is blank");
    });
}
