//! A process, by a descriptor of it: a number alone may be another process's by now.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use volhost_kernel::child::{PollTarget, wait_ready};

/// A process that runs, or has ended.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Process {
    /// The process that has this id now.
    ///
    /// # Errors
    /// The kernel's: `SRCH` where there is none.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { pid, descriptor })
    }

    /// Its id. A child's stays its own until the child is waited for.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// The kernel's: `SRCH` if it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.descriptor, signal)?)
    }

    /// Kills the process and every other one of the group that it leads. Only for a process that
    /// leads a group, and that was not waited for: until then the group's id is its own.
    pub fn kill_group(&self) {
        // Each fails only when there is nothing left to kill.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = self.signal(Signal::KILL);
    }

    /// Waits for its end, at most so long. Returns whether it has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait_for_end(&self, at_most: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + at_most;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match wait_ready(&[PollTarget::Readable(self.descriptor.as_fd())], Some(left)) {
                Ok(ready) => return Ok(ready.first() == Some(&true)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Process {
    /// The process descriptor: readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
