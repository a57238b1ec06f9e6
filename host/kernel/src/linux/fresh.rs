//! Whether a file system was made and never mounted, as its superblock says.

use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::block_device::{asking, open_device};
use super::ext_superblock::MARK;
use crate::block_devices::BlockDevice;
use crate::error::Result;
use crate::filesystems::Family;
use crate::step::Step;

/// What is read of a device, in bytes: the superblocks of ext and XFS.
const HEAD_BYTES: usize = 2048;
/// Places in ext's superblock, which begins at 1,024: when it was mounted last, how often it was
/// mounted, and its mark (ext4(5)'s layout).
const EXT_MOUNTED: usize = 1024 + 0x2C;
const EXT_MOUNTS: usize = 1024 + 0x34;
const EXT_MARK: usize = 1024 + 0x38;
/// XFS's mark, and the place of the byte that mkfs.xfs sets until it has made everything
/// (`sb_inprogress`).
const XFS_MARK: &[u8] = b"XFSB";
const XFS_IN_PROGRESS: usize = 126;

/// Returns whether the superblock of a file system of this type says that it was never mounted. Of
/// btrfs nothing is known: while mkfs.btrfs runs, no tool recognises it.
///
/// # Errors
/// `DeviceError::Gone`, `Failed`.
pub(super) fn was_never_mounted(device: &BlockDevice, fs_type: &str) -> Result<bool> {
    let mut head = vec![0; HEAD_BYTES];
    open_device(device, Step::ReadDevice)?
        .read_exact_at(&mut head, 0)
        .map_err(|error| asking(device, Step::ReadDevice, Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    Ok(match Family::of(device, fs_type) {
        Ok(Family::Ext) => is_new_ext(&head),
        Ok(Family::Xfs) => is_unfinished_xfs(&head),
        Ok(Family::Btrfs) | Err(_) => false,
    })
}

fn is_new_ext(head: &[u8]) -> bool {
    let is = |at: usize, bytes: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    is(EXT_MARK, &MARK) && is(EXT_MOUNTED, &[0; 4]) && is(EXT_MOUNTS, &[0; 2])
}

fn is_unfinished_xfs(head: &[u8]) -> bool {
    head.starts_with(XFS_MARK) && head.get(XFS_IN_PROGRESS) == Some(&1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(marks: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES];
        for (at, bytes) in marks {
            head[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    #[test]
    fn an_ext_that_was_mounted_once_is_not_new() {
        assert!(is_new_ext(&with(&[(EXT_MARK, &MARK)])));
        assert!(!is_new_ext(&with(&[])));
        assert!(!is_new_ext(&with(&[(EXT_MARK, &MARK), (EXT_MOUNTED, &[0, 0, 0, 1])])));
        assert!(!is_new_ext(&with(&[(EXT_MARK, &MARK), (EXT_MOUNTS, &[1, 0])])));
        assert!(!is_new_ext(&[]));
    }

    #[test]
    fn an_xfs_is_unfinished_while_it_says_so_itself() {
        assert!(is_unfinished_xfs(&with(&[(0, XFS_MARK), (XFS_IN_PROGRESS, &[1])])));
        assert!(!is_unfinished_xfs(&with(&[(0, XFS_MARK)])));
        assert!(!is_unfinished_xfs(&with(&[(XFS_IN_PROGRESS, &[1])])));
    }
}
