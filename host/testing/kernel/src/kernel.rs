//! The trait [`Kernel`], over the state.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use volhost_kernel::implement::{
    attributes, check_absolute, check_huge_pages, check_mode, check_name, check_relative, check_tmpfs, label, text,
};
use volhost_kernel::{
    AppendFile, Detach, DetachedMount, Directory, Durability, Entry, Errno, FsOption, Kernel, KernelError, MountId,
    MountInfo, MountSource, Propagation, Result, RootLock, SourceKind, Step,
};

use super::state::{At, InodeContent};
use super::{InMemoryKernel, lock};

impl Kernel for InMemoryKernel {
    fn prepare_root(&self, path: &Path, _propagation: Propagation) -> Result<Directory> {
        check_absolute(path)?;
        let mut state = lock(&self.state);
        state.step(Step::OpenFolder, path)?;
        let at = match state.resolve(path) {
            Err(Errno::NOENT) => self.make_root(&mut state, path)?,
            found => found.map_err(|errno| KernelError::walking(Step::OpenFolder, text(path), errno))?,
        };
        if !state.is_folder(at.node) {
            return Err(KernelError::walking(Step::OpenFolder, text(path), Errno::NOTDIR));
        }
        let mut root = at;
        if !state.is_mount_root(at) {
            state.step(Step::MountRoot, path)?;
            let mount = state.copy_tree(at, true);
            state.put(mount, at);
            root = state.top(at);
        }
        state.step(Step::SetPropagation, path)?;
        self.directory(root, PathBuf::new())
    }

    fn release_root(&self, path: &Path) -> Result<()> {
        check_absolute(path)?;
        let mut state = lock(&self.state);
        let at = match state.resolve(path) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.map_err(|errno| KernelError::walking(Step::OpenFolder, text(path), errno))?,
        };
        // The root of a whole file system is the operator's.
        let whole = state.nodes.get(&at.node).is_none_or(|node| node.parent.is_none());
        if !state.is_mount_root(at) || whole {
            return Ok(());
        }
        if let Some((on, _)) = state.children_of(at.mount).first() {
            let point = state.path_of(*on).unwrap_or_default();
            let point = point.strip_prefix(path).unwrap_or(&point);
            return Err(KernelError::MountInside { path: text(point) });
        }
        state.step(Step::UnmountRoot, path)?;
        state.drop_tree(at.mount);
        Ok(())
    }

    fn open_directory(&self, path: &Path) -> Result<Directory> {
        check_absolute(path)?;
        let mut state = lock(&self.state);
        state.step(Step::OpenFolder, path)?;
        let failed = |errno| KernelError::walking(Step::OpenFolder, text(path), errno);
        let at = state.resolve(path).map_err(failed)?;
        state.children(at.node).map_err(failed)?;
        self.directory(at, path.to_owned())
    }

    fn walk(&self, directory: &Directory, rel: &Path) -> Result<Directory> {
        let names = check_relative(rel)?;
        let from = self.folder(directory)?;
        let shown = label(directory.label(), rel);
        let mut state = lock(&self.state);
        state.step(Step::OpenFolder, &shown)?;
        let at =
            state.walk(from, &names).map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
        self.directory(at, shown)
    }

    fn make_dirs(&self, directory: &Directory, rel: &Path, mode: u32) -> Result<Directory> {
        check_mode(mode)?;
        let names = check_relative(rel)?;
        let mut at = self.folder(directory)?;
        let mut shown = directory.label().to_owned();
        let mut state = lock(&self.state);
        for name in names {
            shown.push(name);
            if state.lower(at, name) == Err(Errno::NOENT) {
                state.make_folder(at, name, mode, &shown)?;
            }
            state.step(Step::OpenFolder, &shown)?;
            at =
                state.walk(at, &[name]).map_err(|errno| KernelError::walking(Step::OpenFolder, text(&shown), errno))?;
        }
        self.directory(at, shown)
    }

    fn mount_changes(&self) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    fn names(&self, directory: &Directory) -> Result<Vec<OsString>> {
        let at = self.folder(directory)?;
        let mut state = lock(&self.state);
        state.step(Step::ListFolder, directory.label())?;
        let children = state.children(at.node);
        let children =
            children.map_err(|errno| KernelError::failed(Step::ListFolder, text(directory.label()), errno))?;
        Ok(children.keys().cloned().collect())
    }

    fn entry(&self, directory: &Directory, name: &OsStr) -> Result<Entry> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::Inspect, &shown)?;
        match state.entry(folder, name) {
            Err(Errno::NOENT) => Ok(Entry::Absent),
            Err(errno) => Err(KernelError::failed(Step::Inspect, text(&shown), errno)),
            Ok(at) if at.mount != folder.mount => Ok(Entry::Mount(MountId(at.mount))),
            Ok(at) => Ok(match state.nodes.get(&at.node).map(|node| &node.content) {
                Some(InodeContent::Folder(_)) => Entry::Folder,
                Some(InodeContent::File(_)) => Entry::File,
                Some(InodeContent::Symlink(_)) => Entry::Symlink,
                Some(InodeContent::Other(_)) => Entry::Other,
                None => Entry::Absent,
            }),
        }
    }

    fn mount_at(&self, directory: &Directory, name: &OsStr) -> Result<Option<MountInfo>> {
        match self.entry(directory, name)? {
            Entry::Mount(MountId(key)) => {
                let mut state = lock(&self.state);
                state.step(Step::ListMounts, &label(directory.label(), name))?;
                Ok(state.info(key, PathBuf::from(name)))
            }
            _ => Ok(None),
        }
    }

    fn mounts_below(&self, directory: &Directory) -> Result<Vec<MountInfo>> {
        let at = self.folder(directory)?;
        let mut state = lock(&self.state);
        state.step(Step::ListMounts, directory.label())?;
        let failed = |errno| KernelError::failed(Step::ListMounts, text(directory.label()), errno);
        let base = state.path_of(at).ok_or_else(|| failed(Errno::NOENT))?;
        let mut found: Vec<MountInfo> = Vec::new();
        for key in state.tree_of(at.mount).into_iter().skip(1) {
            let Some(root) = state.mounts.get(&key).map(|mount| mount.root) else {
                continue;
            };
            let Some(path) = state.path_of(At { mount: key, node: root }) else {
                continue;
            };
            match path.strip_prefix(&base) {
                Ok(point) if !point.as_os_str().is_empty() => {
                    found.extend(state.info(key, point.to_owned()));
                }
                _ => {}
            }
        }
        found.sort_by_key(|mount| mount.id);
        Ok(found)
    }

    fn attach(&self, mount: DetachedMount, directory: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let key = self.mount_of(&mount)?;
        let into = self.folder(directory)?;
        let shown = label(directory.label(), name);
        // The mount is discarded after the lock is released, whatever happens.
        let mut state = lock(&self.state);
        let root = state.mounts.get(&key).map_or(0, |mount| mount.root);
        let folder = state.is_folder(root);
        let made = state.mount_point(into, name, folder, &shown)?;
        let attached = state.step(Step::Attach, &shown).and_then(|()| {
            let on = state.lower(into, name).map_err(|errno| KernelError::failed(Step::Attach, text(&shown), errno))?;
            state.detached.remove(&key);
            state.put(key, on);
            state.step(Step::CheckAttached, &shown).inspect_err(|_| state.drop_tree(key))
        });
        attached.map_err(|cause| if made { cause.undone(state.remove_mount_point(into, name, &shown)) } else { cause })
    }

    fn detach(&self, directory: &Directory, name: &OsStr, how: Detach) -> Result<()> {
        check_name(name)?;
        let from = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        loop {
            let at = match state.entry(from, name) {
                Ok(at) => at,
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(KernelError::failed(Step::Inspect, text(&shown), errno)),
            };
            if at.mount == from.mount {
                state.step(Step::RemoveMountPoint, &shown)?;
                return state.remove_mount_point(from, name, &shown);
            }
            if let Some(inner) = state.only_inside(at.mount).filter(|_| how == Detach::Normal) {
                return Err(KernelError::MountInside { path: text(&shown.join(inner)) });
            }
            let order = match how {
                // From the leaves up.
                Detach::Normal => state.tree_of(at.mount).into_iter().rev().collect(),
                Detach::Lazy => vec![at.mount],
            };
            for key in order {
                state.step(Step::Unmount, &shown)?;
                state.unmount(key, how).map_err(|errno| KernelError::failed(Step::Unmount, text(&shown), errno))?;
            }
        }
    }

    fn make_folder(&self, directory: &Directory, name: &OsStr, mode: u32, group: Option<u32>) -> Result<()> {
        check_name(name)?;
        check_mode(mode)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        lock(&self.state).make_plain_folder(folder, name, mode, group, &shown)
    }

    fn delete_folder(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        lock(&self.state).delete_tree(folder, name, &shown)
    }

    fn remove_empty_dir(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        lock(&self.state).remove_empty(folder, name, &shown)
    }

    fn move_folder(&self, from: &Directory, name: &OsStr, to: &Directory, new_name: &OsStr) -> Result<()> {
        check_name(name)?;
        check_name(new_name)?;
        let (source, target) = (self.folder(from)?, self.folder(to)?);
        let (shown, path) = (label(from.label(), name), label(to.label(), new_name));
        lock(&self.state).move_folder((source, name), (target, new_name), &shown, &path)
    }

    fn write_atomic(
        &self,
        directory: &Directory,
        name: &OsStr,
        bytes: &[u8],
        mode: u32,
        _durability: Durability,
    ) -> Result<()> {
        check_name(name)?;
        check_mode(mode)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        lock(&self.state).write_file(folder, name, bytes, mode, &shown)
    }

    fn read_file(&self, directory: &Directory, name: &OsStr, limit: usize) -> Result<Option<Vec<u8>>> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        lock(&self.state).read_file(folder, name, limit, &shown)
    }

    fn remove_file(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        lock(&self.state).remove_file(folder, name, &shown)
    }

    fn open_append(&self, directory: &Directory, name: &OsStr, make: Option<u32>) -> Result<Option<AppendFile>> {
        check_name(name)?;
        make.map_or(Ok(()), check_mode)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let opened = lock(&self.state).open_append(folder, name, make, &shown)?;
        let handle = |(at, bytes)| Ok(AppendFile::from_fd(self.handles.add_place(at, &shown)?, shown.clone(), bytes));
        opened.map(handle).transpose()
    }

    fn append(&self, file: &AppendFile, bytes: &[u8]) -> Result<()> {
        let at = self.handles.place(file, file.label())?;
        lock(&self.state).append(at, bytes, file.label())
    }

    fn source(&self, directory: &Directory) -> Result<MountSource> {
        self.host_source(self.folder(directory)?, directory.label(), SourceKind::Directory)
    }

    fn bind(&self, source: &MountSource, recursive: bool) -> Result<DetachedMount> {
        let at = self.at(source)?;
        let mut state = lock(&self.state);
        state.step(Step::CloneMount, source.label())?;
        let copy = state.copy_tree(at, recursive);
        self.detached(&mut state, copy, source.label().to_owned())
    }

    fn set_options(&self, mount: &DetachedMount, options: &[&str], recursive: bool) -> Result<()> {
        let wanted = attributes(&text(mount.label()), options)?;
        let key = self.mount_of(mount)?;
        let mut state = lock(&self.state);
        state.step(Step::SetOptions, mount.label())?;
        let keys = if recursive { state.tree_of(key) } else { vec![key] };
        for key in keys {
            if let Some(mount) = state.mounts.get_mut(&key) {
                mount.attributes = (mount.attributes & !wanted.clear) | wanted.set;
            }
        }
        Ok(())
    }

    fn make_read_only(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        let shown = label(directory.label(), name);
        let failed = |errno| KernelError::failed(Step::SetOptions, text(&shown), errno);
        let key = match self.entry(directory, name)? {
            Entry::Mount(MountId(key)) => key,
            Entry::Absent => return Err(failed(Errno::NOENT)),
            _ => return Err(failed(Errno::INVAL)),
        };
        let mut state = lock(&self.state);
        state.step(Step::SetOptions, &shown)?;
        if let Some(mount) = state.mounts.get_mut(&key) {
            mount.attributes |= libc::MOUNT_ATTR_RDONLY;
        }
        Ok(())
    }

    fn tmpfs(&self, options: &[FsOption]) -> Result<DetachedMount> {
        check_tmpfs(options)?;
        let shown = PathBuf::from("tmpfs");
        let mut state = lock(&self.state);
        state.step(Step::CreateFileSystem, &shown)?;
        let mount = state.new_tmpfs(options)?;
        self.detached(&mut state, mount, shown)
    }

    fn grow_tmpfs(&self, directory: &Directory, name: &OsStr, bytes: u64) -> Result<bool> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::GrowFileSystem, &shown)?;
        let grown = state.grow_tmpfs(folder, name, bytes);
        grown.map_err(|errno| KernelError::walking(Step::GrowFileSystem, text(&shown), errno))
    }

    fn huge_pages(&self, options: &[FsOption]) -> Result<DetachedMount> {
        check_huge_pages(options)?;
        let shown = PathBuf::from("hugetlbfs");
        let mut state = lock(&self.state);
        state.step(Step::CreateFileSystem, &shown)?;
        let mount = state.new_huge_pages(options)?;
        self.detached(&mut state, mount, shown)
    }

    fn open_host_path(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        check_absolute(path)?;
        let (at, kind) = lock(&self.state).open_granted(path, roots)?;
        self.host_source(at, path, kind)
    }

    fn create_host_directory(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        check_absolute(path)?;
        let at = lock(&self.state).create_granted_folder(path, roots)?;
        self.host_source(at, path, SourceKind::Directory)
    }

    fn create_host_file(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        check_absolute(path)?;
        let at = lock(&self.state).create_granted_file(path, roots)?;
        self.host_source(at, path, SourceKind::File)
    }

    fn lock_root(&self, directory: &Directory, name: &OsStr) -> Result<RootLock> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.lock_file(folder, name, &shown).map(RootLock::from_fd)
    }

    fn total_memory(&self) -> Result<u64> {
        let mut state = lock(&self.state);
        state.step(Step::ReadMemory, Path::new("the machine"))?;
        Ok(state.memory)
    }
}
