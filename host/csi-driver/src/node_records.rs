//! The records of the volumes on this node: on disk, and in memory as the last call left them.
//!
//! This process alone writes the files, so a record in memory is never older than its file. It is
//! newer where a call was completed: the file says that the volume's publication was begun. A
//! driver that was killed then repeats the publication when the CO asks for it, or undoes it. Both
//! are the same for a publication that was begun and for one that was done, and nothing is written
//! twice for one call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volhost_kernel::{Directory, Durability, Kernel, KernelError};

use crate::records::{RecordFolder, ServedVolume};
use crate::refusal::Result;

/// The name of the folder of records.
const FOLDER: &str = "node";

/// The volumes on this node, by their handles.
#[derive(Debug)]
pub(crate) struct NodeRecords {
    files: RecordFolder<ServedVolume>,
    /// Those that this process has read or written; at most one for each file.
    latest: Mutex<HashMap<String, ServedVolume>>,
}

impl NodeRecords {
    /// Opens the records below `root`.
    ///
    /// # Errors
    /// As the kernel says.
    pub(crate) fn open(kernel: &Arc<dyn Kernel>, root: &Directory) -> std::result::Result<Self, KernelError> {
        // What is mounted ends with the machine.
        let files = RecordFolder::open(kernel, root, FOLDER, Durability::Process)?;
        Ok(Self { files, latest: Mutex::default() })
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<String, ServedVolume>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the record of this volume; none if there is none that can be read.
    ///
    /// # Errors
    /// As [`RecordFolder::read`].
    pub(crate) fn read(&self, id: &str) -> Result<Option<ServedVolume>> {
        if let Some(record) = self.latest().get(id) {
            return Ok(Some(record.clone()));
        }
        let read = self.files.read(id)?;
        if let Some(record) = &read {
            self.latest().insert(id.to_owned(), record.clone());
        }
        Ok(read)
    }

    /// Replaces the record.
    ///
    /// # Errors
    /// As [`RecordFolder::write`]; then the old one stays.
    pub(crate) fn write(&self, record: ServedVolume) -> Result<()> {
        self.files.write(&record.volume_id, &record)?;
        self.latest().insert(record.volume_id.clone(), record);
        Ok(())
    }

    /// Notes in memory that what was begun is done. The file stays as [`NodeRecords::write`] wrote
    /// it before the call began.
    pub(crate) fn note_done(&self, record: ServedVolume) {
        self.latest().insert(record.volume_id.clone(), record);
    }

    /// Removes the record. None there: done.
    ///
    /// # Errors
    /// As [`RecordFolder::remove`].
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        self.files.remove(id)?;
        self.latest().remove(id);
        Ok(())
    }

    /// All records that can be read from the files.
    ///
    /// # Errors
    /// As [`RecordFolder::all`].
    pub(crate) fn all(&self) -> Result<Vec<ServedVolume>> {
        self.files.all()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::path::Path;

    use volhost_testing_kernel::InMemoryKernel;

    use super::*;
    use crate::records::StagedUse;
    use crate::source::ServedSource;
    use crate::usage::RequestedUsage;

    fn record(done: bool) -> ServedVolume {
        let staged = StagedUse { path: "/staging".to_owned(), usage: RequestedUsage::plain(), done };
        let record = ServedVolume::unknown("v", &ServedSource::read("hostPath")).unwrap();
        ServedVolume { staged: Some(staged), ..record }
    }

    #[test]
    fn what_is_done_is_known_to_this_process_and_begun_for_the_next() {
        let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
        let root = kernel.open_directory(Path::new("/")).unwrap();
        let records = NodeRecords::open(&kernel, &root).unwrap();
        assert_eq!(records.read("v").unwrap(), None);
        records.write(record(false)).unwrap();
        records.note_done(record(true));
        assert_eq!(records.read("v").unwrap(), Some(record(true)));
        let next = NodeRecords::open(&kernel, &root).unwrap();
        assert_eq!(next.read("v").unwrap(), Some(record(false)));
        next.remove("v").unwrap();
        assert_eq!(next.read("v").unwrap(), None);
        assert_eq!(next.all().unwrap(), []);
    }
}
