//! Opening block devices, and showing them to pods.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use volhost_kernel::implement::{check_absolute, check_name, label, text};
use volhost_kernel::{
    BlockDevice, BlockDevices, DeviceError, DeviceNumber, Directory, Errno, Kernel, KernelError, MountSource, Result,
    SourceKind, Step,
};

use super::devices::Backing;
use super::state::{At, InodeContent, MachineState, MountKey};
use super::{InMemoryKernel, lock};

impl InMemoryKernel {
    /// The place of a device's node; refuses a handle of another machine.
    pub(super) fn node(&self, device: &BlockDevice) -> Result<At> {
        self.handles.place(device, device.path())
    }

    /// A handle of the device at a place.
    pub(super) fn device(&self, state: &MachineState, at: At, shown: &Path) -> Result<BlockDevice> {
        let content = state.node(at.node).map(|node| &node.content);
        let content = content.map_err(|errno| KernelError::failed(Step::OpenDevice, text(shown), errno))?;
        let number = match (content, state.device_at(at)) {
            (InodeContent::Other(SourceKind::BlockDevice), Some(number)) => number,
            (content, _) => {
                let found = super::mounts::word(content);
                return Err(KernelError::WrongType { path: text(shown), expected: "a block device", found });
            }
        };
        let path = state.path_of(at).unwrap_or_else(|| shown.to_owned());
        Ok(BlockDevice::from_fd(self.handles.add_place(at, &path)?, path, number))
    }

    /// A handle of a loop device, by its number.
    pub(super) fn loop_device(&self, state: &MachineState, number: DeviceNumber) -> Result<BlockDevice> {
        let path = PathBuf::from(format!("/dev/loop{}", number.minor));
        let at = state.resolve(&path).map_err(|errno| KernelError::failed(Step::OpenDevice, text(&path), errno))?;
        self.device(state, at, &path)
    }

    /// Returns what is mapped at a name.
    fn mapping(
        &self,
        state: &mut MachineState,
        directory: &Directory,
        name: &OsStr,
    ) -> Result<Option<(MountKey, DeviceNumber)>> {
        check_name(name)?;
        let shown = label(directory.label(), name);
        state.step(Step::Inspect, &shown)?;
        state
            .mapped(self.folder(directory)?, name)
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&shown), errno))
    }
}

impl BlockDevices for InMemoryKernel {
    fn open_block_device(&self, path: &Path) -> Result<BlockDevice> {
        check_absolute(path)?;
        let mut state = lock(&self.state);
        state.step(Step::OpenDevice, path)?;
        let at = state.resolve(path).map_err(|errno| KernelError::walking(Step::OpenDevice, text(path), errno))?;
        self.device(&state, at, path)
    }

    fn block_device_of(&self, source: &MountSource) -> Result<BlockDevice> {
        let at = self.at(source)?;
        let mut state = lock(&self.state);
        state.step(Step::OpenDevice, source.label())?;
        self.device(&state, at, source.label())
    }

    fn device_size(&self, device: &BlockDevice) -> Result<u64> {
        self.node(device)?;
        let mut state = lock(&self.state);
        state.step(Step::InspectDevice, device.path())?;
        Ok(state.storage(device)?.map_or(0, |found| found.bytes))
    }

    fn device_read_only(&self, device: &BlockDevice) -> Result<bool> {
        self.node(device)?;
        let mut state = lock(&self.state);
        state.step(Step::InspectDevice, device.path())?;
        Ok(state.storage(device)?.is_some_and(|found| found.read_only))
    }

    fn device_in_use(&self, device: &BlockDevice) -> Result<bool> {
        self.node(device)?;
        let mut state = lock(&self.state);
        state.step(Step::CheckUse, device.path())?;
        state.storage(device)?;
        Ok(state.is_in_use(device.number()))
    }

    fn map_device(&self, device: &BlockDevice, directory: &Directory, name: &OsStr) -> Result<()> {
        match self.mapped_device(directory, name)? {
            Some(found) if found == device.number() => return Ok(()),
            Some(found) => {
                let path = text(&label(directory.label(), name));
                return Err(KernelError::Device(DeviceError::Other { path, found, wanted: device.number() }));
            }
            None => {}
        }
        if lock(&self.state).is_in_use(device.number()) {
            return Err(KernelError::Device(DeviceError::Mounted { path: text(device.path()) }));
        }
        let source = self.host_source(self.node(device)?, device.path(), SourceKind::BlockDevice)?;
        self.attach(self.bind(&source, false)?, directory, name)
    }

    fn mapped_device(&self, directory: &Directory, name: &OsStr) -> Result<Option<DeviceNumber>> {
        let mut state = lock(&self.state);
        Ok(self.mapping(&mut state, directory, name)?.map(|(_, number)| number))
    }

    fn link_device(&self, device: &BlockDevice, directory: &Directory, name: &OsStr) -> Result<()> {
        self.node(device)?;
        let linked = self.linked_device(directory, name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.check_device_path(device)?;
        if linked.as_deref() == Some(device.path()) {
            return Ok(());
        }
        state.step(Step::LinkDevice, &shown)?;
        let failed = |errno| KernelError::failed(Step::LinkDevice, text(&shown), errno);
        if linked.is_some() {
            state.unlink(folder, name).map_err(failed)?;
        }
        state.create(folder, name, InodeContent::Symlink(device.path().to_owned()), 0o777).map(drop).map_err(failed)
    }

    fn linked_device(&self, directory: &Directory, name: &OsStr) -> Result<Option<PathBuf>> {
        check_name(name)?;
        let folder = self.folder(directory)?;
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        state.step(Step::Inspect, &shown)?;
        let failed = |errno| KernelError::failed(Step::Inspect, text(&shown), errno);
        let at = match state.entry(folder, name) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(failed)?,
        };
        match &state.node(at.node).map_err(failed)?.content {
            InodeContent::Symlink(target) => Ok(Some(target.clone())),
            content => {
                let found = super::mounts::word(content);
                Err(KernelError::WrongType { path: text(&shown), expected: "a symbolic link", found })
            }
        }
    }

    fn pin_device(&self, directory: &Directory, name: &OsStr) -> Result<BlockDevice> {
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        let Some((mount, device)) = self.mapping(&mut state, directory, name)? else {
            return Err(KernelError::Device(DeviceError::NotMapped { path: text(&shown) }));
        };
        state.step(Step::FindLoop, &shown)?;
        if let Some(pin) = state.devices.pin_of(mount) {
            return self.loop_device(&state, pin);
        }
        if state.is_in_use(device) {
            return Err(KernelError::Device(DeviceError::Mounted { path: text(&shown) }));
        }
        state.step(Step::AttachLoop, &shown)?;
        let failed = |errno| KernelError::failed(Step::AttachLoop, text(&shown), errno);
        let bytes = state.devices.all.get(&device).ok_or_else(|| failed(Errno::NXIO))?.bytes;
        let hold = state.fresh();
        let pin = state.new_loop(Backing::Pinned { mount, device, hold }, bytes, true).map_err(failed)?;
        state.held.push((hold, mount));
        self.loop_device(&state, pin)
    }

    fn unpin_device(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        let shown = label(directory.label(), name);
        let mut state = lock(&self.state);
        let Some((mount, _)) = self.mapping(&mut state, directory, name)? else {
            return Ok(());
        };
        state.step(Step::FindLoop, &shown)?;
        let Some(pin) = state.devices.pin_of(mount) else {
            return Ok(());
        };
        state.step(Step::DetachLoop, &shown)?;
        if let Some(Backing::Pinned { hold, .. }) = state.devices.all.remove(&pin).map(|device| device.backing) {
            state.held.retain(|(token, _)| *token != hold);
        }
        Ok(())
    }
}
