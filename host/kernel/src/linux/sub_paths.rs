//! Sub-paths: opened by one `openat2` that stays beneath the volume, made and shown by handle.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MoveMountFlags;

use super::LinuxKernel;
use super::detach::unmount;
use super::stat::{look, look_closer, source_kind, type_word};
use super::walk::{FOLDER_PLACE, make_exact, open_beneath};
use crate::error::{KernelError, Result};
use crate::handle::{DetachedMount, Directory, MountSource};
use crate::names::{check_mode, check_name, check_relative, label, text};
use crate::step::Step;
use crate::sub_paths::{MissingSubPath, SubPathBind, SubPathBinding, SubPaths};
use crate::types::Detach;

/// How often a walk is tried again that the kernel gave up because something was renamed or mounted
/// meanwhile.
const TRIES: usize = 64;
const MODE_BITS: u32 = 0o7777;

impl SubPaths for LinuxKernel {
    fn open_sub_path(
        &self,
        volume: &Directory,
        name: &OsStr,
        rel: &Path,
        missing: MissingSubPath,
    ) -> Result<MountSource> {
        check_name(name)?;
        let names = check_relative(rel)?;
        if let MissingSubPath::MakeFoldersWithMode(mode) = missing {
            check_mode(mode)?;
        }
        let shown = label(&volume.label, name);
        let root = open_beneath(volume.as_fd(), name, FOLDER_PLACE)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
        let shown = label(&shown, rel);
        if names.is_empty() {
            return self.sub_path_source(root, shown);
        }
        match open_staying(root.as_fd(), rel) {
            Ok(fd) => return self.sub_path_source(fd, shown),
            Err(Errno::NOENT) if missing != MissingSubPath::Refuse => {}
            Err(errno) => return Err(refused(&shown, errno)),
        }
        let mode = match missing {
            MissingSubPath::MakeFoldersWithMode(mode) => mode,
            MissingSubPath::MakeFolders | MissingSubPath::Refuse => mode_of(root.as_fd(), &shown)?,
        };
        let made = make_below(root, &names, mode, &shown)?;
        self.sub_path_source(made, shown)
    }

    fn bind_sub_path(
        &self,
        source: &MountSource,
        how: SubPathBind,
        directory: &Directory,
        name: &OsStr,
    ) -> Result<SubPathBinding> {
        check_name(name)?;
        let shown = label(&directory.label, name);
        let exists = match look(directory.as_fd(), name, self.ids()) {
            Ok(seen) => seen.is_mount_root(),
            Err(Errno::NOENT) => false,
            Err(errno) => return Err(KernelError::failed(Step::Inspect, text(&shown), errno)),
        };
        if exists && self.shows(source, how, directory, name, &shown)? {
            return Ok(SubPathBinding::Kept);
        }
        let mount = self.bind_source(source, how.submounts)?;
        if how.read_only {
            self.set_mount_options(&mount, &["ro"], false)?;
        }
        if !exists {
            self.attach_at(&mount, directory, name)?;
            return Ok(SubPathBinding::New);
        }
        if !self.slip_beneath(&mount, directory, name, &shown)? {
            self.detach_at(directory, name, Detach::Lazy)?;
            self.attach_at(&mount, directory, name)?;
        }
        Ok(SubPathBinding::Replaced)
    }

    fn detach_tree(&self, folder: &Directory, name: &OsStr, how: Detach) -> Result<()> {
        self.detach_tree_at(folder, name, how)
    }
}

impl LinuxKernel {
    /// Returns whether the mount at the name shows just this, as wanted.
    fn shows(
        &self,
        source: &MountSource,
        how: SubPathBind,
        folder: &Directory,
        name: &OsStr,
        shown: &Path,
    ) -> Result<bool> {
        let failed = |errno| KernelError::failed(Step::Inspect, text(shown), errno);
        let wanted = look_closer(source, "", self.ids()).map_err(failed)?;
        let there = look_closer(folder.as_fd(), name, self.ids()).map_err(failed)?;
        // A file that was replaced under the same name is another one, even where its number was
        // used again.
        let same = wanted.device() == there.device() && wanted.inode() == there.inode() && !there.is_unlinked();
        if !same {
            return Ok(false);
        }
        let mount = self.mount_info_at(folder, name)?;
        Ok(mount.is_some_and(|mount| mount.options.iter().any(|option| option == "ro") == how.read_only))
    }

    /// Puts the mount beneath the one that is seen at the name, and takes that away. False when the
    /// kernel cannot.
    fn slip_beneath(&self, mount: &DetachedMount, folder: &Directory, name: &OsStr, shown: &Path) -> Result<bool> {
        let into = folder.as_fd();
        let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_BENEATH;
        match rustix::mount::move_mount(mount.as_fd(), "", into, name, how) {
            Ok(()) => {}
            // An older kernel, a file where a folder was, or mounts that travel to where another
            // would be covered.
            Err(Errno::INVAL | Errno::NOTDIR | Errno::OPNOTSUPP) => return Ok(false),
            Err(errno) => return Err(KernelError::failed(Step::Attach, text(shown), errno)),
        }
        unmount(into, name, Detach::Lazy).map_err(|errno| KernelError::failed(Step::Unmount, text(shown), errno))?;
        Ok(true)
    }

    fn sub_path_source(&self, fd: OwnedFd, label: PathBuf) -> Result<MountSource> {
        let seen =
            look(&fd, "", self.ids()).map_err(|errno| KernelError::failed(Step::Inspect, text(&label), errno))?;
        let Some(kind) = source_kind(seen.file_type()) else {
            let found = type_word(seen.file_type());
            return Err(KernelError::WrongType {
                path: text(&label),
                expected: "something that can be mounted",
                found,
            });
        };
        Ok(MountSource { fd, label, kind })
    }
}

/// Opens a place, through links as long as no step leaves the root.
fn open_staying(root: BorrowedFd<'_>, rel: &Path) -> std::result::Result<OwnedFd, Errno> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(root, rel, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within) {
            // A rename while the walk was in a `..` of a link: it could have left the volume
            // unseen.
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

fn refused(shown: &Path, errno: Errno) -> KernelError {
    match errno {
        Errno::XDEV => KernelError::OutsideVolume { path: text(shown) },
        // Links are followed here, so this says that they go round in a circle, or that one is
        // magic.
        Errno::LOOP => KernelError::failed(Step::OpenSubPath, text(shown), errno),
        errno => KernelError::walking(Step::OpenSubPath, text(shown), errno),
    }
}

fn mode_of(root: BorrowedFd<'_>, shown: &Path) -> Result<u32> {
    let seen = rustix::fs::fstat(root).map_err(|errno| KernelError::failed(Step::Inspect, text(shown), errno))?;
    Ok(seen.st_mode & MODE_BITS)
}

/// Makes the folders that are missing below the deepest one that exists, and opens the last.
fn make_below(root: OwnedFd, names: &[&OsStr], mode: u32, shown: &Path) -> Result<OwnedFd> {
    let mut existing = names.len();
    let mut here = loop {
        existing -= 1;
        if existing == 0 {
            break root;
        }
        let rel: PathBuf = names.iter().take(existing).collect();
        match open_staying(root.as_fd(), &rel) {
            Ok(fd) => break fd,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(refused(shown, errno)),
        }
    };
    for name in names.iter().skip(existing) {
        // Never through a link: what is missing is made here and nowhere else.
        make_exact(here.as_fd(), name, mode, shown)?;
        here = open_beneath(&here, *name, FOLDER_PLACE)
            .map_err(|errno| KernelError::walking(Step::OpenSubPath, text(shown), errno))?;
    }
    Ok(here)
}
