//! The sizes to which volumes were grown on this node. A volume is grown only when its
//! PersistentVolume's capacity has been raised since. In a cluster `status.capacity` of the claim
//! says this.
//!
//! A volume that the node has never mounted has the size that `status.capacity` of its claim says:
//! it was raised on another node. Where the claim has no status, it has the capacity of its
//! PersistentVolume. The known size stays when the volume leaves the node, and over restarts of the
//! machine, so that a volume that was raised meanwhile grows when it is mounted next.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::warn;
use volhost_kernel::{Directory, Durability, Kernel, KernelError, is_temporary};
use volhost_model::names::UniqueVolumeName;
use volhost_model::text::lower_hex;

use super::layout;

/// The largest record, in bytes: two names and a refusal in words.
const MAX_BYTES: usize = 64 << 10;
/// The most volumes that are remembered. Beyond, those go that were noted longest ago: at worst one
/// of them is asked to grow late.
const MOST: usize = 16_384;
/// The longest reason of a refusal that is kept, in characters.
const REASON_CHARS: usize = 2_048;
/// Bumped when a field changes its meaning; another version's record counts as missing.
const VERSION: u32 = 1;

/// The size of one volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownSize {
    version: u32,
    volume: UniqueVolumeName,
    /// The PersistentVolume's name.
    persistent_volume: String,
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// The larger size that it cannot have, and why.
    pub(super) refused: Option<RefusedSize>,
    /// When it was noted, in seconds since 1970.
    noted: u64,
}

/// A size that a volume can never have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RefusedSize {
    /// The size in bytes.
    pub(super) bytes: u64,
    /// The plugin's words.
    pub(super) why: String,
}

/// The sizes of all volumes that can grow.
#[derive(Debug)]
pub(super) struct VolumeSizes {
    kernel: Arc<dyn Kernel>,
    root: Directory,
    known: Mutex<BTreeMap<UniqueVolumeName, KnownSize>>,
}

impl VolumeSizes {
    /// Reads the sizes that were noted below the root folder. What cannot be read counts as
    /// missing, and is logged.
    pub(super) fn restore(kernel: Arc<dyn Kernel>, root: Directory) -> Self {
        let mut known = BTreeMap::new();
        match Self::read_all(&*kernel, &root) {
            Ok(found) => known.extend(found.into_iter().map(|size| (size.volume.clone(), size))),
            Err(error) => {
                warn!(%error, "the sizes of volumes cannot be read; raised volumes grow when they are raised again")
            }
        }
        Self { kernel, root, known: Mutex::new(known) }
    }

    fn read_all(kernel: &dyn Kernel, root: &Directory) -> Result<Vec<KnownSize>, KernelError> {
        let folder = match kernel.walk(root, Path::new(layout::SIZES)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == volhost_kernel::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for name in kernel.names(&folder)?.iter().filter(|name| !is_temporary(name)).take(MOST) {
            let size = kernel.read_file(&folder, name, MAX_BYTES).ok().flatten();
            let size = size.and_then(|bytes| serde_json::from_slice::<KnownSize>(&bytes).ok());
            match size.filter(|size| size.version == VERSION && file_name(&size.volume) == *name) {
                Some(size) => found.push(size),
                None => {
                    warn!(file = %name.display(), "the record of a volume's size cannot be used and counts as missing")
                }
            }
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<UniqueVolumeName, KnownSize>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the volume.
    pub(super) fn of(&self, volume: &UniqueVolumeName) -> Option<KnownSize> {
        self.lock().get(volume).cloned()
    }

    /// The sizes by the names of the PersistentVolumes, for users.
    pub(super) fn by_persistent_volume(&self) -> BTreeMap<String, u64> {
        self.lock().values().map(|size| (size.persistent_volume.clone(), size.bytes)).collect()
    }

    /// Notes the volume's size, in place of what was known of it. Blocks on the disk.
    pub(super) fn note(
        &self,
        volume: &UniqueVolumeName,
        persistent_volume: &str,
        bytes: u64,
        refused: Option<RefusedSize>,
    ) {
        let noted = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let size = KnownSize {
            version: VERSION,
            volume: volume.clone(),
            persistent_volume: persistent_volume.to_owned(),
            bytes,
            refused: refused
                .map(|refused| RefusedSize { why: refused.why.chars().take(REASON_CHARS).collect(), ..refused }),
            noted,
        };
        let written = self.write(&size);
        let forgotten = {
            let mut known = self.lock();
            known.insert(volume.clone(), size);
            let full = known.len() > MOST;
            let oldest = known.values().filter(|_| full).min_by_key(|size| size.noted).map(|size| size.volume.clone());
            oldest.inspect(|oldest| drop(known.remove(oldest)))
        };
        let removed = forgotten.map_or(Ok(()), |oldest| self.remove(&oldest));
        if let Err(error) = written.and(removed) {
            warn!(%volume, %error, "the volume's size could not be noted; after a restart it counts as large as asked for");
        }
    }

    /// Forgets the size of a volume that was deleted: another one may get its name. Blocks on the
    /// disk.
    pub(super) fn forget(&self, persistent_volume: &str) {
        let forgotten: Vec<UniqueVolumeName> = {
            let mut known = self.lock();
            let of_volume = known.values().filter(|size| size.persistent_volume == persistent_volume);
            let names: Vec<_> = of_volume.map(|size| size.volume.clone()).collect();
            names.into_iter().inspect(|name| drop(known.remove(name))).collect()
        };
        for volume in forgotten {
            if let Err(error) = self.remove(&volume) {
                warn!(%volume, %error, "the size of a deleted volume is still noted; a volume of its name counts as small until it is used");
            }
        }
    }

    fn write(&self, size: &KnownSize) -> Result<(), KernelError> {
        let Ok(bytes) = serde_json::to_vec(size) else { return Ok(()) };
        let folder = self.kernel.make_dirs(&self.root, Path::new(layout::SIZES), layout::FOLDER_MODE)?;
        self.kernel.write_atomic(&folder, &file_name(&size.volume), &bytes, 0o600, Durability::Machine)
    }

    fn remove(&self, volume: &UniqueVolumeName) -> Result<(), KernelError> {
        let folder = self.kernel.walk(&self.root, Path::new(layout::SIZES))?;
        self.kernel.remove_file(&folder, &file_name(volume))
    }
}

/// Returns the file's name: a volume's name can be longer than a file name, and contain slashes.
fn file_name(volume: &UniqueVolumeName) -> OsString {
    let digest = Sha256::digest(volume.as_str());
    OsString::from(format!("{}.json", lower_hex(digest.iter().take(16))))
}

#[cfg(test)]
mod tests {
    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    #[test]
    fn what_is_noted_is_known_after_a_restart_and_damage_counts_as_missing() {
        let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
        let root = || kernel.open_directory(Path::new("/")).unwrap();
        let (one, two) = (UniqueVolumeName::new("a/b/one").unwrap(), UniqueVolumeName::new("a/b/two").unwrap());
        let sizes = VolumeSizes::restore(kernel.clone(), root());
        assert_eq!(sizes.of(&one), None);
        sizes.note(&one, "pv-1", 32, None);
        sizes.note(&two, "pv-2", 64, Some(RefusedSize { bytes: 128, why: "too large".to_owned() }));
        let again = VolumeSizes::restore(kernel.clone(), root());
        assert_eq!(again.of(&one).unwrap().bytes, 32);
        assert_eq!(again.of(&two).unwrap().refused.unwrap().bytes, 128);
        assert_eq!(again.by_persistent_volume(), [("pv-1".to_owned(), 32), ("pv-2".to_owned(), 64)].into());
        again.forget("pv-2");
        again.forget("pv-3");
        assert_eq!((again.of(&two), VolumeSizes::restore(kernel.clone(), root()).of(&two)), (None, None));
        let folder = kernel.walk(&root(), Path::new(layout::SIZES)).unwrap();
        kernel.write_atomic(&folder, &file_name(&one), b"{", 0o600, Durability::Process).unwrap();
        assert_eq!(VolumeSizes::restore(kernel.clone(), root()).of(&one), None);
    }
}
