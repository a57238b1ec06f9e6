use std::path::Path;

use volhost_kernel::{Detach, ErrorKind, KernelError, Propagation};

use super::{House, World, name};

pub fn preparing_a_root_twice_changes_nothing(world: &dyn World) {
    let before = world.mount_count();
    let house = House::new(world);
    assert_eq!(world.mount_count(), before + 1);
    assert_eq!(world.mode_and_group(&house.path).0, 0o750);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "volume");
    let again = house.kernel.prepare_root(&house.path, Propagation::Shared).unwrap();
    assert_eq!(world.mount_count(), before + 2);
    assert_eq!(house.kernel.mounts_below(&again).unwrap(), house.kernel.mounts_below(&house.root).unwrap());
    let copy = again.clone();
    assert!(house.kernel.mount_at(&copy, name("volume")).unwrap().is_some());
}

pub fn a_root_is_released_only_when_nothing_is_mounted_below(world: &dyn World) {
    let before = world.mount_count();
    let house = House::new(world);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "volume");
    let error = house.kernel.release_root(&house.path).unwrap_err();
    assert!(matches!(error, KernelError::MountInside { .. }), "{error:?}");
    assert!(error.to_string().contains("volume"), "{error}");
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    world.write(&house.at("record"), b"kept").unwrap();
    house.kernel.release_root(&house.path).unwrap();
    assert_eq!(world.mount_count(), before);
    assert_eq!(world.read(&house.at("record")).unwrap(), b"kept");
    house.kernel.release_root(&house.path).unwrap();
    house.kernel.release_root(&house.at("absent")).unwrap();
}

pub fn a_root_that_is_no_folder_is_refused(world: &dyn World) {
    let kernel = world.kernel();
    let file = world.base().join("file");
    world.write(&file, b"x").unwrap();
    let before = world.mount_count();
    for path in [file.as_path(), Path::new("relative"), &file.join("below")] {
        let error = kernel.prepare_root(path, Propagation::Private).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::InvalidArgument), "{error:?}");
    }
    assert_eq!(world.mount_count(), before);
}

pub fn a_lock_admits_one(world: &dyn World) {
    let house = House::new(world);
    let lock = house.kernel.lock_root(&house.root, name("lock")).unwrap();
    let error = house.kernel.lock_root(&house.root, name("lock")).unwrap_err();
    let KernelError::InUse { pid, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(error.to_string().contains("in use by another volhost"), "{error}");
    drop(lock);
    house.kernel.lock_root(&house.root, name("lock")).unwrap();
    world.add_symlink(&house.at("link"), Path::new("lock"));
    assert!(house.kernel.lock_root(&house.root, name("link")).is_err());
    assert!(house.kernel.total_memory().unwrap() > 1 << 20);
}

pub fn errors_say_what_where_and_why(world: &dyn World) {
    let house = House::new(world);
    let error = house.kernel.walk(&house.root, Path::new("pods/gone")).unwrap_err();
    let text = error.to_string();
    assert!(text == "opening folder pods/gone: No such file or directory (ENOENT)", "{text}");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
