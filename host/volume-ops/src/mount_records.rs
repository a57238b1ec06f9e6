//! The folder with the records of published volumes, a file for each pod.
//!
//! It lies on a tmpfs below the root folder: the records outlive the process, and go with the
//! mounts that they describe. A file is open while operations of its pod run, so that the record of
//! a volume costs one system call.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use volhost_kernel::{AppendFile, Directory, Durability, ErrorKind, Kernel, KernelError};
use volhost_model::Pod;
use volhost_model::names::{PluginName, PodUid, SpecName};

use super::kept_open::{KeptOpen, lock};
use super::pod_records::{Lines, PodRecords};
use super::records::{MountRecord, MountRecordError};

/// The records' folder below the state folder, one file a pod in it.
pub(super) const FOLDER: &str = "pods";
/// The largest file, in bytes: 500 volumes with large sources. A larger one is not volhost's.
const MAX_POD_BYTES: usize = 64 << 20;
/// A file of more bytes is written anew when it is opened, if half of it no longer counts: each
/// refresh of a volume appends a line.
const COMPACTED_FROM: u64 = 64 << 10;
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The folder of records.
#[derive(Debug)]
pub(super) struct MountRecords {
    kernel: Arc<dyn Kernel>,
    state: Arc<Directory>,
    folder: Mutex<Option<Directory>>,
    files: KeptOpen<PodFile>,
}

/// A pod's file, which stays open as long as this exists.
#[derive(Debug, Default)]
pub(super) struct PodFile(Mutex<Option<OpenFile>>);

#[derive(Debug)]
struct OpenFile {
    file: AppendFile,
    /// The pod that was written last, since the file was opened.
    pod: Option<Arc<Pod>>,
    /// The file had content when it was opened, and nothing was appended since: a crash may have
    /// left it without the end of its last line.
    has_unknown_end: bool,
}

impl OpenFile {
    fn lines(&self) -> Lines {
        if self.has_unknown_end { Lines::after_unknown_end() } else { Lines::default() }
    }
}

impl MountRecords {
    /// Creates the records below this folder, which lies on a tmpfs.
    pub(super) fn new(kernel: Arc<dyn Kernel>, state: Arc<Directory>) -> Self {
        Self { kernel, state, folder: Mutex::default(), files: KeptOpen::default() }
    }

    /// Returns the kernel primitives.
    pub(super) fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// Returns the folder on the tmpfs.
    pub(super) fn state(&self) -> &Arc<Directory> {
        &self.state
    }

    /// Keeps the pod's file open, once it was opened, as long as the returned value exists.
    pub(super) fn file(&self, pod: &PodUid) -> Arc<PodFile> {
        self.files.of(pod)
    }

    /// Writes the record of a volume. It replaces an earlier one of that volume.
    ///
    /// # Errors
    /// [`MountRecordError`]; the record that was there stays.
    pub(super) fn write(&self, record: &MountRecord) -> Result<(), MountRecordError> {
        let failed = |source| MountRecordError::Encode { volume: record.volume.unique_name.clone(), source };
        let file = self.file(&record.pod.uid);
        let mut open = lock(&file.0);
        if open.is_none() {
            *open = self.open(&record.pod.uid, Some(FILE_MODE))?;
        }
        let Some(file) = open.as_mut() else { return Ok(()) };
        let mut lines = file.lines();
        if file.pod.as_ref().is_none_or(|pod| *pod != record.pod) {
            lines = lines.pod(&record.pod).map_err(failed)?;
        }
        let lines = lines.volume(&record.volume).map_err(failed)?;
        self.kernel.append(&file.file, lines.as_bytes())?;
        file.pod = Some(Arc::clone(&record.pod));
        file.has_unknown_end = false;
        Ok(())
    }

    /// Removes the record of one volume.
    ///
    /// # Errors
    /// [`MountRecordError::Kernel`]. Without room for the line that says so, all records of the pod
    /// are removed: its other volumes are published once more after a restart.
    pub(super) fn remove(
        &self,
        pod: &PodUid,
        plugin: &PluginName,
        spec_name: &SpecName,
    ) -> Result<(), MountRecordError> {
        let file = self.file(pod);
        let mut open = lock(&file.0);
        if open.is_none() {
            *open = self.open(pod, None)?;
        }
        let Some(file) = open.as_mut() else { return Ok(()) };
        let appended = match file.lines().gone(plugin, spec_name) {
            Ok(lines) => self.kernel.append(&file.file, lines.as_bytes()).map_err(MountRecordError::from),
            Err(source) => {
                let volume = volhost_model::names::UniqueVolumeName::of_pod(plugin, pod, spec_name);
                Err(MountRecordError::Encode { volume, source })
            }
        };
        if appended.is_ok() {
            file.has_unknown_end = false;
            return Ok(());
        }
        *open = None;
        self.remove_file(pod)
    }

    /// Removes the file of a pod whose folder is gone, by the answer of `remove_folder`, which is
    /// returned. None of the pod's volumes writes a record meanwhile.
    ///
    /// # Errors
    /// [`MountRecordError::Kernel`], of the file or of the folder.
    pub(super) fn forget_pod(
        &self,
        pod: &PodUid,
        remove_folder: impl FnOnce() -> Result<bool, KernelError>,
    ) -> Result<bool, MountRecordError> {
        let file = self.file(pod);
        let mut open = lock(&file.0);
        if !remove_folder()? {
            return Ok(false);
        }
        *open = None;
        self.remove_file(pod).map(|()| true)
    }

    /// Reads the records of a pod's volumes.
    ///
    /// # Errors
    /// [`MountRecordError::Unusable`] for a file that is not a record of this version.
    pub(super) fn read(&self, pod: &PodUid) -> Result<PodRecords, MountRecordError> {
        let Some(folder) = self.folder(None)? else { return Ok(PodRecords::default()) };
        self.read_in(&folder, pod)
    }

    /// Writes the records of a pod's volumes anew, at once and whole. Without any, removes its
    /// file.
    ///
    /// # Errors
    /// [`MountRecordError`]; what was there stays.
    pub(super) fn rewrite(&self, pod: &PodUid, records: &PodRecords) -> Result<(), MountRecordError> {
        let file = self.file(pod);
        let mut open = lock(&file.0);
        *open = None;
        if records.is_empty() {
            return self.remove_file(pod);
        }
        let Some(folder) = self.folder(Some(FOLDER_MODE))? else { return Ok(()) };
        self.rewrite_in(&folder, pod, records)
    }

    fn open(&self, pod: &PodUid, make: Option<u32>) -> Result<Option<OpenFile>, MountRecordError> {
        let name = OsStr::new(pod.as_str());
        let Some(folder) = self.folder(make.map(|_| FOLDER_MODE))? else { return Ok(None) };
        let (folder, opened) = match self.kernel.open_append(&folder, name, make) {
            // Another process has removed the folder.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                *lock(&self.folder) = None;
                let Some(folder) = self.folder(make.map(|_| FOLDER_MODE))? else { return Ok(None) };
                let opened = self.kernel.open_append(&folder, name, make)?;
                (folder, opened)
            }
            opened => (folder, opened?),
        };
        let Some(mut file) = opened else { return Ok(None) };
        if file.bytes_at_first() > COMPACTED_FROM {
            let records = self.read_in(&folder, pod)?;
            let live = records.lines().map_or(0, |lines| lines.as_bytes().len());
            if u64::try_from(live).is_ok_and(|live| live < file.bytes_at_first() / 2) {
                self.rewrite_in(&folder, pod, &records)?;
                let Some(again) = self.kernel.open_append(&folder, name, make)? else { return Ok(None) };
                file = again;
            }
        }
        let has_unknown_end = file.bytes_at_first() > 0;
        Ok(Some(OpenFile { file, pod: None, has_unknown_end }))
    }

    fn read_in(&self, folder: &Directory, pod: &PodUid) -> Result<PodRecords, MountRecordError> {
        let Some(bytes) = self.kernel.read_file(folder, OsStr::new(pod.as_str()), MAX_POD_BYTES)? else {
            return Ok(PodRecords::default());
        };
        PodRecords::parse(pod, &bytes).map_err(|reason| MountRecordError::Unusable { path: path_of(pod), reason })
    }

    fn rewrite_in(&self, folder: &Directory, pod: &PodUid, records: &PodRecords) -> Result<(), MountRecordError> {
        let lines = records.lines().map_err(|source| MountRecordError::EncodePod { pod: pod.clone(), source })?;
        let name = OsStr::new(pod.as_str());
        Ok(self.kernel.write_atomic(folder, name, lines.as_bytes(), FILE_MODE, Durability::Process)?)
    }

    fn remove_file(&self, pod: &PodUid) -> Result<(), MountRecordError> {
        match self.folder(None)? {
            Some(folder) => Ok(self.kernel.remove_file(&folder, OsStr::new(pod.as_str()))?),
            None => Ok(()),
        }
    }

    /// Returns the folder of records; opened once. `make` is the mode that a missing one is made
    /// with; without it, none if it is missing.
    fn folder(&self, make: Option<u32>) -> Result<Option<Directory>, KernelError> {
        let mut kept = lock(&self.folder);
        if kept.is_none() {
            let opened = match make {
                Some(mode) => self.kernel.make_dirs(&self.state, Path::new(FOLDER), mode),
                None => self.kernel.walk(&self.state, Path::new(FOLDER)),
            };
            *kept = match opened {
                Ok(folder) => Some(folder),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(kept.clone())
    }
}

/// How messages name a pod's file, below the state folder.
fn path_of(pod: &PodUid) -> PathBuf {
    Path::new(FOLDER).join(pod.as_str())
}
