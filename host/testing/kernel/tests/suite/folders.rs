use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use volhost_kernel::{Detach, Entry, ErrorKind, KernelError, SourceKind};

use super::{House, World, name};

pub fn symbolic_links_are_never_followed_below_a_handle(world: &dyn World) {
    let house = House::new(world);
    let elsewhere = house.outside("elsewhere");
    world.add_symlink(&house.at("out"), &elsewhere);
    world.add_symlink(&house.at("self"), Path::new("."));
    for link in ["out", "self", "self/out"] {
        let error = house.kernel.walk(&house.root, Path::new(link)).unwrap_err();
        assert!(matches!(error, KernelError::SymbolicLink { .. }), "{link}: {error:?}");
        let inner = Path::new(link).join("new");
        let error = house.kernel.make_dirs(&house.root, &inner, 0o750).unwrap_err();
        assert!(matches!(error, KernelError::SymbolicLink { .. }), "{link}: {error:?}");
    }
    assert!(!world.exists(&elsewhere.join("new")));
}

pub fn paths_that_lead_out_are_refused(world: &dyn World) {
    let house = House::new(world);
    for path in ["..", "a/../..", "/", "/etc"] {
        let error = house.kernel.walk(&house.root, Path::new(path)).unwrap_err();
        assert!(matches!(error, KernelError::InvalidPath { .. }), "{path}: {error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let long = "x".repeat(10_000);
    for bad in ["", ".", "..", "a/b", "nul\0", &long] {
        let errors = [
            house.kernel.entry(&house.root, name(bad)).unwrap_err(),
            house.kernel.make_folder(&house.root, name(bad), 0o750, None).unwrap_err(),
            house.kernel.delete_folder(&house.root, name(bad)).unwrap_err(),
            house.kernel.detach(&house.root, name(bad), Detach::Normal).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, KernelError::InvalidPath { .. }), "{error:?}");
        }
    }
}

pub fn missing_folders_are_made_with_the_exact_mode(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("there"));
    let made = house.kernel.make_dirs(&house.root, Path::new("there/a/b"), 0o777).unwrap();
    assert_eq!(made.label(), Path::new("there/a/b"));
    assert_eq!(world.mode_and_group(&house.at("there")).0, 0o755, "what was there keeps its mode");
    for folder in ["there/a", "there/a/b"] {
        assert_eq!(world.mode_and_group(&house.at(folder)).0, 0o777);
    }
    house.kernel.make_dirs(&house.root, Path::new("there/a/b"), 0o700).unwrap();
    assert_eq!(world.mode_and_group(&house.at("there/a/b")).0, 0o777);
    world.write(&house.at("file"), b"").unwrap();
    let error = house.kernel.make_dirs(&house.root, Path::new("file/a"), 0o750).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

pub fn entries_are_distinguished(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("folder"));
    world.write(&house.at("file"), b"").unwrap();
    world.add_symlink(&house.at("link"), Path::new("nowhere"));
    world.add_node(&house.at("pipe"), SourceKind::Fifo);
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "mount");
    assert_eq!(house.entry("absent"), Entry::Absent);
    assert_eq!(house.entry("folder"), Entry::Folder);
    assert_eq!(house.entry("file"), Entry::File);
    assert_eq!(house.entry("link"), Entry::Symlink);
    assert_eq!(house.entry("pipe"), Entry::Other);
    assert!(house.is_mount("mount"));
    let mut names = house.kernel.names(&house.root).unwrap();
    names.sort();
    assert_eq!(names, ["file", "folder", "link", "mount", "pipe"]);
    let (same, mut listed) = house.kernel.list(&house.root, Path::new("")).unwrap();
    listed.sort();
    assert_eq!(listed, names);
    assert_eq!(house.kernel.entry(&same, name("file")).unwrap(), Entry::File);
    assert!(house.kernel.list(&house.root, Path::new("folder")).unwrap().1.is_empty());
    let refused = |bad: &str| house.kernel.list(&house.root, Path::new(bad)).unwrap_err();
    assert_eq!(refused("absent").kind(), ErrorKind::NotFound);
    assert!(matches!(refused("file"), KernelError::WrongType { .. }));
    assert!(matches!(refused("link"), KernelError::SymbolicLink { .. }));
}

pub fn names_of_any_bytes_work(world: &dyn World) {
    let house = House::new(world);
    for bytes in [&b"a b"[..], b"new\nline", b"\xff\xfe", b"\\040", b"...", b"-rf", b"(deleted)", b"x (deleted)"] {
        let name = OsStr::from_bytes(bytes);
        house.kernel.make_folder(&house.root, name, 0o750, None).unwrap();
        assert_eq!(house.kernel.names(&house.root).unwrap(), [name]);
        let walked = house.kernel.walk(&house.root, Path::new(name)).unwrap();
        house.kernel.attach(house.kernel.tmpfs(&[]).unwrap(), &walked, name).unwrap();
        let listed = house.kernel.mounts_below(&house.root).unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].point, Path::new(name).join(name));
        house.kernel.detach(&walked, name, Detach::Normal).unwrap();
        drop(walked);
        house.kernel.delete_folder(&house.root, name).unwrap();
        assert_eq!(house.kernel.names(&house.root).unwrap().len(), 0);
    }
}

pub fn a_plain_folder_gets_mode_and_group_and_keeps_its_content(world: &dyn World) {
    let house = House::new(world);
    house.kernel.make_folder(&house.root, name("folder"), 0o2775, Some(4321)).unwrap();
    assert_eq!(world.mode_and_group(&house.at("folder")), (0o2775, 4321));
    world.write(&house.at("folder/data"), b"kept").unwrap();
    house.kernel.make_folder(&house.root, name("folder"), 0o1700, None).unwrap();
    assert_eq!(world.mode_and_group(&house.at("folder")), (0o1700, 4321));
    assert_eq!(world.read(&house.at("folder/data")).unwrap(), b"kept");
}

pub fn a_folder_is_not_made_over_something_else(world: &dyn World) {
    let house = House::new(world);
    let elsewhere = house.outside("elsewhere");
    let (mode, _) = world.mode_and_group(&elsewhere);
    world.add_symlink(&house.at("link"), &elsewhere);
    world.write(&house.at("file"), b"kept").unwrap();
    house.attach(house.bind(&elsewhere), "mounted");
    let make = |target: &str| house.kernel.make_folder(&house.root, name(target), 0o777, None).unwrap_err();
    assert!(matches!(make("link"), KernelError::SymbolicLink { .. }), "{:?}", make("link"));
    assert!(matches!(make("file"), KernelError::WrongType { .. }), "{:?}", make("file"));
    assert!(matches!(make("mounted"), KernelError::AlreadyMounted { .. }));
    assert_eq!(world.mode_and_group(&elsewhere).0, mode, "nothing was changed through link or mount");
    let error = house.kernel.make_folder(&house.root, name("new"), 0o10000, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

pub fn only_empty_folders_are_removed(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("empty"));
    world.add_folder(&house.at("full"));
    world.write(&house.at("full/data"), b"kept").unwrap();
    world.write(&house.at("file"), b"kept").unwrap();
    house.attach(house.kernel.tmpfs(&[]).unwrap(), "mounted");
    let remove = |target: &str| house.kernel.remove_empty_dir(&house.root, name(target));
    remove("absent").unwrap();
    remove("empty").unwrap();
    assert_eq!(house.entry("empty"), Entry::Absent);
    assert!(matches!(remove("full"), Err(KernelError::NotEmpty { .. })));
    assert!(matches!(remove("file"), Err(KernelError::WrongType { .. })));
    assert!(matches!(remove("mounted"), Err(KernelError::MountInside { .. })));
    assert_eq!(world.read(&house.at("full/data")).unwrap(), b"kept");
}

pub fn a_folder_is_renamed_over_an_empty_one_alone(world: &dyn World) {
    let house = House::new(world);
    let (kernel, root) = (house.kernel, &house.root);
    kernel.make_dirs(root, Path::new("a/inner"), 0o750).unwrap();
    let other = kernel.make_dirs(root, Path::new("b/full"), 0o750).unwrap();
    let other = (kernel.walk(root, Path::new("b")).unwrap(), other);
    kernel.make_dirs(&other.1, Path::new("x"), 0o750).unwrap();
    world.write(&house.at("file"), b"").unwrap();

    let error = kernel.move_folder(root, name("a"), &other.0, name("full")).unwrap_err();
    assert!(matches!(error, KernelError::NotEmpty { .. }), "{error:?}");
    for (from, to) in [("file", "new"), ("a", "file")] {
        let error = kernel.move_folder(root, name(from), root, name(to)).unwrap_err();
        assert!(matches!(error, KernelError::WrongType { .. }), "{from} {to}: {error:?}");
    }
    let error = kernel.move_folder(root, name("none"), root, name("new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    assert!(kernel.move_folder(root, name("b"), &other.0, name("new")).is_err(), "into itself");
    assert!(kernel.move_folder(root, name(".."), root, name("new")).is_err());
    assert!(world.exists(&house.at("a/inner")) && world.exists(&house.at("b/full/x")), "nothing was changed");

    kernel.make_dirs(&other.0, Path::new("empty"), 0o750).unwrap();
    kernel.move_folder(root, name("a"), &other.0, name("empty")).unwrap();
    assert!(!world.exists(&house.at("a")) && world.exists(&house.at("b/empty/inner")));
    kernel.move_folder(&other.0, name("empty"), root, name("new")).unwrap();
    assert!(world.exists(&house.at("new/inner")));
}
