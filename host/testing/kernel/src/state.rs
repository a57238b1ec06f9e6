//! The machine: nodes in file systems, and mounts over them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use volhost_kernel::{Errno, SourceKind};

use super::devices::SimulatedDevices;
use super::faults::Faults;
use super::handles::OpenHandle;

/// As many links as Linux follows on one path.
const MAX_LINKS: usize = 40;

pub(super) type NodeId = u64;
pub(super) type MountKey = u64;
/// The result of an operation on the state, as a system call would return it.
pub(super) type Sys<T> = std::result::Result<T, Errno>;

/// A place in the tree: a node, seen through a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct At {
    pub(super) mount: MountKey,
    pub(super) node: NodeId,
}

#[derive(Debug, Clone)]
pub(super) enum InodeContent {
    Folder(BTreeMap<OsString, NodeId>),
    File(Vec<u8>),
    Symlink(PathBuf),
    Other(SourceKind),
}

#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) content: InodeContent,
    pub(super) mode: u32,
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) file_system: u64,
    /// The folder it is in; none for the root of a file system, and for what was removed.
    pub(super) parent: Option<NodeId>,
}

#[derive(Debug, Clone)]
pub(super) struct FileSystem {
    pub(super) fs_type: String,
    pub(super) options: Vec<String>,
    pub(super) max_bytes: Option<u64>,
    pub(super) max_inodes: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) root: NodeId,
    /// Its mount point; none for the root of the machine and for what is detached.
    pub(super) on: Option<At>,
    pub(super) attributes: u64,
}

#[derive(Debug)]
pub(super) struct MachineState {
    pub(super) nodes: HashMap<NodeId, Inode>,
    pub(super) file_systems: HashMap<u64, FileSystem>,
    pub(super) mounts: BTreeMap<MountKey, Mount>,
    /// The topmost-but-lower index: which mount is on a place.
    pub(super) mounted_on: HashMap<At, MountKey>,
    /// Roots of detached trees, with their handles.
    pub(super) detached: HashMap<MountKey, OpenHandle>,
    /// Open files, which keep their mounts busy.
    pub(super) held: Vec<(u64, MountKey)>,
    /// Locked files, with the handles of their locks.
    pub(super) locks: HashMap<NodeId, OpenHandle>,
    pub(super) faults: Faults,
    pub(super) memory: u64,
    pub(super) missing_options: HashSet<String>,
    /// The label of containers' files, if it has SELinux.
    pub(super) container_file_label: Option<String>,
    pub(super) devices: SimulatedDevices,
    /// Types of file systems whose mounts can't be id-mapped.
    pub(super) without_id_maps: HashSet<String>,
    /// The sizes of huge pages that there are, in bytes, the usual one first.
    pub(super) huge_pages: Vec<u64>,
    /// Folders can have quotas.
    pub(super) folder_quotas: bool,
    /// The folders that have one, in bytes.
    pub(super) limits: HashMap<NodeId, u64>,
    /// The servers that it can reach.
    pub(super) network: Network,
    next: u64,
}

/// The root of the machine: the first mount over the first node.
pub(super) const ROOT: At = At { mount: 1, node: 2 };

impl MachineState {
    pub(super) fn new() -> Self {
        let mut state = Self {
            nodes: HashMap::new(),
            file_systems: HashMap::new(),
            mounts: BTreeMap::new(),
            mounted_on: HashMap::new(),
            detached: HashMap::new(),
            held: Vec::new(),
            locks: HashMap::new(),
            faults: Faults::default(),
            memory: 8 << 30,
            missing_options: HashSet::new(),
            container_file_label: None,
            devices: SimulatedDevices::default(),
            without_id_maps: HashSet::new(),
            huge_pages: vec![2 << 20, 1 << 30],
            folder_quotas: false,
            limits: HashMap::new(),
            network: Network::default(),
            next: 3,
        };
        let disk = FileSystem { fs_type: "ext4".to_owned(), options: Vec::new(), max_bytes: None, max_inodes: None };
        state.file_systems.insert(0, disk);
        let content = InodeContent::Folder(BTreeMap::new());
        let root = Inode { content, mode: 0o755, owner: 0, group: 0, file_system: 0, parent: None };
        state.nodes.insert(ROOT.node, root);
        state.mounts.insert(ROOT.mount, Mount { root: ROOT.node, on: None, attributes: 0 });
        state
    }

    /// Discards the detached mounts and gives back the locks whose handles were closed.
    pub(super) fn follow_closed_handles(&mut self) {
        self.locks.retain(|_, held| held.is_open());
        let closed: Vec<MountKey> =
            self.detached.iter().filter(|(_, held)| !held.is_open()).map(|(mount, _)| *mount).collect();
        for mount in closed {
            self.drop_tree(mount);
        }
    }

    pub(super) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn node(&self, id: NodeId) -> Sys<&Inode> {
        self.nodes.get(&id).ok_or(Errno::STALE)
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> Sys<&mut Inode> {
        self.nodes.get_mut(&id).ok_or(Errno::STALE)
    }

    pub(super) fn children(&self, id: NodeId) -> Sys<&BTreeMap<OsString, NodeId>> {
        match &self.node(id)?.content {
            InodeContent::Folder(children) => Ok(children),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn children_mut(&mut self, id: NodeId) -> Sys<&mut BTreeMap<OsString, NodeId>> {
        match &mut self.node_mut(id)?.content {
            InodeContent::Folder(children) => Ok(children),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn is_folder(&self, id: NodeId) -> bool {
        self.children(id).is_ok()
    }

    /// An entry as it lies in its folder, under whatever is mounted on it.
    pub(super) fn lower(&self, folder: At, name: &OsStr) -> Sys<At> {
        let node = *self.children(folder.node)?.get(name).ok_or(Errno::NOENT)?;
        Ok(At { mount: folder.mount, node })
    }

    /// Returns what is seen at a place: the root of the topmost mount on it.
    pub(super) fn top(&self, mut at: At) -> At {
        while let Some((key, mount)) = self.mounted_on.get(&at).and_then(|key| self.mounts.get_key_value(key)) {
            at = At { mount: *key, node: mount.root };
        }
        at
    }

    /// An entry as it is seen.
    pub(super) fn entry(&self, folder: At, name: &OsStr) -> Sys<At> {
        self.lower(folder, name).map(|at| self.top(at))
    }

    pub(super) fn is_mount_root(&self, at: At) -> bool {
        self.mounts.get(&at.mount).is_some_and(|mount| mount.root == at.node)
    }

    /// Walks plain names; a link on the way is `LOOP`.
    pub(super) fn walk(&self, mut at: At, names: &[&OsStr]) -> Sys<At> {
        for name in names {
            at = self.entry(at, name)?;
            match self.node(at.node)?.content {
                InodeContent::Folder(_) => {}
                InodeContent::Symlink(_) => return Err(Errno::LOOP),
                _ => return Err(Errno::NOTDIR),
            }
        }
        Ok(at)
    }

    /// Follows an absolute path with all its links.
    pub(super) fn resolve(&self, path: &Path) -> Sys<At> {
        self.resolve_from(path, MAX_LINKS)
    }

    fn resolve_from(&self, path: &Path, links: usize) -> Sys<At> {
        let mut at = self.top(ROOT);
        let mut components = path.components();
        while let Some(component) = components.next() {
            match component {
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => {
                    let here = self.path_of(at).ok_or(Errno::NOENT)?;
                    at = self.resolve_from(here.parent().unwrap_or(Path::new("/")), links)?;
                }
                Component::Normal(name) => {
                    let inner = self.entry(at, name)?;
                    if let InodeContent::Symlink(target) = &self.node(inner.node)?.content {
                        let links = links.checked_sub(1).ok_or(Errno::LOOP)?;
                        let here = self.path_of(at).ok_or(Errno::NOENT)?;
                        let target = here.join(target).join(components.as_path());
                        return self.resolve_from(&target, links);
                    }
                    at = inner;
                }
            }
        }
        Ok(at)
    }

    /// The path of a place, none if it was removed or detached.
    pub(super) fn path_of(&self, mut at: At) -> Option<PathBuf> {
        let mut names = Vec::new();
        loop {
            let mount = self.mounts.get(&at.mount)?;
            if at.node == mount.root {
                match mount.on {
                    Some(on) => at = on,
                    None if at == ROOT => break,
                    None => return None,
                }
                continue;
            }
            let parent = self.nodes.get(&at.node)?.parent?;
            let children = self.children(parent).ok()?;
            names.push(children.iter().find(|(_, id)| **id == at.node)?.0.clone());
            at.node = parent;
        }
        let mut path = PathBuf::from("/");
        path.extend(names.iter().rev());
        Some(path)
    }

    /// Returns whether a node lies in a folder or is it.
    pub(super) fn is_within(&self, mut node: NodeId, folder: NodeId) -> bool {
        loop {
            if node == folder {
                return true;
            }
            match self.nodes.get(&node).and_then(|node| node.parent) {
                Some(parent) => node = parent,
                None => return false,
            }
        }
    }

    /// Refuses writing through a read-only mount.
    pub(super) fn writable(&self, at: At) -> Sys<()> {
        let mount = self.mounts.get(&at.mount).ok_or(Errno::STALE)?;
        if mount.attributes & libc::MOUNT_ATTR_RDONLY == 0 { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// Makes an entry, as far as the file system has room.
    pub(super) fn create(&mut self, folder: At, name: &OsStr, content: InodeContent, mode: u32) -> Sys<At> {
        if self.children(folder.node)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        self.writable(folder)?;
        let file_system = self.node(folder.node)?.file_system;
        let room = self.file_systems.get(&file_system).and_then(|fs| fs.max_inodes);
        if room.is_some_and(|most| self.inodes(file_system) >= most) {
            return Err(Errno::NOSPC);
        }
        if let InodeContent::File(bytes) = &content {
            self.check_room(file_system, 0, bytes.len())?;
            self.check_quota(folder.node, 0, bytes.len())?;
        }
        let id = self.fresh();
        let node = Inode { content, mode, owner: 0, group: 0, file_system, parent: Some(folder.node) };
        self.nodes.insert(id, node);
        self.children_mut(folder.node)?.insert(name.to_owned(), id);
        Ok(At { mount: folder.mount, node: id })
    }

    fn inodes(&self, file_system: u64) -> u64 {
        let in_use = |node: &&Inode| node.file_system == file_system;
        self.nodes.values().filter(in_use).count() as u64
    }

    /// Refuses a file that grows beyond the file system's room.
    pub(super) fn check_room(&self, file_system: u64, old: usize, new: usize) -> Sys<()> {
        let Some(most) = self.file_systems.get(&file_system).and_then(|fs| fs.max_bytes) else {
            return Ok(());
        };
        let used: usize = (self.nodes.values())
            .filter(|node| node.file_system == file_system)
            .map(|node| if let InodeContent::File(bytes) = &node.content { bytes.len() } else { 0 })
            .sum();
        if (used - old + new) as u64 > most { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Takes an entry out of its folder, with all that is in it.
    pub(super) fn unlink(&mut self, folder: At, name: &OsStr) -> Sys<()> {
        let at = self.lower(folder, name)?;
        self.writable(folder)?;
        if self.mounted_on.contains_key(&at) {
            return Err(Errno::BUSY);
        }
        self.children_mut(folder.node)?.remove(name);
        let mut gone = vec![at.node];
        while let Some(id) = gone.pop() {
            if let Some(Inode { content: InodeContent::Folder(children), .. }) = self.nodes.remove(&id) {
                gone.extend(children.into_values());
            }
        }
        Ok(())
    }

    /// Removes an empty folder.
    pub(super) fn rmdir(&mut self, folder: At, name: &OsStr) -> Sys<()> {
        let at = self.lower(folder, name)?;
        if self.mounted_on.contains_key(&at) {
            return Err(Errno::BUSY);
        }
        if !self.children(at.node)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.unlink(folder, name)
    }
}

/// The servers that the machine can reach.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// The addresses of a name.
    pub(super) names: BTreeMap<String, Vec<IpAddr>>,
    /// The roots of what a server exports, by its address.
    pub(super) exports: BTreeMap<IpAddr, BTreeMap<String, NodeId>>,
}
