//! What stands in the pods' folders when the process starts. The kernel's word counts; records only add what it cannot know.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use volhost_core::RecoveredVolume;
use volhost_kernel::{Directory, Entry, ErrorKind, KernelError};
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};

use super::layout;
use super::operation::Workshop;
use super::records::{Record, Stands};

/// What was found.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Volumes that stand, or may stand.
    pub volumes: Vec<RecoveredVolume>,
    /// The digests of the plugins that set them up: their compiled code is still needed.
    pub digests: BTreeSet<String>,
    /// What could not be read or does not belong there, and stays as it is: `(what, why)`.
    pub problems: Vec<(String, String)>,
}

impl Workshop {
    /// Looks through `pods/*/volumes/*/*`, and removes the empty folders of pods without volumes. Nothing that is mounted is entered, so a dead server cannot hold it up. What cannot be read is
    /// reported and does not hide the rest.
    ///
    /// # Errors
    /// When the pods' folder itself cannot be read.
    pub fn recover(&self) -> Result<Recovery, KernelError> {
        let mut found = Recovery::default();
        let pods = match self.kernel.walk(&self.root, Path::new(layout::PODS)) {
            Ok(pods) => pods,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
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
            let before = found.volumes.len();
            match self.kernel.walk(&pods, &Path::new(pod.as_str()).join(layout::VOLUMES)) {
                Ok(folder) => self.recover_pod(&pod, &folder, &path.join(layout::VOLUMES), &mut found),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    found.problems.push((path.display().to_string(), error.to_string()));
                    continue;
                }
            }
            if found.volumes.len() == before
                && let Err(error) = self.forget_pod(&pod)
            {
                found.problems.push((path.display().to_string(), error.to_string()));
            }
        }
        Ok(found)
    }

    fn recover_pod(&self, pod: &PodUid, folder: &Directory, path: &Path, found: &mut Recovery) {
        let Recovery { volumes: standing, digests, problems } = found;
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
                let Some(spec_name) = name.to_str().and_then(|name| SpecName::new(name).ok()) else {
                    problem(&path, "its name is no volume's; the host did not make it".to_owned());
                    continue;
                };
                let record = self.records.read(pod, &plugin, &spec_name).unwrap_or_else(|error| {
                    problem(&path, error.to_string());
                    None
                });
                let stands = match self.kernel.entry(&dir, OsStr::new(spec_name.as_str())) {
                    Ok(Entry::Mount(_)) => Some(Stands::Mount),
                    Ok(Entry::Folder) => Some(Stands::Folder),
                    Ok(_) => None,
                    Err(error) => {
                        problem(&path, error.to_string());
                        None
                    }
                };
                digests.extend(record.as_ref().map(|record| record.digest.clone()));
                standing.push(recovered(pod, plugin.clone(), spec_name, record, stands));
            }
        }
    }
}

fn recovered(
    pod: &PodUid,
    plugin: PluginName,
    spec_name: SpecName,
    record: Option<Record>,
    stands: Option<Stands>,
) -> RecoveredVolume {
    let per_pod = UniqueVolumeName::of_pod(&plugin, pod, &spec_name);
    match record {
        Some(record) => RecoveredVolume {
            pod: pod.clone(),
            // A mount that vanished and left its folder is not intact, whatever the record says.
            intact: stands == Some(record.stands),
            known_pod: Some(Arc::new(record.pod)),
            plugin,
            spec_name,
            unique_name: record.unique_name,
            spec: Some(Arc::new(record.spec)),
            attachable: false,
            device_mountable: false,
        },
        None => RecoveredVolume {
            pod: pod.clone(),
            known_pod: None,
            plugin,
            spec_name,
            unique_name: per_pod,
            spec: None,
            intact: false,
            attachable: false,
            device_mountable: false,
        },
    }
}
