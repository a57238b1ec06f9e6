use volhost_kernel::{ErrorKind, KernelError, SourceKind};

use super::{House, MIB, World};

pub fn a_folder_lists_its_images_and_nothing_else(world: &dyn World) {
    let house = House::new(world);
    let folder = world.base().join("images");
    world.add_folder(&folder);
    let roots = [world.base()];
    assert_eq!(house.kernel.image_names(&folder, &roots).unwrap(), [] as [&str; 0]);
    for name in ["b", "a", ".hidden", "a-b"] {
        house.kernel.create_image(&folder.join(name), &roots, MIB).unwrap();
    }
    world.add_folder(&folder.join("folder"));
    world.add_symlink(&folder.join("link"), &folder.join("a"));
    world.add_node(&folder.join("pipe"), SourceKind::Fifo);
    assert_eq!(house.kernel.image_names(&folder, &roots).unwrap(), [".hidden", "a", "a-b", "b"]);
    let facts = house.kernel.image_facts(&house.open(&folder.join("a"))).unwrap();
    assert_eq!(facts.size, MIB);
    assert!(house.kernel.free_space(&folder, &roots).unwrap() > MIB);
    let error = house.kernel.image_names(&folder.join("a"), &roots).unwrap_err();
    assert!(matches!(error, KernelError::WrongType { .. }), "{error:?}");
}

pub fn a_copy_is_the_image_and_never_takes_anothers_place(world: &dyn World) {
    let house = House::new(world);
    let (roots, to) = ([world.base()], world.base().join("copy"));
    let image = house.image("disk", 4 * MIB);
    assert_eq!(house.kernel.copy_image(&image, &to, &roots).unwrap(), 4 * MIB);
    assert_eq!(world.mode_and_group(&to).0, 0o600);
    let copy = house.open(&to);
    assert_eq!(house.kernel.image_facts(&copy).unwrap().size, 4 * MIB);
    house.kernel.set_file_size(&copy, 6 * MIB).unwrap();
    assert_eq!(house.kernel.image_facts(&image).unwrap().size, 4 * MIB, "they are two");
    let error = house.kernel.copy_image(&image, &to, &roots).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(house.kernel.image_facts(&copy).unwrap().size, 6 * MIB, "what was there stays");

    let small = world.base().join("small");
    world.write(&small, b"precious").unwrap();
    house.kernel.copy_image(&house.open(&small), &world.base().join("small-copy"), &roots).unwrap();
    assert_eq!(world.read(&world.base().join("small-copy")).unwrap(), b"precious");
}

pub fn an_image_in_use_is_neither_removed_nor_copied_in_parts(world: &dyn World) {
    let house = House::new(world);
    let (roots, path) = ([world.base()], world.base().join("disk"));
    let (image, _device) = house.disk("disk", 4 * MIB);
    let error = house.kernel.remove_image(&path, &roots).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let to = world.base().join("copy");
    // A file system that shares blocks copies it at one moment.
    if let Err(error) = house.kernel.copy_image(&image, &to, &roots) {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(!world.exists(&to), "nothing is left of it");
    }
    house.kernel.detach_loop(&image).unwrap();
    house.kernel.remove_image(&path, &roots).unwrap();
    assert!(!world.exists(&path));
    house.kernel.remove_image(&path, &roots).unwrap();
}

pub fn only_granted_paths_are_touched(world: &dyn World) {
    let house = House::new(world);
    let folder = world.base().join("images");
    world.add_folder(&folder);
    let outside = house.outside("elsewhere");
    let roots = [folder.clone()];
    world.add_symlink(&folder.join("out"), &outside);
    world.add_symlink(&folder.join("data"), &outside.join("data"));
    world.add_symlink(&folder.join("own"), &folder.join("real"));
    let image = house.kernel.create_image(&folder.join("real"), &roots, MIB).unwrap();
    let refused = |error: KernelError| assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
    refused(house.kernel.image_names(&outside, &roots).unwrap_err());
    refused(house.kernel.image_names(&folder.join("out"), &roots).unwrap_err());
    refused(house.kernel.free_space(&outside, &roots).unwrap_err());
    refused(house.kernel.copy_image(&image, &outside.join("copy"), &roots).unwrap_err());
    refused(house.kernel.copy_image(&image, &folder.join("out/copy"), &roots).unwrap_err());
    refused(house.kernel.remove_image(&folder.join("data"), &roots).unwrap_err());
    refused(house.kernel.remove_image(&outside.join("data"), &roots).unwrap_err());
    let error = house.kernel.remove_image(&folder.join("own"), &roots).unwrap_err();
    assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
    assert_eq!(world.read(&outside.join("data")).unwrap(), b"precious");
    assert!(world.exists(&folder.join("real")) && world.list(&outside).len() == 1);
}

pub fn images_that_nobody_uses_are_copied_together_or_not_at_all(world: &dyn World) {
    let house = House::new(world);
    let roots = [world.base()];
    for name in ["one", "two"] {
        house.image(name, MIB);
    }
    let copies = |to: &str| {
        ["one", "two"].map(|name| (house.open(&world.base().join(name)), world.base().join(format!("{to}-{name}"))))
    };
    house.kernel.copy_images_together(&copies("a"), &roots).unwrap();
    for (_, to) in copies("a") {
        assert_eq!(house.kernel.image_facts(&house.open(&to)).unwrap().size, MIB);
        assert_eq!(world.mode_and_group(&to).0, 0o600);
    }
    world.write(&world.base().join("b-two"), b"precious").unwrap();
    let error = house.kernel.copy_images_together(&copies("b"), &roots).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(!world.exists(&world.base().join("b-one")));
    assert_eq!(world.read(&world.base().join("b-two")).unwrap(), b"precious");
    let outside = house.outside("elsewhere");
    let [one, (two, _)] = copies("c");
    let granted = [world.base().join("granted")];
    world.add_folder(&granted[0]);
    let error = house.kernel.copy_images_together(&[one, (two, outside.join("c-two"))], &granted).unwrap_err();
    assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
    assert!(!world.exists(&world.base().join("c-one")));
    assert_eq!(house.kernel.thaw_images(&roots).unwrap(), [] as [&std::path::Path; 0]);
}
