//! The ground of the payload protocol: a volume's root folder by descriptor, and everything in it
//! relative to that.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use super::LinuxKernel;
use super::files::errno_of;
use super::stat::look;
use super::walk::{FOLDER, directory, open_beneath, open_on_same_mount, read_names};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_name, label, text};
use crate::payload::plan::{Branch, PayloadPlan, PayloadTree};
use crate::payload::protocol::{PayloadFolder, TargetEntry, publish};
use crate::payload::stamp::stamp_now;
use crate::payload::{Payload, PayloadFile, Payloads, PublishResult};
use crate::step::Step;

/// Bytes of a file compared at once.
const COMPARED: usize = 64 * 1024;
const MODE_BITS: u32 = 0o7777;
/// A file that is read: nothing that a pod puts in its place may block us.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const CREATE: OFlags =
    OFlags::CREATE.union(OFlags::EXCL).union(OFlags::WRONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Payloads for LinuxKernel {
    fn publish_payload(&self, folder: &Directory, name: &OsStr, payload: &Payload) -> Result<PublishResult> {
        check_name(name)?;
        let plan = PayloadPlan::of(payload)?;
        let shown = label(&folder.label, name);
        let fd = open_beneath(folder.as_fd(), name, FOLDER)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        publish(&mut PayloadVolume { kernel: self, folder: directory(fd, shown), own }, &plan)
    }
}

/// A volume that is being published.
struct PayloadVolume<'a> {
    kernel: &'a LinuxKernel,
    folder: Directory,
    /// The host's own user and group.
    own: (u32, u32),
}

impl PayloadVolume<'_> {
    fn failed(&self, step: Step, name: &OsStr) -> impl FnOnce(Errno) -> KernelError {
        let path = self.shown(name);
        move |errno| KernelError::failed(step, path, errno)
    }

    /// Returns whether an open folder contains exactly this tree; none where something could not be
    /// read.
    fn same_tree(&self, fd: BorrowedFd<'_>, tree: &PayloadTree<'_>, plan: &PayloadPlan<'_>) -> Option<bool> {
        let seen = rustix::fs::fstat(fd).ok()?;
        if !self.same_ownership(&seen, plan.payload.folder_mode, None, plan) {
            return Some(false);
        }
        let names: BTreeSet<OsString> = read_names(fd).ok()?.into_iter().collect();
        if !names.iter().map(OsString::as_os_str).eq(tree.keys().copied()) {
            return Some(false);
        }
        for (name, branch) in tree {
            let same = match branch {
                Branch::Folder(inner) => {
                    let fd = open_on_same_mount(fd, *name, FOLDER).ok()?;
                    self.same_tree(fd.as_fd(), inner, plan)?
                }
                Branch::File(file) => self.same_file(open_on_same_mount(fd, *name, READ).ok()?, file, plan)?,
            };
            if !same {
                return Some(false);
            }
        }
        Some(true)
    }

    fn same_ownership(&self, seen: &Stat, mode: u32, file: Option<&PayloadFile>, plan: &PayloadPlan<'_>) -> bool {
        seen.st_mode & MODE_BITS == mode
            && seen.st_uid == plan.owner(file, self.own.0)
            && seen.st_gid == plan.group(self.own.1)
    }

    fn same_file(&self, fd: OwnedFd, file: &PayloadFile, plan: &PayloadPlan<'_>) -> Option<bool> {
        let seen = rustix::fs::fstat(&fd).ok()?;
        if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile
            || !self.same_ownership(&seen, file.mode, Some(file), plan)
            || u64::try_from(seen.st_size).ok()? != file.bytes.len() as u64
        {
            return Some(false);
        }
        let mut opened = File::from(fd);
        let mut buffer = vec![0; COMPARED.min(file.bytes.len())];
        for chunk in file.bytes.chunks(COMPARED) {
            let read = buffer.get_mut(..chunk.len())?;
            opened.read_exact(read).ok()?;
            if read != chunk {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Fills a new folder, then opens it to others.
    fn fill(&self, fd: BorrowedFd<'_>, shown: &Path, tree: &PayloadTree<'_>, plan: &PayloadPlan<'_>) -> Result<()> {
        for (name, branch) in tree {
            let shown = shown.join(name);
            match branch {
                Branch::Folder(inner) => self.fill(make_closed(fd, name, &shown)?.as_fd(), &shown, inner, plan)?,
                Branch::File(file) => self.write_file(fd, name, &shown, file, plan)?,
            }
        }
        self.give(fd, shown, plan.payload.folder_mode, None, plan)
    }

    fn write_file(
        &self,
        fd: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
        file: &PayloadFile,
        plan: &PayloadPlan<'_>,
    ) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::WriteFile, text(shown), errno);
        let opened = rustix::fs::openat(fd, name, CREATE, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let mut opened = File::from(opened);
        opened.write_all(&file.bytes).map_err(|error| failed(errno_of(&error)))?;
        self.give(opened.as_fd(), shown, file.mode, Some(file), plan)
    }

    /// Sets owner, group and mode of something new.
    fn give(
        &self,
        fd: BorrowedFd<'_>,
        shown: &Path,
        mode: u32,
        file: Option<&PayloadFile>,
        plan: &PayloadPlan<'_>,
    ) -> Result<()> {
        // Always said: a folder with setgid hands its group on.
        let (owner, group) = (Uid::from_raw(plan.owner(file, self.own.0)), Gid::from_raw(plan.group(self.own.1)));
        rustix::fs::fchown(fd, Some(owner), Some(group))
            .map_err(|errno| KernelError::failed(Step::SetOwner, text(shown), errno))?;
        // After the owner: changing that clears setuid and setgid.
        rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))
            .map_err(|errno| KernelError::failed(Step::SetMode, text(shown), errno))
    }
}

/// Makes a folder that only the host may enter yet, and opens it.
fn make_closed(parent: BorrowedFd<'_>, name: &OsStr, shown: &Path) -> Result<OwnedFd> {
    rustix::fs::mkdirat(parent, name, Mode::RWXU)
        .map_err(|errno| KernelError::failed(Step::MakeFolder, text(shown), errno))?;
    open_on_same_mount(parent, name, FOLDER).map_err(|errno| KernelError::walking(Step::OpenFolder, text(shown), errno))
}

impl PayloadFolder for PayloadVolume<'_> {
    fn shown(&self, name: &OsStr) -> String {
        text(&label(&self.folder.label, name))
    }

    fn stamp(&mut self) -> OsString {
        stamp_now()
    }

    fn names(&mut self) -> Result<Vec<OsString>> {
        self.kernel.list_names(&self.folder)
    }

    fn look(&mut self, name: &OsStr) -> Result<TargetEntry> {
        // Mostly it is a link: then one call returns that and where it leads.
        match rustix::fs::readlinkat(self.folder.as_fd(), name, Vec::new()) {
            Ok(target) => return Ok(TargetEntry::Link(PathBuf::from(OsStr::from_bytes(target.as_bytes())))),
            Err(Errno::NOENT) => return Ok(TargetEntry::Absent),
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(self.failed(Step::ReadLink, name)(errno)),
        }
        match look(self.folder.as_fd(), name, self.kernel.ids()) {
            Ok(seen) if seen.is_folder() => Ok(TargetEntry::Folder),
            Ok(_) => Ok(TargetEntry::Other),
            Err(Errno::NOENT) => Ok(TargetEntry::Absent),
            Err(errno) => Err(self.failed(Step::Inspect, name)(errno)),
        }
    }

    fn matches(&mut self, folder: &OsStr, plan: &PayloadPlan<'_>) -> bool {
        let opened = open_on_same_mount(&self.folder, folder, FOLDER).ok();
        opened.and_then(|fd| self.same_tree(fd.as_fd(), &plan.tree, plan)).unwrap_or(false)
    }

    fn write(&mut self, folder: &OsStr, plan: &PayloadPlan<'_>) -> Result<()> {
        let shown = label(&self.folder.label, folder);
        let fd = make_closed(self.folder.as_fd(), folder, &shown)?;
        self.fill(fd.as_fd(), &shown, &plan.tree, plan)
    }

    fn link(&mut self, name: &OsStr, target: &Path, plan: &PayloadPlan<'_>) -> Result<()> {
        rustix::fs::symlinkat(target, self.folder.as_fd(), name).map_err(self.failed(Step::MakeLink, name))?;
        let (owner, group) = (plan.payload.owner.map(Uid::from_raw), plan.payload.group.map(Gid::from_raw));
        if owner.is_none() && group.is_none() {
            return Ok(());
        }
        rustix::fs::chownat(self.folder.as_fd(), name, owner, group, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(self.failed(Step::SetOwner, name))
            .map_err(|cause| cause.undone(self.unlink(name)))
    }

    fn rename(&mut self, from: &OsStr, to: &OsStr, replace: bool) -> Result<bool> {
        let fd = self.folder.as_fd();
        let renamed = if replace {
            rustix::fs::renameat(fd, from, fd, to)
        } else {
            match rustix::fs::renameat_with(fd, from, fd, to, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => return Ok(false),
                // A file system that knows only the plain call; what is there was looked at before.
                Err(Errno::INVAL) => rustix::fs::renameat(fd, from, fd, to),
                renamed => renamed,
            }
        };
        renamed.map(|()| true).map_err(self.failed(Step::PublishPayload, to))
    }

    fn unlink(&mut self, name: &OsStr) -> Result<()> {
        match rustix::fs::unlinkat(self.folder.as_fd(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed(Step::ClearPayload, name)(errno)),
        }
    }

    fn remove(&mut self, folder: &OsStr) -> Result<()> {
        self.kernel.delete_folder_at(&self.folder, folder)
    }
}
