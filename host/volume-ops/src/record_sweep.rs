//! Clearing the records at the start, when nothing writes them: what a crash in the middle of a write left, and records that have
//! outlived their volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use volhost_kernel::{Directory, ErrorKind, KernelError, is_temporary};
use volhost_model::names::{PluginName, PodUid, SpecName};

use super::records::{self, RecordError, Records, file_name};
use super::{device_records, layout};

/// What was found in pods' folders: whose records stay.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The volumes of each pod, by the names of their records.
    volumes: BTreeMap<PodUid, BTreeSet<OsString>>,
    /// Pods whose folder could not be read to the end: all their records stay.
    unread: BTreeSet<PodUid>,
}

impl Standing {
    /// A volume stands, or may stand.
    pub(super) fn add(&mut self, pod: &PodUid, plugin: &PluginName, spec_name: &SpecName) {
        self.volumes.entry(pod.clone()).or_default().insert(file_name(plugin, spec_name));
    }

    /// There may be more volumes of this pod than are known.
    pub(super) fn add_unread(&mut self, pod: &PodUid) {
        self.unread.insert(pod.clone());
    }

    fn keeps(&self, pod: Option<&PodUid>, name: &OsStr) -> bool {
        pod.is_some_and(|pod| {
            self.unread.contains(pod) || self.volumes.get(pod).is_some_and(|names| names.contains(name))
        })
    }
}

impl Records {
    /// Removes the records of pods' volumes that are not there any more, records of the node's volumes that cannot be used, and every
    /// file that was never written to its end.
    ///
    /// # Assumptions
    /// No operation runs yet.
    ///
    /// # Errors
    /// [`RecordError::Kernel`]; what was not reached stays, and hurts nobody.
    pub(super) fn sweep(&self, standing: &Standing) -> Result<(), RecordError> {
        if let Some(all) = self.folder_if_there(Path::new(records::FOLDER))? {
            for name in self.kernel().names(&all)? {
                let pod = name.to_str().and_then(|name| PodUid::new(name).ok());
                self.sweep_folder(&all, &name, |record| standing.keeps(pod.as_ref(), record))?;
                match self.kernel().remove_empty_dir(&all, &name) {
                    Ok(()) | Err(KernelError::NotEmpty { .. } | KernelError::WrongType { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        // A volume of the node may be known from its record alone; but one that says nothing is of no use to anybody.
        self.sweep_folder(self.state(), OsStr::new(device_records::FOLDER), |record| {
            !matches!(self.read_device_file(record), Err(RecordError::Unusable { .. }))
        })?;
        self.sweep_folder(self.state(), OsStr::new(layout::KEPT_OBJECTS), |_| true)?;
        Ok(())
    }

    fn sweep_folder(
        &self,
        parent: &Directory,
        name: &OsStr,
        keeps: impl Fn(&OsStr) -> bool,
    ) -> Result<(), RecordError> {
        let folder = match self.kernel().walk(parent, Path::new(name)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // Not made by volhost: it stays.
            Err(KernelError::WrongType { .. } | KernelError::SymbolicLink { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for file in self.kernel().names(&folder)? {
            if is_temporary(&file) || !keeps(&file) {
                match self.kernel().remove_file(&folder, &file) {
                    Ok(()) | Err(KernelError::WrongType { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn folder_if_there(&self, path: &Path) -> Result<Option<Directory>, RecordError> {
        match self.kernel().walk(self.state(), path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
