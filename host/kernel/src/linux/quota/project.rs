//! Projects with a limit: ext4 and XFS, mounted with `prjquota`.
//!
//! ```text
//!  mkdir --> project id from the inode number --> is it unused? --> give it to the folder
//!        --> does the project have this one inode? --> set its limit
//! ```
//!
//! No record says which folder has which project: the folder itself does. A project that another
//! folder has got at the same moment is noticed by its count of inodes, and another id is tried.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use super::quotactl::{enforces_projects, project_usage, set_project_limit};
use super::{LimitedFolder, lacks, without_quota};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::linux::LinuxKernel;
use crate::linux::ioctl::{FileAttributes, file_attributes, set_file_attributes};
use crate::linux::walk::{FOLDER, is_empty, open_beneath, open_on_same_mount};
use crate::names::text;
use crate::step::Step;
use crate::usage::DiskUsage;

/// The projects of volhost's folders are `FIRST..FIRST + IDS`: far above those that operators and
/// the kubelet (from 1,048,577) give, and not negative where a program reads them as `int`.
const FIRST: u32 = 1 << 30;
const IDS: u32 = 1 << 30;
/// How many ids are tried: the inode's own is free unless inode numbers exceed `IDS`.
const ATTEMPTS: u32 = 64;

impl LinuxKernel {
    pub(super) fn make_project_folder(&self, folder: &LimitedFolder<'_>) -> Result<()> {
        let LimitedFolder { directory, name, mode, group, parent, shown, .. } = folder;
        let outer = check_projects(parent, shown)?;
        let made = match open(parent.as_fd(), name, shown) {
            Ok(existing) => {
                limit(&existing, outer, folder)?;
                false
            }
            Err(KernelError::Failed { errno: Errno::NOENT, .. }) => true,
            Err(error) => return Err(error),
        };
        self.make_folder_at(directory, name, *mode, *group)?;
        if !made {
            return Ok(());
        }
        open(parent.as_fd(), name, shown).and_then(|new| limit(&new, outer, folder)).map_err(|cause| {
            cause.undone(
                rustix::fs::unlinkat(parent, *name, AtFlags::REMOVEDIR)
                    .map_err(|errno| KernelError::failed(Step::RemoveFolder, text(shown), errno)),
            )
        })
    }
}

/// Refuses a file system that limits no projects, or not this folder's. Returns the project of the
/// folder around.
fn check_projects(parent: &OwnedFd, shown: &Path) -> Result<u32> {
    match enforces_projects(parent.as_fd()) {
        Ok(true) => {}
        Ok(false) => return Err(lacks(shown, "it is not mounted with `prjquota`")),
        Err(errno) => return Err(failed(shown, errno)),
    }
    let outer = file_attributes(parent).map_err(|errno| failed(shown, errno))?;
    if outer.project != 0 && outer.hands_project_down() {
        // A project has one limit: with its own, the folder would leave that of the operator.
        return Err(lacks(shown, "the folder around it belongs to a project already"));
    }
    Ok(outer.project)
}

fn open(parent: BorrowedFd<'_>, name: &OsStr, shown: &Path) -> Result<OwnedFd> {
    match open_on_same_mount(parent, name, FOLDER) {
        Err(Errno::XDEV) => Err(KernelError::AlreadyMounted { path: text(shown) }),
        opened => opened.map_err(|errno| KernelError::walking(Step::OpenFolder, text(shown), errno)),
    }
}

/// Sets the limit of the folder's project, which an empty folder gets first.
fn limit(opened: &OwnedFd, outer: u32, folder: &LimitedFolder<'_>) -> Result<()> {
    let shown = folder.shown;
    let now = file_attributes(opened).map_err(|errno| failed(shown, errno))?;
    let project = match own(now, outer) {
        Some(project) => project,
        None if is_empty(opened).map_err(|errno| failed(shown, errno))? => new_project(opened, now, shown)?,
        None => return Err(without_quota(shown)),
    };
    set_project_limit(opened.as_fd(), project, Some(folder.limit)).map_err(|errno| failed(shown, errno))
}

/// The project that only this folder has; none if it has none.
fn own(folder: FileAttributes, outer: u32) -> Option<u32> {
    let ours = (FIRST..FIRST + IDS).contains(&folder.project) && folder.project != outer;
    (ours && folder.hands_project_down()).then_some(folder.project)
}

/// Gives the empty folder a project that nothing else has.
fn new_project(folder: &OwnedFd, now: FileAttributes, shown: &Path) -> Result<u32> {
    let inode = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::INO)
        .map_err(|errno| failed(shown, errno))?
        .stx_ino;
    for attempt in 0..ATTEMPTS {
        let project = candidate(inode, attempt);
        let usage = || project_usage(folder.as_fd(), project).map_err(|errno| failed(shown, errno));
        if usage()? != DiskUsage::default() {
            continue;
        }
        match set_file_attributes(folder, now.with_project(project)) {
            // Ids of 16 bits on an old XFS; another user namespace than the first.
            Err(Errno::INVAL) => return Err(lacks(shown, "it does not take the ids of volhost's projects")),
            set => set.map_err(|errno| failed(shown, errno))?,
        }
        // More than one: another folder has chosen the same at the same time. Both choose again.
        if usage()?.inodes == 1 {
            return Ok(project);
        }
        set_file_attributes(folder, now).map_err(|errno| failed(shown, errno))?;
    }
    Err(lacks(shown, "no project id is free"))
}

/// The ids to try for an inode. Two inodes of one file system begin at different ones unless their
/// numbers differ by a multiple of [`IDS`], and then go on differently.
fn candidate(inode: u64, attempt: u32) -> u32 {
    let ids = u64::from(IDS);
    let stride = (inode / ids).wrapping_mul(2).wrapping_add(1);
    let place = inode.wrapping_add(u64::from(attempt).wrapping_mul(stride)) % ids;
    // Below 2^30.
    FIRST + u32::try_from(place).unwrap_or_default()
}

/// A folder's own project.
#[derive(Debug)]
pub(in crate::linux) struct OwnProject {
    /// A file of the same file system.
    folder: OwnedFd,
    id: u32,
}

impl OwnProject {
    /// Finds the project that the folder at a name has, and the folder around it has not.
    pub(in crate::linux) fn of(parent: &Directory, name: &OsStr) -> Option<Self> {
        let without = || matches!(enforces_projects(parent.as_fd()), Ok(false));
        // Asked once of a handle: most file systems limit none.
        if !*parent.limits_projects.get_or_init(|| !without()) {
            return None;
        }
        let folder = open_on_same_mount(parent.as_fd(), name, FOLDER).ok()?;
        let now = file_attributes(&folder).ok().filter(|now| now.project >= FIRST)?;
        let parent = open_beneath(parent.as_fd(), ".", FOLDER).ok()?;
        let outer = file_attributes(&parent).ok()?.project;
        own(now, outer).map(|id| Self { folder, id })
    }

    /// What the file system's account says of the folder and what is in it.
    pub(in crate::linux) fn usage(&self) -> Option<DiskUsage> {
        let counted = project_usage(self.folder.as_fd(), self.id).ok()?;
        // The folder itself is counted, or nothing is.
        (counted.inodes > 0).then_some(counted)
    }

    /// Removes the limit. The file system forgets the project with its last file.
    pub(in crate::linux) fn remove_limit(&self) {
        // A limit that stays limits nothing once the files are gone, and is replaced when the
        // project is used again: the removal of the files goes on.
        let _ = set_project_limit(self.folder.as_fd(), self.id, None);
    }
}

fn failed(shown: &Path, errno: Errno) -> KernelError {
    KernelError::failed(Step::SetQuota, text(shown), errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_begin_at_different_projects_and_never_leave_the_range() {
        assert_eq!((candidate(0, 0), candidate(12, 0)), (FIRST, FIRST + 12));
        let far = u64::from(IDS) + 12;
        assert_eq!(candidate(far, 0), candidate(12, 0));
        assert_ne!(candidate(far, 1), candidate(12, 1));
        for inode in [0, 12, far, u64::MAX] {
            for attempt in 0..ATTEMPTS {
                assert!((FIRST..FIRST + IDS).contains(&candidate(inode, attempt)), "{inode} {attempt}");
            }
        }
    }
}
