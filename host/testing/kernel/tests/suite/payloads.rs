use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use volhost_kernel::{Entry, ErrorKind, FsOption, KernelError, Payload, PayloadFile};

use super::{House, World, name};

/// A payload of files with mode 0644.
fn files(files: &[(&str, &str)]) -> Payload {
    let files = files.iter().map(|(path, text)| PayloadFile::new(*path, text.as_bytes(), 0o644)).collect();
    Payload { files, ..Payload::default() }
}

fn publish(house: &House<'_>, payload: &Payload) -> Result<bool, KernelError> {
    house.kernel.publish_payload(&house.root, name("volume"), payload).map(|published| published.changed)
}

/// A house with an empty volume.
fn with_volume(world: &dyn World) -> House<'_> {
    let house = House::new(world);
    world.add_folder(&house.at("volume"));
    house
}

/// Returns what a pod sees that opens the visible names: path, content.
fn seen(house: &House<'_>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(rel) = pending.pop() {
        let folder = house.at("volume").join(&rel);
        for entry in house.world.list(&folder) {
            if rel.as_os_str().is_empty() && entry.to_str().unwrap().starts_with("..") {
                continue;
            }
            match house.world.read(&folder.join(&entry)) {
                Ok(bytes) => {
                    let path = rel.join(&entry).to_str().unwrap().to_owned();
                    all.insert(path, String::from_utf8(bytes).unwrap());
                }
                Err(_) => pending.push(rel.join(&entry)),
            }
        }
    }
    all
}

fn expected(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Names of the host's own in the volume: `..data` and one folder, if all is well.
fn own_names(house: &House<'_>) -> Vec<String> {
    let names = house.world.list(&house.at("volume"));
    names.iter().map(|name| name.to_str().unwrap().to_owned()).filter(|name| name.starts_with("..")).collect()
}

fn assert_clean(house: &House<'_>, case: &str) {
    let names = own_names(house);
    assert_eq!(names.len(), 2, "{case}: {names:?}");
    let live = house.world.link_target(&house.at("volume/..data")).unwrap();
    assert!(names.contains(&live.to_str().unwrap().to_owned()) && names.contains(&"..data".to_owned()), "{case}");
}

pub fn a_payload_is_published_with_content_modes_and_owners(world: &dyn World) {
    let house = with_volume(world);
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("one file", &[("foo", "text")]),
        ("two files", &[("foo", "a"), ("bar", "b")]),
        ("an empty file", &[("empty", "")]),
        ("a file in a folder", &[("dir/foo", "a")]),
        ("two files in a folder", &[("dir/foo", "a"), ("dir/bar", "b")]),
        ("the same name in two folders", &[("one/foo", "a"), ("two/foo", "b")]),
        ("a deep path", &[("a/b/c/d/e/f", "deep")]),
        ("a folder and a file beside it", &[("dir/foo", "a"), ("dir.txt", "b")]),
        ("folders in folders", &[("foo", "0"), ("bar/foo", "1"), ("bar/zab/file", "2"), ("bar/bar", "3")]),
        ("hidden files", &[(".foo", "a"), ("dir/.bar", "b")]),
        ("text with line ends", &[("foo", "a\r\n\n\0b")]),
        ("nothing", &[]),
    ];
    for (case, set) in cases {
        world.add_folder(&house.at("volume"));
        assert!(publish(&house, &files(set)).unwrap(), "{case}");
        assert_eq!(seen(&house), expected(set), "{case}");
        assert_clean(&house, case);
        house.kernel.delete_folder(&house.root, name("volume")).unwrap();
    }
    world.add_folder(&house.at("volume"));
    let mut payload = files(&[("plain", "a"), ("dir/inner", "b")]);
    payload.files.push(PayloadFile { owner: Some(7), ..PayloadFile::new("token", *b"\xff\0secret", 0o4600) });
    payload.files.push(PayloadFile::new("shut", *b"c", 0));
    (payload.owner, payload.group, payload.folder_mode) = (Some(1001), Some(2002), 0o2750);
    publish(&house, &payload).unwrap();
    let at = |path: &str| house.at("volume").join(path);
    for (path, mode, owner) in
        [("plain", 0o644, 1001), ("dir/inner", 0o644, 1001), ("token", 0o4600, 7), ("shut", 0, 1001)]
    {
        assert_eq!(world.mode_and_group(&at(path)), (mode, 2002), "{path}");
        assert_eq!(world.owner(&at("..data").join(path)), owner, "{path}");
    }
    assert_eq!(world.mode_and_group(&at("dir")), (0o2750, 2002));
    assert_eq!(world.mode_and_group(&at("..data")), (0o2750, 2002));
    assert_eq!((world.owner(&at("..data")), world.owner(&at("plain"))), (1001, 1001), "links");
    assert_eq!(world.read(&at("token")).unwrap(), b"\xff\0secret");
    assert!(!format!("{payload:?}").contains("secret"), "no content in messages");
}

type Set = &'static [(&'static str, &'static str)];

pub fn a_payload_is_updated_to_exactly_the_new_set(world: &dyn World) {
    let cases: &[(&str, Set, Set)] = &[
        ("a file changes", &[("foo", "old")], &[("foo", "new")]),
        ("a file of the same length changes", &[("foo", "aaa")], &[("foo", "aab")]),
        ("a file comes", &[("foo", "a")], &[("foo", "a"), ("bar", "b")]),
        ("a file goes", &[("foo", "a"), ("bar", "b")], &[("foo", "a")]),
        ("one comes and one goes", &[("foo", "a")], &[("bar", "a")]),
        ("all go", &[("foo", "a"), ("dir/bar", "b")], &[]),
        ("from nothing", &[], &[("foo", "a")]),
        ("a folder goes", &[("foo", "a"), ("dir/bar", "b")], &[("foo", "a")]),
        ("a file in a folder goes", &[("dir/foo", "a"), ("dir/bar", "b")], &[("dir/foo", "a")]),
        ("a folder in a folder goes", &[("d/a/x", "1"), ("d/b/x", "2")], &[("d/a/x", "1")]),
        ("two folders go", &[("a/x", "1"), ("b/x", "2"), ("c", "3")], &[("c", "3")]),
        ("a file becomes a folder", &[("x", "1")], &[("x/y", "2")]),
        ("a folder becomes a file", &[("x/y", "2")], &[("x", "1")]),
        ("a file moves into a folder", &[("x", "1")], &[("dir/x", "1")]),
        ("a folder is renamed", &[("old/x", "1")], &[("new/x", "1")]),
        ("a deep file comes", &[("a/b", "1")], &[("a/b", "1"), ("a/c/d", "2")]),
    ];
    let house = House::new(world);
    for (case, before, after) in cases {
        world.add_folder(&house.at("volume"));
        publish(&house, &files(before)).unwrap();
        assert!(publish(&house, &files(after)).unwrap(), "{case}");
        assert_eq!(seen(&house), expected(after), "{case}");
        assert_clean(&house, case);
        house.kernel.delete_folder(&house.root, name("volume")).unwrap();
    }
}

pub fn many_updates_in_a_row_leave_one_set(world: &dyn World) {
    let house = with_volume(world);
    let sets: [Set; 7] = [
        &[("foo", "1")],
        &[("foo", "2"), ("bar/a", "2")],
        &[("bar/b", "3")],
        &[],
        &[("foo", "1")],
        &[("foo/x", "4"), ("bar", "4")],
        &[("foo", "5"), ("bar", "4")],
    ];
    for (round, set) in sets.iter().cycle().take(30).enumerate() {
        publish(&house, &files(set)).unwrap();
        assert_eq!(seen(&house), expected(set), "{round}");
        assert_clean(&house, &round.to_string());
    }
}

pub fn the_same_payload_again_writes_nothing(world: &dyn World) {
    let house = with_volume(world);
    let mut payload = files(&[("foo", "a"), ("dir/bar", "b")]);
    for (owner, group) in [(None, None), (Some(5), Some(6))] {
        (payload.owner, payload.group) = (owner, group);
        assert!(publish(&house, &payload).unwrap());
        let live = world.link_target(&house.at("volume/..data")).unwrap();
        payload.files.reverse();
        assert!(!publish(&house, &payload).unwrap());
        assert_eq!(world.link_target(&house.at("volume/..data")).unwrap(), live);
        assert_clean(&house, "again");
    }
}

pub fn a_mode_or_owner_alone_is_published(world: &dyn World) {
    let house = with_volume(world);
    let mut payload = files(&[("foo", "a"), ("dir/bar", "b")]);
    publish(&house, &payload).unwrap();
    let at = |path: &str| house.at("volume").join(path);
    payload.files[0].mode = 0o600;
    assert!(publish(&house, &payload).unwrap());
    assert_eq!(world.mode_and_group(&at("foo")).0, 0o600);
    payload.group = Some(77);
    assert!(publish(&house, &payload).unwrap());
    assert_eq!(world.mode_and_group(&at("dir/bar")), (0o644, 77));
    payload.owner = Some(78);
    assert!(publish(&house, &payload).unwrap());
    assert_eq!(world.owner(&at("..data/foo")), 78);
    payload.files[1].owner = Some(79);
    assert!(publish(&house, &payload).unwrap());
    assert_eq!(world.owner(&at("..data/dir/bar")), 79);
    payload.folder_mode = 0o700;
    assert!(publish(&house, &payload).unwrap());
    assert_eq!(world.mode_and_group(&at("dir")).0, 0o700);
    (payload.owner, payload.group, payload.files[1].owner) = (None, None, None);
    assert!(publish(&house, &payload).unwrap());
    assert_eq!((world.owner(&at("..data/dir/bar")), world.mode_and_group(&at("dir/bar")).1), (0, 0));
    assert!(!publish(&house, &payload).unwrap());
    assert_clean(&house, "modes");
}

pub fn missing_links_are_put_back(world: &dyn World) {
    let house = with_volume(world);
    let set: Set = &[("foo", "a"), ("dir/bar", "b"), ("zab", "c")];
    publish(&house, &files(set)).unwrap();
    // As a kubelet killed before it made them, see kubernetes/kubernetes issue 121472.
    for link in ["foo", "dir"] {
        world.remove(&house.at("volume").join(link));
    }
    assert!(publish(&house, &files(set)).unwrap());
    assert_eq!(seen(&house), expected(set));
    assert!(!publish(&house, &files(set)).unwrap());
}

pub fn what_a_crash_left_over_does_not_block(world: &dyn World) {
    let house = with_volume(world);
    let at = |path: &str| house.at("volume").join(path);
    let set: Set = &[("foo", "new")];
    let stale = "..2016_06_27_00_00_00.1234567";
    // What was left, and whether there was a set before.
    type Leave<'a> = &'a dyn Fn();
    let half_written: Leave<'_> = &|| {
        world.add_folder(&at(stale).join("dir"));
        world.write(&at(stale).join("dir/half"), b"ha").unwrap();
    };
    let half_linked: Leave<'_> = &|| world.add_symlink(&at("..data_tmp"), Path::new(stale));
    let both: Leave<'_> = &|| {
        half_written();
        half_linked();
    };
    let stale_link: Leave<'_> = &|| world.add_symlink(&at("gone"), Path::new("..data/gone"));
    let dangling: Leave<'_> = &|| {
        world.remove(&at("..data"));
        world.add_symlink(&at("..data"), Path::new(stale));
    };
    let leaves = [
        ("half written", half_written),
        ("half linked", half_linked),
        ("both", both),
        ("a stale link", stale_link),
        ("a set that is gone", dangling),
    ];
    for (case, leave) in leaves {
        for target in [set, &[("foo", "old")]] {
            publish(&house, &files(&[("foo", "old")])).unwrap();
            leave();
            publish(&house, &files(target)).unwrap();
            assert_eq!(seen(&house), expected(target), "{case}");
            assert_clean(&house, case);
        }
    }
}

pub fn what_a_pod_planted_is_not_followed(world: &dyn World) {
    let house = with_volume(world);
    let outside = house.outside("outside");
    let stale = "..2016_06_27_00_00_00.1234567";
    let before = world.list(&outside);
    let set: Set = &[("foo", "new"), ("dir/bar", "b")];
    for planted in ["..data", "..data_tmp", "foo", "dir", stale] {
        for target in [&*outside, &outside.join("data"), Path::new("..2016_06_27_00_00_00.1"), Path::new(stale)] {
            publish(&house, &files(&[("foo", "old")])).unwrap();
            let place = house.at("volume").join(planted);
            if world.link_target(&place).is_some() {
                world.remove(&place);
            }
            world.add_symlink(&place, target);
            publish(&house, &files(set)).unwrap();
            assert_eq!(seen(&house), expected(set), "{planted} -> {}", target.display());
            if planted == stale {
                world.remove(&place);
            }
            assert_eq!(world.list(&outside), before);
            assert_eq!(world.read(&outside.join("data")).unwrap(), b"precious");
            assert_eq!(world.mode_and_group(&outside.join("data")), (0o644, 0));
        }
    }
    // Inside the set itself: where files and folders were.
    for planted in ["foo", "dir", "dir/bar"] {
        publish(&house, &files(set)).unwrap();
        let live = house.at("volume").join(world.link_target(&house.at("volume/..data")).unwrap());
        if planted == "dir" {
            world.remove(&live.join("dir/bar"));
        }
        world.remove(&live.join(planted));
        world.add_symlink(&live.join(planted), &outside);
        assert!(publish(&house, &files(set)).unwrap(), "{planted}");
        assert_eq!(seen(&house), expected(set), "{planted}");
        assert_eq!(world.list(&outside), before);
    }
    // The volume itself.
    world.add_symlink(&house.at("link"), &outside);
    let error = house.kernel.publish_payload(&house.root, name("link"), &files(set)).unwrap_err();
    assert!(matches!(error, KernelError::SymbolicLink { .. }), "{error:?}");
    assert_eq!(world.list(&outside), before);
}

pub fn a_pods_own_files_stay(world: &dyn World) {
    let house = with_volume(world);
    let at = |path: &str| house.at("volume").join(path);
    publish(&house, &files(&[("foo", "a"), ("bar", "b")])).unwrap();
    world.write(&at("mine"), b"kept").unwrap();
    world.write(&at("..mine"), b"kept").unwrap();
    world.write(&at("..2016_06_27_00_00_00.5"), b"kept").unwrap();
    world.add_folder(&at("..2016-06-27"));
    world.add_folder(&at("nested"));
    world.write(&at("nested/data"), b"kept").unwrap();
    world.add_symlink(&at("link"), Path::new("..data/foo"));
    publish(&house, &files(&[("foo", "c"), ("nested/x", "hidden by the pod's own folder")])).unwrap();
    for kept in ["mine", "..mine", "..2016_06_27_00_00_00.5", "nested/data"] {
        assert_eq!(world.read(&at(kept)).unwrap(), b"kept", "{kept}");
    }
    assert!(world.exists(&at("..2016-06-27")));
    assert_eq!(world.read(&at("link")).unwrap(), b"c");
    assert_eq!(world.link_target(&at("bar")), None, "what is no longer in the set is gone");
}

pub fn what_a_pod_changed_in_the_set_is_put_right(world: &dyn World) {
    let house = with_volume(world);
    let set: Set = &[("foo", "aaa"), ("dir/bar", "b")];
    let at = |path: &str| house.at("volume").join(path);
    type Change<'a> = (&'a str, &'a dyn Fn());
    let changes: [Change<'_>; 6] = [
        ("content", &|| world.write(&at("foo"), b"bbb").unwrap()),
        ("length", &|| world.write(&at("foo"), b"aaaa").unwrap()),
        ("mode", &|| world.give(&at("..data/foo"), 0, 0, 0o777)),
        ("owner", &|| world.give(&at("..data/dir"), 9, 9, 0o755)),
        ("an extra file", &|| world.write(&at("..data/extra"), b"x").unwrap()),
        ("a missing file", &|| world.remove(&at("..data/dir/bar"))),
    ];
    for (case, change) in changes {
        publish(&house, &files(set)).unwrap();
        change();
        assert!(publish(&house, &files(set)).unwrap(), "{case}");
        assert_eq!(seen(&house), expected(set), "{case}");
        assert_eq!(world.list(&at("..data")), ["dir", "foo"], "{case}");
        assert_eq!(world.mode_and_group(&at("foo")).0, 0o644, "{case}");
        assert_clean(&house, case);
    }
}

pub fn a_folder_in_the_protocols_place_is_named(world: &dyn World) {
    let house = with_volume(world);
    for planted in ["..data", "..data_tmp"] {
        let folder = house.at("volume").join(planted);
        world.add_folder(&folder);
        world.write(&folder.join("data"), b"kept").unwrap();
        let error = publish(&house, &files(&[("foo", "a")])).unwrap_err();
        assert!(matches!(error, KernelError::WrongType { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("volume/{planted}")), "{error}");
        assert_eq!(world.list(&house.at("volume")), [planted], "nothing is left behind");
        assert_eq!(world.read(&folder.join("data")).unwrap(), b"kept");
        world.remove(&folder.join("data"));
        world.remove(&folder);
    }
    let error = house.kernel.publish_payload(&house.root, name("absent"), &files(&[])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(house.entry("absent"), Entry::Absent);
}

pub fn a_mount_shows_a_payload(world: &dyn World) {
    let house = House::new(world);
    let options = [FsOption::new("size", "1m"), FsOption::new("mode", "0755")];
    house.attach(house.kernel.tmpfs(&options).unwrap(), "volume");
    let set: Set = &[("foo", "a"), ("dir/bar", "b")];
    publish(&house, &files(set)).unwrap();
    assert_eq!(seen(&house), expected(set));
    assert_clean(&house, "mount");
    house.kernel.detach(&house.root, name("volume"), volhost_kernel::Detach::Normal).unwrap();
    assert_eq!(house.entry("volume"), Entry::Absent, "no handle is left on it");
}

pub fn a_full_volume_keeps_the_old_set(world: &dyn World) {
    let house = House::new(world);
    house.attach(house.kernel.tmpfs(&[FsOption::new("size", "1m")]).unwrap(), "volume");
    let set: Set = &[("foo", "old"), ("dir/bar", "b")];
    publish(&house, &files(set)).unwrap();
    let mut large = files(&[("foo", "new")]);
    large.files.push(PayloadFile::new("large", vec![1; 2 << 20], 0o644));
    let error = publish(&house, &large).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("large"), "{error}");
    assert_eq!(seen(&house), expected(set));
    assert_clean(&house, "full");
}
