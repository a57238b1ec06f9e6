use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use super::{pod, pod_with, problems, removed, upserted, write};
use crate::ManifestFolder;

/// The content of a file without objects.
const NO_OBJECTS: &str = "apiVersion: v1\nkind: List\nitems: []\n";

fn start(files: &[(&str, String)]) -> (tempfile::TempDir, ManifestFolder) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        write(dir.path(), name, text);
    }
    let folder = ManifestFolder::open(dir.path());
    (dir, folder)
}

#[test]
fn files_added_changed_and_removed_are_noticed() {
    let (dir, mut folder) = start(&[
        ("a.yaml", pod("a")),
        ("b.json", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\"}}".into()),
    ]);
    let first = folder.reread();
    assert_eq!(upserted(&first), ["Pod default/a", "ConfigMap default/c"]);
    assert!(first.complete && first.problems.is_empty());
    assert!(folder.reread().is_empty());
    write(dir.path(), "a.yaml", &pod_with("a", "hostPath: {path: /x}"));
    write(dir.path(), "z.yml", &pod("z"));
    assert_eq!(upserted(&folder.reread()), ["Pod default/a", "Pod default/z"]);
    fs::remove_file(dir.path().join("a.yaml")).unwrap();
    let last = folder.reread();
    assert_eq!((upserted(&last), removed(&last)), (vec![], vec!["Pod default/a".to_owned()]));
}

#[test]
fn what_editors_leave_behind_and_sub_folders_are_not_read() {
    let (dir, mut folder) = start(&[
        (".a.yaml", pod("a")),
        ("a.yaml~", pod("a")),
        (".a.yaml.swp", pod("a")),
        ("#a.yaml#", pod("a")),
        ("a.txt", pod("a")),
    ]);
    fs::create_dir(dir.path().join("sub.yaml")).unwrap();
    write(&dir.path().join("sub.yaml"), "b.yaml", &pod("b"));
    let changes = folder.reread();
    assert!(changes.is_empty() && changes.complete, "{changes:?}");
}

#[test]
fn a_broken_file_keeps_its_pods_and_leaves_others_alone() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a")), ("b.yaml", pod("b"))]);
    folder.reread();
    write(dir.path(), "a.yaml", "kind: [\n");
    write(dir.path(), "b.yaml", &pod_with("b", "hostPath: {path: /x}"));
    let changes = folder.reread();
    assert_eq!((upserted(&changes), removed(&changes)), (vec!["Pod default/b".to_owned()], vec![]));
    assert!(problems(&changes).starts_with("a.yaml:"), "{}", problems(&changes));
    assert!(changes.complete, "every file has been good once");
    assert!(folder.reread().is_empty(), "an unsolved problem is reported once");
    write(dir.path(), "a.yaml", &pod("a"));
    let mended = folder.reread();
    assert_eq!((mended.cleared.clone(), removed(&mended)), (vec!["a.yaml".to_owned()], vec![]));
}

#[test]
fn a_file_that_was_emptied_keeps_its_pods() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a"))]);
    folder.reread();
    for left in ["", "\n", "# only the head was written\n"] {
        write(dir.path(), "a.yaml", left);
        let changes = folder.reread();
        assert!(removed(&changes).is_empty(), "{changes:?}");
        assert!(folder.problems().any(|problem| problem.messages.iter().any(|text| text.contains("is empty"))));
    }
    write(dir.path(), "a.yaml", NO_OBJECTS);
    assert_eq!(removed(&folder.reread()), ["Pod default/a"]);
}

#[test]
fn a_file_that_is_empty_at_the_first_reading_is_not_read() {
    for left in ["", "\n", "# only the head was written\n", "---\n"] {
        let (dir, mut folder) = start(&[("a.yaml", left.to_owned()), ("b.yaml", pod("b"))]);
        let changes = folder.reread();
        assert_eq!(upserted(&changes), ["Pod default/b"]);
        assert!(!changes.complete && problems(&changes).contains("a.yaml: is empty"), "{left:?}: {changes:?}");
        write(dir.path(), "a.yaml", NO_OBJECTS);
        assert!(folder.reread().complete, "{left:?}");
    }
}

#[test]
fn a_file_that_somebody_has_open_for_writing_is_not_read() {
    let (dir, mut folder) = start(&[("a.yaml", format!("{}---\n{}", pod("a"), pod("b")))]);
    // At the start, and when it was read before.
    for first in [true, false] {
        let mut writer = fs::File::create(dir.path().join("a.yaml")).unwrap();
        std::io::Write::write_all(&mut writer, pod("a").as_bytes()).unwrap();
        folder.forget_stamps();
        let changes = folder.reread();
        assert!(removed(&changes).is_empty() && upserted(&changes).is_empty(), "{changes:?}");
        assert_eq!(changes.complete, !first);
        assert_eq!(problems(&changes).contains("a.yaml: is being written"), first);
        assert!(folder.next_reading().is_some());
        std::io::Write::write_all(&mut writer, format!("---\n{}", pod("b")).as_bytes()).unwrap();
        drop(writer);
        folder.forget_stamps();
        assert_eq!(upserted(&folder.reread()).len(), if first { 2 } else { 0 });
        assert_eq!(folder.next_reading(), None);
    }
}

#[test]
fn a_file_that_stays_open_for_writing_is_reported_until_it_is_read() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a"))]);
    folder.reread();
    let begun = Instant::now();
    // The lease shows the first writer, inotify the second.
    for writing in [BTreeSet::new(), BTreeSet::from(["a.yaml".to_owned()])] {
        let mut writer = fs::File::create(dir.path().join("a.yaml")).unwrap();
        std::io::Write::write_all(&mut writer, b"# half").unwrap();
        let mut read_after = |seconds: u64| {
            folder.forget_stamps();
            let scan = folder.scan(&writing, &mut || false);
            folder.commit_at(scan, &BTreeSet::new(), begun + Duration::from_secs(seconds))
        };
        assert!(read_after(100).is_empty(), "writing takes a moment");
        assert!(read_after(109).is_empty());
        let late = read_after(110);
        assert!(problems(&late).contains("a.yaml: is being written"), "{late:?}");
        assert!(late.complete && removed(&late).is_empty());
        assert!(read_after(120).is_empty(), "a problem is reported once");
        drop(writer);
        write(dir.path(), "a.yaml", &pod("a"));
        assert_eq!(folder.reread().cleared, ["a.yaml"]);
    }
}

#[test]
fn the_files_that_keep_a_folder_from_being_complete_are_named() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a")), ("b.yaml", "# to do\n".to_owned())]);
    assert_eq!(folder.reread().unread, ["b.yaml"]);
    write(dir.path(), "b.yaml", NO_OBJECTS);
    assert!(folder.reread().unread.is_empty());
    // A file that was read once does not count as unread.
    write(dir.path(), "b.yaml", "kind: [");
    assert!(folder.reread().unread.is_empty());
    let missing = dir.path().join("nowhere");
    assert_eq!(ManifestFolder::open(&missing).reread().unread, [missing.display().to_string()]);
}

#[test]
fn a_file_that_is_missing_while_manifests_are_renamed_is_not_gone() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a"))]);
    let writing = Default::default();
    // It is not known what a first listing misses, either.
    let scan = folder.scan(&writing, &mut || true);
    assert!(!folder.commit(scan, &writing).complete);
    assert!(folder.reread().complete);
    let away = dir.path().with_extension("away");
    fs::rename(dir.path().join("a.yaml"), &away).unwrap();
    let scan = folder.scan(&writing, &mut || true);
    assert!(removed(&folder.commit(scan, &writing)).is_empty());
    assert_eq!(removed(&folder.reread()), ["Pod default/a"]);
    fs::remove_file(away).unwrap();
}

#[test]
fn a_file_that_is_being_written_is_not_believed() {
    let (dir, mut folder) = start(&[("a.yaml", format!("{}---\n{}", pod("a"), pod("b")))]);
    folder.reread();
    write(dir.path(), "a.yaml", &pod("a"));
    let writing = std::collections::BTreeSet::from(["a.yaml".to_owned()]);
    let scanned = folder.scan(&writing, &mut || false);
    assert!(folder.commit(scanned, &Default::default()).is_empty(), "known beforehand");
    let seen = folder.scan(&Default::default(), &mut || false);
    assert!(folder.commit(seen, &writing).is_empty(), "noticed while reading");
    assert_eq!(removed(&folder.reread()), ["Pod default/b"], "closed");
}

#[test]
fn an_unreadable_folder_removes_nothing() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a"))]);
    folder.reread();
    let away = dir.path().with_extension("away");
    fs::rename(dir.path(), &away).unwrap();
    let changes = folder.reread();
    assert!(removed(&changes).is_empty());
    assert!(problems(&changes).contains("the manifest folder cannot be read"), "{}", problems(&changes));
    fs::rename(&away, dir.path()).unwrap();
    let back = folder.reread();
    assert_eq!((removed(&back).len(), upserted(&back).len(), back.cleared.len()), (0, 0, 1));
}

#[test]
fn a_folder_that_was_never_read_is_not_complete() {
    let mut folder = ManifestFolder::open("/nonexistent/volhost-test");
    assert!(!folder.reread().complete);
    let (_dir, mut folder) = start(&[("a.yaml", pod("a")), ("bad.yaml", "kind: [".into())]);
    let changes = folder.reread();
    assert!(!changes.complete, "the pods of bad.yaml are unknown");
    assert_eq!(upserted(&changes), ["Pod default/a"]);
}

#[test]
fn a_pod_that_moves_between_files_stays() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a"))]);
    folder.reread();
    fs::rename(dir.path().join("a.yaml"), dir.path().join("0.yaml")).unwrap();
    let changes = folder.reread();
    assert!(removed(&changes).is_empty() && problems(&changes).is_empty(), "{changes:?}");
    assert_eq!(&*changes.upserted.first().unwrap().origin.file, "0.yaml");
}

#[test]
fn of_two_files_with_one_pod_the_one_that_had_it_counts() {
    let (dir, mut folder) = start(&[("b.yaml", pod("a"))]);
    folder.reread();
    write(dir.path(), "a.yaml", &format!("{}---\n{}", pod_with("a", "hostPath: {path: /x}"), pod("other")));
    let changes = folder.reread();
    assert_eq!(upserted(&changes), ["Pod default/other"]);
    assert_eq!(
        problems(&changes),
        "a.yaml:1: Pod default/a is in b.yaml:1 already; that one counts. Remove or rename one of them"
    );
    fs::remove_file(dir.path().join("b.yaml")).unwrap();
    let after = folder.reread();
    assert_eq!(
        (upserted(&after), removed(&after), after.cleared),
        (vec!["Pod default/a".to_owned()], vec![], vec!["a.yaml".to_owned()])
    );
}

#[test]
fn two_pods_with_one_uid_are_told_apart() {
    let with_uid =
        |name: &str| pod(name).replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, uid: same}}"));
    let (_dir, mut folder) = start(&[("a.yaml", with_uid("a")), ("b.yaml", with_uid("b"))]);
    let changes = folder.reread();
    assert_eq!(upserted(&changes), ["Pod default/a"]);
    assert!(
        problems(&changes).contains("Pod default/b has the uid of Pod default/a at a.yaml:1"),
        "{}",
        problems(&changes)
    );
}

#[test]
fn unreadable_files_are_told_and_keep_their_pods() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a")), ("b.yaml", pod("b")), ("c.yaml", pod("c"))]);
    folder.reread();
    fs::write(dir.path().join("a.yaml"), b"kind: Pod\nname: \xff\n").unwrap();
    fs::File::create(dir.path().join("b.yaml")).unwrap().set_len(crate::listing::MAX_FILE_BYTES + 1).unwrap();
    fs::remove_file(dir.path().join("c.yaml")).unwrap();
    symlink("nowhere", dir.path().join("c.yaml")).unwrap();
    let changes = folder.reread();
    assert!(removed(&changes).is_empty(), "{changes:?}");
    let text = problems(&changes);
    assert!(text.contains("a.yaml:2: is not UTF-8"), "{text}");
    assert!(text.contains("b.yaml: has 8388609 bytes, 8388608 at most"), "{text}");
    assert!(text.contains("c.yaml: cannot be read: No such file"), "{text}");
}

#[test]
fn a_pipe_does_not_stop_the_reading() {
    let (dir, mut folder) = start(&[("a.yaml", pod("a"))]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("p.yaml"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let changes = folder.reread();
    assert_eq!(upserted(&changes), ["Pod default/a"]);
    assert!(problems(&changes).contains("p.yaml: is not a regular file"));
}

#[test]
fn a_mounted_config_map_works_as_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    for (version, name) in [("..v1", "a"), ("..v2", "b")] {
        fs::create_dir(dir.path().join(version)).unwrap();
        write(&dir.path().join(version), "pods.yaml", &pod(name));
    }
    symlink("..v1", dir.path().join("..data")).unwrap();
    symlink("..data/pods.yaml", dir.path().join("pods.yaml")).unwrap();
    let mut folder = ManifestFolder::open(dir.path());
    assert_eq!(upserted(&folder.reread()), ["Pod default/a"]);
    symlink("..v2", dir.path().join("..data_tmp")).unwrap();
    fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    let changes = folder.reread();
    assert_eq!(
        (upserted(&changes), removed(&changes)),
        (vec!["Pod default/b".to_owned()], vec!["Pod default/a".to_owned()])
    );
}
