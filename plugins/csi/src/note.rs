//! The note of a volume, for its unpublish: `vol_data.json`, with the keys that the kubelet writes
//! there. The host keeps it beside the volume's mount.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use volhost_plugin_sdk::driver_mounts;
use volhost_plugin_sdk::prelude::*;

use crate::source::Source;

const DRIVER: &str = "driverName";
const HANDLE: &str = "volumeHandle";
/// The keys of volhost before it wrote `vol_data.json`. Its volumes have them until they are
/// unpublished.
const EARLIER_DRIVER: &str = "driver";
const EARLIER_HANDLE: &str = "id";

/// The note of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) driver: String,
    pub(crate) id: String,
    /// The other keys, which this plugin does not read.
    more: Map<String, Value>,
}

impl Note {
    /// Creates the note of a volume that is published for a pod.
    pub(crate) fn of_pod(source: &Source, id: &str, volume: &Volume) -> Self {
        let node = volhost_plugin_sdk::node::name();
        let mode = if source.handle.is_some() { "Persistent" } else { "Ephemeral" };
        let mut note = Self::of_node(source, id, volume);
        let attachment = Sha256::new().chain_update(id).chain_update(&source.driver).chain_update(&node).finalize();
        let hex: String = attachment.iter().map(|byte| format!("{byte:02x}")).collect();
        note.more.insert("specVolID".to_owned(), volume.spec_name().into());
        note.more.insert("nodeName".to_owned(), node.into());
        note.more.insert("attachmentID".to_owned(), format!("csi-{hex}").into());
        note.more.insert("volumeLifecycleMode".to_owned(), mode.into());
        note
    }

    /// Creates the note of a volume that is staged.
    pub(crate) fn of_node(source: &Source, id: &str, volume: &Volume) -> Self {
        let label = volume.selinux_label().map(|label| ("seLinuxMountContext".to_owned(), Value::from(label)));
        Self { driver: source.driver.clone(), id: id.to_owned(), more: label.into_iter().collect() }
    }

    /// The target's note; none when there is none, or it cannot be read.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn of(target: &MountTarget) -> Result<Option<Self>> {
        let Some(text) = driver_mounts::note(target)? else { return Ok(None) };
        let mut read: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        let mut field = |names: [&str; 2]| {
            let value = names.into_iter().find_map(|name| read.remove(name))?;
            value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (Some(driver), Some(id)) = (field([DRIVER, EARLIER_DRIVER]), field([HANDLE, EARLIER_HANDLE])) else {
            return Ok(None);
        };
        Ok(Some(Self { driver, id, more: read }))
    }

    /// Stores it.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn keep(&self, target: &MountTarget) -> Result<()> {
        let mut all = self.more.clone();
        all.insert(DRIVER.to_owned(), self.driver.clone().into());
        all.insert(HANDLE.to_owned(), self.id.clone().into());
        driver_mounts::keep_note(target, &Value::Object(all).to_string())
    }
}
