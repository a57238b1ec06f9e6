//! FUSE file systems: mounts whose server is a program with the other end of a connection.

use std::os::fd::OwnedFd;

use crate::error::Result;
use crate::handle::{DetachedMount, MountSource};

/// The settings of a new FUSE mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FuseOptions {
    /// What the mount table calls its source.
    pub source: String,
    /// Its type is `fuse.SUBTYPE`.
    pub subtype: String,
    /// Who serves it: the user and the group that the kernel shows in the mount table.
    pub user: u32,
    /// Likewise.
    pub group: u32,
    /// The kernel itself checks accesses against the modes that the server reports; else the server
    /// decides on each.
    pub default_permissions: bool,
    /// Nothing can be written.
    pub read_only: bool,
    /// The SELinux label of all of it, if it has one.
    pub label: Option<String>,
}

/// The number of a connection, by which the kernel knows it as long as its file system is mounted
/// somewhere. Used again after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FuseConnection(pub u32);

/// A new FUSE mount, and the end of its connection that a server is to have.
#[derive(Debug)]
pub struct FuseMount {
    /// For the server. When the last copy of it is closed, users of the mount get `ENOTCONN`.
    pub device: OwnedFd,
    /// For the user; a detached mount. Without any mount of it left, the server's next read fails
    /// with `ENODEV`.
    pub mount: DetachedMount,
    /// Its connection.
    pub connection: FuseConnection,
}

/// Primitives over FUSE file systems.
pub trait FuseMounts {
    /// A new FUSE mount that every user of the machine may use, with `nosuid` and `nodev`,
    /// detached, and without a server yet.
    ///
    /// # Errors
    /// `Failed`: `NotFound` where the machine has no `/dev/fuse`.
    fn fuse(&self, options: &FuseOptions) -> Result<FuseMount>;

    /// Asks the server of what was opened, and waits for its first answer: however long that takes.
    /// Returns with an error as soon as the connection has ended.
    ///
    /// # Errors
    /// `Failed`: `ENOTCONN` when there is no server any more, or what it answered.
    fn ask_server(&self, source: &MountSource) -> Result<()>;

    /// Returns whether the file system of this connection is still mounted anywhere, be it unseen.
    /// Asks no server.
    ///
    /// # Errors
    /// `Failed` where the kernel does not report it (`fusectl`).
    fn is_mounted_anywhere(&self, connection: FuseConnection) -> Result<bool>;

    /// Ends a connection, whichever processes have its ends: users of the mount get `ENOTCONN`, the
    /// server `ENODEV`. False if there is none.
    ///
    /// # Errors
    /// As [`FuseMounts::is_mounted_anywhere`].
    fn end_connection(&self, connection: FuseConnection) -> Result<bool>;

    /// The descriptor of what was opened, for a program that is started with it.
    ///
    /// # Errors
    /// `Failed` when the process has no file descriptor left.
    fn descriptor(&self, source: &MountSource) -> Result<OwnedFd>;
}
