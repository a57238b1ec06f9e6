//! The record of a FUSE server on disk, by which the next run of the host adopts it.

use std::ffi::OsStr;
use std::sync::Arc;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tracing::warn;
use volhost_kernel::{Directory, Durability, Kernel, KernelError};
use volhost_runtime::FuseServerBounds;

/// The suffix of the files' names.
const SUFFIX: &str = ".json";
/// The largest record, in bytes.
const BYTES: usize = 64 << 10;
const MODE: u32 = 0o600;

/// A FUSE server on disk. Without its arguments, which other users should not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerRecord {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) connection: u32,
    pub(crate) bounds: FuseServerBounds,
    /// None until the launcher has started. A launcher that was not written to ends by itself.
    pub(crate) process: Option<StartedAt>,
}

/// A process, and when it began: both together are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartedAt {
    pub(crate) pid: i32,
    /// In ticks since the machine's start.
    pub(crate) started: u64,
}

impl StartedAt {
    /// The process that has this id now; none if there is none, or only a zombie.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let pid = pid.as_raw_nonzero().get();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which may contain anything: the state is the first field, the start the
        // twentieth.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { pid, started })
    }
}

/// The folder of the records; none where servers are never adopted.
#[derive(Debug)]
pub(crate) struct ServerRecords {
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) folder: Option<Directory>,
}

impl ServerRecords {
    pub(crate) fn write(&self, record: &ServerRecord) -> Result<(), KernelError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        // Texts and numbers are always JSON.
        let text = serde_json::to_vec(record).unwrap_or_default();
        self.kernel.write_atomic(folder, OsStr::new(&name(&record.id)), &text, MODE, Durability::Process)
    }

    pub(crate) fn remove(&self, id: &str) {
        let Some(folder) = &self.folder else { return };
        if let Err(error) = self.kernel.remove_file(folder, OsStr::new(&name(id))) {
            warn!(%error, server = id, "the record of a FUSE server that has ended stays");
        }
    }

    /// All records. One that cannot be read is logged and left.
    pub(crate) fn all(&self) -> Vec<ServerRecord> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let names = self.kernel.names(folder).unwrap_or_else(|error| {
            warn!(%error, "the records of FUSE servers cannot be read; those that run are not watched");
            Vec::new()
        });
        let files = names.iter().filter(|name| name.to_str().is_some_and(|name| name.ends_with(SUFFIX)));
        let read = files.filter_map(|name| match self.kernel.read_file(folder, name, BYTES) {
            Ok(Some(text)) => serde_json::from_slice(&text)
                .inspect_err(|error| warn!(%error, record = ?name, "the record of a FUSE server cannot be read"))
                .ok(),
            Ok(None) => None,
            Err(error) => {
                warn!(%error, record = ?name, "the record of a FUSE server cannot be read");
                None
            }
        });
        read.collect()
    }
}

fn name(id: &str) -> String {
    format!("{id}{SUFFIX}")
}
