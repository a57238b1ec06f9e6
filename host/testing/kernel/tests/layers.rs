//! Overlays and image files as only a real kernel has them: tops that are used again, file systems
//! that take no top, images that other programs made and another process damaged, replaced or
//! removed. Needs root, e2fsprogs, erofs-utils and squashfs-tools.
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

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use real::{RealWorld, assert_no_loop_over, in_namespace, loops_over, run_program};
use suite::House;
use volhost_kernel::{Detach, ErrorKind, FsOption, ImageError, KernelError, MountSource};
use volhost_process::linux_kernel;

fn real(case: impl FnOnce(&RealWorld) + Send + 'static) {
    in_namespace(linux_kernel(), case);
}

/// Both ways to name layers to the kernel.
fn both(case: fn(&RealWorld)) {
    in_namespace(linux_kernel(), case);
    in_namespace(linux_kernel().with_mountinfo(), case);
}

fn tool(program: &str, arguments: &[&str]) {
    let (success, _, complaints) = run_program(program, arguments);
    assert!(success, "{program} {arguments:?}: {complaints}");
}

fn folder(house: &House<'_>, name: &str) -> MountSource {
    let path = house.world.base().join(name);
    house.world.add_folder(&path);
    house.open(&path)
}

fn base(house: &House<'_>) -> MountSource {
    house.open(&house.outside("base"))
}

fn detach(house: &House<'_>, name: &str) {
    house.kernel.detach(&house.root, name.as_ref(), Detach::Normal).unwrap();
}

#[test]
fn what_was_written_is_there_again_over_the_same_top() {
    both(|world| {
        let house = House::new(world);
        let (base, top) = (base(&house), folder(&house, "top"));
        for round in 0..3 {
            let mount = house.kernel.overlay(&[&base], Some(&top), &[FsOption::new("metacopy", "on")]).unwrap();
            house.attach(mount, "volume");
            let kept = house.at("volume/kept");
            if round > 0 {
                assert_eq!(fs::read(&kept).unwrap(), b"kept");
            }
            fs::write(&kept, "kept").unwrap();
            assert!(!house.world.base().join("base/kept").exists());
            detach(&house, "volume");
        }
    });
}

#[test]
fn a_change_of_owner_copies_no_content() {
    both(|world| {
        let house = House::new(world);
        let (base, top) = (base(&house), folder(&house, "top"));
        let large = house.world.base().join("base/large");
        fs::write(&large, vec![7; 8 << 20]).unwrap();
        let mount = house.kernel.overlay(&[&base], Some(&top), &[FsOption::new("metacopy", "on")]).unwrap();
        house.attach(mount, "volume");
        std::os::unix::fs::chown(house.at("volume/large"), Some(7), Some(8)).unwrap();
        let upper = fs::metadata(house.world.base().join("top/upper/large")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::blocks(&upper), 0);
        assert_eq!(fs::read(house.at("volume/large")).unwrap(), vec![7; 8 << 20]);
    });
}

#[test]
fn a_top_has_one_overlay_and_one_base_when_that_is_asked_for() {
    both(|world| {
        let house = House::new(world);
        let (base, top) = (base(&house), folder(&house, "top"));
        let indexed = [FsOption::new("index", "on")];
        house.attach(house.kernel.overlay(&[&base], Some(&top), &indexed).unwrap(), "volume");
        let error = house.kernel.overlay(&[&base], Some(&top), &indexed).unwrap_err();
        assert!(error.kind() == ErrorKind::Busy && error.to_string().contains("another overlay"), "{error}");
        detach(&house, "volume");
        let other = folder(&house, "other");
        let error = house.kernel.overlay(&[&other], Some(&top), &indexed).unwrap_err();
        assert!(error.to_string().contains("made over other folders"), "{error}");
    });
}

#[test]
fn a_top_that_its_file_system_can_not_take_is_reported() {
    both(|world| {
        let house = House::new(world);
        let (base, top) = (base(&house), folder(&house, "top"));
        house.attach(house.kernel.overlay(&[&base], Some(&top), &[]).unwrap(), "volume");
        fs::create_dir(house.at("volume/inner")).unwrap();
        let stacked = house.open(&house.at("volume/inner"));
        let error = house.kernel.overlay(&[&folder(&house, "lower")], Some(&stacked), &[]).unwrap_err();
        assert!(matches!(error, KernelError::LayersRefused { .. }), "{error}");
        assert!(error.to_string().contains("use a top on ext4"), "{error}");
        let read_only = house.bind(&house.world.base().join("top"));
        house.kernel.set_options(&read_only, &["ro"], false).unwrap();
        house.attach(read_only, "ro");
        fs::create_dir(house.world.base().join("top/fresh")).unwrap();
        let error = house.kernel.overlay(&[&base], Some(&house.open(&house.at("ro/fresh"))), &[]).unwrap_err();
        assert!(error.to_string().contains("read-only"), "{error}");
    });
}

#[test]
fn a_top_that_lies_in_a_lower_is_refused() {
    both(|world| {
        let house = House::new(world);
        let base = base(&house);
        fs::create_dir_all(house.world.base().join("base/deep/top")).unwrap();
        let inside = house.open(&house.world.base().join("base/deep/top"));
        let whole = house.open(&house.world.base());
        for (lower, top) in [(&base, &inside), (&whole, &inside), (&whole, &base)] {
            let error = house.kernel.overlay(&[lower], Some(top), &[]).unwrap_err();
            assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("lies in another"), "{error}");
        }
        assert_eq!(house.world.list(&house.world.base().join("base/deep/top")), Vec::<std::ffi::OsString>::new());
    });
}

#[test]
fn what_a_crash_left_of_a_top_does_not_block() {
    real(|world| {
        let house = House::new(world);
        let (base, top) = (base(&house), folder(&house, "top"));
        let path = house.world.base().join("top");
        fs::create_dir(path.join("work")).unwrap();
        fs::create_dir(path.join("upper.new")).unwrap();
        std::os::unix::fs::chown(path.join("upper.new"), Some(9), Some(9)).unwrap();
        house.kernel.overlay(&[&base], Some(&top), &[]).unwrap();
        assert_eq!(house.world.list(&path), ["upper", "work"]);
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(path.join("upper")).unwrap()), 0);
    });
}

#[test]
fn links_in_the_place_of_a_tops_folders_are_not_followed() {
    real(|world| {
        let house = House::new(world);
        let base = base(&house);
        let away = house.outside("away");
        for name in ["upper", "work"] {
            let top = folder(&house, &format!("top-{name}"));
            house.world.add_symlink(&house.world.base().join(format!("top-{name}")).join(name), &away);
            let error = house.kernel.overlay(&[&base], Some(&top), &[]).unwrap_err();
            assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error}");
        }
        assert_eq!(house.world.list(&away), ["data"]);
    });
}

/// A folder with a few files, packed by the type's own tool.
fn packed(house: &House<'_>, fs_type: &str) -> PathBuf {
    house.world.claim_devices();
    let content = house.outside("content");
    // Random enough not to be packed away, so that a cut image lacks something.
    let noise: Vec<u8> = (0..1_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(content.join("noise"), noise).unwrap();
    let image = house.world.base().join(format!("image.{fs_type}"));
    let (from, to) = (content.to_str().unwrap(), image.to_str().unwrap());
    match fs_type {
        "erofs" => tool("mkfs.erofs", &[to, from]),
        "squashfs" => tool("mksquashfs", &[from, to, "-quiet", "-no-progress"]),
        _ => tool("mkfs.ext4", &["-q", "-d", from, to, "16M"]),
    }
    image
}

#[test]
fn images_of_every_type_are_shown_and_leave_no_loop_device() {
    for fs_type in ["erofs", "squashfs", "ext4"] {
        real(move |world| {
            let house = House::new(world);
            let image = packed(&house, fs_type);
            house.attach(house.kernel.mount_image(&house.open(&image), fs_type, &[]).unwrap(), "volume");
            assert_eq!(fs::read(house.at("volume/data")).unwrap(), b"precious");
            assert_eq!(loops_over(&house.world.base()).len(), 1);
            detach(&house, "volume");
            assert_no_loop_over(&house.world.base());
        });
    }
}

#[test]
fn a_replaced_or_removed_image_stays_what_it_was_where_it_is_mounted() {
    real(|world| {
        let house = House::new(world);
        let image = packed(&house, "squashfs");
        house.attach(house.kernel.mount_image(&house.open(&image), "squashfs", &[]).unwrap(), "old");
        fs::write(house.world.base().join("content/data"), "newer").unwrap();
        let next = image.with_extension("next");
        let content = house.world.base().join("content");
        tool("mksquashfs", &[content.to_str().unwrap(), next.to_str().unwrap(), "-quiet", "-no-progress"]);
        fs::rename(&next, &image).unwrap();
        house.attach(house.kernel.mount_image(&house.open(&image), "squashfs", &[]).unwrap(), "new");
        fs::remove_file(&image).unwrap();
        assert_eq!(fs::read(house.at("old/data")).unwrap(), b"precious");
        assert_eq!(fs::read(house.at("new/data")).unwrap(), b"newer");
        detach(&house, "old");
        detach(&house, "new");
        assert_no_loop_over(&house.world.base());
    });
}

#[test]
fn a_damaged_or_cut_image_is_reported_and_leaves_nothing() {
    for fs_type in ["erofs", "squashfs", "ext4"] {
        real(move |world| {
            let house = House::new(world);
            let image = packed(&house, fs_type);
            let whole = fs::metadata(&image).unwrap().len();
            let refused = |what: &str| {
                let error = house.kernel.mount_image(&house.open(&image), fs_type, &[]).unwrap_err();
                let matched = matches!(
                    error,
                    KernelError::Image(ImageError::Damaged { .. })
                        | KernelError::Image(ImageError::CutShort { .. })
                        | KernelError::Image(ImageError::Mismatch { .. })
                );
                assert!(matched && error.to_string().contains("image."), "{fs_type} {what}: {error:?}");
                assert_no_loop_over(&house.world.base());
            };
            fs::File::options().write(true).open(&image).unwrap().set_len(whole / 2).unwrap();
            refused("cut short");
            fs::File::options().write(true).open(&image).unwrap().set_len(100).unwrap();
            refused("cut to less than a sector");
            fs::File::options().write(true).open(&image).unwrap().set_len(0).unwrap();
            refused("empty");
            fs::remove_file(&image).unwrap();
            fs::remove_dir_all(house.world.base().join("content")).unwrap();
            let image = packed(&house, fs_type);
            // The superblock, past what marks the type.
            let place = if fs_type == "squashfs" { 16 } else { 1024 + 24 };
            fs::File::options().write(true).open(&image).unwrap().write_all_at(&[0xff; 40], place).unwrap();
            refused("its superblock overwritten");
        });
    }
}
