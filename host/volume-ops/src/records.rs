//! What the kernel cannot know about a mounted volume, kept on a tmpfs below the root folder: it outlives the process, and goes with
//! the mounts it describes. A record is written once a volume stands and removed once it is gone, and never needed to take a
//! volume away.

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
/// A record holds a pod and one volume source; the API server stores 1.5 MiB an object at the most.
pub(super) const MAX_RECORD_BYTES: usize = 4 << 20;
/// Bumped when a field changes its meaning; another version's record counts as missing.
const VERSION: u32 = 1;

/// What stood at the target when the volume was set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stands {
    /// A folder of the host's own.
    Folder,
    /// A mount.
    Mount,
    /// A device: a link to it in the pod's folder.
    Device,
}

/// One volume of one pod that was set up completely.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// The pod that has it.
    pub pod: Pod,
    /// The plugin that set it up.
    pub plugin: PluginName,
    /// The digest of that plugin, so that the same can take it away.
    pub digest: String,
    /// The volume's name in the world.
    pub unique_name: UniqueVolumeName,
    /// What was asked for.
    pub spec: VolumeSpec,
    /// What stood there.
    pub stands: Stands,
    /// The volume had to be attached.
    #[serde(default)]
    pub attachable: bool,
    /// The volume was mounted for the node first.
    #[serde(default)]
    pub stageable: bool,
    /// Beyond this many bytes the pod is told that the volume is too large.
    #[serde(default)]
    pub watched_size: Option<u64>,
    /// The uses by containers that it was made ready for.
    #[serde(default)]
    pub container_mounts: Vec<ContainerMount>,
    /// The volumes of the pod that it is made of: they go after it.
    #[serde(default)]
    pub needs: Vec<NeededVolume>,
}

/// Why a record could not be written, read or used.
#[derive(Debug, Error)]
pub enum RecordError {
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
    /// It is no record: truncated, garbled, or of another version.
    #[error("{} is not a volume record of this version: {reason}; it is ignored, its volume is checked as if it had none", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The folder of records.
#[derive(Debug)]
pub struct Records {
    kernel: Arc<dyn Kernel>,
    state: Arc<Directory>,
}

impl Record {
    /// A record of a volume that was set up now.
    pub fn new(
        pod: Pod,
        plugin: PluginName,
        digest: String,
        unique_name: UniqueVolumeName,
        spec: VolumeSpec,
        stands: Stands,
    ) -> Self {
        Self {
            version: VERSION,
            pod,
            plugin,
            digest,
            unique_name,
            spec,
            stands,
            attachable: false,
            stageable: false,
            watched_size: None,
            container_mounts: Vec::new(),
            needs: Vec::new(),
        }
    }

    /// Says which parts of the volume stand for containers.
    #[must_use]
    pub fn for_containers(mut self, mounts: &[ContainerMount]) -> Self {
        self.container_mounts = mounts.iter().filter(|mount| mount.sub_path.is_some()).cloned().collect();
        self
    }

    /// Says what the volume is made of.
    #[must_use]
    pub fn made_of(mut self, needs: &[NeededVolume]) -> Self {
        self.needs = needs.to_vec();
        self
    }

    /// Says what the volume needs for the node.
    #[must_use]
    pub fn on_node(mut self, attachable: bool, stageable: bool) -> Self {
        self.attachable = attachable;
        self.stageable = stageable;
        self
    }

    /// Says beyond which size the pod is told.
    #[must_use]
    pub fn watched(mut self, size: Option<u64>) -> Self {
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

impl Records {
    /// The records below this folder, which lies on a tmpfs.
    pub fn new(kernel: Arc<dyn Kernel>, state: Directory) -> Self {
        Self { kernel, state: Arc::new(state) }
    }

    /// The primitives it works with.
    pub(super) fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// The folder on the tmpfs.
    pub fn state(&self) -> &Arc<Directory> {
        &self.state
    }

    /// Writes a record, at once and whole.
    ///
    /// # Errors
    /// [`RecordError`]; the record that was there stays.
    pub fn write(&self, record: &Record) -> Result<(), RecordError> {
        let bytes = serde_json::to_vec(record)
            .map_err(|source| RecordError::Encode { volume: record.unique_name.clone(), source })?;
        let folder = self.kernel.make_dirs(&self.state, &pod_folder(&record.pod.uid), 0o700)?;
        let name = file_name(&record.plugin, &record.spec.name);
        Ok(self.kernel.write_atomic(&folder, &name, &bytes, 0o600, Durability::Process)?)
    }

    /// Reads the record of one volume; none when there is none.
    ///
    /// # Errors
    /// [`RecordError::Unusable`] when there is one that says nothing.
    pub fn read(&self, pod: &PodUid, plugin: &PluginName, spec_name: &SpecName) -> Result<Option<Record>, RecordError> {
        let folder = match self.kernel.walk(&self.state, &pod_folder(pod)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let name = file_name(plugin, spec_name);
        let Some(bytes) = self.kernel.read_file(&folder, &name, MAX_RECORD_BYTES)? else {
            return Ok(None);
        };
        let unusable = |reason: String| RecordError::Unusable { path: pod_folder(pod).join(&name), reason };
        let record: Record = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        if record.version != VERSION {
            return Err(unusable(format!("it is of version {}", record.version)));
        }
        if record.pod.uid != *pod || record.plugin != *plugin || record.spec.name != *spec_name {
            return Err(unusable("it describes another volume".to_owned()));
        }
        Ok(Some(record))
    }

    /// Removes the record of one volume, and its pod's folder if that was the last.
    ///
    /// # Errors
    /// [`RecordError::Kernel`].
    pub fn remove(&self, pod: &PodUid, plugin: &PluginName, spec_name: &SpecName) -> Result<(), RecordError> {
        let folder = match self.kernel.walk(&self.state, &pod_folder(pod)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        Ok(self.kernel.remove_file(&folder, &file_name(plugin, spec_name))?)
    }

    /// Removes what is left of a pod that has no volumes any more.
    ///
    /// # Errors
    /// [`RecordError::Kernel`]; a folder that is not empty stays and is no error.
    pub fn forget_pod(&self, pod: &PodUid) -> Result<(), RecordError> {
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
