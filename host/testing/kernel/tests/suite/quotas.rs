use std::path::Path;

use volhost_kernel::{Entry, Errno, ErrorKind, FsOption, KernelError};

use super::{House, MIB, World, name};

const LIMIT: u64 = 8 * MIB;

/// A house on a file system where folders can have quotas.
fn quota_house(world: &dyn World) -> House<'_> {
    world.enable_folder_quotas();
    House::new(world)
}

pub fn a_limited_folder_takes_no_more_than_its_limit(world: &dyn World) {
    let house = quota_house(world);
    let make = |limit| house.kernel.make_limited_folder(&house.root, name("volume"), 0o2777, Some(7), limit);
    make(LIMIT).unwrap();
    assert_eq!(house.entry("volume"), Entry::Folder);
    assert_eq!(world.mode_and_group(&house.at("volume")), (0o2777, 7));
    world.add_folder(&house.at("volume/folder"));
    let megabyte = vec![7; usize::try_from(MIB).unwrap()];
    let fill =
        |from: usize| (from..64).try_for_each(|n| world.write(&house.at(&format!("volume/folder/{n}")), &megabyte));
    assert_eq!(fill(0), Err(Errno::DQUOT));
    assert!(world.exists(&house.at("volume/folder/3")), "up to the limit there is room");
    world.write(&house.at("outside"), &megabyte).unwrap();
    make(4 * LIMIT).unwrap();
    let more = world.list(&house.at("volume/folder")).len();
    assert_eq!(fill(more), Err(Errno::DQUOT), "a raised limit is a limit");
    assert!(world.list(&house.at("volume/folder")).len() > more);
    house.kernel.delete_folder(&house.root, name("volume")).unwrap();
    assert_eq!(house.entry("volume"), Entry::Absent);
    make(LIMIT).unwrap();
    assert!(world.list(&house.at("volume")).is_empty());
    house.kernel.remove_empty_dir(&house.root, name("volume")).unwrap();
    assert_eq!(house.entry("volume"), Entry::Absent);
}

pub fn a_folder_without_a_quota_gets_none_and_stays(world: &dyn World) {
    let house = quota_house(world);
    house.kernel.make_folder(&house.root, name("volume"), 0o700, None).unwrap();
    world.write(&house.at("volume/file"), b"precious").unwrap();
    let make = |at: &str| house.kernel.make_limited_folder(&house.root, name(at), 0o777, None, LIMIT);
    assert_eq!(make("volume").unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(world.read(&house.at("volume/file")).unwrap(), b"precious");
    assert_eq!(world.mode_and_group(&house.at("volume")), (0o700, 0));
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "mount");
    assert!(matches!(make("mount"), Err(KernelError::AlreadyMounted { .. })), "{:?}", make("mount"));
    world.add_symlink(&house.at("link"), Path::new("volume"));
    assert!(matches!(make("link"), Err(KernelError::SymbolicLink { .. })), "{:?}", make("link"));
    assert!(matches!(
        house.kernel.make_limited_folder(&house.root, name("new"), 0o777, None, 0),
        Err(KernelError::InvalidOption { .. })
    ));
    assert_eq!(house.entry("new"), Entry::Absent);
}

pub fn where_there_are_no_quotas_nothing_is_made(world: &dyn World) {
    let house = House::new(world);
    let error = house.kernel.make_limited_folder(&house.root, name("volume"), 0o777, None, LIMIT).unwrap_err();
    assert!(matches!(error, KernelError::FilesystemLacks { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("volume: its file system does not support a quota for a folder"), "{error}");
    assert_eq!(house.entry("volume"), Entry::Absent);
    house.kernel.tmpfs(&[FsOption::new("size", "1m")]).unwrap();
}
