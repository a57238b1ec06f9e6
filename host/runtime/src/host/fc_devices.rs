//! `fc-devices`: units of Fibre Channel targets whose names are granted. Each name is checked before
//! it becomes a part of a path.

use volhost_model::fc::{FcError, FcUnit};
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::fc_devices::Host;
use crate::bindings::volhost::plugin::types;
use crate::handles::BlockDevice;
use crate::text::tame;

/// How much of a name a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

impl From<FcError> for HostError {
    fn from(error: FcError) -> Self {
        Self::Plugin(match error {
            FcError::NotFound(text) => types::Error::NotFound(text),
            FcError::NotReady(text) => types::Error::Precondition(text),
            FcError::Busy(text) => types::Error::Busy(text),
            FcError::Retryable(text) => types::Error::Retryable(text),
        })
    }
}

impl State {
    /// The unit, if its names and number can be and every name is granted.
    fn granted_unit(&self, names: &[String], lun: Option<u32>) -> Result<FcUnit, HostError> {
        let unit = FcUnit::new(names, lun).map_err(|error| {
            let shown: Vec<String> = names.iter().map(|name| tame(name, SHOWN_BYTES).to_string()).collect();
            HostError::Plugin(types::Error::InvalidArgument(format!("{}: {error}", shown.join(", "))))
        })?;
        match unit.names().iter().find(|name| !self.reach.fc_targets.iter().any(|granted| granted.includes(name))) {
            None => Ok(unit),
            Some(name) => Err(HostError::Plugin(types::Error::PermissionDenied(format!(
                "{name} is not granted to this plugin; see `fc-targets` under [grants] in the configuration"
            )))),
        }
    }
}

impl Host for State {
    fn connect(&mut self, names: Vec<String>, lun: Option<u32>) -> Result<Resource<BlockDevice>, HostError> {
        let unit = self.granted_unit(&names, lun)?;
        self.change(format!("fc-devices.connect {unit}"), |state: &mut Self| -> Result<_, HostError> {
            let found = state.call.environment().fc().connect(&unit)?;
            state.unit_device(&found)
        })
    }

    fn rescan(&mut self, names: Vec<String>, lun: Option<u32>) -> Result<Resource<BlockDevice>, HostError> {
        let unit = self.granted_unit(&names, lun)?;
        self.change(format!("fc-devices.rescan {unit}"), |state: &mut Self| -> Result<_, HostError> {
            let found = state.call.environment().fc().rescan(&unit)?;
            state.unit_device(&found)
        })
    }

    fn disconnect(&mut self, names: Vec<String>, lun: Option<u32>) -> Result<(), HostError> {
        let unit = self.granted_unit(&names, lun)?;
        self.change(format!("fc-devices.disconnect {unit}"), |state: &mut Self| -> Result<_, HostError> {
            Ok(state.call.environment().fc().disconnect(&unit)?)
        })
    }
}
