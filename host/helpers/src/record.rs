//! What is on disk of a helper, so that whoever comes after a crash finds it.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tracing::warn;
use volhost_kernel::{Directory, Durability, Kernel, KernelError};
use volhost_runtime::HelperBounds;

/// What the files' names end with.
const SUFFIX: &str = ".json";
/// The largest record, in bytes.
const BYTES: usize = 64 << 10;
const MODE: u32 = 0o600;

/// A helper on disk. No argument of it, which may say more than others should read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) connection: u32,
    pub(crate) bounds: HelperBounds,
    /// None until it is started; what was not told to begin ends by itself.
    pub(crate) process: Option<Process>,
}

/// A process, and when it began: by both it is told from any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// In ticks since the machine's start.
    pub(crate) started: u64,
}

impl Process {
    /// The process of this number as it is now; none if there is none.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let pid = pid.as_raw_nonzero().get();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may hold anything: the state is the first field, the start the twentieth.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { pid, started })
    }
}

/// The folder of the records; none where nobody will look for them.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) folder: Option<Directory>,
}

impl Records {
    pub(crate) fn write(&self, record: &Record) -> Result<(), KernelError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        // What is made of texts and numbers is always JSON.
        let text = serde_json::to_vec(record).unwrap_or_default();
        self.kernel.write_atomic(folder, OsStr::new(&name(&record.id)), &text, MODE, Durability::Process)
    }

    pub(crate) fn remove(&self, id: &str) {
        let Some(folder) = &self.folder else { return };
        if let Err(error) = self.kernel.remove_file(folder, OsStr::new(&name(id))) {
            warn!(%error, helper = id, "the record of a helper that has ended stays");
        }
    }

    /// All of them. One that cannot be read is told and left.
    pub(crate) fn all(&self) -> Vec<Record> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let names = self.kernel.names(folder).unwrap_or_else(|error| {
            warn!(%error, "the records of helpers cannot be read; helpers that run are not watched");
            Vec::new()
        });
        let files = names.iter().filter(|name| name.to_str().is_some_and(|name| name.ends_with(SUFFIX)));
        let read = files.filter_map(|name| match self.kernel.read_file(folder, name, BYTES) {
            Ok(Some(text)) => serde_json::from_slice(&text)
                .inspect_err(|error| warn!(%error, record = ?name, "the record of a helper cannot be read"))
                .ok(),
            Ok(None) => None,
            Err(error) => {
                warn!(%error, record = ?name, "the record of a helper cannot be read");
                None
            }
        });
        read.collect()
    }
}

fn name(id: &str) -> String {
    format!("{id}{SUFFIX}")
}

/// The last resort for one that does not go.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(5);
