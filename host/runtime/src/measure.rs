//! The call that asks a plugin how full a volume is.

use std::sync::Arc;

use wasmtime::component::Resource;

use crate::call::Call;
use crate::call_error::{CallError, Function, PluginError};
use crate::handles::{Measurement, MountTarget};
use crate::measured::Measured;
use crate::plugin::{Plugin, put};
use crate::target::Target;

impl Plugin {
    /// Returns what the plugin knows of how full a volume is. `target` is the pod's mount of it,
    /// none for a device.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Lacks`] when the plugin does not export `stats`.
    pub fn measure(&self, call: &Call, volume_name: &str, target: Option<Target>) -> Result<Measured, CallError> {
        const FUNCTION: Function = Function::Measure;
        let indices = self.exports.stats.as_ref().ok_or(CallError::Lacks { function: FUNCTION, interface: "stats" })?;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = sandbox.load(|store, instance| indices.load(store, instance))?;
        let place = match target {
            Some(target) => {
                let place = put(&mut sandbox, FUNCTION, MountTarget(Arc::new(target)))?;
                Some(Resource::new_borrow(place.rep()))
            }
            None => None,
        };
        let form = put(&mut sandbox, FUNCTION, Measurement::default())?;
        let (answer, mut state) =
            sandbox.call(|store| guest.call_measure(store, volume_name, place, Resource::new_borrow(form.rep())))?;
        answer.map_err(PluginError::from)?;
        Ok(state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default())
    }
}
