//! Follows the drivers' folder: drivers that are installed, replaced or removed while volhost runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_driver_table::{DriverRow, DriverTable};
use volhost_folder_watch::{Below, FolderWatch, changed};
use volhost_model::BackOff;
use volhost_model::driver_programs::DriverAnswer;
use volhost_model::view::{DriverKind, DriverState};

use crate::drivers::{FlexDrivers, Readiness};
use crate::folder::{self, DriverFile, ProgramStamp};
use crate::init::{InitError, capabilities, init};

/// A day: for when nothing is due.
const NEVER: Duration = Duration::from_secs(86_400);
/// A change of a driver, for events, and for the pods whose volumes it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverEvent {
    /// The driver's name.
    pub driver: String,
    /// What has changed.
    pub change: DriverChange,
}

/// How a driver can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverChange {
    /// It can be used from now on, or with other capabilities.
    Ready,
    /// Why it cannot be used.
    Failed(String),
    /// It is not in the folder any more.
    Removed,
}

/// What is remembered of a driver between two scans of the folder.
#[derive(Debug)]
struct ScannedDriver {
    found: DriverFile,
    /// When `init` is due, if it is.
    retry: Option<Retry>,
    /// An `init` of this driver is running.
    is_in_init: bool,
}

/// The next `init` of a driver.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    /// How many have failed in a row.
    failures: u32,
}

impl Retry {
    /// At once, as if it had never failed.
    fn now() -> Self {
        Self { at: Instant::now(), failures: 0 }
    }
}

/// How an `init` ended.
type InitEnd = (String, ProgramStamp, Result<DriverAnswer, InitError>);

/// Scans the drivers' folder whenever it changes, and runs `init` of each driver that is new or
/// changed, until `shutdown`. An `init` that fails is repeated with a growing back-off. `reload`
/// causes another scan, and `init` of every failed driver at once.
pub async fn watch(
    drivers: Arc<FlexDrivers>,
    table: Arc<DriverTable>,
    events: mpsc::Sender<DriverEvent>,
    reload: Arc<Notify>,
    shutdown: CancellationToken,
) {
    let (ended, mut ends) = mpsc::channel::<InitEnd>(16);
    let mut watch = FolderWatch::folder(drivers.folder(), Below::Folders)
        .inspect_err(|error| {
            warn!(%error, "the folder of FlexVolume drivers cannot be watched; send SIGHUP after changing it");
        })
        .ok();
    let mut scanner = Scanner { drivers, table, events, ended, seen: BTreeMap::new() };
    loop {
        if let Some(Err(error)) = watch.as_mut().map(FolderWatch::arm) {
            warn!(%error, "a folder of FlexVolume drivers cannot be watched");
        }
        scanner.scan().await;
        let due = scanner.start_due_inits();
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = changed(&mut watch) => {}
            Some(end) = ends.recv() => scanner.finish_init(end).await,
            () = reload.notified() => scanner.retry_all(),
            () = sleep_until(due) => {}
        }
    }
}

/// The results of the last scan, and the receivers of changes.
struct Scanner {
    drivers: Arc<FlexDrivers>,
    table: Arc<DriverTable>,
    events: mpsc::Sender<DriverEvent>,
    ended: mpsc::Sender<InitEnd>,
    seen: BTreeMap<String, ScannedDriver>,
}

impl Scanner {
    /// Scans the folder once. A folder that cannot be read keeps its drivers.
    async fn scan(&mut self) {
        let folder = self.drivers.folder().to_owned();
        let found = match tokio::task::spawn_blocking(move || folder::drivers(&folder)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                warn!(folder = %self.drivers.folder().display(), %error, "the folder of FlexVolume drivers cannot be read; those known before stay");
                return;
            }
            Err(error) => {
                warn!(%error, "a scan of the folder of FlexVolume drivers ended early");
                return;
            }
        };
        let gone: Vec<String> = self.seen.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in gone {
            self.seen.remove(&name);
            self.drivers.remove(&name);
            self.table.remove(DriverKind::Flex, &name);
            info!(driver = %name, "FlexVolume driver removed");
            self.emit(name, DriverChange::Removed).await;
        }
        for (name, found) in found {
            if self.seen.get(&name).is_some_and(|seen| seen.found.is_same_as(&found)) {
                continue;
            }
            let problem = found.stamp.as_ref().err().map(ToString::to_string);
            let readiness = problem.clone().map_or(Readiness::Starting, Readiness::Failed);
            let location = found.program.display().to_string();
            self.drivers.set(&name, &found.program, readiness);
            let mut row = DriverRow::found(DriverKind::Flex, &name, location);
            if let Some(problem) = &problem {
                (row.state, row.error) = (DriverState::Failed, problem.clone());
            }
            self.table.put(row);
            let now = problem.is_none().then(Retry::now);
            let is_in_init = self.seen.get(&name).is_some_and(|seen| seen.is_in_init);
            self.seen.insert(name.clone(), ScannedDriver { found, retry: now, is_in_init });
            if let Some(reason) = problem {
                self.emit(name, DriverChange::Failed(reason)).await;
            }
        }
        self.drivers.set_read();
    }

    /// Starts every `init` that is due, and returns when the next one is. Each has a thread of its
    /// own: one that hangs delays no other.
    fn start_due_inits(&mut self) -> Instant {
        let now = Instant::now();
        let mut next = now + NEVER;
        for (name, seen) in self.seen.iter_mut().filter(|(_, seen)| !seen.is_in_init) {
            let (Some(Retry { at, .. }), Ok(stamp)) = (seen.retry, &seen.found.stamp) else { continue };
            if at > now {
                next = next.min(at);
                continue;
            }
            seen.is_in_init = true;
            let (drivers, ended, name, stamp) = (self.drivers.clone(), self.ended.clone(), name.clone(), *stamp);
            tokio::task::spawn_blocking(move || {
                let answer = init(&drivers, &name);
                // It fails only while the process ends.
                let _ = ended.blocking_send((name, stamp, answer));
            });
        }
        next
    }

    async fn finish_init(&mut self, (name, called, answer): InitEnd) {
        let Some(seen) = self.seen.get_mut(&name) else { return };
        seen.is_in_init = false;
        if seen.found.stamp.as_ref().ok() != Some(&called) {
            // It was replaced meanwhile: `init` of the new one is due.
            return;
        }
        let program = seen.found.program.clone();
        let mut row = DriverRow::found(DriverKind::Flex, &name, program.display().to_string());
        match answer {
            Ok(answer) => {
                seen.retry = None;
                (row.state, row.capabilities) = (DriverState::Ready, capabilities(&answer));
                self.drivers.set(&name, &program, Readiness::Ready(answer));
                self.table.put(row);
                info!(driver = %name, "FlexVolume driver ready");
                self.emit(name, DriverChange::Ready).await;
            }
            Err(error) => {
                let reason = error.to_string();
                let failures = seen.retry.map_or(0, |retry| retry.failures).saturating_add(1);
                seen.retry = Some(Retry { at: Instant::now() + BackOff::KUBELET.wait(failures), failures });
                (row.state, row.error) = (DriverState::Failed, reason.clone());
                self.drivers.set(&name, &program, Readiness::Failed(reason.clone()));
                if self.table.put(row) {
                    warn!(driver = %name, %reason, "FlexVolume driver failed");
                    self.emit(name, DriverChange::Failed(reason)).await;
                }
            }
        }
    }

    fn retry_all(&mut self) {
        for seen in self.seen.values_mut() {
            seen.retry = seen.retry.map(|_| Retry::now());
        }
    }

    async fn emit(&self, driver: String, change: DriverChange) {
        // It fails only while the process ends.
        let _ = self.events.send(DriverEvent { driver, change }).await;
    }
}
