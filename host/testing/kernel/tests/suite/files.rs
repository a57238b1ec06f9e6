use std::path::Path;

use volhost_kernel::{Durability, Entry, ErrorKind, FsOption, Kernel, KernelError, Propagation, Step};

use super::{House, World, name};

fn write(kernel: &dyn Kernel, house: &House<'_>, file: &str, bytes: &[u8]) -> Result<(), KernelError> {
    kernel.write_atomic(&house.root, name(file), bytes, 0o640, Durability::Process)
}

pub fn a_written_file_is_read_back_with_its_mode(world: &dyn World) {
    let house = House::new(world);
    write(house.kernel, &house, "record", b"one").unwrap();
    assert_eq!(world.mode_and_group(&house.at("record")).0, 0o640);
    house.kernel.write_atomic(&house.root, name("record"), b"two", 0o666, Durability::Machine).unwrap();
    assert_eq!(world.read(&house.at("record")).unwrap(), b"two");
    assert_eq!(world.mode_and_group(&house.at("record")).0, 0o666);
    assert_eq!(house.kernel.read_file(&house.root, name("record"), 3).unwrap(), Some(b"two".to_vec()));
    assert_eq!(house.kernel.read_file(&house.root, name("absent"), 3).unwrap(), None);
    assert_eq!(world.list(&house.path), ["record"]);
}

pub fn a_file_is_not_read_beyond_its_limit_or_through_a_link(world: &dyn World) {
    let house = House::new(world);
    let outside = house.outside("outside");
    world.write(&house.at("large"), &[7; 100]).unwrap();
    world.add_symlink(&house.at("link"), &outside.join("data"));
    world.add_folder(&house.at("folder"));
    world.add_node(&house.at("pipe"), volhost_kernel::SourceKind::Fifo);
    let read = |file: &str| house.kernel.read_file(&house.root, name(file), 99).unwrap_err();
    assert!(matches!(read("large"), KernelError::TooLarge { limit: 99, .. }));
    assert!(matches!(read("link"), KernelError::SymbolicLink { .. }));
    assert!(matches!(read("folder"), KernelError::WrongType { .. }));
    assert!(matches!(read("pipe"), KernelError::WrongType { .. }));
}

pub fn a_leftover_of_a_crashed_write_is_cleared(world: &dyn World) {
    let house = House::new(world);
    world.write(&house.at("record"), b"old").unwrap();
    world.write(&house.at(".record.new"), b"hal").unwrap();
    write(house.kernel, &house, "record", b"new").unwrap();
    assert_eq!(world.list(&house.path), ["record"]);
    assert_eq!(world.read(&house.at("record")).unwrap(), b"new");
}

pub fn what_is_appended_follows_what_was_there(world: &dyn World) {
    let house = House::new(world);
    assert!(house.kernel.open_append(&house.root, name("log"), None).unwrap().is_none());
    assert_eq!(house.entry("log"), Entry::Absent);
    let made = house.kernel.open_append(&house.root, name("log"), Some(0o600)).unwrap().unwrap();
    assert_eq!((made.bytes_at_first(), world.mode_and_group(&house.at("log")).0), (0, 0o600));
    house.kernel.append(&made, b"one").unwrap();
    house.kernel.append(&made, b"two").unwrap();
    let again = house.kernel.open_append(&house.root, name("log"), Some(0o600)).unwrap().unwrap();
    assert_eq!(again.bytes_at_first(), 6);
    house.kernel.append(&again, b"three").unwrap();
    assert_eq!(world.read(&house.at("log")).unwrap(), b"onetwothree");

    house.kernel.remove_file(&house.root, name("log")).unwrap();
    house.kernel.append(&again, b"lost").unwrap();
    assert_eq!(house.entry("log"), Entry::Absent);
}

pub fn a_file_that_is_appended_to_is_a_file(world: &dyn World) {
    let house = House::new(world);
    let outside = house.outside("outside");
    world.add_symlink(&house.at("link"), &outside.join("data"));
    world.add_folder(&house.at("folder"));
    world.add_node(&house.at("pipe"), volhost_kernel::SourceKind::Fifo);
    let open = |file: &str| house.kernel.open_append(&house.root, name(file), Some(0o600)).unwrap_err();
    assert!(matches!(open("link"), KernelError::SymbolicLink { .. }));
    assert!(matches!(open("folder"), KernelError::WrongType { .. }));
    assert!(matches!(open("pipe"), KernelError::WrongType { .. }));
    assert_eq!(world.read(&outside.join("data")).unwrap(), b"precious");
}

pub fn what_does_not_fit_is_not_appended_in_part(world: &dyn World) {
    let house = House::new(world);
    house.attach(house.kernel.tmpfs(&[FsOption::new("size", "64k")]).unwrap(), "disk");
    let disk = house.kernel.walk(&house.root, Path::new("disk")).unwrap();
    let file = house.kernel.open_append(&disk, name("log"), Some(0o600)).unwrap().unwrap();
    house.kernel.append(&file, b"old").unwrap();
    let error = house.kernel.append(&file, &vec![1; 1 << 20]).unwrap_err();
    assert_eq!((error.kind(), error.step()), (ErrorKind::NoSpace, Some(Step::WriteFile)));
    assert_eq!(world.read(&house.at("disk/log")).unwrap(), b"old");
    house.kernel.append(&file, b"new").unwrap();
    assert_eq!(world.read(&house.at("disk/log")).unwrap(), b"oldnew");
}

pub fn removing_a_file_leaves_folders_alone(world: &dyn World) {
    let house = House::new(world);
    let outside = house.outside("outside");
    world.add_folder(&house.at("folder"));
    world.write(&house.at("file"), b"x").unwrap();
    world.add_symlink(&house.at("link"), &outside.join("data"));
    for file in ["absent", "file", "link"] {
        house.kernel.remove_file(&house.root, name(file)).unwrap();
        assert_eq!(house.entry(file), Entry::Absent);
    }
    let error = house.kernel.remove_file(&house.root, name("folder")).unwrap_err();
    assert!(matches!(error, KernelError::WrongType { .. }), "{error:?}");
    assert_eq!(world.read(&outside.join("data")).unwrap(), b"precious");
}

pub fn a_full_disk_is_named_and_leaves_nothing_behind(world: &dyn World) {
    let house = House::new(world);
    house.attach(house.kernel.tmpfs(&[FsOption::new("size", "1m")]).unwrap(), "disk");
    let disk = house.kernel.prepare_root(&house.at("disk"), Propagation::Private).unwrap();
    house.kernel.write_atomic(&disk, name("record"), b"old", 0o600, Durability::Process).unwrap();
    let large = vec![1; 2 << 20];
    for file in ["record", "other"] {
        let error = house.kernel.write_atomic(&disk, name(file), &large, 0o600, Durability::Process).unwrap_err();
        assert_eq!((error.kind(), error.step()), (ErrorKind::NoSpace, Some(Step::WriteFile)));
        let text = error.to_string();
        assert!(text.contains(file) && text.contains("ENOSPC") && text.contains("is full"), "{text}");
    }
    assert_eq!(world.list(&house.at("disk")), ["record"]);
    assert_eq!(world.read(&house.at("disk/record")).unwrap(), b"old");
}

pub fn a_disk_without_inodes_leaves_nothing_behind(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    // One inode is the root folder's own.
    house.attach(house.kernel.tmpfs(&[FsOption::new("nr_inodes", "4")]).unwrap(), "disk");
    let disk = house.kernel.walk(&house.root, Path::new("disk")).unwrap();
    let mut made = 0;
    let error = loop {
        match house.kernel.make_folder(&disk, name(&format!("{made}")), 0o750, None) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 10, "the limit is enforced");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("inodes"), "{error}");
    let mounts = world.mount_count();
    let error = house.kernel.attach(house.bind(&source), &disk, name("volume")).unwrap_err();
    assert_eq!((error.kind(), error.step()), (ErrorKind::NoSpace, Some(Step::MakeMountPoint)));
    assert_eq!(world.mount_count(), mounts);
    assert_eq!(world.list(&house.at("disk")).len(), made);
}
