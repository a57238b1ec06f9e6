//! The same mounts by bare system calls: the floor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};

fn folder(at: BorrowedFd<'_>, name: &str) -> OwnedFd {
    openat(at, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).expect("openat")
}

fn attach(mount: &OwnedFd, parent: BorrowedFd<'_>, name: &str) {
    mkdirat(parent, name, Mode::from_raw_mode(0o750)).expect("mkdirat");
    let target = folder(parent, name);
    move_mount(
        mount,
        "",
        &target,
        "",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )
    .expect("move_mount");
}

/// Binds `source` below `root` this many times, ten to a folder, and says how long it took.
pub(crate) fn binds(root: &Path, source: &Path, count: usize) -> Duration {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("openat");
    let begun = Instant::now();
    for pod in 0..count / 10 {
        let name = format!("pod-{pod}");
        mkdirat(&root, &name, Mode::from_raw_mode(0o750)).expect("mkdirat");
        let parent = folder(root.as_fd(), &name);
        for volume in 0..10 {
            let source = openat(CWD, source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("openat");
            let flags =
                OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
            let mount = open_tree(&source, "", flags).expect("open_tree");
            attach(&mount, parent.as_fd(), &format!("volume-{volume}"));
        }
    }
    begun.elapsed()
}

/// What a pod with a folder, a tmpfs and a bind costs: the times of `count` such pods.
pub(crate) fn pods(root: &Path, source: &Path, count: usize) -> Vec<Duration> {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("openat");
    let one = |pod: usize| {
        let begun = Instant::now();
        let name = format!("pod-{pod}");
        mkdirat(&root, &name, Mode::from_raw_mode(0o750)).expect("mkdirat");
        let parent = folder(root.as_fd(), &name);
        mkdirat(&parent, "scratch", Mode::from_raw_mode(0o777)).expect("mkdirat");

        let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).expect("fsopen");
        fsconfig_set_string(&fs, "size", "1048576").expect("fsconfig");
        fsconfig_create(&fs).expect("fsconfig");
        let tmpfs = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).expect("fsmount");
        attach(&tmpfs, parent.as_fd(), "fast");

        let source = openat(CWD, source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("openat");
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        attach(&open_tree(&source, "", flags).expect("open_tree"), parent.as_fd(), "data");
        begun.elapsed()
    };
    (0..count).map(one).collect()
}

/// Unmounts everything below a folder that is a mount of its own, and that too.
pub(crate) fn unmount_all(root: &Path) {
    unmount(root, UnmountFlags::DETACH).expect("umount2");
}
