use std::path::Path;

use volhost_kernel::{
    BlockDevice, CheckOutcome, Contents, Detach, DeviceError, ErrorKind, FilesystemError, FormatOptions, FsOption,
    KernelError,
};

use super::{House, MIB, World, name};

/// Every type, with a size that its mkfs takes.
const TYPES: [(&str, u64); 3] = [("ext4", 16 * MIB), ("xfs", 320 * MIB), ("btrfs", 128 * MIB)];

fn fs_type_of(house: &House<'_>, device: &BlockDevice) -> String {
    match house.kernel.probe(device).unwrap() {
        Contents::Filesystem { fs_type, .. } => fs_type,
        other => panic!("{other:?}"),
    }
}

fn mount(house: &House<'_>, device: &BlockDevice, fs_type: &str, target: &str) {
    house.attach(house.kernel.mount_filesystem(device, fs_type, &[], false).unwrap(), target);
}

pub fn a_blank_device_is_formatted_and_never_again(world: &dyn World) {
    let house = House::new(world);
    for (fs_type, bytes) in TYPES {
        let (image, device) = house.disk(fs_type, bytes);
        assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Blank);
        house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap();
        assert_eq!(fs_type_of(&house, &device), fs_type);
        mount(&house, &device, fs_type, "volume");
        world.write(&house.at("volume/file"), b"precious").unwrap();
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();

        for again in ["ext4", "xfs", "btrfs"] {
            let error = house.kernel.format(&device, again, &FormatOptions::default()).unwrap_err();
            assert!(matches!(error, KernelError::Filesystem(FilesystemError::NotBlank { .. })), "{error:?}");
            assert!(error.to_string().contains(fs_type), "{error}");
        }
        house.kernel.detach_loop(&image).unwrap();
        let device = house.kernel.attach_loop(&image, false).unwrap();
        let checked = house.kernel.check(&device, fs_type).unwrap();
        assert_eq!(checked, if fs_type == "ext4" { CheckOutcome::Clean } else { CheckOutcome::AtMount });
        mount(&house, &device, fs_type, "volume");
        assert_eq!(world.read(&house.at("volume/file")).unwrap(), b"precious");
        let found = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
        assert_eq!((found.fs_type.as_str(), Path::new(&found.source)), (fs_type, device.path()));
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    }
}

pub fn a_mounted_file_system_grows_with_its_device(world: &dyn World) {
    let house = House::new(world);
    for (fs_type, bytes) in TYPES {
        let (image, device) = house.disk(fs_type, bytes);
        house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap();
        mount(&house, &device, fs_type, "volume");
        world.write(&house.at("volume/file"), b"kept").unwrap();
        let folder = || house.kernel.walk(&house.root, Path::new("volume")).unwrap();
        let before = house.kernel.grow_filesystem(&device, &folder()).unwrap();
        assert!(before <= bytes && before > bytes / 2, "{fs_type}: {before}");
        assert!(!house.kernel.needs_grow(&device, &folder()).unwrap(), "{fs_type}");

        house.kernel.set_file_size(&image, 2 * bytes).unwrap();
        house.kernel.refresh_loop_size(&device).unwrap();
        assert!(house.kernel.needs_grow(&device, &folder()).unwrap(), "{fs_type}");
        if fs_type == "ext4" && !world.grows_mounted_ext() {
            let error = house.kernel.grow_filesystem(&device, &folder()).unwrap_err();
            assert!(error.to_string().contains("CAP_SYS_RESOURCE"), "{error}");
            house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
            continue;
        }
        let after = house.kernel.grow_filesystem(&device, &folder()).unwrap();
        assert!(after > before + bytes / 2 && after <= 2 * bytes, "{fs_type}: {before} {after}");
        assert!(!house.kernel.needs_grow(&device, &folder()).unwrap(), "{fs_type}");
        assert_eq!(house.kernel.grow_filesystem(&device, &folder()).unwrap(), after);
        assert_eq!(world.read(&house.at("volume/file")).unwrap(), b"kept");
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    }
}

pub fn an_ext_file_system_grows_before_it_is_mounted(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("disk", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    mount(&house, &device, "ext4", "volume");
    world.write(&house.at("volume/file"), b"kept").unwrap();
    house.kernel.set_file_size(&image, 64 * MIB).unwrap();
    house.kernel.refresh_loop_size(&device).unwrap();
    let error = house.kernel.grow_unmounted(&device, "ext4").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    for _ in 0..2 {
        assert_eq!(house.kernel.grow_unmounted(&device, "ext4").unwrap(), Some(64 * MIB));
    }
    mount(&house, &device, "ext4", "volume");
    let folder = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
    assert!(!house.kernel.needs_grow(&device, &folder).unwrap());
    assert_eq!(world.read(&house.at("volume/file")).unwrap(), b"kept");
    drop(folder);
    assert_eq!(house.kernel.grow_unmounted(&device, "xfs").unwrap(), None, "those grow only while mounted");
}

pub fn only_the_devices_own_file_system_grows(world: &dyn World) {
    let house = House::new(world);
    let (_, one) = house.disk("one", 16 * MIB);
    let (image, two) = house.disk("two", 16 * MIB);
    for device in [&one, &two] {
        house.kernel.format(device, "ext4", &FormatOptions::default()).unwrap();
    }
    mount(&house, &one, "ext4", "one");
    house.attach(house.kernel.mount_filesystem(&two, "ext4", &[], true).unwrap(), "two");
    house.kernel.set_file_size(&image, 32 * MIB).unwrap();
    house.kernel.refresh_loop_size(&two).unwrap();
    let folder = |target| house.kernel.walk(&house.root, Path::new(target)).unwrap();
    let error = house.kernel.grow_filesystem(&two, &folder("one")).unwrap_err();
    assert!(
        matches!(&error, KernelError::Device(DeviceError::Other { found, .. }) if *found == one.number()),
        "{error:?}"
    );
    assert!(house.kernel.needs_grow(&two, &house.root).is_err());
    assert!(house.kernel.needs_grow(&two, &folder("two")).unwrap());
    let error = house.kernel.grow_filesystem(&two, &folder("two")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "mounted read-only: {error}");
}

pub fn a_device_in_use_is_neither_formatted_nor_checked(world: &dyn World) {
    let house = House::new(world);
    let (_, device) = house.disk("disk", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    assert!(!house.kernel.device_in_use(&device).unwrap());
    let unseen = house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap();
    assert!(house.kernel.device_in_use(&device).unwrap(), "a detached mount is a use");
    house.attach(unseen, "volume");
    for refused in
        [house.kernel.format(&device, "ext4", &FormatOptions::default()), house.kernel.check(&device, "ext4").map(drop)]
    {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    assert!(!house.kernel.device_in_use(&device).unwrap());
    drop(house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap());
    assert!(!house.kernel.device_in_use(&device).unwrap(), "a dropped mount lets go of the device");
}

pub fn another_type_than_asked_for_is_reported(world: &dyn World) {
    let house = House::new(world);
    let (_, device) = house.disk("disk", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    let error = house.kernel.mount_filesystem(&device, "xfs", &[], false).unwrap_err();
    let KernelError::Filesystem(FilesystemError::Mismatch { found, wanted, .. }) = &error else { panic!("{error:?}") };
    assert_eq!((found.as_str(), wanted.as_str()), ("ext4", "xfs"));
    mount(&house, &device, "ext4", "volume");

    let (_, blank) = house.disk("blank", 16 * MIB);
    let error = house.kernel.mount_filesystem(&blank, "ext4", &[], false).unwrap_err();
    assert!(matches!(error, KernelError::Failed { .. }), "{error:?}");
    for refused in [
        house.kernel.format(&blank, "vfat", &FormatOptions::default()),
        house.kernel.check(&blank, "").map(drop),
        house.kernel.mount_filesystem(&blank, "tmpfs", &[], false).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, KernelError::Filesystem(FilesystemError::Unsupported { .. })), "{error:?}");
    }
    assert_eq!(house.kernel.probe(&blank).unwrap(), Contents::Blank);
}

pub fn options_that_reach_beyond_the_device_are_refused(world: &dyn World) {
    let house = House::new(world);
    let (_, device) = house.disk("disk", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    for bad in [
        FsOption::new("source", "/dev/sda"),
        FsOption::new("journal_path", "/dev/sda"),
        FsOption::new("errors", "panic"),
        FsOption::flag("rw"),
    ] {
        let error = house.kernel.mount_filesystem(&device, "ext4", std::slice::from_ref(&bad), false).unwrap_err();
        assert!(matches!(&error, KernelError::InvalidOption { option, .. } if *option == bad.key), "{error:?}");
    }
    let (_, blank) = house.disk("blank", 16 * MIB);
    for bad in [
        FormatOptions { features: [("journal_dev".to_owned(), true)].into(), ..FormatOptions::default() },
        FormatOptions { features: [("quota,-d".to_owned(), true)].into(), ..FormatOptions::default() },
        FormatOptions { label: Some("a\0b".to_owned()), ..FormatOptions::default() },
        FormatOptions { uuid: Some("/etc/passwd".to_owned()), ..FormatOptions::default() },
        FormatOptions { block_size: Some(7), ..FormatOptions::default() },
    ] {
        let error = house.kernel.format(&blank, "ext4", &bad).unwrap_err();
        assert!(matches!(error, KernelError::InvalidOption { .. }), "{error:?}");
        assert_eq!(house.kernel.probe(&blank).unwrap(), Contents::Blank);
    }
}

pub fn a_device_without_storage_is_not_blank(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("disk", 16 * MIB);
    house.kernel.detach_loop(&image).unwrap();
    let error = house.kernel.probe(&device).unwrap_err();
    assert!(error.to_string().contains("no storage"), "{error}");
    assert!(house.kernel.format(&device, "ext4", &FormatOptions::default()).is_err());
    assert!(house.kernel.mount_filesystem(&device, "ext4", &[], false).is_err());
    assert!(!house.kernel.device_in_use(&device).unwrap());
}

pub fn a_file_system_is_mounted_read_only_on_demand(world: &dyn World) {
    let house = House::new(world);
    let (_, device) = house.disk("disk", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    house.attach(house.kernel.mount_filesystem(&device, "ext4", &[], true).unwrap(), "volume");
    assert!(world.write(&house.at("volume/file"), b"x").is_err());
    assert!(house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap().read_only);
}

pub fn a_label_is_an_option_that_only_a_kernel_with_selinux_takes(world: &dyn World) {
    const LABEL: &str = "system_u:object_r:container_file_t:s0:c1,c2";
    let house = House::new(world);
    let (_, device) = house.disk("labelled", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    let options = [FsOption::new(volhost_kernel::filesystems::LABEL_OPTION, LABEL)];
    let mounted = house.kernel.mount_filesystem(&device, "ext4", &options, false);
    if house.kernel.container_file_label().unwrap().is_some() {
        house.attach(mounted.unwrap(), "volume");
        let found = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
        assert!(found.options.iter().any(|option| option.contains(LABEL)), "{:?}", found.options);
    } else {
        let error = mounted.unwrap_err();
        assert!(matches!(&error, KernelError::UnsupportedOption { option, .. } if option == "context"), "{error:?}");
    }
}

pub fn a_format_has_the_options_that_were_asked_for(world: &dyn World) {
    let house = House::new(world);
    for (fs_type, bytes) in TYPES {
        let (_, device) = house.disk(fs_type, bytes);
        let feature = match fs_type {
            "ext4" => "metadata_csum",
            "xfs" => "reflink",
            _ => "no-holes",
        };
        let options = FormatOptions {
            label: Some("-d/etc".to_owned()),
            uuid: Some("01234567-89ab-4def-8123-456789abcdef".to_owned()),
            block_size: Some(4096),
            features: [(feature.to_owned(), true)].into(),
            keep_room: true,
            ..FormatOptions::default()
        };
        house.kernel.format(&device, fs_type, &options).unwrap();
        let label = options.label;
        assert_eq!(house.kernel.probe(&device).unwrap(), Contents::Filesystem { fs_type: fs_type.to_owned(), label });
        mount(&house, &device, fs_type, "volume");
        assert!(world.list(&house.at("volume")).iter().all(|name| name == "lost+found"), "nothing is copied in");
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    }
}

pub fn what_no_tool_recognises_is_never_formatted_over(world: &dyn World) {
    let house = House::new(world);
    let path = world.base().join("disk");
    world.write(&path, b"the pod's own format").unwrap();
    let (_, device) = house.disk("disk", 16 * MIB);
    let found = house.kernel.probe(&device).unwrap();
    assert!(matches!(&found, Contents::Other(what) if what.contains("no tool recognises")), "{found:?}");
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let error = house.kernel.format(&device, fs_type, &FormatOptions::default()).unwrap_err();
        assert!(matches!(error, KernelError::Filesystem(FilesystemError::NotBlank { .. })), "{error:?}");
        assert!(error.to_string().contains("blkdiscard --force --zeroout /dev/loop"), "the way out: {error}");
    }
    for error in [
        house.kernel.check(&device, "ext4").unwrap_err(),
        house.kernel.mount_filesystem(&device, "ext4", &[], false).unwrap_err(),
    ] {
        assert!(matches!(error, KernelError::Filesystem(FilesystemError::Missing { .. })), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("blkdiscard --force --zeroout /dev/loop"), "the way out: {error}");
    }
    assert!(world.read(&path).unwrap().starts_with(b"the pod's own format"));
}
