//! The records of earlier versions: `volumes/UID/DIGEST.json`, a file for each volume. What is
//! found is written into the pods' files, and removed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use volhost_kernel::{Directory, ErrorKind, Kernel, KernelError};
use volhost_model::Pod;
use volhost_model::names::{PluginName, PodUid, SpecName};
use volhost_model::text::lower_hex;

use super::mount_records::MountRecords;
use super::records::{MAX_RECORD_BYTES, MountRecord, MountRecordError, RecordedVolume, Unusable};

/// The folder below the state folder, one folder a pod in it.
const FOLDER: &str = "volumes";
/// The version of these records.
const VERSION: u32 = 1;

/// A record as it is in such a file.
#[derive(Deserialize)]
struct VolumeRecord {
    version: u32,
    pod: Pod,
    #[serde(flatten)]
    volume: RecordedVolume,
}

/// Moves the records into the pods' files. What cannot be used is reported and removed; what was
/// not moved stays for the next start.
///
/// # Assumptions
/// No operation runs yet.
pub(super) fn move_into(records: &MountRecords, problems: &mut Vec<(String, String)>) {
    let (kernel, state) = (records.kernel(), records.state());
    let mut problem = |path: &Path, error: &dyn std::fmt::Display| {
        problems.push((path.display().to_string(), error.to_string()));
    };
    let all = match kernel.walk(state, Path::new(FOLDER)) {
        Ok(all) => all,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => return problem(Path::new(FOLDER), &error),
    };
    let names = kernel.names(&all).unwrap_or_else(|error| {
        problem(Path::new(FOLDER), &error);
        Vec::new()
    });
    for name in names {
        let path = Path::new(FOLDER).join(&name);
        let moved = match name.to_str().and_then(|name| PodUid::new(name).ok()) {
            Some(pod) => move_pod(records, &all, &pod, &mut problem),
            None => Ok(()),
        };
        let removed = moved.and_then(|()| remove(kernel, &all, &name));
        if let Err(error) = removed {
            problem(&path, &error);
        }
    }
    match kernel.remove_empty_dir(state, OsStr::new(FOLDER)) {
        Ok(()) | Err(KernelError::NotEmpty { .. }) => {}
        Err(error) => problem(Path::new(FOLDER), &error),
    }
}

fn move_pod(
    records: &MountRecords,
    all: &Directory,
    pod: &PodUid,
    problem: &mut dyn FnMut(&Path, &dyn std::fmt::Display),
) -> Result<(), MountRecordError> {
    let kernel = records.kernel();
    let folder = match kernel.walk(all, Path::new(pod.as_str())) {
        Ok(folder) => folder,
        Err(KernelError::WrongType { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // A start that was interrupted here has moved some already.
    let mut found = match records.read(pod) {
        Err(MountRecordError::Unusable { .. }) => return Ok(()),
        read => read?,
    };
    let before = found.keys().count();
    for name in kernel.names(&folder)? {
        match read(kernel, &folder, pod, &name) {
            Ok(Some(record)) if !found.contains(&record.volume.key()) => found.add(record),
            Ok(_) => {}
            Err(error) => problem(&Path::new(FOLDER).join(pod.as_str()).join(&name), &error),
        }
    }
    if found.keys().count() > before { records.rewrite(pod, &found) } else { Ok(()) }
}

fn read(
    kernel: &dyn Kernel,
    folder: &Directory,
    pod: &PodUid,
    name: &OsStr,
) -> Result<Option<MountRecord>, MountRecordError> {
    if Path::new(name).extension().is_none_or(|end| end != "json") {
        return Ok(None);
    }
    let Some(bytes) = kernel.read_file(folder, name, MAX_RECORD_BYTES)? else { return Ok(None) };
    let unusable = |reason| MountRecordError::Unusable { path: PathBuf::from(name), reason };
    let record: VolumeRecord = serde_json::from_slice(&bytes).map_err(|error| unusable(Unusable::Syntax(error)))?;
    if record.version != VERSION {
        return Err(unusable(Unusable::Version(record.version)));
    }
    let volume = record.volume;
    if record.pod.uid != *pod || file_name(&volume.plugin, &volume.spec.name) != name {
        return Err(unusable(Unusable::OtherVolume));
    }
    Ok(Some(MountRecord { pod: Arc::new(record.pod), volume }))
}

/// The file's name: a plugin's and a volume's name together can be longer than a file name.
fn file_name(plugin: &PluginName, spec_name: &SpecName) -> OsString {
    let digest = Sha256::digest(format!("{plugin}\n{spec_name}"));
    OsString::from(format!("{}.json", lower_hex(digest.iter().take(16))))
}

/// Removes a pod's folder with the files in it, or a file.
fn remove(kernel: &dyn Kernel, all: &Directory, name: &OsStr) -> Result<(), MountRecordError> {
    match kernel.walk(all, Path::new(name)) {
        Ok(folder) => {
            for file in kernel.names(&folder)? {
                kernel.remove_file(&folder, &file)?;
            }
            drop(folder);
            Ok(kernel.remove_empty_dir(all, name)?)
        }
        Err(KernelError::WrongType { .. }) => Ok(kernel.remove_file(all, name)?),
        Err(error) => Err(error.into()),
    }
}
