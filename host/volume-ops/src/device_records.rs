//! What the kernel cannot know about a volume that is attached to the node or staged on it. A record is written before anything is done
//! and removed when nothing is left, so that a volume whose last pod has gone is found again after a crash. Kept beside the records of
//! pods' volumes, and like those never needed to take anything away.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use volhost_kernel::{Durability, ErrorKind, is_temporary};
use volhost_model::VolumeSpec;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_model::text::lower_hex;

use super::records::{MAX_RECORD_BYTES, RecordError, Records};

/// The records' folder below the state folder.
pub(super) const FOLDER: &str = "devices";
/// Bumped when a field changes its meaning; another version's record counts as missing.
const VERSION: u32 = 1;

/// One volume that the node has, or may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceRecord {
    version: u32,
    /// The plugin that does it.
    pub plugin: PluginName,
    /// The digest of that plugin, so that the same can undo it.
    pub digest: String,
    /// The volume's name in the world.
    pub unique_name: UniqueVolumeName,
    /// What was asked for.
    pub spec: VolumeSpec,
    /// It had to be attached.
    pub attachable: bool,
    /// It was mounted, or made ready as a device, for the node.
    pub stageable: bool,
    /// What it is attached as, once it was.
    pub attached_as: Option<String>,
    /// The path of its device, once it was found.
    pub device: Option<String>,
}

impl DeviceRecord {
    /// A record of a volume about which something is about to be done.
    pub fn new(plugin: PluginName, digest: String, unique_name: UniqueVolumeName, spec: VolumeSpec) -> Self {
        Self {
            version: VERSION,
            plugin,
            digest,
            unique_name,
            spec,
            attachable: false,
            stageable: false,
            attached_as: None,
            device: None,
        }
    }
}

/// The file's name: a volume's name can be longer than a file name, and hold slashes.
fn file_name(volume: &UniqueVolumeName) -> OsString {
    let digest = Sha256::digest(volume.as_str());
    OsString::from(format!("{}.json", lower_hex(digest.iter().take(16))))
}

impl Records {
    /// Writes the record of a volume of the node, at once and whole.
    ///
    /// # Errors
    /// [`RecordError`]; the record that was there stays.
    pub fn write_device(&self, record: &DeviceRecord) -> Result<(), RecordError> {
        let bytes = serde_json::to_vec(record)
            .map_err(|source| RecordError::Encode { volume: record.unique_name.clone(), source })?;
        let folder = self.kernel().make_dirs(self.state(), Path::new(FOLDER), 0o700)?;
        let name = file_name(&record.unique_name);
        Ok(self.kernel().write_atomic(&folder, &name, &bytes, 0o600, Durability::Process)?)
    }

    /// Reads the record of a volume of the node; none when there is none.
    ///
    /// # Errors
    /// [`RecordError::Unusable`] when there is one that says nothing.
    pub fn read_device(&self, volume: &UniqueVolumeName) -> Result<Option<DeviceRecord>, RecordError> {
        Ok(self.read_device_file(&file_name(volume))?.filter(|record| record.unique_name == *volume))
    }

    /// Every record of a volume of the node, and what is wrong with those that cannot be used.
    ///
    /// # Errors
    /// [`RecordError::Kernel`] when the folder cannot be read.
    pub fn devices(&self) -> Result<(Vec<DeviceRecord>, Vec<RecordError>), RecordError> {
        let folder = match self.kernel().walk(self.state(), Path::new(FOLDER)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Default::default()),
            Err(error) => return Err(error.into()),
        };
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for name in self.kernel().names(&folder)?.iter().filter(|name| !is_temporary(name)) {
            match self.read_device_file(name) {
                Ok(record) => records.extend(record),
                Err(error) => problems.push(error),
            }
        }
        Ok((records, problems))
    }

    /// Removes the record of a volume that the node has no more.
    ///
    /// # Errors
    /// [`RecordError::Kernel`].
    pub fn remove_device(&self, volume: &UniqueVolumeName) -> Result<(), RecordError> {
        match self.kernel().walk(self.state(), Path::new(FOLDER)) {
            Ok(folder) => Ok(self.kernel().remove_file(&folder, &file_name(volume))?),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn read_device_file(&self, name: &OsStr) -> Result<Option<DeviceRecord>, RecordError> {
        let folder = match self.kernel().walk(self.state(), Path::new(FOLDER)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(bytes) = self.kernel().read_file(&folder, name, MAX_RECORD_BYTES)? else {
            return Ok(None);
        };
        let unusable = |reason: String| RecordError::Unusable { path: PathBuf::from(FOLDER).join(name), reason };
        let record: DeviceRecord = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        if record.version != VERSION {
            return Err(unusable(format!("it is of version {}", record.version)));
        }
        if file_name(&record.unique_name) != name {
            return Err(unusable("it describes another volume".to_owned()));
        }
        Ok(Some(record))
    }
}
