use std::path::Path;

use volhost_kernel::{Detach, Entry, Errno, ErrorKind, FsOption, KernelError, SourceKind};

use super::{House, World, name};

pub fn a_bound_folder_shows_its_source(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    house.attach(house.bind(&source), "volume");
    assert_eq!(world.read(&house.at("volume/data")).unwrap(), b"precious");
    world.write(&house.at("volume/new"), b"from inside").unwrap();
    assert_eq!(world.read(&source.join("new")).unwrap(), b"from inside");
}

pub fn a_read_only_bind_refuses_writes_and_leaves_its_source_writable(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    let mount = house.bind(&source);
    house.kernel.set_options(&mount, &["ro", "nosuid"], false).unwrap();
    house.attach(mount, "volume");
    assert_eq!(world.write(&house.at("volume/data"), b"x"), Err(Errno::ROFS));
    assert_eq!(world.write(&house.at("volume/new"), b"x"), Err(Errno::ROFS));
    world.write(&source.join("data"), b"changed").unwrap();
    let found = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
    assert!(found.read_only);
    assert!(found.options.iter().any(|option| option == "ro"), "{found:?}");
    assert!(found.options.iter().any(|option| option == "nosuid"), "{found:?}");
}

pub fn an_existing_mount_is_made_read_only_and_nothing_else_is(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    house.attach(house.bind(&source), "volume");
    world.write(&house.at("volume/data"), b"written").unwrap();
    for _ in 0..2 {
        house.kernel.make_read_only(&house.root, name("volume")).unwrap();
    }
    assert_eq!(world.write(&house.at("volume/data"), b"x"), Err(Errno::ROFS));
    world.write(&source.join("data"), b"the source is writable").unwrap();
    assert_eq!(house.kernel.make_read_only(&house.root, name("none")).unwrap_err().errno(), Some(Errno::NOENT));
    house.kernel.make_folder(&house.root, name("folder"), 0o750, None).unwrap();
    assert_eq!(house.kernel.make_read_only(&house.root, name("folder")).unwrap_err().errno(), Some(Errno::INVAL));
    world.write(&house.at("folder/data"), b"x").unwrap();
}

pub fn the_mount_point_comes_and_goes_with_the_mount(world: &dyn World) {
    let house = House::new(world);
    let before = world.mount_count();
    assert_eq!(house.entry("volume"), Entry::Absent);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "volume");
    assert!(house.is_mount("volume"));
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    assert_eq!(house.entry("volume"), Entry::Absent);
    assert_eq!(world.mount_count(), before);
}

pub fn bad_targets_are_refused_and_left_alone(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    let elsewhere = house.outside("elsewhere");
    world.add_symlink(&house.at("link"), &elsewhere);
    world.add_folder(&house.at("full"));
    world.write(&house.at("full/kept"), b"kept").unwrap();
    world.write(&house.at("file"), b"").unwrap();
    world.write(&house.at("text"), b"text").unwrap();
    world.add_folder(&house.at("folder"));
    house.attach(house.bind(&source), "mounted");
    let before = world.mount_count();

    let attach =
        |path: &Path, target: &str| house.kernel.attach(house.bind(path), &house.root, name(target)).unwrap_err();
    assert!(matches!(attach(&source, "mounted"), KernelError::AlreadyMounted { .. }));
    assert!(matches!(attach(&source, "link"), KernelError::SymbolicLink { .. }));
    assert!(matches!(attach(&source, "full"), KernelError::NotEmpty { .. }));
    assert!(matches!(attach(&source, "file"), KernelError::WrongType { .. }));
    assert!(matches!(attach(&source.join("data"), "folder"), KernelError::WrongType { .. }));
    assert!(matches!(attach(&source.join("data"), "text"), KernelError::NotEmpty { .. }));
    assert!(matches!(attach(&source.join("data"), "link"), KernelError::SymbolicLink { .. }));

    assert_eq!(world.mount_count(), before);
    assert_eq!(world.read(&house.at("full/kept")).unwrap(), b"kept");
    assert_eq!(world.read(&elsewhere.join("data")).unwrap(), b"precious");
    assert_eq!(house.entry("link"), Entry::Symlink);
    assert_eq!(house.entry("file"), Entry::File);
    assert_eq!(house.entry("folder"), Entry::Folder);
}

pub fn an_empty_target_is_used(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    world.add_folder(&house.at("folder"));
    world.write(&house.at("file"), b"").unwrap();
    house.attach(house.bind(&source), "folder");
    house.attach(house.bind(&source.join("data")), "file");
    assert_eq!(world.read(&house.at("folder/data")).unwrap(), b"precious");
    assert_eq!(world.read(&house.at("file")).unwrap(), b"precious");
}

pub fn files_sockets_devices_and_pipes_are_bound_onto_files(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    let kinds = [
        (SourceKind::Socket, "socket"),
        (SourceKind::CharDevice, "char-device"),
        (SourceKind::BlockDevice, "block-device"),
        (SourceKind::Fifo, "fifo"),
    ];
    for (kind, file) in kinds {
        world.add_node(&source.join(file), kind);
        let opened = house.open(&source.join(file));
        assert_eq!(opened.kind(), kind);
        assert_eq!(opened.kind().as_str(), file);
        house.attach(house.kernel.bind(&opened, false).unwrap(), file);
        assert_eq!(house.open(&house.at(file)).kind(), kind, "the mount shows what was bound");
        house.kernel.detach(&house.root, name(file), Detach::Normal).unwrap();
        assert_eq!(house.entry(file), Entry::Absent);
        assert!(world.exists(&source.join(file)));
    }
}

pub fn an_unknown_mount_option_is_refused_by_name(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    let mount = house.bind(&source);
    let error = house.kernel.set_options(&mount, &["ro", "frozen"], false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"frozen\""), "{error}");
    house.attach(mount, "volume");
    world.write(&house.at("volume/data"), b"still writable").unwrap();
}

pub fn a_tmpfs_takes_no_more_than_its_size(world: &dyn World) {
    let house = House::new(world);
    let options = [FsOption::new("size", "1048576"), FsOption::flag("noswap"), FsOption::new("mode", "0750")];
    house.attach(house.kernel.tmpfs(&options).unwrap(), "memory");
    world.write(&house.at("memory/fits"), &[1; 512 * 1024]).unwrap();
    assert_eq!(world.write(&house.at("memory/too-much"), &[1; 768 * 1024]), Err(Errno::NOSPC));
    assert_eq!(world.mode_and_group(&house.at("memory")).0, 0o750);
    let found = house.kernel.mount_at(&house.root, name("memory")).unwrap().unwrap();
    assert_eq!((found.fs_type.as_str(), found.source.to_str()), ("tmpfs", Some("tmpfs")));
    for option in ["rw", "size=1024k", "noswap", "mode=750"] {
        assert!(found.options.iter().any(|shown| shown == option), "{option} in {found:?}");
    }
}

pub fn bad_tmpfs_options_are_named(world: &dyn World) {
    let kernel = world.kernel();
    let bad = [
        FsOption::new("size", "much"),
        FsOption::new("mode", "rwx"),
        FsOption::flag("size"),
        FsOption::new("huge", "always"),
    ];
    for option in bad {
        let error = kernel.tmpfs(std::slice::from_ref(&option)).unwrap_err();
        assert!(matches!(error, KernelError::InvalidOption { .. }), "{option:?}: {error:?}");
        assert!(error.to_string().contains(&format!("{:?}", option.key)), "{error}");
    }
}

pub fn a_mount_in_use_is_busy_and_loses_nothing(world: &dyn World) {
    let house = House::new(world);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "memory");
    world.write(&house.at("memory/file"), b"in use").unwrap();
    let held = world.hold(&house.at("memory/file"));
    let error = house.kernel.detach(&house.root, name("memory"), Detach::Normal).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(Errno::BUSY)));
    assert!(error.to_string().contains("fuser"), "{error}");
    assert_eq!(world.read(&house.at("memory/file")).unwrap(), b"in use");
    drop(held);
    house.kernel.detach(&house.root, name("memory"), Detach::Normal).unwrap();
    assert_eq!(house.entry("memory"), Entry::Absent);
}

pub fn a_lazy_detach_does_not_wait_for_users(world: &dyn World) {
    let house = House::new(world);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "memory");
    world.write(&house.at("memory/file"), b"in use").unwrap();
    let held = world.hold(&house.at("memory/file"));
    house.kernel.detach(&house.root, name("memory"), Detach::Lazy).unwrap();
    assert_eq!(house.entry("memory"), Entry::Absent);
    drop(held);
}

pub fn stacked_mounts_all_go(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    house.attach(house.bind(&source), "volume");
    let before = world.mount_count();
    // The root of one mount is the target of the next: only a second root folder lets a test stack
    // them.
    house.kernel.prepare_root(&house.at("volume"), volhost_kernel::Propagation::Private).unwrap();
    assert_eq!(world.mount_count(), before, "a mount is a root folder as it is");
    world.add_folder(&source.join("inner"));
    let inner = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
    house.kernel.attach(house.bind(&source), &inner, name("inner")).unwrap();
    drop(inner);
    let inner = house.kernel.walk(&house.root, Path::new("volume/inner")).unwrap();
    house.kernel.attach(house.bind(&source), &inner, name("inner")).unwrap();
    drop(inner);
    assert_eq!(world.mount_count(), before + 2);
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    assert_eq!(world.mount_count(), before - 1);
    assert_eq!(world.read(&source.join("data")).unwrap(), b"precious");
}

pub fn a_file_system_that_a_user_mounted_inside_keeps_the_volume_mounted(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    world.add_folder(&source.join("inner"));
    house.attach(house.bind(&source), "volume");
    let volume = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
    house.kernel.attach(house.kernel.tmpfs(&[]).unwrap(), &volume, name("inner")).unwrap();
    world.write(&house.at("volume/inner/file"), b"a user's").unwrap();
    drop(volume);
    let refused = house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap_err();
    assert!(matches!(&refused, KernelError::MountInside { path } if path.ends_with("volume/inner")), "{refused}");
    assert_eq!(world.read(&house.at("volume/inner/file")).unwrap(), b"a user's");

    let volume = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
    house.kernel.detach(&volume, name("inner"), Detach::Normal).unwrap();
    drop(volume);
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    assert_eq!(house.entry("volume"), Entry::Absent);
}

pub fn a_recursive_bind_brings_the_mounts_below_and_takes_them_away(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("tree"));
    let tree = house.kernel.walk(&house.root, Path::new("tree")).unwrap();
    house.kernel.attach(house.kernel.tmpfs(&[]).unwrap(), &tree, name("below")).unwrap();
    world.write(&house.at("tree/below/file"), b"deep").unwrap();
    let source = house.kernel.source(&tree).unwrap();

    house.attach(house.kernel.bind(&source, false).unwrap(), "flat");
    assert!(!world.exists(&house.at("flat/below/file")));
    let deep = house.kernel.bind(&source, true).unwrap();
    house.kernel.set_options(&deep, &["ro"], true).unwrap();
    house.attach(deep, "deep");
    assert_eq!(world.read(&house.at("deep/below/file")).unwrap(), b"deep");
    assert_eq!(world.write(&house.at("deep/below/file"), b"x"), Err(Errno::ROFS));

    for volume in ["deep", "flat"] {
        house.kernel.detach(&house.root, name(volume), Detach::Normal).unwrap();
        assert_eq!(house.entry(volume), Entry::Absent);
    }
    assert_eq!(world.read(&house.at("tree/below/file")).unwrap(), b"deep", "the source keeps its own");
}

pub fn a_dropped_mount_leaves_nothing(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    let before = world.mount_count();
    drop(house.bind(&source));
    drop(house.kernel.tmpfs(&[]).unwrap());
    assert_eq!(world.mount_count(), before);
    assert_eq!(house.kernel.mounts_below(&house.root).unwrap(), []);
}

pub fn mounts_are_listed_as_they_are(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("so urce");
    house.kernel.make_dirs(&house.root, Path::new("pods/a b"), 0o750).unwrap();
    let pod = house.kernel.walk(&house.root, Path::new("pods/a b")).unwrap();
    house.kernel.attach(house.bind(&source), &pod, name("one\ntwo")).unwrap();
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "memory");

    let mut listed = house.kernel.mounts_below(&house.root).unwrap();
    // Listed in the order of ids, and mountinfo's are given again.
    listed.sort_by(|one, other| other.point.cmp(&one.point));
    let points: Vec<_> = listed.iter().map(|mount| mount.point.to_str().unwrap()).collect();
    assert_eq!(points, ["pods/a b/one\ntwo", "memory"]);
    assert!(listed[0].root.ends_with("so urce"), "{listed:?}");
    assert_eq!(listed[1].root, Path::new("/"));
    assert_eq!(listed[0].parent, listed[1].parent, "both are on the root's mount");
    assert_eq!(Entry::Mount(listed[1].id), house.entry("memory"));
    let points = |folder, fs_type| {
        let mut points = house.kernel.points_below(folder, fs_type).unwrap();
        points.sort();
        points
    };
    assert_eq!(points(&house.root, None), [Path::new("memory"), Path::new("pods/a b/one\ntwo")]);
    assert_eq!(points(&pod, None), [Path::new("one\ntwo")]);
    assert!(points(&house.root, Some("tmpfs")).contains(&"memory".into()));
    assert!(points(&house.root, Some("nfs")).is_empty());
    if let Some(ids) = house.kernel.ids_below(&house.root).unwrap() {
        assert!(ids.is_sorted(), "{ids:?}");
        assert!(listed.iter().all(|mount| ids.contains(&mount.id)), "{ids:?} {listed:?}");
        let Entry::Mount(gone) = house.entry("memory") else { panic!("it is mounted") };
        house.kernel.detach(&house.root, name("memory"), Detach::Normal).unwrap();
        house.attach(house.kernel.tmpfs(&[]).unwrap(), "memory");
        let Entry::Mount(new) = house.entry("memory") else { panic!("it is mounted") };
        let ids = house.kernel.ids_below(&house.root).unwrap().unwrap();
        assert!(!ids.contains(&gone) && ids.contains(&new), "{gone:?} {new:?} {ids:?}");
    }
    let of_pod = house.kernel.mounts_below(&pod).unwrap();
    assert_eq!(of_pod.len(), 1);
    assert_eq!(of_pod[0].point, Path::new("one\ntwo"));
    let alone = house.kernel.mount_at(&pod, name("one\ntwo")).unwrap().unwrap();
    assert_eq!(alone, of_pod[0]);
    assert_eq!(house.kernel.mount_at(&house.root, name("pods")).unwrap(), None);
    assert_eq!(house.kernel.mount_at(&house.root, name("absent")).unwrap(), None);
}

pub fn data_in_a_mount_point_survives_detach(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("folder"));
    world.write(&house.at("folder/data"), b"kept").unwrap();
    world.write(&house.at("file"), b"kept").unwrap();
    world.add_symlink(&house.at("link"), &house.at("folder"));
    for target in ["folder", "file"] {
        let error = house.kernel.detach(&house.root, name(target), Detach::Normal).unwrap_err();
        assert!(matches!(error, KernelError::NotEmpty { .. }), "{error:?}");
    }
    let error = house.kernel.detach(&house.root, name("link"), Detach::Normal).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(world.read(&house.at("link/data")).unwrap(), b"kept");
    assert_eq!(world.read(&house.at("file")).unwrap(), b"kept");
}

pub fn detaching_nothing_is_done(world: &dyn World) {
    let house = House::new(world);
    house.kernel.detach(&house.root, name("absent"), Detach::Normal).unwrap();
    house.kernel.detach(&house.root, name("absent"), Detach::Lazy).unwrap();
    world.add_folder(&house.at("empty"));
    house.kernel.detach(&house.root, name("empty"), Detach::Normal).unwrap();
    assert_eq!(house.entry("empty"), Entry::Absent);
}

pub fn a_folder_of_the_root_is_bound_elsewhere_in_it(world: &dyn World) {
    let house = House::new(world);
    let folder = house.kernel.make_dirs(&house.root, Path::new("a/b"), 0o750).unwrap();
    let source = house.kernel.source(&folder).unwrap();
    assert_eq!(source.kind(), SourceKind::Directory);
    house.attach(house.kernel.bind(&source, false).unwrap(), "volume");
    world.write(&house.at("volume/file"), b"x").unwrap();
    assert!(world.exists(&house.at("a/b/file")));
}
