//! Which system calls count as the cost of a volume.

use nix::libc;

use super::call::lasts;
use super::memory::{Raw, Stopped};

/// Newer than the C library's tables on some architectures; the number is the same on all that
/// volhost runs on.
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;
const OPEN_TREE_ATTR: i64 = 467;
/// The name of the threads that operations run on.
const WORKER: &str = "volhost-op";

/// The name of a call for files, folders and mounts. None for what depends on how threads happen to
/// run (waiting, waking, memory), and for what only a development build does.
pub(super) fn counted(thread: Stopped, raw: Raw) -> Option<&'static str> {
    let Raw { number, arguments } = raw;
    Some(match number {
        libc::SYS_openat => "openat",
        libc::SYS_openat2 => "openat2",
        libc::SYS_close => "close",
        libc::SYS_statx => "statx",
        libc::SYS_fstat | libc::SYS_newfstatat => "fstat",
        libc::SYS_readlinkat => "readlinkat",
        libc::SYS_getdents64 => "getdents64",
        libc::SYS_mkdirat => "mkdirat",
        libc::SYS_unlinkat => "unlinkat",
        libc::SYS_renameat | libc::SYS_renameat2 => "renameat",
        libc::SYS_fchmod => "fchmod",
        libc::SYS_fchown => "fchown",
        libc::SYS_ftruncate => "ftruncate",
        libc::SYS_lseek => "lseek",
        libc::SYS_open_tree => "open_tree",
        OPEN_TREE_ATTR => "open_tree_attr",
        libc::SYS_mount_setattr => "mount_setattr",
        libc::SYS_move_mount => "move_mount",
        libc::SYS_fsopen => "fsopen",
        libc::SYS_fsconfig => "fsconfig",
        libc::SYS_fsmount => "fsmount",
        libc::SYS_umount2 => "umount2",
        // The daemon checks the mount table at its own pace, on another thread.
        STATMOUNT if thread.name() == WORKER => "statmount",
        LISTMOUNT if thread.name() == WORKER => "listmount",
        // Rust's library asks in a development build whether a descriptor that it closes is open.
        libc::SYS_fcntl if !is_check_of_development_build(arguments[1]) => "fcntl",
        libc::SYS_write | libc::SYS_pwrite64 if lasts(&thread.descriptor(arguments[0])) => "write",
        libc::SYS_read | libc::SYS_pread64 if lasts(&thread.descriptor(arguments[0])) => "read",
        _ => return None,
    })
}

fn is_check_of_development_build(command: u64) -> bool {
    i32::try_from(command) == Ok(libc::F_GETFD)
}
