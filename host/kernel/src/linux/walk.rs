//! Opening beneath a folder: no symbolic link, no magic link, no way out.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::stat::{look, type_word};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_absolute, check_mode, check_name, check_relative, label, text};
use crate::step::Step;
use crate::types::{Entry, MountId};

/// Bytes of entries fetched by one call.
const LIST_BUFFER: usize = 32 * 1024;

/// How every path below a handle is resolved.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Only the place, no access: opens no device, never blocks on a pipe. Without `O_NOFOLLOW`, for
/// `NO_SYMLINKS` then refuses a link as a link, where the flag would open it or call it no folder.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
pub(super) const FOLDER_PLACE: OFlags = PLACE.union(OFlags::DIRECTORY);
/// A folder whose entries are read or whose mode is set.
pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a path beneath a folder, entering mounts.
pub(super) fn open_beneath(
    folder: impl AsFd,
    rel: impl rustix::path::Arg,
    flags: OFlags,
) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat2(folder, rel, flags, Mode::empty(), BENEATH)
}

/// Opens a path beneath a folder, on the same mount only: `XDEV` at a mount.
pub(super) fn open_on_same_mount(
    folder: impl AsFd,
    rel: impl rustix::path::Arg,
    flags: OFlags,
) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat2(folder, rel, flags, Mode::empty(), BENEATH | ResolveFlags::NO_XDEV)
}

/// A path by which system calls that take only paths reach an entry of an open folder.
pub(super) fn proc_path(fd: BorrowedFd<'_>, name: Option<&OsStr>) -> PathBuf {
    let mut path = PathBuf::from(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()));
    path.extend(name);
    path
}

/// Where an open file is now, as this process sees it. What was removed ends in ` (deleted)`.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> std::result::Result<PathBuf, Errno> {
    let target = rustix::fs::readlink(proc_path(fd, None), Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
}

pub(super) fn directory(fd: OwnedFd, label: PathBuf) -> Directory {
    Directory::from_fd(fd, label)
}

/// Makes a folder with exactly this mode. Returns it open; none if something has the name already.
pub(super) fn make_exact(parent: BorrowedFd<'_>, name: &OsStr, mode: u32, shown: &Path) -> Result<Option<OwnedFd>> {
    // Closed to other users until the mode is set; the process's umask could only take bits away.
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(None),
        Err(errno) => return Err(KernelError::failed(Step::MakeFolder, text(shown), errno)),
    }
    let set = open_on_same_mount(parent, name, FOLDER)
        .map_err(|errno| KernelError::walking(Step::OpenFolder, text(shown), errno))
        .and_then(|fd| {
            // By descriptor: what is changed is what was just opened, whatever happens to its name.
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))
                .map_err(|errno| KernelError::failed(Step::SetMode, text(shown), errno))?;
            Ok(fd)
        });
    match set {
        Ok(fd) => Ok(Some(fd)),
        Err(cause) => Err(cause.undone(
            // Only an empty folder is removed, never one with files of another process.
            rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
                .map_err(|errno| KernelError::failed(Step::RemoveFolder, text(shown), errno)),
        )),
    }
}

/// The names that `getdents64` yields for a readable folder, without `.` and `..`.
pub(super) fn read_names(folder: impl AsFd) -> std::result::Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    let mut buffer = Vec::<u8>::with_capacity(LIST_BUFFER);
    let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Returns whether a readable folder is empty.
pub(super) fn is_empty(folder: impl AsFd) -> std::result::Result<bool, Errno> {
    let mut buffer = Vec::<u8>::with_capacity(LIST_BUFFER);
    let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

impl LinuxKernel {
    pub(super) fn open_directory_at(&self, path: &Path) -> Result<Directory> {
        check_absolute(path)?;
        // The operator's own path, so links are followed; magic links never name anything an
        // operator means.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
            .map(|fd| directory(fd, path.to_owned()))
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(path), errno))
    }

    pub(super) fn walk_to(&self, from: &Directory, rel: &Path) -> Result<Directory> {
        check_relative(rel)?;
        let shown = label(&from.label, rel);
        let rel = if rel.as_os_str().is_empty() { Path::new(".") } else { rel };
        open_beneath(from.as_fd(), rel, FOLDER_PLACE)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))
            .map(|fd| directory(fd, shown))
    }

    pub(super) fn make_dirs_to(&self, from: &Directory, rel: &Path, mode: u32) -> Result<Directory> {
        check_mode(mode)?;
        let names = check_relative(rel)?;
        // Mostly everything is there already.
        match self.walk_to(from, rel) {
            Err(KernelError::Failed { errno: Errno::NOENT, .. }) => {}
            other => return other,
        }
        let mut made: Option<Directory> = None;
        for name in names {
            let here = made.as_ref().unwrap_or(from);
            let shown = label(&here.label, name);
            made = Some(match make_exact(here.as_fd(), name, mode, &shown)? {
                Some(fd) => directory(fd, shown),
                None => self.walk_to(here, Path::new(name))?,
            });
        }
        made.map_or_else(|| self.walk_to(from, Path::new("")), Ok)
    }

    pub(super) fn list_names(&self, of: &Directory) -> Result<Vec<OsString>> {
        let shown = text(&of.label);
        // A place can't be read from; its `.` can.
        let fd = open_on_same_mount(of.as_fd(), ".", FOLDER)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, &shown, errno))?;
        read_names(fd).map_err(|errno| KernelError::failed(Step::ListFolder, &shown, errno))
    }

    pub(super) fn list_below(&self, from: &Directory, rel: &Path) -> Result<(Directory, Vec<OsString>)> {
        check_relative(rel)?;
        let shown = label(&from.label, rel);
        let rel = if rel.as_os_str().is_empty() { Path::new(".") } else { rel };
        let fd = open_beneath(from.as_fd(), rel, FOLDER)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
        let names = read_names(&fd).map_err(|errno| KernelError::failed(Step::ListFolder, text(&shown), errno))?;
        Ok((directory(fd, shown), names))
    }

    pub(super) fn entry_at(&self, folder: &Directory, name: &OsStr) -> Result<Entry> {
        check_name(name)?;
        match look(folder.as_fd(), name, self.ids()) {
            Ok(seen) if seen.is_mount_root() => Ok(Entry::Mount(MountId(seen.mount_id()))),
            Ok(seen) => Ok(match seen.file_type() {
                rustix::fs::FileType::Directory => Entry::Folder,
                rustix::fs::FileType::RegularFile => Entry::File,
                rustix::fs::FileType::Symlink => Entry::Symlink,
                _ => Entry::Other,
            }),
            Err(Errno::NOENT) => Ok(Entry::Absent),
            Err(errno) => Err(KernelError::failed(Step::Inspect, text(&label(&folder.label, name)), errno)),
        }
    }

    /// The error for an entry that is not what the call takes.
    pub(super) fn wrong_type(&self, folder: &Directory, name: &OsStr, expected: &'static str) -> KernelError {
        let path = text(&label(&folder.label, name));
        match look(folder, name, self.ids()) {
            Ok(seen) => KernelError::WrongType { path, expected, found: type_word(seen.file_type()) },
            Err(errno) => KernelError::failed(Step::Inspect, path, errno),
        }
    }
}
