//! File systems on block devices: what is on one, formatting, checking, mounting, growing.

use std::fmt;

use crate::block_devices::BlockDevice;
use crate::error::{FilesystemError, KernelError, Result};
use crate::format_options::FormatOptions;
use crate::handle::{DetachedMount, Directory};
use crate::names::text;
use crate::types::FsOption;

/// The content of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Nothing but zeros, as far as it was looked at: all of what an image's file has data for,
    /// unless that is a lot; of a large disk both ends and places in between.
    Blank,
    /// A file system.
    Filesystem {
        /// Its type, as mount(8) calls it.
        fs_type: String,
        /// Its label, if it has one.
        label: Option<String>,
    },
    /// A partition table.
    Partitions,
    /// Something else: an encrypted volume, a part of a RAID, several things at once, data that no
    /// tool recognises.
    Other(String),
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("nothing"),
            Self::Filesystem { fs_type, .. } => write!(f, "a file system ({fs_type})"),
            Self::Partitions => f.write_str("a partition table"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The file system is whole.
    Clean,
    /// It was damaged, and repaired.
    Repaired,
    /// This type has no check before mounting: XFS replays its log and btrfs checks itself when
    /// mounted.
    AtMount,
}

/// Primitives over file systems on block devices: ext2, ext3, ext4, XFS and btrfs.
///
/// # Guarantees
/// - Nothing is formatted but a blank device.
/// - Two callers at once on one device do no harm: formatting and checking hold the device's lock
///   (`flock`), and the second sees what the first left.
///
/// # Assumptions
/// Calls take as long as the device does; formatting and checking are ended after ten minutes.
pub trait Filesystems {
    /// Returns what is on the device. What a format left that did not end is blank.
    ///
    /// # Errors
    /// `Failed` if it can't be read (that is never blank); `DeviceError::StillOpen` if a format did
    /// not end and may still write; `ToolError::Missing`, `ToolError::Failed`, `DeviceError::Gone`.
    fn probe(&self, device: &BlockDevice) -> Result<Contents>;

    /// Makes a file system on a blank device. A mkfs that fails leaves the device blank, as far as
    /// the device can still be written and reports where it was written.
    ///
    /// # Errors
    /// `FilesystemError::Unsupported`; `FilesystemError::NotBlank`, and nothing was written;
    /// `DeviceError::ReadOnly`; `Failed` (`Busy`) if something has the device for itself;
    /// `DeviceError::Shown` if a pod has it as a device; `InvalidOption`; `ToolError::Missing`,
    /// `ToolError::NotConfined`, `ToolError::Failed`, `ToolError::TimedOut`; as
    /// [`Filesystems::probe`].
    fn format(&self, device: &BlockDevice, fs_type: &str, options: &FormatOptions) -> Result<()>;

    /// Checks the file system and repairs what can be repaired without losing anything. Only for
    /// what is not mounted and will be mounted for writing: a check writes.
    ///
    /// # Errors
    /// `FilesystemError::Damaged` with what is left to do by hand; `FilesystemError::Missing`;
    /// `DeviceError::ReadOnly`; `Failed` (`Busy`) if the device is in use; else as
    /// [`Filesystems::format`].
    fn check(&self, device: &BlockDevice, fs_type: &str) -> Result<CheckOutcome>;

    /// A mount of the file system on the device, unseen until attached. `options` are those of the
    /// file system, per-mount ones are for [`crate::Kernel::set_options`]. An ext file system that
    /// finds itself damaged becomes read-only, unless `options` say otherwise (`errors`).
    ///
    /// With `read_only` nothing can be written to it. As with mount(8) a journal left by a crash is
    /// replayed first; on a device that refuses writes it can't be, and mounting fails unless
    /// `options` renounce it (`noload`, `norecovery`).
    ///
    /// # Errors
    /// `FilesystemError::Unsupported`; `FilesystemError::Mismatch` if it is of another type;
    /// `FilesystemError::Missing`; `FilesystemError::Damaged`; `DeviceError::Shown` if a pod has it
    /// as a device; `DeviceError::SectorsTooLarge`; `InvalidOption` for one that the file system
    /// refuses or that names another device; `UnsupportedOption`; `Failed` with the kernel's log.
    fn mount_filesystem(
        &self,
        device: &BlockDevice,
        fs_type: &str,
        options: &[FsOption],
        read_only: bool,
    ) -> Result<DetachedMount>;

    /// Returns whether the file system that is mounted at the folder is smaller than the device, by
    /// a block at least. It stays so where the rest of the device is too small for what the file
    /// system would grow by; growing then changes nothing.
    ///
    /// # Errors
    /// `DeviceError::Other` if the folder is not on a file system of this device;
    /// `FilesystemError::Unsupported`; `Failed`.
    fn needs_grow(&self, device: &BlockDevice, mounted: &Directory) -> Result<bool>;

    /// Grows the mounted file system to the device's size, while it is used. Returns the size in
    /// bytes that it then has, its own bookkeeping included. As large already: done.
    ///
    /// # Errors
    /// As [`Filesystems::needs_grow`]; `Failed` with `ROFS` if it is mounted read-only.
    fn grow_filesystem(&self, device: &BlockDevice, mounted: &Directory) -> Result<u64>;

    /// Grows an ext file system that is not mounted to the device's size, after a full check.
    /// Returns the size in bytes that it then has. As large already: done, without a check. A host
    /// without `CAP_SYS_RESOURCE` can grow it in no other way. The other types can only grow
    /// mounted: none.
    ///
    /// # Errors
    /// As [`Filesystems::check`].
    fn grow_unmounted(&self, device: &BlockDevice, fs_type: &str) -> Result<Option<u64>>;
}

/// Types that the same tools and calls serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// ext2, ext3 and ext4.
    Ext,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

/// The option that gives everything in a file system one SELinux label.
pub const LABEL_OPTION: &str = "context";

/// Options that name another device, or that this crate sets itself.
const NOT_FOR_CALLERS: [&str; 8] = ["source", "ro", "rw", "device", "logdev", "rtdev", "journal_dev", "journal_path"];

impl Family {
    /// The family of a type; an error for one that is not served.
    pub fn of(device: &BlockDevice, fs_type: &str) -> Result<Self> {
        match fs_type {
            "ext2" | "ext3" | "ext4" => Ok(Self::Ext),
            "xfs" => Ok(Self::Xfs),
            "btrfs" => Ok(Self::Btrfs),
            other => Err(KernelError::Filesystem(FilesystemError::Unsupported {
                path: text(&device.path),
                fs_type: other.to_owned(),
            })),
        }
    }

    /// The command by which a person repairs one.
    pub const fn repair(self) -> &'static str {
        match self {
            Self::Ext => "e2fsck -f",
            Self::Xfs => "xfs_repair",
            Self::Btrfs => "btrfs check",
        }
    }
}

/// Refuses options that reach beyond the device, or that bring down the node.
pub fn check_device_options(fs_type: &str, options: &[FsOption]) -> Result<()> {
    for option in options {
        let reason = if NOT_FOR_CALLERS.contains(&option.key.as_str()) {
            "it is not for a volume to say"
        } else if option.value.as_deref() == Some("panic") {
            "it would stop the whole node when the file system is damaged"
        } else if [Some(option.key.as_str()), option.value.as_deref()]
            .into_iter()
            .flatten()
            .any(|text| text.contains('\0'))
        {
            "it contains NUL"
        } else {
            continue;
        };
        let (subject, option) = (fs_type.to_owned(), option.key.clone());
        return Err(KernelError::InvalidOption { subject, option, reason: reason.to_owned() });
    }
    Ok(())
}
