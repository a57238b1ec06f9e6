//! `block-devices`: devices of the node, within the operator's grant. What was opened is checked,
//! not what was written.

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::block_devices::Host;
use crate::bindings::volhost::plugin::types;
use crate::handles::BlockDevice;
use crate::text::tame;

/// How much of a path a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

impl Host for State {
    fn open(&mut self, path: String) -> Result<Resource<BlockDevice>, HostError> {
        let shown = tame(&path, SHOWN_BYTES);
        if self.reach.block_devices.is_empty() {
            let text = format!(
                "{shown}: no block device is granted to this plugin; see `block-devices` under [grants] in the configuration"
            );
            return Err(HostError::Plugin(types::Error::PermissionDenied(text)));
        }
        self.step(format!("block-devices.open {shown}"), |state| {
            let node = state.kernel.open_host_path(Path::new(&path), &state.reach.block_devices)?;
            let device = state.kernel.block_device_of(&node)?;
            Ok(state.push(BlockDevice(Arc::new(device)))?)
        })
    }
}
