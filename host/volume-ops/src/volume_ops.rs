//! One operation, from the folder handle to the plugin and back. Runs wholly on a thread that may block. Here is what operations
//! share; each kind has a file of its own.
//!
//! What a crash leaves is always one of: nothing, folders without a volume, a volume without a record, a volume with its record.
//! Recovery tells them apart by what the kernel says, so no step here has to be undone for it. What the node has of a volume is
//! recorded before it is begun.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use tracing::warn;
use volhost_core::{DeviceReport, Operation, OperationKind, OperationReport};
use volhost_fuse_servers::FuseServerProcesses;
use volhost_kernel::{Directory, ErrorKind, Kernel, KernelError};
use volhost_model::names::{PluginName, PodUid};
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Call, CallError, Place, Plugin};

use super::attachment_metadata::AttachmentMetadata;
use super::layout;
use super::plugins::PluginSource;
use super::records::Records;
use super::sizes::SizeWatch;
use super::standing::StandingMounts;
use super::volume_sizes::VolumeSizes;

/// Executes the operations of one node.
#[derive(Debug)]
pub struct VolumeOps {
    /// The primitives.
    pub kernel: Arc<dyn Kernel>,
    /// The root folder, inside its own mount.
    pub root: Arc<Directory>,
    /// The records.
    pub records: Records,
    /// The plugins.
    pub plugins: Arc<dyn PluginSource>,
    /// The mounts that stand in pods' folders.
    pub standing: StandingMounts,
    /// The programs that serve volumes.
    pub fuse_servers: FuseServerProcesses,
    /// The volumes whose size is watched.
    pub sizes: SizeWatch,
    /// The sizes that volumes were brought to.
    pub volume_sizes: VolumeSizes,
    /// What controllers said of attached volumes.
    pub attachment_metadata: AttachmentMetadata,
    /// Nodes that are out of service, by the storage's names for them: volumes are taken away from there.
    pub nodes_out_of_service: BTreeSet<String>,
}

/// What an operation learns on its way, whatever its result.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What the volume is attached as.
    pub(super) device_path: Option<String>,
    /// What became of the node's own mount.
    pub(super) device: Option<DeviceReport>,
    /// The volume's size in bytes.
    pub(super) size: Option<u64>,
    /// The size that the volume cannot have, in bytes.
    pub(super) refused_size: Option<u64>,
    /// The other node that has the volume.
    pub(super) elsewhere: Option<String>,
}

impl VolumeOps {
    /// Executes the operation. Blocks as long as the storage does.
    ///
    /// # Guarantees
    /// The report says what is so: done only after the plugin said so and the target was looked at.
    pub fn execute(&self, operation: &Operation, call: &Call) -> OperationReport {
        let mut found = Findings::default();
        let outcome = match operation.kind {
            OperationKind::Attach => self.attach(operation, call, &mut found),
            OperationKind::Detach => self.detach(operation, call),
            OperationKind::VerifyControllerAttached => self.verify_attached(operation, call),
            OperationKind::Mount { .. } => self.mount(operation, call, &mut found),
            // What recovery found without a record may be either.
            OperationKind::Unmount if operation.spec.is_none() => {
                self.unmap(operation, call).and_then(|()| self.unmount(operation, call))
            }
            OperationKind::Unmount => self.unmount(operation, call),
            OperationKind::UnmountDevice if operation.spec.is_none() => {
                self.unmap_device(operation, call).and_then(|()| self.unmount_device(operation, call))
            }
            OperationKind::UnmountDevice => self.unmount_device(operation, call),
            OperationKind::Map { .. } => self.map(operation, call, &mut found),
            OperationKind::Unmap => self.unmap(operation, call),
            OperationKind::UnmapDevice => self.unmap_device(operation, call),
            OperationKind::Expand { to, .. } => self.expand(operation, call, to, &mut found),
        };
        OperationReport {
            device_path: found.device_path,
            device: found.device,
            size: found.size,
            refused_size: found.refused_size,
            other_node: found.elsewhere,
            cancelled: call.cancellation().is_cancelled(),
            result: outcome.map_err(|failure| failure.by(operation.plugin.as_str())),
        }
    }

    /// The plugin, if it is loaded and in good standing.
    pub(super) fn plugin_for_set_up(&self, operation: &Operation, step: &str) -> Result<Arc<Plugin>, Failure> {
        let plugin = self.plugins.ready(&operation.plugin).ok_or_else(|| not_loaded(&operation.plugin, step))?;
        match self.plugins.quarantined(&operation.plugin) {
            Some(fault) => Err(quarantined(&operation.plugin, step, &fault)),
            None => Ok(plugin),
        }
    }

    /// The plugin that may take the volume away from the pod, or from the node, if there is any.
    pub(super) fn tear_down_plugin(&self, operation: &Operation, pod: Option<&PodUid>) -> Option<Arc<Plugin>> {
        self.plugins.for_tear_down(&operation.plugin, None).or_else(|| {
            // Only after a restart without the plugin's file: ask the record which version set the volume up.
            let digest = match pod {
                Some(pod) => self.records.read(pod, &operation.plugin, &operation.spec_name).ok().flatten()?.digest,
                None => self.device_record(operation)?.digest,
            };
            self.plugins.for_tear_down(&operation.plugin, Some(&digest))
        })
    }

    /// Takes note of how the plugin behaved.
    pub(super) fn note_conduct(&self, operation: &Operation, call: &Call, error: Option<&CallError>) {
        if self.plugins.note(&operation.plugin, &operation.volume, error) {
            let message = format!(
                "plugin {} misbehaves with one volume after another and sets nothing up any more; replace its file, or send SIGHUP to try it again",
                operation.plugin
            );
            call.sink().event(EventKind::Warning, "PluginQuarantined", &message);
        }
    }

    /// A name in a folder, with a handle of its own.
    pub(super) fn place(&self, parent: &Directory, name: &str) -> Result<Place, Failure> {
        let parent = self
            .kernel
            .try_clone(parent)
            .map_err(|error| kernel_failure("OpenFolder", FailureClass::Transient, &error))?;
        Ok(Place { parent, name: OsString::from(name) })
    }

    /// Removes the empty folders and records of a pod that has no volumes any more. What is not empty stays: a new volume may have come.
    ///
    /// # Errors
    /// What the kernel said of a folder that could not be removed, other than that it is in use.
    pub fn forget_pod(&self, pod: &PodUid) -> Result<(), KernelError> {
        if let Err(error) = self.records.forget_pod(pod) {
            warn!(%pod, %error, "the pod's record folder could not be removed");
        }
        let of_pod = Path::new(layout::PODS).join(pod.as_str());
        for kind in [layout::VOLUMES, layout::VOLUME_DEVICES, layout::PRIVATE] {
            if let Some(folder) = self.open_if_there(&of_pod.join(kind))? {
                for plugin in self.kernel.names(&folder)? {
                    self.remove_if_empty(&folder, &plugin)?;
                }
            }
            if let Some(folder) = self.open_if_there(&of_pod)? {
                self.remove_if_empty(&folder, OsStr::new(kind))?;
            }
        }
        self.forget_sub_paths(pod)?;
        if let Some(folder) = self.open_if_there(Path::new(layout::PODS))? {
            self.remove_if_empty(&folder, OsStr::new(pod.as_str()))?;
        }
        Ok(())
    }

    pub(super) fn is_absent(&self, path: &Path) -> bool {
        matches!(self.open_if_there(path), Ok(None))
    }

    /// A folder below the root; none if it is not there.
    pub fn open_if_there(&self, path: &Path) -> Result<Option<Directory>, KernelError> {
        match self.kernel.walk(&self.root, path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn remove_if_empty(&self, folder: &Directory, name: &OsStr) -> Result<(), KernelError> {
        match self.kernel.remove_empty_dir(folder, name) {
            Ok(()) | Err(KernelError::NotEmpty { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn quarantined(plugin: &PluginName, step: &str, fault: &str) -> Failure {
    Failure::new(
        FailureClass::Transient,
        step,
        format!(
            "plugin {plugin} is quarantined: replace its file, or send SIGHUP to try it again; its last fault: {fault}"
        ),
    )
}

pub(super) fn not_loaded(plugin: &PluginName, step: &str) -> Failure {
    Failure::new(
        FailureClass::Transient,
        step,
        format!(
            "plugin {plugin} is not loaded; put its .wasm file into the plugin folder (`volhost get plugins` shows what is there)"
        ),
    )
}

/// What a failed tear-down says of the state. What never began (a driver that cannot be reached) has changed nothing; `changed` tells that
/// the host itself has taken something away before it asked the plugin.
pub(super) fn tear_down_class(error: &CallError, changed: bool) -> FailureClass {
    match error.class() {
        FailureClass::Transient if !changed => FailureClass::Transient,
        _ => FailureClass::Uncertain,
    }
}

pub(super) fn kernel_failure(step: &str, class: FailureClass, error: &KernelError) -> Failure {
    Failure::new(class, step, error.to_string())
}
