//! What stands in the pods' folders when the process starts. The kernel's word counts; records only add what it cannot know.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use volhost_core::{RecoveredDevice, RecoveredVolume};
use volhost_kernel::{Directory, Entry, ErrorKind, KernelError, is_temporary};
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};

use super::layout;
use super::record_sweep;
use super::records::{Record, Stands};
use super::recovery_devices::{FoundDevices, Shown};
use super::standing::VolumePlace;
use super::volume_ops::VolumeOps;
use super::volume_sizes::VolumeSizes;

/// What was found.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Volumes that stand, or may stand, in pods' folders.
    pub volumes: Vec<RecoveredVolume>,
    /// Volumes that the node has, or may have.
    pub devices: Vec<RecoveredDevice>,
    /// The digests of the plugins that set them up: their compiled code is still needed.
    pub digests: BTreeSet<String>,
    /// What could not be read or does not belong there, and stays as it is: `(what, why)`.
    pub problems: Vec<(String, String)>,
}

/// One place in a pod's folder.
struct Standing<'a> {
    pod: &'a PodUid,
    plugin: PluginName,
    spec_name: SpecName,
    /// What stands there, as far as it is something whole.
    stands: Option<Stands>,
    /// What a mount there shows.
    source: Option<Shown>,
    record: Option<Record>,
    /// What the record tells of besides stands too.
    intact: bool,
}

impl VolumeOps {
    /// Looks through `pods/*/volumes/*/*`, `pods/*/volumeDevices/*/*`, `pods/*/plugins/*/*` and what the node has of volumes, and removes the empty folders of
    /// pods without volumes and the records that have outlived theirs. Nothing that is mounted is entered, so a dead server cannot
    /// hold it up. What cannot be read is reported and does not hide the rest.
    ///
    /// # Errors
    /// When the pods' folder itself cannot be read.
    pub fn recover(&self) -> Result<Recovery, KernelError> {
        let mut found = Recovery::default();
        let devices = self.recover_devices(&mut found);
        let mut standing = record_sweep::Standing::default();
        self.recover_pods(&devices, &mut standing, &mut found)?;
        if let Err(error) = self.records.sweep(&standing) {
            found.problems.push(("records".to_owned(), error.to_string()));
        }
        found.devices = devices.into_events();
        Ok(found)
    }

    fn recover_pods(
        &self,
        devices: &FoundDevices,
        standing: &mut record_sweep::Standing,
        found: &mut Recovery,
    ) -> Result<(), KernelError> {
        let pods = match self.kernel.walk(&self.root, Path::new(layout::PODS)) {
            Ok(pods) => pods,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for name in self.kernel.names(&pods)? {
            let path = Path::new(layout::PODS).join(&name);
            let Some(pod) = name.to_str().and_then(|name| PodUid::new(name).ok()) else {
                found
                    .problems
                    .push((path.display().to_string(), "its name is no pod uid; the host did not make it".to_owned()));
                continue;
            };
            let (before, unread) = (found.volumes.len(), found.problems.len());
            self.recover_volumes_of(&pod, devices, found);
            for volume in found.volumes.iter().skip(before) {
                standing.add(&pod, &volume.plugin, &volume.spec_name);
            }
            if found.problems.len() > unread {
                standing.add_unread(&pod);
            }
            if found.volumes.len() == before
                && found.problems.len() == unread
                && let Err(error) = self.forget_pod(&pod)
            {
                found.problems.push((path.display().to_string(), error.to_string()));
            }
        }
        Ok(())
    }

    /// Notes the volumes that stand in a pod's folder, or may.
    pub(super) fn recover_volumes_of(&self, pod: &PodUid, devices: &FoundDevices, found: &mut Recovery) {
        for kind in [layout::VOLUMES, layout::VOLUME_DEVICES, layout::PRIVATE] {
            let path = Path::new(layout::PODS).join(pod.as_str()).join(kind);
            match self.open_if_there(&path) {
                Ok(Some(folder)) => self.recover_pod((pod, kind), &folder, &path, devices, found),
                Ok(None) => {}
                Err(error) => found.problems.push((path.display().to_string(), error.to_string())),
            }
        }
    }

    fn recover_pod(
        &self,
        (pod, kind): (&PodUid, &str),
        folder: &Directory,
        path: &Path,
        devices: &FoundDevices,
        found: &mut Recovery,
    ) {
        let Recovery { volumes: standing, digests, problems, .. } = found;
        let mut problem = |path: &Path, why: String| problems.push((path.display().to_string(), why));
        let plugins = match self.kernel.names(folder) {
            Ok(plugins) => plugins,
            Err(error) => return problem(path, error.to_string()),
        };
        for name in plugins {
            let path = path.join(&name);
            let Some(plugin) = name.to_str().and_then(|name| PluginName::from_escaped(name).ok()) else {
                problem(&path, "its name is no plugin's; the host did not make it".to_owned());
                continue;
            };
            let volumes =
                self.kernel.walk(folder, Path::new(&name)).and_then(|dir| Ok((self.kernel.names(&dir)?, dir)));
            let (volumes, dir) = match volumes {
                Ok(volumes) => volumes,
                Err(error) => {
                    problem(&path, error.to_string());
                    continue;
                }
            };
            for name in volumes {
                let path = path.join(&name);
                if is_temporary(&name) {
                    if let Err(error) = self.kernel.remove_file(&dir, &name) {
                        problem(&path, error.to_string());
                    }
                    continue;
                }
                let Some(spec_name) = name.to_str().and_then(|name| SpecName::new(name).ok()) else {
                    problem(&path, "its name is no volume's; the host did not make it".to_owned());
                    continue;
                };
                // A private folder is a part of a volume; alone, it is what an interrupted set-up or tear-down left.
                let private = kind == layout::PRIVATE;
                let same =
                    |one: &RecoveredVolume| (&one.pod, &one.plugin, &one.spec_name) == (pod, &plugin, &spec_name);
                if private && standing.iter().any(same) {
                    continue;
                }
                let record = self.records.read(pod, &plugin, &spec_name).unwrap_or_else(|error| {
                    problem(&path, error.to_string());
                    None
                });
                let name = OsStr::new(spec_name.as_str());
                let stands = match self.kernel.entry(&dir, name) {
                    _ if private => None,
                    Ok(Entry::Mount(_)) => Some(Stands::Mount),
                    Ok(Entry::Folder) => Some(Stands::Folder),
                    Ok(Entry::Symlink) => self.mapped(pod, &plugin, record.as_ref()),
                    Ok(_) => None,
                    Err(error) => {
                        problem(&path, error.to_string());
                        None
                    }
                };
                let source = match (&record, stands) {
                    (None, Some(Stands::Mount)) => self.kernel.mount_at(&dir, name).ok().flatten(),
                    _ => None,
                };
                digests.extend(record.as_ref().map(|record| record.digest.clone()));
                if stands == Some(Stands::Mount) {
                    let (pod, plugin, spec_name) = (pod.clone(), plugin.clone(), spec_name.clone());
                    self.standing.stands(VolumePlace { pod, plugin, spec_name });
                }
                if let Some(record) = &record {
                    self.sizes.watch(&record.pod, &plugin, &spec_name, record.watched_size);
                }
                let source = source.map(|mount| (mount.source, mount.root));
                let intact = record.as_ref().is_some_and(|record| self.shows_recorded_parts(pod, record));
                let place = Standing { pod, plugin: plugin.clone(), spec_name, stands, source, record, intact };
                standing.push(recovered(place, devices, &self.volume_sizes));
            }
        }
    }

    /// A link in a pod's folder is a device only while the device is mapped for the pod, and pinned. A crash in the middle of an unmap leaves
    /// it without its pin, which it gets again: the pod may be wanted.
    fn mapped(&self, pod: &PodUid, plugin: &PluginName, record: Option<&Record>) -> Option<Stands> {
        let folder = layout::map_folder(plugin, &record?.unique_name);
        let maps = self.open_if_there(&folder).ok()??;
        let name = OsStr::new(pod.as_str());
        self.kernel.mapped_device(&maps, name).ok()??;
        self.kernel.pin_device(&maps, name).ok()?;
        Some(Stands::Device)
    }
}

fn recovered(place: Standing<'_>, devices: &FoundDevices, sizes: &VolumeSizes) -> RecoveredVolume {
    let Standing { pod, plugin, spec_name, stands, source, mut record, intact } = place;
    // The volume may have grown since it was recorded, or have been refused to.
    if let Some(record) = &mut record
        && let Some(volume) = &mut record.spec.persistent_volume
        && let Some(known) = sizes.of(&record.unique_name)
    {
        volume.capacity = Some(known.bytes);
    }
    match record {
        Some(record) => RecoveredVolume {
            pod: pod.clone(),
            // A mount that vanished and left its folder is not intact, whatever the record says.
            intact: intact && stands == Some(record.stands),
            known_pod: Some(Arc::new(record.pod)),
            plugin,
            spec_name,
            unique_name: record.unique_name,
            spec: Some(Arc::new(record.spec)),
            attachable: record.attachable,
            stageable: record.stageable,
            container_mounts: record.container_mounts.into(),
            needs: record.needs.into(),
        },
        None => {
            let mapped_for = stands.is_none().then_some(pod);
            let behind = devices.behind(&plugin, &spec_name, source.as_ref(), mapped_for);
            let (unique_name, attachable, stageable) = match behind {
                Some((name, found)) => (name.clone(), found.attachable, found.stageable),
                None => (UniqueVolumeName::of_pod(&plugin, pod, &spec_name), false, false),
            };
            RecoveredVolume {
                pod: pod.clone(),
                known_pod: None,
                plugin,
                spec_name,
                unique_name,
                spec: None,
                intact: false,
                attachable,
                stageable,
                container_mounts: Arc::default(),
                needs: Arc::default(),
            }
        }
    }
}
