//! FUSE: an empty file system that needs no server.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use volhost_kernel::implement::text;
use volhost_kernel::{
    Errno, FuseConnection, FuseMount, FuseMounts, FuseOptions, KernelError, MountSource, Result, Step,
};

use super::state::{FileSystem, Inode, InodeContent};
use super::{InMemoryKernel, lock};

const NOBODYS: &str = "/dev/null";

/// A descriptor in place of the one that Linux would give: no server reads this kernel's.
fn nobodys_end() -> Result<OwnedFd> {
    std::fs::File::options().read(true).write(true).open(NOBODYS).map(OwnedFd::from).map_err(|error| {
        let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        KernelError::failed(Step::OpenFuse, NOBODYS, errno)
    })
}

impl FuseMounts for InMemoryKernel {
    fn fuse(&self, options: &FuseOptions) -> Result<FuseMount> {
        let device = nobodys_end()?;
        let fs_type = format!("fuse.{}", options.subtype);
        let mut state = lock(&self.state);
        state.step(Step::CreateFileSystem, fs_type.as_ref())?;
        let id = state.fresh();
        state.file_systems.insert(id, FileSystem { fs_type, options: Vec::new(), max_bytes: None, max_inodes: None });
        let content = InodeContent::Folder(BTreeMap::new());
        let (owner, group) = (options.user, options.group);
        state.nodes.insert(id, Inode { content, mode: 0o755, owner, group, file_system: id, parent: None });
        let mount = state.add_mount(id, if options.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 });
        let mount = self.detached(&mut state, mount, options.source.clone().into())?;
        Ok(FuseMount { device, mount, connection: FuseConnection(u32::try_from(id).unwrap_or(u32::MAX)) })
    }

    fn ask_server(&self, source: &MountSource) -> Result<()> {
        lock(&self.state).step(Step::AskServer, text(source.label()).as_ref())
    }

    fn is_mounted_anywhere(&self, connection: FuseConnection) -> Result<bool> {
        let state = lock(&self.state);
        let of_it = |root| state.nodes.get(root).is_some_and(|node| node.file_system == u64::from(connection.0));
        Ok(state.mounts.values().any(|mount| of_it(&mount.root)))
    }

    fn end_connection(&self, connection: FuseConnection) -> Result<bool> {
        self.is_mounted_anywhere(connection)
    }

    fn descriptor(&self, _: &MountSource) -> Result<OwnedFd> {
        nobodys_end()
    }
}
