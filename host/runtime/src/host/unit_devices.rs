//! Devices of SCSI units, which the host has found in sysfs.

use std::path::PathBuf;
use std::sync::Arc;

use volhost_model::scsi::UnitDevice;
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::types;
use crate::handles::BlockDevice;

/// Where the kernel makes device nodes.
const DEVICES: &str = "/dev";

impl State {
    /// Opens a device of the kernel's.
    pub(super) fn unit_device(&mut self, found: &UnitDevice) -> Result<Resource<BlockDevice>, HostError> {
        let node = self.kernel.open_host_path(&found.path, &[PathBuf::from(DEVICES)])?;
        let device = self.kernel.block_device_of(&node)?;
        let number = device.number();
        if (number.major, number.minor) != found.number {
            let (major, minor) = found.number;
            let text = format!("{} is not the device {major}:{minor} yet", found.path.display());
            return Err(HostError::Plugin(types::Error::Retryable(text)));
        }
        Ok(self.push(BlockDevice(Arc::new(device)))?)
    }
}
