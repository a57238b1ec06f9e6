//! The registered drivers, and calls to them from the threads that run plugins.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tonic::codegen::http::uri::PathAndQuery;
use volhost_model::drivers::{DriverFailure, Drivers};
use volhost_model::view::{DriverKind, DriverState, EventKind};

use super::call_observer::{CallObserver, ObservedDriver};
use super::connection::DriverConnection;
use super::health::Health;
use super::node_info::NodeInfo;
use super::versions::RegistrarVersion;
use volhost_csi_translation::Migration;
use volhost_driver_table::{DriverRow, DriverTable};
use volhost_objects::payload::SharedObjects;

/// Time beyond a call's deadline, for a busy runtime; after it the call counts as unanswered.
const SLACK: Duration = Duration::from_secs(5);
/// How many removed drivers are shown, the latest. Every user who may write to the registry's
/// folder chooses names.
const GONE: usize = 64;

/// A registered driver.
#[derive(Debug)]
pub(super) struct RegisteredDriver {
    /// Its name.
    pub(super) name: String,
    /// The registration socket.
    pub(super) socket: PathBuf,
    /// The version of the interface that was agreed on.
    pub(super) version: RegistrarVersion,
    /// Its description of this node.
    pub(super) node_info: NodeInfo,
    pub(super) connection: DriverConnection,
    /// Has its node info asked for again.
    pub(super) refresh_now: Arc<Notify>,
    /// Has it probed.
    pub(super) probe_now: Arc<Notify>,
}

/// A change of a registered driver, for users and for the volumes that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverNote {
    /// Its name.
    pub driver: String,
    /// Normal if its volumes can be tried again, a warning if it cannot be used.
    pub kind: EventKind,
    /// One CamelCase word.
    pub reason: &'static str,
    /// What happened.
    pub message: String,
}

/// The reason of the event on a registered driver that answers again.
const ANSWERS_AGAIN: &str = "DriverReady";

impl DriverNote {
    /// Returns whether the driver only answers again: its node info has not changed, and other
    /// drivers are not concerned.
    pub fn answers_again(&self) -> bool {
        self.reason == ANSWERS_AGAIN
    }
}

/// Why a driver may not register under its name.
#[derive(Debug, Error)]
#[error("another driver named {name} is registered already by {} with a version that is as high or higher", socket.display())]
pub(super) struct NameConflict {
    name: String,
    /// The registration socket of the other driver.
    socket: PathBuf,
}

/// Why a driver's topology cannot be right.
#[derive(Debug, Error)]
#[error(
    "it says that this node is in {key}={value}, and {other} says {key}={other_value}; correct the one that is wrong"
)]
pub(super) struct TopologyConflict {
    key: String,
    value: String,
    /// The other driver, or the node's label.
    other: String,
    other_value: String,
}

/// The CSI drivers of this node. Shared between the watcher of the registry folder, which changes
/// it, and the calls.
pub struct CsiDrivers {
    runtime: Handle,
    drivers: RwLock<DriverSets>,
    /// Receives a note when a driver can be called, or its node info has changed.
    ready: mpsc::UnboundedSender<DriverNote>,
    table: Arc<DriverTable>,
    folder: Option<PathBuf>,
    /// The CSIDriver objects.
    pub(super) objects: Arc<SharedObjects>,
    /// The node's labels, as its operator gave them.
    labels: BTreeMap<String, String>,
    /// Learns of the calls of drivers.
    observer: Option<Arc<dyn CallObserver>>,
}

/// A socket in the registry's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationSocket {
    /// Its path.
    pub path: PathBuf,
    /// Its driver is registered.
    pub is_registered: bool,
}

/// The drivers by what has become of them.
#[derive(Default)]
struct DriverSets {
    /// The registration sockets in the folder.
    found: BTreeSet<PathBuf>,
    registered: BTreeMap<String, RegisteredDriver>,
    /// The names in the table of drivers that could not be registered, by registration socket.
    failed: BTreeMap<PathBuf, String>,
    /// The drivers that were registered and are gone, oldest first.
    gone: VecDeque<DriverRow>,
}

impl DriverSets {
    /// Returns the shown row of a driver that is gone.
    fn gone(&self, name: &str) -> Option<DriverRow> {
        self.gone.iter().find(|row| row.name == name).cloned()
    }
}

impl fmt::Debug for CsiDrivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsiDrivers").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl CsiDrivers {
    /// Creates an empty set within a tokio runtime, which carries the calls. `folder` is the
    /// registry's, for messages; `ready` receives a note of each driver that is registered, and
    /// `table` shows them all.
    pub fn new(
        folder: Option<PathBuf>,
        table: Arc<DriverTable>,
        objects: Arc<SharedObjects>,
        ready: mpsc::UnboundedSender<DriverNote>,
    ) -> Self {
        let labels = BTreeMap::new();
        let (runtime, drivers) = (Handle::current(), RwLock::default());
        Self { runtime, drivers, ready, table, folder, objects, labels, observer: None }
    }

    /// Sets the node's labels, which no driver's topology may contradict.
    #[must_use]
    pub fn with_labels(mut self, labels: BTreeMap<String, String>) -> Self {
        self.labels = labels;
        self
    }

    /// Sets what learns of the calls of drivers.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn CallObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// What observes the calls of the driver of this name.
    pub(super) fn observed(&self, driver: &str) -> Option<ObservedDriver> {
        self.observer.as_ref().map(|observer| ObservedDriver::new(driver, Arc::clone(observer)))
    }

    /// The sockets in the registry's folder, sorted.
    pub fn sockets(&self) -> Vec<RegistrationSocket> {
        let drivers = self.read();
        let registered: BTreeSet<&PathBuf> = drivers.registered.values().map(|driver| &driver.socket).collect();
        let sockets = drivers.found.iter();
        sockets
            .map(|path| RegistrationSocket { path: path.clone(), is_registered: registered.contains(path) })
            .collect()
    }

    /// Notes a socket in the registry's folder, until [`CsiDrivers::forget`].
    pub(super) fn found(&self, socket: &Path) {
        self.write().found.insert(socket.to_owned());
    }

    /// Checks a driver's topology against the node's labels and the other drivers' topologies.
    ///
    /// # Errors
    /// [`TopologyConflict`] names the segment that differs.
    pub(super) fn check_topology(
        &self,
        name: &str,
        topology: &BTreeMap<String, String>,
    ) -> Result<(), TopologyConflict> {
        let drivers = self.read();
        let others = drivers.registered.values().filter(|other| other.name != name);
        let stated = others.map(|other| (format!("the driver {}", other.name), &other.node_info.topology));
        let stated: Vec<_> = std::iter::once(("the node's label".to_owned(), &self.labels)).chain(stated).collect();
        let conflict = topology.iter().find_map(|(key, value)| {
            let (other, other_value) = stated.iter().find_map(|(other, labels)| {
                labels.get(key).filter(|other_value| *other_value != value).map(|other_value| (other, other_value))
            })?;
            Some(TopologyConflict {
                key: key.clone(),
                value: value.clone(),
                other: other.clone(),
                other_value: other_value.clone(),
            })
        });
        conflict.map_or(Ok(()), Err)
    }

    /// Checks that no driver behind another socket has the name with this version or a higher one.
    ///
    /// # Errors
    /// [`NameConflict`] names the other socket.
    pub(super) fn check_name_is_free(
        &self,
        name: &str,
        version: RegistrarVersion,
        socket: &Path,
    ) -> Result<(), NameConflict> {
        let drivers = self.read();
        match drivers.registered.get(name) {
            Some(other) if other.socket != socket && other.version >= version => {
                Err(NameConflict { name: name.to_owned(), socket: other.socket.clone() })
            }
            _ => Ok(()),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, DriverSets> {
        self.drivers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, DriverSets> {
        self.drivers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a driver, in place of an older one of its name.
    pub(super) fn register(&self, driver: RegisteredDriver, row: DriverRow) {
        let name = driver.name.clone();
        let mut drivers = self.write();
        if let Some(shown) = drivers.failed.remove(&driver.socket).filter(|shown| *shown != name) {
            self.hide(&drivers, &shown);
        }
        drivers.gone.retain(|row| row.name != name);
        drivers.registered.insert(name.clone(), driver);
        drop(drivers);
        self.table.put(row);
        let message = "it is registered: its volumes can be used".to_owned();
        self.note(DriverNote { driver: name, kind: EventKind::Normal, reason: "DriverRegistered", message });
    }

    fn note(&self, note: DriverNote) {
        // The receiver goes only when the process ends.
        let _ = self.ready.send(note);
    }

    /// Updates a registered driver's node info. Only the volume limit may change while it is
    /// registered.
    pub(super) fn update_node_info(&self, name: &str, info: &NodeInfo) {
        let mut drivers = self.write();
        let Some(driver) = drivers.registered.get_mut(name) else { return };
        if driver.node_info.volume_limit == info.volume_limit {
            return;
        }
        driver.node_info.volume_limit = info.volume_limit;
        drop(drivers);
        if let Some(row) = self.table.get(DriverKind::Csi, name) {
            self.table.put(DriverRow { volume_limit: info.volume_limit, ..row });
        }
        let message = format!("now {}", info.limit_text());
        let driver = name.to_owned();
        self.note(DriverNote { driver, kind: EventKind::Normal, reason: "DriverLimitChanged", message });
    }

    /// Shows the result of a probe of a registered driver. Calls are sent whatever it is.
    pub(super) fn update_health(&self, name: &str, health: Health) {
        // Locked to the end: a driver that goes meanwhile must not be shown as healthy.
        let drivers = self.read();
        if !drivers.registered.contains_key(name) {
            return;
        }
        let Some(before) = self.table.get(DriverKind::Csi, name) else { return };
        let (state, error) = match health {
            Health::Healthy => (DriverState::Ready, String::new()),
            Health::NotReady => (DriverState::Starting, "it answers Probe: it is not ready".to_owned()),
            Health::Unhealthy(why) => (DriverState::Failed, why),
        };
        let (was, driver) = (before.state, name.to_owned());
        if was == state && before.error == error {
            return;
        }
        self.table.put(DriverRow { state, error: error.clone(), ..before });
        drop(drivers);
        match (was, state) {
            (DriverState::Ready, DriverState::Failed) => {
                let message = format!("{error}; calls for its volumes are repeated until it answers");
                self.note(DriverNote { driver, kind: EventKind::Warning, reason: "DriverFailed", message });
            }
            (DriverState::Failed | DriverState::Starting, DriverState::Ready) => {
                let message = "it answers again: its volumes are tried at once".to_owned();
                self.note(DriverNote { driver, kind: EventKind::Normal, reason: ANSWERS_AGAIN, message });
            }
            _ => {}
        }
    }

    /// The connection of a registered driver.
    pub(super) fn connection_of(&self, driver: &str) -> Option<DriverConnection> {
        let drivers = self.read();
        drivers.registered.get(driver).map(|driver| driver.connection.clone())
    }

    /// Has a registered driver's node info asked for again.
    pub(super) fn refresh_now(&self, driver: &str) -> Option<Arc<Notify>> {
        let drivers = self.read();
        drivers.registered.get(driver).map(|driver| Arc::clone(&driver.refresh_now))
    }

    /// Has a registered driver probed.
    pub(super) fn probe_now(&self, driver: &str) -> Option<Arc<Notify>> {
        let drivers = self.read();
        drivers.registered.get(driver).map(|driver| Arc::clone(&driver.probe_now))
    }

    /// Shows that the driver behind a socket could not be registered. A registered driver of its
    /// name stays, and stays shown.
    pub(super) fn failed(&self, socket: &Path, row: DriverRow) {
        let mut drivers = self.write();
        if drivers.registered.contains_key(&row.name) {
            return;
        }
        let before = drivers.failed.insert(socket.to_owned(), row.name.clone());
        if let Some(shown) = before.filter(|shown| *shown != row.name) {
            self.hide(&drivers, &shown);
        }
        drop(drivers);
        self.table.put(row);
    }

    /// Removes the driver of a socket that is gone, and shows it as gone if it was registered:
    /// volumes of it may be left.
    pub(super) fn forget(&self, socket: &Path) -> Option<String> {
        let mut drivers = self.write();
        drivers.found.remove(socket);
        if let Some(shown) = drivers.failed.remove(socket) {
            self.hide(&drivers, &shown);
        }
        let name = drivers.registered.values().find(|one| one.socket == socket)?.name.clone();
        drivers.registered.remove(&name);
        let message = format!(
            "its registration socket {} is gone; what it has mounted stays, and waits for it to register again",
            socket.display()
        );
        let row = DriverRow {
            state: DriverState::Gone,
            error: message.clone(),
            ..self
                .table
                .get(DriverKind::Csi, &name)
                .unwrap_or_else(|| DriverRow::found(DriverKind::Csi, name.clone(), socket.display().to_string()))
        };
        drivers.gone.retain(|row| row.name != name);
        drivers.gone.push_back(row.clone());
        let forgotten = if drivers.gone.len() > GONE { drivers.gone.pop_front() } else { None };
        if let Some(oldest) = forgotten {
            self.table.remove(DriverKind::Csi, &oldest.name);
        }
        drop(drivers);
        self.table.put(row);
        self.note(DriverNote { driver: name.clone(), kind: EventKind::Warning, reason: "DriverRemoved", message });
        Some(name)
    }

    /// Hides a driver that could not be registered; a removed one of its name is shown again.
    fn hide(&self, drivers: &DriverSets, name: &str) {
        match drivers.gone(name) {
            Some(row) => drop(self.table.put(row)),
            None => drop(self.table.remove(DriverKind::Csi, name)),
        }
    }

    fn connection(&self, driver: &str) -> Result<DriverConnection, DriverFailure> {
        let drivers = self.read();
        if let Some(found) = drivers.registered.get(driver) {
            return Ok(found.connection.clone());
        }
        let known: Vec<&str> = drivers.registered.keys().map(String::as_str).collect();
        let known =
            if known.is_empty() { "none is".to_owned() } else { format!("registered are {}", known.join(", ")) };
        let way_out = match &self.folder {
            Some(folder) => format!("its registrar creates a socket in {}", folder.display()),
            None => "start volhost with --plugin-registry and the folder in which registrars create their sockets"
                .to_owned(),
        };
        // Who wrote a former in-tree source wrote no driver's name.
        let serves = Migration::of_driver(driver).map(|migration| format!(", which serves {},", migration.source()));
        let serves = serves.unwrap_or_default();
        let why = format!("CSI driver {driver}{serves} is not registered on this node; {known}; {way_out}");
        Err(DriverFailure::NotSent(why))
    }
}

impl Drivers for CsiDrivers {
    fn call(&self, driver: &str, method: &str, request: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, DriverFailure> {
        let connection = self.connection(driver)?;
        if let Some(answer) = connection.known_answer(method, &request) {
            return Ok(answer);
        }
        let method: PathAndQuery =
            method.parse().map_err(|_| DriverFailure::NotSent(format!("{method:?} is no method")))?;
        let (answer, answered) = sync_channel(1);
        self.runtime.spawn(async move {
            // The receiver goes only when the thread has given up.
            let _ = answer.send(connection.call(method, request, deadline).await);
        });
        let outcome = match answered.recv_timeout(deadline + SLACK) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(DriverFailure::Unanswered("the driver did not answer in time".to_owned()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(DriverFailure::Unanswered("volhost ended before the driver answered".to_owned()))
            }
        };
        if matches!(outcome, Err(DriverFailure::NotSent(_) | DriverFailure::Unanswered(_)))
            && let Some(probe_now) = self.probe_now(driver)
        {
            probe_now.notify_one();
        }
        outcome
    }

    fn node_id(&self, driver: &str) -> Option<String> {
        let drivers = self.read();
        drivers.registered.get(driver).map(|driver| driver.node_info.node_id.clone())
    }

    fn volume_limit(&self, driver: &str) -> Option<u32> {
        let drivers = self.read();
        drivers.registered.get(driver).and_then(|driver| driver.node_info.volume_limit)
    }

    fn ask_again(&self, driver: &str) {
        if let Some(refresh_now) = self.refresh_now(driver) {
            refresh_now.notify_one();
        }
    }
}
