//! What controllers report about attached volumes.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use volhost_model::names::UniqueVolumeName;

/// What the storage said of each attached volume beside its name, for the threads that carry out operations.
#[derive(Debug, Default)]
pub struct AttachmentMetadata(RwLock<BTreeMap<UniqueVolumeName, BTreeMap<String, String>>>);

impl AttachmentMetadata {
    /// What was said of the volume; empty when nothing was.
    pub fn of(&self, volume: &UniqueVolumeName) -> BTreeMap<String, String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(volume).cloned().unwrap_or_default()
    }

    /// Replaces everything that was known.
    pub fn set(&self, all: BTreeMap<UniqueVolumeName, BTreeMap<String, String>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}
