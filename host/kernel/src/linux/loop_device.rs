//! Loop devices, found by what the kernel says of their files, so that no record of ours is needed
//! and none can be wrong.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::block_device::{asking, open_device};
use super::host_path::DELETED;
use super::ioctl::{LOOP_DIRECT_IO, LOOP_READ_ONLY, LoopStatus, device_sector, refresh_loop};
use super::loop_table::{Loop, attached, attached_over, connect, keep, note, open_backing, release};
use super::sector::sector_size;
use super::stat::{look_closer, type_word};
use super::walk::{path_of, proc_path};
use crate::block_devices::BlockDevice;
use crate::error::{DeviceError, ErrorKind, KernelError, Result};
use crate::handle::{MountSource, SourceKind};
use crate::loop_devices::LoopDevices;
use crate::names::{check_absolute, text};
use crate::step::Step;

/// Mode of an image: what is in it belongs to the volume's users, not to other users of the node.
pub(super) const IMAGE_MODE: u32 = 0o600;

pub(super) fn file_fd(file: &MountSource) -> Result<BorrowedFd<'_>> {
    if file.kind != SourceKind::File {
        let (expected, found) = (SourceKind::File.as_str(), file.kind.as_str());
        return Err(KernelError::WrongType { path: text(&file.label), expected, found });
    }
    Ok(file.as_fd())
}

/// Takes the file's lock, so that of two hosts that look for its device and make one, one finds the
/// other's.
pub(super) fn lock_file(file: &MountSource) -> Result<File> {
    let failed = |errno| KernelError::failed(Step::FindLoop, text(&file.label), errno);
    let opened = open_backing(file_fd(file)?, true).map_err(failed)?;
    match rustix::fs::flock(&opened, FlockOperation::LockExclusive) {
        // Some file systems of a network lock only what is open for writing, or nothing; two hosts
        // there must know of each other.
        Ok(()) | Err(Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(opened),
        Err(errno) => Err(failed(errno)),
    }
}

/// Returns whether a device has sectors of another size than its file is to have.
fn has_other_sectors(found: &Loop, file: &File) -> bool {
    let sector = open_device(&found.device, Step::InspectDevice).map(|device| device_sector(&device));
    matches!(sector, Ok(Ok(sector)) if sector != sector_size(file, false))
}

impl LinuxKernel {
    pub(super) fn loop_of(&self, file: &MountSource) -> Result<Option<Loop>> {
        let shown = text(&file.label);
        let seen = look_closer(file_fd(file)?, "", self.ids())
            .map_err(|errno| KernelError::failed(Step::FindLoop, &shown, errno))?;
        Ok(attached(&shown)?.into_iter().find(|one| one.is_whole(&seen)))
    }

    /// The devices that were attached over a file at this path which is removed by now.
    fn loops_of_removed(&self, path: &Path, roots: &[PathBuf]) -> Result<Vec<Loop>> {
        check_absolute(path)?;
        let failed = |errno| KernelError::failed(Step::FindLoop, text(path), errno);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(Vec::new()) };
        let folder = match self.open_granted(parent, roots) {
            // Removed too. The kernel shows the path as it was.
            Err(error) if error.kind() == ErrorKind::NotFound && roots.iter().any(|root| path.starts_with(root)) => {
                None
            }
            folder => Some(folder?),
        };
        let place = folder.as_ref().map_or(Ok(parent.to_owned()), |folder| path_of(folder.as_fd())).map_err(failed)?;
        let mut backing = place.join(name).into_os_string();
        backing.push(OsStr::from_bytes(DELETED));
        let mut found = attached_over(Path::new(&backing), &text(path))?;
        found.retain(|one| one.status.note == note(&text(path)));
        // A file that is there may have such a name.
        if let Some(last) = Path::new(&backing).file_name()
            && let Some(folder) = &folder
            && let Ok(there) = look_closer(folder, last, self.ids())
        {
            found.retain(|one| !one.is_whole(&there));
        }
        Ok(found)
    }
}

impl LoopDevices for LinuxKernel {
    fn create_image(&self, path: &Path, roots: &[PathBuf], bytes: u64) -> Result<MountSource> {
        let fresh = matches!(self.open_granted(path, roots), Err(KernelError::Failed { errno: Errno::NOENT, .. }));
        let image = self.create_granted_file_with(path, roots, IMAGE_MODE)?;
        match self.set_file_size(&image, bytes) {
            Ok(_) => Ok(image),
            Err(cause) if fresh => Err(cause.undone(self.remove_new_file(path, &image))),
            Err(cause) => Err(cause),
        }
    }

    fn set_file_size(&self, file: &MountSource, bytes: u64) -> Result<u64> {
        let shown = text(&file.label);
        let failed = |errno| KernelError::failed(Step::GrowFile, &shown, errno);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(proc_path(file_fd(file)?, None), flags, Mode::empty()).map_err(failed)?;
        let seen = look_closer(&opened, "", self.ids()).map_err(failed)?;
        if seen.file_type() != FileType::RegularFile {
            let found = type_word(seen.file_type());
            return Err(KernelError::WrongType { path: shown, expected: "a file", found });
        }
        if seen.size() >= bytes {
            return Ok(seen.size());
        }
        rustix::fs::ftruncate(&opened, bytes).map_err(failed)?;
        Ok(bytes)
    }

    fn attach_loop(&self, file: &MountSource, read_only: bool) -> Result<BlockDevice> {
        let shown = text(&file.label);
        let failed = |errno| KernelError::failed(Step::AttachLoop, &shown, errno);
        let _lock = lock_file(file)?;
        let opened = open_backing(file_fd(file)?, read_only).map_err(failed)?;
        let found = match self.loop_of(file)? {
            // Made by an earlier version, or by another program. Its user keeps it as it is.
            Some(found) if has_other_sectors(&found, &opened) && release(&found, &shown).is_ok() => None,
            found => found,
        };
        let found = match found {
            Some(found) => found,
            None => {
                // Direct I/O where it can be had: data cached twice is memory wasted. The kernel
                // ignores the flag where it cannot.
                let access = if read_only { LOOP_READ_ONLY } else { 0 };
                let status = LoopStatus::new(LOOP_DIRECT_IO | access, note(&shown));
                let sector = sector_size(&opened, !read_only);
                let (path, _) = connect(&opened, sector, status, &shown)?;
                return self.open_device_at(&path);
            }
        };
        if found.is_read_only() && !read_only {
            return Err(KernelError::Device(DeviceError::ReadOnly { path: text(&found.device.path) }));
        }
        // Made by another program to go with its last user: it is ours now, and goes when it is
        // detached.
        keep(&found).map_err(failed)?;
        // The file may have grown since the device was last updated.
        let device = open_device(&found.device, Step::ResizeLoop)?;
        refresh_loop(&device).map_err(|errno| asking(&found.device, Step::ResizeLoop, errno))?;
        Ok(found.device)
    }

    fn find_loop(&self, file: &MountSource) -> Result<Option<BlockDevice>> {
        Ok(self.loop_of(file)?.map(|found| found.device))
    }

    fn detach_loop(&self, file: &MountSource) -> Result<()> {
        let shown = text(&file.label);
        let _lock = lock_file(file)?;
        // A second one can only be a stranger's; the file is free when none is left.
        while let Some(found) = self.loop_of(file)? {
            release(&found, &shown)?;
        }
        Ok(())
    }

    fn detach_removed_loops(&self, path: &Path, roots: &[PathBuf]) -> Result<()> {
        let shown = text(path);
        for one in self.loops_of_removed(path, roots)? {
            release(&one, &shown)?;
        }
        Ok(())
    }

    fn refresh_loop_size(&self, device: &BlockDevice) -> Result<()> {
        refresh_loop(open_device(device, Step::ResizeLoop)?).map_err(|errno| asking(device, Step::ResizeLoop, errno))
    }
}
