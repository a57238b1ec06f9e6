use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use volhost_kernel::{
    Detach, Entry, ErrorKind, IdMap, IdRange, KernelError, OwnershipPolicy, OwnershipReport, OwnershipRequest,
    SourceKind,
};

use super::{House, World, name};

const GROUP: u32 = 4321;

fn request(policy: OwnershipPolicy) -> OwnershipRequest {
    OwnershipRequest { group: GROUP, policy, read_only: false, threads: 2 }
}

fn apply(house: &House<'_>, request: &OwnershipRequest) -> Result<OwnershipReport, KernelError> {
    house.kernel.apply_ownership(&house.root, name("volume"), request, &|_| ControlFlow::Continue(()))
}

/// A volume with two folders, four files and a link.
fn with_volume(world: &dyn World) -> House<'_> {
    let house = House::new(world);
    world.add_folder(&house.at("volume/dir/inner"));
    for (file, mode) in [("a", 0o600), ("dir/b", 0o644), ("dir/inner/c", 0o755), ("dir/inner/d", 0o4711)] {
        let path = house.at("volume").join(file);
        world.write(&path, b"x").unwrap();
        world.give(&path, 7, 8, mode);
    }
    for folder in ["volume/dir/inner", "volume/dir", "volume"] {
        world.give(&house.at(folder), 0, 0, 0o755);
    }
    world.add_symlink(&house.at("volume/link"), Path::new("dir/b"));
    house
}

pub fn a_volume_is_given_to_a_group_as_the_kubelet_does_it(world: &dyn World) {
    // The mode of the whole, read-only or not: file, file, executable, setuid, folder.
    for (read_only, modes) in
        [(false, [0o660, 0o664, 0o775, 0o4771, 0o2775]), (true, [0o640, 0o644, 0o755, 0o4751, 0o2755])]
    {
        let house = with_volume(world);
        let report = apply(&house, &OwnershipRequest { read_only, ..request(OwnershipPolicy::Always) }).unwrap();
        assert_eq!(report, OwnershipReport { visited: 8, changed: 8, skipped: false });
        let paths = ["a", "dir/b", "dir/inner/c", "dir/inner/d", "dir/inner"];
        for (path, mode) in paths.iter().zip(modes) {
            assert_eq!(world.mode_and_group(&house.at("volume").join(path)), (mode, GROUP), "{path}");
        }
        for folder in ["volume", "volume/dir"] {
            assert_eq!(world.mode_and_group(&house.at(folder)), (modes[4], GROUP), "{folder}");
        }
        assert_eq!(world.owner(&house.at("volume/a")), 7, "the user stays");
        let again = apply(&house, &OwnershipRequest { read_only, ..request(OwnershipPolicy::Always) }).unwrap();
        assert_eq!(again, OwnershipReport { visited: 8, changed: 0, skipped: false });
        house.kernel.delete_folder(&house.root, name("volume")).unwrap();
    }
}

pub fn a_root_that_matches_is_not_walked_unless_it_must_be(world: &dyn World) {
    // Mode and group of the root, read-only, and whether the walk is left out.
    let cases = [
        (0o2770, GROUP, false, true),
        (0o2777, GROUP, false, true),
        (0o2750, GROUP, false, false),
        (0o2750, GROUP, true, true),
        (0o2740, GROUP, true, false),
        (0o770, GROUP, false, false),
        (0o2760, GROUP, false, false),
        (0o2770, GROUP + 1, false, false),
    ];
    for (mode, group, read_only, skipped) in cases {
        let house = with_volume(world);
        world.give(&house.at("volume"), 0, group, mode);
        let wanted = OwnershipRequest { read_only, ..request(OwnershipPolicy::OnRootMismatch) };
        let case = format!("{mode:o} {group} {read_only}");
        assert_eq!(apply(&house, &wanted).unwrap().skipped, skipped, "{case}");
        assert_eq!(world.mode_and_group(&house.at("volume/a")).1 == GROUP, !skipped, "{case}");
        assert!(apply(&house, &wanted).unwrap().skipped, "{case}: a finished walk is known by its root");
        let always = apply(&house, &OwnershipRequest { policy: OwnershipPolicy::Always, ..wanted }).unwrap();
        assert!(!always.skipped && always.visited == 8, "{case}");
        house.kernel.delete_folder(&house.root, name("volume")).unwrap();
    }
}

pub fn links_and_mounts_are_not_followed_by_a_walk(world: &dyn World) {
    let house = with_volume(world);
    let outside = house.outside("outside");
    world.give(&outside.join("data"), 0, 0, 0o600);
    world.give(&outside, 0, 0, 0o700);
    world.add_symlink(&house.at("volume/out"), &outside);
    world.add_symlink(&house.at("volume/dir/file"), &outside.join("data"));
    world.add_symlink(&house.at("volume/dir/up"), Path::new("../.."));
    world.add_node(&house.at("volume/pipe"), SourceKind::Fifo);
    let volume = house.kernel.walk(&house.root, Path::new("volume")).unwrap();
    house.kernel.attach(house.bind(&outside), &volume, name("mount")).unwrap();
    house.kernel.attach(house.bind(&outside.join("data")), &volume, name("file-mount")).unwrap();
    let report = apply(&house, &request(OwnershipPolicy::Always)).unwrap();
    assert_eq!(report.visited, 12);
    assert_eq!(world.mode_and_group(&outside), (0o700, 0));
    assert_eq!(world.mode_and_group(&outside.join("data")), (0o600, 0));
    assert_eq!(world.mode_and_group(&house.at("volume/pipe")).1, GROUP);
    world.add_symlink(&house.at("link"), &outside);
    let error = house
        .kernel
        .apply_ownership(&house.root, name("link"), &request(OwnershipPolicy::Always), &|_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
    for mount in ["mount", "file-mount"] {
        house.kernel.detach(&volume, name(mount), Detach::Normal).unwrap();
    }
}

pub fn a_mounted_volume_is_given_and_its_mount_point_is_not(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    house.attach(house.bind(&source), "volume");
    apply(&house, &request(OwnershipPolicy::Always)).unwrap();
    assert_eq!(world.mode_and_group(&source), (0o2775, GROUP));
    house.kernel.detach(&house.root, name("volume"), Detach::Normal).unwrap();
    assert_eq!(house.entry("volume"), Entry::Absent);
}

pub fn what_a_walk_could_not_change_is_reported(world: &dyn World) {
    let house = House::new(world);
    let source = house.outside("source");
    for file in 0..30 {
        world.write(&source.join(format!("f{file}")), b"").unwrap();
    }
    let mount = house.bind(&source);
    house.kernel.set_options(&mount, &["ro"], false).unwrap();
    house.attach(mount, "volume");
    let error = apply(&house, &request(OwnershipPolicy::OnRootMismatch)).unwrap_err();
    let KernelError::OwnershipIncomplete { failed, first, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*failed, first.len()), (31, 10));
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let text = error.to_string();
    assert!(
        text.starts_with("volume: 31 of its files") && text.contains("EROFS") && text.contains("volume/"),
        "{text}"
    );
    assert_eq!(world.mode_and_group(&source).1, 0, "the root is not marked as done");
}

pub fn a_group_that_can_not_exist_is_refused(world: &dyn World) {
    let house = with_volume(world);
    let error = apply(&house, &OwnershipRequest { group: u32::MAX, ..request(OwnershipPolicy::Always) }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    for (target, kind) in [("absent", ErrorKind::NotFound), ("volume/../x", ErrorKind::InvalidArgument)] {
        let error = house
            .kernel
            .apply_ownership(&house.root, name(target), &request(OwnershipPolicy::Always), &|_| {
                ControlFlow::Continue(())
            })
            .unwrap_err();
        assert_eq!(error.kind(), kind);
    }
    world.write(&house.at("file"), b"").unwrap();
    let error = house
        .kernel
        .apply_ownership(&house.root, name("file"), &request(OwnershipPolicy::Always), &|_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(matches!(error, KernelError::WrongType { .. }), "{error:?}");
}

pub fn a_walk_reports_its_progress(world: &dyn World) {
    let house = House::new(world);
    for file in 0..5000 {
        let folder = house.at(&format!("volume/{}", file % 7));
        if file < 7 {
            world.add_folder(&folder);
        }
        world.write(&folder.join(format!("{file}")), b"").unwrap();
    }
    let (calls, last) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |so_far: volhost_kernel::OwnershipProgress| {
        assert!(so_far.changed <= so_far.visited);
        calls.fetch_add(1, Ordering::Relaxed);
        last.fetch_max(so_far.visited, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let report = house
        .kernel
        .apply_ownership(&house.root, name("volume"), &request(OwnershipPolicy::Always), &progress)
        .unwrap();
    assert_eq!(report.visited, 5008);
    assert!(calls.into_inner() >= 1 && last.into_inner() <= report.visited);
}

pub fn a_walk_that_is_cancelled_ends_early_and_is_not_taken_for_finished(world: &dyn World) {
    let house = House::new(world);
    world.add_folder(&house.at("volume"));
    for file in 0..20_000 {
        world.write(&house.at(&format!("volume/{file}")), b"").unwrap();
    }
    let cancel = |_| ControlFlow::Break(());
    let on_mismatch = request(OwnershipPolicy::OnRootMismatch);
    let error = house.kernel.apply_ownership(&house.root, name("volume"), &on_mismatch, &cancel).unwrap_err();
    assert!(matches!(error, KernelError::Cancelled { .. }), "{error:?}");
    let again = |_| ControlFlow::Continue(());
    let report = house.kernel.apply_ownership(&house.root, name("volume"), &on_mismatch, &again).unwrap();
    assert!(!report.skipped, "the root folder was left for the next walk");
}

fn map(stored: u32, seen: u32, count: u32) -> IdMap {
    let range = IdRange { stored, seen, count };
    IdMap { users: vec![range], groups: vec![range] }
}

pub fn an_id_map_is_shown_by_the_mount_and_set_once(world: &dyn World) {
    let house = House::new(world);
    let mount = house.bind(&house.outside("source"));
    house.kernel.idmapped(&mount, &map(0, 100_000, 1000)).unwrap();
    let error = house.kernel.idmapped(&mount, &map(0, 200_000, 1000)).unwrap_err();
    assert!(matches!(error, KernelError::FilesystemLacks { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    house.attach(mount, "volume");
    let found = house.kernel.mount_at(&house.root, name("volume")).unwrap().unwrap();
    assert!(found.options.contains(&"idmapped".to_owned()), "{found:?}");
}

pub fn a_bad_id_map_is_refused(world: &dyn World) {
    let house = House::new(world);
    let mount = house.bind(&house.outside("source"));
    let bad = [
        IdMap::default(),
        IdMap { groups: vec![], ..map(0, 0, 1) },
        map(0, 0, 0),
        map(u32::MAX, 0, 1),
        map(0, u32::MAX - 1, 2),
    ];
    for map in bad {
        let error = house.kernel.idmapped(&mount, &map).unwrap_err();
        assert!(matches!(error, KernelError::InvalidPath { .. }), "{map:?}: {error:?}");
    }
    house.kernel.idmapped(&mount, &map(0, 100_000, 1000)).unwrap();
}
