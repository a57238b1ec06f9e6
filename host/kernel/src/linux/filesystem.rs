//! File systems on devices, by the usual tools: `blkid` recognises, `mkfs` makes, `e2fsck` checks.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::io::Errno;

use super::LinuxKernel;
use super::blank::{first_data, zero_data};
use super::block_device::{asking, check_path, in_use, open_device};
use super::device_lock::lock_unused;
use super::ext_superblock::{ext_size, has_ext_mark};
use super::format_mark::{MarkedImage, is_just_made, is_unfinished};
use super::fresh::was_never_mounted;
use super::ioctl::device_bytes;
use super::tool::{Ended, Purpose, Tool, run};
use crate::block_devices::{BlockDevice, BlockDevices};
use crate::error::{DeviceError, FilesystemError, KernelError, Result, ToolError};
use crate::filesystems::{CheckOutcome, Contents, Family, Filesystems};
use crate::format_options::FormatOptions;
use crate::handle::{DetachedMount, Directory};
use crate::names::text;
use crate::step::Step;
use crate::types::FsOption;

const BLKID: Tool = Tool { name: "blkid", package: "util-linux" };
const WIPEFS: Tool = Tool { name: "wipefs", package: "util-linux" };
const E2FSCK: Tool = Tool { name: "e2fsck", package: "e2fsprogs" };
const RESIZE2FS: Tool = Tool { name: "resize2fs", package: "e2fsprogs" };
const MKFS_EXT2: Tool = Tool { name: "mkfs.ext2", package: "e2fsprogs" };
const MKFS_EXT3: Tool = Tool { name: "mkfs.ext3", package: "e2fsprogs" };
const MKFS_EXT4: Tool = Tool { name: "mkfs.ext4", package: "e2fsprogs" };
const MKFS_XFS: Tool = Tool { name: "mkfs.xfs", package: "xfsprogs" };
const MKFS_BTRFS: Tool = Tool { name: "mkfs.btrfs", package: "btrfs-progs" };
/// What a volume on a device needs without an `fsType` of its own: it gets ext4.
pub(super) const BASIC_TOOLS: [Tool; 5] = [BLKID, WIPEFS, MKFS_EXT4, E2FSCK, RESIZE2FS];
/// What other file systems need.
pub(super) const OTHER_TOOLS: [Tool; 4] = [MKFS_XFS, MKFS_BTRFS, MKFS_EXT3, MKFS_EXT2];

/// How long making or checking a file system may take: terabytes on a slow network need minutes.
const LONG: Duration = Duration::from_secs(600);
/// How long looking may take.
const SHORT: Duration = Duration::from_secs(60);
/// What is read at either end of a device to see whether it can be read, in bytes: blkid looks for
/// nothing farther in.
const END_BYTES: usize = 1 << 20;

/// blkid's exit codes (blkid(8)): nothing was found; it can't decide.
const BLKID_NOTHING: i32 = 2;
const BLKID_AMBIVALENT: i32 = 8;
/// Bits of e2fsck's exit code (e2fsck(8)): errors were corrected, and the machine should restart;
/// errors were left.
const FSCK_REPAIRED: i32 = 1 | 2;
const FSCK_UNCORRECTED: i32 = 4;
/// e2fsck could not even begin.
const FSCK_FAILED: i32 = 8;
/// What e2fsck then says of a device that another process has for itself: when it looks whether it is
/// used, or when it opens it.
const FSCK_IN_USE: [&str; 2] = [" is in use.", "opened exclusively by another program"];
/// How often it is started for a device that nothing uses but who looks whether it is used, which
/// takes it for a moment.
const FSCK_STARTS: usize = 5;

impl Filesystems for LinuxKernel {
    fn probe(&self, device: &BlockDevice) -> Result<Contents> {
        match self.contents_of(device)? {
            found if is_left_by_format(device, &found)? => Ok(Contents::Blank),
            found => Ok(found),
        }
    }

    fn format(&self, device: &BlockDevice, fs_type: &str, options: &FormatOptions) -> Result<()> {
        let family = Family::of(device, fs_type)?;
        let path = text(&device.path);
        let words = options.arguments(fs_type)?;
        // Held until the file system is made, so that what was seen stays true.
        let _lock = lock_unused(device, Step::FormatDevice)?;
        if self.device_read_only(device)? {
            return Err(KernelError::Device(DeviceError::ReadOnly { path }));
        }
        let is_blank = match self.contents_of(device)? {
            Contents::Blank => true,
            found if is_left_by_format(device, &found)? => false,
            found => return Err(KernelError::Filesystem(FilesystemError::NotBlank { path, found: found.to_string() })),
        };
        let marked = MarkedImage::mark(device)?;
        if !is_blank {
            self.erase(device)?;
        }
        let tool = match (family, fs_type) {
            (Family::Ext, "ext2") => MKFS_EXT2,
            (Family::Ext, "ext3") => MKFS_EXT3,
            (Family::Ext, _) => MKFS_EXT4,
            (Family::Xfs, _) => MKFS_XFS,
            (Family::Btrfs, _) => MKFS_BTRFS,
        };
        let purpose = Purpose { step: Step::FormatDevice, path: &path };
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let made = self.on_device(tool, &arguments, device, purpose, LONG).and_then(|ended| match ended.code() {
            Some(0) => Ok(()),
            _ => Err(ended.failed(tool, purpose)),
        });
        let unmark = || marked.as_ref().map_or(Ok(()), |marked| marked.unmark(device));
        match made {
            Ok(()) => marked.map_or(Ok(()), |marked| marked.made(device)),
            Err(KernelError::Device(DeviceError::Gone { .. })) => made,
            // Nothing was written.
            Err(KernelError::Tool(ToolError::Missing { .. } | ToolError::NotConfined { .. })) => unmark().and(made),
            Err(cause) => Err(cause.undone(self.erase(device).and_then(|()| unmark()))),
        }
    }

    fn check(&self, device: &BlockDevice, fs_type: &str) -> Result<CheckOutcome> {
        let family = Family::of(device, fs_type)?;
        if family != Family::Ext {
            return Ok(CheckOutcome::AtMount);
        }
        let lock = lock_unused(device, Step::CheckFileSystem)?;
        // There is nothing to repair, and a check that is killed can leave half a superblock.
        if is_just_made(device)? && was_never_mounted(device, fs_type)? && !self.device_read_only(device)? {
            return Ok(CheckOutcome::Clean);
        }
        self.check_ext(device, &lock, fs_type, &["-p"])
    }

    fn mount_filesystem(
        &self,
        device: &BlockDevice,
        fs_type: &str,
        options: &[FsOption],
        read_only: bool,
    ) -> Result<DetachedMount> {
        self.mount_from_device(device, fs_type, options, read_only)
    }

    fn needs_grow(&self, device: &BlockDevice, mounted: &Directory) -> Result<bool> {
        self.is_smaller_than_device(device, mounted)
    }

    fn grow_filesystem(&self, device: &BlockDevice, mounted: &Directory) -> Result<u64> {
        self.grow_to_device(device, mounted)
    }

    fn grow_unmounted(&self, device: &BlockDevice, fs_type: &str) -> Result<Option<u64>> {
        if Family::of(device, fs_type)? != Family::Ext {
            return Ok(None);
        }
        let lock = lock_unused(device, Step::GrowFileSystem)?;
        let asked = |errno| asking(device, Step::MeasureFileSystem, errno);
        let size = device_bytes(&lock).map_err(asked)?;
        let found = ext_size(&lock).map_err(asked)?;
        // A full check of a large file system takes minutes.
        if has_ext_mark(&lock).map_err(asked)? && !found.can_grow_to(size) {
            return Ok(Some(found.bytes()));
        }
        // resize2fs insists on it, unless the last check is newer than the last mount.
        self.check_ext(device, &lock, fs_type, &["-f", "-p"])?;
        let path = text(&device.path);
        let purpose = Purpose { step: Step::GrowFileSystem, path: &path };
        let ended = self.on_device(RESIZE2FS, &[], device, purpose, LONG)?;
        if ended.code() != Some(0) {
            return Err(ended.failed(RESIZE2FS, purpose));
        }
        Ok(Some(ext_size(&lock).map_err(asked)?.bytes()))
    }
}

impl LinuxKernel {
    /// What is on the device, whoever left it.
    fn contents_of(&self, device: &BlockDevice) -> Result<Contents> {
        check_readable(device)?;
        let path = text(&device.path);
        let purpose = Purpose { step: Step::ProbeDevice, path: &path };
        let arguments = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-s", "USAGE", "-s", "LABEL", "-o", "export"];
        let ended = self.on_device(BLKID, &arguments, device, purpose, SHORT)?;
        match ended.code() {
            Some(0) => Ok(contents(&ended.out)),
            // That it knows nothing of what is there does not make it blank.
            Some(BLKID_NOTHING) => Ok(first_data(device)?.map_or(Contents::Blank, unknown_data)),
            Some(BLKID_AMBIVALENT) => Ok(Contents::Other("signatures of several things at once".to_owned())),
            _ => Err(ended.failed(BLKID, purpose)),
        }
    }

    /// Runs e2fsck on a device whose lock is held.
    fn check_ext(&self, device: &BlockDevice, locked: &File, fs_type: &str, how: &[&str]) -> Result<CheckOutcome> {
        let path = text(&device.path);
        if self.device_read_only(device)? {
            return Err(KernelError::Device(DeviceError::ReadOnly { path }));
        }
        // Where the superblock is none, e2fsck looks for a copy of one farther in and writes that
        // to the beginning: over whatever another process has put there since.
        if !has_ext_mark(locked).map_err(|errno| asking(device, Step::ReadDevice, errno))?
            && let Some(other) = self.other_type(device, fs_type)
        {
            return Err(other);
        }
        let purpose = Purpose { step: Step::CheckFileSystem, path: &path };
        let mut ended = self.on_device(E2FSCK, how, device, purpose, LONG)?;
        let was_taken = |ended: &Ended| {
            let said = ended.said();
            ended.code() == Some(FSCK_FAILED) && FSCK_IN_USE.iter().any(|words| said.contains(words))
        };
        for _ in 1..FSCK_STARTS {
            if !was_taken(&ended) || in_use(device)? {
                break;
            }
            ended = self.on_device(E2FSCK, how, device, purpose, LONG)?;
        }
        if was_taken(&ended) {
            return Err(KernelError::failed(Step::CheckFileSystem, path, Errno::BUSY));
        }
        match ended.code() {
            Some(0) => Ok(CheckOutcome::Clean),
            Some(code) if code & FSCK_UNCORRECTED != 0 => Err(KernelError::Filesystem(FilesystemError::Damaged {
                path,
                fs_type: fs_type.to_owned(),
                said: ended.said(),
                repair: Family::Ext.repair(),
            })),
            Some(code) if code & !FSCK_REPAIRED == 0 => Ok(CheckOutcome::Repaired),
            // It has the mark of such a file system, and cannot be read as one.
            Some(FSCK_FAILED) if self.has_type(device, fs_type) => {
                Err(KernelError::Filesystem(FilesystemError::Damaged {
                    path,
                    fs_type: fs_type.to_owned(),
                    said: ended.said(),
                    repair: Family::Ext.repair(),
                }))
            }
            _ => Err(self.other_type(device, fs_type).unwrap_or_else(|| ended.failed(E2FSCK, purpose))),
        }
    }

    fn has_type(&self, device: &BlockDevice, fs_type: &str) -> bool {
        matches!(self.contents_of(device), Ok(Contents::Filesystem { fs_type: found, .. }) if found == fs_type)
    }

    /// The error for a device that has a file system of another type than the one asked for, if
    /// that is so.
    pub(super) fn other_type(&self, device: &BlockDevice, wanted: &str) -> Option<KernelError> {
        match self.contents_of(device) {
            Ok(Contents::Filesystem { fs_type: found, .. }) if found != wanted => {
                Some(KernelError::Filesystem(FilesystemError::Mismatch {
                    path: text(&device.path),
                    found,
                    wanted: wanted.to_owned(),
                }))
            }
            Ok(found @ (Contents::Partitions | Contents::Other(_))) => {
                Some(KernelError::Filesystem(FilesystemError::Missing {
                    path: text(&device.path),
                    found: found.to_string(),
                    wanted: wanted.to_owned(),
                }))
            }
            _ => None,
        }
    }

    /// Runs a tool on a device, by its path.
    fn on_device(
        &self,
        tool: Tool,
        arguments: &[&str],
        device: &BlockDevice,
        purpose: Purpose<'_>,
        deadline: Duration,
    ) -> Result<Ended> {
        check_path(device)?;
        let ended = run(self, tool, arguments, device, purpose, deadline)?;
        check_path(device)?;
        Ok(ended)
    }

    /// Erases what a failed mkfs left on a device that was blank: a half-made file system is never
    /// formatted again. What is left where the device does not report what was written to it is an
    /// error.
    fn erase(&self, device: &BlockDevice) -> Result<()> {
        let path = text(&device.path);
        let purpose = Purpose { step: Step::EraseDevice, path: &path };
        let ended = self.on_device(WIPEFS, &["--all", "--quiet"], device, purpose, SHORT)?;
        if ended.code() != Some(0) {
            return Err(ended.failed(WIPEFS, purpose));
        }
        zero_data(device)?;
        match first_data(device)? {
            None => Ok(()),
            Some(at) => {
                Err(KernelError::Filesystem(FilesystemError::NotBlank { path, found: unknown_data(at).to_string() }))
            }
        }
    }
}

/// The beginning of the description of data that no tool has a name for.
const UNKNOWN: &str = "data that no tool recognises";

fn unknown_data(at: u64) -> Contents {
    Contents::Other(format!("{UNKNOWN} (the first at byte {at})"))
}

/// Whether this was left by a format that did not end, and is nobody's data.
fn is_left_by_format(device: &BlockDevice, found: &Contents) -> Result<bool> {
    let can_be = match found {
        Contents::Filesystem { fs_type, .. } => was_never_mounted(device, fs_type)?,
        Contents::Other(what) => what.starts_with(UNKNOWN),
        Contents::Blank | Contents::Partitions => false,
    };
    Ok(can_be && is_unfinished(device, LONG)?)
}

/// Makes sure that blkid finds nothing only where nothing is: it says the same of a device that it
/// can't read.
fn check_readable(device: &BlockDevice) -> Result<()> {
    let opened = open_device(device, Step::ReadDevice)?;
    let size = device_bytes(&opened).map_err(|errno| asking(device, Step::InspectDevice, errno))?;
    if size == 0 {
        let (step, path, detail) = (Step::ReadDevice, text(&device.path), "it has no storage".to_owned());
        return Err(KernelError::Failed { step, path, errno: Errno::NOMEDIUM, detail });
    }
    let mut end = vec![0; END_BYTES.min(usize::try_from(size).unwrap_or(END_BYTES))];
    let last = size.saturating_sub(end.len() as u64);
    for place in [0, last] {
        opened.read_exact_at(&mut end, place).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            asking(device, Step::ReadDevice, errno)
        })?;
    }
    Ok(())
}

/// Reads `KEY=value` lines, as `blkid -o export` writes them.
fn contents(out: &[u8]) -> Contents {
    let out = String::from_utf8_lossy(out);
    let value = |wanted: &str| {
        let mut pairs = out.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(key, _)| *key == wanted).map(|(_, value)| value.to_owned())
    };
    match (value("TYPE"), value("USAGE").as_deref()) {
        (Some(fs_type), Some("filesystem") | None) => Contents::Filesystem { fs_type, label: value("LABEL") },
        (Some(kind), Some(usage)) => Contents::Other(format!("{kind} ({usage})")),
        (None, _) if value("PTTYPE").is_some() => Contents::Partitions,
        (None, _) => Contents::Other("something that blkid has no name for".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blkid_says_is_understood() {
        let ext4 = Contents::Filesystem { fs_type: "ext4".to_owned(), label: Some("a b".to_owned()) };
        assert_eq!(contents(b"DEVNAME=/dev/x\nLABEL=a b\nTYPE=ext4\nUSAGE=filesystem\n"), ext4);
        assert_eq!(contents(b"DEVNAME=/dev/x\nPTTYPE=gpt\n"), Contents::Partitions);
        let both = contents(b"TYPE=vfat\nUSAGE=filesystem\nPTTYPE=dos\n");
        assert_eq!(both, Contents::Filesystem { fs_type: "vfat".to_owned(), label: None });
        let crypt = contents(b"TYPE=crypto_LUKS\nUSAGE=crypto\n");
        assert_eq!(crypt, Contents::Other("crypto_LUKS (crypto)".to_owned()));
        assert!(matches!(contents(b""), Contents::Other(_)), "never blank by mistake");
    }
}
