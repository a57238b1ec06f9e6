//! Mounting what is on a device: `fsopen` with the device as its source.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::LinuxKernel;
use super::block_device::{check_path, open_device};
use super::device_lock::lock_unshown;
use super::format_mark::forget_format;
use super::fs_context::{configure, log, refused};
use super::sector::too_large;
use super::stat::look;
use crate::block_devices::BlockDevice;
use crate::error::{DeviceError, FilesystemError, KernelError, Result};
use crate::filesystems::{Family, check_device_options};
use crate::handle::DetachedMount;
use crate::names::text;
use crate::step::Step;
use crate::types::{DeviceNumber, FsOption};

/// Why there is no mount.
pub(super) enum NotMounted {
    /// What was asked for can't be.
    Asked(KernelError),
    /// The kernel refuses what is on the device.
    Contents {
        /// Its answer.
        errno: Errno,
        /// What else it said.
        said: String,
    },
}

impl From<KernelError> for NotMounted {
    fn from(error: KernelError) -> Self {
        Self::Asked(error)
    }
}

impl LinuxKernel {
    pub(super) fn mount_from_device(
        &self,
        device: &BlockDevice,
        fs_type: &str,
        options: &[FsOption],
        read_only: bool,
    ) -> Result<DetachedMount> {
        let family = Family::of(device, fs_type)?;
        check_device_options(fs_type, options)?;
        // A damaged file system may say itself that the machine is to stop on its damage; a volume
        // can't decide that.
        let own = FsOption::new("errors", "remount-ro");
        let own = (family == Family::Ext && !options.iter().any(|option| option.key == "errors")).then_some(&own);
        // Until the mount has the device for itself, no pod gets it as a device.
        let _lock = lock_unshown(device, Step::MountFileSystem)?;
        let mount = self.new_mount(device, fs_type, own.into_iter().chain(options), read_only);
        let mount = mount.map_err(|why| match why {
            NotMounted::Asked(error) => error,
            NotMounted::Contents { errno, said } => self.not_mounted(device, family, fs_type, errno, said),
        })?;
        // The kernel took the device by its path; make sure that it took this one. A btrfs has a
        // number of its own.
        if family != Family::Btrfs {
            self.check_carrier(mount.as_fd(), device)?;
        }
        check_path(device)?;
        forget_format(device)?;
        Ok(DetachedMount { fd: mount, label: device.path.clone() })
    }

    /// A new mount of what is on the device.
    pub(super) fn new_mount<'a>(
        &self,
        device: &BlockDevice,
        fs_type: &str,
        options: impl Iterator<Item = &'a FsOption>,
        read_only: bool,
    ) -> std::result::Result<OwnedFd, NotMounted> {
        check_path(device)?;
        let failed = |errno, detail| {
            let (step, path) = (Step::MountFileSystem, text(&device.path));
            KernelError::Failed { step, path, errno, detail }
        };
        let context = rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| {
            let known = if errno == Errno::NODEV { format!("this kernel knows no {fs_type}") } else { String::new() };
            failed(errno, known)
        })?;
        let said = |errno| failed(errno, log(context.as_fd()));
        rustix::mount::fsconfig_set_string(&context, "source", &device.path).map_err(said)?;
        if read_only {
            rustix::mount::fsconfig_set_flag(&context, "ro").map_err(said)?;
        }
        for option in options {
            configure(context.as_fd(), option)
                .map_err(|errno| refused(fs_type, option, errno, log(context.as_fd())))?;
        }
        rustix::mount::fsconfig_create(&context)
            .map_err(|errno| NotMounted::Contents { errno, said: log(context.as_fd()) })?;
        let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        Ok(mount.map_err(|errno| failed(errno, log(context.as_fd())))?)
    }

    /// Makes sure that this device carries the mount.
    pub(super) fn check_carrier(&self, mount: BorrowedFd<'_>, device: &BlockDevice) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::MountFileSystem, text(&device.path), errno);
        let (major, minor) = look(mount, "", self.ids()).map_err(failed)?.device();
        if (DeviceNumber { major, minor }) == device.number {
            return Ok(());
        }
        Err(KernelError::Device(DeviceError::Gone { path: text(&device.path), wanted: device.number }))
    }

    /// Why the kernel did not mount it, in the terms of who asked.
    fn not_mounted(
        &self,
        device: &BlockDevice,
        family: Family,
        fs_type: &str,
        errno: Errno,
        said: String,
    ) -> KernelError {
        let path = text(&device.path);
        // The kernel reports this only in its own log.
        let sectors = open_device(device, Step::InspectDevice).map(|opened| too_large(&opened));
        if let Ok(Ok(Some((sector, wanted)))) = sectors {
            return KernelError::Device(DeviceError::SectorsTooLarge {
                path,
                fs_type: fs_type.to_owned(),
                sector,
                wanted,
                errno,
            });
        }
        // What ext4 and XFS call what they find damaged, and what they call a wrong checksum.
        if matches!(errno, Errno::UCLEAN | Errno::BADMSG) {
            return KernelError::Filesystem(FilesystemError::Damaged {
                path,
                fs_type: fs_type.to_owned(),
                said,
                repair: family.repair(),
            });
        }
        let failed = KernelError::Failed { step: Step::MountFileSystem, path, errno, detail: said };
        // Looked at only now: a kernel that can mount it as asked (an ext3 as ext4) knows better
        // than a comparison of names.
        self.other_type(device, fs_type).unwrap_or(failed)
    }
}
