//! Finds the published volumes at the start of the process. The kernel's tables are the truth;
//! records only add what the kernel cannot know.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use tracing::warn;
use volhost_core::RecoveredVolume;
use volhost_kernel::{Directory, Entry, ErrorKind, Kernel, KernelError, is_temporary};
use volhost_model::csi_layout;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_runtime::Place;

use super::expected_mounts::{ExpectedMounts, VolumePlace};
use super::layout;
use super::mount_records::MountRecords;
use super::node_folders::{NodeFolders, PublishFolder, VolumeRef};
use super::parallel;
use super::pod_records::PodRecords;
use super::record_cleanup::{self, FoundPod, FoundVolumes};
use super::records::{MountRecord, MountRecordError, RecordedTarget, RecordedVolume};
pub use super::recovered::Recovery;
use super::recovery_devices::{DeviceScan, FoundDevices, MountOrigin};
use super::size_watch::SizeWatch;
use super::sub_paths::SubPathOps;
use super::volume_data;
use super::volume_records;
use super::volume_sizes::VolumeSizes;

/// One volume in a pod's folder.
struct FoundVolume<'a> {
    pod: &'a PodUid,
    plugin: PluginName,
    spec_name: SpecName,
    /// What is there; none for what is not whole.
    mount_state: Option<RecordedTarget>,
    /// What a mount there shows.
    source: Option<MountOrigin>,
    record: Option<MountRecord>,
    /// The sub-paths in the record are mounted.
    intact: bool,
    /// The volume that the file beside the mount names, if there is no record.
    named: Option<UniqueVolumeName>,
    /// It is mounted at its folder itself, as an earlier version did.
    at_folder: bool,
}

/// The target of a volume in a pod's folder.
struct FoundTarget {
    place: Place,
    entry: Entry,
    is_in_folder: bool,
}

/// The records of a pod, or none because they cannot be used.
pub(super) struct ReadRecords {
    pub(super) records: PodRecords,
    pub(super) is_usable: bool,
}

/// Looks through the pods' folders.
#[derive(Debug)]
pub(super) struct PodScan {
    folders: NodeFolders,
    records: Arc<MountRecords>,
    devices: DeviceScan,
    expected: Arc<ExpectedMounts>,
    sizes: Arc<SizeWatch>,
    volume_sizes: Arc<VolumeSizes>,
    sub_paths: SubPathOps,
}

impl PodScan {
    pub(super) fn new(
        folders: NodeFolders,
        records: Arc<MountRecords>,
        devices: DeviceScan,
        expected: Arc<ExpectedMounts>,
        sizes: Arc<SizeWatch>,
        volume_sizes: Arc<VolumeSizes>,
    ) -> Self {
        let sub_paths = SubPathOps::new(folders.clone());
        Self { folders, records, devices, expected, sizes, volume_sizes, sub_paths }
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Looks through `pods/*/volumes/*/*`, `pods/*/volumeDevices/*/*`, `pods/*/plugins/*/*` and the
    /// attached and staged volumes. Removes the empty folders of pods without volumes, and the
    /// records that have outlived their volumes. Enters no mount, so a dead server cannot block it.
    /// What cannot be read is reported and does not hide the rest.
    ///
    /// # Errors
    /// When the pods' folder itself cannot be read.
    pub(super) fn recover(&self) -> Result<Recovery, KernelError> {
        let mut found = Recovery::default();
        volume_records::move_into(&self.records, &mut found.problems);
        let devices = self.devices.recover(&mut found);
        let mut volumes = FoundVolumes::default();
        self.recover_pods(&devices, &mut volumes, &mut found)?;
        if let Err(error) = record_cleanup::clean(&self.records, self.devices.records(), &volumes) {
            found.problems.push(("records".to_owned(), error.to_string()));
        }
        found.devices = devices.into_events();
        Ok(found)
    }

    /// Removes the empty folders and records of a pod that has no volumes any more. Returns whether
    /// nothing is left of it.
    ///
    /// # Errors
    /// As [`NodeFolders::forget_pod`].
    pub(super) fn forget_pod(&self, pod: &PodUid) -> Result<bool, KernelError> {
        match self.records.forget_pod(pod, || self.folders.forget_pod(pod)) {
            Ok(is_gone) => Ok(is_gone),
            Err(MountRecordError::Kernel(error)) => Err(error),
            Err(error) => {
                warn!(%pod, %error, "the pod's records could not be removed");
                Ok(false)
            }
        }
    }

    fn recover_pods(
        &self,
        devices: &FoundDevices,
        volumes: &mut FoundVolumes,
        found: &mut Recovery,
    ) -> Result<(), KernelError> {
        let names = match self.kernel().list(self.folders.root(), Path::new(layout::PODS)) {
            Ok((_, names)) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for (of_pod, found_there) in parallel::map(&names, |name| self.recover_pod_folder(name, devices)) {
            found.add(found_there);
            if let Some(of_pod) = of_pod {
                volumes.add(of_pod);
            }
        }
        Ok(())
    }

    /// Looks through the folder of one pod.
    fn recover_pod_folder(&self, name: &OsStr, devices: &FoundDevices) -> (Option<FoundPod>, Recovery) {
        let mut found = Recovery::default();
        let path = Path::new(layout::PODS).join(name);
        let Some(pod) = name.to_str().and_then(|name| PodUid::new(name).ok()) else {
            found
                .problems
                .push((path.display().to_string(), "its name is no pod uid; the host did not make it".to_owned()));
            return (None, found);
        };
        let records = self.read_records(&pod, &mut found);
        let unread = found.problems.len();
        self.recover_volumes_with(&pod, &records, devices, &mut found);
        let is_unread = found.problems.len() > unread;
        if found.volumes.is_empty()
            && !is_unread
            && let Err(error) = self.forget_pod(&pod)
        {
            found.problems.push((path.display().to_string(), error.to_string()));
        }
        (Some(FoundPod::new(pod, records, &found.volumes, is_unread)), found)
    }

    /// Adds the volumes in a pod's folder that are published, or may be.
    pub(super) fn recover_volumes_of(&self, pod: &PodUid, devices: &FoundDevices, found: &mut Recovery) {
        let records = self.read_records(pod, found);
        self.recover_volumes_with(pod, &records, devices, found);
    }

    /// Reads the records of a pod; none, and a problem, if they cannot be used.
    fn read_records(&self, pod: &PodUid, found: &mut Recovery) -> ReadRecords {
        match self.records.read(pod) {
            Ok(records) => ReadRecords { records, is_usable: true },
            Err(error) => {
                found
                    .problems
                    .push((Path::new(layout::PODS).join(pod.as_str()).display().to_string(), error.to_string()));
                ReadRecords { records: PodRecords::default(), is_usable: false }
            }
        }
    }

    fn recover_volumes_with(&self, pod: &PodUid, records: &ReadRecords, devices: &FoundDevices, found: &mut Recovery) {
        for kind in [layout::VOLUMES, layout::VOLUME_DEVICES, layout::PRIVATE] {
            let path = Path::new(layout::PODS).join(pod.as_str()).join(kind);
            match self.kernel().list(self.folders.root(), &path) {
                Ok(listed) => self.recover_pod((pod, kind), listed, &path, (&records.records, devices), found),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => found.problems.push((path.display().to_string(), error.to_string())),
            }
        }
    }

    fn recover_pod(
        &self,
        (pod, kind): (&PodUid, &str),
        (folder, plugins): (Directory, Vec<OsString>),
        path: &Path,
        (records, devices): (&PodRecords, &FoundDevices),
        found: &mut Recovery,
    ) {
        let Recovery { volumes: all, digests, problems, .. } = found;
        let mut problem = |path: &Path, why: String| problems.push((path.display().to_string(), why));
        for name in plugins {
            let path = path.join(&name);
            let Some(plugin) = name.to_str().and_then(|name| PluginName::from_escaped(name).ok()) else {
                problem(&path, "its name is no plugin's; the host did not make it".to_owned());
                continue;
            };
            let (dir, volumes) = match self.kernel().list(&folder, Path::new(&name)) {
                Ok(listed) => listed,
                Err(error) => {
                    problem(&path, error.to_string());
                    continue;
                }
            };
            for name in volumes {
                let path = path.join(&name);
                if is_temporary(&name) {
                    if let Err(error) = self.kernel().remove_file(&dir, &name) {
                        problem(&path, error.to_string());
                    }
                    continue;
                }
                let Some(spec_name) = name.to_str().and_then(|name| SpecName::new(name).ok()) else {
                    problem(&path, "its name is no volume's; the host did not make it".to_owned());
                    continue;
                };
                // A private folder is a part of a volume; alone, an interrupted publish or
                // unpublish left it.
                let private = kind == layout::PRIVATE;
                let same = |one: &RecoveredVolume| (&one.plugin, &one.spec_name) == (&plugin, &spec_name);
                if private && all.iter().any(same) {
                    continue;
                }
                let record = records.get(&(plugin.clone(), spec_name.clone())).cloned();
                let target = match self.target_in(kind, &dir, (&plugin, &spec_name), pod) {
                    Ok(target) => target,
                    Err(error) => {
                        problem(&path, error.to_string());
                        None
                    }
                };
                let mount_state = match target.as_ref().map(|target| target.entry) {
                    _ if private => None,
                    Some(Entry::Mount(_)) => Some(RecordedTarget::Mount),
                    Some(Entry::Folder) => Some(RecordedTarget::Folder),
                    Some(Entry::Symlink) => {
                        self.mapped(pod, &plugin, &spec_name, record.as_ref().map(|record| &record.volume))
                    }
                    Some(_) | None => None,
                };
                let source = match (&record, mount_state, &target) {
                    (None, Some(RecordedTarget::Mount), Some(FoundTarget { place, .. })) => {
                        self.kernel().mount_at(&place.parent, &place.name).ok().flatten()
                    }
                    _ => None,
                };
                // What the kubelet or an earlier run wrote beside the mount names the volume.
                let named = match (&record, target.as_ref().filter(|target| target.is_in_folder)) {
                    (None, Some(target)) => volume_data::named_in(self.kernel(), &target.place.parent, &plugin)
                        .unwrap_or_else(|error| {
                            problem(&path, error.to_string());
                            None
                        }),
                    _ => None,
                };
                let at_folder = !private
                    && kind == layout::VOLUMES
                    && csi_layout::mount_in_folder(&plugin).is_some()
                    && target.as_ref().is_some_and(|target| !target.is_in_folder);
                digests.extend(record.as_ref().map(|record| record.volume.digest.clone()));
                if let Some(Entry::Mount(mount)) = target.as_ref().map(|target| target.entry).filter(|_| !private) {
                    let (pod, plugin, spec_name) = (pod.clone(), plugin.clone(), spec_name.clone());
                    self.expected.add_published(VolumePlace { pod, plugin, spec_name }, Some(mount));
                }
                if let Some(record) = &record {
                    self.sizes.watch(&record.pod, &plugin, &spec_name, record.volume.watched_size);
                }
                let source = source.map(|mount| (mount.source, mount.root));
                let intact = record.as_ref().is_some_and(|record| self.sub_paths.are_mounted(pod, &record.volume));
                let place = FoundVolume {
                    pod,
                    plugin: plugin.clone(),
                    spec_name,
                    mount_state,
                    source,
                    record,
                    intact,
                    named,
                    at_folder,
                };
                all.push(recovered(place, devices, &self.volume_sizes));
            }
        }
    }

    /// Finds what is at the target of a volume, whose folder in its plugin's `dir` was found.
    fn target_in(
        &self,
        kind: &str,
        dir: &Directory,
        (plugin, spec_name): (&PluginName, &SpecName),
        pod: &PodUid,
    ) -> Result<Option<FoundTarget>, KernelError> {
        let found = if kind == layout::VOLUMES {
            self.folders.publish_folder_in(dir.clone(), plugin, spec_name, pod)?
        } else {
            Some(PublishFolder::at_folder(dir.clone(), spec_name))
        };
        let Some(folder) = found else { return Ok(None) };
        let is_in_folder = folder.is_in_folder();
        let place = folder.place;
        let entry = self.kernel().entry(&place.parent, &place.name)?;
        Ok(Some(FoundTarget { place, entry, is_in_folder }))
    }

    /// A link in a pod's folder is a device only while the device is mapped for the pod, and
    /// pinned. A crash in the middle of an unmap leaves it without its pin, which it gets again:
    /// the pod may still be desired.
    fn mapped(
        &self,
        pod: &PodUid,
        plugin: &PluginName,
        spec_name: &SpecName,
        record: Option<&RecordedVolume>,
    ) -> Option<RecordedTarget> {
        let volume = VolumeRef { plugin, volume: &record?.unique_name, spec_name, is_staged: true };
        let maps = self.folders.device(volume).maps().ok()??;
        let name = OsStr::new(pod.as_str());
        self.kernel().mapped_device(&maps, name).ok()??;
        self.kernel().pin_device(&maps, name).ok()?;
        Some(RecordedTarget::Device)
    }
}

fn recovered(place: FoundVolume<'_>, devices: &FoundDevices, sizes: &VolumeSizes) -> RecoveredVolume {
    let FoundVolume { pod, plugin, spec_name, mount_state, source, mut record, intact, named, at_folder } = place;
    // The volume may have grown since it was recorded, or have been refused to.
    if let Some(MountRecord { volume: recorded, .. }) = &mut record
        && recorded.spec.persistent_volume.is_some()
        && let Some(known) = sizes.of(&recorded.unique_name)
        && let Some(volume) = &mut Arc::make_mut(&mut recorded.spec).persistent_volume
    {
        volume.capacity = Some(known.bytes);
    }
    match record {
        Some(MountRecord { pod: known_pod, volume: record }) => RecoveredVolume {
            pod: pod.clone(),
            // A mount that vanished and left its folder is not intact, whatever the record says.
            intact: intact && mount_state == Some(record.mount_state),
            known_pod: Some(known_pod),
            plugin,
            spec_name,
            unique_name: record.unique_name,
            spec: Some(record.spec),
            attachable: record.attachable,
            stageable: record.stageable,
            at_folder,
            container_mounts: record.container_mounts.into(),
            needs: record.needs.into(),
        },
        None => {
            let mapped_for = mount_state.is_none().then_some(pod);
            let behind = devices.behind(&plugin, &spec_name, source.as_ref(), mapped_for);
            let (unique_name, attachable, stageable) = match (named, behind) {
                (Some(name), _) => match devices.get(&name) {
                    Some(found) => (name, found.attachable, found.stageable),
                    // Attached only, or staged without a trace: undoing what was not done does no harm.
                    None => (name, true, true),
                },
                (None, Some((name, found))) => (name.clone(), found.attachable, found.stageable),
                (None, None) => (UniqueVolumeName::of_pod(&plugin, pod, &spec_name), false, false),
            };
            RecoveredVolume {
                pod: pod.clone(),
                known_pod: None,
                plugin,
                spec_name,
                unique_name,
                spec: None,
                intact: false,
                at_folder,
                attachable,
                stageable,
                container_mounts: Arc::default(),
                needs: Arc::default(),
            }
        }
    }
}
