use super::{House, MIB, World};
use volhost_kernel::{Detach, DeviceError, Errno, FormatOptions, FsOption, ImageError, KernelError, MountSource};

pub fn an_image_is_mounted_read_only_and_leaves_nothing(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("image", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    house.kernel.detach_loop(&image).unwrap();
    let before = world.mount_count();
    house.attach(house.kernel.mount_image(&image, "ext4", &[]).unwrap(), "volume");
    assert_eq!(world.write(&house.at("volume/new"), b"x"), Err(Errno::ROFS));
    house.kernel.detach(&house.root, "volume".as_ref(), Detach::Normal).unwrap();
    drop(house.kernel.mount_image(&image, "ext4", &[]).unwrap());
    assert_eq!(world.mount_count(), before);
}

pub fn what_is_no_such_image_is_reported(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("image", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    house.kernel.detach_loop(&image).unwrap();
    let mount = |image: &MountSource, fs_type: &str, options: &[FsOption]| {
        house.kernel.mount_image(image, fs_type, options).unwrap_err()
    };
    let error = mount(&image, "squashfs", &[]);
    assert!(
        matches!(&error, KernelError::Image(ImageError::Mismatch { found, .. }) if found.contains("ext4")),
        "{error}"
    );
    let blank = house.image("blank", MIB);
    let error = mount(&blank, "erofs", &[]);
    assert!(matches!(&error, KernelError::Image(ImageError::Mismatch { found, .. }) if found == "nothing"), "{error}");
    let error = mount(&image, "iso9660", &[]);
    assert!(matches!(error, KernelError::Image(ImageError::Unsupported { .. })), "{error}");
    let error = mount(&image, "ext4", &[FsOption::new("journal_path", "/dev/sda")]);
    assert!(matches!(error, KernelError::InvalidOption { .. }), "{error}");
    let folder = house.open(&house.outside("folder"));
    let error = mount(&folder, "ext4", &[]);
    assert!(matches!(error, KernelError::WrongType { .. }), "{error}");
}

pub fn an_image_that_is_written_is_not_mounted_beside(world: &dyn World) {
    let house = House::new(world);
    let (image, device) = house.disk("image", 16 * MIB);
    house.kernel.format(&device, "ext4", &FormatOptions::default()).unwrap();
    let error = house.kernel.mount_image(&image, "ext4", &[]).unwrap_err();
    assert!(matches!(error, KernelError::Device(DeviceError::Shown { .. })), "{error:?}");
    house.kernel.detach_loop(&image).unwrap();
    drop(house.kernel.mount_image(&image, "ext4", &[]).unwrap());
}
