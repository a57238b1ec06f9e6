//! Memory file systems: their options are read as Linux reads them, and they limit.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use volhost_kernel::{Errno, FsOption, KernelError, Result};

use super::state::{At, FileSystem, Inode, InodeContent, MachineState, MountKey, Sys};

/// The unit of tmpfs, in bytes.
const PAGE: u64 = 4096;

impl MachineState {
    /// A new tmpfs, unattached.
    pub(super) fn new_tmpfs(&mut self, options: &[FsOption]) -> Result<MountKey> {
        let id = self.fresh();
        let mut file_system =
            FileSystem { fs_type: "tmpfs".to_owned(), options: Vec::new(), max_bytes: None, max_inodes: None };
        let (mut mode, mut user, mut group) = (0o1777, 0, 0);
        for option in options {
            if self.missing_options.contains(&option.key) {
                return Err(KernelError::UnsupportedOption {
                    subject: "tmpfs".to_owned(),
                    option: option.key.clone(),
                    reason: format!("tmpfs: Unknown parameter '{}'", option.key),
                });
            }
            let value = option.value.as_deref().unwrap_or_default();
            let bad = || KernelError::InvalidOption {
                subject: "tmpfs".to_owned(),
                option: option.key.clone(),
                reason: format!("tmpfs: Bad value for '{}'", option.key),
            };
            match option.key.as_str() {
                "size" => {
                    let bytes = self.parse_size(value).ok_or_else(bad)?;
                    file_system.max_bytes = Some(bytes).filter(|bytes| *bytes > 0);
                    file_system.options.push(format!("size={}k", bytes / 1024));
                }
                "nr_inodes" => {
                    let inodes = self.parse_size(value).ok_or_else(bad)?;
                    file_system.max_inodes = Some(inodes).filter(|inodes| *inodes > 0);
                    file_system.options.push(format!("nr_inodes={inodes}"));
                }
                "mode" => {
                    mode = u32::from_str_radix(value, 8).map_err(|_| bad())? & 0o7777;
                    file_system.options.push(format!("mode={mode:o}"));
                }
                "uid" => {
                    user = value.parse().map_err(|_| bad())?;
                    file_system.options.push(format!("uid={user}"));
                }
                "gid" => {
                    group = value.parse().map_err(|_| bad())?;
                    file_system.options.push(format!("gid={group}"));
                }
                _ => file_system.options.push(option.key.clone()),
            }
        }
        let content = InodeContent::Folder(BTreeMap::new());
        self.nodes.insert(id, Inode { content, mode, owner: user, group, file_system: id, parent: None });
        self.file_systems.insert(id, file_system);
        Ok(self.add_mount(id, 0))
    }

    /// Raises the limit of the tmpfs at a name. False if another file system is there.
    pub(super) fn grow_tmpfs(&mut self, folder: At, name: &OsStr, bytes: u64) -> Sys<bool> {
        let at = self.entry(folder, name)?;
        let node = self.node(at.node)?;
        if matches!(node.content, InodeContent::Symlink(_)) {
            return Err(Errno::LOOP);
        }
        let id = node.file_system;
        let file_system = self.file_systems.get_mut(&id).ok_or(Errno::STALE)?;
        if file_system.fs_type != "tmpfs" {
            return Ok(false);
        }
        if let Some(limit) = file_system.max_bytes.as_mut().filter(|limit| **limit < bytes) {
            *limit = bytes.div_ceil(PAGE) * PAGE;
            let size = format!("size={}k", *limit / 1024);
            file_system.options.iter_mut().filter(|option| option.starts_with("size=")).for_each(|option| {
                option.clone_from(&size);
            });
        }
        Ok(true)
    }

    /// A size as tmpfs reads it: a number with k, m, g or %, rounded up to pages.
    fn parse_size(&self, value: &str) -> Option<u64> {
        let bytes = self.parse_bytes(value)?;
        if bytes < PAGE { Some(bytes) } else { Some(bytes.div_ceil(PAGE) * PAGE) }
    }

    /// A number with k, m, g or %.
    pub(super) fn parse_bytes(&self, value: &str) -> Option<u64> {
        let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number: u64 = digits.parse().ok()?;
        match value.get(digits.len()..)?.to_ascii_lowercase().as_str() {
            "" => Some(number),
            "k" => number.checked_mul(1 << 10),
            "m" => number.checked_mul(1 << 20),
            "g" => number.checked_mul(1 << 30),
            "%" => Some(self.memory.checked_mul(number)? / 100),
            _ => None,
        }
    }
}
