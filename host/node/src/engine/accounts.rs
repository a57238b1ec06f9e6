//! What each volume has taken of what is bounded per volume, over all calls that set it up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volhost_model::names::UniqueVolumeName;
use volhost_runtime::VolumeAccount;

/// The accounts of the volumes that are mounted or being mounted. An account is opened by the first
/// operation on its volume and closed when the volume is unmounted from a pod. They are not kept
/// over a restart.
#[derive(Debug, Default)]
pub(super) struct Accounts(Mutex<HashMap<UniqueVolumeName, Arc<VolumeAccount>>>);

impl Accounts {
    /// The volume's account.
    pub(super) fn of(&self, volume: &UniqueVolumeName) -> Arc<VolumeAccount> {
        Arc::clone(self.lock().entry(volume.clone()).or_default())
    }

    /// Forgets the volume's account. Calls that run keep theirs.
    pub(super) fn close(&self, volume: &UniqueVolumeName) {
        self.lock().remove(volume);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UniqueVolumeName, Arc<VolumeAccount>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
