//! Walks over trees that are made for the test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::thread::ThreadId;

use super::*;

/// Panics once, on the first thread of the walk or on another.
struct Panics {
    first: ThreadId,
    on_first: bool,
    done: AtomicBool,
}

impl Visitor for Panics {
    fn folder(&self, _: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }

    fn entry(&self, _: BorrowedFd<'_>, _: &CStr) -> Result<bool, Errno> {
        let mine = (std::thread::current().id() == self.first) == self.on_first;
        assert!(!mine || self.done.swap(true, Ordering::Relaxed), "on purpose");
        Ok(true)
    }

    fn failed(&self, _: PathBuf, _: Errno) {}
}

struct Counts(AtomicUsize);

impl Visitor for Counts {
    fn folder(&self, _: BorrowedFd<'_>) -> Result<(), Errno> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn entry(&self, _: BorrowedFd<'_>, _: &CStr) -> Result<bool, Errno> {
        Ok(true)
    }

    fn failed(&self, path: PathBuf, errno: Errno) {
        panic!("{}: {errno}", path.display());
    }
}

#[test]
fn a_folder_of_many_folders_is_read_in_parts_so_that_few_of_them_wait() {
    const FOLDERS: usize = 4 * WAITING_FOLDERS;
    // In memory: a disk takes a minute for as many.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for inner in 0..FOLDERS {
        std::fs::create_dir(folder.path().join(format!("{inner}"))).unwrap();
    }
    let open = || rustix::fs::open(folder.path(), FOLDER, rustix::fs::Mode::empty()).unwrap();
    let visitor = Counts(AtomicUsize::new(0));
    let walk = Walk::new(&visitor, 1);
    let (root, fd) = root_of(open());
    let mut waiting = Vec::new();
    walk.list(&root, &fd, &mut waiting);
    assert!(waiting.len() < 2 * WAITING_FOLDERS, "{} folders wait at once", waiting.len());
    drop((walk, waiting));
    walk_tree(open(), 1, &visitor);
    assert_eq!(visitor.0.into_inner(), FOLDERS);
}

#[test]
fn few_folders_wait_in_a_tree_that_is_wide_on_each_level() {
    const LEVELS: usize = 9;
    const WIDE: usize = 1300;
    let top = tempfile::tempdir_in("/dev/shm").unwrap();
    let open = || rustix::fs::open(top.path(), FOLDER, rustix::fs::Mode::empty()).unwrap();
    let mut folder = top.path().to_owned();
    for _ in 0..LEVELS {
        for inner in 0..WIDE {
            std::fs::create_dir(folder.join(format!("{inner}"))).unwrap();
        }
        // The folder that is listed last is entered first.
        folder = std::fs::read_dir(&folder).unwrap().last().unwrap().unwrap().path();
    }
    let visitor = Counts(AtomicUsize::new(0));
    let walk = Walk::new(&visitor, 1);
    let (root, fd) = root_of(open());
    let (mut waiting, mut most) = (Vec::new(), 0);
    walk.list(&root, &fd, &mut waiting);
    while let Some(job) = waiting.pop() {
        walk.run(job, &mut waiting);
        most = most.max(waiting.len());
    }
    assert!(most < 2 * WAITING_FOLDERS + 32 * LEVELS, "{most} folders wait at once");
    drop(walk);
    assert_eq!(visitor.0.into_inner(), LEVELS * WIDE);
}

/// Takes note of what could not be done.
struct Fails(Mutex<Vec<(PathBuf, Errno)>>);

impl Visitor for Fails {
    fn folder(&self, _: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }

    fn entry(&self, _: BorrowedFd<'_>, _: &CStr) -> Result<bool, Errno> {
        Ok(true)
    }

    fn failed(&self, path: PathBuf, errno: Errno) {
        lock(&self.0).push((path, errno));
    }
}

#[test]
fn a_tree_of_too_many_levels_fails_with_a_short_path() {
    let top = tempfile::tempdir_in("/dev/shm").unwrap();
    let open = || rustix::fs::open(top.path(), FOLDER, rustix::fs::Mode::empty()).unwrap();
    let mut here = open();
    for _ in 0..=MOST_LEVELS {
        rustix::fs::mkdirat(&here, "inner", rustix::fs::Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, "inner", FOLDER, rustix::fs::Mode::empty()).unwrap();
    }
    let visitor = Fails(Mutex::new(Vec::new()));
    walk_tree(open(), 1, &visitor);
    let failures = visitor.0.into_inner().unwrap();
    let [(path, Errno::NAMETOOLONG)] = failures.as_slice() else { panic!("{failures:?}") };
    let shown = path.to_str().unwrap();
    assert!(shown.len() <= SHOWN_PATH + 8 && shown.starts_with("inner/inner") && shown.ends_with("/…"), "{shown}");
}

#[test]
fn a_visitor_that_panics_ends_the_walk() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..4000 {
        let inner = folder.path().join(format!("{}", file % 8));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join(format!("{file}")), b"").unwrap();
    }
    for on_first in [true, false] {
        // The other thread may come too late to a walk this short.
        let panicked = (0..1000).any(|_| {
            let root = rustix::fs::open(folder.path(), FOLDER, rustix::fs::Mode::empty()).unwrap();
            let visitor = Panics { first: std::thread::current().id(), on_first, done: AtomicBool::new(false) };
            let ended = catch_unwind(AssertUnwindSafe(|| walk_tree(root, 2, &visitor)));
            assert_eq!(ended.is_err(), visitor.done.into_inner());
            ended.is_err()
        });
        assert!(panicked);
    }
}
