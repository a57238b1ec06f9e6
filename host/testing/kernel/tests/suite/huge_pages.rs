use volhost_kernel::{FsOption, KernelError};

use super::{House, World, name};

const PAGE: &str = "2097152";

pub fn huge_pages_are_mounted_whether_or_not_there_are_any(world: &dyn World) {
    let house = House::new(world);
    let options = [FsOption::new("pagesize", PAGE), FsOption::new("size", "4194304"), FsOption::new("mode", "777")];
    house.attach(house.kernel.huge_pages(&options).unwrap(), "volume");
    let mount = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
    assert_eq!(mount.fs_type, "hugetlbfs");
    assert!(mount.options.iter().any(|option| option == "pagesize=2M"), "{:?}", mount.options);
    assert!(mount.options.iter().any(|option| option == "size=4194304"), "{:?}", mount.options);
    assert_eq!(world.mode_and_group(&house.at("volume")), (0o777, 0));
    world.add_folder(&house.at("volume/folder"));
    house.kernel.detach(&house.root, name("volume"), volhost_kernel::Detach::Normal).unwrap();
    assert!(!world.exists(&house.at("volume")));
}

pub fn a_size_of_page_that_the_machine_lacks_is_named(world: &dyn World) {
    let house = House::new(world);
    let error = house.kernel.huge_pages(&[FsOption::new("pagesize", "4194304")]).unwrap_err();
    assert!(matches!(error, KernelError::UnsupportedOption { .. }), "{error:?}");
    assert!(
        error.to_string().contains("pagesize") && error.to_string().contains("no pages of 4194304 bytes"),
        "{error}"
    );
    for bad in [FsOption::new("min_size", PAGE), FsOption::new("mode", "9"), FsOption::flag("pagesize")] {
        let error = house.kernel.huge_pages(std::slice::from_ref(&bad)).unwrap_err();
        assert!(matches!(error, KernelError::InvalidOption { .. }), "{error:?}");
        assert!(error.to_string().contains(&bad.key), "{error}");
    }
}
