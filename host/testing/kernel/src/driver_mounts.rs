//! Programs that mount by themselves.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use volhost_kernel::implement::{check_name, label, text};
use volhost_kernel::{
    BlockDevice, Detach, Directory, DriverMounts, Errno, Kernel, KernelError, MountInfo, MountSnapshot, Result,
    SourceKind, Step,
};

use super::state::InodeContent;
use super::{InMemoryKernel, lock};

impl DriverMounts for InMemoryKernel {
    fn absolute_path(&self, directory: &Directory) -> Result<PathBuf> {
        let at = self.folder(directory)?;
        let mut state = lock(&self.state);
        state.step(Step::OpenFolder, directory.label())?;
        state.path_of(at).ok_or_else(|| KernelError::failed(Step::OpenFolder, text(directory.label()), Errno::NOENT))
    }

    fn mounts_now(&self) -> Result<MountSnapshot> {
        lock(&self.state).step(Step::ListMounts, Path::new("/"))?;
        Ok(MountSnapshot::of(self.mounts().into_iter().map(|mount| mount.id)))
    }

    fn mounts_besides(&self, known: &MountSnapshot) -> Result<Vec<MountInfo>> {
        lock(&self.state).step(Step::ListMounts, Path::new("/"))?;
        let mut found = self.mounts();
        found.retain(|mount| !known.contains(mount.id));
        for mount in &mut found {
            mount.point = Path::new("/").join(&mount.point);
        }
        found.sort_by_key(|mount| mount.id);
        Ok(found)
    }

    fn device_at(&self, directory: &Directory, name: &OsStr) -> Result<Option<BlockDevice>> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::OpenDevice, &shown)?;
        let failed = |errno| KernelError::walking(Step::OpenDevice, text(&shown), errno);
        let at = match state.entry(folder, name) {
            Ok(at) => at,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        if matches!(state.node(at.node).map_err(failed)?.content, InodeContent::Symlink(_)) {
            return Err(KernelError::SymbolicLink { path: text(&shown) });
        }
        self.device(&state, at, &shown).map(Some)
    }

    fn clear_place(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        self.detach(directory, name, Detach::Normal).or_else(|error| {
            let folder = self.folder(directory)?;
            let shown = label(directory.label(), name);
            let mut state = lock(&self.state);
            let is_device = state.entry(folder, name).is_ok_and(|at| {
                at.mount == folder.mount
                    && state
                        .node(at.node)
                        .is_ok_and(|node| matches!(node.content, InodeContent::Other(SourceKind::BlockDevice)))
            });
            if !is_device {
                return Err(error);
            }
            state.step(Step::RemoveFile, &shown)?;
            state.unlink(folder, name).map_err(|errno| KernelError::failed(Step::RemoveFile, text(&shown), errno))
        })
    }
}
