//! The root folder as a mount of its own, so that bind sources and targets lie on different mounts.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::LinuxKernel;
use super::stat::look;
use super::syscall::mount_setattr;
use super::walk::{directory, make_exact, proc_path};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_absolute, text};
use crate::step::Step;
use crate::types::Propagation;

/// Mode of the root folder: its content is for root alone.
const ROOT_MODE: u32 = 0o750;
/// Mode of parents of the root folder that are missing.
const PARENT_MODE: u32 = 0o755;

fn open_root(path: &Path) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

fn create_root(path: &Path) -> Result<()> {
    let failed = |error: &std::io::Error| {
        KernelError::failed(Step::CreateRoot, text(path), Errno::from_io_error(error).unwrap_or(Errno::IO))
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    std::fs::DirBuilder::new().recursive(true).mode(PARENT_MODE).create(parent).map_err(|error| failed(&error))?;
    let parent = open_root(parent).map_err(|errno| KernelError::walking(Step::CreateRoot, text(parent), errno))?;
    make_exact(parent.as_fd(), name, ROOT_MODE, path).map(drop)
}

impl LinuxKernel {
    pub(super) fn prepare_root_at(&self, path: &Path, propagation: Propagation) -> Result<Directory> {
        check_absolute(path)?;
        let failed = |step| move |errno| KernelError::walking(step, text(path), errno);
        let plain = match open_root(path) {
            Err(Errno::NOENT) => {
                create_root(path)?;
                open_root(path)
            }
            opened => opened,
        }
        .map_err(failed(Step::OpenFolder))?;

        let seen = look(&plain, "", self.ids()).map_err(failed(Step::Inspect))?;
        let root = if seen.is_mount_root() { plain } else { self.bind_on_itself(&plain, path)? };
        let kind = match propagation {
            Propagation::Private => libc::MS_PRIVATE,
            Propagation::Shared => libc::MS_SHARED,
        };
        // Where the parent is shared the new mount has become shared by being attached; this is the
        // operator's choice.
        mount_setattr(root.as_fd(), false, 0, 0, kind).map_err(failed(Step::SetPropagation))?;
        Ok(directory(root, PathBuf::new()))
    }

    /// Mounts the folder on itself; the descriptor returned is of the folder inside the new mount.
    fn bind_on_itself(&self, plain: &OwnedFd, path: &Path) -> Result<OwnedFd> {
        let failed = |errno| KernelError::failed(Step::MountRoot, text(path), errno);
        // Recursive: what the operator mounted below the folder stays in sight.
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let clone = rustix::mount::open_tree(plain, "", flags).map_err(failed)?;
        // Its own peer group: in the parent's one, every volume would also appear beneath the root,
        // hidden forever.
        mount_setattr(clone.as_fd(), true, 0, 0, libc::MS_PRIVATE).map_err(failed)?;
        let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&clone, "", plain, "", both).map_err(failed)?;
        Ok(clone)
    }

    pub(super) fn release_root_at(&self, path: &Path) -> Result<()> {
        check_absolute(path)?;
        let failed = |step| move |errno| KernelError::walking(step, text(path), errno);
        let root = match open_root(path) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened.map_err(failed(Step::OpenFolder))?,
        };
        let seen = look(&root, "", self.ids()).map_err(failed(Step::Inspect))?;
        if !seen.is_mount_root() || self.is_own_file_system(path, seen.device())? {
            return Ok(());
        }
        let below = self.below(root.as_fd()).map_err(failed(Step::ListMounts))?;
        if let Some(mount) = below.first() {
            return Err(KernelError::MountInside { path: text(&mount.point) });
        }
        // Lazily: handles inside keep the mount busy, and the folder stays reachable without it.
        let flags = UnmountFlags::DETACH;
        rustix::mount::unmount(proc_path(root.as_fd(), None), flags).map_err(failed(Step::UnmountRoot))
    }

    /// Returns whether the folder is on another device than its parent: then the mount is the
    /// operator's, not ours.
    fn is_own_file_system(&self, path: &Path, device: (u32, u32)) -> Result<bool> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let failed = |errno| KernelError::walking(Step::Inspect, text(parent), errno);
        let parent = open_root(parent).map_err(failed)?;
        let parent = look(&parent, OsStr::new(""), self.ids()).map_err(failed)?;
        Ok(parent.device() != device)
    }
}
