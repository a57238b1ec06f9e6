//! A program that this process has started.

use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::process::Process;

/// How long a killed program may take to end. It takes longer when it is stuck in the kernel, on a
/// disk that hangs.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A program that was started. Dropping it leaves it running, and a zombie at its end: wait for it.
#[derive(Debug)]
pub struct Child {
    process: Arc<Process>,
    own_group: bool,
    /// Its input. Dropping it ends the input.
    pub stdin: Option<PipeWriter>,
    /// Its output.
    pub stdout: Option<PipeReader>,
    /// Its error output.
    pub stderr: Option<PipeReader>,
}

impl Child {
    /// The child of this id, just started.
    pub(crate) fn new(pid: Pid, own_group: bool) -> io::Result<Self> {
        match Process::open(pid) {
            Ok(process) => Ok(Self { process: Arc::new(process), own_group, stdin: None, stdout: None, stderr: None }),
            Err(error) => {
                // Nothing could watch it. It was started a moment ago, and ends at once.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = reap(pid);
                Err(error)
            }
        }
    }

    /// The process.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Its id, and its group's where it leads one.
    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// Kills it, with its process group if it leads one.
    pub fn kill(&self) {
        if self.own_group {
            self.process.kill_group();
        } else {
            // It fails only when the child has ended.
            let _ = self.process.signal(Signal::KILL);
        }
    }

    /// Waits for its end, however long that takes.
    ///
    /// # Errors
    /// The kernel's, where another part of this process has waited for it.
    pub fn wait(self) -> io::Result<ExitStatus> {
        reap(self.pid())
    }

    /// Kills it and waits for its end. A thread waits on for one that is stuck in the kernel.
    pub fn end(self) {
        self.kill();
        if self.process.wait_for_end(KILL_TIMEOUT).is_ok_and(|ended| !ended) {
            // Without the thread it stays a zombie until this process ends.
            let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || self.wait());
            return;
        }
        let _ = self.wait();
    }
}

fn reap(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
