//! The records on disk. Unlike those of mounts they outlive the machine: so do the volumes.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError};
use volhost_provisioner::{ProvisionRecord, RecordContentError};

/// The folder of records, below the root folder.
pub(crate) const FOLDER: &str = "provisioned";
/// The folder of objects that were added by request, below that: a claim outlives the machine as
/// its volume does.
pub(crate) const OBJECTS: &str = "objects";
/// How a record's file ends.
const SUFFIX: &str = ".json";
/// A record has a class and the storage's answer.
const RECORD_BYTES: usize = 1 << 20;
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A record that cannot be written, read or removed.
#[derive(Debug, Error)]
pub(crate) enum ProvisionRecordError {
    /// A file operation failed.
    #[error("the record {FOLDER}/{name}{SUFFIX}: {source}")]
    Kernel {
        /// The volume.
        name: String,
        /// Why.
        #[source]
        source: Box<KernelError>,
    },
    /// Its content is invalid.
    #[error("the record {FOLDER}/{name}{SUFFIX}: {source}; it is passed over: mend it, or remove it")]
    Content {
        /// The volume.
        name: String,
        /// Why.
        #[source]
        source: RecordContentError,
    },
    /// The folder itself.
    #[error("the folder of records {FOLDER}: {0}")]
    Folder(#[source] Box<KernelError>),
}

/// The folder of records.
#[derive(Debug)]
pub(crate) struct ProvisionRecords {
    kernel: Arc<dyn Kernel>,
    folder: Directory,
}

impl ProvisionRecords {
    /// Opens the folder below this root, and creates it if it is missing.
    ///
    /// # Errors
    /// [`ProvisionRecordError::Folder`].
    pub(crate) fn open(kernel: Arc<dyn Kernel>, root: &Directory) -> Result<Self, ProvisionRecordError> {
        let failed = |source| ProvisionRecordError::Folder(Box::new(source));
        let folder = kernel.make_dirs(root, Path::new(FOLDER), FOLDER_MODE).map_err(failed)?;
        // The leftovers of a process that died in the middle of a write.
        for name in kernel.names(&folder).map_err(failed)?.iter().filter(|name| volhost_kernel::is_temporary(name)) {
            kernel.remove_file(&folder, name).map_err(failed)?;
        }
        Ok(Self { kernel, folder })
    }

    /// Returns every record that can be read, and the errors of the others.
    ///
    /// # Errors
    /// [`ProvisionRecordError::Folder`].
    pub(crate) fn all(&self) -> Result<(Vec<ProvisionRecord>, Vec<ProvisionRecordError>), ProvisionRecordError> {
        let names = self.kernel.names(&self.folder);
        let names = names.map_err(|source| ProvisionRecordError::Folder(Box::new(source)))?;
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        let named = names.iter().filter_map(|name| name.to_str()?.strip_suffix(SUFFIX)).filter(|n| !n.starts_with('.'));
        for name in named {
            match self.read(name) {
                Ok(record) => records.extend(record),
                Err(problem) => problems.push(problem),
            }
        }
        Ok((records, problems))
    }

    fn read(&self, name: &str) -> Result<Option<ProvisionRecord>, ProvisionRecordError> {
        let bytes = self.kernel.read_file(&self.folder, &file(name), RECORD_BYTES);
        let Some(bytes) = bytes.map_err(|source| kernel(name, source))? else { return Ok(None) };
        let record = ProvisionRecord::read(name, &bytes);
        record.map(Some).map_err(|source| ProvisionRecordError::Content { name: name.to_owned(), source })
    }

    /// Replaces the record. A power loss leaves the old or the new one, complete.
    ///
    /// # Errors
    /// [`ProvisionRecordError`]; then the old one stays.
    pub(crate) fn write(&self, record: &ProvisionRecord) -> Result<(), ProvisionRecordError> {
        let name = record.name.as_str();
        let bytes = record.write().map_err(|source| ProvisionRecordError::Content { name: name.to_owned(), source })?;
        self.kernel
            .write_atomic(&self.folder, &file(name), &bytes, FILE_MODE, Durability::Machine)
            .map_err(|source| kernel(name, source))
    }

    /// Removes the record. Succeeds if there is none.
    ///
    /// # Errors
    /// [`ProvisionRecordError`].
    pub(crate) fn remove(&self, name: &str) -> Result<(), ProvisionRecordError> {
        match self.kernel.remove_file(&self.folder, &file(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(kernel(name, error)),
            _ => Ok(()),
        }
    }
}

fn file(name: &str) -> OsString {
    let mut file = OsStr::new(name).to_owned();
    file.push(SUFFIX);
    file
}

fn kernel(name: &str, source: KernelError) -> ProvisionRecordError {
    ProvisionRecordError::Kernel { name: name.to_owned(), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use volhost_provisioner::{ClaimName, ClaimRequest, PendingClaim, Reclaim, SecretNames, Terms};
    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    fn record(name: &str) -> ProvisionRecord {
        let claim = ClaimName { namespace: "default".to_owned(), name: "data".to_owned(), uid: "1".to_owned() };
        let terms = Terms {
            class: "fast".to_owned(),
            provisioner: "csi.example.com".to_owned(),
            parameters: BTreeMap::new(),
            fs_type: None,
            reclaim: Reclaim::Delete,
            mount_options: Vec::new(),
            places: Vec::new(),
            secrets: SecretNames::default(),
        };
        let modes = vec!["ReadWriteOnce".to_owned()];
        let wanted = ClaimRequest { bytes: 1, limit: None, as_device: false, access_modes: modes, source: None };
        ProvisionRecord::new(name.to_owned(), PendingClaim { claim, terms, wanted, in_manifest: true })
    }

    #[test]
    fn a_record_that_cannot_be_read_is_reported_and_delays_no_other() {
        let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
        let root = kernel.open_directory(Path::new("/")).unwrap();
        let records = ProvisionRecords::open(kernel.clone(), &root).unwrap();
        records.write(&record("pvc-1")).unwrap();
        records.write(&record("pvc-2")).unwrap();
        let folder = kernel.walk(&root, Path::new(FOLDER)).unwrap();
        let whole = kernel.read_file(&folder, OsStr::new("pvc-2.json"), RECORD_BYTES).unwrap().unwrap();
        for (name, bytes) in [("pvc-2.json", &b"{"[..]), ("pvc-3.json", &whole)] {
            kernel.write_atomic(&folder, OsStr::new(name), bytes, FILE_MODE, Durability::Process).unwrap();
        }
        let (read, problems) = records.all().unwrap();
        assert_eq!(read, [record("pvc-1")]);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(problems[0].contains("provisioned/pvc-2.json") && problems[1].contains("pvc-3"), "{problems:?}");
        records.remove("pvc-1").unwrap();
        records.remove("pvc-1").unwrap();
        assert_eq!(records.all().unwrap().0, []);
    }
}
