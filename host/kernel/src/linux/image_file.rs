//! Image files, mounted by a loop device that goes with the mount.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::LinuxKernel;
use super::block_device::check_path;
use super::filesystem_mount::NotMounted;
use super::ioctl::{LOOP_AUTOCLEAR, LOOP_DIRECT_IO, LOOP_READ_ONLY, LoopStatus};
use super::loop_device::{file_fd, lock_file};
use super::loop_table::{connect, note, open_backing};
use super::sector;
use crate::block_devices::BlockDevice;
use crate::error::{DeviceError, ImageError, KernelError, Result};
use crate::filesystems::{Contents, Filesystems, check_device_options};
use crate::handle::{DetachedMount, MountSource};
use crate::image_files::{ImageFiles, check_image_type};
use crate::names::text;
use crate::step::Step;
use crate::types::FsOption;

const EROFS: &str = "erofs";

/// Where an erofs image says how long it is (`struct erofs_super_block`): in blocks, at the end of
/// what is read here.
struct Superblock {
    /// Where it begins in the image.
    place: u64,
    /// As much of it as is read.
    bytes: usize,
    /// The offset of the block size in it, as a power of two.
    block_bits: usize,
}

const SUPERBLOCK: Superblock = Superblock { place: 1024, bytes: 40, block_bits: 12 };

impl ImageFiles for LinuxKernel {
    fn mount_image(&self, file: &MountSource, fs_type: &str, options: &[FsOption]) -> Result<DetachedMount> {
        check_image_type(file, fs_type)?;
        check_device_options(fs_type, options)?;
        let shown = text(&file.label);
        // Until there is a device over it that refuses writes, no other thread makes one that takes
        // them.
        let _lock = lock_file(file)?;
        if let Some(found) = self.loop_of(file)?.filter(|found| !found.is_read_only()) {
            let (path, by) = (shown, text(&found.device.path));
            return Err(KernelError::Device(DeviceError::Shown { step: Step::MountImage, path, by }));
        }
        let opened =
            open_backing(file_fd(file)?, true).map_err(|errno| KernelError::failed(Step::AttachLoop, &shown, errno))?;
        // The device goes when it is no longer open: from here on that is this call, then the
        // mount. Direct I/O where it can be had, for the file system above keeps its own pages.
        let status = LoopStatus::new(LOOP_READ_ONLY | LOOP_AUTOCLEAR | LOOP_DIRECT_IO, note(&shown));
        // As the file system's maker assumed, whatever direct I/O on the file would need.
        let (path, _held) = connect(&opened, sector::USUAL, status, &shown)?;
        let device = self.open_device_at(&path)?;
        let mount = self.new_mount(&device, fs_type, options.iter(), true).map_err(|why| match why {
            NotMounted::Asked(error) => error,
            NotMounted::Contents { errno, said } => self.not_an_image(file, &device, fs_type, errno, said),
        })?;
        if fs_type == EROFS {
            check_length(&opened, &shown)?;
        }
        self.check_carrier(mount.as_fd(), &device)?;
        check_path(&device)?;
        Ok(DetachedMount { fd: mount, label: file.label.clone() })
    }
}

impl LinuxKernel {
    /// Why the kernel did not mount it: another type, nothing at all, or damage.
    fn not_an_image(
        &self,
        file: &MountSource,
        device: &BlockDevice,
        fs_type: &str,
        errno: Errno,
        said: String,
    ) -> KernelError {
        let path = text(&file.label);
        let found = match self.probe(device) {
            Ok(Contents::Filesystem { fs_type: found, .. }) if found == fs_type => None,
            Ok(other) => Some(other.to_string()),
            // A file too short for a single sector, or one that can't be read.
            Err(_) => Some("nothing that can be read".to_owned()),
        };
        if let Some(found) = found {
            return KernelError::Image(ImageError::Mismatch { path, found, wanted: fs_type.to_owned() });
        }
        match errno {
            Errno::UCLEAN | Errno::BADMSG | Errno::INVAL | Errno::IO | Errno::NXIO | Errno::OVERFLOW => {
                KernelError::Image(ImageError::Damaged { path, fs_type: fs_type.to_owned(), errno, said })
            }
            errno => KernelError::Failed { step: Step::MountImage, path, errno, detail: said },
        }
    }
}

/// The other types' drivers compare what the image says of its length with the device's, erofs'
/// does not: the first reader would find out what is missing.
fn check_length(image: &File, shown: &str) -> Result<()> {
    let mut block = [0; SUPERBLOCK.bytes];
    let failed = |error: std::io::Error| {
        KernelError::failed(Step::MountImage, shown, Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    image.read_exact_at(&mut block, SUPERBLOCK.place).map_err(failed)?;
    let bytes = image.metadata().map_err(failed)?.len();
    let blocks = block.last_chunk().map_or(0, |count| u64::from(u32::from_le_bytes(*count)));
    let block_bits = block.get(SUPERBLOCK.block_bits).copied().unwrap_or_default();
    let claimed = blocks.checked_shl(block_bits.into()).unwrap_or(u64::MAX);
    if bytes >= claimed {
        return Ok(());
    }
    Err(KernelError::Image(ImageError::CutShort { path: shown.to_owned(), fs_type: EROFS.to_owned(), claimed, bytes }))
}
