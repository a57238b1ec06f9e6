//! Folders of image files.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FallocateFlags, FileType, SeekFrom};
use rustix::io::Errno;

use super::LinuxKernel;
use super::host_path::open_following;
use super::loop_device::{file_fd, lock_file};
use super::loop_table::open_backing;
use super::stat::{look, look_closer};
use super::walk::{FOLDER, open_beneath, read_names};
use crate::error::{ErrorKind, KernelError, Result};
use crate::handle::{MountSource, SourceKind};
use crate::image_stores::{ImageFacts, ImageStores};
use crate::names::text;
use crate::step::Step;

/// The kernel's unit of a file's blocks, in bytes.
const STAT_BLOCK: u64 = 512;
/// The expected identity of a folder.
const FOLDER_WORD: &str = SourceKind::Directory.as_str();

/// The descriptor of a granted folder; refuses what is none.
pub(super) fn granted_folder(source: &MountSource) -> Result<BorrowedFd<'_>> {
    if source.kind == SourceKind::Directory {
        return Ok(source.as_fd());
    }
    let (expected, found) = (FOLDER_WORD, source.kind.as_str());
    Err(KernelError::WrongType { path: text(&source.label), expected, found })
}

impl ImageStores for LinuxKernel {
    fn image_names(&self, folder: &Path, roots: &[PathBuf]) -> Result<Vec<String>> {
        let failed = |errno| KernelError::failed(Step::ListFolder, text(folder), errno);
        let source = self.open_granted(folder, roots)?;
        let opened = open_beneath(granted_folder(&source)?, ".", FOLDER).map_err(failed)?;
        let mut names = Vec::new();
        for name in read_names(&opened).map_err(failed)? {
            match look(&opened, name.as_os_str(), self.ids()) {
                Ok(seen) if seen.file_type() == FileType::RegularFile => names.extend(name.into_string()),
                // Another kind of thing, or gone since it was listed.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn image_facts(&self, image: &MountSource) -> Result<ImageFacts> {
        let seen = look_closer(file_fd(image)?, "", self.ids())
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&image.label), errno))?;
        let stat = rustix::fs::fstat(file_fd(image)?)
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&image.label), errno))?;
        Ok(ImageFacts {
            size: seen.size(),
            modified: u64::try_from(seen.modified()).unwrap_or_default(),
            taken: u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(STAT_BLOCK),
        })
    }

    fn reserve_image(&self, image: &MountSource, bytes: u64) -> Result<u64> {
        let failed = |errno| KernelError::failed(Step::ReserveImage, text(&image.label), errno);
        // No other thread copies or releases it meanwhile.
        let _lock = lock_file(image)?;
        let file = open_backing(file_fd(image)?, false).map_err(failed)?;
        let before = look_closer(&file, "", self.ids()).map_err(failed)?.size();
        let size = before.max(bytes);
        check_room(&file, size).map_err(failed)?;
        // It sets the size, too.
        if let Err(errno) = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
            // Others have taken the room meanwhile. Some file systems keep what there was of it.
            let _ = rustix::fs::ftruncate(&file, before);
            return Err(failed(errno));
        }
        rustix::fs::fsync(&file).map_err(failed)?;
        Ok(size)
    }

    fn release_image(&self, image: &MountSource) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::ReleaseImage, text(&image.label), errno);
        let _lock = lock_file(image)?;
        if self.loop_of(image)?.is_some() {
            return Err(KernelError::Failed {
                step: Step::ReleaseImage,
                path: text(&image.label),
                errno: Errno::BUSY,
                detail: "it has a loop device, through which it may be written at this moment; release it when no node uses it"
                    .to_owned(),
            });
        }
        let file = open_backing(file_fd(image)?, false).map_err(failed)?;
        // What is only in memory yet would look like a hole.
        rustix::fs::fsync(&file).map_err(failed)?;
        release_holes(&file).map_err(failed)
    }

    fn copy_image(&self, image: &MountSource, to: &Path, roots: &[PathBuf]) -> Result<u64> {
        self.copy_one(image, to, roots)
    }

    fn copy_images_together(&self, copies: &[(MountSource, PathBuf)], roots: &[PathBuf]) -> Result<()> {
        self.copy_together(copies, roots)
    }

    fn thaw_images(&self, roots: &[PathBuf]) -> Result<Vec<PathBuf>> {
        self.thaw_loops(roots)
    }

    fn remove_image(&self, path: &Path, roots: &[PathBuf]) -> Result<()> {
        let failed = |errno| KernelError::walking(Step::RemoveFile, text(path), errno);
        let image = match self.open_granted(path, roots) {
            Ok(image) => image,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let ours = look_closer(file_fd(&image)?, "", self.ids()).map_err(failed)?;
        let _lock = lock_file(&image)?;
        if self.loop_of(&image)?.is_some() {
            return Err(KernelError::Failed {
                step: Step::RemoveFile,
                path: text(path),
                errno: Errno::BUSY,
                detail: "it has a loop device; a node uses it".to_owned(),
            });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(Errno::ISDIR));
        };
        let parent = open_following(folder).map_err(failed)?;
        match look_closer(&parent, name, self.ids()) {
            Ok(there) if there.identity() == ours.identity() => {}
            Ok(_) => return Err(failed(Errno::LOOP)),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        }
        rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(failed)?;
        sync_folder(parent.as_fd()).map_err(failed)
    }

    fn free_space(&self, folder: &Path, roots: &[PathBuf]) -> Result<u64> {
        let source = self.open_granted(folder, roots)?;
        let stat = rustix::fs::fstatvfs(granted_folder(&source)?)
            .map_err(|errno| KernelError::failed(Step::AskUsage, text(folder), errno))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// A name must survive a crash of the machine: a caller knows that it is there, or gone.
pub(super) fn sync_folder(folder: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
    rustix::fs::fsync(open_beneath(folder, ".", FOLDER)?)
}

/// `NOSPC` if the file system cannot have a file of this size without holes. Asked before its
/// blocks are taken: a file system takes all that it has before it fails, and meanwhile nothing
/// else on the node can write to it.
fn check_room(file: &impl AsFd, size: u64) -> rustix::io::Result<()> {
    let taken = u64::try_from(rustix::fs::fstat(file)?.st_blocks).unwrap_or_default().saturating_mul(STAT_BLOCK);
    let room = rustix::fs::fstatvfs(file)?;
    let room = room.f_bavail.saturating_mul(room.f_frsize);
    if size.saturating_sub(taken) > room { Err(Errno::NOSPC) } else { Ok(()) }
}

/// Gives back the room of what reads as a hole.
fn release_holes(file: &File) -> std::result::Result<(), Errno> {
    let size = rustix::fs::seek(file, SeekFrom::End(0))?;
    let mut at = 0;
    while at < size {
        let begin = rustix::fs::seek(file, SeekFrom::Hole(at))?;
        let end = match rustix::fs::seek(file, SeekFrom::Data(begin)) {
            Ok(end) => end,
            Err(Errno::NXIO) => size,
            Err(errno) => return Err(errno),
        };
        if begin < end {
            rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, begin, end - begin)?;
        }
        at = end;
    }
    Ok(())
}
