//! A helper that runs: waiting for its end, hearing what it says, ending it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use volhost_kernel::FuseConnection;
use volhost_kernel::program::{Child, wait_readable};
use volhost_model::objects::Bytes;
use volhost_runtime::HelperBounds;

use crate::record::KILL_PATIENCE;
use crate::secret::redact;

/// What is kept of what it says, in bytes: the last of it.
const WORDS_BYTES: usize = 1024;
/// How long it has after it was asked to end.
const TERM_PATIENCE: Duration = Duration::from_secs(2);
/// For ever, as `poll` has it.
const FOR_EVER: i32 = -1;

/// A helper.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) connection: FuseConnection,
    bounds: HelperBounds,
    pid: Pid,
    process: OwnedFd,
    secrets: Vec<Bytes>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    words: VecDeque<u8>,
    /// How it ended, once it has.
    ended: Option<String>,
}

impl Running {
    /// The process must not have been waited for.
    pub(crate) fn new(
        (id, name): (String, String),
        connection: FuseConnection,
        bounds: HelperBounds,
        pid: Pid,
        secrets: Vec<Bytes>,
    ) -> Result<Self, Errno> {
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let (state, changed) = Default::default();
        Ok(Self { id, name, connection, bounds, pid, process, secrets, state, changed })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears it until it has ended, and tells how it did. Takes as long as it lives. Whoever waits for its end goes on waiting, until
    /// [`Running::finish`].
    pub(crate) fn watch(&self, words: Option<File>, child: Option<Child>) -> String {
        let mut words = words;
        loop {
            let waited: Vec<_> = std::iter::once(self.process.as_fd()).chain(words.as_ref().map(AsFd::as_fd)).collect();
            let exited = match wait_readable(&waited, FOR_EVER) {
                Ok(ready) => ready.first() == Some(&true),
                Err(Errno::INTR) => false,
                // Nothing can be waited for any more: as good as ended for whoever asks.
                Err(_) => true,
            };
            if let Some(pipe) = &mut words
                && !self.hear(pipe)
            {
                words = None;
            }
            if exited {
                break;
            }
        }
        if child.is_some() {
            // Before it is waited for, its number is nobody else's: what it has left in its group goes with it.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        child.map(Child::wait).and_then(Result::ok).map_or("it ended".to_owned(), how_it_ended)
    }

    /// It has ended so, and nothing of it is left.
    pub(crate) fn finish(&self, how: String) {
        self.state().ended = Some(how);
        self.changed.notify_all();
    }

    /// Takes what it has said; false when nothing more can come.
    fn hear(&self, pipe: &mut File) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    let mut state = self.state();
                    state.words.extend(buffer.iter().take(count));
                    let over = state.words.len().saturating_sub(WORDS_BYTES);
                    state.words.drain(..over);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// What it said last, on one line, without secrets.
    pub(crate) fn words(&self) -> String {
        let bytes: Vec<u8> = self.state().words.iter().copied().collect();
        let text = redact(&String::from_utf8_lossy(&bytes), &self.secrets);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned())
            .filter(|line| !line.is_empty())
            .collect();
        lines.join("; ")
    }

    /// How it ended; none while it runs.
    pub(crate) fn ended(&self) -> Option<String> {
        self.state().ended.clone()
    }

    /// Waits for its end; whether it came.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
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

    /// Kills it with its group; whether it is gone.
    pub(crate) fn kill(&self) -> bool {
        if self.ended().is_none() {
            // Its group is its own as long as it is there.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = pidfd_send_signal(&self.process, Signal::KILL);
        }
        self.wait(KILL_PATIENCE)
    }

    /// Sees it end, now that nobody has its file system: by itself, then asked, then killed. Whether it is gone.
    pub(crate) fn see_to_its_end(&self) -> bool {
        if self.wait(self.bounds.stop) {
            return true;
        }
        // Ended since: nobody is there to get it.
        let _ = pidfd_send_signal(&self.process, Signal::TERM);
        self.wait(TERM_PATIENCE) || self.kill()
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}
