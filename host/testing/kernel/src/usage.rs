//! How full volumes are. Files take whole pages, folders nothing, as on a tmpfs.

use std::ffi::OsStr;

use volhost_kernel::implement::{check_name, label, text};
use volhost_kernel::{Directory, DiskUsage, Errno, KernelError, Result, Step, Usage, Usages};

use super::state::{At, InodeContent, MachineState, Sys};
use super::{InMemoryKernel, lock};

const PAGE: u64 = 4096;
/// The capacity that a file system without limits reports, in bytes and inodes.
const CAPACITY: u64 = 1 << 40;
const INODES: u64 = 1 << 20;

impl Usages for InMemoryKernel {
    fn usage(&self, directory: &Directory, name: &OsStr) -> Result<Usage> {
        check_name(name)?;
        let from = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::AskUsage, &shown)?;
        state.usage_of(from, name).map_err(|errno| KernelError::walking(Step::AskUsage, text(&shown), errno))
    }

    fn disk_usage(&self, directory: &Directory, name: &OsStr) -> Result<DiskUsage> {
        check_name(name)?;
        let from = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::MeasureFiles, &shown)?;
        let measured = state.walk(from, &[name]).and_then(|root| state.measure(root));
        measured.map_err(|errno| KernelError::walking(Step::MeasureFiles, text(&shown), errno))
    }
}

fn pages(content: &InodeContent) -> u64 {
    if let InodeContent::File(bytes) = content { (bytes.len() as u64).div_ceil(PAGE) * PAGE } else { 0 }
}

impl MachineState {
    fn usage_of(&self, from: At, name: &OsStr) -> Sys<Usage> {
        let at = self.entry(from, name)?;
        let node = self.node(at.node)?;
        if matches!(node.content, InodeContent::Symlink(_)) {
            return Err(Errno::LOOP);
        }
        let id = node.file_system;
        let file_system = self.file_systems.get(&id).ok_or(Errno::STALE)?;
        let nodes = || self.nodes.values().filter(|node| node.file_system == id);
        let used: u64 = nodes().map(|node| pages(&node.content)).sum();
        let inodes_used = nodes().count() as u64;
        let capacity = file_system.max_bytes.unwrap_or(CAPACITY);
        let inodes = file_system.max_inodes.unwrap_or(INODES);
        Ok(Usage {
            capacity,
            available: capacity.saturating_sub(used),
            used,
            inodes,
            inodes_free: inodes.saturating_sub(inodes_used),
            inodes_used,
        })
    }

    fn measure(&self, root: At) -> Sys<DiskUsage> {
        let mut sum = DiskUsage::default();
        let mut pending = vec![root];
        while let Some(at) = pending.pop() {
            let node = self.node(at.node)?;
            sum.inodes += 1;
            sum.bytes += pages(&node.content);
            if let InodeContent::Folder(children) = &node.content {
                let inner = children.values().map(|id| At { mount: at.mount, node: *id });
                pending.extend(inner.filter(|at| !self.mounted_on.contains_key(at)));
            }
        }
        Ok(sum)
    }
}
