//! What the machine is able to do, for a check by an operator. Nothing here changes it.

use std::path::PathBuf;

use crate::error::Errno;

/// A system call that volhost needs, and what the kernel answers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallReport {
    /// Its name.
    pub name: &'static str,
    /// The Linux version that has it first.
    pub since: &'static str,
    /// Why it cannot be used; none if it can.
    pub problem: Option<Errno>,
}

/// The mount that a path lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// The file system's type.
    pub fs_type: String,
    /// Other mount namespaces get new mounts below it.
    pub is_shared: bool,
    /// Writing is refused.
    pub read_only: bool,
}

/// A program that volhost runs on devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReport {
    /// Its name.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Every volume on a device needs it, not only those of one file system.
    pub is_basic: bool,
    /// Where it is; none if it is missing.
    pub found: Option<PathBuf>,
}
