//! Whether a file system was made and never mounted, as its superblock says.

use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::block_device::{asking, open_device};
use super::head::{EXT, XFS, has};
use crate::block_devices::BlockDevice;
use crate::error::Result;
use crate::filesystems::Family;
use crate::step::Step;

/// What is read of a device, in bytes: the superblocks of ext and XFS.
const HEAD_BYTES: usize = 2048;
/// Of an ext file system that was never mounted: when it was mounted last, and how often (ext4(5)'s
/// layout; the superblock begins at 1,024).
const EXT_NEVER_MOUNTED: (usize, &[u8]) = (1024 + 0x2C, &[0; 4]);
const EXT_NO_MOUNTS: (usize, &[u8]) = (1024 + 0x34, &[0; 2]);
/// The byte that mkfs.xfs sets until it has made everything (`sb_inprogress`).
const XFS_IN_PROGRESS: (usize, &[u8]) = (126, &[1]);

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
    [EXT, EXT_NEVER_MOUNTED, EXT_NO_MOUNTS].into_iter().all(|mark| has(head, mark))
}

fn is_unfinished_xfs(head: &[u8]) -> bool {
    has(head, XFS) && has(head, XFS_IN_PROGRESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::head::head_with;

    #[test]
    fn an_ext_that_was_mounted_once_is_not_new() {
        assert!(is_new_ext(&head_with(&[EXT])));
        assert!(!is_new_ext(&head_with(&[])));
        assert!(!is_new_ext(&head_with(&[EXT, (EXT_NEVER_MOUNTED.0, &[0, 0, 0, 1])])));
        assert!(!is_new_ext(&head_with(&[EXT, (EXT_NO_MOUNTS.0, &[1, 0])])));
        assert!(!is_new_ext(&[]));
    }

    #[test]
    fn an_xfs_is_unfinished_while_it_says_so_itself() {
        assert!(is_unfinished_xfs(&head_with(&[XFS, XFS_IN_PROGRESS])));
        assert!(!is_unfinished_xfs(&head_with(&[XFS])));
        assert!(!is_unfinished_xfs(&head_with(&[XFS_IN_PROGRESS])));
    }
}
