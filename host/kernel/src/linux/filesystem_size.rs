//! How large a mounted file system is, and growing it. Asked of the file system itself, by the
//! folder it is mounted at: no program, and no path that could lead to another file.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;

use super::LinuxKernel;
use super::block_device::{asking, open_device};
use super::ext_superblock::{ExtSize, ext_size};
use super::ioctl::{btrfs_device, btrfs_max_id, device_bytes, grow_btrfs, grow_ext, grow_xfs, xfs_geometry};
use super::stat::{IdKind, look};
use super::walk::{FOLDER, open_on_same_mount};
use crate::block_devices::BlockDevice;
use crate::error::{DeviceError, FilesystemError, KernelError, Result};
use crate::handle::Directory;
use crate::names::text;
use crate::step::Step;
use crate::types::DeviceNumber;

// <linux/magic.h>
const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;

/// The unit of btrfs on every machine that has 4 KiB pages, in bytes.
const BTRFS_SECTOR: u64 = 4096;
/// More devices than this one file system never has here.
const BTRFS_MOST_DEVICES: u64 = 1024;

/// A mounted file system.
struct MountedFilesystem {
    folder: OwnedFd,
    kind: SizedFilesystem,
    /// Bytes it spans.
    bytes: u64,
    /// Bytes of its unit of growth.
    unit: u64,
}

enum SizedFilesystem {
    Ext(ExtSize),
    Xfs { inode_percent: u32 },
    Btrfs { device: u64 },
}

impl LinuxKernel {
    pub(super) fn is_smaller_than_device(&self, device: &BlockDevice, mounted: &Directory) -> Result<bool> {
        let opened = open_device(device, Step::InspectDevice)?;
        let size = device_bytes(&opened).map_err(|errno| asking(device, Step::InspectDevice, errno))?;
        let mounted = measure(device, &opened, mounted)?;
        Ok(mounted.bytes / mounted.unit < size / mounted.unit)
    }

    pub(super) fn grow_to_device(&self, device: &BlockDevice, folder: &Directory) -> Result<u64> {
        let opened = open_device(device, Step::InspectDevice)?;
        let size = device_bytes(&opened).map_err(|errno| asking(device, Step::InspectDevice, errno))?;
        let mounted = measure(device, &opened, folder)?;
        let blocks = size / mounted.unit;
        if mounted.bytes / mounted.unit >= blocks {
            return Ok(mounted.bytes);
        }
        let grown = match mounted.kind {
            // The kernel would refuse even this to a process without `CAP_SYS_RESOURCE`.
            SizedFilesystem::Ext(ext) if !ext.can_grow_to(size) => return Ok(mounted.bytes),
            SizedFilesystem::Ext(_) => grow_ext(&mounted.folder, blocks),
            SizedFilesystem::Xfs { inode_percent } => grow_xfs(&mounted.folder, blocks, inode_percent),
            SizedFilesystem::Btrfs { device } => grow_btrfs(&mounted.folder, device),
        };
        grown.map_err(|errno| KernelError::failed(Step::GrowFileSystem, text(&device.path), errno))?;
        Ok(measure(device, &opened, folder)?.bytes)
    }
}

/// Asks the file system that is mounted at a folder, which must be that of the device.
fn measure(device: &BlockDevice, opened: &File, folder: &Directory) -> Result<MountedFilesystem> {
    let failed = |errno| KernelError::failed(Step::MeasureFileSystem, text(&device.path), errno);
    // A place can't be asked; its `.` can.
    let fd = open_on_same_mount(folder.as_fd(), ".", FOLDER)
        .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&folder.label), errno))?;
    let magic = rustix::fs::fstatfs(&fd).map_err(failed)?.f_type;
    // The type's width differs between machines; a magic number has 32 bits.
    let magic = u64::try_from(magic).unwrap_or_default() & u64::from(u32::MAX);
    let (major, minor) = look(&fd, "", IdKind::Reused).map_err(failed)?.device();
    let found = DeviceNumber { major, minor };
    if magic != BTRFS && found != device.number {
        return Err(KernelError::Device(DeviceError::Other {
            path: text(&folder.label),
            found,
            wanted: device.number,
        }));
    }
    match magic {
        EXT => {
            let size = ext_size(opened).map_err(failed)?;
            let (bytes, unit) = (size.bytes(), size.block_bytes());
            Ok(MountedFilesystem { folder: fd, kind: SizedFilesystem::Ext(size), bytes, unit })
        }
        XFS => {
            let geometry = xfs_geometry(&fd).map_err(failed)?;
            let unit = u64::from(geometry.block_bytes.max(1));
            let kind = SizedFilesystem::Xfs { inode_percent: geometry.inode_percent };
            Ok(MountedFilesystem { folder: fd, kind, bytes: geometry.data_blocks.saturating_mul(unit), unit })
        }
        BTRFS => {
            let Some((id, bytes)) = btrfs_part(&fd, device.number).map_err(failed)? else {
                return Err(KernelError::Device(DeviceError::Other {
                    path: text(&folder.label),
                    found,
                    wanted: device.number,
                }));
            };
            Ok(MountedFilesystem { folder: fd, kind: SizedFilesystem::Btrfs { device: id }, bytes, unit: BTRFS_SECTOR })
        }
        other => {
            let fs_type = format!("with magic number {other:#x}");
            Err(KernelError::Filesystem(FilesystemError::Unsupported { path: text(&device.path), fs_type }))
        }
    }
}

/// Which of a btrfs's devices this is, and how much of it the file system has, in bytes.
fn btrfs_part(fd: impl AsFd, wanted: DeviceNumber) -> std::result::Result<Option<(u64, u64)>, Errno> {
    let fd = fd.as_fd();
    for id in 1..=btrfs_max_id(fd)?.min(BTRFS_MOST_DEVICES) {
        let part = match btrfs_device(fd, id) {
            // Taken out of it once.
            Err(Errno::NODEV) => continue,
            part => part?,
        };
        let path = part.path.split(|byte| *byte == 0).next().unwrap_or_default();
        if look(CWD, Path::new(OsStr::from_bytes(path)), IdKind::Reused).is_ok_and(|seen| seen.node() == wanted) {
            return Ok(Some((id, part.total_bytes)));
        }
    }
    Ok(None)
}
