use std::path::Path;

use volhost_kernel::{
    Detach, Entry, ErrorKind, KernelError, MissingSubPath, MountSource, SourceKind, SubPathBind, SubPathBinding,
};

use super::{House, World, name};

fn open(house: &House<'_>, rel: &str, missing: MissingSubPath) -> Result<MountSource, KernelError> {
    house.kernel.open_sub_path(&house.root, name("volume"), Path::new(rel), missing)
}

/// A volume with folders, files and links of every sort; what is in `outside` must stay.
fn with_volume(world: &dyn World) -> House<'_> {
    let house = House::new(world);
    let outside = house.outside("outside");
    world.add_folder(&house.at("volume/dir/inner"));
    world.write(&house.at("volume/dir/file"), b"inside").unwrap();
    world.write(&house.at("volume/dir/inner/data"), b"inner").unwrap();
    for (link, target) in [
        ("to-dir", "dir"),
        ("to-file", "dir/file"),
        ("dir/to-inner", "inner"),
        ("dir/around", "../dir/inner"),
        ("dir/out-and-in", "../../volume/dir"),
        ("dir/up", ".."),
        ("dir/far-up", "../.."),
        ("chain", "to-dir/around"),
        ("circle", "circle"),
        ("nowhere", "dir/absent"),
    ] {
        world.add_symlink(&house.at("volume").join(link), Path::new(target));
    }
    world.add_symlink(&house.at("volume/absolute"), &outside);
    world.add_symlink(&house.at("volume/absolute-inside"), &house.at("volume/dir"));
    world.add_symlink(&house.at("volume/absolute-file"), &outside.join("data"));
    house
}

pub fn what_lies_in_the_volume_is_opened_and_bound(world: &dyn World) {
    let house = with_volume(world);
    world.add_node(&house.at("volume/pipe"), SourceKind::Fifo);
    world.add_node(&house.at("volume/socket"), SourceKind::Socket);
    // The sub-path, what it is, and a file to be read through the bind.
    let cases = [
        ("", SourceKind::Directory, Some("dir/file")),
        ("dir", SourceKind::Directory, Some("file")),
        ("dir/inner", SourceKind::Directory, Some("data")),
        ("dir/file", SourceKind::File, Some("")),
        ("to-dir", SourceKind::Directory, Some("file")),
        ("to-file", SourceKind::File, Some("")),
        ("to-dir/inner", SourceKind::Directory, Some("data")),
        ("dir/around", SourceKind::Directory, Some("data")),
        ("chain/data", SourceKind::File, Some("")),
        ("dir/up", SourceKind::Directory, Some("dir/file")),
        ("dir/up/dir/up/dir", SourceKind::Directory, Some("file")),
        ("pipe", SourceKind::Fifo, None),
        ("socket", SourceKind::Socket, None),
    ];
    for (rel, kind, file) in cases {
        for missing in [MissingSubPath::Refuse, MissingSubPath::MakeFolders] {
            let source = open(&house, rel, missing).unwrap();
            assert_eq!(source.kind(), kind, "{rel}");
            house.attach(house.kernel.bind(&source, false).unwrap(), "target");
            if let Some(file) = file {
                let file = if file.is_empty() { house.at("target") } else { house.at("target").join(file) };
                assert!(world.read(&file).unwrap().starts_with(b"in"), "{rel}");
            }
            drop(source);
            house.kernel.detach(&house.root, name("target"), Detach::Normal).unwrap();
        }
    }
}

pub fn what_leads_out_of_the_volume_is_refused(world: &dyn World) {
    let house = with_volume(world);
    let outside = world.base().join("outside");
    for missing in [MissingSubPath::Refuse, MissingSubPath::MakeFolders, MissingSubPath::MakeFoldersWithMode(0o700)] {
        for rel in [
            "absolute",
            "absolute/new",
            "absolute-inside",
            "absolute-inside/new",
            "absolute-file",
            "dir/far-up",
            "dir/far-up/new",
            "dir/out-and-in",
            "dir/out-and-in/inner",
            "dir/up/dir/far-up/outside",
        ] {
            let error = open(&house, rel, missing).unwrap_err();
            assert!(matches!(error, KernelError::OutsideVolume { .. }), "{rel}: {error:?}");
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(error.to_string().starts_with(&format!("volume/{rel}: leads out")), "{error}");
        }
        for rel in ["..", "dir/../..", "/etc", "../volume", "a\0b"] {
            let error = open(&house, rel, missing).unwrap_err();
            assert!(matches!(error, KernelError::InvalidPath { .. }), "{rel}: {error:?}");
        }
        let error = open(&house, "circle", missing).unwrap_err();
        assert!(error.to_string().contains("ELOOP"), "{error}");
        let error = open(&house, "dir/file/below", missing).unwrap_err();
        assert!(matches!(error, KernelError::WrongType { .. }), "{error:?}");
    }
    assert_eq!(world.list(&outside), ["data"], "nothing was made outside");
    world.add_symlink(&house.at("link"), &outside);
    let error =
        house.kernel.open_sub_path(&house.root, name("link"), Path::new(""), MissingSubPath::Refuse).unwrap_err();
    assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
}

pub fn missing_sub_paths_are_made_with_the_volumes_mode(world: &dyn World) {
    let house = with_volume(world);
    assert_eq!(open(&house, "new", MissingSubPath::Refuse).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!world.exists(&house.at("volume/new")));
    for mode in [0o777, 0o2775, 0o1770, 0o700] {
        world.give(&house.at("volume"), 0, 0, mode);
        let (first, second) = (format!("made-{mode:o}"), format!("made-{mode:o}/below/deep"));
        for rel in [&first, &second] {
            assert_eq!(open(&house, rel, MissingSubPath::MakeFolders).unwrap().kind(), SourceKind::Directory);
        }
        for rel in [first.clone(), format!("{first}/below"), second] {
            assert_eq!(world.mode_and_group(&house.at("volume").join(&rel)).0, mode, "{rel}");
        }
    }
    let exact = MissingSubPath::MakeFoldersWithMode(0o751);
    open(&house, "to-dir/x/y", exact).unwrap();
    assert_eq!(world.mode_and_group(&house.at("volume/dir/x/y")).0, 0o751);
    open(&house, "dir", exact).unwrap();
    assert_eq!(world.mode_and_group(&house.at("volume/dir")).0, 0o755, "what exists keeps its mode");
    let error = open(&house, "nowhere", exact).unwrap_err();
    assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
    let error = open(&house, "nowhere/below", exact).unwrap_err();
    assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
    assert!(!world.exists(&house.at("volume/dir/absent")));
    let error = open(&house, "x", MissingSubPath::MakeFoldersWithMode(0o10000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

pub fn a_read_only_volume_makes_no_sub_path(world: &dyn World) {
    let house = House::new(world);
    let mount = house.bind(&house.outside("source"));
    house.kernel.set_options(&mount, &["ro"], false).unwrap();
    house.attach(mount, "volume");
    let error = open(&house, "new", MissingSubPath::MakeFolders).unwrap_err();
    assert!(error.to_string().contains("EROFS"), "{error}");
    assert_eq!(open(&house, "data", MissingSubPath::MakeFolders).unwrap().kind(), SourceKind::File);
}

fn show(house: &House<'_>, rel: &str, how: SubPathBind) -> Result<SubPathBinding, KernelError> {
    let source = open(house, rel, MissingSubPath::MakeFolders)?;
    house.kernel.bind_sub_path(&source, how, &house.root, name("shown"))
}

const READ_ONLY: SubPathBind = SubPathBind { read_only: true, submounts: false };

pub fn a_sub_path_that_is_shown_as_wanted_stays(world: &dyn World) {
    let house = with_volume(world);
    let before = world.mount_count();
    for rel in ["dir", "dir/file"] {
        assert_eq!(show(&house, rel, SubPathBind::default()).unwrap(), SubPathBinding::New, "{rel}");
        let first = house.entry("shown");
        for _ in 0..3 {
            assert_eq!(show(&house, rel, SubPathBind::default()).unwrap(), SubPathBinding::Kept, "{rel}");
        }
        assert_eq!(house.entry("shown"), first, "{rel}");
        assert_eq!(world.mount_count(), before + 1);
        house.kernel.detach(&house.root, name("shown"), Detach::Normal).unwrap();
    }
}

pub fn another_thing_under_the_same_name_is_shown_anew(world: &dyn World) {
    let house = with_volume(world);
    let before = world.mount_count();
    show(&house, "dir/file", SubPathBind::default()).unwrap();
    let hold = world.hold(&house.at("shown"));
    for content in ["second", "third"] {
        world.remove(&house.at("volume/dir/file"));
        world.write(&house.at("volume/dir/file"), content.as_bytes()).unwrap();
        assert_eq!(show(&house, "dir/file", SubPathBind::default()).unwrap(), SubPathBinding::Replaced);
        assert_eq!(world.read(&house.at("shown")).unwrap(), content.as_bytes());
        assert_eq!(world.mount_count(), before + 1);
    }
    drop(hold);
    // A folder where a file was, and back.
    assert_eq!(show(&house, "dir/inner", SubPathBind::default()).unwrap(), SubPathBinding::Replaced);
    assert_eq!(world.list(&house.at("shown")), ["data"]);
    assert_eq!(show(&house, "dir", SubPathBind::default()).unwrap(), SubPathBinding::Replaced);
    assert!(world.exists(&house.at("shown/file")));
    assert_eq!(show(&house, "dir/file", SubPathBind::default()).unwrap(), SubPathBinding::Replaced);
    assert_eq!(world.read(&house.at("shown")).unwrap(), b"third");
    house.kernel.detach(&house.root, name("shown"), Detach::Normal).unwrap();
    assert_eq!(house.entry("shown"), Entry::Absent);
    assert_eq!(world.mount_count(), before);
}

pub fn a_sub_path_is_read_only_when_wanted_so(world: &dyn World) {
    let house = with_volume(world);
    assert_eq!(show(&house, "dir", READ_ONLY).unwrap(), SubPathBinding::New);
    assert_eq!(show(&house, "dir", READ_ONLY).unwrap(), SubPathBinding::Kept);
    assert!(world.write(&house.at("shown/new"), b"x").is_err());
    assert_eq!(show(&house, "dir", SubPathBind::default()).unwrap(), SubPathBinding::Replaced);
    world.write(&house.at("shown/new"), b"x").unwrap();
    assert_eq!(show(&house, "dir", READ_ONLY).unwrap(), SubPathBinding::Replaced);
    assert!(world.write(&house.at("shown/new"), b"y").is_err());
    assert_eq!(world.read(&house.at("volume/dir/new")).unwrap(), b"x");
    // What was put at the place by hand is data and stays.
    house.kernel.detach(&house.root, name("shown"), Detach::Normal).unwrap();
    world.write(&house.at("shown"), b"precious").unwrap();
    assert!(show(&house, "dir/file", READ_ONLY).is_err());
    assert_eq!(world.read(&house.at("shown")).unwrap(), b"precious");
}

/// Binds the sub-paths of a volume below `binds/CONTAINER/INDEX`.
fn bind_all(house: &House<'_>, containers: usize, each: usize) {
    for container in 0..containers {
        let folder = house.kernel.make_dirs(&house.root, Path::new(&format!("binds/c{container}")), 0o750).unwrap();
        for index in 0..each {
            let rel = ["dir", "dir/file", "dir/inner"][index % 3];
            let source = open(house, rel, MissingSubPath::Refuse).unwrap();
            house.kernel.attach(house.kernel.bind(&source, false).unwrap(), &folder, name(&index.to_string())).unwrap();
        }
    }
}

fn clear(house: &House<'_>, how: Detach) -> Result<(), KernelError> {
    house.kernel.detach_tree(&house.root, name("binds"), how)
}

pub fn hundreds_of_sub_paths_go_at_once(world: &dyn World) {
    let house = with_volume(world);
    clear(&house, Detach::Normal).unwrap();
    let before = world.mount_count();
    for (containers, each, how) in
        [(1, 0, Detach::Normal), (1, 1, Detach::Normal), (3, 100, Detach::Normal), (2, 3, Detach::Lazy)]
    {
        bind_all(&house, containers, each);
        world.add_folder(&house.at("binds"));
        assert_eq!(world.mount_count(), before + containers * each);
        clear(&house, how).unwrap();
        assert_eq!(house.entry("binds"), Entry::Absent);
        assert_eq!(world.mount_count(), before);
        assert_eq!(world.read(&house.at("volume/dir/file")).unwrap(), b"inside");
        assert_eq!(world.read(&house.at("volume/dir/inner/data")).unwrap(), b"inner");
    }
}

pub fn mounts_on_sub_paths_go_too(world: &dyn World) {
    let house = with_volume(world);
    let before = world.mount_count();
    bind_all(&house, 1, 3);
    // On the sub-path itself, and in it.
    let folder = house.kernel.walk(&house.root, Path::new("binds/c0/0")).unwrap();
    house.kernel.attach(house.kernel.tmpfs(&[]).unwrap(), &folder, name("tmp")).unwrap();
    let inner = house.kernel.walk(&folder, Path::new("tmp")).unwrap();
    house.kernel.attach(house.bind(&house.at("volume/dir")), &inner, name("again")).unwrap();
    drop((folder, inner));
    clear(&house, Detach::Normal).unwrap();
    assert_eq!(world.mount_count(), before);
    assert_eq!(house.entry("binds"), Entry::Absent);
    assert_eq!(world.read(&house.at("volume/dir/file")).unwrap(), b"inside");
    world.remove(&house.at("volume/dir/tmp"));
}

pub fn empty_leftovers_of_sub_paths_are_removed(world: &dyn World) {
    let house = with_volume(world);
    // As after the machine's restart: the mounts are gone, their mount points are there.
    world.add_folder(&house.at("binds/c0/0"));
    world.add_folder(&house.at("binds/c1"));
    world.write(&house.at("binds/c0/1"), b"").unwrap();
    clear(&house, Detach::Normal).unwrap();
    assert_eq!(house.entry("binds"), Entry::Absent);
}

pub fn data_among_sub_paths_stays_and_is_named(world: &dyn World) {
    let house = with_volume(world);
    let outside = world.base().join("outside");
    let before = world.mount_count();
    bind_all(&house, 2, 4);
    world.write(&house.at("binds/c0/precious"), b"kept").unwrap();
    world.add_symlink(&house.at("binds/c1/link"), &outside);
    let error = clear(&house, Detach::Normal).unwrap_err();
    assert!(matches!(error, KernelError::NotEmpty { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("binds/c0/precious") || text.contains("binds/c1/link"), "{text}");
    assert_eq!(world.mount_count(), before, "all mounts are gone");
    assert_eq!(world.list(&house.at("binds/c0")), ["precious"]);
    assert_eq!(world.list(&house.at("binds/c1")), ["link"]);
    assert_eq!(world.list(&outside), ["data"]);
    world.remove(&house.at("binds/c0/precious"));
    world.remove(&house.at("binds/c1/link"));
    clear(&house, Detach::Normal).unwrap();
    assert_eq!(house.entry("binds"), Entry::Absent);
}

pub fn a_busy_sub_path_is_reported_and_the_others_go(world: &dyn World) {
    let house = with_volume(world);
    let before = world.mount_count();
    bind_all(&house, 2, 3);
    let hold = world.hold(&house.at("binds/c0/1"));
    let error = clear(&house, Detach::Normal).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(world.mount_count(), before + 1);
    assert_eq!(world.read(&house.at("binds/c0/1")).unwrap(), b"inside");
    clear(&house, Detach::Lazy).unwrap();
    assert_eq!(world.mount_count(), before);
    assert_eq!(house.entry("binds"), Entry::Absent);
    drop(hold);
}

pub fn a_mounted_or_linked_tree_is_detached_or_refused(world: &dyn World) {
    let house = with_volume(world);
    house.attach(house.bind(&house.at("volume/dir")), "binds");
    clear(&house, Detach::Normal).unwrap();
    assert_eq!(house.entry("binds"), Entry::Absent);
    assert!(world.exists(&house.at("volume/dir/file")));
    world.add_symlink(&house.at("binds"), &house.at("volume"));
    assert!(matches!(clear(&house, Detach::Normal).unwrap_err(), KernelError::SymbolicLink { .. }));
    world.remove(&house.at("binds"));
    world.write(&house.at("binds"), b"kept").unwrap();
    assert!(matches!(clear(&house, Detach::Normal).unwrap_err(), KernelError::WrongType { .. }));
    assert_eq!(world.read(&house.at("binds")).unwrap(), b"kept");
}
