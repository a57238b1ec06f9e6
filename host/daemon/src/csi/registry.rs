//! The registered drivers, and calls of them from the threads that run plugins.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::codegen::http::uri::PathAndQuery;
use volhost_model::view::DriverKind;
use volhost_runtime::{DriverFailure, Drivers};

use super::connection::Connection;
use super::versions::Version;
use crate::drivers::{DriverRow, DriverTable};

/// Beyond a call's deadline, for a runtime that is busy: then the call counts as unanswered.
const SLACK: Duration = Duration::from_secs(5);

/// A driver in service.
#[derive(Debug)]
pub(super) struct Registered {
    /// Its name.
    pub(super) name: String,
    /// The registration socket.
    pub(super) socket: PathBuf,
    /// The version of the interface that was agreed on.
    pub(super) version: Version,
    /// What it calls this node.
    pub(super) node_id: String,
    pub(super) connection: Connection,
}

/// The CSI drivers of this node. Shared between the watcher of the registry folder, which changes it, and the calls.
pub struct CsiDrivers {
    runtime: Handle,
    state: RwLock<State>,
    /// Who is told the name of a driver that can be called now.
    ready: mpsc::UnboundedSender<String>,
    table: Arc<DriverTable>,
    folder: Option<PathBuf>,
}

#[derive(Default)]
struct State {
    registered: BTreeMap<String, Registered>,
    /// The names in the table of what could not be registered, by registration socket.
    failed: BTreeMap<PathBuf, String>,
}

impl fmt::Debug for CsiDrivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsiDrivers").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl CsiDrivers {
    /// None yet. To be made within a tokio runtime, which carries the calls. `folder` is the registry's, for messages; `ready` is told each driver
    /// that comes into service, and `table` shows them all.
    pub fn new(folder: Option<PathBuf>, table: Arc<DriverTable>, ready: mpsc::UnboundedSender<String>) -> Self {
        Self { runtime: Handle::current(), state: RwLock::default(), ready, table, folder }
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
            self.table.remove(DriverKind::Csi, &shown);
        }
        state.registered.insert(name.clone(), driver);
        drop(state);
        self.table.put(row);
        // Nobody listens any more only when the process ends.
        let _ = self.ready.send(name);
    }

    /// Takes note that the driver behind a socket could not be registered. One of its name that is in service stays, and is what is shown.
    pub(super) fn failed(&self, socket: &Path, row: DriverRow) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.registered.contains_key(&row.name) {
            return;
        }
        let before = state.failed.insert(socket.to_owned(), row.name.clone());
        if let Some(shown) = before.filter(|shown| *shown != row.name) {
            self.table.remove(DriverKind::Csi, &shown);
        }
        drop(state);
        self.table.put(row);
    }

    /// The socket is gone, and with it its driver.
    pub(super) fn forget(&self, socket: &Path) -> Option<String> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = state.failed.remove(socket) {
            self.table.remove(DriverKind::Csi, &shown);
        }
        let name = state.registered.values().find(|one| one.socket == socket)?.name.clone();
        state.registered.remove(&name);
        drop(state);
        self.table.remove(DriverKind::Csi, &name);
        Some(name)
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
        match answered.recv_timeout(deadline + SLACK) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(DriverFailure::Unanswered("nobody answered in time".to_owned())),
            Err(RecvTimeoutError::Disconnected) => {
                Err(DriverFailure::Unanswered("volhost ended before the driver answered".to_owned()))
            }
        }
    }

    fn node_id(&self, driver: &str) -> Option<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.registered.get(driver).map(|driver| driver.node_id.clone())
    }
}
