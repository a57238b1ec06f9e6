//! Cleans the records at the start, when no operation writes them: files that a crash left half
//! written, and records that have outlived their volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use volhost_core::RecoveredVolume;
use volhost_kernel::{Directory, ErrorKind, Kernel, KernelError, is_temporary};
use volhost_model::names::{PluginName, PodUid, SpecName};

use super::device_records::{self, DeviceRecords};
use super::layout;
use super::mount_records::{self, MountRecords};
use super::pod_records::PodRecords;
use super::records::{MountRecordError, VolumeKey};
use super::recovery::ReadRecords;

/// What is to be done with the records of the pods whose folders recovery has looked through.
#[derive(Debug, Default)]
pub(super) struct FoundVolumes {
    /// The pods whose files stay.
    kept: BTreeSet<PodUid>,
    /// The pods whose files are written anew, with these records; removed without any.
    rewritten: BTreeMap<PodUid, PodRecords>,
}

/// What is to be done with the records of one pod.
#[derive(Debug)]
pub(super) struct FoundPod {
    pod: PodUid,
    /// The records that its file is written anew with; none: the file stays.
    rewritten: Option<PodRecords>,
}

impl FoundPod {
    /// Compares the records of a pod with the volumes that were found. `is_unread`: it may have
    /// more, so that all its records stay.
    pub(super) fn new(pod: PodUid, read: ReadRecords, found: &[RecoveredVolume], is_unread: bool) -> Self {
        let ReadRecords { mut records, is_usable } = read;
        let names: BTreeSet<(&PluginName, &SpecName)> =
            found.iter().map(|volume| (&volume.plugin, &volume.spec_name)).collect();
        let is_found = |(plugin, name): &VolumeKey| names.contains(&(plugin, name));
        let is_current = is_usable && !records.has_torn_end() && records.keys().all(is_found);
        if is_current || (is_usable && is_unread) {
            return Self { pod, rewritten: None };
        }
        records.retain(is_found);
        Self { pod, rewritten: Some(records) }
    }
}

impl FoundVolumes {
    /// Adds a pod.
    pub(super) fn add(&mut self, FoundPod { pod, rewritten }: FoundPod) {
        match rewritten {
            Some(records) => drop(self.rewritten.insert(pod, records)),
            None => drop(self.kept.insert(pod)),
        }
    }
}

/// Removes the records of published volumes that were not found, records of attached and staged
/// volumes that cannot be used, and every file that was not written to its end.
///
/// # Assumptions
/// No operation runs yet.
///
/// # Errors
/// [`MountRecordError`]; what was not reached stays, and does no harm.
pub(super) fn clean(
    records: &MountRecords,
    devices: &DeviceRecords,
    found: &FoundVolumes,
) -> Result<(), MountRecordError> {
    let (kernel, state) = (records.kernel(), records.state());
    // One that cannot be written keeps no other from it.
    let rewritten: Vec<_> = found.rewritten.iter().map(|(pod, live)| records.rewrite(pod, live)).collect();
    rewritten.into_iter().collect::<Result<(), _>>()?;
    clean_folder(kernel, state, OsStr::new(mount_records::FOLDER), |file| {
        let pod = file.to_str().and_then(|name| PodUid::new(name).ok());
        pod.is_some_and(|pod| found.kept.contains(&pod) || found.rewritten.contains_key(&pod))
    })?;
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
                Ok(()) => {}
                Err(KernelError::WrongType { .. }) => remove_folder(kernel, &folder, &file)?,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Removes a folder that is none of volhost's, if it is empty.
fn remove_folder(kernel: &dyn Kernel, parent: &Directory, name: &OsStr) -> Result<(), KernelError> {
    match kernel.remove_empty_dir(parent, name) {
        Ok(()) | Err(KernelError::NotEmpty { .. } | KernelError::MountInside { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn open(kernel: &dyn Kernel, parent: &Directory, name: &OsStr) -> Result<Option<Directory>, KernelError> {
    match kernel.walk(parent, Path::new(name)) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
