//! VolumePublisher a volume for a pod, and unpublishing it. A staged volume is staged before.

use std::sync::Arc;

use tracing::{instrument, warn};
use volhost_core::{Operation, OperationKind};
use volhost_kernel::{Kernel, KernelError};
use volhost_model::{Failure, FailureClass, NeededVolume, Pod, PodUid, VolumeSpec};
use volhost_runtime::{Call, NeededPlace, Place, Plugin};

use super::expected_mounts::{ExpectedMounts, VolumePlace};
use super::failures::{kernel_failure, step_failure};
use super::layout;
use super::mount_records::MountRecords;
use super::node_folders::{NodeFolders, PublishFolder, VolumeRef};
use super::places::PublishPlace;
use super::plugin_calls::{PluginCalls, not_loaded};
use super::records::{MountRecord, RecordedTarget};
use super::size_watch::SizeWatch;
use super::steps::{PublishOutcome, Steps};
use super::sub_paths::SubPathOps;

/// Publishes and unpublishes volumes.
#[derive(Debug)]
pub(super) struct VolumePublisher {
    folders: NodeFolders,
    plugins: PluginCalls,
    records: Arc<MountRecords>,
    expected: Arc<ExpectedMounts>,
    sizes: Arc<SizeWatch>,
    sub_paths: SubPathOps,
}

impl VolumePublisher {
    pub(super) fn new(
        folders: NodeFolders,
        plugins: PluginCalls,
        records: Arc<MountRecords>,
        expected: Arc<ExpectedMounts>,
        sizes: Arc<SizeWatch>,
    ) -> Self {
        let sub_paths = SubPathOps::new(folders.clone());
        Self { folders, plugins, records, expected, sizes, sub_paths }
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Publishes the volume. From the success on the pod may use it, whatever fails afterwards.
    /// Returns where it is published.
    pub(super) fn publish(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        (pod, spec): (&Arc<Pod>, &Arc<VolumeSpec>),
    ) -> Result<(Place, PublishOutcome), Failure> {
        let outcome = match self.publish_once(operation, call, plugin, (pod, spec)) {
            // The cleanup after the pod's last other volume may remove the folders meanwhile.
            Err(_)
                if self.folders.of(&pod.uid).closed(|| true)
                    && self.folders.is_absent(&layout::plugin_folder(&pod.uid, &operation.plugin)) =>
            {
                self.publish_once(operation, call, plugin, (pod, spec))
            }
            outcome => outcome,
        };
        let (place, published) = outcome?;
        if let Some(mount) = published.mount {
            self.expected.add_published(VolumePlace::of(operation, &pod.uid), Some(mount));
        }
        Ok((place, published))
    }

    fn publish_once(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        (pod, spec): (&Arc<Pod>, &Arc<VolumeSpec>),
    ) -> Result<(Place, PublishOutcome), Failure> {
        let folder = self
            .folders
            .make_publish_folder(VolumeRef::of(operation), &pod.uid)
            // The plugin was not called: what an earlier try has mounted may still be mounted.
            .map_err(|error| kernel_failure("MountVolume.MakeFolders", FailureClass::Transient, &error))?;
        let place = self.place(operation, &pod.uid, folder)?;
        let is_refresh = matches!(operation.kind, OperationKind::Mount { remount: true, .. });
        let outcome = Steps::new(self.kernel(), plugin, call).publish(spec, pod, &place, is_refresh);
        self.plugins.note_step(operation, call, &outcome);
        match outcome {
            Ok(published) => Ok((Place { parent: place.folder, name: place.name }, published)),
            Err(error) => {
                drop(place);
                if let Err(error) = self.folders.forget_publish_folder(VolumeRef::of(operation), &pod.uid) {
                    warn!(volume = %operation.volume, %error, "the folder made for the volume could not be removed");
                }
                Err(step_failure("MountVolume.SetUp", &error))
            }
        }
    }

    /// Shows the sub-paths that the pod's containers use, and records the published volume.
    pub(super) fn finish(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Plugin,
        (pod, spec): (&Arc<Pod>, &Arc<VolumeSpec>),
        (place, published): (&Place, &PublishOutcome),
    ) -> Result<(), Failure> {
        self.sub_paths.prepare(operation, call, &pod.uid, place)?;
        let mount_state = if published.mount.is_some() { RecordedTarget::Mount } else { RecordedTarget::Folder };
        let record = new_record(operation, plugin, (pod, spec), mount_state)
            .with_node_steps(operation.attachable, operation.stageable)
            .with_watched_size(published.watched_size)
            .with_container_mounts(&operation.container_mounts)
            .with_needs(&operation.needs);
        self.write_record(&record);
        self.sizes.watch(pod, &operation.plugin, &operation.spec_name, published.watched_size);
        Ok(())
    }

    /// Unpublishes the volume.
    pub(super) fn unpublish(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        let Some(pod) = &operation.pod_uid else {
            return Err(Failure::new(FailureClass::Transient, "UnmountVolume", "no pod is named"));
        };
        self.expected.remove_published(&VolumePlace::of(operation, pod));
        self.sizes.forget(pod, &operation.plugin, &operation.spec_name);
        let had_sub_paths = self.sub_paths.clean(operation, call, pod)?;
        let folder = self
            .folders
            .publish_folder(&operation.plugin, &operation.spec_name, pod)
            .map_err(|error| kernel_failure("UnmountVolume.OpenFolder", FailureClass::Uncertain, &error))?;
        if let Some(folder) = folder {
            let place = self.place(operation, pod, folder)?;
            match self.plugins.to_unpublish(operation, pod) {
                Some(plugin) => {
                    let outcome = Steps::new(self.kernel(), &plugin, call).unpublish(&place, had_sub_paths);
                    self.plugins.note_step(operation, call, &outcome);
                    outcome.map_err(|error| {
                        if error.left_mounted() {
                            self.expected.add_published(VolumePlace::of(operation, pod), None);
                        }
                        step_failure("UnmountVolume.TearDown", &error)
                    })?;
                }
                None => self.unmount_without_plugin(operation, &place)?,
            }
        }
        // After the unmount: the mount may show what lies in there.
        self.folders
            .remove_private(VolumeRef::of(operation), pod)
            .map_err(|error| kernel_failure("UnmountVolume.RemovePrivateFolder", FailureClass::Uncertain, &error))?;
        if let Err(error) = self.records.remove(pod, &operation.plugin, &operation.spec_name) {
            warn!(volume = %operation.volume, %error, "the volume is unpublished, but its record could not be removed");
        }
        Ok(())
    }

    #[instrument(name = "WriteRecord", level = "debug", skip_all)]
    pub(super) fn write_record(&self, record: &MountRecord) {
        if let Err(error) = self.records.write(record) {
            // Without a record, the volume is only published once more after a restart.
            warn!(volume = %record.volume.unique_name, %error, "the volume is published, but its record could not be written");
        }
    }

    fn unmount_without_plugin(&self, operation: &Operation, place: &PublishPlace) -> Result<(), Failure> {
        match place.unmount(self.kernel()) {
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

    /// Returns where the volume is published, with the pod's other volumes that it is made of.
    fn place(&self, operation: &Operation, pod: &PodUid, folder: PublishFolder) -> Result<PublishPlace, Failure> {
        let needed = self.needed_places(operation, pod)?;
        self.folders
            .publish(VolumeRef::of(operation), pod, folder, needed)
            .map_err(|error| kernel_failure("OpenStagingMount", FailureClass::Transient, &error))
    }

    fn needed_places(&self, operation: &Operation, pod: &PodUid) -> Result<Vec<NeededPlace>, Failure> {
        let place = |needed: &NeededVolume| {
            let (plugin, spec_name) = (needed.plugin.clone(), needed.spec_name.clone());
            let published = VolumePlace { pod: pod.clone(), plugin, spec_name };
            let place = self
                .folders
                .existing_place(&needed.plugin, &needed.spec_name, pod)
                .map_err(|error| kernel_failure("MountVolume.OpenNeeded", FailureClass::Transient, &error))?;
            let is_mount = self.expected.has_published(&published);
            Ok(NeededPlace { name: needed.name.as_str().to_owned(), place, is_mount })
        };
        operation.needs.iter().map(place).collect()
    }
}

/// Creates the record of a volume that is published, or mapped.
pub(super) fn new_record(
    operation: &Operation,
    plugin: &Plugin,
    (pod, spec): (&Arc<Pod>, &Arc<VolumeSpec>),
    mount_state: RecordedTarget,
) -> MountRecord {
    MountRecord::new(
        Arc::clone(pod),
        operation.plugin.clone(),
        plugin.info().digest.clone(),
        operation.volume.clone(),
        Arc::clone(spec),
        mount_state,
    )
}
