//! The FUSE servers of a node: adopting them after a restart, and seeing them to their end.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;
use tracing::warn;
use volhost_kernel::{Directory, FuseConnection, Kernel};
use volhost_process::{Child, Launcher, Process};
use volhost_runtime::{FuseServerError, FuseServerStart, FuseServers, Served, SettledServer};

use crate::record::{ServerRecord, ServerRecords, StartedAt};
use crate::server::{Server, ServerNames};

/// The stack of a thread that only waits, in bytes.
pub(crate) const STACK_BYTES: usize = 128 << 10;
/// How many ended servers are remembered, with the reason.
const REMEMBERED: usize = 256;

/// A FUSE server that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedServer {
    /// Its unique name on the node: the source of its file system in the mount table.
    pub id: String,
    /// Its name in the grant.
    pub name: String,
    /// How it ended, and the last of its output.
    pub why: String,
}

type EndListener = Box<dyn Fn(EndedServer) + Send + Sync>;

/// The FUSE servers of a node.
#[derive(Debug, Clone)]
pub struct FuseServerProcesses(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) launcher: Launcher,
    pub(crate) records: ServerRecords,
    next_id: AtomicU64,
    /// Locked by the thread that ends all servers without a mount.
    settling: Mutex<()>,
    known: Mutex<ServerTable>,
}

#[derive(Default)]
struct ServerTable {
    running: BTreeMap<String, Arc<Server>>,
    ended: VecDeque<RememberedEnd>,
    listener: Option<Arc<EndListener>>,
    /// The servers that ended before there was a listener.
    unreported: Vec<EndedServer>,
    /// Dropped with the last handle, which ends the threads of
    /// [`FuseServerProcesses::settle_every`].
    alive: Vec<Sender<Infallible>>,
}

impl ServerTable {
    fn end_of(&self, id: &str) -> Option<&RememberedEnd> {
        self.ended.iter().find(|end| end.server.id == id)
    }
}

/// An end that is remembered.
struct RememberedEnd {
    server: EndedServer,
    is_failure: bool,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuseServerProcesses").field("running", &self.known().running.keys()).finish_non_exhaustive()
    }
}

impl FuseServerProcesses {
    /// FUSE servers that `launcher` starts, with their records in `folder`. Without a folder, none
    /// is adopted after a restart.
    #[must_use]
    pub fn new(kernel: Arc<dyn Kernel>, launcher: Launcher, folder: Option<Directory>) -> Self {
        let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let next_id = AtomicU64::new(u64::try_from(begun.as_nanos()).unwrap_or_default());
        let records = ServerRecords { kernel: Arc::clone(&kernel), folder };
        Self(Arc::new(Inner {
            kernel,
            launcher,
            records,
            next_id,
            settling: Mutex::default(),
            known: Mutex::default(),
        }))
    }

    /// Adopts the servers of an earlier run of the host: those that run are watched, the others are
    /// reported as ended. The output that they wrote before is not known.
    pub fn adopt(&self) {
        for record in self.0.records.all() {
            self.0.adopt(record);
        }
    }

    /// Reports every server that ends to `listener`, and those that have ended before. It is called
    /// from a thread that may block.
    pub fn on_end(&self, listener: impl Fn(EndedServer) + Send + Sync + 'static) {
        let listener: Arc<EndListener> = Arc::new(Box::new(listener));
        let unreported = {
            let mut known = self.0.known();
            known.listener = Some(Arc::clone(&listener));
            std::mem::take(&mut known.unreported)
        };
        unreported.into_iter().for_each(|ended| listener(ended));
    }

    /// Ends every server whose file system is not mounted any more. Blocks as long as they take.
    /// Returns at once if another thread does it already.
    pub fn settle_all(&self) {
        let Ok(_alone) = self.0.settling.try_lock() else { return };
        let ids: Vec<String> = self.0.known().running.keys().cloned().collect();
        for id in ids {
            if let SettledServer::Failed(why) = self.settle(&id) {
                warn!(server = id, "{why}");
            }
        }
    }

    /// Settles all servers now, and at this interval from then on, on a thread of its own, which
    /// ends with the last handle. Nothing else ends a stopped server whose file system was
    /// unmounted lazily: the mount table does not change when the last user closes its files.
    ///
    /// # Errors
    /// The kernel's, where there is no thread.
    pub fn settle_every(&self, interval: Duration) -> io::Result<()> {
        let (alive, ended) = channel::<Infallible>();
        let inner = Arc::downgrade(&self.0);
        let settle = move || {
            while let Some(inner) = inner.upgrade() {
                Self(inner).settle_all();
                if ended.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("FUSE server settle".into()).stack_size(STACK_BYTES);
        thread.spawn(settle)?;
        self.0.known().alive.push(alive);
        Ok(())
    }

    /// The number of running servers.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.known().running.len()
    }

    /// The number of running servers, by their names in grants.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for server in self.0.known().running.values() {
            *counts.entry(server.name().to_owned()).or_default() += 1;
        }
        counts
    }
}

impl FuseServers for FuseServerProcesses {
    fn serve(&self, start: FuseServerStart) -> Result<Served, FuseServerError> {
        self.0.clone().serve(start)
    }

    fn still_serves(&self, id: &str) -> Result<(), FuseServerError> {
        let known = self.0.known();
        if known.running.contains_key(id) {
            return Ok(());
        }
        let why = known.end_of(id).map(|end| end.server.why.clone());
        Err(FuseServerError::Failed(why.unwrap_or_else(|| format!("FUSE server {id} has ended"))))
    }

    fn has_servers(&self) -> bool {
        self.running() > 0
    }

    fn settle(&self, id: &str) -> SettledServer {
        let server = {
            let known = self.0.known();
            match known.running.get(id) {
                Some(server) => Arc::clone(server),
                // It may have ended since the unmount, and not well.
                None => {
                    let failure = known.end_of(id).filter(|end| end.is_failure);
                    return failure.map_or(SettledServer::Ended, |end| SettledServer::Failed(end.server.why.clone()));
                }
            }
        };
        match self.0.kernel.is_mounted_anywhere(server.connection()) {
            Ok(false) => {}
            Ok(true) => return SettledServer::Runs,
            Err(error) => {
                warn!(%error, server = id, "the mounts of a FUSE server cannot be found; it runs on");
                return SettledServer::Runs;
            }
        }
        let why = if server.end() {
            server.unclean_end()
        } else {
            Some("without a mount it does not end: it is stuck in the kernel".to_owned())
        };
        why.map_or(SettledServer::Ended, |why| {
            SettledServer::Failed(describe_end(server.name(), server.program(), &why, &server.last_output()))
        })
    }
}

/// A message about a server: how it ended, and the last of its output.
pub(crate) fn describe_end(name: &str, program: &str, why: &str, output: &str) -> String {
    let output = if output.is_empty() { String::new() } else { format!("; it said: {output}") };
    format!("FUSE server {name} ({program}): {why}{output}")
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, ServerTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A unique name for a server of this name in the grant.
    pub(crate) fn new_id(&self, name: &str) -> String {
        format!("{name}-{:x}", self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a server that runs, and watches it from a thread of its own, which calls `at_its_end`
    /// before the listener. Kills the server if there can be no such thread.
    ///
    /// # Errors
    /// The kernel's, where there is no thread.
    pub(crate) fn add(
        self: &Arc<Self>,
        server: Arc<Server>,
        (output, child): (Option<OwnedFd>, Option<Child>),
        at_its_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.known().running.insert(server.id().to_owned(), Arc::clone(&server));
        let inner = Arc::clone(self);
        let watched = Arc::clone(&server);
        let thread = std::thread::Builder::new().name("FUSE server watch".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let end = watched.watch(output, child);
            let why = describe_end(watched.name(), watched.program(), &end.how, &watched.last_output());
            let ended = EndedServer { id: watched.id().to_owned(), name: watched.name().to_owned(), why };
            let listener = inner.note_end(&ended, end.is_failure);
            watched.set_ended(end);
            at_its_end();
            if let Some(listener) = listener {
                listener(ended);
            }
        });
        started.map(|_| ()).inspect_err(|_| {
            server.kill();
            self.known().running.remove(server.id());
            self.records.remove(server.id());
        })
    }

    /// Records the end of a server. Returns the listener, if there is one.
    fn note_end(&self, ended: &EndedServer, is_failure: bool) -> Option<Arc<EndListener>> {
        self.records.remove(&ended.id);
        let mut known = self.known();
        known.running.remove(&ended.id);
        if known.ended.len() >= REMEMBERED {
            known.ended.pop_front();
        }
        known.ended.push_back(RememberedEnd { server: ended.clone(), is_failure });
        if known.listener.is_none() {
            known.unreported.push(ended.clone());
        }
        known.listener.clone()
    }

    fn adopt(self: &Arc<Self>, record: ServerRecord) {
        let connection = FuseConnection(record.connection);
        let pid = record.process.and_then(|process| Pid::from_raw(process.pid));
        // Opened first, compared then: the process that is compared is the one that was opened.
        let process = pid.and_then(|pid| Process::open(pid).ok());
        let is_same = pid.is_some_and(|pid| StartedAt::of(pid) == record.process);
        match process {
            Some(process) if is_same => {
                let names = ServerNames { id: record.id.clone(), name: record.name, program: record.program };
                let server = Server::new(names, connection, record.bounds, Arc::new(process), Vec::new());
                if let Err(error) = self.add(Arc::new(server), (None, None), || ()) {
                    warn!(%error, server = record.id, "a FUSE server cannot be watched");
                }
            }
            _ => {
                let why = describe_end(&record.name, &record.program, "it ended while volhost did not run", "");
                let ended = EndedServer { id: record.id, name: record.name, why };
                if let Some(listener) = self.note_end(&ended, false) {
                    listener(ended);
                }
            }
        }
    }
}
