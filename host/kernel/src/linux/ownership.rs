//! Giving a volume to a group: see `tree` for the walk. What is changed is named by a descriptor,
//! or by one name in an open folder without following a link; never by a path.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::syscall::fchmodat2;
use super::tree::{Visitor, walk_tree};
use super::walk::{FOLDER, open_beneath, proc_path};
use super::walk_progress::WalkProgress;
use crate::error::{KernelError, Result};
use crate::handle::{DetachedMount, Directory};
use crate::names::{check_group, check_name, label, text};
use crate::ownership::{
    IdMap, OnProgress, Ownership, OwnershipPolicy, OwnershipProgress, OwnershipReport, OwnershipRequest, wanted_mode,
};
use crate::step::Step;

/// How many failures are reported one by one.
const SHOWN_FAILURES: usize = 10;
/// Files between two reports of progress.
const PROGRESS_FILES: u64 = 4096;
const MODE_BITS: u32 = 0o7777;
/// The bits that a change of the group clears.
const SET_ID_BITS: u32 = 0o6000;

impl Ownership for LinuxKernel {
    fn apply_ownership(
        &self,
        folder: &Directory,
        name: &OsStr,
        request: &OwnershipRequest,
        progress: OnProgress<'_>,
    ) -> Result<OwnershipReport> {
        check_name(name)?;
        check_group(request.group)?;
        let shown = label(&folder.label, name);
        let opening = |errno| KernelError::walking(Step::OpenFolder, text(&shown), errno);
        let failed = |errno| KernelError::failed(Step::ApplyOwnership, text(&shown), errno);
        let root = open_beneath(folder.as_fd(), name, FOLDER).map_err(opening)?;
        let giving = OwnershipWalk::new(request, &shown, progress);
        let seen = look(root.as_fd(), c"").map_err(failed)?;
        if request.policy == OwnershipPolicy::OnRootMismatch && giving.is_root_done(&seen) {
            return Ok(OwnershipReport { visited: 1, changed: 0, skipped: true });
        }
        // Listed through another opening, for the position in a folder belongs to that.
        let listed = open_beneath(&root, ".", FOLDER).map_err(opening)?;
        walk_tree(listed, request.threads, &giving);
        giving.check()?;
        if giving.stopped() {
            let visited = giving.counts.now().visited;
            return Err(KernelError::Cancelled { path: text(&shown), visited });
        }
        // Last: the root marks that all below it is done.
        giving.folder(root.as_fd()).map_err(failed)?;
        giving.check()?;
        let OwnershipProgress { visited, changed } = giving.counts.now();
        Ok(OwnershipReport { visited, changed, skipped: false })
    }

    fn group_at(&self, folder: &Directory, name: &OsStr) -> Result<u32> {
        check_name(name)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        rustix::fs::statx(folder.as_fd(), name, flags, StatxFlags::GID)
            .map(|seen| seen.stx_gid)
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&label(&folder.label, name)), errno))
    }

    fn group_of_mount(&self, mount: &DetachedMount) -> Result<u32> {
        look(mount.as_fd(), c"")
            .map(|seen| seen.stx_gid)
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&mount.label), errno))
    }

    fn idmapped(&self, mount: &DetachedMount, map: &IdMap) -> Result<()> {
        self.map_ids(mount, map)
    }
}

/// A walk that gives what it finds to a group.
struct OwnershipWalk<'a> {
    request: &'a OwnershipRequest,
    shown: &'a std::path::Path,
    progress: OnProgress<'a>,
    counts: WalkProgress,
    failures: Mutex<(u64, Vec<KernelError>)>,
}

fn look(fd: BorrowedFd<'_>, name: &CStr) -> std::result::Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(fd, name, flags, StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::GID)
}

impl<'a> OwnershipWalk<'a> {
    fn new(request: &'a OwnershipRequest, shown: &'a std::path::Path, progress: OnProgress<'a>) -> Self {
        let (counts, failures) = (WalkProgress::new(PROGRESS_FILES), Mutex::new((0, Vec::new())));
        Self { request, shown, progress, counts, failures }
    }

    fn wanted(&self, mode: u32, folder: bool) -> u32 {
        wanted_mode(mode & MODE_BITS, folder, self.request.read_only)
    }

    fn is_root_done(&self, seen: &Statx) -> bool {
        let mode = u32::from(seen.stx_mode) & MODE_BITS;
        seen.stx_gid == self.request.group && self.wanted(mode, true) == mode
    }

    /// Counts a file, and reports to the caller from time to time.
    fn count(&self, changed: bool) {
        if self.counts.count(changed).is_some_and(|so_far| (self.progress)(so_far).is_break()) {
            self.counts.stop();
        }
    }

    fn check(&self) -> Result<()> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.0 {
            0 => Ok(()),
            failed => Err(KernelError::OwnershipIncomplete {
                path: text(self.shown),
                failed,
                first: std::mem::take(&mut failures.1),
            }),
        }
    }

    /// Changes an entry that is no folder, by its name in the open folder: three calls a file
    /// instead of six, and that is the cost. If another file is put under the name between two of
    /// them, that one gets the group and the bits that the walk has for it anyway, and at most this
    /// one's permissions besides. What would hurt, setuid and setgid, is set by descriptor only.
    fn give_entry(&self, folder: BorrowedFd<'_>, name: &CStr, seen: &Statx) -> std::result::Result<bool, Errno> {
        let mode = u32::from(seen.stx_mode) & MODE_BITS;
        let wanted = self.wanted(mode, false);
        if mode & SET_ID_BITS != 0 {
            return self.give_named(folder, name);
        }
        if seen.stx_gid != self.request.group {
            let group = Some(Gid::from_raw(self.request.group));
            rustix::fs::chownat(folder, name, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if wanted == mode || FileType::from_raw_mode(seen.stx_mode.into()) == FileType::Symlink {
            return Ok(true);
        }
        match fchmodat2(folder, name, wanted, libc::AT_SYMLINK_NOFOLLOW) {
            // Linux before 6.6.
            Err(Errno::NOSYS) => self.give_named(folder, name),
            // Another thing was put there meanwhile: a link has no mode.
            Err(Errno::OPNOTSUPP) => Err(Errno::NOENT),
            done => done.map(|()| true),
        }
    }

    /// The same, by opening it first.
    fn give_named(&self, folder: BorrowedFd<'_>, name: &CStr) -> std::result::Result<bool, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        let seen = look(place.as_fd(), c"")?;
        if seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Ok(false);
        }
        self.give_open(place.as_fd(), &seen)?;
        Ok(true)
    }

    /// Changes something by descriptor: what was looked at is what is changed.
    fn give_open(&self, fd: BorrowedFd<'_>, seen: &Statx) -> std::result::Result<bool, Errno> {
        let kind = FileType::from_raw_mode(seen.stx_mode.into());
        let mode = u32::from(seen.stx_mode) & MODE_BITS;
        let regroup = seen.stx_gid != self.request.group;
        if regroup {
            let group = Some(Gid::from_raw(self.request.group));
            rustix::fs::chownat(fd, "", None, group, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if kind == FileType::Symlink {
            return Ok(regroup);
        }
        let wanted = self.wanted(mode, kind == FileType::Directory);
        let cleared = regroup && mode & SET_ID_BITS != 0;
        if wanted == mode && !cleared {
            return Ok(regroup);
        }
        set_mode(fd, wanted)?;
        Ok(true)
    }
}

/// Sets the mode of what is open, if only as a place.
fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> std::result::Result<(), Errno> {
    match fchmodat2(fd, c"", mode, libc::AT_EMPTY_PATH) {
        // Linux before 6.6: through /proc, which leads to the very thing that is open.
        Err(Errno::NOSYS) => rustix::fs::chmod(proc_path(fd, None), Mode::from_raw_mode(mode)),
        done => done,
    }
}

impl Visitor for OwnershipWalk<'_> {
    fn folder(&self, folder: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
        let seen = look(folder, c"")?;
        let changed = self.give_open(folder, &seen)?;
        self.count(changed);
        Ok(())
    }

    fn entry(&self, folder: BorrowedFd<'_>, name: &CStr) -> std::result::Result<bool, Errno> {
        let seen = look(folder, name)?;
        if seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Ok(true);
        }
        let kind = FileType::from_raw_mode(seen.stx_mode.into());
        if kind == FileType::Directory {
            return Ok(false);
        }
        let mode = u32::from(seen.stx_mode) & MODE_BITS;
        let same_mode = kind == FileType::Symlink || self.wanted(mode, false) == mode;
        if seen.stx_gid == self.request.group && same_mode {
            self.count(false);
            return Ok(true);
        }
        let changed = self.give_entry(folder, name, &seen)?;
        self.count(changed);
        Ok(true)
    }

    fn stopped(&self) -> bool {
        self.counts.is_stopped()
    }

    fn failed(&self, path: PathBuf, errno: Errno) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.0 += 1;
        if failures.1.len() < SHOWN_FAILURES {
            failures.1.push(KernelError::failed(Step::ApplyOwnership, text(&self.shown.join(path)), errno));
        }
    }
}
