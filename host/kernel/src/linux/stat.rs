//! Looks at a name without following a link, triggering an automount or asking a server.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::handle::SourceKind;

/// Asks for the id that is never used again (Linux 6.8); kernels without it leave it out of the
/// answer's mask.
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;

/// The answer of one `statx`.
pub(super) struct StatxAnswer(Statx);

impl StatxAnswer {
    /// The mount it lies on.
    pub(super) fn mount_id(&self) -> u64 {
        self.0.stx_mnt_id
    }

    /// It is the root of a mount.
    pub(super) fn is_mount_root(&self) -> bool {
        self.0.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    }

    pub(super) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(u32::from(self.0.stx_mode))
    }

    pub(super) fn is_folder(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    pub(super) fn size(&self) -> u64 {
        self.0.stx_size
    }

    /// When its content was changed last, in seconds since 1970.
    pub(super) fn modified(&self) -> i64 {
        self.0.stx_mtime.tv_sec
    }

    /// No name leads to it any more.
    pub(super) fn is_unlinked(&self) -> bool {
        self.0.stx_nlink == 0
    }

    /// The device of its file system.
    pub(super) fn device(&self) -> (u32, u32) {
        (self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    /// The device of a node, by its numbers.
    pub(super) fn node_numbers(&self) -> (u32, u32) {
        (self.0.stx_rdev_major, self.0.stx_rdev_minor)
    }

    /// Its number in its file system.
    pub(super) fn inode(&self) -> u64 {
        self.0.stx_ino
    }

    /// Which folder this is: device, inode and mount.
    pub(super) fn identity(&self) -> FolderIdentity {
        FolderIdentity { device: self.device(), inode: self.0.stx_ino, mount: self.mount_id() }
    }
}

/// Distinguishes one open folder from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FolderIdentity {
    device: (u32, u32),
    inode: u64,
    mount: u64,
}

/// How ids of mounts are asked for; all answers that are compared must come the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdKind {
    /// Never used again.
    Unique,
    /// As in mountinfo.
    Reused,
}

fn ask(fd: impl AsFd, name: impl Arg, ids: IdKind, mask: StatxFlags) -> Result<StatxAnswer, Errno> {
    let id = match ids {
        IdKind::Unique => StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE),
        IdKind::Reused => StatxFlags::MNT_ID,
    };
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    // The cheapest question: what is cached here is enough, so a dead server is never asked.
    rustix::fs::statx(fd, name, flags, mask | id).map(StatxAnswer)
}

/// Type and mount of what is at a name; an empty name is the descriptor itself.
pub(super) fn look(fd: impl AsFd, name: impl Arg, ids: IdKind) -> Result<StatxAnswer, Errno> {
    ask(fd, name, ids, StatxFlags::TYPE)
}

/// Also size, links and inode: for what lies on the host's own file systems.
pub(super) fn look_closer(fd: impl AsFd, name: impl Arg, ids: IdKind) -> Result<StatxAnswer, Errno> {
    ask(fd, name, ids, StatxFlags::BASIC_STATS)
}

/// The kind of a bind source; none for what can't be bound.
pub(super) fn source_kind(file_type: FileType) -> Option<SourceKind> {
    Some(match file_type {
        FileType::Directory => SourceKind::Directory,
        FileType::RegularFile => SourceKind::File,
        FileType::Socket => SourceKind::Socket,
        FileType::CharacterDevice => SourceKind::CharDevice,
        FileType::BlockDevice => SourceKind::BlockDevice,
        FileType::Fifo => SourceKind::Fifo,
        FileType::Symlink | FileType::Unknown => return None,
    })
}

/// A word for messages.
pub(super) fn type_word(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Directory => "a folder",
        FileType::RegularFile => "a file",
        FileType::Symlink => "a symbolic link",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Fifo => "a named pipe",
        FileType::Unknown => "something of no known type",
    }
}
