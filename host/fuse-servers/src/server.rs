//! One FUSE server that runs: waiting for its end, keeping the last of its output, ending it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use volhost_kernel::FuseConnection;
use volhost_model::objects::Bytes;
use volhost_process::{Child, OutputVerdict, Process, ProcessWatch, describe};
use volhost_runtime::FuseServerBounds;

use crate::secret::redact;

/// How much of its output is kept, in bytes: the end of it.
const OUTPUT_BYTES: usize = 1024;
/// How long it has to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the kernel has to end it after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The names of a server.
#[derive(Debug)]
pub(crate) struct ServerNames {
    /// Unique on the node.
    pub(crate) id: String,
    /// In the grant.
    pub(crate) name: String,
    /// The path of its program.
    pub(crate) program: String,
}

/// A server that runs, or has ended.
#[derive(Debug)]
pub(crate) struct Server {
    names: ServerNames,
    connection: FuseConnection,
    bounds: FuseServerBounds,
    process: Arc<Process>,
    secrets: Vec<Bytes>,
    state: Mutex<ServerState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ServerState {
    output: VecDeque<u8>,
    /// How it ended, once it has.
    ended: Option<ServerEnd>,
    /// It was asked to end, or killed.
    was_signalled: bool,
}

/// How a server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerEnd {
    /// In words.
    pub(crate) how: String,
    /// With an exit code that is not 0, or by a signal. False where its exit code is not known.
    pub(crate) is_failure: bool,
}

impl Server {
    /// The process must not have been waited for.
    pub(crate) fn new(
        names: ServerNames,
        connection: FuseConnection,
        bounds: FuseServerBounds,
        process: Arc<Process>,
        secrets: Vec<Bytes>,
    ) -> Self {
        let (state, changed) = Default::default();
        Self { names, connection, bounds, process, secrets, state, changed }
    }

    pub(crate) fn id(&self) -> &str {
        &self.names.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.names.name
    }

    pub(crate) fn program(&self) -> &str {
        &self.names.program
    }

    pub(crate) fn connection(&self) -> FuseConnection {
        self.connection
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads its output until it has ended, and returns how it ended. Blocks as long as it lives.
    /// Callers of [`Self::wait`] wait on, until [`Self::set_ended`].
    pub(crate) fn watch(&self, output: Option<OwnedFd>, child: Option<Child>) -> ServerEnd {
        let mut watch = Ok(ProcessWatch::new(&self.process));
        if let Some(output) = output {
            watch = watch.and_then(|watch| watch.with_output(output, |bytes| self.keep(bytes)));
        }
        // Where the kernel cannot report the end, the server counts as ended.
        let _ = watch.and_then(|watch| watch.until_end(None));
        if let Some(child) = &child {
            // Before it is waited for, its id is its own: the rest of its group ends with it.
            child.kill();
        }
        child.map(Child::wait).and_then(Result::ok).map_or_else(ServerEnd::unknown, ServerEnd::of)
    }

    /// It has ended so, and its record is gone.
    pub(crate) fn set_ended(&self, end: ServerEnd) {
        self.state().ended = Some(end);
        self.changed.notify_all();
    }

    /// Keeps the end of its output.
    fn keep(&self, bytes: &[u8]) -> OutputVerdict {
        let mut state = self.state();
        state.output.extend(bytes);
        let over = state.output.len().saturating_sub(OUTPUT_BYTES);
        state.output.drain(..over);
        OutputVerdict::Continue
    }

    /// The last of its output, on one line, without secrets.
    pub(crate) fn last_output(&self) -> String {
        let bytes: Vec<u8> = self.state().output.iter().copied().collect();
        let text = redact(&String::from_utf8_lossy(&bytes), &self.secrets);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned())
            .filter(|line| !line.is_empty())
            .collect();
        lines.join("; ")
    }

    /// How it ended; none while it runs.
    pub(crate) fn ended(&self) -> Option<ServerEnd> {
        self.state().ended.clone()
    }

    /// Returns why it cannot be relied on that it has written out what users wrote; none when it
    /// ended by itself, without an error.
    pub(crate) fn unclean_end(&self) -> Option<String> {
        let state = self.state();
        let end = state.ended.as_ref()?;
        if state.was_signalled {
            let after = self.bounds.stop.as_secs_f64();
            return Some(format!(
                "it did not end by itself within {after} s of its unmount (`stop-time` of the grant)"
            ));
        }
        end.is_failure.then(|| end.how.clone())
    }

    /// Waits for its end, at most so long. Returns whether it has ended.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut state = self.state();
        while state.ended.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state =
                self.changed.wait_timeout(state, left).map_or_else(|error| error.into_inner().0, |(state, _)| state);
        }
        true
    }

    /// Kills it with its group. Returns whether it has ended.
    pub(crate) fn kill(&self) -> bool {
        if self.ended().is_none() {
            self.state().was_signalled = true;
            // The group's id is its own as long as it runs.
            self.process.kill_group();
        }
        self.wait(KILL_TIMEOUT)
    }

    /// Ends a server whose file system is not mounted any more: waits for it as long as the grant
    /// says, then asks it to end, then kills it. Returns whether it has ended.
    pub(crate) fn end(&self) -> bool {
        if self.wait(self.bounds.stop) {
            return true;
        }
        self.state().was_signalled = true;
        // It fails only when the server has ended since.
        let _ = self.process.signal(Signal::TERM);
        self.wait(TERM_TIMEOUT) || self.kill()
    }
}

impl ServerEnd {
    fn of(status: ExitStatus) -> Self {
        let how = match status.code() {
            Some(_) => format!("it ended with {}", describe(status)),
            None => format!("it was ended by {}", describe(status)),
        };
        Self { how, is_failure: !status.success() }
    }

    /// The kernel reports the exit code of a process to its parent alone, and this one was adopted.
    fn unknown() -> Self {
        Self { how: "it ended".to_owned(), is_failure: false }
    }
}
