//! Overlays: each is a new file system with a copy of what its layers show.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use volhost_kernel::implement::{UPPER, WORK, check_overlay, check_source, label, text};
use volhost_kernel::{DetachedMount, Errno, FsOption, KernelError, MountSource, Overlays, Result, SourceKind, Step};

use super::state::{At, FileSystem, Inode, InodeContent, MachineState, NodeId};
use super::{InMemoryKernel, lock};

const OVERLAY: &str = "overlay";

impl MachineState {
    /// Copies what is missing of one folder into another, of another file system.
    fn merge(&mut self, from: NodeId, into: NodeId, file_system: u64) {
        let Ok(children) = self.children(from).cloned() else { return };
        for (name, child) in children {
            let Some(node) = self.nodes.get(&child).cloned() else { continue };
            let present = self.children(into).ok().and_then(|all| all.get(&name).copied());
            let is_folder = matches!(node.content, InodeContent::Folder(_));
            let copy = match present {
                Some(present) => present,
                None => {
                    let content = if is_folder { InodeContent::Folder(BTreeMap::new()) } else { node.content };
                    let id = self.fresh();
                    self.nodes.insert(id, Inode { content, file_system, parent: Some(into), ..node });
                    if let Ok(children) = self.children_mut(into) {
                        children.insert(name, id);
                    }
                    id
                }
            };
            if is_folder {
                self.merge(child, copy, file_system);
            }
        }
    }

    fn new_overlay(&mut self, layers: &[At], writable: bool) -> std::result::Result<u64, Errno> {
        let first = layers.first().ok_or(Errno::INVAL)?;
        let like = self.node(first.node)?.clone();
        let id = self.fresh();
        let made = FileSystem { fs_type: OVERLAY.to_owned(), options: Vec::new(), max_bytes: None, max_inodes: None };
        self.file_systems.insert(id, made);
        let content = InodeContent::Folder(BTreeMap::new());
        self.nodes.insert(id, Inode { content, file_system: id, parent: None, ..like });
        for layer in layers {
            self.merge(layer.node, id, id);
        }
        Ok(self.add_mount(id, if writable { 0 } else { libc::MOUNT_ATTR_RDONLY }))
    }

    /// The upper folder of a top, which is made with its neighbour if it is missing.
    fn upper(&mut self, top: At, like: At, shown: &MountSource) -> Result<At> {
        let mode = self.nodes.get(&like.node).map_or(0o755, |node| node.mode);
        let fresh = self.lower(top, OsStr::new(UPPER)) == Err(Errno::NOENT);
        for (name, mode) in [(UPPER, mode), (WORK, 0o700)] {
            let name = OsStr::new(name);
            if self.lower(top, name) == Err(Errno::NOENT) {
                self.make_folder(top, name, mode, &label(shown.label(), name))?;
            }
        }
        let failed = |errno| KernelError::failed(Step::OpenFolder, UPPER, errno);
        let upper = self.lower(top, OsStr::new(UPPER)).map_err(failed)?;
        if fresh {
            let Inode { owner, group, .. } = *self.node(like.node).map_err(failed)?;
            let node = self.node_mut(upper.node).map_err(failed)?;
            (node.owner, node.group) = (owner, group);
        }
        Ok(upper)
    }
}

impl Overlays for InMemoryKernel {
    fn overlay(
        &self,
        lowers: &[&MountSource],
        top: Option<&MountSource>,
        options: &[FsOption],
    ) -> Result<DetachedMount> {
        check_overlay(lowers, top, options)?;
        let mut layers = lowers.iter().map(|lower| self.at(lower)).collect::<Result<Vec<_>>>()?;
        let top = top.map(|top| self.at(top).map(|at| (at, top))).transpose()?;
        let mut state = lock(&self.state);
        let shown: Vec<String> = lowers.iter().map(|lower| text(lower.label())).collect();
        let shown = shown.join(", ");
        if let (Some((at, top)), Some(first)) = (top, layers.first().copied()) {
            if layers.iter().any(|layer| layer.node == at.node) {
                let why = "two of the layers are the same folder, or one lies in another";
                return Err(KernelError::LayersRefused { layers: shown, why, errno: Errno::LOOP, said: String::new() });
            }
            layers.insert(0, state.upper(at, first, top)?);
        }
        state.step(Step::MountOverlay, shown.as_ref())?;
        let mount = state
            .new_overlay(&layers, top.is_some())
            .map_err(|errno| KernelError::failed(Step::MountOverlay, &shown, errno))?;
        self.detached(&mut state, mount, OVERLAY.into())
    }

    fn layers(&self, lowers: &[&MountSource], source: &str) -> Result<DetachedMount> {
        check_source(source)?;
        let mount = self.overlay(lowers, None, &[])?;
        let key = self.mount_of(&mount)?;
        let mut state = lock(&self.state);
        let root = state.mounts.get(&key).map_or(0, |mount| mount.root);
        let id = state.nodes.get(&root).map_or(0, |node| node.file_system);
        state.devices.sources.insert(id, source.into());
        Ok(mount)
    }

    fn root_of(&self, mount: &DetachedMount) -> Result<MountSource> {
        let key = self.mount_of(mount)?;
        let node = lock(&self.state).mounts.get(&key).map_or(0, |mount| mount.root);
        self.host_source(At { mount: key, node }, mount.label(), SourceKind::Directory)
    }
}
