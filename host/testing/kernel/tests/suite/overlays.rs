use super::{House, World};
use volhost_kernel::{Errno, ErrorKind, FsOption, KernelError, MountSource};

/// Two folders that share a name, in the order in which they are laid.
fn lowers(house: &House<'_>) -> [MountSource; 2] {
    for (name, content) in [("first", &b"first"[..]), ("second", b"second")] {
        let path = house.outside(name);
        house.world.write(&path.join("both"), content).unwrap();
        house.world.write(&path.join(name), content).unwrap();
    }
    let base = house.world.base();
    [house.open(&base.join("first")), house.open(&base.join("second"))]
}

fn top(house: &House<'_>) -> MountSource {
    let path = house.world.base().join("top");
    house.world.add_folder(&path);
    house.open(&path)
}

pub fn an_overlay_shows_its_folders_as_one(world: &dyn World) {
    let house = House::new(world);
    let [first, second] = lowers(&house);
    world.give(&world.base().join("first"), 1001, 1002, 0o2751);
    let mount = house.kernel.overlay(&[&first, &second], Some(&top(&house)), &[]).unwrap();
    house.attach(mount, "volume");
    assert_eq!(world.list(&house.at("volume")), ["both", "data", "first", "second"]);
    assert_eq!(world.read(&house.at("volume/both")).unwrap(), b"first");
    assert_eq!(world.mode_and_group(&house.at("volume")), (0o2751, 1002), "as the first lower's");
    assert_eq!(world.owner(&house.at("volume")), 1001);
    let mount = house.kernel.mount_at(&house.root, "volume".as_ref()).unwrap().unwrap();
    assert_eq!(mount.fs_type, "overlay");
}

pub fn what_is_written_to_an_overlay_leaves_the_lower_alone(world: &dyn World) {
    let house = House::new(world);
    let [first, _] = lowers(&house);
    let top = top(&house);
    let mount = house.kernel.overlay(&[&first], Some(&top), &[FsOption::new("metacopy", "on")]).unwrap();
    house.attach(mount, "volume");
    world.write(&house.at("volume/both"), b"changed").unwrap();
    world.write(&house.at("volume/new"), b"new").unwrap();
    world.remove(&house.at("volume/data"));
    assert_eq!(world.list(&house.at("volume")), ["both", "first", "new"]);
    assert_eq!(world.read(&house.at("volume/both")).unwrap(), b"changed");
    let lower = world.base().join("first");
    assert_eq!(world.list(&lower), ["both", "data", "first"]);
    assert_eq!(world.read(&lower.join("both")).unwrap(), b"first");
    assert_eq!(world.list(&world.base().join("top")), ["upper", "work"]);
}

pub fn an_overlay_without_a_top_refuses_writes(world: &dyn World) {
    let house = House::new(world);
    let [first, second] = lowers(&house);
    house.attach(house.kernel.overlay(&[&first, &second], None, &[]).unwrap(), "volume");
    assert_eq!(world.write(&house.at("volume/new"), b"x"), Err(Errno::ROFS));
    assert_eq!(world.read(&house.at("volume/both")).unwrap(), b"first");
}

pub fn layers_are_found_by_their_source(world: &dyn World) {
    let house = House::new(world);
    let [first, second] = lowers(&house);
    house.attach(house.kernel.layers(&[&first, &second], "image@sha256:0f").unwrap(), "volume");
    assert_eq!(world.write(&house.at("volume/new"), b"x"), Err(Errno::ROFS));
    assert_eq!(world.read(&house.at("volume/both")).unwrap(), b"first");
    let mounts = house.kernel.mounts_below(&house.root).unwrap();
    assert_eq!(mounts.iter().filter(|mount| mount.source == "image@sha256:0f").count(), 1, "{mounts:?}");
    for source in ["", "a b", "a,b", "a\nb", "\u{e9}"] {
        assert!(matches!(house.kernel.layers(&[&first, &second], source), Err(KernelError::InvalidOption { .. })));
    }
}

pub fn a_detached_tmpfs_is_a_top(world: &dyn World) {
    let house = House::new(world);
    let [first, _] = lowers(&house);
    let before = world.mount_count();
    let memory = house.kernel.tmpfs(&[FsOption::new("size", "1m")]).unwrap();
    let top = house.kernel.root_of(&memory).unwrap();
    let mount = house.kernel.overlay(&[&first], Some(&top), &[]).unwrap();
    drop((memory, top));
    house.attach(mount, "volume");
    world.write(&house.at("volume/new"), b"new").unwrap();
    assert_eq!(world.read(&house.at("volume/new")).unwrap(), b"new");
    house.kernel.detach(&house.root, "volume".as_ref(), volhost_kernel::Detach::Normal).unwrap();
    assert_eq!(world.mount_count(), before);
}

pub fn layers_that_make_no_overlay_are_reported(world: &dyn World) {
    let house = House::new(world);
    let [first, second] = lowers(&house);
    let kernel = house.kernel;
    let file = house.open(&world.base().join("first/data"));
    for (layers, top) in [(vec![&file], Some(&second)), (vec![&first], Some(&file))] {
        let error = kernel.overlay(&layers, top, &[]).unwrap_err();
        assert!(matches!(error, KernelError::WrongType { .. }), "{error}");
    }
    let error = kernel.overlay(&[&first], Some(&first), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("the same folder, or one lies in another"), "{error}");
    for (layers, options) in [
        (vec![&first], vec![]),
        (vec![], vec![]),
        (vec![&first, &second], vec![FsOption::new("upperdir", "/etc")]),
        (vec![&first, &second], vec![FsOption::new("index", "maybe")]),
    ] {
        let error = kernel.overlay(&layers, None, &options).unwrap_err();
        assert!(matches!(error, KernelError::InvalidOption { .. }), "{error}");
    }
}
