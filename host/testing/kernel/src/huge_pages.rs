//! File systems of huge pages: their options are read as Linux reads them, and they limit.

use std::collections::BTreeMap;

use volhost_kernel::{FsOption, KernelError, Result};

use super::state::{FileSystem, Inode, InodeContent, MachineState, MountKey};

const SUBJECT: &str = "hugetlbfs";

impl MachineState {
    /// A new hugetlbfs, unattached.
    pub(super) fn new_huge_pages(&mut self, options: &[FsOption]) -> Result<MountKey> {
        let lacking = |reason: String| KernelError::UnsupportedOption {
            subject: SUBJECT.to_owned(),
            option: "pagesize".to_owned(),
            reason,
        };
        let usual = self.huge_pages.first().copied();
        let mut page = usual.ok_or_else(|| lacking("hugetlbfs: there are no huge pages".to_owned()))?;
        let (mut mode, mut user, mut group, mut size, mut max_inodes) = (0o755, 0, 0, None, None);
        for option in options {
            let value = option.value.as_deref().unwrap_or_default();
            let bad = || KernelError::InvalidOption {
                subject: SUBJECT.to_owned(),
                option: option.key.clone(),
                reason: format!("hugetlbfs: Bad value '{value}' for mount option '{}'", option.key),
            };
            match option.key.as_str() {
                "pagesize" => {
                    page = self.parse_bytes(value).ok_or_else(bad)?;
                    if !self.huge_pages.contains(&page) {
                        return Err(lacking(format!("no pages of {page} bytes")));
                    }
                }
                "size" => size = Some(self.parse_bytes(value).ok_or_else(bad)?),
                "nr_inodes" => max_inodes = Some(self.parse_bytes(value).ok_or_else(bad)?),
                // It knows no setuid and setgid.
                "mode" => mode = u32::from_str_radix(value, 8).map_err(|_| bad())? & 0o1777,
                "uid" => user = value.parse().map_err(|_| bad())?,
                _ => group = value.parse().map_err(|_| bad())?,
            }
        }
        // Whole pages only.
        let max_bytes = size.map(|size| size / page * page);
        let mut shown = vec![format!("pagesize={}M", page >> 20)];
        shown.extend(max_bytes.map(|bytes| format!("size={bytes}")));
        let id = self.fresh();
        let file_system = FileSystem { fs_type: SUBJECT.to_owned(), options: shown, max_bytes, max_inodes };
        let content = InodeContent::Folder(BTreeMap::new());
        self.nodes.insert(id, Inode { content, mode, owner: user, group, file_system: id, parent: None });
        self.file_systems.insert(id, file_system);
        Ok(self.add_mount(id, 0))
    }
}
