use std::path::{Path, PathBuf};

use volhost_kernel::{ErrorKind, KernelError, SourceKind};

use super::World;

/// A granted folder and one that is not, each with a file `data`.
fn folders(world: &dyn World) -> (PathBuf, PathBuf) {
    let (granted, other) = (world.base().join("granted"), world.base().join("granted-not"));
    for folder in [&granted, &other] {
        world.add_folder(folder);
        world.write(&folder.join("data"), b"precious").unwrap();
    }
    (granted, other)
}

pub fn a_granted_path_is_opened_by_what_it_leads_to(world: &dyn World) {
    let (granted, _) = folders(world);
    world.add_symlink(&granted.join("link"), Path::new("data"));
    world.add_symlink(&granted.join("up-and-down"), Path::new("../granted/data"));
    world.add_symlink(&granted.join("absolute"), &granted.join("link"));
    let grant = [granted.clone()];
    let open = |path: &Path| world.kernel().open_host_path(path, &grant);
    assert_eq!(open(&granted).unwrap().kind(), SourceKind::Directory);
    assert_eq!(open(&granted.join("link")).unwrap().kind(), SourceKind::File);
    assert_eq!(open(&granted.join("up-and-down")).unwrap().kind(), SourceKind::File);
    assert_eq!(open(&granted.join("absolute")).unwrap().kind(), SourceKind::File);
    assert_eq!(open(&granted.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    // A grant that is written with a link means the folder it leads to.
    world.add_symlink(&world.base().join("alias"), &granted);
    let alias = [world.base().join("alias")];
    assert!(world.kernel().open_host_path(&granted.join("data"), &alias).is_ok());
}

pub fn a_link_out_of_the_grant_is_refused(world: &dyn World) {
    let (granted, other) = folders(world);
    world.add_symlink(&granted.join("out"), &other.join("data"));
    world.add_symlink(&granted.join("folder"), &other);
    let grant = [granted.clone()];
    for path in [granted.join("out"), granted.join("folder/data"), other.join("data"), PathBuf::from("/")] {
        let error = world.kernel().open_host_path(&path, &grant).unwrap_err();
        assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }
    let error = world.kernel().create_host_directory(&granted.join("folder/new"), &grant).unwrap_err();
    assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
    let error = world.kernel().create_host_file(&granted.join("folder/new"), &grant).unwrap_err();
    assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
    assert!(!world.exists(&other.join("new")));
    let error = world.kernel().open_host_path(&granted, &[]).unwrap_err();
    assert!(matches!(error, KernelError::OutsideGrant { .. }), "{error:?}");
}

pub fn a_path_that_tricks_is_refused(world: &dyn World) {
    let (granted, _) = folders(world);
    let grant = [granted.clone()];
    let bad = [PathBuf::from("data"), PathBuf::new(), granted.join("../granted-not/data"), granted.join("a\0b")];
    for path in bad {
        let kernel = world.kernel();
        let opened = kernel.open_host_path(&path, &grant);
        let made = kernel.create_host_directory(&path, &grant);
        for result in [opened, made, kernel.create_host_file(&path, &grant)] {
            assert!(matches!(result, Err(KernelError::InvalidPath { .. })), "{path:?}: {result:?}");
        }
    }
}

pub fn missing_folders_of_the_host_are_made_within_the_grant(world: &dyn World) {
    let (granted, other) = folders(world);
    let grant = [granted.clone()];
    let make = |path: &Path| world.kernel().create_host_directory(path, &grant);
    assert_eq!(make(&granted.join("a/b/c")).unwrap().kind(), SourceKind::Directory);
    for folder in ["a", "a/b", "a/b/c"] {
        assert_eq!(world.mode_and_group(&granted.join(folder)).0, 0o755);
    }
    assert!(make(&granted.join("a/b/c")).is_ok(), "an existing one is opened");
    assert_eq!(make(&granted.join("data")).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(make(&granted.join("data/x")).unwrap_err().kind(), ErrorKind::Conflict);
    world.add_symlink(&granted.join("dangling"), &other.join("made-by-trick"));
    assert!(matches!(make(&granted.join("dangling/x")), Err(KernelError::OutsideGrant { .. })));
    world.add_symlink(&granted.join("nowhere"), Path::new("not-there"));
    assert!(matches!(make(&granted.join("nowhere/x")), Err(KernelError::SymbolicLink { .. })));
    assert!(matches!(make(&other.join("new")), Err(KernelError::OutsideGrant { .. })));
    assert!(!world.exists(&other.join("made-by-trick")) && !world.exists(&other.join("new")));
}

pub fn a_missing_file_of_the_host_is_made_within_the_grant(world: &dyn World) {
    let (granted, other) = folders(world);
    let grant = [granted.clone()];
    let make = |path: &Path| world.kernel().create_host_file(path, &grant);
    assert_eq!(make(&granted.join("new")).unwrap().kind(), SourceKind::File);
    assert_eq!(world.mode_and_group(&granted.join("new")).0, 0o644);
    make(&granted.join("data")).unwrap();
    assert_eq!(world.read(&granted.join("data")).unwrap(), b"precious", "an existing one is kept");
    assert_eq!(make(&granted).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(make(&granted.join("no/parent")).unwrap_err().kind(), ErrorKind::NotFound);
    world.add_symlink(&granted.join("dangling"), &other.join("made-by-trick"));
    assert!(matches!(make(&granted.join("dangling")), Err(KernelError::OutsideGrant { .. })));
    world.add_symlink(&granted.join("nowhere"), Path::new("not-there"));
    assert!(matches!(make(&granted.join("nowhere")), Err(KernelError::SymbolicLink { .. })));
    assert!(!world.exists(&other.join("made-by-trick")));
}

pub fn what_is_not_granted_has_one_answer_whether_or_not_it_exists(world: &dyn World) {
    let (granted, other) = folders(world);
    world.add_symlink(&granted.join("to-data"), &other.join("data"));
    world.add_symlink(&granted.join("to-nothing"), &other.join("nothing"));
    world.add_symlink(&granted.join("to-folder"), &other);
    world.add_symlink(&granted.join("up"), Path::new("../granted-not/data"));
    world.add_symlink(&granted.join("up-to-nothing"), Path::new("../granted-not/nothing"));
    // Links outside of the grant are not followed either, wherever they lead.
    world.add_symlink(&other.join("link"), &granted.join("data"));
    world.add_symlink(&other.join("loop"), &other.join("loop"));
    let outside = ["data", "nothing", "data/x", "nothing/x", "link", "loop", "link/x"].map(|name| other.join(name));
    let links = ["to-data", "to-nothing", "to-folder/data", "to-folder/nothing", "up", "up-to-nothing", "to-data/x"];
    let links = links.map(|name| granted.join(name));
    let kernel = world.kernel();
    let grants = [vec![granted.clone()], Vec::new()];
    for (grant, path) in grants.iter().flat_map(|grant| outside.iter().chain(&links).map(move |path| (grant, path))) {
        let answers = [
            kernel.open_host_path(path, grant).map(drop),
            kernel.create_host_directory(path, grant).map(drop),
            kernel.create_host_file(path, grant).map(drop),
            kernel.create_image(path, grant, 1 << 20).map(drop),
            kernel.image_names(path, grant).map(drop),
            kernel.remove_image(path, grant),
            kernel.free_space(path, grant).map(drop),
        ];
        for (which, answer) in answers.into_iter().enumerate() {
            let error = answer.expect_err("nothing of it is granted");
            let text = format!("{}: not within a folder that is granted", path.display());
            assert_eq!((error.to_string(), error.kind()), (text, ErrorKind::PermissionDenied), "{which} {path:?}");
        }
    }
    assert!(!world.exists(&other.join("nothing")));
}
