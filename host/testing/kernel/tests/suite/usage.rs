use std::path::Path;

use volhost_kernel::{Detach, ErrorKind, FsOption, KernelError};

use super::{House, World, name};

pub fn a_file_system_reports_how_full_it_is(world: &dyn World) {
    let house = House::new(world);
    let options = [FsOption::new("size", "4m"), FsOption::new("nr_inodes", "100")];
    house.attach(house.kernel.tmpfs(&options).unwrap(), "volume");
    let empty = house.kernel.usage(&house.root, name("volume")).unwrap();
    assert_eq!((empty.capacity, empty.inodes), (4 << 20, 100));
    assert_eq!((empty.used, empty.available), (0, 4 << 20));
    world.write(&house.at("volume/file"), &vec![1; 1 << 20]).unwrap();
    world.write(&house.at("volume/small"), b"x").unwrap();
    let filled = house.kernel.usage(&house.root, name("volume")).unwrap();
    assert_eq!(filled.used, (1 << 20) + 4096);
    assert_eq!(filled.available, filled.capacity - filled.used);
    assert_eq!(filled.inodes_used, empty.inodes_used + 2);
    assert_eq!(filled.inodes_free, empty.inodes_free - 2);
    assert_eq!(house.kernel.usage(&house.root, name("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    world.add_symlink(&house.at("link"), Path::new("volume"));
    for error in [
        house.kernel.usage(&house.root, name("link")).unwrap_err(),
        house.kernel.disk_usage(&house.root, name("link")).unwrap_err(),
    ] {
        assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
    }
}

pub fn a_file_system_in_memory_is_grown_and_keeps_its_files(world: &dyn World) {
    let house = House::new(world);
    let capacity = || house.kernel.usage(&house.root, name("volume")).unwrap().capacity;
    for options in [vec![], vec![FsOption::flag("noswap")]] {
        let sized = [vec![FsOption::new("size", "4m"), FsOption::new("mode", "750")], options].concat();
        house.attach(house.kernel.tmpfs(&sized).unwrap(), "volume");
        world.write(&house.at("volume/file"), b"kept").unwrap();
        let grow = |bytes| house.kernel.grow_tmpfs(&house.root, name("volume"), bytes).unwrap();
        assert!(grow(16 << 20));
        assert_eq!(capacity(), 16 << 20);
        assert!(grow(8 << 20));
        assert_eq!(capacity(), 16 << 20, "never smaller");
        assert_eq!(world.read(&house.at("volume/file")).unwrap(), b"kept");
        house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    }
    assert!(house.kernel.grow_tmpfs(&house.root, name("absent"), 1).is_err());
    world.add_symlink(&house.at("link"), Path::new("volume"));
    let error = house.kernel.grow_tmpfs(&house.root, name("link"), 1).unwrap_err();
    assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
}

pub fn files_are_added_up_on_one_file_system(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("volume/a/b"));
    let empty = house.kernel.disk_usage(&house.root, name("volume")).unwrap();
    assert_eq!(empty.inodes, 3);
    world.write(&house.at("volume/a/file"), &vec![1; 10_000]).unwrap();
    world.write(&house.at("volume/a/b/file"), &vec![1; 4096]).unwrap();
    world.add_symlink(&house.at("volume/link"), &house.outside("outside"));
    let volume = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
    house.kernel.attach(house.kernel.tmpfs(&[]).unwrap(), &volume, name("mount")).unwrap();
    world.write(&house.at("volume/mount/large"), &vec![1; 1 << 20]).unwrap();
    let filled = house.kernel.disk_usage(&house.root, name("volume")).unwrap();
    assert_eq!(filled.inodes, empty.inodes + 3, "two files and a link; nothing of the mount");
    assert_eq!(filled.bytes, empty.bytes + 12_288 + 4096);
    let mounted = house.kernel.disk_usage(&volume, name("mount")).unwrap();
    assert_eq!((mounted.bytes, mounted.inodes), (1 << 20, 2));
    assert!(house.kernel.disk_usage(&house.root, name("absent")).is_err());
}
