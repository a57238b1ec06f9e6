//! What plugins say of volumes, remembered: a pod is resolved again at every change of its objects, and a plugin that runs for ever
//! when it is asked must not hold up others' pods more than once a volume.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use volhost_model::VolumeSpec;
use volhost_runtime::{Identified, Plugin};

use super::registry::PluginRegistry;

/// How long a plugin's code may look at a volume. An honest one takes microseconds; the engine waits for it.
const TIME: Duration = Duration::from_millis(100);
/// How many answers are kept: some megabytes. When there are more, all are forgotten.
const KEPT: usize = 4096;

/// Answers by plugin digest and volume.
#[derive(Debug, Default)]
pub(super) struct IdentifiedVolumes(Mutex<HashMap<(String, String), Result<Identified, String>>>);

impl PluginRegistry {
    /// Forgets what plugins said of volumes: a driver has changed, and what it can do may have been part of it.
    pub fn forget_identified(&self) {
        self.identified.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What the plugin says of the volume.
    ///
    /// # Errors
    /// What the user reads: the field that is wrong, or how the plugin failed.
    pub(super) fn identified(&self, plugin: &Plugin, spec: &Arc<VolumeSpec>) -> Result<Identified, String> {
        // What the objects say that a plugin may ask here may change its answer.
        let revision = self.revision();
        let key =
            serde_json::to_string(spec.as_ref()).map(|text| (format!("{} {revision}", plugin.info().digest), text));
        let known = self.identified.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = key.as_ref().ok().and_then(|key| known.get(key)) {
            return answer.clone();
        }
        drop(known);
        let call = self.quiet(TIME);
        let (answer, lasting) = match plugin.identify(&call, spec) {
            Ok(said) => (Ok(said), true),
            // An honest refusal may have a cause that passes.
            Err(error) => (Err(error.message()), error.is_misbehaviour()),
        };
        if let Some(key) = key.ok().filter(|_| lasting) {
            let mut known = self.identified.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= KEPT {
                known.clear();
            }
            known.insert(key, answer.clone());
        }
        answer
    }
}
