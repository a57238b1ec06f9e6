use std::path::Path;

use volhost_kernel::{Detach, Entry, KernelError};

use super::{House, World, name};

pub fn a_folder_goes_with_all_that_is_in_it(world: &dyn World) {
    let house = House::new(world);
    house.kernel.delete_folder(&house.root, name("absent")).unwrap();
    world.add_folder(&house.at("kept"));
    world.write(&house.at("kept/data"), b"kept").unwrap();
    for at in 0..40 {
        let folder = house.at(&format!("gone/{at}/deeper/and/deeper"));
        world.add_folder(&folder);
        for file in 0..20 {
            world.write(&folder.join(format!("{file}")), b"x").unwrap();
        }
    }
    house.kernel.delete_folder(&house.root, name("gone")).unwrap();
    assert_eq!(house.entry("gone"), Entry::Absent);
    assert_eq!(world.read(&house.at("kept/data")).unwrap(), b"kept");
}

pub fn links_are_removed_and_not_followed(world: &dyn World) {
    let house = House::new(world);
    let outside = house.outside("outside");
    world.add_folder(&house.at("gone/inner"));
    world.add_symlink(&house.at("gone/out"), &outside);
    world.add_symlink(&house.at("gone/inner/file"), &outside.join("data"));
    world.add_symlink(&house.at("gone/inner/up"), Path::new(".."));
    house.kernel.delete_folder(&house.root, name("gone")).unwrap();
    assert_eq!(house.entry("gone"), Entry::Absent);
    assert_eq!(world.read(&outside.join("data")).unwrap(), b"precious");
}

pub fn a_mount_below_keeps_everything(world: &dyn World) {
    let house = House::new(world);
    let outside = house.outside("outside");
    for files in [3, 700] {
        let folder = format!("folder{files}");
        world.add_folder(&house.at(&folder).join("a/b"));
        for file in 0..files {
            world.write(&house.at(&folder).join(format!("{file}")), b"kept").unwrap();
        }
        let inner = house.kernel.walk(&house.root, &Path::new(&folder).join("a/b")).unwrap();
        house.kernel.attach(house.bind(&outside), &inner, name("mount")).unwrap();

        let error = house.kernel.delete_folder(&house.root, name(&folder)).unwrap_err();
        assert!(matches!(error, KernelError::MountInside { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("{folder}/a/b/mount")), "{error}");
        assert_eq!(world.list(&house.at(&folder)).len(), files + 1, "nothing was removed");
        assert_eq!(world.read(&outside.join("data")).unwrap(), b"precious");

        house.kernel.detach(&inner, name("mount"), Detach::Normal).unwrap();
        house.kernel.delete_folder(&house.root, name(&folder)).unwrap();
        assert_eq!(house.entry(&folder), Entry::Absent);
    }
}

pub fn a_mount_is_not_removed(world: &dyn World) {
    let house = House::new(world);
    let outside = house.outside("outside");
    house.attach(house.bind(&outside), "mount");
    let error = house.kernel.delete_folder(&house.root, name("mount")).unwrap_err();
    assert!(matches!(error, KernelError::MountInside { .. }), "{error:?}");
    assert_eq!(world.read(&outside.join("data")).unwrap(), b"precious");
}

pub fn what_is_no_folder_is_not_removed(world: &dyn World) {
    let house = House::new(world);
    let outside = house.outside("outside");
    world.write(&house.at("file"), b"kept").unwrap();
    world.add_symlink(&house.at("link"), &outside);
    let delete = |target: &str| house.kernel.delete_folder(&house.root, name(target)).unwrap_err();
    assert!(matches!(delete("file"), KernelError::WrongType { .. }));
    assert!(matches!(delete("link"), KernelError::SymbolicLink { .. }));
    assert_eq!(world.read(&house.at("link/data")).unwrap(), b"precious");
    assert_eq!(world.read(&house.at("file")).unwrap(), b"kept");
}
