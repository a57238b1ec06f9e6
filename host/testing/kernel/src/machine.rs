//! What a test does to the machine, and what it sees there. Paths are absolute and links are
//! followed, as a process in a pod would use them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use volhost_kernel::{Errno, MountInfo, SourceKind, Step};

use super::state::{At, InodeContent, MachineState, ROOT, Sys};
use super::{InMemoryKernel, lock};

/// An open file: its mount is busy until this is dropped.
#[derive(Debug)]
pub struct BusyMount {
    kernel: InMemoryKernel,
    token: u64,
}

impl Drop for BusyMount {
    fn drop(&mut self) {
        lock(&self.kernel.state).held.retain(|(token, _)| *token != self.token);
    }
}

impl InMemoryKernel {
    /// Gives the machine SELinux, with this label for files of containers.
    pub fn set_container_file_label(&self, label: &str) {
        lock(&self.state).container_file_label = Some(label.to_owned());
    }

    /// Makes a folder with its missing parents, mode 0755.
    ///
    /// # Errors
    /// As `mkdir -p`.
    pub fn add_folder(&self, path: impl AsRef<Path>) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let mut here = PathBuf::from("/");
        for name in path.as_ref().iter().skip(1) {
            here.push(name);
            match state.resolve(&here) {
                Ok(at) if state.is_folder(at.node) => {}
                Ok(_) => return Err(Errno::NOTDIR),
                Err(Errno::NOENT) => {
                    state.place(&here, InodeContent::Folder(BTreeMap::new()), 0o755)?;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes a file, mode 0644, in place of an older content.
    ///
    /// # Errors
    /// As `open` and `write`: `ROFS` through a read-only mount, `NOSPC` on a full file system.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        match state.resolve(path.as_ref()) {
            Ok(at) => state.overwrite(at, bytes),
            Err(Errno::NOENT) => state.place(path.as_ref(), InodeContent::File(bytes.to_vec()), 0o644).map(drop),
            Err(errno) => Err(errno),
        }
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As `symlink`.
    pub fn add_symlink(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<(), Errno> {
        let target = InodeContent::Symlink(target.as_ref().to_owned());
        lock(&self.state).place(path.as_ref(), target, 0o777).map(drop)
    }

    /// Makes a socket, device or named pipe; a folder or file is made empty.
    ///
    /// # Errors
    /// As `mknod`.
    pub fn add_node(&self, path: impl AsRef<Path>, kind: SourceKind) -> Result<(), Errno> {
        let content = match kind {
            SourceKind::Directory => InodeContent::Folder(BTreeMap::new()),
            SourceKind::File => InodeContent::File(Vec::new()),
            other => InodeContent::Other(other),
        };
        let mut state = lock(&self.state);
        let at = state.place(path.as_ref(), content, 0o644)?;
        if kind == SourceKind::BlockDevice {
            // A node without a device behind it; `InMemoryKernel::add_disk` makes one with.
            let number = state.fresh_disk_number()?;
            state.devices.nodes.insert(at.node, number);
        }
        Ok(())
    }

    /// The content of a file.
    ///
    /// # Errors
    /// As `open` and `read`.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Errno> {
        let state = lock(&self.state);
        match &state.node(state.resolve(path.as_ref())?.node)?.content {
            InodeContent::File(bytes) => Ok(bytes.clone()),
            InodeContent::Folder(_) => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    /// Returns whether the path, links followed, leads to something.
    #[must_use]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        lock(&self.state).resolve(path.as_ref()).is_ok()
    }

    /// The names in a folder.
    ///
    /// # Errors
    /// As `opendir`.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>, Errno> {
        let state = lock(&self.state);
        let at = state.resolve(path.as_ref())?;
        Ok(state.children(at.node)?.keys().cloned().collect())
    }

    /// Mode and group.
    ///
    /// # Errors
    /// As `stat`.
    pub fn mode_and_group(&self, path: impl AsRef<Path>) -> Result<(u32, u32), Errno> {
        let state = lock(&self.state);
        let node = state.node(state.resolve(path.as_ref())?.node)?;
        Ok((node.mode, node.group))
    }

    /// The user that owns what is there, a link itself.
    ///
    /// # Errors
    /// As `lstat`.
    pub fn owner(&self, path: impl AsRef<Path>) -> Result<u32, Errno> {
        let state = lock(&self.state);
        Ok(state.node(state.resolve_link(path.as_ref())?.node)?.owner)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As `readlink`.
    pub fn link_target(&self, path: impl AsRef<Path>) -> Result<PathBuf, Errno> {
        let state = lock(&self.state);
        match &state.node(state.resolve_link(path.as_ref())?.node)?.content {
            InodeContent::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }

    /// Sets owner, group and mode.
    ///
    /// # Errors
    /// As `chown` and `chmod`.
    pub fn give(&self, path: impl AsRef<Path>, owner: u32, group: u32, mode: u32) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let at = state.resolve(path.as_ref())?;
        let node = state.node_mut(at.node)?;
        (node.owner, node.group, node.mode) = (owner, group, mode);
        Ok(())
    }

    /// Removes a file or an empty folder, as a stranger to volhost would.
    ///
    /// # Errors
    /// As `unlink` and `rmdir`.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let path = path.as_ref();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::BUSY);
        };
        let parent = state.resolve(parent)?;
        match state.rmdir(parent, name) {
            Err(Errno::NOTDIR) => state.unlink(parent, name),
            done => done,
        }
    }

    /// Opens a file or folder for as long as the value lives; its mount is busy.
    ///
    /// # Errors
    /// As `open`.
    pub fn hold(&self, path: impl AsRef<Path>) -> Result<BusyMount, Errno> {
        let mut state = lock(&self.state);
        let at = state.resolve(path.as_ref())?;
        let token = state.fresh();
        state.held.push((token, at.mount));
        Ok(BusyMount { kernel: self.clone(), token })
    }

    /// Every visible mount but the machine's root, in the order of their ids; points are relative
    /// to `/`.
    #[must_use]
    pub fn mounts(&self) -> Vec<MountInfo> {
        let state = lock(&self.state);
        let keys = state.mounts.keys().filter(|key| **key != ROOT.mount);
        keys.filter_map(|key| {
            let root = state.mounts.get(key)?.root;
            let path = state.path_of(At { mount: *key, node: root })?;
            state.info(*key, path.strip_prefix("/").unwrap_or(&path).to_owned())
        })
        .collect()
    }

    /// Returns how many mounts were made and neither attached nor dropped.
    #[must_use]
    pub fn detached_count(&self) -> usize {
        lock(&self.state).detached.len()
    }

    /// Fails the next step of this name with this error, once. Orders add up.
    pub fn fail_next(&self, step: Step, errno: Errno) {
        lock(&self.state).faults.named.push((step, errno));
    }

    /// Fails the step after `steps` others, whatever it is, once; 0 is the next. A later order
    /// replaces it.
    pub fn fail_at(&self, steps: usize, errno: Errno) {
        lock(&self.state).faults.counted = Some((steps, errno));
    }

    /// Fails every step after `steps` others until [`InMemoryKernel::clear_faults`]: what is there
    /// then is what a host leaves that was killed there, for it can't clean up either.
    pub fn crash_at(&self, steps: usize) {
        lock(&self.state).faults.crash = Some((steps, Errno::INTR));
    }

    /// Takes back every fault that was ordered and has not come.
    pub fn clear_faults(&self) {
        let faults = &mut lock(&self.state).faults;
        faults.named.clear();
        faults.counted = None;
        faults.crash = None;
    }

    /// Every step taken so far, in order.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        lock(&self.state).faults.taken.clone()
    }

    /// The memory that the machine claims to have, in bytes; 8 GiB at first.
    pub fn set_total_memory(&self, bytes: u64) {
        lock(&self.state).memory = bytes;
    }

    /// Lets the machine have huge pages of these sizes, in bytes, the usual one first; else it has
    /// 2 MiB and 1 GiB.
    pub fn set_huge_pages(&self, sizes: &[u64]) {
        lock(&self.state).huge_pages = sizes.to_vec();
    }

    /// Lets folders have quotas, as on a btrfs where they are on.
    pub fn enable_folder_quotas(&self) {
        lock(&self.state).folder_quotas = true;
    }

    /// Takes id-mapped mounts away from a type of file system (`ext4`, `tmpfs`).
    pub fn without_id_maps(&self, fs_type: &str) {
        lock(&self.state).without_id_maps.insert(fs_type.to_owned());
    }

    /// Takes a tmpfs option away, as on an older kernel.
    pub fn without_option(&self, option: &str) {
        lock(&self.state).missing_options.insert(option.to_owned());
    }
}

impl MachineState {
    /// Returns what is at an absolute path; a link at its end is not followed.
    fn resolve_link(&self, path: &Path) -> Sys<At> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => self.entry(self.resolve(parent)?, name),
            _ => Ok(self.top(ROOT)),
        }
    }

    /// Makes an entry at an absolute path whose parent exists.
    fn place(&mut self, path: &Path, content: InodeContent, mode: u32) -> Sys<At> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::EXIST);
        };
        let parent = self.resolve(parent)?;
        self.create(parent, name, content, mode)
    }

    /// Gives a file a new content.
    pub(super) fn overwrite(&mut self, at: At, bytes: &[u8]) -> Sys<()> {
        self.writable(at)?;
        let node = self.node(at.node)?;
        let InodeContent::File(old) = &node.content else {
            return Err(Errno::ISDIR);
        };
        self.check_room(node.file_system, old.len(), bytes.len())?;
        self.check_quota(at.node, old.len(), bytes.len())?;
        self.node_mut(at.node)?.content = InodeContent::File(bytes.to_vec());
        Ok(())
    }
}
