//! Parts of messages: the kernel's words, and the way out.

use rustix::io::Errno;

use crate::step::Step;

/// The kernel's words with the constant's name: `No space left on device (ENOSPC)`.
pub(super) fn words(errno: Errno) -> String {
    let known = nix::errno::Errno::from_raw(errno.raw_os_error());
    format!("{} ({known:?})", known.desc())
}

pub(super) fn detail_suffix(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}

pub(super) fn said_suffix(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(". It said: {said}") }
}

pub(super) fn pid_suffix(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid}); stop it, or use another root folder"))
}

/// The way out, where there is one.
pub(super) fn hint(step: Step, errno: Errno) -> &'static str {
    match (step, errno) {
        (Step::Attach | Step::CloneMount, Errno::NOSPC) => {
            "; this namespace has as many mounts as it may, see fs.mount-max"
        }
        (Step::SetGroup, Errno::INVAL) => "; this user namespace has no such group",
        (_, Errno::NOSPC) => "; the file system is full or out of inodes",
        (_, Errno::DQUOT) => "; the disk quota is used up",
        (Step::Unmount | Step::UnmountRoot, Errno::BUSY) => "; a process uses it, fuser -vm names it",
        (Step::AttachLoop, Errno::BUSY) => "; other processes take every free loop device first, try again",
        (Step::DetachLoop, Errno::BUSY) => "; its device is mounted, pinned or opened, lsof and findmnt name the user",
        (Step::FormatDevice | Step::CheckFileSystem, Errno::BUSY) => {
            "; it is mounted, or a program uses it exclusively"
        }
        (_, Errno::STALE) => {
            "; it was removed on its server, and perhaps made again: a pod that uses the old one has to be deleted"
        }
        (_, Errno::BUSY) => "; something uses it, or something is mounted here",
        (Step::GrowFileSystem, Errno::PERM) => {
            "; a mounted ext file system grows only with CAP_SYS_RESOURCE, without it before it is mounted"
        }
        (_, Errno::PERM) => "; volhost needs CAP_SYS_ADMIN (run it as root), and the file must not be immutable",
        (Step::MountFileSystem, Errno::ACCESS) => "; the block device is read-only, so mount it read-only",
        (Step::MountFileSystem, Errno::ROFS) => {
            "; its journal must be replayed and the block device is read-only: mount it once on a device that can be written, \
             or give up what is in the journal (option noload or norecovery)"
        }
        (_, Errno::ACCESS) => "; volhost may not enter or change it",
        (_, Errno::ROFS) => "; the file system is mounted read-only",
        (_, Errno::XDEV) => "; it leads out of its folder or onto another mount",
        (_, Errno::MFILE | Errno::NFILE) => "; raise the limit of open files (LimitNOFILE)",
        // XFS says so of a device whose sectors are too large, and of a feature that it does not
        // know.
        (Step::MountFileSystem | Step::MountImage, Errno::NOSYS) => {
            "; this kernel cannot mount it as it is, and its log (dmesg) says why"
        }
        (_, Errno::NOSYS) => "; volhost needs Linux 5.12 or newer, and no seccomp filter in the way",
        _ => "",
    }
}
