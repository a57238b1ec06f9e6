//! The same mounts by bare system calls: the floor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
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

fn bind(source: &Path, parent: BorrowedFd<'_>, name: &str) {
    let source = openat(CWD, source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("openat");
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    attach(&open_tree(&source, "", flags).expect("open_tree"), parent, name);
}

/// Binds `source` below `root` this many times, ten to a folder, and says how long it took.
pub(crate) fn binds(root: &Path, source: &Path, count: usize) -> Duration {
    wide_pods(root, source, 10, count / 10).into_iter().sum()
}

/// Binds `source` this many times to each of `count` folders below `root`: the times of a folder.
pub(crate) fn wide_pods(root: &Path, source: &Path, volumes: usize, count: usize) -> Vec<Duration> {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("openat");
    let one = |pod: usize| {
        let begun = Instant::now();
        let name = format!("pod-{pod}");
        mkdirat(&root, &name, Mode::from_raw_mode(0o750)).expect("mkdirat");
        let parent = folder(root.as_fd(), &name);
        for volume in 0..volumes {
            bind(source, parent.as_fd(), &format!("volume-{volume}"));
        }
        begun.elapsed()
    };
    (0..count).map(one).collect()
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

        bind(source, parent.as_fd(), "data");
        begun.elapsed()
    };
    (0..count).map(one).collect()
}

/// Unmounts what [`binds`] has mounted one by one and removes its folders; how long that took.
pub(crate) fn unbinds(root: &Path, count: usize) -> Duration {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("openat");
    let at = format!("/proc/self/fd/{}", root.as_raw_fd());
    let begun = Instant::now();
    for pod in 0..count / 10 {
        let name = format!("pod-{pod}");
        let parent = folder(root.as_fd(), &name);
        for volume in 0..10 {
            let volume = format!("volume-{volume}");
            unmount(format!("{at}/{name}/{volume}"), UnmountFlags::NOFOLLOW).expect("umount2");
            unlinkat(&parent, &volume, AtFlags::REMOVEDIR).expect("unlinkat");
        }
        unlinkat(&root, &name, AtFlags::REMOVEDIR).expect("unlinkat");
    }
    begun.elapsed()
}

/// Processor time of this thread so far.
pub(crate) fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts a thread's time");
    let time = text.split_whitespace().next().expect("a figure");
    Duration::from_nanos(time.parse().expect("a number"))
}

/// Unmounts everything below a folder that is a mount of its own, and that too.
pub(crate) fn unmount_all(root: &Path) {
    unmount(root, UnmountFlags::DETACH).expect("umount2");
}
