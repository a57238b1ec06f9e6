use std::path::Path;

use volhost_kernel::{Entry, ErrorKind, KernelError, SourceKind};

use super::{House, World, name};

pub fn a_folder_has_a_path_until_it_is_removed(world: &dyn World) {
    let house = House::new(world);
    let folder = house.kernel.make_dirs(&house.root, Path::new("pods/a b"), 0o750).unwrap();
    assert_eq!(house.kernel.absolute_path(&folder).unwrap(), house.at("pods/a b"));
    assert_eq!(house.kernel.absolute_path(&house.root).unwrap(), house.path);
    world.remove(&house.at("pods/a b"));
    assert_eq!(house.kernel.absolute_path(&folder).unwrap_err().kind(), ErrorKind::NotFound);
    // Another folder of that name is not the one that was opened.
    world.add_folder(&house.at("pods/a b"));
    assert_eq!(house.kernel.absolute_path(&folder).unwrap_err().kind(), ErrorKind::NotFound);
}

pub fn mounts_that_appear_are_distinguished(world: &dyn World) {
    let house = House::new(world);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "before");
    let known = house.kernel.mounts_now().unwrap();
    assert_eq!(house.kernel.mounts_besides(&known).unwrap(), []);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "after");
    let new = house.kernel.mounts_besides(&known).unwrap();
    assert_eq!(new.len(), 1, "{new:?}");
    assert_eq!((new[0].point.as_path(), new[0].fs_type.as_str()), (house.at("after").as_path(), "tmpfs"));
    let Entry::Mount(id) = house.entry("after") else { panic!("it is mounted") };
    assert_eq!(new[0].id, id, "one mount has one id, however it is asked for");
    let Entry::Mount(id) = house.entry("before") else { panic!("it is mounted") };
    assert!(known.contains(id));
}

pub fn what_a_driver_left_is_cleared_unless_it_is_data(world: &dyn World) {
    let house = House::new(world);
    let clear = |left: &str| house.kernel.clear_place(&house.root, name(left));
    clear("nothing").unwrap();
    world.add_folder(&house.at("folder"));
    clear("folder").unwrap();
    world.write(&house.at("file"), b"").unwrap();
    clear("file").unwrap();
    world.add_node(&house.at("device"), SourceKind::BlockDevice);
    clear("device").unwrap();
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "mount");
    world.write(&house.at("mount/data"), b"of the mount").unwrap();
    clear("mount").unwrap();
    for gone in ["folder", "file", "device", "mount"] {
        assert_eq!(house.entry(gone), Entry::Absent, "{gone}");
    }
    world.add_folder(&house.at("full/inner"));
    assert!(matches!(clear("full"), Err(KernelError::NotEmpty { .. })));
    world.write(&house.at("text"), b"text").unwrap();
    assert!(matches!(clear("text"), Err(KernelError::NotEmpty { .. })));
    world.add_symlink(&house.at("link"), Path::new("text"));
    assert!(clear("link").is_err());
    assert_eq!((house.entry("full"), house.entry("text")), (Entry::Folder, Entry::File));
    assert_eq!(house.entry("link"), Entry::Symlink);
}
