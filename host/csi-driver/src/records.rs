//! The records of volumes on disk: one file a volume, named for the digest of its handle.
//!
//! A file is replaced as a whole. A file that cannot be read is logged and counts as missing: the
//! kernel knows which mounts exist.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::warn;
use volhost_kernel::{Directory, Durability, Kernel, KernelError};
use volhost_model::VolumeSpec;

use crate::refusal::{Refusal, Result};
use crate::source::{RequestedVolume, ServedSource, name_of};
use crate::usage::RequestedUsage;

/// Only the driver reads them: a context may contain what others must not know.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// The largest record, in bytes: a volume that is published two thousand times.
const RECORD_BYTES: usize = 4 << 20;
/// How the files end.
const SUFFIX: &str = ".json";

/// A volume on this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServedVolume {
    pub(crate) volume_id: String,
    /// As it was staged, or published if it is not staged.
    pub(crate) spec: VolumeSpec,
    /// The plugin's name for it, if it has one.
    pub(crate) name: Option<String>,
    /// It has to be attached.
    pub(crate) attachable: bool,
    /// It is staged before it is published.
    pub(crate) stageable: bool,
    /// What it is attached as, since it was attached.
    pub(crate) attached_as: Option<String>,
    /// The controller has attached it, and detaches it.
    #[serde(default)]
    pub(crate) by_controller: bool,
    /// How it is staged, or its staging was begun.
    pub(crate) staged: Option<StagedUse>,
    /// By target path.
    pub(crate) published: BTreeMap<String, PublishedUse>,
}

impl ServedVolume {
    /// Creates the record of a volume of which only the handle is known.
    ///
    /// # Errors
    /// [`Refusal::Field`].
    pub(crate) fn unknown(id: &str, source: &ServedSource) -> Result<Self> {
        let (context, usage) = (HashMap::new(), RequestedUsage::plain());
        Ok(Self {
            volume_id: id.to_owned(),
            spec: source.spec(&RequestedVolume {
                volume_id: id,
                context: &context,
                usage: &usage,
                read_only: false,
            })?,
            name: None,
            attachable: false,
            stageable: false,
            attached_as: None,
            by_controller: false,
            staged: None,
            published: BTreeMap::new(),
        })
    }
}

/// How a volume is staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StagedUse {
    /// Where; empty for a folder of the driver's own, where a volume is staged that a pod describes
    /// itself.
    pub(crate) path: String,
    pub(crate) usage: RequestedUsage,
    /// It was done; else it was begun.
    pub(crate) done: bool,
}

impl StagedUse {
    /// The driver has staged it by itself, and unstages it with its last publication.
    pub(crate) fn is_own(&self) -> bool {
        self.path.is_empty()
    }
}

/// How a volume is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PublishedUse {
    pub(crate) usage: RequestedUsage,
    pub(crate) read_only: bool,
    /// The pod's uid, or the name that replaces it.
    pub(crate) pod: String,
    /// It was done; else it was begun. The file has this only if the record was written again
    /// since: see [`crate::node_records`].
    pub(crate) done: bool,
}

impl PublishedUse {
    /// Returns whether the volume is published in the same way, done or begun.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        (&self.usage, self.read_only, &self.pod) == (&other.usage, other.read_only, &other.pod)
    }
}

/// A folder of records of one kind.
#[derive(Debug)]
pub(crate) struct RecordFolder<T> {
    kernel: Arc<dyn Kernel>,
    folder: Directory,
    durability: Durability,
    kind: std::marker::PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> RecordFolder<T> {
    /// Opens the folder of this name below `root`, making it if it is missing.
    ///
    /// # Errors
    /// As the kernel says.
    pub(crate) fn open(
        kernel: &Arc<dyn Kernel>,
        root: &Directory,
        name: &str,
        durability: Durability,
    ) -> std::result::Result<Self, KernelError> {
        let folder = kernel.make_dirs(root, Path::new(name), FOLDER_MODE)?;
        // What a death in the middle of a write has left.
        for name in kernel.names(&folder)?.iter().filter(|name| volhost_kernel::is_temporary(name)) {
            kernel.remove_file(&folder, name)?;
        }
        Ok(Self { kernel: Arc::clone(kernel), folder, durability, kind: std::marker::PhantomData })
    }

    fn file(key: &str) -> OsString {
        format!("{}{SUFFIX}", name_of(key)).into()
    }

    /// Reads the record of this key; none if there is none that can be read.
    ///
    /// # Errors
    /// [`Refusal::Kernel`] when the file cannot be read at all.
    pub(crate) fn read(&self, key: &str) -> Result<Option<T>> {
        self.read_file(&Self::file(key))
            .map_err(|source| Refusal::kernel("reading the record of", crate::check::shown(key), source))
    }

    fn read_file(&self, file: &OsString) -> std::result::Result<Option<T>, KernelError> {
        let bytes = match self.kernel.read_file(&self.folder, file, RECORD_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error @ (KernelError::TooLarge { .. } | KernelError::WrongType { .. })) => {
                warn!(%error, "a record cannot be used and counts as missing");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match serde_json::from_slice(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(error) => {
                warn!(file = %file.display(), %error, "a record cannot be read and counts as missing");
                Ok(None)
            }
        }
    }

    /// Replaces the record.
    ///
    /// # Errors
    /// [`Refusal::Kernel`]; then the old one stays.
    pub(crate) fn write(&self, key: &str, record: &T) -> Result<()> {
        let bytes = serde_json::to_vec(record)
            .map_err(|error| Refusal::Lost(format!("a record cannot be written: {error}")))?;
        self.kernel
            .write_atomic(&self.folder, &Self::file(key), &bytes, FILE_MODE, self.durability)
            .map_err(|source| Refusal::kernel("writing the record of", crate::check::shown(key), source))
    }

    /// Removes the record. None there: done.
    ///
    /// # Errors
    /// [`Refusal::Kernel`].
    pub(crate) fn remove(&self, key: &str) -> Result<()> {
        self.kernel
            .remove_file(&self.folder, &Self::file(key))
            .map_err(|source| Refusal::kernel("removing the record of", crate::check::shown(key), source))
    }

    /// All records that can be read, in the order of their files' names.
    ///
    /// # Errors
    /// [`Refusal::Kernel`].
    pub(crate) fn all(&self) -> Result<Vec<T>> {
        let failed = |source| Refusal::kernel("reading", "the records".to_owned(), source);
        let mut files = self.kernel.names(&self.folder).map_err(failed)?;
        files.retain(|name| name.to_str().is_some_and(|name| name.ends_with(SUFFIX) && !name.starts_with('.')));
        files.sort();
        files
            .iter()
            .filter_map(|file| self.read_file(file).transpose())
            .collect::<std::result::Result<_, _>>()
            .map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::ffi::OsStr;

    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_counts_as_missing() {
        let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
        let root = kernel.open_directory(Path::new("/")).unwrap();
        let records: RecordFolder<String> = RecordFolder::open(&kernel, &root, "node", Durability::Process).unwrap();
        assert_eq!(records.read("../x").unwrap(), None);
        records.write("../x", &"first".to_owned()).unwrap();
        records.write("y", &"other".to_owned()).unwrap();
        assert_eq!(records.read("../x").unwrap().as_deref(), Some("first"));
        assert_eq!(records.all().unwrap().len(), 2);
        let folder = kernel.walk(&root, Path::new("node")).unwrap();
        for name in kernel.names(&folder).unwrap() {
            kernel.write_atomic(&folder, OsStr::new(&name), b"{", 0o600, Durability::Process).unwrap();
        }
        assert_eq!(records.read("../x").unwrap(), None);
        assert!(records.all().unwrap().is_empty());
        records.remove("../x").unwrap();
        records.remove("../x").unwrap();
    }
}
