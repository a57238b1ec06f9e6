//! The room in volhost's own folders, as gauges.

use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::debug;
use volhost_volume_ops::layout;
use volhost_volume_ops::volume_ops::VolumeOps;

/// How long a scrape waits for the file systems. A local one answers within microseconds.
const WAIT: Duration = Duration::from_millis(250);

/// A folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FolderLabels {
    folder: &'static str,
}

/// The room of one folder's file system, in bytes.
#[derive(Debug, Clone, Copy)]
struct FolderSpace {
    folder: &'static str,
    size: u64,
    available: u64,
}

/// Measures the file systems of volhost's own folders. One that hangs occupies one thread.
#[derive(Debug)]
pub struct NodeDisks {
    /// Weak: once the node has ended, nothing may keep the root folder open.
    volume_ops: Weak<VolumeOps>,
    /// The answer of the thread that measures, if one does.
    running: Mutex<Option<Receiver<Vec<FolderSpace>>>>,
}

impl NodeDisks {
    /// Measures the folders of this node.
    pub fn new(volume_ops: &Arc<VolumeOps>) -> Self {
        Self { volume_ops: Arc::downgrade(volume_ops), running: Mutex::new(None) }
    }

    /// Registers the room. Blocks for a bounded time; without an answer nothing is shown.
    pub(super) fn register(&self, registry: &mut Registry) {
        let (available, size) = (Family::<FolderLabels, Gauge>::default(), Family::<FolderLabels, Gauge>::default());
        for space in self.measure() {
            let labels = FolderLabels { folder: space.folder };
            available.get_or_create(&labels).set(number(space.available));
            size.get_or_create(&labels).set(number(space.size));
        }
        let help = "Bytes that may still be written to the file system of the root folder, and to that of the records";
        registry.register("volhost_folder_available_bytes", help, available);
        registry.register("volhost_folder_size_bytes", "Size of these file systems", size);
    }

    /// The room now; empty while a file system does not answer.
    fn measure(&self) -> Vec<FolderSpace> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = running.as_ref()
            && matches!(answer.try_recv(), Err(TryRecvError::Empty))
        {
            // It hangs: one scrape has waited for it.
            return Vec::new();
        }
        let Some(answer) = self.start() else { return Vec::new() };
        match answer.recv_timeout(WAIT) {
            Ok(spaces) => {
                *running = None;
                spaces
            }
            Err(_) => {
                *running = Some(answer);
                Vec::new()
            }
        }
    }

    fn start(&self) -> Option<Receiver<Vec<FolderSpace>>> {
        let volume_ops = self.volume_ops.upgrade()?;
        let (answer, answered) = channel();
        let started = thread::Builder::new().name("folder-space".to_owned()).spawn(move || {
            // The receiver goes only with the node.
            let _ = answer.send(spaces(&volume_ops));
        });
        match started {
            Ok(_) => Some(answered),
            Err(error) => {
                debug!(%error, "no thread can be started to measure the folders");
                None
            }
        }
    }
}

fn spaces(volume_ops: &VolumeOps) -> Vec<FolderSpace> {
    // The lock's file lies on the root folder's own file system.
    let folders = [("root", layout::LOCK), ("state", layout::STATE)];
    let spaces = folders.into_iter().filter_map(|(folder, name)| {
        let usage = volume_ops.kernel().usage(volume_ops.root(), OsStr::new(name));
        match usage {
            Ok(usage) => Some(FolderSpace { folder, size: usage.capacity, available: usage.available }),
            Err(error) => {
                debug!(folder, %error, "the room of a folder cannot be read");
                None
            }
        }
    });
    spaces.collect()
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
