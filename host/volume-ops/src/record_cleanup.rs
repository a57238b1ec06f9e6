//! Cleans the records at the start, when no operation writes them: files that a crash left half
//! written, and records that have outlived their volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use volhost_kernel::{Directory, ErrorKind, Kernel, KernelError, is_temporary};
use volhost_model::names::{PluginName, PodUid, SpecName};

use super::device_records::{self, DeviceRecords};
use super::layout;
use super::records::{self, MountRecordError, MountRecords, file_name};

/// The volumes that recovery found in pods' folders: their records stay.
#[derive(Debug, Default)]
pub(super) struct FoundVolumes {
    /// The volumes of each pod, by the names of their records.
    volumes: BTreeMap<PodUid, BTreeSet<OsString>>,
    /// Pods whose folder could not be read to the end: all their records stay.
    unread: BTreeSet<PodUid>,
}

impl FoundVolumes {
    pub(super) fn add(&mut self, pod: &PodUid, plugin: &PluginName, spec_name: &SpecName) {
        self.volumes.entry(pod.clone()).or_default().insert(file_name(plugin, spec_name));
    }

    /// The pod may have more volumes than were found.
    pub(super) fn add_unread(&mut self, pod: &PodUid) {
        self.unread.insert(pod.clone());
    }

    fn keeps(&self, pod: Option<&PodUid>, name: &OsStr) -> bool {
        pod.is_some_and(|pod| {
            self.unread.contains(pod) || self.volumes.get(pod).is_some_and(|names| names.contains(name))
        })
    }
}

/// Removes the records of published volumes that were not found, records of attached and staged
/// volumes that cannot be used, and every file that was not written to its end.
///
/// # Assumptions
/// No operation runs yet.
///
/// # Errors
/// [`MountRecordError::Kernel`]; what was not reached stays, and does no harm.
pub(super) fn clean(
    records: &MountRecords,
    devices: &DeviceRecords,
    found: &FoundVolumes,
) -> Result<(), MountRecordError> {
    let (kernel, state) = (records.kernel(), records.state());
    if let Some(all) = open(kernel, state, OsStr::new(records::FOLDER))? {
        for name in kernel.names(&all)? {
            let pod = name.to_str().and_then(|name| PodUid::new(name).ok());
            clean_folder(kernel, &all, &name, |record| found.keeps(pod.as_ref(), record))?;
            match kernel.remove_empty_dir(&all, &name) {
                Ok(()) | Err(KernelError::NotEmpty { .. } | KernelError::WrongType { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    // The record may be all that is known of an attached volume; but an unusable one is of no use.
    clean_folder(kernel, state, OsStr::new(device_records::FOLDER), |record| {
        !matches!(devices.read_file(record), Err(MountRecordError::Unusable { .. }))
    })?;
    clean_folder(kernel, state, OsStr::new(layout::KEPT_OBJECTS), |_| true)?;
    Ok(())
}

fn clean_folder(
    kernel: &dyn Kernel,
    parent: &Directory,
    name: &OsStr,
    keeps: impl Fn(&OsStr) -> bool,
) -> Result<(), MountRecordError> {
    let folder = match open(kernel, parent, name) {
        Ok(Some(folder)) => folder,
        Ok(None) => return Ok(()),
        // volhost did not make it: it stays.
        Err(KernelError::WrongType { .. } | KernelError::SymbolicLink { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for file in kernel.names(&folder)? {
        if is_temporary(&file) || !keeps(&file) {
            match kernel.remove_file(&folder, &file) {
                Ok(()) | Err(KernelError::WrongType { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn open(kernel: &dyn Kernel, parent: &Directory, name: &OsStr) -> Result<Option<Directory>, KernelError> {
    match kernel.walk(parent, Path::new(name)) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
