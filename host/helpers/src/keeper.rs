//! All helpers of a node: starting them, finding them again after a restart, seeing them to their end.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use tracing::warn;
use volhost_kernel::program::{Child, Program};
use volhost_kernel::{Directory, FuseConnection, FuseMount, FuseOptions, Kernel, KernelError};
use volhost_runtime::{FuseServers, HelperDescriptor, HelperError, HelperStart, Served};

use crate::launch::Settings;
use crate::record::{Process, Record, Records};
use crate::running::Running;
use crate::secret;

/// The stack of a thread that only waits, in bytes.
const STACK_BYTES: usize = 128 << 10;
/// Of how many that have ended is remembered why.
const REMEMBERED: usize = 256;

/// How to start the launcher: a program that does nothing but [`become_helper`](crate::launch::become_helper).
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program, by absolute path: the host's own, as a rule.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// A helper that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedHelper {
    /// Its name among all of the node: the source of what it served, in the mount table.
    pub id: String,
    /// Its name in the grant.
    pub name: String,
    /// How it ended and what it said last, in words.
    pub why: String,
}

type Listener = Box<dyn Fn(EndedHelper) + Send + Sync>;

/// The helpers of a node.
#[derive(Debug, Clone)]
pub struct Helpers(Arc<Inner>);

struct Inner {
    kernel: Arc<dyn Kernel>,
    launcher: Launcher,
    records: Records,
    fresh: AtomicU64,
    /// Held by who sees to the end of all.
    settling: Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    running: BTreeMap<String, Arc<Running>>,
    ended: VecDeque<EndedHelper>,
    listener: Option<Arc<Listener>>,
    /// What ended before anybody listened.
    untold: Vec<EndedHelper>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Helpers").field("running", &self.known().running.keys()).finish_non_exhaustive()
    }
}

impl Helpers {
    /// Helpers that `launcher` starts, whose records are kept in `folder`; nowhere without one, and then none is found again after a
    /// restart.
    #[must_use]
    pub fn new(kernel: Arc<dyn Kernel>, launcher: Launcher, folder: Option<Directory>) -> Self {
        let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let fresh = u64::try_from(begun.as_nanos()).unwrap_or_default();
        let records = Records { kernel: Arc::clone(&kernel), folder };
        Self(Arc::new(Inner {
            kernel,
            launcher,
            records,
            fresh: AtomicU64::new(fresh),
            settling: Mutex::default(),
            known: Mutex::default(),
        }))
    }

    /// Takes over what an earlier run of the host has left: helpers that run are watched, of others is told that they have ended. What
    /// they said before is not known.
    pub fn resume(&self) {
        for record in self.0.records.all() {
            self.0.resume(record);
        }
    }

    /// Lets `listener` hear of every helper that has ended, those that have already included. It is called from a thread that may block.
    pub fn on_end(&self, listener: impl Fn(EndedHelper) + Send + Sync + 'static) {
        let listener: Arc<Listener> = Arc::new(Box::new(listener));
        let untold = {
            let mut known = self.0.known();
            known.listener = Some(Arc::clone(&listener));
            std::mem::take(&mut known.untold)
        };
        untold.into_iter().for_each(|ended| listener(ended));
    }

    /// Sees to the end of every helper whose file system nobody has any more. Left to whoever is at it already.
    pub fn settle_all(&self) {
        let Ok(_alone) = self.0.settling.try_lock() else { return };
        let ids: Vec<String> = self.0.known().running.keys().cloned().collect();
        ids.iter().for_each(|id| self.settle(id));
    }

    /// How many run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.known().running.len()
    }

    /// How many run, by their names in grants.
    #[must_use]
    pub fn census(&self) -> BTreeMap<String, u64> {
        let mut census = BTreeMap::new();
        for running in self.0.known().running.values() {
            *census.entry(running.name.clone()).or_default() += 1;
        }
        census
    }
}

impl FuseServers for Helpers {
    fn serve(&self, start: HelperStart) -> Result<Served, HelperError> {
        self.0.clone().serve(start)
    }

    fn still_serves(&self, id: &str) -> Result<(), HelperError> {
        let known = self.0.known();
        if known.running.contains_key(id) {
            return Ok(());
        }
        let why = known.ended.iter().find(|ended| ended.id == id).map(|ended| ended.why.clone());
        Err(HelperError::Failed(why.unwrap_or_else(|| format!("the helper {id} has ended"))))
    }

    fn settle(&self, id: &str) {
        let Some(running) = self.0.known().running.get(id).cloned() else { return };
        match self.0.kernel.is_mounted_anywhere(running.connection) {
            Ok(false) if running.see_to_its_end() => {}
            Ok(false) => warn!(helper = id, "a helper whose file system nobody has does not end; the kernel holds it"),
            Ok(true) => {}
            Err(error) => warn!(%error, helper = id, "whether a helper is still needed cannot be told; it runs on"),
        }
    }
}

/// What is heard of a helper that is to serve.
enum Report {
    /// Its file system's first answer, or that nobody serves it any more.
    Answered(Result<(), KernelError>),
    /// It has ended.
    Ended,
}

/// What is said of a helper that could not be started.
fn unusable(name: &str, program: &str, what: &str, error: &dyn std::fmt::Display) -> HelperError {
    HelperError::Unusable(format!("the helper {name} ({program}) cannot be started: {what}: {error}"))
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(self: Arc<Self>, start: HelperStart) -> Result<Served, HelperError> {
        let id = format!("{}-{:x}", start.name, self.fresh.fetch_add(1, Ordering::Relaxed));
        let (name, program) = (start.name.clone(), start.program.display().to_string());
        let failed = |what, error: &dyn std::fmt::Display| unusable(&name, &program, what, error);
        // The launcher would say it, too; here nothing has been made yet.
        if let Err(error) = std::fs::metadata(&start.program) {
            return Err(failed("its program", &error));
        }
        let options = FuseOptions {
            source: id.clone(),
            subtype: name.clone(),
            user: start.rights.user,
            group: start.rights.group,
            default_permissions: start.default_permissions,
            read_only: start.read_only,
            label: start.label.clone(),
        };
        let FuseMount { device, mount, connection } =
            self.kernel.fuse(&options).map_err(|error| failed("its mount", &error))?;
        let root = self.kernel.root_of(&mount).map_err(|error| failed("its mount", &error))?;
        let bounds = start.bounds;
        let (answered, reports) = channel();
        let running = self.start(&id, start, (device, connection), answered.clone())?;
        let kernel = Arc::clone(&self.kernel);
        let asked = std::thread::Builder::new().name("asks a helper".into()).stack_size(STACK_BYTES).spawn(move || {
            let answer = kernel.ask_server(&root);
            // Before anybody hears of it: what is held open keeps the mount busy.
            drop(root);
            // Nobody waits any more only when it was too late.
            let _ = answered.send(Report::Answered(answer));
        });
        // Without the thread nobody asks, and it is as if nobody answered.
        let report = asked.ok().and_then(|_| reports.recv_timeout(bounds.start).ok());
        let gone = |error: &KernelError| matches!(error.errno(), Some(Errno::NOTCONN | Errno::CONNABORTED));
        // Any other error is an answer, too.
        let serves = matches!(&report, Some(Report::Answered(answer)) if !answer.as_ref().is_err_and(gone));
        if serves && running.ended().is_none() {
            return Ok(Served { mount, id });
        }
        // What it started, and left behind, may hold the connection.
        let _ = self.kernel.end_connection(connection);
        // One that has let the connection go is about to end by itself, with an exit code that tells why.
        if report.is_none() || !running.wait(bounds.stop) {
            running.kill();
        }
        let why = match (report, running.ended()) {
            (Some(_), Some(how)) => format!("{how} and does not serve; it must stay in the foreground"),
            _ => format!("it did not serve within {} s", bounds.start.as_secs_f64()),
        };
        Err(HelperError::Failed(said(&name, &program, &why, &running.words())))
    }

    /// Starts the launcher and has it become the helper.
    fn start(
        self: &Arc<Self>,
        id: &str,
        start: HelperStart,
        (device, connection): (OwnedFd, FuseConnection),
        reports: Sender<Report>,
    ) -> Result<Arc<Running>, HelperError> {
        let (name, path) = (start.name, start.program.display().to_string());
        let failed = |what, error: &dyn std::fmt::Display| unusable(&name, &path, what, error);
        let (reader, writer) = words_pipe().map_err(|error| failed("its error output", &error))?;
        let mut program = Program::new(&self.launcher.program)
            .arguments(&self.launcher.args)
            .in_own_group()
            .writing_to(Arc::new(writer))
            .descriptor(Arc::new(device));
        let mut secrets = Vec::new();
        for descriptor in start.descriptors {
            let descriptor = match descriptor {
                HelperDescriptor::Source(descriptor) => descriptor,
                HelperDescriptor::Secret(bytes) => {
                    let file = secret::file_of(&bytes, start.rights.user, start.rights.group);
                    secrets.push(bytes);
                    file.map_err(|error| failed("a secret", &error))?
                }
            };
            program = program.descriptor(Arc::new(descriptor));
        }
        let mut record = Record {
            id: id.to_owned(),
            name: name.clone(),
            program: path.clone(),
            connection: connection.0,
            bounds: start.bounds,
            process: None,
        };
        self.records.write(&record).map_err(|error| failed("its record", &error))?;
        let mut child = program.start().map_err(|error| {
            self.records.remove(id);
            failed("the launcher", &error)
        })?;
        drop(program);
        let abandon = |child: Child, what, error: &dyn std::fmt::Display| {
            // It has read nothing of what it is to become, and ends for want of it; killed, it ends at once.
            let _ = child.kill();
            let _ = child.wait();
            self.records.remove(id);
            failed(what, error)
        };
        record.process = Process::of(child.pid());
        if let Err(error) = self.records.write(&record) {
            return Err(abandon(child, "its record", &error));
        }
        let names = (id.to_owned(), name.clone());
        let running = match Running::new(names, connection, start.bounds, child.pid(), secrets) {
            Ok(running) => Arc::new(running),
            Err(errno) => return Err(abandon(child, "its process", &errno)),
        };
        let settings = Settings {
            program: start.program,
            arguments: start.arguments,
            environment: start.environment.into_iter().collect(),
            rights: start.rights,
        };
        let stdin = child.stdin.take();
        // What is made of texts and numbers is always JSON.
        let text = serde_json::to_vec(&settings).unwrap_or_default();
        let told = stdin.map_or(Ok(()), |mut stdin| stdin.write_all(&text));
        if let Err(error) = told {
            return Err(abandon(child, "telling it what to be", &error));
        }
        self.known().running.insert(id.to_owned(), Arc::clone(&running));
        let end = move || drop(reports.send(Report::Ended));
        self.watch(Arc::clone(&running), (Some(reader), Some(child)), path.clone(), end)
            .map_err(|error| failed("a thread that watches it", &error))?;
        Ok(running)
    }

    /// Watches a helper from a thread of its own.
    fn watch(
        self: &Arc<Self>,
        running: Arc<Running>,
        (words, child): (Option<File>, Option<Child>),
        program: String,
        at_its_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let inner = Arc::clone(self);
        let watched = Arc::clone(&running);
        let thread = std::thread::Builder::new().name("watches a helper".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let how = watched.watch(words, child);
            let why = said(&watched.name, &program, &how, &watched.words());
            let ended = EndedHelper { id: watched.id.clone(), name: watched.name.clone(), why };
            let listener = inner.note_end(&ended);
            watched.finish(how);
            at_its_end();
            if let Some(listener) = listener {
                listener(ended);
            }
        });
        started.map(|_| ()).inspect_err(|_| {
            running.kill();
            self.known().running.remove(&running.id);
            self.records.remove(&running.id);
        })
    }

    /// Takes note of an end. Who is to be told of it, if anybody is there.
    fn note_end(&self, ended: &EndedHelper) -> Option<Arc<Listener>> {
        self.records.remove(&ended.id);
        let mut known = self.known();
        known.running.remove(&ended.id);
        if known.ended.len() >= REMEMBERED {
            known.ended.pop_front();
        }
        known.ended.push_back(ended.clone());
        if known.listener.is_none() {
            known.untold.push(ended.clone());
        }
        known.listener.clone()
    }

    fn resume(self: &Arc<Self>, record: Record) {
        let connection = FuseConnection(record.connection);
        let pid = record.process.and_then(|process| Pid::from_raw(process.pid));
        let names = (record.id.clone(), record.name.clone());
        // Opened first, looked at then: what is found is what was opened.
        let running = pid.and_then(|pid| Running::new(names, connection, record.bounds, pid, Vec::new()).ok());
        let same = pid.is_some_and(|pid| Process::of(pid) == record.process);
        match running {
            Some(running) if same => {
                let running = Arc::new(running);
                self.known().running.insert(record.id.clone(), Arc::clone(&running));
                if let Err(error) = self.watch(running, (None, None), record.program, || ()) {
                    warn!(%error, helper = record.id, "a helper cannot be watched");
                }
            }
            _ => {
                let why = said(&record.name, &record.program, "it ended while volhost did not run", "");
                let ended = EndedHelper { id: record.id, name: record.name, why };
                if let Some(listener) = self.note_end(&ended) {
                    listener(ended);
                }
            }
        }
    }
}

fn said(name: &str, program: &str, why: &str, words: &str) -> String {
    let words = if words.is_empty() { String::new() } else { format!("; it said: {words}") };
    format!("the helper {name} ({program}): {why}{words}")
}

/// A pipe whose writer holds its other end, too, and never waits: what it writes while nobody reads is lost, and it is not
/// ended because of it.
fn words_pipe() -> io::Result<(File, OwnedFd)> {
    let (reader, _writer) = io::pipe()?;
    let reader = OwnedFd::from(reader);
    let flags = rustix::fs::fcntl_getfl(&reader)?;
    rustix::fs::fcntl_setfl(&reader, flags | OFlags::NONBLOCK)?;
    let path = format!("/proc/thread-self/fd/{}", reader.as_raw_fd());
    let writer = rustix::fs::openat(CWD, path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    Ok((File::from(reader), writer))
}
