//! What controllers report about attached volumes.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use volhost_model::names::UniqueVolumeName;

/// What the storage reports about each attached volume besides its name, for worker threads.
#[derive(Debug, Default)]
pub(super) struct AttachmentMetadata(RwLock<BTreeMap<UniqueVolumeName, BTreeMap<String, String>>>);

impl AttachmentMetadata {
    /// Returns the metadata of the volume; empty without a report.
    pub(super) fn of(&self, volume: &UniqueVolumeName) -> BTreeMap<String, String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(volume).cloned().unwrap_or_default()
    }

    /// Replaces everything that was known.
    pub(super) fn set(&self, all: BTreeMap<UniqueVolumeName, BTreeMap<String, String>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}
