//! Unmounts everything in a folder, and removes the mount points.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::detach::unmount;
use super::stat::{look, look_closer};
use super::walk::{FOLDER, FOLDER_PLACE, PLACE, open_beneath, open_on_same_mount, read_names};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_name, label, text};
use crate::step::Step;
use crate::types::{Detach, MountInfo};

/// How often the mounts are listed anew, because some appeared meanwhile.
const ROUNDS: usize = 8;
/// How deep mount points lie in folders that the host made for them; deeper ones are a user's data.
const POINT_DEPTH: usize = 16;

impl LinuxKernel {
    pub(super) fn detach_tree_at(&self, folder: &Directory, name: &OsStr, how: Detach) -> Result<()> {
        check_name(name)?;
        let from = folder.as_fd();
        let shown = label(&folder.label, name);
        match look(from, name, self.ids()) {
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(KernelError::failed(Step::Inspect, text(&shown), errno)),
            Ok(seen) if seen.is_mount_root() => return self.detach_at(folder, name, how),
            Ok(seen) if seen.file_type() == FileType::Symlink => {
                return Err(KernelError::SymbolicLink { path: text(&shown) });
            }
            Ok(seen) if !seen.is_folder() => return Err(self.wrong_type(folder, name, "a folder")),
            Ok(_) => {}
        }
        let unmounted = self.unmount_below(from, name, &shown, how);
        let mut clearing = Clearing { kernel: self, first: unmounted.err() };
        clearing.clear(from, name, &shown, 0);
        clearing.first.map_or(Ok(()), Err)
    }

    /// Unmounts everything in the folder; the first failure does not stop the rest.
    fn unmount_below(&self, from: BorrowedFd<'_>, name: &OsStr, shown: &Path, how: Detach) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::ListMounts, text(shown), errno);
        for _ in 0..ROUNDS {
            // Held only while listing: an open handle of a mounted place would keep it busy.
            let place = open_on_same_mount(from, name, FOLDER_PLACE).map_err(failed)?;
            let below = self.below(place.as_fd()).map_err(failed)?;
            if below.is_empty() {
                return Ok(());
            }
            let mut first = None;
            for point in leaves_first(&below) {
                if let Err(error) = unmount_at(place.as_fd(), point, shown, how) {
                    first.get_or_insert(error);
                }
            }
            if let Some(error) = first {
                return Err(error);
            }
        }
        Err(KernelError::StillWritten { path: text(shown) })
    }
}

/// The mount points in an order in which no mount is on one that is unmounted.
fn leaves_first(mounts: &[MountInfo]) -> Vec<&Path> {
    let by_id: HashMap<_, _> = mounts.iter().map(|mount| (mount.id, mount)).collect();
    let depth = |mount: &MountInfo| {
        let mut depth = 0_usize;
        let mut here = mount;
        // The table is no snapshot; a chain longer than it is none.
        while depth < mounts.len()
            && let Some(parent) = by_id.get(&here.parent)
        {
            (depth, here) = (depth + 1, parent);
        }
        depth
    };
    let mut ordered: Vec<_> = mounts.iter().map(|mount| (depth(mount), mount.point.as_path())).collect();
    ordered.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    ordered.into_iter().map(|(_, point)| point).collect()
}

fn unmount_at(folder: BorrowedFd<'_>, point: &Path, shown: &Path, how: Detach) -> Result<()> {
    let (Some(parent), Some(last)) = (point.parent(), point.file_name()) else {
        return Ok(());
    };
    let failed = |errno| KernelError::failed(Step::Unmount, text(&shown.join(point)), errno);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = match open_beneath(folder, parent, PLACE | OFlags::DIRECTORY) {
        // It went with the mount that it was in.
        Err(Errno::NOENT) => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    match unmount(parent.as_fd(), last, how) {
        // Another process was faster, or it went with another mount.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

/// Removes empty folders and empty files; anything else stays and is reported.
struct Clearing<'a> {
    kernel: &'a LinuxKernel,
    first: Option<KernelError>,
}

impl Clearing<'_> {
    fn keep(&mut self, error: KernelError) {
        self.first.get_or_insert(error);
    }

    fn clear(&mut self, parent: BorrowedFd<'_>, name: &OsStr, shown: &Path, depth: usize) {
        // Mostly it is empty by now.
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return,
            Err(Errno::NOTDIR) => return self.clear_file(parent, name, shown),
            Err(Errno::NOTEMPTY | Errno::EXIST) if depth < POINT_DEPTH => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return self.keep(KernelError::NotEmpty { path: text(shown) }),
            Err(Errno::BUSY) => return self.keep(KernelError::MountInside { path: text(shown) }),
            Err(errno) => return self.keep(KernelError::failed(Step::RemoveMountPoint, text(shown), errno)),
        }
        let names = open_on_same_mount(parent, name, FOLDER)
            .and_then(|folder| read_names(&folder).map(|names| (folder, names)));
        let (folder, names) = match names {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return,
            Err(errno) => return self.keep(KernelError::walking(Step::RemoveMountPoint, text(shown), errno)),
        };
        for inner in names {
            self.clear(folder.as_fd(), &inner, &shown.join(&inner), depth + 1);
        }
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            // What is in it was reported already.
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.first.is_some() => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.keep(KernelError::NotEmpty { path: text(shown) }),
            Err(errno) => self.keep(KernelError::failed(Step::RemoveMountPoint, text(shown), errno)),
        }
    }

    fn clear_file(&mut self, parent: BorrowedFd<'_>, name: &OsStr, shown: &Path) {
        match look_closer(parent, name, self.kernel.ids()) {
            Ok(seen) if seen.is_mount_root() => return self.keep(KernelError::MountInside { path: text(shown) }),
            Ok(seen) if seen.file_type() == FileType::RegularFile && seen.size() == 0 => {}
            Err(Errno::NOENT) => return,
            _ => return self.keep(KernelError::NotEmpty { path: text(shown) }),
        }
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => self.keep(KernelError::failed(Step::RemoveMountPoint, text(shown), errno)),
        }
    }
}
