use volhost_kernel::{Detach, DeviceError, Entry, ErrorKind, FormatOptions, KernelError, SourceKind};

use super::{House, MIB, World, name};

pub fn a_mapped_device_is_the_device(world: &dyn World) {
    let house = House::new(world);
    let (_, device) = house.disk("disk", 4 * MIB);
    assert_eq!(house.kernel.mapped_device(&house.root, name("block")).unwrap(), None);
    for _ in 0..2 {
        house.kernel.map_device(&device, &house.root, name("block")).unwrap();
        assert_eq!(house.kernel.mapped_device(&house.root, name("block")).unwrap(), Some(device.number()));
        assert!(house.is_mount("block"));
    }
    assert_eq!(house.kernel.mounts_below(&house.root).unwrap().len(), 1, "once");
    let through = house.kernel.open_block_device(&house.at("block")).unwrap();
    assert_eq!((through.number(), house.kernel.device_size(&through).unwrap()), (device.number(), 4 * MIB));
    let granted = house.kernel.block_device_of(&house.open(&house.at("block"))).unwrap();
    assert_eq!(granted.number(), device.number());
    drop((through, granted));
    house.kernel.detach(&house.root, name("block"), Detach::Normal).unwrap();
    assert_eq!(house.entry("block"), Entry::Absent);
}

pub fn a_mapping_is_never_taken_for_another_device(world: &dyn World) {
    let house = House::new(world);
    let (_, one) = house.disk("one", MIB);
    let (_, two) = house.disk("two", MIB);
    house.kernel.map_device(&one, &house.root, name("block")).unwrap();
    let error = house.kernel.map_device(&two, &house.root, name("block")).unwrap_err();
    assert!(
        matches!(&error, KernelError::Device(DeviceError::Other { found, .. }) if *found == one.number()),
        "{error:?}"
    );
    assert_eq!(house.kernel.mapped_device(&house.root, name("block")).unwrap(), Some(one.number()));

    house.attach(house.kernel.tmpfs(&[]).unwrap(), "mount");
    world.write(&house.at("file"), b"data").unwrap();
    for (target, kind) in [("mount", ErrorKind::Conflict), ("file", ErrorKind::Conflict)] {
        assert_eq!(house.kernel.mapped_device(&house.root, name(target)).unwrap(), None);
        let error = house.kernel.map_device(&one, &house.root, name(target)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert_eq!(world.read(&house.at("file")).unwrap(), b"data");
}

pub fn a_link_leads_to_the_device_and_is_replaced_whole(world: &dyn World) {
    let house = House::new(world);
    let (_, one) = house.disk("one", MIB);
    let (_, two) = house.disk("two", MIB);
    assert_eq!(house.kernel.linked_device(&house.root, name("link")).unwrap(), None);
    for device in [&one, &one, &two] {
        house.kernel.link_device(device, &house.root, name("link")).unwrap();
        assert_eq!(house.kernel.linked_device(&house.root, name("link")).unwrap().as_deref(), Some(device.path()));
    }
    assert_eq!(world.list(&house.path), ["link"]);
    house.kernel.remove_file(&house.root, name("link")).unwrap();
    assert_eq!(house.entry("link"), Entry::Absent);

    world.write(&house.at("file"), b"data").unwrap();
    world.add_folder(&house.at("folder"));
    for target in ["file", "folder"] {
        let error = house.kernel.link_device(&one, &house.root, name(target)).unwrap_err();
        assert!(matches!(error, KernelError::WrongType { .. }), "{error:?}");
    }
    assert_eq!(world.read(&house.at("file")).unwrap(), b"data");
}

pub fn a_pinned_device_can_not_go(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("disk", 4 * MIB);
    house.kernel.map_device(&device, &house.root, name("a")).unwrap();
    house.kernel.map_device(&device, &house.root, name("b")).unwrap();
    let pin = house.kernel.pin_device(&house.root, name("a")).unwrap();
    assert_eq!(house.kernel.pin_device(&house.root, name("a")).unwrap().number(), pin.number(), "one pin a mapping");
    let second = house.kernel.pin_device(&house.root, name("b")).unwrap();
    assert_ne!(second.number(), pin.number(), "another mapping has a pin of its own");
    assert_eq!(house.kernel.device_size(&pin).unwrap(), 4 * MIB);
    assert!(house.kernel.device_read_only(&pin).unwrap(), "a pin cannot be written");
    assert!(!house.kernel.device_in_use(&device).unwrap(), "a pin leaves the device to its users");

    house.kernel.unpin_device(&house.root, name("b")).unwrap();
    house.kernel.detach(&house.root, name("b"), Detach::Normal).unwrap();
    for refused in [house.kernel.detach(&house.root, name("a"), Detach::Normal), house.kernel.detach_loop(&image)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    }
    for _ in 0..2 {
        house.kernel.unpin_device(&house.root, name("a")).unwrap();
    }
    house.kernel.detach(&house.root, name("a"), Detach::Normal).unwrap();
    house.kernel.unpin_device(&house.root, name("a")).unwrap();
    house.kernel.detach_loop(&image).unwrap();
    assert!(house.kernel.find_loop(&image).unwrap().is_none());
    let error = house.kernel.pin_device(&house.root, name("a")).unwrap_err();
    assert!(matches!(error, KernelError::Device(DeviceError::NotMapped { .. })), "{error:?}");
}

pub fn what_is_no_block_device_is_refused(world: &dyn World) {
    let house = House::new(world);
    let folder = house.outside("folder");
    for path in [folder.clone(), folder.join("data")] {
        let error = house.kernel.open_block_device(&path).unwrap_err();
        assert!(matches!(error, KernelError::WrongType { .. }), "{error:?}");
    }
    let error = house.kernel.open_block_device(&folder.join("absent")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(house.kernel.open_block_device("dev/loop0".as_ref()).is_err());
    let node = world.base().join("node");
    world.add_node(&node, SourceKind::BlockDevice);
    let device = house.kernel.open_block_device(&node).unwrap();
    let error = house.kernel.device_size(&device).unwrap_err();
    assert!(matches!(error, KernelError::Device(DeviceError::Gone { .. })), "a node with nothing behind it: {error:?}");
}

pub fn a_device_that_a_driver_shows_is_opened(world: &dyn World) {
    let house = House::new(world);
    let (_image, disk) = house.disk("image", MIB);
    assert!(house.kernel.device_at(&house.root, name("shown")).unwrap().is_none());
    house.kernel.map_device(&disk, &house.root, name("shown")).unwrap();
    let shown = house.kernel.device_at(&house.root, name("shown")).unwrap().unwrap();
    assert_eq!(shown.number(), disk.number());
    assert_eq!(house.kernel.device_size(&shown).unwrap(), MIB);
    drop(shown);
    house.kernel.clear_place(&house.root, name("shown")).unwrap();
    world.add_symlink(&house.at("link"), disk.path());
    assert!(matches!(house.kernel.device_at(&house.root, name("link")), Err(KernelError::SymbolicLink { .. })));
    world.write(&house.at("file"), b"").unwrap();
    assert!(matches!(house.kernel.device_at(&house.root, name("file")), Err(KernelError::WrongType { .. })));
}

pub fn a_volume_is_a_device_or_a_file_system_and_not_both(world: &dyn World) {
    let house = House::new(world);
    let (_image, device) = house.disk("disk", 16 * MIB);
    let none = FormatOptions::default();
    let mount = || house.kernel.mount_filesystem(&device, "ext4", &[], false);
    let show = || {
        house.kernel.map_device(&device, &house.root, name("block"))?;
        house.kernel.pin_device(&house.root, name("block"))
    };
    let hide = || {
        house.kernel.unpin_device(&house.root, name("block")).unwrap();
        house.kernel.detach(&house.root, name("block"), Detach::Normal).unwrap();
    };
    let refused = |error: KernelError| {
        assert!(
            matches!(
                error,
                KernelError::Device(DeviceError::Shown { .. }) | KernelError::Device(DeviceError::Mounted { .. })
            ),
            "{error:?}"
        );
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.to_string().contains("as a device or as a file system"), "{error}");
    };
    // By another path, as a second PersistentVolume would name it.
    let same = house.kernel.open_block_device(device.path()).unwrap();
    show().unwrap();
    refused(house.kernel.format(&same, "ext4", &none).unwrap_err());
    hide();
    house.kernel.format(&same, "ext4", &none).unwrap();
    show().unwrap();
    refused(house.kernel.mount_filesystem(&same, "ext4", &[], true).unwrap_err());
    refused(house.kernel.check(&same, "ext4").unwrap_err());
    refused(house.kernel.grow_unmounted(&same, "ext4").unwrap_err());
    hide();
    house.attach(mount().unwrap(), "volume");
    refused(show().unwrap_err());
    // The node's mount of a volume may be made again while a pod has its own.
    drop(mount().unwrap());
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();

    // It was mapped before it was mounted, and is pinned after.
    house.kernel.map_device(&device, &house.root, name("block")).unwrap();
    house.attach(mount().unwrap(), "volume");
    refused(house.kernel.pin_device(&house.root, name("block")).unwrap_err());
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    show().unwrap();
    hide();
}
