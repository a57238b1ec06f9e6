//! What the payload protocol needs of this kernel. Each system call of Linux is a step that can
//! fail.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use volhost_kernel::implement::payload::{
    Branch, PayloadFolder, PayloadPlan, PayloadTree, TargetEntry, publish, stamp_of,
};
use volhost_kernel::implement::{check_name, label, text};
use volhost_kernel::{Directory, Errno, KernelError, Payload, PayloadFile, Payloads, PublishResult, Result, Step};

use super::state::{At, InodeContent, MachineState, Sys};
use super::{InMemoryKernel, lock};

impl Payloads for InMemoryKernel {
    fn publish_payload(&self, directory: &Directory, name: &OsStr, payload: &Payload) -> Result<PublishResult> {
        check_name(name)?;
        let plan = PayloadPlan::of(payload)?;
        let from = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::OpenFolder, &shown)?;
        let at =
            state.walk(from, &[name]).map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
        publish(&mut SimulatedVolume { state: &mut state, at, shown }, &plan)
    }
}

/// A volume that is being published.
struct SimulatedVolume<'a> {
    state: &'a mut MachineState,
    at: At,
    shown: PathBuf,
}

impl SimulatedVolume<'_> {
    /// Takes a step, then does it.
    fn act<T>(&mut self, step: Step, shown: &Path, act: impl FnOnce(&mut MachineState) -> Sys<T>) -> Result<T> {
        self.state.step(step, shown)?;
        act(self.state).map_err(|errno| KernelError::walking(step, text(shown), errno))
    }

    fn same_tree(&self, at: At, tree: &PayloadTree<'_>, plan: &PayloadPlan<'_>) -> Option<bool> {
        let children = self.state.children(at.node).ok()?;
        if !self.same_ownership(at, plan.payload.folder_mode, None, plan)?
            || !children.keys().map(OsString::as_os_str).eq(tree.keys().copied())
        {
            return Some(false);
        }
        for (name, branch) in tree {
            let at = self.state.lower(at, name).ok()?;
            let same = match (branch, &self.state.node(at.node).ok()?.content) {
                (Branch::Folder(inner), InodeContent::Folder(_)) => self.same_tree(at, inner, plan)?,
                (Branch::File(file), InodeContent::File(bytes)) => {
                    *bytes == file.bytes && self.same_ownership(at, file.mode, Some(file), plan)?
                }
                _ => false,
            };
            if !same || self.state.mounted_on.contains_key(&at) {
                return Some(false);
            }
        }
        Some(true)
    }

    fn same_ownership(&self, at: At, mode: u32, file: Option<&PayloadFile>, plan: &PayloadPlan<'_>) -> Option<bool> {
        let node = self.state.node(at.node).ok()?;
        Some((node.mode, node.owner, node.group) == (mode, plan.owner(file, 0), plan.group(0)))
    }

    fn fill(&mut self, at: At, shown: &Path, tree: &PayloadTree<'_>, plan: &PayloadPlan<'_>) -> Result<()> {
        for (name, branch) in tree {
            let shown = shown.join(name);
            match branch {
                Branch::Folder(inner) => {
                    let at = self.make_closed(at, name, &shown)?;
                    self.fill(at, &shown, inner, plan)?;
                }
                Branch::File(file) => {
                    // Empty first: a host that is killed in between leaves it so.
                    let new = self.act(Step::WriteFile, &shown, |state| {
                        state.create(at, name, InodeContent::File(Vec::new()), 0o600)
                    })?;
                    self.act(Step::WriteFile, &shown, |state| state.overwrite(new, &file.bytes))?;
                    self.give(new, &shown, file.mode, Some(file), plan)?;
                }
            }
        }
        self.give(at, shown, plan.payload.folder_mode, None, plan)
    }

    fn make_closed(&mut self, at: At, name: &OsStr, shown: &Path) -> Result<At> {
        self.act(Step::MakeFolder, shown, |state| state.create(at, name, InodeContent::Folder(BTreeMap::new()), 0o700))
    }

    fn give(
        &mut self,
        at: At,
        shown: &Path,
        mode: u32,
        file: Option<&PayloadFile>,
        plan: &PayloadPlan<'_>,
    ) -> Result<()> {
        let (owner, group) = (plan.owner(file, 0), plan.group(0));
        self.act(Step::SetOwner, shown, |state| {
            let node = state.node_mut(at.node)?;
            (node.owner, node.group) = (owner, group);
            Ok(())
        })?;
        self.act(Step::SetMode, shown, |state| {
            state.node_mut(at.node)?.mode = mode;
            Ok(())
        })
    }
}

impl PayloadFolder for SimulatedVolume<'_> {
    fn shown(&self, name: &OsStr) -> String {
        text(&label(&self.shown, name))
    }

    fn stamp(&mut self) -> OsString {
        // Without a clock: as many seconds as there were nodes.
        stamp_of(Duration::from_secs(self.state.fresh()))
    }

    fn names(&mut self) -> Result<Vec<OsString>> {
        let (at, shown) = (self.at, self.shown.clone());
        self.act(Step::ListFolder, &shown, |state| Ok(state.children(at.node)?.keys().cloned().collect()))
    }

    fn look(&mut self, name: &OsStr) -> Result<TargetEntry> {
        let (at, shown) = (self.at, label(&self.shown, name));
        self.act(Step::ReadLink, &shown, |state| match state.entry(at, name) {
            Err(Errno::NOENT) => Ok(TargetEntry::Absent),
            Err(errno) => Err(errno),
            Ok(at) => Ok(match &state.node(at.node)?.content {
                InodeContent::Symlink(target) => TargetEntry::Link(target.clone()),
                InodeContent::Folder(_) => TargetEntry::Folder,
                InodeContent::File(_) | InodeContent::Other(_) => TargetEntry::Other,
            }),
        })
    }

    fn matches(&mut self, folder: &OsStr, plan: &PayloadPlan<'_>) -> bool {
        let same = self.state.lower(self.at, folder).ok().and_then(|at| self.same_tree(at, &plan.tree, plan));
        same.unwrap_or(false)
    }

    fn write(&mut self, folder: &OsStr, plan: &PayloadPlan<'_>) -> Result<()> {
        let shown = label(&self.shown, folder);
        let at = self.make_closed(self.at, folder, &shown)?;
        self.fill(at, &shown, &plan.tree, plan)
    }

    fn link(&mut self, name: &OsStr, target: &Path, plan: &PayloadPlan<'_>) -> Result<()> {
        let (at, shown) = (self.at, label(&self.shown, name));
        let link = self.act(Step::MakeLink, &shown, |state| {
            state.create(at, name, InodeContent::Symlink(target.to_owned()), 0o777)
        })?;
        let owned = self.act(Step::SetOwner, &shown, |state| {
            let node = state.node_mut(link.node)?;
            node.owner = plan.payload.owner.unwrap_or(node.owner);
            node.group = plan.payload.group.unwrap_or(node.group);
            Ok(())
        });
        owned.map_err(|cause| cause.undone(self.unlink(name)))
    }

    fn rename(&mut self, from: &OsStr, to: &OsStr, replace: bool) -> Result<bool> {
        let (at, shown) = (self.at, label(&self.shown, to));
        self.act(Step::PublishPayload, &shown, |state| {
            let moved = state.lower(at, from)?;
            match state.lower(at, to) {
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
                Ok(_) if !replace => return Ok(false),
                Ok(old) if state.is_folder(old.node) => return Err(Errno::ISDIR),
                Ok(_) => state.unlink(at, to)?,
            }
            let children = state.children_mut(at.node)?;
            children.remove(from);
            children.insert(to.to_owned(), moved.node);
            Ok(true)
        })
    }

    fn unlink(&mut self, name: &OsStr) -> Result<()> {
        let (at, shown) = (self.at, label(&self.shown, name));
        self.act(Step::ClearPayload, &shown, |state| match state.unlink(at, name) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        })
    }

    fn remove(&mut self, folder: &OsStr) -> Result<()> {
        let shown = label(&self.shown, folder);
        self.state.delete_tree(self.at, folder, &shown)
    }
}
