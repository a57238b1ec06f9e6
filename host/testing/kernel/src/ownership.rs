//! A volume's group and modes, and id maps. Each file is a step, so that a walk can fail or end in
//! the middle.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;

use volhost_kernel::implement::{check_group, check_map, check_name, label, text, wanted_mode};
use volhost_kernel::{
    DetachedMount, Directory, Errno, IdMap, KernelError, OnProgress, Ownership, OwnershipPolicy, OwnershipProgress,
    OwnershipReport, OwnershipRequest, Result, Step,
};

use super::state::{At, InodeContent, MachineState};
use super::{InMemoryKernel, lock};

/// How many failures are reported one by one, as the real one does.
const SHOWN_FAILURES: usize = 10;

impl Ownership for InMemoryKernel {
    fn apply_ownership(
        &self,
        directory: &Directory,
        name: &OsStr,
        request: &OwnershipRequest,
        progress: OnProgress<'_>,
    ) -> Result<OwnershipReport> {
        check_name(name)?;
        check_group(request.group)?;
        let from = self.folder(directory)?;
        let shown = label(directory.label(), name);
        if progress(OwnershipProgress { visited: 0, changed: 0 }) == ControlFlow::Break(()) {
            return Err(KernelError::Cancelled { path: text(&shown), visited: 0 });
        }
        let report = {
            let mut state = lock(&self.state);
            state.step(Step::OpenFolder, &shown)?;
            let root = state
                .walk(from, &[name])
                .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
            give(&mut state, root, request, &shown)?
        };
        // Not under the lock: the caller may look at the machine.
        // The walk is over: it is too late to end it.
        let _ = progress(OwnershipProgress { visited: report.visited, changed: report.changed });
        Ok(report)
    }

    fn group_at(&self, directory: &Directory, name: &OsStr) -> Result<u32> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::Inspect, &shown)?;
        let found = state.entry(folder, name).and_then(|at| state.node(at.node));
        found.map(|node| node.group).map_err(|errno| KernelError::failed(Step::Inspect, text(&shown), errno))
    }

    fn group_of_mount(&self, mount: &DetachedMount) -> Result<u32> {
        let key = self.mount_of(mount)?;
        let mut state = lock(&self.state);
        state.step(Step::Inspect, mount.label())?;
        let root = state.mounts.get(&key).ok_or(Errno::STALE).and_then(|mount| state.node(mount.root));
        root.map(|node| node.group).map_err(|errno| KernelError::failed(Step::Inspect, text(mount.label()), errno))
    }

    fn idmapped(&self, mount: &DetachedMount, map: &IdMap) -> Result<()> {
        check_map(map)?;
        let key = self.mount_of(mount)?;
        let path = text(mount.label());
        let mut state = lock(&self.state);
        state.step(Step::MakeIdMap, mount.label())?;
        state.step(Step::MapIds, mount.label())?;
        let fs_type = state.info(key, mount.label().to_owned()).map(|info| info.fs_type).unwrap_or_default();
        if state.without_id_maps.contains(&fs_type) {
            let reason = "Invalid argument (EINVAL)".to_owned();
            return Err(KernelError::FilesystemLacks { path, feature: "id-mapped mounts", reason });
        }
        let mapped = state.mounts.get_mut(&key).is_some_and(|mount| {
            let before = mount.attributes & libc::MOUNT_ATTR_IDMAP != 0;
            mount.attributes |= libc::MOUNT_ATTR_IDMAP;
            before
        });
        if mapped {
            let reason = "the mount has one already".to_owned();
            return Err(KernelError::FilesystemLacks { path, feature: "another id map", reason });
        }
        Ok(())
    }
}

fn give(state: &mut MachineState, root: At, request: &OwnershipRequest, shown: &Path) -> Result<OwnershipReport> {
    let failed = |errno| KernelError::failed(Step::ApplyOwnership, text(shown), errno);
    let node = state.node(root.node).map_err(failed)?;
    let done = node.group == request.group && wanted_mode(node.mode, true, request.read_only) == node.mode;
    if done && request.policy == OwnershipPolicy::OnRootMismatch {
        return Ok(OwnershipReport { visited: 1, changed: 0, skipped: true });
    }
    let mut report = OwnershipReport::default();
    let mut failures = (0, Vec::new());
    let mut pending = vec![(root, shown.to_owned())];
    while let Some((folder, path)) = pending.pop() {
        let children = state.children(folder.node).map_err(failed)?.clone();
        for (name, id) in children {
            let (at, path) = (At { mount: folder.mount, node: id }, path.join(name));
            if state.mounted_on.contains_key(&at) {
                continue;
            }
            if state.is_folder(id) {
                pending.push((at, path.clone()));
            }
            if let Err(error) = give_one(state, at, request, &path, &mut report) {
                failures.0 += 1;
                if failures.1.len() < SHOWN_FAILURES {
                    failures.1.push(error);
                }
            }
        }
    }
    if failures.0 > 0 {
        return Err(KernelError::OwnershipIncomplete { path: text(shown), failed: failures.0, first: failures.1 });
    }
    give_one(state, root, request, shown, &mut report)?;
    Ok(report)
}

fn give_one(
    state: &mut MachineState,
    at: At,
    request: &OwnershipRequest,
    shown: &Path,
    report: &mut OwnershipReport,
) -> Result<()> {
    let failed = |errno: Errno| KernelError::failed(Step::ApplyOwnership, text(shown), errno);
    state.step(Step::ApplyOwnership, shown)?;
    let folder = state.is_folder(at.node);
    let node = state.node(at.node).map_err(failed)?;
    let mode = match node.content {
        InodeContent::Symlink(_) => node.mode,
        _ => wanted_mode(node.mode, folder, request.read_only),
    };
    report.visited += 1;
    if (node.group, node.mode) == (request.group, mode) {
        return Ok(());
    }
    state.writable(at).map_err(failed)?;
    let node = state.node_mut(at.node).map_err(failed)?;
    (node.group, node.mode) = (request.group, mode);
    report.changed += 1;
    Ok(())
}
