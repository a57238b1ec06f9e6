//! The node's own mount of a volume: made before the first pod's, taken away after the last one's.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use tracing::{instrument, warn};
use volhost_core::{DeviceReport, Operation};
use volhost_kernel::{Detach, Directory, Entry, ErrorKind, KernelError, MountInfo};
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Attachment, Call, Capability, Place, Plugin, PrivateFolder, Target};

use super::layout;
use super::standing::{NodePlace, VolumePlace};
use super::volume_ops::{Findings, VolumeOps, kernel_failure, tear_down_class};

/// How often a volume's folder is made again that vanishes while it is made: there are as many folders above it.
const FOLDER_TRIES: usize = 4;
/// How many of the mounts that keep a device from being unmounted a message names.
const NAMED: usize = 3;

impl VolumeOps {
    /// Mounts the volume for the node, unless it is.
    #[instrument(name = "MountVolume.MountDevice", level = "debug", skip_all)]
    pub(super) fn stage(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let before = self.device_record(operation);
        let was_staged = before.as_ref().is_some_and(|record| record.stageable);
        let outcome = self.stage_recorded(operation, call, (plugin, attached), was_staged, found);
        // Nothing was begun: the next start must not undo it.
        if outcome.is_err() && found.device.is_none() && !was_staged {
            self.restore_device_record(operation, before.as_ref());
        }
        outcome
    }

    fn stage_recorded(
        &self,
        operation: &Operation,
        call: &Call,
        (plugin, attached): (&Arc<Plugin>, Option<&Attachment>),
        was_staged: bool,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        const STEP: &str = "MountVolume.MountDevice";
        let Some(spec) = &operation.spec else { return Ok(()) };
        self.note_device(operation, plugin, |record| {
            record.stageable = true;
            record.spec.selinux_label.clone_from(&spec.selinux_label);
            record.attachable |= operation.attachable;
        });
        let folder = layout::mount_folder(&operation.plugin, &operation.volume);
        // The plugin was not called: what an earlier try has left is still there.
        let parent =
            self.make_volume_folder(&folder).map_err(|error| kernel_failure(STEP, FailureClass::Transient, &error))?;
        self.show_again(operation, &parent).map_err(|error| {
            found.device = Some(DeviceReport::Uncertain);
            kernel_failure(STEP, FailureClass::Uncertain, &error)
        })?;
        let outcome = plugin.stage(call, spec, attached, self.node_target(&parent, operation)?);
        self.note_conduct(operation, call, outcome.as_ref().err());
        match outcome {
            Ok(device) => {
                found.device = Some(DeviceReport::Mounted);
                if matches!(self.kernel.entry(&parent, OsStr::new(layout::GLOBAL_MOUNT)), Ok(Entry::Mount(_))) {
                    self.standing.stands_on_node(node_place(operation));
                }
                if let Some(device) = device.map(|path| path.to_string_lossy().into_owned()) {
                    // So that it can be looked after when the mount goes.
                    self.note_device(operation, plugin, |record| record.device = Some(device));
                }
                Ok(())
            }
            Err(error) if was_staged => {
                // The volume was staged before, and a driver may stage without a mount. Neither an
                // empty folder nor the plugin's word proves that it no longer is.
                found.device = after_restage(error.class());
                Err(Failure::new(error.class(), STEP, error.message()))
            }
            Err(error) => {
                drop(parent);
                self.forget_volume_folder(&folder, OsStr::new(layout::GLOBAL_MOUNT));
                // What is left there may be mounted, whatever the plugin says.
                let class = if self.is_absent(&folder) { error.class() } else { FailureClass::Uncertain };
                found.device = match class {
                    FailureClass::Uncertain => Some(DeviceReport::Uncertain),
                    FailureClass::Final => Some(DeviceReport::Unmounted),
                    FailureClass::Transient => None,
                };
                if class == FailureClass::Final {
                    self.device_is_gone(operation);
                }
                Err(Failure::new(class, STEP, error.message()))
            }
        }
    }

    /// Where others took the node's own mount away and a pod has the volume still: shows at the node's place what the pod has. A plugin could not
    /// mount a device that is in use.
    fn show_again(&self, operation: &Operation, parent: &Directory) -> Result<(), KernelError> {
        let name = OsStr::new(layout::GLOBAL_MOUNT);
        let Some(device) = self.device_record(operation).and_then(|record| record.device) else { return Ok(()) };
        if matches!(self.kernel.entry(parent, name)?, Entry::Mount(_)) {
            return Ok(());
        }
        let of_volume =
            |place: &VolumePlace| place.plugin == operation.plugin && place.spec_name == operation.spec_name;
        for place in self.standing.all().into_iter().filter(of_volume) {
            let Some(of_pod) = self.open_if_there(&layout::plugin_folder(&place.pod, &place.plugin))? else { continue };
            let inner = Path::new(place.spec_name.as_str());
            let shown = self.kernel.mount_at(&of_pod, inner.as_os_str())?;
            if !shown.is_some_and(|mount| shows_all_of(&mount, &device)) {
                continue;
            }
            let root = self.kernel.walk(&of_pod, inner)?;
            self.kernel.attach(self.kernel.bind(&self.kernel.source(&root)?, false)?, parent, name)?;
            // The pod's may have gone since it was looked at, and the folder below was shown.
            if self.kernel.mount_at(parent, name)?.is_some_and(|mount| shows_all_of(&mount, &device)) {
                return Ok(());
            }
            self.kernel.detach(parent, name, Detach::Normal)?;
        }
        Ok(())
    }

    /// Takes the node's own mount away, once nothing refers to it.
    pub(super) fn unmount_device(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        self.standing.leaves_node(&node_place(operation));
        let folder = layout::mount_folder(&operation.plugin, &operation.volume);
        let failed = |error: KernelError| kernel_failure("UnmountDevice.OpenFolder", FailureClass::Uncertain, &error);
        let record = self.device_record(operation);
        let parent = match self.open_if_there(&folder).map_err(failed)? {
            // A driver may stage without a mount. Its plugin has to unstage the volume although
            // another process has removed the folder.
            None if record.as_ref().is_some_and(|record| record.stageable) => {
                Some(self.make_volume_folder(&folder).map_err(failed)?)
            }
            parent => parent,
        };
        let mut device = record.and_then(|record| record.device);
        // Without a record, a plugin that attaches nothing may have mounted a folder of a disk that is the node's own.
        let of_device = device.is_some() || self.may_attach(operation);
        if let Some(parent) = parent {
            let name = OsStr::new(layout::GLOBAL_MOUNT);
            let mount = self
                .kernel
                .mount_at(&parent, name)
                .map_err(|error| kernel_failure("UnmountDevice.Look", FailureClass::Uncertain, &error))?;
            if let Some(mount) = mount.filter(|mount| of_device && is_of_device(mount)) {
                self.check_references(&folder, &mount)?;
                device = device.or_else(|| Some(mount.source.to_string_lossy().into_owned()));
            }
            self.unmount_staging_mount(operation, call, &parent)?;
        }
        if let Some(path) = &device {
            self.check_not_in_use("UnmountDevice.CheckDevice", path)?;
        }
        self.forget_volume_folder(&folder, OsStr::new(layout::GLOBAL_MOUNT));
        self.device_is_gone(operation);
        Ok(())
    }

    /// Whether the volume's plugin attaches volumes, as far as it is known.
    fn may_attach(&self, operation: &Operation) -> bool {
        self.tear_down_plugin(operation, None).is_none_or(|plugin| plugin.exports(Capability::Attacher))
    }

    fn unmount_staging_mount(&self, operation: &Operation, call: &Call, parent: &Directory) -> Result<(), Failure> {
        const STEP: &str = "UnmountDevice";
        let plugin = self.tear_down_plugin(operation, None).filter(|plugin| plugin.exports(Capability::Stager));
        let Some(plugin) = plugin else {
            // Every mount there was made by the host, so the host can take it away alone.
            return self
                .kernel
                .detach(parent, OsStr::new(layout::GLOBAL_MOUNT), Detach::Normal)
                .map_err(|error| kernel_failure(STEP, FailureClass::Uncertain, &error));
        };
        let name = layout::volume_name(&operation.plugin, &operation.volume);
        let is_mounted = || matches!(self.kernel.entry(parent, OsStr::new(layout::GLOBAL_MOUNT)), Ok(Entry::Mount(_)));
        let was_mounted = is_mounted();
        let outcome = plugin.unstage(call, name, self.node_target(parent, operation)?);
        self.note_conduct(operation, call, outcome.as_ref().err());
        outcome.map_err(|error| {
            // The plugin's word that it has not begun counts only while the kernel shows the same as before.
            let changed = was_mounted && !is_mounted();
            if was_mounted && !changed {
                self.standing.stands_on_node(node_place(operation));
            }
            Failure::new(tear_down_class(&error, changed), STEP, error.message())
        })
    }

    /// No pod's folder may show the device's file system any more: what a container still uses must not vanish below it.
    fn check_references(&self, own: &Path, mount: &MountInfo) -> Result<(), Failure> {
        const STEP: &str = "UnmountDevice.CheckReferences";
        let all = self
            .kernel
            .mounts_below(&self.root)
            .map_err(|error| kernel_failure(STEP, FailureClass::Uncertain, &error))?;
        let others: Vec<String> = all
            .iter()
            .filter(|other| other.source == mount.source && other.fs_type == mount.fs_type)
            .filter(|other| !other.point.starts_with(own))
            .map(|other| other.point.display().to_string())
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let named = others.get(..NAMED.min(others.len())).unwrap_or_default().join(", ");
        let more = others.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(Failure::new(
            FailureClass::Uncertain,
            STEP,
            format!("the device mount is still mounted by other references: {named}{more}; unmount them"),
        ))
    }

    /// Where the node's own mount of the operation's volume is, if the volume has one.
    pub(super) fn staging_mount(&self, operation: &Operation) -> Result<Option<Place>, Failure> {
        if !operation.stageable {
            return Ok(None);
        }
        let folder = layout::mount_folder(&operation.plugin, &operation.volume);
        let parent = self
            .open_if_there(&folder)
            .map_err(|error| kernel_failure("OpenStagingMount", FailureClass::Transient, &error))?;
        Ok(parent.map(|parent| Place { parent, name: layout::GLOBAL_MOUNT.into() }))
    }

    /// The target of the node's own mount.
    pub(super) fn node_target(&self, parent: &Directory, operation: &Operation) -> Result<Target, Failure> {
        let place = self.place(parent, layout::GLOBAL_MOUNT)?;
        Ok(Target {
            parent: place.parent,
            name: place.name,
            pod_uid: None,
            spec_name: operation.spec_name.clone(),
            staging_mount: None,
            private: Some(self.note_of_device(operation)),
            sharers: None,
            needed: Vec::new(),
        })
    }

    /// Where the note is kept that the plugin keeps with the node's own mount.
    fn note_of_device(&self, operation: &Operation) -> PrivateFolder {
        let (parent, name) = layout::note_folder(&operation.plugin, &operation.volume);
        PrivateFolder { root: Arc::clone(&self.root), parent, name: name.into() }
    }

    /// Removes the note of the node's own mount, of which nothing is left.
    pub(super) fn forget_note(&self, operation: &Operation) {
        if let Err(error) = self.note_of_device(operation).remove(&*self.kernel) {
            warn!(volume = %operation.volume, %error, "the note of the node's own mount could not be removed");
        }
    }

    /// The node has the volume no more, but for its attachment.
    pub(super) fn device_is_gone(&self, operation: &Operation) {
        self.forget_note(operation);
        let outcome = match self.device_record(operation) {
            Some(mut record) if record.attachable => {
                record.stageable = false;
                self.records.write_device(&record)
            }
            _ => self.records.remove_device(&operation.volume),
        };
        if let Err(error) = outcome {
            warn!(volume = %operation.volume, %error, "the volume is gone from the node, but its record could not be changed");
        }
    }

    /// Makes a volume's folder below its plugin's. Those above may be vanishing meanwhile with the plugin's last other volume.
    pub(super) fn make_volume_folder(&self, folder: &Path) -> Result<Directory, KernelError> {
        let make = || self.kernel.make_dirs(&self.root, folder, layout::FOLDER_MODE);
        let mut made = make();
        for _ in 0..FOLDER_TRIES {
            match made {
                Err(error) if error.kind() == ErrorKind::NotFound => made = make(),
                _ => break,
            }
        }
        made
    }

    /// Removes the folder of a volume of which nothing stands any more, with the empty ones above it. What is not empty stays.
    pub(super) fn forget_volume_folder(&self, folder: &Path, inner: &OsStr) {
        let empty = |parent: &Path, name: &OsStr| match self.open_if_there(parent) {
            Ok(Some(parent)) => match self.kernel.entry(&parent, name) {
                Ok(Entry::Folder) => self.remove_if_empty(&parent, name),
                _ => Ok(()),
            },
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let mut removed = empty(folder, inner);
        let mut at = folder;
        while let (Ok(()), Some(parent), Some(name)) = (&removed, at.parent(), at.file_name()) {
            // The folder of all plugins stays.
            if parent.as_os_str().is_empty() {
                break;
            }
            removed = empty(parent, name);
            at = parent;
        }
        if let Err(error) = removed {
            warn!(folder = %folder.display(), %error, "an empty folder could not be removed");
        }
    }
}

/// Returns the device report for a call that failed to stage a volume that was staged before.
pub(super) fn after_restage(class: FailureClass) -> Option<DeviceReport> {
    match class {
        // The driver was not asked.
        FailureClass::Transient => None,
        FailureClass::Final | FailureClass::Uncertain => Some(DeviceReport::Uncertain),
    }
}

/// The mount shows the device's whole file system, to be written to, with nobody's files mapped.
fn shows_all_of(mount: &MountInfo, device: &str) -> bool {
    let plain = |option: &String| option != "idmapped";
    !mount.read_only && is_of_device(mount) && mount.source == *device && mount.options.iter().all(plain)
}

fn node_place(operation: &Operation) -> NodePlace {
    NodePlace { plugin: operation.plugin.clone(), volume: operation.volume.clone() }
}

/// The mount shows a block device's whole file system, so that whatever else shows that device refers to the same volume.
fn is_of_device(mount: &MountInfo) -> bool {
    mount.root == Path::new("/") && Path::new(&mount.source).starts_with("/dev")
}
