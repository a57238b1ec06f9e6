//! What the kernel cannot know about a volume that is attached to the node or staged on it.
//!
//! A record is written before the first step and removed after the last one is undone, so that a
//! volume whose last pod has gone is found again after a crash. No step back needs a record.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tracing::warn;
use volhost_core::Operation;
use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError, is_temporary};
use volhost_model::names::UniqueVolumeName;
use volhost_model::text::lower_hex;
use volhost_runtime::Plugin;

use super::device_record::{DeviceRecord, VERSION};
use super::records::{MAX_RECORD_BYTES, MountRecordError, Unusable};

/// The records' folder below the state folder.
pub(super) const FOLDER: &str = "devices";

/// Returns the file's name: a volume's name can be longer than a file name, and contain slashes.
fn file_name(volume: &UniqueVolumeName) -> OsString {
    let digest = Sha256::digest(volume.as_str());
    OsString::from(format!("{}.json", lower_hex(digest.iter().take(16))))
}

/// The records of attached and staged volumes. Cloning it gives another handle to the same folder.
#[derive(Debug, Clone)]
pub(super) struct DeviceRecords {
    kernel: Arc<dyn Kernel>,
    state: Arc<Directory>,
}

impl DeviceRecords {
    /// Creates the records below this folder, which lies on a tmpfs.
    pub(super) fn new(kernel: Arc<dyn Kernel>, state: Arc<Directory>) -> Self {
        Self { kernel, state }
    }

    /// Returns the record of the operation's volume, if there is one that can be used.
    pub(super) fn read(&self, operation: &Operation) -> Option<DeviceRecord> {
        self.read_of(&operation.volume).unwrap_or_else(|error| {
            warn!(volume = %operation.volume, %error, "the record of the attached or staged volume cannot be used");
            None
        })
    }

    /// Changes the record of the operation's volume, or begins it. Writes only what is new.
    pub(super) fn update(&self, operation: &Operation, plugin: &Plugin, change: impl FnOnce(&mut DeviceRecord)) {
        let Some(spec) = &operation.spec else { return };
        let before = self.read(operation);
        let mut record = before.clone().unwrap_or_else(|| {
            DeviceRecord::new(
                operation.plugin.clone(),
                plugin.info().digest.clone(),
                operation.volume.clone(),
                spec.as_ref().clone(),
            )
        });
        change(&mut record);
        if before.as_ref() == Some(&record) {
            return;
        }
        if let Err(error) = self.write(&record) {
            warn!(volume = %operation.volume, %error, "the record of the attached or staged volume could not be written");
        }
    }

    /// Restores the record as it was before an attempt that changed nothing.
    pub(super) fn restore(&self, operation: &Operation, before: Option<&DeviceRecord>) {
        let restored = match before {
            Some(before) => self.write(before),
            None => self.remove(&operation.volume),
        };
        if let Err(error) = restored {
            warn!(volume = %operation.volume, %error, "the record of the attached or staged volume could not be restored");
        }
    }

    /// Records that the volume is no longer staged. The record of an attached volume stays.
    pub(super) fn unstaged(&self, operation: &Operation) {
        let outcome = match self.read(operation) {
            Some(mut record) if record.attachable => {
                record.stageable = false;
                self.write(&record)
            }
            _ => self.remove(&operation.volume),
        };
        if let Err(error) = outcome {
            warn!(volume = %operation.volume, %error, "the volume is unstaged, but its record could not be changed");
        }
    }

    /// Records that the volume is no longer attached.
    pub(super) fn detached(&self, operation: &Operation) {
        if let Err(error) = self.remove(&operation.volume) {
            warn!(volume = %operation.volume, %error, "the volume is detached, but its record could not be removed");
        }
    }

    /// Returns every record, and what is wrong with those that cannot be used.
    ///
    /// # Errors
    /// [`MountRecordError::Kernel`] when the folder cannot be read.
    pub(super) fn all(&self) -> Result<(Vec<DeviceRecord>, Vec<MountRecordError>), MountRecordError> {
        let Some(folder) = self.folder()? else { return Ok(Default::default()) };
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for name in self.kernel.names(&folder)?.iter().filter(|name| !is_temporary(name)) {
            match self.read_file(name) {
                Ok(record) => records.extend(record),
                Err(error) => problems.push(error),
            }
        }
        Ok((records, problems))
    }

    /// Reads the record in a file of this name; none if there is no such file.
    ///
    /// # Errors
    /// [`MountRecordError::Unusable`] for a file that is not a record of this version.
    pub(super) fn read_file(&self, name: &OsStr) -> Result<Option<DeviceRecord>, MountRecordError> {
        let Some(folder) = self.folder()? else { return Ok(None) };
        let Some(bytes) = self.kernel.read_file(&folder, name, MAX_RECORD_BYTES)? else {
            return Ok(None);
        };
        let unusable = |reason| MountRecordError::Unusable { path: PathBuf::from(FOLDER).join(name), reason };
        let record: DeviceRecord = serde_json::from_slice(&bytes).map_err(|error| unusable(Unusable::Syntax(error)))?;
        if record.version != VERSION {
            return Err(unusable(Unusable::Version(record.version)));
        }
        if file_name(&record.unique_name) != name {
            return Err(unusable(Unusable::OtherVolume));
        }
        Ok(Some(record))
    }

    fn read_of(&self, volume: &UniqueVolumeName) -> Result<Option<DeviceRecord>, MountRecordError> {
        Ok(self.read_file(&file_name(volume))?.filter(|record| record.unique_name == *volume))
    }

    fn write(&self, record: &DeviceRecord) -> Result<(), MountRecordError> {
        let bytes = serde_json::to_vec(record)
            .map_err(|source| MountRecordError::Encode { volume: record.unique_name.clone(), source })?;
        let folder = self.kernel.make_dirs(&self.state, Path::new(FOLDER), 0o700)?;
        let name = file_name(&record.unique_name);
        Ok(self.kernel.write_atomic(&folder, &name, &bytes, 0o600, Durability::Process)?)
    }

    fn remove(&self, volume: &UniqueVolumeName) -> Result<(), MountRecordError> {
        match self.folder()? {
            Some(folder) => Ok(self.kernel.remove_file(&folder, &file_name(volume))?),
            None => Ok(()),
        }
    }

    fn folder(&self) -> Result<Option<Directory>, KernelError> {
        match self.kernel.walk(&self.state, Path::new(FOLDER)) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
