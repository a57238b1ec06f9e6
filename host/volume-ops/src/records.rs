//! What the kernel cannot know about a published volume.
//!
//! A record is written after a volume is published and removed after it is unpublished.
//! Unpublishing needs no record. [`MountRecords`](super::mount_records::MountRecords) keeps them.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use volhost_kernel::KernelError;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::{ContainerMount, NeededVolume, Pod, VolumeSpec};

/// The largest record of one volume, in bytes. It contains one volume source; the API server stores
/// at most 1.5 MiB an object.
pub(super) const MAX_RECORD_BYTES: usize = 4 << 20;

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
#[derive(Debug, Clone)]
pub(super) struct MountRecord {
    /// The pod.
    pub(super) pod: Arc<Pod>,
    /// The volume.
    pub(super) volume: RecordedVolume,
}

/// The volume in a [`MountRecord`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RecordedVolume {
    /// The plugin that published it.
    pub(super) plugin: PluginName,
    /// The digest of that plugin, so that the same version can unpublish it.
    pub(super) digest: String,
    /// The volume's unique name.
    pub(super) unique_name: UniqueVolumeName,
    /// The spec.
    #[serde(with = "shared")]
    pub(super) spec: Arc<VolumeSpec>,
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
    /// The records of a pod cannot be put into JSON.
    #[error("the records of pod {pod} cannot be encoded")]
    EncodePod {
        /// Which.
        pod: PodUid,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file is not a record: truncated, garbled, or of another version.
    #[error("{} is not a record of this version: {reason}; it is ignored, its volumes are checked as if they had none", path.display())]
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
    /// A pod's file describes another pod.
    #[error("it describes another pod")]
    OtherPod,
    /// A volume comes before the pod that it is published for.
    #[error("it names no pod")]
    NoPod,
    /// A line in it is garbled.
    #[error("line {number}: {source}")]
    Line {
        /// Which, from 1 on.
        number: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl MountRecord {
    /// Creates the record of a volume that was published just now.
    pub(super) fn new(
        pod: Arc<Pod>,
        plugin: PluginName,
        digest: String,
        unique_name: UniqueVolumeName,
        spec: Arc<VolumeSpec>,
        mount_state: RecordedTarget,
    ) -> Self {
        let volume = RecordedVolume {
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
        };
        Self { pod, volume }
    }

    /// Sets the sub-paths that containers use.
    #[must_use]
    pub(super) fn with_container_mounts(mut self, mounts: &[ContainerMount]) -> Self {
        self.volume.container_mounts = mounts.iter().filter(|mount| mount.sub_path.is_some()).cloned().collect();
        self
    }

    /// Sets the volumes that this one is made of.
    #[must_use]
    pub(super) fn with_needs(mut self, needs: &[NeededVolume]) -> Self {
        self.volume.needs = needs.to_vec();
        self
    }

    /// Sets whether the volume has to be attached and staged.
    #[must_use]
    pub(super) fn with_node_steps(mut self, attachable: bool, stageable: bool) -> Self {
        self.volume.attachable = attachable;
        self.volume.stageable = stageable;
        self
    }

    /// Sets the size beyond which the pod is notified.
    #[must_use]
    pub(super) fn with_watched_size(mut self, size: Option<u64>) -> Self {
        self.volume.watched_size = size;
        self
    }
}

impl RecordedVolume {
    /// Returns what tells it from the pod's other volumes.
    pub(super) fn key(&self) -> VolumeKey {
        (self.plugin.clone(), self.spec.name.clone())
    }
}

/// What tells the volumes of a pod apart.
pub(super) type VolumeKey = (PluginName, SpecName);

/// A shared value is written as the value.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}
