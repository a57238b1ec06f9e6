//! How full a volume is: as its file system says, and as its files add up.

use std::ffi::OsStr;

use crate::error::Result;
use crate::handle::Directory;

/// A file system's report on itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes in all; 0 if the file system knows no limit.
    pub capacity: u64,
    /// Bytes that an unprivileged user may still write.
    pub available: u64,
    /// Bytes in use.
    pub used: u64,
    /// Inodes in all; 0 if the file system does not count them.
    pub inodes: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
    /// Inodes in use.
    pub inodes_used: u64,
}

/// What the files of a folder take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Bytes allocated (512 a block), a file with several names once. A sparse file counts its
    /// data.
    pub bytes: u64,
    /// Files, folders and links, the folder itself included.
    pub inodes: u64,
}

/// Measuring of volumes.
pub trait Usages {
    /// Returns what the file system says that the volume at a name lies on. One question to it: a
    /// server that is dead blocks the calling thread, and nothing else.
    ///
    /// # Errors
    /// `SymbolicLink`, `Failed`.
    fn usage(&self, directory: &Directory, name: &OsStr) -> Result<Usage>;

    /// Adds up what lies in the folder or mount at a name, on this mount alone. What vanishes
    /// meanwhile is not counted. It takes about a second a million files, and is no snapshot. A
    /// file system that keeps an account of the folder (a project of its own) is asked instead.
    ///
    /// # Errors
    /// `SymbolicLink`, `WrongType` if it is no folder, `Failed` if a part of it can't be read.
    fn disk_usage(&self, directory: &Directory, name: &OsStr) -> Result<DiskUsage>;
}
