//! Paths of the host that an operator granted: opened within the grant, and asked then what was
//! opened.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::stat::{look, look_closer, source_kind, type_word};
use super::walk::{FOLDER_PLACE, PLACE, make_exact, open_beneath, path_of};
use crate::error::{KernelError, Result};
use crate::granted::{self, PathEntry, PathRefusal, Places};
use crate::handle::{MountSource, SourceKind};
use crate::names::{check_absolute, text};
use crate::step::Step;

/// Modes of what is created, as the kubelet's.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
/// The kernel's suffix of the path of a removed file.
pub(super) const DELETED: &[u8] = b" (deleted)";

/// Opens a place by absolute path. Links are followed, for the operator's paths have them; magic
/// links lead into other processes.
pub(super) fn open_following(path: &Path) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

/// The host's files, for the walk.
struct HostNames<'a>(&'a LinuxKernel);

impl Places for HostNames<'_> {
    type Place = OwnedFd;

    fn open_root(&self, root: &Path) -> std::result::Result<OwnedFd, Errno> {
        open_following(root)
    }

    fn real_path(&self, place: &OwnedFd) -> std::result::Result<PathBuf, Errno> {
        path_of(place.as_fd())
    }

    fn open_plain(&self, from: &OwnedFd, below: &Path) -> std::result::Result<Option<OwnedFd>, Errno> {
        match open_beneath(from, below, PLACE) {
            Err(Errno::LOOP) => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn look_up(&self, folder: &OwnedFd, name: &OsStr) -> std::result::Result<PathEntry<OwnedFd>, Errno> {
        // The link itself is opened, so that what is looked at is what is followed.
        let place = rustix::fs::openat(folder, name, PLACE | OFlags::NOFOLLOW, Mode::empty())?;
        if look(&place, OsStr::new(""), self.0.ids())?.file_type() != FileType::Symlink {
            return Ok(PathEntry::Place(place));
        }
        let target = rustix::fs::readlinkat(&place, "", Vec::new())?;
        Ok(PathEntry::Link(PathBuf::from(OsStr::from_bytes(target.as_bytes()))))
    }
}

impl LinuxKernel {
    pub(super) fn open_granted(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        check_absolute(path)?;
        let fd = self.open_within(path, roots, Step::OpenHostPath)?;
        self.host_source(fd, path)
    }

    pub(super) fn create_granted_directory(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        check_absolute(path)?;
        let (mut here, missing) = self.deepest_existing(path, roots)?;
        let mut shown = path.ancestors().nth(missing.len()).unwrap_or(path).to_owned();
        for name in missing {
            shown.push(&name);
            make_exact(here.as_fd(), &name, FOLDER_MODE, &shown)?;
            here = open_beneath(&here, &name, FOLDER_PLACE)
                .map_err(|errno| KernelError::walking(Step::CreateHostPath, text(&shown), errno))?;
        }
        self.host_source_of(here, path, SourceKind::Directory)
    }

    pub(super) fn create_granted_file(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        self.create_granted_file_with(path, roots, FILE_MODE)
    }

    /// The same, with another mode for a file that it makes.
    pub(super) fn create_granted_file_with(&self, path: &Path, roots: &[PathBuf], mode: u32) -> Result<MountSource> {
        check_absolute(path)?;
        match self.open_granted(path, roots) {
            Ok(source) if source.kind == SourceKind::File => return Ok(source),
            Ok(source) => return Err(wrong_kind(path, SourceKind::File, source.kind)),
            Err(KernelError::Failed { errno: Errno::NOENT, .. }) => {}
            Err(error) => return Err(error),
        }
        let failed = |errno| KernelError::walking(Step::CreateHostPath, text(path), errno);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(Errno::ISDIR));
        };
        let parent = match self.open_within(parent, roots, Step::CreateHostPath) {
            Err(KernelError::OutsideGrant { .. }) => return Err(KernelError::OutsideGrant { path: text(path) }),
            opened => opened?,
        };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(mode)) {
            Ok(file) => rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|errno| {
                failed(errno).undone(rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(failed))
            })?,
            // Another process made it first: that one is opened. A link that leads nowhere is
            // refused below.
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let place = open_beneath(&parent, name, PLACE).map_err(failed)?;
        self.host_source_of(place, path, SourceKind::File)
    }

    /// Removes a file that was just made at a path, unless something else is there by now.
    pub(super) fn remove_new_file(&self, path: &Path, made: &MountSource) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::RemoveFile, text(path), errno);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let parent = open_following(parent).map_err(failed)?;
        let ours = look_closer(made, "", self.ids()).map_err(failed)?;
        let there = look_closer(&parent, name, self.ids()).map_err(failed)?;
        if ours.identity() != there.identity() {
            return Ok(());
        }
        rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(failed)
    }

    /// The deepest folder of the path that exists, and the names that are missing below it.
    fn deepest_existing(&self, path: &Path, roots: &[PathBuf]) -> Result<(OwnedFd, Vec<OsString>)> {
        let mut missing: Vec<OsString> = Vec::new();
        let mut existing = path;
        loop {
            match self.open_within(existing, roots, Step::CreateHostPath) {
                Ok(fd) => {
                    missing.reverse();
                    return Ok((fd, missing));
                }
                Err(KernelError::Failed { errno: Errno::NOENT, .. }) => {}
                Err(KernelError::OutsideGrant { .. }) => return Err(KernelError::OutsideGrant { path: text(path) }),
                Err(error) => return Err(error),
            }
            let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
                return Err(KernelError::walking(Step::CreateHostPath, text(path), Errno::NOENT));
            };
            missing.push(name.to_owned());
            existing = parent;
        }
    }

    /// Opens the place of a path within the granted folders. Nothing outside of them is looked at.
    fn open_within(&self, path: &Path, roots: &[PathBuf], step: Step) -> Result<OwnedFd> {
        let outside = || KernelError::OutsideGrant { path: text(path) };
        let fd = granted::open(&HostNames(self), path, roots).map_err(|refusal| match refusal {
            PathRefusal::Outside => outside(),
            PathRefusal::Failed(errno) => KernelError::walking(step, text(path), errno),
        })?;
        // Nothing leads out of it.
        if roots.iter().any(|root| root == Path::new("/")) {
            return Ok(fd);
        }
        // What was moved or removed during the walk.
        let failed = |errno| KernelError::failed(step, text(path), errno);
        let found = path_of(fd.as_fd()).map_err(failed)?;
        if found.as_os_str().as_bytes().ends_with(DELETED)
            && look_closer(&fd, "", self.ids()).map_err(failed)?.is_unlinked()
        {
            return Err(failed(Errno::NOENT));
        }
        let is_within = |root: &PathBuf| {
            let real = || open_following(root).and_then(|fd| path_of(fd.as_fd()));
            found.starts_with(root) || real().is_ok_and(|real| found.starts_with(real))
        };
        if roots.iter().any(is_within) { Ok(fd) } else { Err(outside()) }
    }

    fn host_source(&self, fd: OwnedFd, path: &Path) -> Result<MountSource> {
        let seen = look(&fd, OsStr::new(""), self.ids())
            .map_err(|errno| KernelError::failed(Step::Inspect, text(path), errno))?;
        let Some(kind) = source_kind(seen.file_type()) else {
            return Err(KernelError::WrongType {
                path: text(path),
                expected: "something that can be mounted",
                found: type_word(seen.file_type()),
            });
        };
        Ok(MountSource { fd, label: path.to_owned(), kind })
    }

    fn host_source_of(&self, fd: OwnedFd, path: &Path, kind: SourceKind) -> Result<MountSource> {
        let source = self.host_source(fd, path)?;
        if source.kind == kind { Ok(source) } else { Err(wrong_kind(path, kind, source.kind)) }
    }
}

fn wrong_kind(path: &Path, expected: SourceKind, found: SourceKind) -> KernelError {
    KernelError::WrongType { path: text(path), expected: expected.as_str(), found: found.as_str() }
}
