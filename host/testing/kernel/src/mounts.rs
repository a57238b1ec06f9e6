//! Copying, attaching and detaching mounts, and describing them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use volhost_kernel::implement::{option_names, text};
use volhost_kernel::{Detach, Errno, KernelError, MountId, MountInfo, Result, Step};

use super::state::{At, InodeContent, MachineState, Mount, MountKey, Sys};

impl MachineState {
    /// Takes a step of an operation on what `shown` names, unless a fault was ordered for it.
    pub(super) fn step(&mut self, step: Step, shown: &Path) -> Result<()> {
        self.faults.take(step).map_err(|errno| KernelError::walking(step, text(shown), errno))
    }

    pub(super) fn add_mount(&mut self, root: u64, attributes: u64) -> MountKey {
        let key = self.fresh();
        self.mounts.insert(key, Mount { root, on: None, attributes });
        key
    }

    pub(super) fn put(&mut self, key: MountKey, on: At) {
        if let Some(mount) = self.mounts.get_mut(&key) {
            mount.on = Some(on);
            self.mounted_on.insert(on, key);
        }
    }

    /// Copies what is seen at a place, unattached.
    pub(super) fn copy_tree(&mut self, from: At, recursive: bool) -> MountKey {
        let attributes = self.mounts.get(&from.mount).map_or(0, |mount| mount.attributes);
        let copy = self.add_mount(from.node, attributes);
        if recursive {
            for (on, key) in self.children_of(from.mount) {
                if on.node != from.node && self.is_within(on.node, from.node) {
                    self.copy_child(key, At { mount: copy, node: on.node });
                }
            }
        }
        copy
    }

    fn copy_child(&mut self, key: MountKey, on: At) {
        let Some(mount) = self.mounts.get(&key).cloned() else {
            return;
        };
        let copy = self.add_mount(mount.root, mount.attributes);
        self.put(copy, on);
        for (inner, child) in self.children_of(key) {
            self.copy_child(child, At { mount: copy, node: inner.node });
        }
    }

    /// The mounts on this one.
    pub(super) fn children_of(&self, key: MountKey) -> Vec<(At, MountKey)> {
        let placed = |(id, mount): (&MountKey, &Mount)| mount.on.map(|on| (on, *id));
        self.mounts.iter().filter_map(placed).filter(|(on, _)| on.mount == key).collect()
    }

    /// A mount and everything mounted on it, outermost first.
    pub(super) fn tree_of(&self, key: MountKey) -> Vec<MountKey> {
        let mut all = vec![key];
        let mut next = 0;
        while let Some(key) = all.get(next) {
            let children: Vec<MountKey> = self.children_of(*key).into_iter().map(|(_, child)| child).collect();
            all.extend(children);
            next += 1;
        }
        all
    }

    /// The mount point on this one of a mount whose file system is mounted nowhere else, relative
    /// to this one.
    pub(super) fn only_inside(&self, key: MountKey) -> Option<PathBuf> {
        let tree = self.tree_of(key);
        let file_system = |key: &MountKey| Some(self.nodes.get(&self.mounts.get(key)?.root)?.file_system);
        let attached =
            self.mounts.iter().filter(|(key, mount)| mount.on.is_some() && !tree.iter().skip(1).any(|one| one == *key));
        let elsewhere: Vec<u64> = attached.filter_map(|(key, _)| file_system(key)).collect();
        let inside = tree.iter().skip(1);
        let mut alone = inside.filter(|key| file_system(key).is_some_and(|id| !elsewhere.contains(&id)));
        let at = self.mounts.get(alone.next()?)?.on?;
        let root = self.path_in_file_system(self.mounts.get(&at.mount)?.root);
        Some(self.path_in_file_system(at.node).strip_prefix(root).map(PathBuf::from).unwrap_or_default())
    }

    /// Forgets a mount and what is mounted on it.
    pub(super) fn drop_tree(&mut self, key: MountKey) {
        for key in self.tree_of(key) {
            if let Some(on) = self.mounts.remove(&key).and_then(|mount| mount.on) {
                self.mounted_on.remove(&on);
            }
            self.detached.remove(&key);
            self.held.retain(|(_, held)| *held != key);
        }
    }

    pub(super) fn unmount(&mut self, key: MountKey, how: Detach) -> Sys<()> {
        let busy = self.held.iter().any(|(_, held)| *held == key);
        if how == Detach::Normal && (busy || !self.children_of(key).is_empty()) {
            return Err(Errno::BUSY);
        }
        self.drop_tree(key);
        Ok(())
    }

    /// Makes or accepts a mount point; true if it was made.
    pub(super) fn mount_point(&mut self, into: At, name: &OsStr, folder: bool, shown: &Path) -> Result<bool> {
        self.step(Step::MakeMountPoint, shown)?;
        let path = text(shown);
        let at = match self.lower(into, name) {
            Ok(at) => at,
            Err(Errno::NOENT) => {
                let (content, mode) = if folder {
                    (InodeContent::Folder(std::collections::BTreeMap::new()), 0)
                } else {
                    (InodeContent::File(Vec::new()), 0)
                };
                return self
                    .create(into, name, content, mode)
                    .map(|_| true)
                    .map_err(|errno| KernelError::failed(Step::MakeMountPoint, path, errno));
            }
            Err(errno) => return Err(KernelError::failed(Step::MakeMountPoint, path, errno)),
        };
        if self.mounted_on.contains_key(&at) {
            return Err(KernelError::AlreadyMounted { path });
        }
        if self.is_empty_point(at, folder, &path)? { Ok(false) } else { Err(KernelError::NotEmpty { path }) }
    }

    fn is_empty_point(&self, at: At, folder: bool, path: &str) -> Result<bool> {
        let node = self.node(at.node).map_err(|errno| KernelError::failed(Step::Inspect, path, errno))?;
        let path = path.to_owned();
        match (&node.content, folder) {
            (InodeContent::Symlink(_), _) => Err(KernelError::SymbolicLink { path }),
            (InodeContent::Folder(children), true) => Ok(children.is_empty()),
            (InodeContent::File(bytes), false) => Ok(bytes.is_empty()),
            (content, true) => Err(KernelError::WrongType { path, expected: "a folder", found: word(content) }),
            (content, false) => Err(KernelError::WrongType { path, expected: "an empty file", found: word(content) }),
        }
    }

    /// Removes an empty folder or file where a mount was.
    pub(super) fn remove_mount_point(&mut self, from: At, name: &OsStr, shown: &Path) -> Result<()> {
        let path = text(shown);
        let removed = match self.rmdir(from, name) {
            Err(Errno::NOTDIR) => {
                let at = self
                    .lower(from, name)
                    .map_err(|errno| KernelError::failed(Step::RemoveMountPoint, &path, errno))?;
                if !self.is_empty_point(at, false, &path)? {
                    return Err(KernelError::NotEmpty { path });
                }
                self.unlink(from, name)
            }
            removed => removed,
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY) => Err(KernelError::NotEmpty { path }),
            Err(errno) => Err(KernelError::failed(Step::RemoveMountPoint, path, errno)),
        }
    }

    pub(super) fn info(&self, key: MountKey, point: PathBuf) -> Option<MountInfo> {
        let mount = self.mounts.get(&key)?;
        let id = self.nodes.get(&mount.root)?.file_system;
        let file_system = self.file_systems.get(&id)?;
        let device = self.devices.sources.get(&id).map(|path| path.clone().into_os_string());
        let mut options = option_names(mount.attributes);
        options.extend(file_system.options.iter().cloned());
        Some(MountInfo {
            id: MountId(key),
            parent: MountId(mount.on.map_or(key, |on| on.mount)),
            point,
            device: (0, u32::try_from(id).unwrap_or(u32::MAX)),
            fs_type: file_system.fs_type.clone(),
            source: device.unwrap_or_else(|| OsString::from(file_system.fs_type.clone())),
            root: self.path_in_file_system(mount.root),
            options,
            read_only: mount.attributes & libc::MOUNT_ATTR_RDONLY != 0,
        })
    }

    fn path_in_file_system(&self, mut node: u64) -> PathBuf {
        let mut names = Vec::new();
        while let Some(parent) = self.nodes.get(&node).and_then(|node| node.parent) {
            let named = self.children(parent).ok().and_then(|all| all.iter().find(|(_, id)| **id == node));
            names.extend(named.map(|(name, _)| name.clone()));
            node = parent;
        }
        let mut path = PathBuf::from("/");
        path.extend(names.iter().rev());
        path
    }
}

/// A word for messages.
pub(super) fn word(content: &InodeContent) -> &'static str {
    match content {
        InodeContent::Folder(_) => "a folder",
        InodeContent::File(_) => "a file",
        InodeContent::Symlink(_) => "a symbolic link",
        InodeContent::Other(_) => "a socket, device or named pipe",
    }
}
