//! How much each volume has used of the per-volume limits, over all calls that mount it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volhost_model::names::UniqueVolumeName;
use volhost_runtime::VolumeAccount;

/// The accounts of the volumes that are mounted or being mounted. An account is opened by the first
/// operation on its volume and closed when the volume is unmounted from a pod. They are not kept
/// over a restart.
#[derive(Debug, Default)]
pub(super) struct VolumeAccounts(Mutex<HashMap<UniqueVolumeName, Arc<VolumeAccount>>>);

impl VolumeAccounts {
    /// Returns the volume's account.
    pub(super) fn of(&self, volume: &UniqueVolumeName) -> Arc<VolumeAccount> {
        Arc::clone(self.lock().entry(volume.clone()).or_default())
    }

    /// Forgets the volume's account. Running calls keep theirs.
    pub(super) fn close(&self, volume: &UniqueVolumeName) {
        self.lock().remove(volume);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UniqueVolumeName, Arc<VolumeAccount>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
