use volhost_kernel::{Detach, DeviceError, ErrorKind, FormatOptions, FsOption, KernelError};

use super::{House, MIB, World, name};

/// How often a device is detached until no other process has taken its node before the test looks.
const ATTEMPTS: usize = 20;

pub fn a_file_has_one_loop_device_however_often_it_is_asked_for(world: &dyn World) {
    let house = House::new(world);
    let image = house.image("disk", 8 * MIB);
    assert!(house.kernel.find_loop(&image).unwrap().is_none());
    let device = house.kernel.attach_loop(&image, false).unwrap();
    assert_eq!(house.kernel.device_size(&device).unwrap(), 8 * MIB);
    assert!(!house.kernel.device_read_only(&device).unwrap());

    // By another path, as a host that was started anew would.
    let link = world.base().join("link");
    world.add_symlink(&link, &world.base().join("disk"));
    let found = house.kernel.find_loop(&house.open(&link)).unwrap().unwrap();
    assert_eq!((found.number(), found.path()), (device.number(), device.path()));
    let again = house.kernel.attach_loop(&house.open(&link), false).unwrap();
    assert_eq!(again.number(), device.number());
    let other = house.kernel.attach_loop(&house.image("other", MIB), false).unwrap();
    assert_ne!(other.number(), device.number());

    house.kernel.detach_loop(&image).unwrap();
    assert!(house.kernel.find_loop(&image).unwrap().is_none());
    house.kernel.detach_loop(&image).unwrap();

    let is_empty_after_detach = || {
        let device = house.kernel.attach_loop(&image, false).unwrap();
        house.kernel.detach_loop(&image).unwrap();
        house.kernel.device_size(&device).unwrap() == 0
    };
    // Another process may attach the free node at once.
    assert!((0..ATTEMPTS).any(|_| is_empty_after_detach()), "the node stays and has no storage");
}

pub fn a_used_loop_device_is_busy_and_stays(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("disk", 8 * MIB);
    let hold = world.hold(device.path());
    for _ in 0..2 {
        let error = house.kernel.detach_loop(&image).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("disk"), "{error}");
    }
    drop(hold);
    assert_eq!(house.kernel.device_size(&device).unwrap(), 8 * MIB, "it did not go with its user");

    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap(), "volume");
    let error = house.kernel.detach_loop(&image).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    world.write(&house.at("volume/file"), b"x").unwrap();
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    house.kernel.detach_loop(&image).unwrap();
}

pub fn an_image_is_private_and_only_grows(world: &dyn World) {
    let house = House::new(world);
    let path = world.base().join("disk");
    let image = house.image("disk", 4 * MIB);
    assert_eq!(world.mode_and_group(&path).0, 0o600);
    let device = house.kernel.attach_loop(&image, false).unwrap();
    assert_eq!(house.kernel.set_file_size(&image, MIB).unwrap(), 4 * MIB);
    assert_eq!(house.kernel.set_file_size(&image, 6 * MIB).unwrap(), 6 * MIB);
    assert_eq!(house.kernel.device_size(&device).unwrap(), 4 * MIB);
    house.kernel.refresh_loop_size(&device).unwrap();
    assert_eq!(house.kernel.device_size(&device).unwrap(), 6 * MIB);
    house.image("disk", 2 * MIB);
    assert_eq!(house.kernel.set_file_size(&image, 0).unwrap(), 6 * MIB, "an image that exists is not cut");

    let huge = world.base().join("huge");
    assert!(house.kernel.create_image(&huge, &[world.base()], u64::MAX).is_err());
    assert!(!world.exists(&huge), "an image that can't be is not half made");
    assert!(house.kernel.create_image(&path, &[world.base()], u64::MAX).is_err());
    assert_eq!(house.kernel.set_file_size(&image, 0).unwrap(), 6 * MIB, "what was there stays");

    let elsewhere = house.path.join("pods");
    let error = house.kernel.create_image(&path, &[elsewhere], MIB).unwrap_err();
    assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
}

pub fn a_read_only_loop_device_is_never_written(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("disk", 8 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    house.kernel.detach_loop(&image).unwrap();

    let device = house.kernel.attach_loop(&image, true).unwrap();
    assert!(house.kernel.device_read_only(&device).unwrap());
    for refused in [
        house.kernel.attach_loop(&image, false).map(drop),
        house.kernel.format(&device, "ext4", &FormatOptions::default()),
        house.kernel.check(&device, "ext4").map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, KernelError::Device(DeviceError::ReadOnly { .. })), "{error:?}");
    }
    let error = house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let noload = [FsOption::flag("noload")];
    house.attach(house.kernel.mount_filesystem(&device, "ext4", &noload, true).unwrap(), "volume");
    assert!(world.write(&house.at("volume/file"), b"x").is_err());
}

pub fn only_files_become_loop_devices(world: &dyn World) {
    let house = House::new(world);
    let folder = house.open(&house.outside("folder"));
    for refused in [
        house.kernel.attach_loop(&folder, false).map(drop),
        house.kernel.find_loop(&folder).map(drop),
        house.kernel.detach_loop(&folder),
        house.kernel.set_file_size(&folder, 1).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, KernelError::WrongType { expected: "file", .. }), "{error:?}");
    }
}

pub fn a_device_that_is_found_has_its_files_size(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("disk", 4 * MIB);
    house.kernel.set_file_size(&image, 8 * MIB).unwrap();
    // As after a crash between the two.
    assert_eq!(house.kernel.device_size(&device).unwrap(), 4 * MIB);
    let found = house.kernel.attach_loop(&image, false).unwrap();
    assert_eq!((found.number(), house.kernel.device_size(&found).unwrap()), (device.number(), 8 * MIB));
}

pub fn the_device_of_a_file_that_was_removed_is_found_and_taken_away(world: &dyn World) {
    let house = House::new(world);
    let path = world.base().join("disk");
    let roots = [world.base()];
    let (_, device) = house.disk("disk", 8 * MIB);
    house.kernel.detach_removed_loops(&path, &roots).unwrap();
    assert_eq!(house.kernel.device_size(&device).unwrap(), 8 * MIB, "the file is there");

    let hold = world.hold(device.path());
    world.remove(&path);
    let error = house.kernel.detach_removed_loops(&path, &roots).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(hold);

    // Another file in its place, and one whose name is what the kernel shows of a removed file.
    let (image, other) = house.disk("disk", 4 * MIB);
    let (shown, third) = house.disk("disk (deleted)", 2 * MIB);
    let elsewhere = house.path.join("pods");
    let error = house.kernel.detach_removed_loops(&path, &[elsewhere]).unwrap_err();
    assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
    assert_eq!(house.kernel.device_size(&device).unwrap(), 8 * MIB);
    house.kernel.detach_removed_loops(&path, &roots).unwrap();
    assert_ne!(house.kernel.device_size(&device).ok(), Some(8 * MIB), "it is taken away");
    assert_eq!(house.kernel.find_loop(&image).unwrap().unwrap().number(), other.number());
    assert_eq!(house.kernel.find_loop(&shown).unwrap().unwrap().number(), third.number());
    house.kernel.detach_removed_loops(&path, &roots).unwrap();
}
