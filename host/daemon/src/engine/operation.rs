//! One operation, from the folder handle to the plugin and back. Runs wholly on a thread that may block.
//!
//! What a crash leaves is always one of: nothing, folders without a volume, a volume without a record, a volume with its record.
//! Recovery tells them apart by what the kernel says, so no step here has to be undone for it.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use tracing::warn;
use volhost_core::{Operation, OperationKind, OperationReport};
use volhost_kernel::{Detach, Directory, Entry, ErrorKind, Kernel, KernelError};
use volhost_model::names::{PluginName, PodUid};
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{CallContext, CallError, Plugin, Target};

use super::layout;
use super::records::{Record, Records, Stands};
use crate::plugins::PluginRegistry;

/// What every operation works with.
#[derive(Debug)]
pub struct Workshop {
    /// The primitives.
    pub kernel: Arc<dyn Kernel>,
    /// The root folder, inside its own mount.
    pub root: Directory,
    /// The records.
    pub records: Records,
    /// The plugins.
    pub plugins: Arc<PluginRegistry>,
}

impl Workshop {
    /// Carries the operation out. Blocks as long as the storage does.
    ///
    /// # Guarantees
    /// The report says what is so: done only after the plugin said so and the target was looked at.
    pub fn carry_out(&self, operation: &Operation, call: &CallContext) -> OperationReport {
        let outcome = match operation.kind {
            OperationKind::Mount { .. } => self.mount(operation, call),
            OperationKind::Unmount => self.unmount(operation, call),
            OperationKind::Attach
            | OperationKind::Detach
            | OperationKind::VerifyControllerAttached
            | OperationKind::UnmountDevice
            | OperationKind::Map { .. }
            | OperationKind::Unmap
            | OperationKind::UnmapDevice
            | OperationKind::Expand { .. } => Err(Failure::new(
                FailureClass::Final,
                operation.kind.name(),
                "the plugin does not export the interface for this operation, so it cannot do it",
            )),
        };
        match outcome {
            Ok(()) => OperationReport::done(),
            Err(failure) => OperationReport::failed(failure.by(operation.plugin.as_str())),
        }
    }

    fn mount(&self, operation: &Operation, call: &CallContext) -> Result<(), Failure> {
        let (Some(pod), Some(spec)) = (&operation.pod, &operation.spec) else {
            return Err(Failure::new(FailureClass::Transient, "MountVolume", "the pod's object is not known"));
        };
        let plugin =
            self.plugins.ready(&operation.plugin).ok_or_else(|| not_loaded(&operation.plugin, "MountVolume"))?;
        if let Some(fault) = self.plugins.quarantined(&operation.plugin) {
            return Err(quarantined(&operation.plugin, &fault));
        }
        let path = layout::plugin_folder(&pod.uid, &operation.plugin);
        let set_up = || {
            let parent = self
                .kernel
                .make_dirs(&self.root, &path, layout::FOLDER_MODE)
                .map_err(|error| kernel_failure("MountVolume.MakeFolders", FailureClass::Final, &error))?;
            let target = self.target(&parent, operation, &pod.uid)?;
            let outcome = plugin.set_up(call, spec, pod, target);
            self.note_conduct(operation, call, outcome.as_ref().err());
            outcome.map_err(|error| Failure::new(error.class(), "MountVolume.SetUp", error.message()))?;
            Ok(parent)
        };
        let parent = match set_up() {
            // The folders of a pod whose last volume has just gone are removed; a new volume of it can find them vanishing.
            Err(_) if self.is_absent(&path) => set_up()?,
            outcome => outcome?,
        };
        // From here on the volume stands: whatever fails, it may be in use.
        let stands = match self.kernel.entry(&parent, OsStr::new(operation.spec_name.as_str())) {
            Ok(Entry::Mount(_)) => Stands::Mount,
            Ok(_) => Stands::Folder,
            Err(error) => return Err(kernel_failure("MountVolume.Check", FailureClass::Uncertain, &error)),
        };
        let record = Record::new(
            pod.as_ref().clone(),
            operation.plugin.clone(),
            plugin.info().digest.clone(),
            operation.volume.clone(),
            spec.as_ref().clone(),
            stands,
        );
        if let Err(error) = self.records.write(&record) {
            // Without a record the volume is only set up once more after a restart.
            warn!(volume = %operation.volume, %error, "the volume stands, but its record could not be written");
        }
        Ok(())
    }

    fn unmount(&self, operation: &Operation, call: &CallContext) -> Result<(), Failure> {
        let Some(pod) = &operation.pod_uid else {
            return Err(Failure::new(FailureClass::Transient, "UnmountVolume", "no pod is named"));
        };
        let parent = self
            .open_if_there(&layout::plugin_folder(pod, &operation.plugin))
            .map_err(|error| kernel_failure("UnmountVolume.OpenFolder", FailureClass::Uncertain, &error))?;
        if let Some(parent) = parent {
            match self.tear_down_plugin(operation, pod) {
                Some(plugin) => {
                    let target = self.target(&parent, operation, pod)?;
                    let outcome = plugin.tear_down(call, target);
                    self.note_conduct(operation, call, outcome.as_ref().err());
                    outcome.map_err(|error| {
                        Failure::new(FailureClass::Uncertain, "UnmountVolume.TearDown", error.message())
                    })?;
                }
                None => self.tear_down_without_plugin(&parent, operation)?,
            }
        }
        if let Err(error) = self.records.remove(pod, &operation.plugin, &operation.spec_name) {
            warn!(volume = %operation.volume, %error, "the volume is gone, but its record could not be removed");
        }
        Ok(())
    }

    fn note_conduct(&self, operation: &Operation, call: &CallContext, error: Option<&CallError>) {
        if self.plugins.note(&operation.plugin, &operation.volume, error) {
            let message = format!(
                "plugin {} misbehaves with one volume after another and sets nothing up any more; replace its file, or send SIGHUP to try it again",
                operation.plugin
            );
            call.sink.event(EventKind::Warning, "PluginQuarantined", &message);
        }
    }

    fn tear_down_plugin(&self, operation: &Operation, pod: &PodUid) -> Option<Arc<Plugin>> {
        self.plugins.for_tear_down(&operation.plugin, None).or_else(|| {
            // Only after a restart without the plugin's file: ask the record which version set the volume up.
            let record = self.records.read(pod, &operation.plugin, &operation.spec_name).ok().flatten()?;
            self.plugins.for_tear_down(&operation.plugin, Some(&record.digest))
        })
    }

    /// Every mount at a target was made by the host, so the host can take it away alone. Data in a folder stays: only the
    /// plugin knows whether it may go.
    fn tear_down_without_plugin(&self, parent: &Directory, operation: &Operation) -> Result<(), Failure> {
        let name = OsStr::new(operation.spec_name.as_str());
        match self.kernel.detach(parent, name, Detach::Normal) {
            Ok(()) => Ok(()),
            Err(KernelError::NotEmpty { .. }) => {
                let mut failure = not_loaded(&operation.plugin, "UnmountVolume.TearDown");
                failure.class = FailureClass::Uncertain;
                failure.message.push_str("; the volume is a folder with data in it, which only its plugin may remove");
                Err(failure)
            }
            Err(error) => Err(kernel_failure("UnmountVolume.Detach", FailureClass::Uncertain, &error)),
        }
    }

    fn target(&self, parent: &Directory, operation: &Operation, pod: &PodUid) -> Result<Target, Failure> {
        let parent = self
            .kernel
            .try_clone(parent)
            .map_err(|error| kernel_failure("OpenFolder", FailureClass::Transient, &error))?;
        Ok(Target {
            parent,
            name: OsString::from(operation.spec_name.as_str()),
            pod_uid: pod.clone(),
            spec_name: operation.spec_name.clone(),
        })
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
        let volumes = of_pod.join(layout::VOLUMES);
        if let Some(folder) = self.open_if_there(&volumes)? {
            for plugin in self.kernel.names(&folder)? {
                self.remove_if_empty(&folder, &plugin)?;
            }
        }
        for (above, name) in [(of_pod.as_path(), layout::VOLUMES), (Path::new(layout::PODS), pod.as_str())] {
            if let Some(folder) = self.open_if_there(above)? {
                self.remove_if_empty(&folder, OsStr::new(name))?;
            }
        }
        Ok(())
    }

    fn is_absent(&self, path: &Path) -> bool {
        matches!(self.open_if_there(path), Ok(None))
    }

    fn open_if_there(&self, path: &Path) -> Result<Option<Directory>, KernelError> {
        match self.kernel.walk(&self.root, path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove_if_empty(&self, folder: &Directory, name: &OsStr) -> Result<(), KernelError> {
        match self.kernel.remove_empty_dir(folder, name) {
            Ok(()) | Err(KernelError::NotEmpty { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn quarantined(plugin: &PluginName, fault: &str) -> Failure {
    Failure::new(
        FailureClass::Transient,
        "MountVolume",
        format!(
            "plugin {plugin} is quarantined: replace its file, or send SIGHUP to try it again; its last fault: {fault}"
        ),
    )
}

fn not_loaded(plugin: &PluginName, step: &str) -> Failure {
    Failure::new(
        FailureClass::Transient,
        step,
        format!(
            "plugin {plugin} is not loaded; put its .wasm file into the plugin folder (`volhost get plugins` shows what is there)"
        ),
    )
}

fn kernel_failure(step: &str, class: FailureClass, error: &KernelError) -> Failure {
    Failure::new(class, step, error.to_string())
}
