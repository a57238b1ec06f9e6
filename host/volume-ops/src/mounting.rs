//! Mounting a volume for a pod, and taking it away. Of a volume that the node has first, only the pod's part is here.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use tracing::{instrument, warn};
use volhost_core::{Operation, OperationKind};
use volhost_kernel::{Detach, Directory, Entry, KernelError};
use volhost_model::{Failure, FailureClass, NeededVolume, PodUid};
use volhost_runtime::{Call, NeededPlace, Place, PrivateFolder, Target};

use super::layout;
use super::records::{Record, Stands};
use super::standing::VolumePlace;
use super::volume_ops::{Findings, VolumeOps, kernel_failure, not_loaded, tear_down_class};

impl VolumeOps {
    /// Finds the volume's device if it is attached, mounts it for the node if it has to be, then for the pod, and brings it to the size
    /// its PersistentVolume asks for.
    pub(super) fn mount(&self, operation: &Operation, call: &Call, found: &mut Findings) -> Result<(), Failure> {
        let (Some(pod), Some(spec)) = (&operation.pod, &operation.spec) else {
            return Err(Failure::new(FailureClass::Transient, "MountVolume", "the pod's object is not known"));
        };
        let plugin = self.plugin_for_set_up(operation, "MountVolume")?;
        let attached = self.attachment(operation, call, &plugin, "MountVolume.WaitForAttach")?;
        let call = &call.clone().with_attachment(attached.as_ref()).with_mount_group(pod.fs_group);
        if operation.stageable {
            self.stage(operation, call, &plugin, attached.as_ref(), found)?;
        }
        let path = layout::plugin_folder(&pod.uid, &operation.plugin);
        let set_up = || {
            let parent = self
                .kernel
                .make_dirs(&self.root, &path, layout::FOLDER_MODE)
                // The volume itself was not touched: what may stand of it since an earlier try may stand still.
                .map_err(|error| kernel_failure("MountVolume.MakeFolders", FailureClass::Transient, &error))?;
            let target = self.pod_target(&parent, operation, pod.uid.clone())?;
            let outcome = plugin.publish(call, spec, pod, target);
            self.note_conduct(operation, call, outcome.as_ref().err());
            let set_up = outcome.map_err(|error| {
                let class = self.class_after_look(operation, error.class(), &parent);
                Failure::new(class, "MountVolume.SetUp", error.message())
            })?;
            Ok((parent, set_up))
        };
        let (parent, set_up) = match set_up() {
            // The folders of a pod whose last volume has just gone are removed; a new volume of it can find them vanishing.
            Err(_) if self.is_absent(&path) => set_up()?,
            outcome => outcome?,
        };
        // From here on the volume stands: whatever fails, it may be in use.
        let stands = match self.kernel.entry(&parent, OsStr::new(operation.spec_name.as_str())) {
            Ok(Entry::Mount(_)) => {
                self.standing.stands(volume_place(operation, &pod.uid));
                Stands::Mount
            }
            Ok(_) => Stands::Folder,
            Err(error) => return Err(kernel_failure("MountVolume.Check", FailureClass::Uncertain, &error)),
        };
        self.expand_while_mounting(operation, call, &plugin, attached.as_ref(), found);
        self.prepare_sub_paths(operation, call, &pod.uid, &parent)?;
        let record = Record::new(
            pod.as_ref().clone(),
            operation.plugin.clone(),
            plugin.info().digest.clone(),
            operation.volume.clone(),
            spec.as_ref().clone(),
            stands,
        );
        let record = record.on_node(operation.attachable, operation.stageable).watched(set_up.watched_size);
        self.write_record(&record.for_containers(&operation.container_mounts).made_of(&operation.needs));
        self.sizes.watch(pod, &operation.plugin, &operation.spec_name, set_up.watched_size);
        Ok(())
    }

    /// The class of a failed set-up after a look at its target: what is there may be mounted,
    /// whatever the plugin says. A mount that was only refreshed was there before.
    fn class_after_look(&self, operation: &Operation, class: FailureClass, parent: &Directory) -> FailureClass {
        if matches!(operation.kind, OperationKind::Mount { remount: true, .. }) {
            return class;
        }
        match self.kernel.entry(parent, OsStr::new(operation.spec_name.as_str())) {
            Ok(Entry::Absent) => class,
            // A folder that was made for the mount, and got none.
            Ok(Entry::Folder) if self.is_empty(parent, operation.spec_name.as_str()) => class,
            Ok(_) | Err(_) => FailureClass::Uncertain,
        }
    }

    fn is_empty(&self, parent: &Directory, name: &str) -> bool {
        let names = self.kernel.walk(parent, Path::new(name)).and_then(|folder| self.kernel.names(&folder));
        names.is_ok_and(|names| names.is_empty())
    }

    /// Takes the pod's mount away.
    pub(super) fn unmount(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        let Some(pod) = &operation.pod_uid else {
            return Err(Failure::new(FailureClass::Transient, "UnmountVolume", "no pod is named"));
        };
        self.standing.leaves(&volume_place(operation, pod));
        self.sizes.forget(pod, &operation.plugin, &operation.spec_name);
        let parts_gone = self.clean_sub_paths(operation, call, pod)?;
        let parent = self
            .open_if_there(&layout::plugin_folder(pod, &operation.plugin))
            .map_err(|error| kernel_failure("UnmountVolume.OpenFolder", FailureClass::Uncertain, &error))?;
        if let Some(parent) = parent {
            match self.tear_down_plugin(operation, Some(pod)) {
                Some(plugin) => {
                    let target = self.pod_target(&parent, operation, pod.clone())?;
                    let outcome = plugin.unpublish(call, target);
                    self.note_conduct(operation, call, outcome.as_ref().err());
                    outcome.map_err(|error| {
                        // The plugin's word that it has not begun counts only while the mount is there.
                        let stands = self.kernel.entry(&parent, OsStr::new(operation.spec_name.as_str()));
                        let changed = parts_gone || !matches!(stands, Ok(Entry::Mount(_)));
                        if !changed {
                            self.standing.stands(volume_place(operation, pod));
                        }
                        Failure::new(tear_down_class(&error, changed), "UnmountVolume.TearDown", error.message())
                    })?;
                }
                None => self.tear_down_without_plugin(&parent, operation)?,
            }
        }
        // After the mount: what it shows may lie in there.
        self.private_folder(operation, pod)
            .remove(&*self.kernel)
            .map_err(|error| kernel_failure("UnmountVolume.RemovePrivateFolder", FailureClass::Uncertain, &error))?;
        if let Err(error) = self.records.remove(pod, &operation.plugin, &operation.spec_name) {
            warn!(volume = %operation.volume, %error, "the volume is gone, but its record could not be removed");
        }
        Ok(())
    }

    #[instrument(name = "WriteRecord", level = "debug", skip_all)]
    pub(super) fn write_record(&self, record: &Record) {
        if let Err(error) = self.records.write(record) {
            // Without a record the volume is only set up once more after a restart.
            warn!(volume = %record.unique_name, %error, "the volume stands, but its record could not be written");
        }
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

    /// What the volume may keep beside what the pod sees.
    pub(super) fn private_folder(&self, operation: &Operation, pod: &PodUid) -> PrivateFolder {
        PrivateFolder {
            root: Arc::clone(&self.root),
            parent: layout::private_folder(pod, &operation.plugin),
            name: operation.spec_name.as_str().into(),
        }
    }

    fn pod_target(&self, parent: &Directory, operation: &Operation, pod: PodUid) -> Result<Target, Failure> {
        let place = self.place(parent, operation.spec_name.as_str())?;
        Ok(Target {
            parent: place.parent,
            name: place.name,
            pod_uid: Some(pod.clone()),
            spec_name: operation.spec_name.clone(),
            staging_mount: self.staging_mount(operation)?,
            private: Some(self.private_folder(operation, &pod)),
            sharers: self.sharers(operation)?,
            needed: self.needed_places(operation, &pod)?,
        })
    }

    /// Where the pod's other volumes stand that the operation's is made of.
    fn needed_places(&self, operation: &Operation, pod: &PodUid) -> Result<Vec<NeededPlace>, Failure> {
        let place = |needed: &NeededVolume| {
            let (plugin, spec_name) = (needed.plugin.clone(), needed.spec_name.clone());
            let standing = VolumePlace { pod: pod.clone(), plugin, spec_name };
            let parent = self
                .kernel
                .walk(&self.root, &layout::plugin_folder(pod, &needed.plugin))
                .map_err(|error| kernel_failure("MountVolume.OpenNeeded", FailureClass::Transient, &error))?;
            let place = Place { parent, name: needed.spec_name.as_str().into() };
            let is_mount = self.standing.has(&standing);
            Ok(NeededPlace { name: needed.name.as_str().to_owned(), place, is_mount })
        };
        operation.needs.iter().map(place).collect()
    }
}

fn volume_place(operation: &Operation, pod: &PodUid) -> VolumePlace {
    VolumePlace { pod: pod.clone(), plugin: operation.plugin.clone(), spec_name: operation.spec_name.clone() }
}
