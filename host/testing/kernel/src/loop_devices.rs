//! Files as block devices.

use std::path::{Path, PathBuf};

use volhost_kernel::implement::{check_absolute, text};
use volhost_kernel::{
    BlockDevice, DeviceError, DeviceNumber, Errno, KernelError, LoopDevices, MountSource, Result, SourceKind, Step,
};

use super::devices::Backing;
use super::state::{MachineState, NodeId};
use super::{InMemoryKernel, lock};

/// Mode of an image, as the real kernel's.
const IMAGE_MODE: u32 = 0o600;

impl InMemoryKernel {
    pub(super) fn file(&self, file: &MountSource) -> Result<NodeId> {
        let at = self.at(file)?;
        if file.kind() == SourceKind::File {
            return Ok(at.node);
        }
        let (expected, found) = (SourceKind::File.as_str(), file.kind().as_str());
        Err(KernelError::WrongType { path: text(file.label()), expected, found })
    }
}

impl MachineState {
    /// A device that was attached over a file at this path which is removed by now.
    fn loop_of_removed(&self, path: &Path) -> Option<DeviceNumber> {
        let is_removed = |backing| matches!(backing, Backing::File(node) if !self.nodes.contains_key(&node));
        let mut all = self.devices.all.iter();
        let found = all.find(|(_, device)| device.attached_at.as_deref() == Some(path) && is_removed(device.backing));
        found.map(|(number, _)| *number)
    }

    fn release_loop(&mut self, number: DeviceNumber, shown: &Path) -> Result<()> {
        self.step(Step::DetachLoop, shown)?;
        if self.is_in_use(number) || self.devices.is_pinned(number) || self.is_opened(number) {
            return Err(KernelError::failed(Step::DetachLoop, text(shown), Errno::BUSY));
        }
        self.devices.all.remove(&number);
        Ok(())
    }
}

impl LoopDevices for InMemoryKernel {
    fn create_image(&self, path: &Path, roots: &[PathBuf], bytes: u64) -> Result<MountSource> {
        check_absolute(path)?;
        let (at, fresh) = {
            let mut state = lock(&self.state);
            let fresh = state.resolve(path) == Err(Errno::NOENT);
            let at = state.create_granted_file(path, roots)?;
            if fresh && let Ok(node) = state.node_mut(at.node) {
                node.mode = IMAGE_MODE;
            }
            (at, fresh)
        };
        let image = self.host_source(at, path, SourceKind::File)?;
        match self.set_file_size(&image, bytes) {
            Ok(_) => Ok(image),
            Err(cause) if fresh => {
                let removed = self.remove(path);
                Err(cause.undone(removed.map_err(|errno| KernelError::failed(Step::RemoveFile, text(path), errno))))
            }
            Err(cause) => Err(cause),
        }
    }

    fn set_file_size(&self, file: &MountSource, bytes: u64) -> Result<u64> {
        let node = self.file(file)?;
        let mut state = lock(&self.state);
        state.step(Step::GrowFile, file.label())?;
        let failed = |errno| KernelError::failed(Step::GrowFile, text(file.label()), errno);
        // No file is larger than an offset can address.
        i64::try_from(bytes).map_err(|_| failed(Errno::INVAL))?;
        let size = state.file_size(node).map_err(failed)?.max(bytes);
        state.devices.sizes.insert(node, size);
        Ok(size)
    }

    fn attach_loop(&self, file: &MountSource, read_only: bool) -> Result<BlockDevice> {
        let node = self.file(file)?;
        let mut state = lock(&self.state);
        state.step(Step::FindLoop, file.label())?;
        let number = match state.devices.over(Backing::File(node)) {
            Some(number) => {
                let bytes = state.file_size(node);
                let bytes = bytes.map_err(|errno| KernelError::failed(Step::ResizeLoop, text(file.label()), errno))?;
                if let Some(found) = state.devices.all.get_mut(&number) {
                    found.bytes = bytes;
                }
                number
            }
            None => {
                state.step(Step::AttachLoop, file.label())?;
                let failed = |errno| KernelError::failed(Step::AttachLoop, text(file.label()), errno);
                let bytes = state.file_size(node).map_err(failed)?;
                let number = state.new_loop(Backing::File(node), bytes, read_only).map_err(failed)?;
                if let Some(device) = state.devices.all.get_mut(&number) {
                    device.attached_at = Some(file.label().to_owned());
                }
                number
            }
        };
        let device = self.loop_device(&state, number)?;
        let refuses = state.devices.all.get(&number).is_some_and(|device| device.read_only);
        if refuses && !read_only {
            return Err(KernelError::Device(DeviceError::ReadOnly { path: text(device.path()) }));
        }
        Ok(device)
    }

    fn find_loop(&self, file: &MountSource) -> Result<Option<BlockDevice>> {
        let node = self.file(file)?;
        let mut state = lock(&self.state);
        state.step(Step::FindLoop, file.label())?;
        state.devices.over(Backing::File(node)).map(|number| self.loop_device(&state, number)).transpose()
    }

    fn detach_loop(&self, file: &MountSource) -> Result<()> {
        let node = self.file(file)?;
        let mut state = lock(&self.state);
        state.step(Step::FindLoop, file.label())?;
        let Some(number) = state.devices.over(Backing::File(node)) else {
            return Ok(());
        };
        state.release_loop(number, file.label())
    }

    fn detach_removed_loops(&self, path: &Path, roots: &[PathBuf]) -> Result<()> {
        check_absolute(path)?;
        let mut state = lock(&self.state);
        if let Some(parent) = path.parent() {
            state.open_granted(parent, roots)?;
        }
        state.step(Step::FindLoop, path)?;
        while let Some(number) = state.loop_of_removed(path) {
            state.release_loop(number, path)?;
        }
        Ok(())
    }

    fn refresh_loop_size(&self, device: &BlockDevice) -> Result<()> {
        self.node(device)?;
        let mut state = lock(&self.state);
        state.step(Step::ResizeLoop, device.path())?;
        let gone = || KernelError::Device(DeviceError::Gone { path: text(device.path()), wanted: device.number() });
        let failed = |errno| KernelError::failed(Step::ResizeLoop, text(device.path()), errno);
        let bytes = match state.devices.all.get(&device.number()).ok_or_else(gone)?.backing {
            Backing::File(node) => state.file_size(node).map_err(failed)?,
            Backing::Pinned { device: number, .. } => state.devices.all.get(&number).ok_or_else(gone)?.bytes,
            Backing::Own(_) => return Err(failed(Errno::NOTTY)),
        };
        if let Some(found) = state.devices.all.get_mut(&device.number()) {
            found.bytes = bytes;
        }
        Ok(())
    }
}
