//! Sub-paths: the links of a volume are followed here one by one, as `openat2` does beneath a
//! folder.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use volhost_kernel::implement::{check_mode, check_name, check_relative, label, text};
use volhost_kernel::{
    Detach, Directory, Errno, Kernel as _, KernelError, MissingSubPath, MountSource, Result, SourceKind, Step,
    SubPathBind, SubPathBinding, SubPaths,
};

use super::state::{At, InodeContent, MachineState, Sys};
use super::{InMemoryKernel, lock};

/// As many links as Linux follows on one path.
const MAX_LINKS: usize = 40;

impl SubPaths for InMemoryKernel {
    fn open_sub_path(
        &self,
        volume: &Directory,
        name: &OsStr,
        rel: &Path,
        missing: MissingSubPath,
    ) -> Result<MountSource> {
        check_name(name)?;
        let names = check_relative(rel)?;
        if let MissingSubPath::MakeFoldersWithMode(mode) = missing {
            check_mode(mode)?;
        }
        let from = self.folder(volume)?;
        let shown = label(volume.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::OpenFolder, &shown)?;
        let root =
            state.walk(from, &[name]).map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
        let shown = label(&shown, rel);
        state.step(Step::OpenSubPath, &shown)?;
        let at = match state.resolve_staying(root, rel) {
            Err(Errno::NOENT) if missing != MissingSubPath::Refuse => {
                let root_mode = state.node(root.node).map_or(0, |node| node.mode);
                let mode = if let MissingSubPath::MakeFoldersWithMode(mode) = missing { mode } else { root_mode };
                make_below(&mut state, root, &names, mode, &shown)?
            }
            found => found.map_err(|errno| refused(&shown, errno))?,
        };
        let kind = match state.node(at.node).map(|node| &node.content) {
            Ok(InodeContent::Folder(_)) => SourceKind::Directory,
            Ok(InodeContent::Other(kind)) => *kind,
            _ => SourceKind::File,
        };
        self.host_source(at, &shown, kind)
    }

    fn bind_sub_path(
        &self,
        source: &MountSource,
        how: SubPathBind,
        directory: &Directory,
        name: &OsStr,
    ) -> Result<SubPathBinding> {
        check_name(name)?;
        let wanted = self.at(source)?.node;
        let from = self.folder(directory)?;
        let bound = {
            let mut state = lock(&self.state);
            state.step(Step::Inspect, &label(directory.label(), name))?;
            let key = state.entry(from, name).ok().filter(|at| at.mount != from.mount).map(|at| at.mount);
            key.and_then(|key| state.mounts.get(&key).map(|mount| (mount.root, mount.attributes)))
        };
        let read_only = |attributes: u64| attributes & libc::MOUNT_ATTR_RDONLY != 0;
        if bound.is_some_and(|(root, attributes)| root == wanted && read_only(attributes) == how.read_only) {
            return Ok(SubPathBinding::Kept);
        }
        let mount = self.bind(source, how.submounts)?;
        if how.read_only {
            self.set_options(&mount, &["ro"], false)?;
        }
        if bound.is_some() {
            self.detach(directory, name, Detach::Lazy)?;
        }
        self.attach(mount, directory, name)?;
        Ok(if bound.is_some() { SubPathBinding::Replaced } else { SubPathBinding::New })
    }

    fn detach_tree(&self, directory: &Directory, name: &OsStr, how: Detach) -> Result<()> {
        check_name(name)?;
        let from = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let at = {
            let mut state = lock(&self.state);
            state.step(Step::Inspect, &shown)?;
            match state.lower(from, name) {
                Err(Errno::NOENT) => return Ok(()),
                found => found.map_err(|errno| KernelError::failed(Step::Inspect, text(&shown), errno))?,
            }
        };
        let mut state = lock(&self.state);
        if state.mounted_on.contains_key(&at) {
            drop(state);
            return self.detach(directory, name, how);
        }
        match state.node(at.node).map(|node| &node.content) {
            Ok(InodeContent::Folder(_)) => {}
            Ok(InodeContent::Symlink(_)) => return Err(KernelError::SymbolicLink { path: text(&shown) }),
            _ => return Err(KernelError::walking(Step::Unmount, text(&shown), Errno::NOTDIR)),
        }
        let mut first = state.unmount_within(at, how, &shown).err();
        state.clear_points(from, name, &shown, &mut first);
        first.map_or(Ok(()), Err)
    }
}

fn refused(shown: &Path, errno: Errno) -> KernelError {
    match errno {
        Errno::XDEV => KernelError::OutsideVolume { path: text(shown) },
        Errno::LOOP => KernelError::failed(Step::OpenSubPath, text(shown), errno),
        errno => KernelError::walking(Step::OpenSubPath, text(shown), errno),
    }
}

fn make_below(state: &mut MachineState, root: At, names: &[&OsStr], mode: u32, shown: &Path) -> Result<At> {
    let mut existing = names.len();
    let mut here = loop {
        existing -= 1;
        let rel: PathBuf = names.iter().take(existing).collect();
        match state.resolve_staying(root, &rel) {
            Err(Errno::NOENT) => {}
            found => break found.map_err(|errno| refused(shown, errno))?,
        }
    };
    for name in names.iter().skip(existing) {
        if state.lower(here, name) == Err(Errno::NOENT) {
            state.make_folder(here, name, mode, shown)?;
        }
        here =
            state.walk(here, &[name]).map_err(|errno| KernelError::walking(Step::OpenSubPath, text(shown), errno))?;
    }
    Ok(here)
}

impl MachineState {
    /// Follows a path and its links as long as they stay below the root.
    fn resolve_staying(&self, root: At, rel: &Path) -> Sys<At> {
        let mut trail = vec![root];
        let mut links = 0;
        let mut left: VecDeque<PathBuf> = rel.components().map(|part| PathBuf::from(part.as_os_str())).collect();
        while let Some(part) = left.pop_front() {
            let here = *trail.last().ok_or(Errno::XDEV)?;
            match part.components().next() {
                Some(Component::RootDir) => return Err(Errno::XDEV),
                Some(Component::ParentDir) => {
                    trail.pop();
                    if trail.is_empty() {
                        return Err(Errno::XDEV);
                    }
                }
                Some(Component::Normal(name)) => {
                    let inner = self.entry(here, name)?;
                    if let InodeContent::Symlink(target) = &self.node(inner.node)?.content {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(Errno::LOOP);
                        }
                        for part in target.components().rev() {
                            left.push_front(PathBuf::from(part.as_os_str()));
                        }
                    } else {
                        trail.push(inner);
                    }
                }
                _ => {}
            }
        }
        trail.last().copied().ok_or(Errno::XDEV)
    }

    /// Unmounts everything in a folder, from the leaves up.
    fn unmount_within(&mut self, folder: At, how: Detach, shown: &Path) -> Result<()> {
        let mounts = self.children_of(folder.mount);
        let within = mounts.into_iter().filter(|(on, _)| self.is_within(on.node, folder.node));
        let keys: Vec<_> = within.flat_map(|(_, key)| self.tree_of(key)).collect();
        let mut first = None;
        for key in keys.into_iter().rev() {
            let unmounted = self.step(Step::Unmount, shown).and_then(|()| {
                let busy = |errno| KernelError::failed(Step::Unmount, text(shown), errno);
                self.unmount(key, how).map_err(busy)
            });
            if let Err(error) = unmounted {
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Removes empty folders and files; anything else stays and is reported.
    fn clear_points(&mut self, parent: At, name: &OsStr, shown: &Path, first: &mut Option<KernelError>) {
        let Ok(at) = self.lower(parent, name) else { return };
        let path = text(shown);
        if self.mounted_on.contains_key(&at) {
            first.get_or_insert(KernelError::MountInside { path });
            return;
        }
        let removable = match self.nodes.get(&at.node).map(|node| &node.content) {
            Some(InodeContent::Folder(children)) => {
                let names: Vec<OsString> = children.keys().cloned().collect();
                for inner in names {
                    self.clear_points(at, &inner, &shown.join(&inner), first);
                }
                self.children(at.node).is_ok_and(BTreeMap::is_empty)
            }
            Some(InodeContent::File(bytes)) => bytes.is_empty(),
            _ => false,
        };
        if !removable {
            first.get_or_insert(KernelError::NotEmpty { path });
            return;
        }
        let removed = self.step(Step::RemoveMountPoint, shown).and_then(|()| {
            let failed = |errno| KernelError::failed(Step::RemoveMountPoint, &path, errno);
            self.unlink(parent, name).map_err(failed)
        });
        if let Err(error) = removed {
            first.get_or_insert(error);
        }
    }
}
