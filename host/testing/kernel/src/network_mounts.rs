//! Servers on the network, and what they export. Every mount of a share shows the same files.

use std::collections::BTreeMap;
use std::net::IpAddr;

use volhost_kernel::implement::{check_server, check_share};
use volhost_kernel::{
    DetachedMount, Directory, Errno, FsOption, KernelError, NetworkError, NetworkMounts, Result, SecretOption, Share,
    Step,
};

use super::state::{At, FileSystem, Inode, InodeContent};
use super::{InMemoryKernel, lock};

/// The port of NFS.
const PORT: u16 = 2049;

impl InMemoryKernel {
    /// Lets a name lead to these addresses.
    pub fn add_server_name(&self, name: &str, addresses: &[IpAddr]) {
        lock(&self.state).network.names.insert(name.to_owned(), addresses.to_vec());
    }

    /// Lets the server at an address export an empty folder under this path.
    pub fn add_share(&self, address: IpAddr, path: &str) {
        let mut state = lock(&self.state);
        let id = state.fresh();
        let made = FileSystem { fs_type: "nfs".to_owned(), options: Vec::new(), max_bytes: None, max_inodes: None };
        state.file_systems.insert(id, made);
        let content = InodeContent::Folder(BTreeMap::new());
        let root = Inode { content, mode: 0o755, owner: 0, group: 0, file_system: id, parent: None };
        state.nodes.insert(id, root);
        state.network.exports.entry(address).or_default().insert(path.to_owned(), id);
    }
}

impl NetworkMounts for InMemoryKernel {
    fn server_addresses(&self, server: &str) -> Result<Vec<IpAddr>> {
        check_server(server)?;
        if let Ok(address) = server.parse() {
            return Ok(vec![address]);
        }
        lock(&self.state).network.names.get(server).cloned().ok_or_else(|| {
            let why = "Name or service not known".to_owned();
            KernelError::Network(NetworkError::Unresolved { server: server.to_owned(), why })
        })
    }

    fn mount_share(
        &self,
        share: &Share<'_>,
        addresses: &[IpAddr],
        options: &[FsOption],
        secrets: &[SecretOption],
    ) -> Result<DetachedMount> {
        check_share(share, options, secrets)?;
        let mut state = lock(&self.state);
        let named = share.to_string();
        state.step(Step::MountShare, named.as_ref())?;
        let Some(address) = addresses.iter().find(|address| state.network.exports.contains_key(address)) else {
            let Some(&address) = addresses.last() else {
                let (server, why) = (share.server.to_owned(), "it has no address that may be used".to_owned());
                return Err(KernelError::Network(NetworkError::Unresolved { server, why }));
            };
            let errno = Errno::CONNREFUSED;
            return Err(KernelError::Network(NetworkError::Unreachable { share: named, address, port: PORT, errno }));
        };
        let root = state.network.exports.get(address).and_then(|exports| exports.get(share.path)).copied();
        let root = root.ok_or_else(|| {
            let (why, errno, said) = ("the server exports no such folder", Errno::NOENT, String::new());
            KernelError::Network(NetworkError::Refused { share: named.clone(), address: *address, why, errno, said })
        })?;
        let mount = state.add_mount(root, 0);
        self.detached(&mut state, mount, named.into())
    }

    fn share_root(&self, mount: &DetachedMount) -> Result<Directory> {
        let key = self.mount_of(mount)?;
        let state = lock(&self.state);
        let node = state.mounts.get(&key).map_or(0, |mount| mount.root);
        let file_system = state.nodes.get(&node).and_then(|root| state.file_systems.get(&root.file_system));
        if file_system.is_none_or(|found| found.fs_type != "nfs") {
            let path = mount.label().display().to_string();
            return Err(KernelError::WrongType { path, expected: "a mount of a share of nfs", found: "another mount" });
        }
        drop(state);
        self.directory(At { mount: key, node }, mount.label().to_owned())
    }
}
