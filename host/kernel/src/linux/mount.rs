//! Copying and attaching mounts, by descriptor.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::LinuxKernel;
use super::stat::{StatxAnswer, look};
use super::syscall::mount_setattr;
use super::walk::proc_path;
use crate::error::{KernelError, Result};
use crate::handle::{DetachedMount, Directory, MountSource, SourceKind};
use crate::names::{check_name, label, text};
use crate::options::attributes;
use crate::step::Step;

impl LinuxKernel {
    pub(super) fn source_of(&self, directory: &Directory) -> Result<MountSource> {
        let fd =
            directory.as_fd().try_clone_to_owned().map_err(|error| super::lost_handle(&directory.label, &error))?;
        Ok(MountSource { fd, label: directory.label.clone(), kind: SourceKind::Directory })
    }

    pub(super) fn bind_source(&self, source: &MountSource, recursive: bool) -> Result<DetachedMount> {
        let failed = |errno| KernelError::failed(Step::CloneMount, text(&source.label), errno);
        let mut flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        if recursive {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        let clone = rustix::mount::open_tree(source, "", flags).map_err(failed)?;
        // A clone of a shared mount is its peer: what a pod mounts in the volume would appear at
        // the source. A follower still sees what is mounted at the source later; a single mount has
        // no use for that.
        let propagation = if recursive { libc::MS_SLAVE } else { libc::MS_PRIVATE };
        mount_setattr(clone.as_fd(), recursive, 0, 0, propagation).map_err(failed)?;
        Ok(DetachedMount { fd: clone, label: source.label.clone() })
    }

    pub(super) fn set_mount_options(&self, mount: &DetachedMount, options: &[&str], recursive: bool) -> Result<()> {
        let shown = text(&mount.label);
        let wanted = attributes(&shown, options)?;
        // Before the mount is visible: there is no moment at which a read-only volume can be
        // written.
        mount_setattr(mount.as_fd(), recursive, wanted.set, wanted.clear, 0)
            .map_err(|errno| KernelError::failed(Step::SetOptions, shown, errno))
    }

    pub(super) fn make_read_only_at(&self, folder: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let shown = label(&folder.label, name);
        let failed = |errno| KernelError::failed(Step::SetOptions, text(&shown), errno);
        // The kernel follows no link and takes the attribute only for the root of a mount, which
        // this is, or nothing is changed.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mount = rustix::fs::openat(folder.as_fd(), name, flags, Mode::empty()).map_err(failed)?;
        mount_setattr(mount.as_fd(), false, libc::MOUNT_ATTR_RDONLY, 0, 0).map_err(failed)
    }

    pub(super) fn attach_at(&self, mount: &DetachedMount, folder: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let source = mount.as_fd();
        let into = folder.as_fd();
        let shown = label(&folder.label, name);
        let ours = look(source, "", self.ids())
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&mount.label), errno))?;
        let made = self.make_mount_point(into, name, ours.is_folder(), &shown)?;
        let attached = self.attach_on(source, &ours, into, name, &shown);
        attached.map_err(|cause| if made { cause.undone(self.remove_mount_point(into, name, &shown)) } else { cause })
    }

    fn attach_on(
        &self,
        source: BorrowedFd<'_>,
        ours: &StatxAnswer,
        into: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
    ) -> Result<()> {
        // By its name, and never through a link. Only this process's user can change the folder.
        let onto_name = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(source, "", into, name, onto_name)
            .map_err(|errno| KernelError::failed(Step::Attach, text(shown), errno))?;
        // If another process renamed the mount point in between, or mounted here too, that must not
        // pass for our volume.
        let wrong = match look(into, name, self.ids()) {
            Ok(seen) if seen.mount_id() == ours.mount_id() => return Ok(()),
            Ok(_) | Err(Errno::NOENT) => KernelError::Replaced { path: text(shown) },
            Err(errno) => KernelError::failed(Step::CheckAttached, text(shown), errno),
        };
        // By our own descriptor: it is our mount that goes, wherever it is now.
        let taken_back = rustix::mount::unmount(proc_path(source, None), UnmountFlags::DETACH)
            .map_err(|errno| KernelError::failed(Step::Unmount, text(shown), errno));
        Err(wrong.undone(taken_back))
    }
}
