//! The reports of worker threads to the loop.

use volhost_core::{OperationId, OperationReport};
use volhost_csi::DriverNote;
use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_plugin_folder::IdentifyAnswer;
use volhost_provisioner::JobOutcome;
use volhost_volume_ops::events::NewEvent;
use volhost_volume_ops::expected_mounts::{NodePlace, VanishedMounts, VolumePlace};
use volhost_volume_ops::forced::Forced;
use volhost_volume_ops::orphans::Orphan;

use super::object_files::FilesWritten;

/// A report of a worker thread.
#[derive(Debug)]
pub(crate) enum WorkerReport {
    /// An operation has ended.
    Done(OperationId, OperationReport),
    /// An event for users.
    Event(NewEvent),
    /// A CSI driver can be called now, or its information about this node has changed.
    Driver(DriverNote),
    /// The content of the pod's volumes has expired: they are to be mounted again.
    SourceChanged(PodUid),
    /// A provisioning job has ended.
    Provisioned {
        /// The volume.
        name: String,
        /// Its end.
        outcome: JobOutcome,
    },
    /// The answer of a plugin that was asked to identify a volume.
    Identified(Box<IdentifyAnswer>),
    /// The answer of a plugin that was asked which of its volumes are attached.
    Verified {
        /// The plugin.
        plugin: PluginName,
        /// The volumes that it does not find.
        missing: Vec<UniqueVolumeName>,
    },
    /// The pods that have a folder below `pods/`.
    PodFolders(Vec<PodUid>),
    /// The content of an unknown pod's folder after its cleanup.
    Orphan(PodUid, Orphan),
    /// Mounts that are gone and that no operation unmounted.
    Vanished(VanishedMounts),
    /// A mount was detached on request.
    Forced(ForcedMount, Forced),
    /// The files of objects that a request changes were written, or could not be.
    FilesWritten(FilesWritten),
}

/// A mount that was detached on request.
#[derive(Debug)]
pub(crate) enum ForcedMount {
    /// A pod's mount.
    OfPod {
        /// Its place.
        place: VolumePlace,
        /// The volume.
        volume: UniqueVolumeName,
        /// The pod as events name it.
        pod: String,
    },
    /// The staging mount.
    Staging {
        /// Its place.
        place: NodePlace,
        /// The volume's name in pods' folders.
        spec_name: String,
    },
}
