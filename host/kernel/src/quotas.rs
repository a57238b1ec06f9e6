//! Folders that the file system itself keeps from growing beyond a limit.

use std::ffi::OsStr;

use crate::error::{KernelError, Result};
use crate::handle::Directory;

/// The feature that a file system without it lacks, for messages.
pub const FEATURE: &str = "a quota for a folder";

/// Quotas of folders. On btrfs a folder with one is a subvolume, whose qgroup has the limit. On ext4
/// and XFS that are mounted with `prjquota` it has a project of its own, by which the file system
/// also knows what its files take: [`crate::Usages::disk_usage`] asks it.
pub trait Quotas {
    /// Makes the name a plain folder as [`crate::Kernel::make_folder`], whose files take no more
    /// than `limit` bytes together: a write beyond fails with `DQUOT`, on XFS with `NOSPC`. Repeating it on such a
    /// folder sets mode, group and limit again and leaves the content alone.
    /// [`crate::Kernel::delete_folder`] undoes it, and [`crate::Kernel::remove_empty_dir`] but for
    /// the limit of a project without files, which its next folder replaces.
    ///
    /// # Guarantees
    /// The file system's own settings stay as they are: quotas are used where the operator has
    /// turned them on.
    ///
    /// # Errors
    /// `FilesystemLacks` if the file system has no such quota, or has it turned off; `WrongType` if
    /// a folder without one is there, which stays (an empty one may get one on ext4 and XFS); else as [`crate::Kernel::make_folder`], and
    /// `InvalidOption` for a limit of 0.
    fn make_limited_folder(
        &self,
        directory: &Directory,
        name: &OsStr,
        mode: u32,
        group: Option<u32>,
        limit: u64,
    ) -> Result<()>;
}

/// A limit of nothing would make a folder that no pod can use.
pub fn check_limit(limit: u64) -> Result<()> {
    if limit > 0 {
        return Ok(());
    }
    let (subject, option) = ("a folder's quota".to_owned(), "limit".to_owned());
    Err(KernelError::InvalidOption { subject, option, reason: "it must be 1 byte at least".to_owned() })
}
