//! Which system calls can change what the next start finds.

use std::fmt;
use std::path::Path;

use nix::libc;

use super::memory::{Raw, Stopped};

/// A call after which the node may be another than before, in words.
///
/// Left out are calls whose effect ends with the process: opening, reading, sockets, memory, mounts
/// that are not attached yet, and what a thread does in a mount namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call(String);

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Requests of devices and file systems: from linux/loop.h,
const REQUESTS: &[(u64, &str)] = &[
    (0x4c00, "LOOP_SET_FD"),
    (0x4c01, "LOOP_CLR_FD"),
    (0x4c02, "LOOP_SET_STATUS"),
    (0x4c04, "LOOP_SET_STATUS64"),
    (0x4c06, "LOOP_CHANGE_FD"),
    (0x4c07, "LOOP_SET_CAPACITY"),
    (0x4c08, "LOOP_SET_DIRECT_IO"),
    (0x4c0a, "LOOP_CONFIGURE"),
    (0x4c80, "LOOP_CTL_ADD"),
    (0x4c81, "LOOP_CTL_REMOVE"),
    (0x4c82, "LOOP_CTL_GET_FREE"),
    // and from linux/fs.h, xfs_fs.h, ext4.h and btrfs.h.
    (0x1277, "BLKDISCARD"),
    (0x127f, "BLKZEROOUT"),
    (0x4010_586e, "XFS_IOC_FSGROWFSDATA"),
    (0x4008_6610, "EXT4_IOC_RESIZE_FS"),
    (0x5000_9403, "BTRFS_IOC_RESIZE"),
    (0xc004_5877, "FIFREEZE"),
    (0xc004_5878, "FITHAW"),
];
/// From linux/mount.h: the commands of `fsconfig` that act.
const FSCONFIG_CREATE: u64 = 6;
const FSCONFIG_RECONFIGURE: u64 = 7;
/// The daemon's own log, which nothing is read from.
const LOG: &str = "volhost.log";

impl Call {
    /// The call that a thread is about to make, if it is one of these.
    pub(super) fn of(thread: Stopped, raw: Raw) -> Option<Self> {
        let Raw { number, arguments: a } = raw;
        let path = |argument: usize| thread.text(a[argument]);
        // In a mount namespace that ends with its thread nothing that is made lasts.
        let at = |name: &str, argument: usize| {
            if thread.is_confined() { None } else { Some(format!("{name} {}", path(argument))) }
        };
        let on = |name: &str| Some(format!("{name} {}", last(&thread.descriptor(a[0]))));
        let said = match number {
            libc::SYS_mkdirat => at("mkdirat", 1),
            libc::SYS_unlinkat => at("unlinkat", 1),
            libc::SYS_symlinkat => at("symlinkat", 2),
            libc::SYS_linkat => at("linkat", 3),
            libc::SYS_mknodat => at("mknodat", 1),
            libc::SYS_renameat | libc::SYS_renameat2 => at("renameat", 3),
            libc::SYS_openat if creates(a[2]) => at("openat to create", 1),
            libc::SYS_openat2 if creates(thread.word(a[2])) => at("openat2 to create", 1),
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2
                if lasts(&thread.descriptor(a[0])) =>
            {
                on("write")
            }
            libc::SYS_copy_file_range | libc::SYS_sendfile if lasts(&thread.descriptor(a[0])) => on("copy"),
            libc::SYS_ftruncate => on("ftruncate"),
            libc::SYS_fallocate => on("fallocate"),
            libc::SYS_truncate => at("truncate", 0),
            libc::SYS_fchmod => on("fchmod"),
            libc::SYS_fchown => on("fchown"),
            libc::SYS_fchmodat | libc::SYS_fchmodat2 => at("fchmodat", 1),
            libc::SYS_fchownat => at("fchownat", 1),
            libc::SYS_fsetxattr => on("fsetxattr"),
            libc::SYS_mount => at("mount", 1),
            libc::SYS_umount2 => at("umount", 0),
            libc::SYS_move_mount => at("move_mount", 3),
            libc::SYS_fsconfig if matches!(a[1], FSCONFIG_CREATE | FSCONFIG_RECONFIGURE) && !thread.is_confined() => {
                Some("fsconfig to make the file system's mount".to_owned())
            }
            libc::SYS_ioctl => {
                let known = REQUESTS.iter().find(|(request, _)| *request == a[1] & 0xffff_ffff);
                known.and_then(|(_, name)| on(name))
            }
            libc::SYS_clone if starts_program(a[0]) => Some("start of a program".to_owned()),
            libc::SYS_clone3 if starts_program(thread.word(a[0])) => Some("start of a program".to_owned()),
            // The daemon waits for its programs by this: here one runs.
            libc::SYS_pidfd_open => Some("beside a running program".to_owned()),
            number => older(number, &at),
        };
        said.map(Self)
    }
}

/// Calls that only old processors have.
#[cfg(target_arch = "x86_64")]
fn older(number: i64, at: &dyn Fn(&str, usize) -> Option<String>) -> Option<String> {
    match number {
        libc::SYS_mkdir => at("mkdir", 0),
        libc::SYS_rmdir => at("rmdir", 0),
        libc::SYS_unlink => at("unlink", 0),
        libc::SYS_rename => at("rename", 1),
        libc::SYS_symlink => at("symlink", 1),
        libc::SYS_link => at("link", 1),
        libc::SYS_creat => at("creat", 0),
        libc::SYS_chmod => at("chmod", 0),
        libc::SYS_chown | libc::SYS_lchown => at("chown", 0),
        libc::SYS_vfork | libc::SYS_fork => Some("start of a program".to_owned()),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn older(_: i64, _: &dyn Fn(&str, usize) -> Option<String>) -> Option<String> {
    None
}

fn creates(flags: u64) -> bool {
    let bit = |flag: libc::c_int| u64::try_from(flag).expect("flags are not negative");
    flags & bit(libc::O_CREAT) != 0
}

/// Whether these flags of clone(2) start a process, and not a thread.
fn starts_program(flags: u64) -> bool {
    let thread = u64::try_from(libc::CLONE_THREAD).expect("flags are not negative");
    flags & thread == 0
}

/// A file or a device, and not the log.
pub(super) fn lasts(path: &Path) -> bool {
    path.is_absolute() && !path.ends_with(LOG) && path != Path::new("/dev/null") && !path.starts_with("/memfd:")
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
