//! The registered drivers, and calls of them from the threads that run plugins.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tonic::codegen::http::uri::PathAndQuery;
use volhost_model::drivers::{DriverFailure, Drivers};
use volhost_model::view::{DriverKind, DriverState, EventKind};

use super::about_node::AboutNode;
use super::connection::Connection;
use super::health::Health;
use super::versions::Version;
use volhost_driver_table::{DriverRow, DriverTable};
use volhost_objects::payload::SharedObjects;

/// Beyond a call's deadline, for a runtime that is busy: then the call counts as unanswered.
const SLACK: Duration = Duration::from_secs(5);
/// How many drivers that have gone are shown, the latest. Names come from whoever may write to the registry's folder.
const GONE: usize = 64;

/// A driver in service.
#[derive(Debug)]
pub(super) struct Registered {
    /// Its name.
    pub(super) name: String,
    /// The registration socket.
    pub(super) socket: PathBuf,
    /// The version of the interface that was agreed on.
    pub(super) version: Version,
    /// What it says of this node.
    pub(super) about_node: AboutNode,
    pub(super) connection: Connection,
    /// Has it asked again what it says of this node.
    pub(super) asked: Arc<Notify>,
    /// Has it asked whether it is well.
    pub(super) suspect: Arc<Notify>,
}

/// What has become of a driver in service, for users and for the volumes that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverNote {
    /// Its name.
    pub driver: String,
    /// Normal when its volumes can be tried again, a warning when it cannot be used.
    pub kind: EventKind,
    /// One CamelCase word.
    pub reason: &'static str,
    /// What happened.
    pub message: String,
}

/// The reason of the event on a driver in service that answers again.
const ANSWERS_AGAIN: &str = "DriverReady";

impl DriverNote {
    /// Returns whether the driver only answers again. What it says of the node and of its volumes
    /// has not changed, and other drivers have no part in it.
    pub fn answers_again(&self) -> bool {
        self.reason == ANSWERS_AGAIN
    }
}

/// The CSI drivers of this node. Shared between the watcher of the registry folder, which changes it, and the calls.
pub struct CsiDrivers {
    runtime: Handle,
    state: RwLock<State>,
    /// Who is told of a driver that can be called now, or says something else of this node.
    ready: mpsc::UnboundedSender<DriverNote>,
    table: Arc<DriverTable>,
    folder: Option<PathBuf>,
    /// The CSIDriver objects.
    pub(super) objects: Arc<SharedObjects>,
    /// The node's labels, as its operator gave them.
    labels: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    registered: BTreeMap<String, Registered>,
    /// The names in the table of what could not be registered, by registration socket.
    failed: BTreeMap<PathBuf, String>,
    /// The drivers that were in service and have gone, oldest first.
    gone: VecDeque<DriverRow>,
}

impl State {
    /// Returns what is shown of a driver of this name that has gone.
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
    /// None yet. To be made within a tokio runtime, which carries the calls. `folder` is the registry's, for messages; `ready` is told of each
    /// driver that comes into service, and `table` shows them all.
    pub fn new(
        folder: Option<PathBuf>,
        table: Arc<DriverTable>,
        objects: Arc<SharedObjects>,
        ready: mpsc::UnboundedSender<DriverNote>,
    ) -> Self {
        let labels = BTreeMap::new();
        Self { runtime: Handle::current(), state: RwLock::default(), ready, table, folder, objects, labels }
    }

    /// The same, on a node with these labels: no driver may say that it is elsewhere.
    #[must_use]
    pub fn on_node(mut self, labels: BTreeMap<String, String>) -> Self {
        self.labels = labels;
        self
    }

    /// Why a driver that says this of where the node is may not register: another driver or the operator says that it is elsewhere.
    pub(super) fn elsewhere(&self, name: &str, topology: &BTreeMap<String, String>) -> Option<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let others = state.registered.values().filter(|other| other.name != name);
        let said = others.map(|other| (format!("the driver {}", other.name), &other.about_node.topology));
        let said: Vec<_> = std::iter::once(("the node's label".to_owned(), &self.labels)).chain(said).collect();
        topology.iter().find_map(|(key, value)| {
            let (who, other) = said.iter().find_map(|(who, labels)| {
                labels.get(key).filter(|other| *other != value).map(|other| (who, other))
            })?;
            Some(format!(
                "it says that this node is in {key}={value}, and {who} says {key}={other}; correct the one that is wrong"
            ))
        })
    }

    /// Why a driver of this name and version may not register, if another socket's has the name.
    pub(super) fn refused(&self, name: &str, version: Version, socket: &Path) -> Option<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let other = state.registered.get(name).filter(|other| other.socket != socket)?;
        (other.version >= version).then(|| {
            format!(
                "another driver named {name} is registered already by {} with a version that is as high or higher",
                other.socket.display()
            )
        })
    }

    /// Takes a driver into service, in place of an older one of its name.
    pub(super) fn register(&self, driver: Registered, row: DriverRow) {
        let name = driver.name.clone();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = state.failed.remove(&driver.socket).filter(|shown| *shown != name) {
            self.show_no_more(&state, &shown);
        }
        state.gone.retain(|row| row.name != name);
        state.registered.insert(name.clone(), driver);
        drop(state);
        self.table.put(row);
        let message = "it is registered: its volumes can be used".to_owned();
        self.note(DriverNote { driver: name, kind: EventKind::Normal, reason: "DriverRegistered", message });
    }

    fn note(&self, note: DriverNote) {
        // Nobody listens any more only when the process ends.
        let _ = self.ready.send(note);
    }

    /// Takes what a driver in service says of this node now. Of that only the limit may change while it is registered.
    pub(super) fn says_now(&self, name: &str, said: AboutNode) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let Some(driver) = state.registered.get_mut(name) else { return };
        if driver.about_node.volume_limit == said.volume_limit {
            return;
        }
        driver.about_node.volume_limit = said.volume_limit;
        drop(state);
        if let Some(row) = self.table.get(DriverKind::Csi, name) {
            self.table.put(DriverRow { volume_limit: said.volume_limit, ..row });
        }
        let message = format!("it says now that {}", said.limit_in_words());
        let driver = name.to_owned();
        self.note(DriverNote { driver, kind: EventKind::Normal, reason: "DriverLimitChanged", message });
    }

    /// Takes the answer of a driver in service to the question whether it is well, and shows it. Calls are sent all the same.
    pub(super) fn update_health(&self, name: &str, health: Health) {
        // Held to the end: the driver must not go meanwhile, and be shown as well.
        let registry = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if !registry.registered.contains_key(name) {
            return;
        }
        let Some(before) = self.table.get(DriverKind::Csi, name) else { return };
        let (state, error) = match health {
            Health::Well => (DriverState::Ready, String::new()),
            Health::NotReady => (DriverState::Starting, "it answers Probe, and says that it is not ready".to_owned()),
            Health::Unwell(why) => (DriverState::Failed, why),
        };
        let (was, driver) = (before.state, name.to_owned());
        if was == state && before.error == error {
            return;
        }
        self.table.put(DriverRow { state, error: error.clone(), ..before });
        drop(registry);
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

    /// The connection of a driver in service.
    pub(super) fn connection_of(&self, driver: &str) -> Option<Connection> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.registered.get(driver).map(|driver| driver.connection.clone())
    }

    /// What has a driver in service asked again.
    pub(super) fn asking(&self, driver: &str) -> Option<Arc<Notify>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.registered.get(driver).map(|driver| Arc::clone(&driver.asked))
    }

    /// What has a driver in service asked whether it is well.
    pub(super) fn suspicion(&self, driver: &str) -> Option<Arc<Notify>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.registered.get(driver).map(|driver| Arc::clone(&driver.suspect))
    }

    /// Takes note that the driver behind a socket could not be registered. One of its name that is in service stays, and is what is shown.
    pub(super) fn failed(&self, socket: &Path, row: DriverRow) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.registered.contains_key(&row.name) {
            return;
        }
        let before = state.failed.insert(socket.to_owned(), row.name.clone());
        if let Some(shown) = before.filter(|shown| *shown != row.name) {
            self.show_no_more(&state, &shown);
        }
        drop(state);
        self.table.put(row);
    }

    /// The socket is gone, and with it its driver. One that was in service is shown as gone: volumes of it may be left.
    pub(super) fn forget(&self, socket: &Path) -> Option<String> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = state.failed.remove(socket) {
            self.show_no_more(&state, &shown);
        }
        let name = state.registered.values().find(|one| one.socket == socket)?.name.clone();
        state.registered.remove(&name);
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
        state.gone.retain(|row| row.name != name);
        state.gone.push_back(row.clone());
        let forgotten = if state.gone.len() > GONE { state.gone.pop_front() } else { None };
        if let Some(oldest) = forgotten {
            self.table.remove(DriverKind::Csi, &oldest.name);
        }
        drop(state);
        self.table.put(row);
        self.note(DriverNote { driver: name.clone(), kind: EventKind::Warning, reason: "DriverRemoved", message });
        Some(name)
    }

    /// Shows a driver no more that could not be registered; one of its name that was in service before is shown as gone again.
    fn show_no_more(&self, state: &State, name: &str) {
        match state.gone(name) {
            Some(row) => drop(self.table.put(row)),
            None => drop(self.table.remove(DriverKind::Csi, name)),
        }
    }

    fn connection(&self, driver: &str) -> Result<Connection, DriverFailure> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = state.registered.get(driver) {
            return Ok(found.connection.clone());
        }
        let known: Vec<&str> = state.registered.keys().map(String::as_str).collect();
        let known =
            if known.is_empty() { "none is".to_owned() } else { format!("registered are {}", known.join(", ")) };
        let way_out = match &self.folder {
            Some(folder) => format!("its registrar makes a socket in {}", folder.display()),
            None => {
                "start volhost with --plugin-registry and the folder that registrars make their sockets in".to_owned()
            }
        };
        Err(DriverFailure::NotSent(format!("CSI driver {driver} is not registered on this node; {known}; {way_out}")))
    }
}

impl Drivers for CsiDrivers {
    fn call(&self, driver: &str, method: &str, request: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, DriverFailure> {
        let connection = self.connection(driver)?;
        let method: PathAndQuery =
            method.parse().map_err(|_| DriverFailure::NotSent(format!("{method:?} is no method")))?;
        let (answer, answered) = sync_channel(1);
        self.runtime.spawn(async move {
            // Nobody waits any more only when the thread has given up.
            let _ = answer.send(connection.call(method, request, deadline).await);
        });
        let outcome = match answered.recv_timeout(deadline + SLACK) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(DriverFailure::Unanswered("nobody answered in time".to_owned())),
            Err(RecvTimeoutError::Disconnected) => {
                Err(DriverFailure::Unanswered("volhost ended before the driver answered".to_owned()))
            }
        };
        if matches!(outcome, Err(DriverFailure::NotSent(_) | DriverFailure::Unanswered(_)))
            && let Some(suspect) = self.suspicion(driver)
        {
            suspect.notify_one();
        }
        outcome
    }

    fn node_id(&self, driver: &str) -> Option<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.registered.get(driver).map(|driver| driver.about_node.node_id.clone())
    }

    fn volume_limit(&self, driver: &str) -> Option<u32> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.registered.get(driver).and_then(|driver| driver.about_node.volume_limit)
    }

    fn ask_again(&self, driver: &str) {
        if let Some(asked) = self.asking(driver) {
            asked.notify_one();
        }
    }
}
