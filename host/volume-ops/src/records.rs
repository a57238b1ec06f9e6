//! What the kernel cannot know about a published volume.
//!
//! The records lie on a tmpfs below the root folder: they outlive the process, and go with the
//! mounts that they describe. A record is written after a volume is published and removed after it
//! is unpublished. Unpublishing needs no record.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError};
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::text::lower_hex;
use volhost_model::{ContainerMount, NeededVolume, Pod, VolumeSpec};

/// The records' folder below the state folder, one folder a pod in it.
pub(super) const FOLDER: &str = "volumes";
/// The largest record, in bytes. It contains a pod and one volume source; the API server stores at
/// most 1.5 MiB an object.
pub(super) const MAX_RECORD_BYTES: usize = 4 << 20;
/// Bumped when a field changes its meaning; another version's record counts as missing.
const VERSION: u32 = 1;

/// What was at the target when the volume was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RecordedTarget {
    /// A folder of the host's own.
    Folder,
    /// A mount.
    Mount,
    /// A device: a link to it in the pod's folder.
    Device,
}

/// One volume that was published completely for one pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MountRecord {
    version: u32,
    /// The pod.
    pub(super) pod: Pod,
    /// The plugin that published it.
    pub(super) plugin: PluginName,
    /// The digest of that plugin, so that the same version can unpublish it.
    pub(super) digest: String,
    /// The volume's unique name.
    pub(super) unique_name: UniqueVolumeName,
    /// The spec.
    pub(super) spec: VolumeSpec,
    /// What was at the target.
    #[serde(rename = "stands")]
    pub(super) mount_state: RecordedTarget,
    /// The volume has to be attached.
    #[serde(default)]
    pub(super) attachable: bool,
    /// The volume was staged before.
    #[serde(default)]
    pub(super) stageable: bool,
    /// Beyond this many bytes the pod is notified that the volume is too large.
    #[serde(default)]
    pub(super) watched_size: Option<u64>,
    /// The sub-paths that containers use.
    #[serde(default)]
    pub(super) container_mounts: Vec<ContainerMount>,
    /// The pod's other volumes that it is made of: they are unpublished after it.
    #[serde(default)]
    pub(super) needs: Vec<NeededVolume>,
}

/// Why a record could not be written, read or used.
#[derive(Debug, Error)]
pub(super) enum MountRecordError {
    /// A file operation failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It cannot be put into JSON.
    #[error("the record of volume {volume} cannot be encoded")]
    Encode {
        /// Which.
        volume: UniqueVolumeName,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file is not a record: truncated, garbled, or of another version.
    #[error("{} is not a volume record of this version: {reason}; it is ignored, its volume is checked as if it had none", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        reason: Unusable,
    },
}

/// Why a file is not a record that can be used.
#[derive(Debug, Error)]
pub(super) enum Unusable {
    /// It is not JSON, or has other fields.
    #[error("{0}")]
    Syntax(#[source] serde_json::Error),
    /// Another version of volhost wrote it.
    #[error("it is of version {0}")]
    Version(u32),
    /// It does not belong at this name.
    #[error("it describes another volume")]
    OtherVolume,
}

/// The folder of records.
#[derive(Debug)]
pub(super) struct MountRecords {
    kernel: Arc<dyn Kernel>,
    state: Arc<Directory>,
}

impl MountRecord {
    /// Creates the record of a volume that was published just now.
    pub(super) fn new(
        pod: Pod,
        plugin: PluginName,
        digest: String,
        unique_name: UniqueVolumeName,
        spec: VolumeSpec,
        mount_state: RecordedTarget,
    ) -> Self {
        Self {
            version: VERSION,
            pod,
            plugin,
            digest,
            unique_name,
            spec,
            mount_state,
            attachable: false,
            stageable: false,
            watched_size: None,
            container_mounts: Vec::new(),
            needs: Vec::new(),
        }
    }

    /// Sets the sub-paths that containers use.
    #[must_use]
    pub(super) fn with_container_mounts(mut self, mounts: &[ContainerMount]) -> Self {
        self.container_mounts = mounts.iter().filter(|mount| mount.sub_path.is_some()).cloned().collect();
        self
    }

    /// Sets the volumes that this one is made of.
    #[must_use]
    pub(super) fn with_needs(mut self, needs: &[NeededVolume]) -> Self {
        self.needs = needs.to_vec();
        self
    }

    /// Sets whether the volume has to be attached and staged.
    #[must_use]
    pub(super) fn with_node_steps(mut self, attachable: bool, stageable: bool) -> Self {
        self.attachable = attachable;
        self.stageable = stageable;
        self
    }

    /// Sets the size beyond which the pod is notified.
    #[must_use]
    pub(super) fn with_watched_size(mut self, size: Option<u64>) -> Self {
        self.watched_size = size;
        self
    }
}

/// The file's name: a plugin's and a volume's name together can be longer than a file name.
pub(super) fn file_name(plugin: &PluginName, spec_name: &SpecName) -> OsString {
    let digest = Sha256::digest(format!("{plugin}\n{spec_name}"));
    OsString::from(format!("{}.json", lower_hex(digest.iter().take(16))))
}

fn pod_folder(pod: &PodUid) -> PathBuf {
    Path::new(FOLDER).join(pod.as_str())
}

impl MountRecords {
    /// Creates the records below this folder, which lies on a tmpfs.
    pub(super) fn new(kernel: Arc<dyn Kernel>, state: Arc<Directory>) -> Self {
        Self { kernel, state }
    }

    /// Returns the kernel primitives.
    pub(super) fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// Returns the folder on the tmpfs.
    pub(super) fn state(&self) -> &Arc<Directory> {
        &self.state
    }

    /// Writes a record, at once and whole.
    ///
    /// # Errors
    /// [`MountRecordError`]; the record that was there stays.
    pub(super) fn write(&self, record: &MountRecord) -> Result<(), MountRecordError> {
        let bytes = serde_json::to_vec(record)
            .map_err(|source| MountRecordError::Encode { volume: record.unique_name.clone(), source })?;
        let folder = self.kernel.make_dirs(&self.state, &pod_folder(&record.pod.uid), 0o700)?;
        let name = file_name(&record.plugin, &record.spec.name);
        Ok(self.kernel.write_atomic(&folder, &name, &bytes, 0o600, Durability::Process)?)
    }

    /// Reads the record of one volume; none when there is none.
    ///
    /// # Errors
    /// [`MountRecordError::Unusable`] for a file that is not a record of this version.
    pub(super) fn read(
        &self,
        pod: &PodUid,
        plugin: &PluginName,
        spec_name: &SpecName,
    ) -> Result<Option<MountRecord>, MountRecordError> {
        let folder = match self.kernel.walk(&self.state, &pod_folder(pod)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let name = file_name(plugin, spec_name);
        let Some(bytes) = self.kernel.read_file(&folder, &name, MAX_RECORD_BYTES)? else {
            return Ok(None);
        };
        let unusable = |reason| MountRecordError::Unusable { path: pod_folder(pod).join(&name), reason };
        let record: MountRecord = serde_json::from_slice(&bytes).map_err(|error| unusable(Unusable::Syntax(error)))?;
        if record.version != VERSION {
            return Err(unusable(Unusable::Version(record.version)));
        }
        if record.pod.uid != *pod || record.plugin != *plugin || record.spec.name != *spec_name {
            return Err(unusable(Unusable::OtherVolume));
        }
        Ok(Some(record))
    }

    /// Removes the record of one volume, and its pod's folder if that was the last.
    ///
    /// # Errors
    /// [`MountRecordError::Kernel`].
    pub(super) fn remove(
        &self,
        pod: &PodUid,
        plugin: &PluginName,
        spec_name: &SpecName,
    ) -> Result<(), MountRecordError> {
        let folder = match self.kernel.walk(&self.state, &pod_folder(pod)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        Ok(self.kernel.remove_file(&folder, &file_name(plugin, spec_name))?)
    }

    /// Removes the empty record folder of a pod that has no volumes any more.
    ///
    /// # Errors
    /// [`MountRecordError::Kernel`]; a folder that is not empty stays and is no error.
    pub(super) fn forget_pod(&self, pod: &PodUid) -> Result<(), MountRecordError> {
        let all = match self.kernel.walk(&self.state, Path::new(FOLDER)) {
            Ok(all) => all,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match self.kernel.remove_empty_dir(&all, OsStr::new(pod.as_str())) {
            Err(KernelError::NotEmpty { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
