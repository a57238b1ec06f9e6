//! The note of a pod's volume, for its unpublish.

use serde_json::{Value, json};
use volhost_plugin_sdk::driver_mounts;
use volhost_plugin_sdk::prelude::*;

/// The note of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) driver: String,
    pub(crate) id: String,
}

impl Note {
    /// The target's note; none when there is none, or it cannot be read.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn of(target: &MountTarget) -> Result<Option<Self>> {
        let Some(text) = driver_mounts::note(target)? else { return Ok(None) };
        let read: Value = serde_json::from_str(&text).unwrap_or_default();
        let field = |name: &str| read.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(driver), Some(id)) = (field("driver"), field("id")) else { return Ok(None) };
        Ok(Some(Self { driver, id }))
    }

    /// Stores it.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn keep(&self, target: &MountTarget) -> Result<()> {
        let text = json!({ "driver": self.driver, "id": self.id });
        driver_mounts::keep_note(target, &text.to_string())
    }
}
