//! Copies of image files. Each is made without a name, and gets one when it is whole.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::LinuxKernel;
use super::freeze::{Moment, MountedDevice};
use super::image_store::{granted_folder, sync_folder};
use super::loop_device::{IMAGE_MODE, file_fd, lock_file};
use super::loop_table::open_backing;
use super::sector::copy_sector_size;
use super::stat::{look, look_closer};
use super::walk::proc_path;
use crate::error::{KernelError, Result};
use crate::handle::MountSource;
use crate::names::{check_absolute, check_name, text};
use crate::step::Step;

/// The most that one call of the kernel is asked to copy, in bytes: between two the process can be
/// ended.
const COPY_STEP: u64 = 64 << 20;

/// A copy that has no name yet.
struct Copy<'a> {
    image: &'a MountSource,
    source: File,
    copy: File,
    folder: MountSource,
    to: &'a Path,
    name: &'a OsStr,
}

impl Copy<'_> {
    fn failed(&self, errno: Errno) -> KernelError {
        KernelError::failed(Step::CopyImage, text(self.to), errno)
    }

    /// Shares the blocks of the image as it is at this moment. Returns whether the file system can.
    fn share(&self) -> Result<bool> {
        match rustix::fs::ioctl_ficlone(&self.copy, &self.source) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS) => Ok(false),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Copies the data of an image that nothing writes to.
    fn data(&self) -> Result<()> {
        copy_data(&self.source, &self.copy).map_err(|errno| self.failed(errno))
    }

    /// Gives the copy its name. Returns its size.
    fn publish(&self, kernel: &LinuxKernel) -> Result<u64> {
        let failed = |errno| self.failed(errno);
        copy_sector_size(&self.source, &self.copy);
        rustix::fs::fsync(&self.copy).map_err(failed)?;
        let size = look_closer(&self.copy, "", kernel.ids()).map_err(failed)?.size();
        let folder = granted_folder(&self.folder)?;
        rustix::fs::linkat(CWD, proc_path(self.copy.as_fd(), None), folder, self.name, AtFlags::SYMLINK_FOLLOW)
            .map_err(failed)?;
        sync_folder(folder).map_err(failed)?;
        Ok(size)
    }

    /// Takes the name away, if [`publish`](Self::publish) has given it to this copy.
    fn withdraw(&self, kernel: &LinuxKernel) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::RemoveFile, text(self.to), errno);
        let folder = granted_folder(&self.folder)?;
        let own = look_closer(&self.copy, "", kernel.ids()).map_err(failed)?;
        match look_closer(folder, self.name, kernel.ids()) {
            Ok(there) if there.identity() == own.identity() => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        }
        rustix::fs::unlinkat(folder, self.name, AtFlags::empty()).map_err(failed)?;
        sync_folder(folder).map_err(failed)
    }
}

/// A copy of an image in use would not be of one moment.
fn in_use(image: &MountSource, detail: &str) -> KernelError {
    KernelError::Failed {
        step: Step::CopyImage,
        path: text(&image.label),
        errno: Errno::BUSY,
        detail: detail.to_owned(),
    }
}

const NO_SHARING: &str = "it has a loop device, and its file system cannot share blocks, so that a copy would not be of one \
                          moment; copy it when no node uses it, or keep images on XFS (reflink=1) or btrfs";
const NOT_MOUNTED: &str = "it has a loop device from which no file system is mounted, so that nothing keeps it as it is \
                           while others are copied; copy them when no node uses it";

impl LinuxKernel {
    pub(super) fn copy_one(&self, image: &MountSource, to: &Path, roots: &[PathBuf]) -> Result<u64> {
        // No other thread makes a device over it meanwhile.
        let _lock = lock_file(image)?;
        let copy = self.new_copy(image, to, roots)?;
        if !copy.share()? {
            if self.loop_of(image)?.is_some() {
                return Err(in_use(image, NO_SHARING));
            }
            copy.data()?;
        }
        copy.publish(self)
    }

    pub(super) fn copy_together(&self, copies: &[(MountSource, PathBuf)], roots: &[PathBuf]) -> Result<()> {
        // In one order, so that two calls do not wait for each other; an image may be there twice.
        let mut images = BTreeMap::new();
        for (image, _) in copies {
            let seen = look_closer(file_fd(image)?, "", self.ids())
                .map_err(|errno| KernelError::failed(Step::Inspect, text(&image.label), errno))?;
            images.insert((seen.device(), seen.inode()), image);
        }
        let _locks = images.values().map(|image| lock_file(image)).collect::<Result<Vec<_>>>()?;
        let mut used = Vec::new();
        for image in images.into_values() {
            if let Some(device) = self.loop_of(image)? {
                used.push(self.mounted(&device)?.ok_or_else(|| in_use(image, NOT_MOUNTED))?);
            }
        }
        let all = copies.iter().map(|(image, to)| self.new_copy(image, to, roots)).collect::<Result<Vec<_>>>()?;
        if used.is_empty() {
            for copy in &all {
                if !copy.share()? {
                    copy.data()?;
                }
            }
        } else {
            share_at_one_moment(&all, used)?;
        }
        for (at, copy) in all.iter().enumerate() {
            let Err(cause) = copy.publish(self) else { continue };
            // The one that failed may have its name.
            return Err(match all.iter().take(at + 1).try_for_each(|copy| copy.withdraw(self)) {
                Ok(()) => cause,
                Err(undo) => KernelError::UndoFailed { cause: Box::new(cause), undo: Box::new(undo) },
            });
        }
        Ok(())
    }

    fn new_copy<'a>(&self, image: &'a MountSource, to: &'a Path, roots: &[PathBuf]) -> Result<Copy<'a>> {
        check_absolute(to)?;
        let failed = |errno| KernelError::failed(Step::CopyImage, text(to), errno);
        let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(failed(Errno::ISDIR));
        };
        check_name(name)?;
        let folder = self.open_granted(parent, roots)?;
        let parent = granted_folder(&folder)?;
        match look(parent, name, self.ids()) {
            Ok(_) => return Err(failed(Errno::EXIST)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let source = open_backing(file_fd(image)?, true).map_err(failed)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(IMAGE_MODE);
        let copy = rustix::fs::open(proc_path(parent, None), flags, mode).map(File::from).map_err(failed)?;
        Ok(Copy { image, source, copy, folder, to, name })
    }
}

/// Freezes what is mounted from the images, and shares the blocks of all of them meanwhile.
fn share_at_one_moment(all: &[Copy<'_>], used: Vec<MountedDevice>) -> Result<()> {
    // Written out before the freeze, so that it is short: by the file system in each image, and by
    // the one that has the images.
    for mounted in &used {
        mounted.sync()?;
    }
    for copy in all {
        rustix::fs::fsync(&copy.source).map_err(|errno| copy.failed(errno))?;
    }
    let moment = Moment::begin()?;
    let shared = (|| {
        for mounted in used {
            moment.freeze(mounted)?;
        }
        for copy in all {
            if !copy.share()? {
                return Err(in_use(copy.image, NO_SHARING));
            }
        }
        Ok(())
    })();
    // Whatever happened, nothing stays frozen.
    let ended = moment.end();
    shared.and(ended)
}

/// Copies what is no hole, and gives the copy the same size.
fn copy_data(source: &File, copy: &File) -> std::result::Result<(), Errno> {
    let size = rustix::fs::seek(source, SeekFrom::End(0))?;
    rustix::fs::ftruncate(copy, size)?;
    let mut at = 0;
    while at < size {
        let begin = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(begin))?;
        copy_range(source, copy, begin, end)?;
        at = end;
    }
    Ok(())
}

fn copy_range(source: &File, copy: &File, mut from: u64, end: u64) -> std::result::Result<(), Errno> {
    let mut to = from;
    while from < end {
        let step = usize::try_from((end - from).min(COPY_STEP)).unwrap_or(usize::MAX);
        // It moves both places on.
        if rustix::fs::copy_file_range(source, Some(&mut from), copy, Some(&mut to), step)? == 0 {
            // Cut short while it was copied.
            return Err(Errno::IO);
        }
    }
    Ok(())
}
