//! `devices`: block devices and attachments. A handle here is the right to use the device; the
//! grant was checked when it was made.

use std::sync::Arc;

use wasmtime::component::Resource;

use super::State;
use super::mounts::dropped;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::devices::{Host, HostAttachment, HostBlockDevice};
use crate::bindings::volhost::plugin::types;
use crate::handles::{AttachmentHandle, BlockDevice};

impl Host for State {}

impl State {
    /// The device behind a handle.
    pub(super) fn device(&self, device: &Resource<BlockDevice>) -> Result<Arc<volhost_kernel::BlockDevice>, HostError> {
        Ok(Arc::clone(&self.table.get(device)?.0))
    }
}

impl HostBlockDevice for State {
    fn path(&mut self, device: Resource<BlockDevice>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&device)?.0.path().to_string_lossy().into_owned())
    }

    fn size(&mut self, device: Resource<BlockDevice>) -> Result<u64, HostError> {
        self.step("block-device.size", |state| Ok(state.kernel.device_size(&*state.device(&device)?)?))
    }

    fn read_only(&mut self, device: Resource<BlockDevice>) -> Result<bool, HostError> {
        self.step("block-device.read-only", |state| Ok(state.kernel.device_read_only(&*state.device(&device)?)?))
    }

    fn in_use(&mut self, device: Resource<BlockDevice>) -> Result<bool, HostError> {
        self.step("block-device.in-use", |state| Ok(state.kernel.device_in_use(&*state.device(&device)?)?))
    }

    fn drop(&mut self, device: Resource<BlockDevice>) -> wasmtime::Result<()> {
        dropped(self, device)
    }
}

impl HostAttachment for State {
    fn attached_as(&mut self, attached: Resource<AttachmentHandle>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&attached)?.0.attached_as.clone())
    }

    fn metadata(&mut self, attached: Resource<AttachmentHandle>) -> wasmtime::Result<Vec<(String, String)>> {
        self.count()?;
        let metadata = &self.table.get(&attached)?.0.metadata;
        Ok(metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn device_path(&mut self, attached: Resource<AttachmentHandle>) -> wasmtime::Result<Option<String>> {
        self.count()?;
        let device = self.table.get(&attached)?.0.device.as_ref();
        Ok(device.map(|device| device.path().to_string_lossy().into_owned()))
    }

    fn open(&mut self, attached: Resource<AttachmentHandle>) -> Result<Resource<BlockDevice>, HostError> {
        self.step("attachment.open", |state| {
            let Some(device) = state.table.get(&attached)?.0.device.clone() else {
                let text = "the volume's device has not been found yet".to_owned();
                return Err(HostError::Plugin(types::Error::Precondition(text)));
            };
            // Asked for its size, a device that has gone says so.
            state.kernel.device_size(&device)?;
            Ok(state.push(BlockDevice(device))?)
        })
    }

    fn drop(&mut self, attached: Resource<AttachmentHandle>) -> wasmtime::Result<()> {
        dropped(self, attached)
    }
}
