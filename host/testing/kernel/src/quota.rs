//! Quotas of folders: a write that would make a folder too large fails.

use std::ffi::OsStr;

use volhost_kernel::implement::{FEATURE, check_limit, check_mode, check_name, label, text};
use volhost_kernel::{Directory, Errno, KernelError, Quotas, Result, Step};

use super::state::{InodeContent, MachineState, NodeId, Sys};
use super::{InMemoryKernel, lock};

impl Quotas for InMemoryKernel {
    fn make_limited_folder(
        &self,
        directory: &Directory,
        name: &OsStr,
        mode: u32,
        group: Option<u32>,
        limit: u64,
    ) -> Result<()> {
        check_name(name)?;
        check_mode(mode)?;
        check_limit(limit)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        if !state.folder_quotas {
            let reason = "it is not btrfs".to_owned();
            return Err(KernelError::FilesystemLacks { path: text(&shown), feature: FEATURE, reason });
        }
        let found = state.lower(folder, name).ok();
        match found {
            None => state.step(Step::MakeLimitedFolder, &shown)?,
            Some(at) if state.mounted_on.contains_key(&at) => {
                return Err(KernelError::AlreadyMounted { path: text(&shown) });
            }
            Some(at) if state.is_folder(at.node) && !state.limits.contains_key(&at.node) => {
                let (expected, found) = ("a folder with a quota", "a folder without, which can't get one any more");
                return Err(KernelError::WrongType { path: text(&shown), expected, found });
            }
            Some(_) => {}
        }
        state.make_plain_folder(folder, name, mode, group, &shown)?;
        let failed = |errno| KernelError::failed(Step::SetQuota, text(&shown), errno);
        let at = state.lower(folder, name).map_err(failed)?;
        if let Err(cause) = state.step(Step::SetQuota, &shown) {
            return Err(if found.is_some() { cause } else { cause.undone(state.rmdir(folder, name).map_err(failed)) });
        }
        state.limits.insert(at.node, limit);
        Ok(())
    }
}

impl MachineState {
    /// Refuses a file that grows beyond the quota of a folder that it lies in.
    pub(super) fn check_quota(&self, node: NodeId, old: usize, new: usize) -> Sys<()> {
        for (folder, limit) in self.limits.iter().filter(|(folder, _)| self.is_within(node, **folder)) {
            let within = self.nodes.iter().filter(|(id, _)| self.is_within(**id, *folder));
            let used: usize = within
                .map(|(_, node)| if let InodeContent::File(bytes) = &node.content { bytes.len() } else { 0 })
                .sum();
            if (used - old + new) as u64 > *limit {
                return Err(Errno::DQUOT);
            }
        }
        Ok(())
    }
}
