//! Starting other programs, so that a child holds nothing of ours for even a moment.
//!
//! Between its making and its `exec` a child of a process usually has a copy of every descriptor, and a copy keeps a mount busy that was
//! just let go. Here the copies are closed before the program begins, [`Program::start`] returns after that, and
//! whoever is told that something is busy asks again while no child is being made.

mod run;

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, PoisonError, RwLock};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

pub use run::{Ended, Overflow, Ran, RunBounds};

use crate::linux::spawn;
pub use crate::linux::wait_readable;

/// Held shared while a child is made, alone by who must know that none is being made.
static BEING_MADE: RwLock<()> = RwLock::new(());

/// A program to start: without a shell, with the environment given here and no more, in `/`, its input and outputs on pipes.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    own_group: bool,
    /// From 3 on.
    descriptors: Vec<Arc<OwnedFd>>,
    /// Both outputs, where they are no pipes to us.
    outputs: Option<Arc<OwnedFd>>,
}

/// A program that was started. Dropping it leaves it running, and unreaped: wait for it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    /// What it reads. Dropped: the end of its input.
    pub stdin: Option<PipeWriter>,
    /// What it writes.
    pub stdout: Option<PipeReader>,
    /// What it complains.
    pub stderr: Option<PipeReader>,
}

/// Where a program writes.
enum Outputs<'a> {
    Given(&'a OwnedFd),
    Pipes((PipeReader, PipeWriter), (PipeReader, PipeWriter)),
}

impl Program {
    /// The program at this path; it is looked for nowhere else.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            own_group: false,
            descriptors: Vec::new(),
            outputs: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Adds a variable of its environment, which is empty else.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Makes it the leader of a process group, so that a signal reaches its children with it and a terminal's interrupt does not
    /// reach it.
    #[must_use]
    pub fn in_own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    /// Gives it a descriptor more: the first one that is given has the number 3, the next one 4.
    #[must_use]
    pub fn descriptor(mut self, descriptor: Arc<OwnedFd>) -> Self {
        self.descriptors.push(descriptor);
        self
    }

    /// Lets it write both its outputs here, in place of pipes to this process.
    #[must_use]
    pub fn writing_to(mut self, outputs: Arc<OwnedFd>) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// Starts it. Blocks until the kernel has loaded it.
    ///
    /// # Guarantees
    /// The child holds no descriptor of this process but its three pipes and those that were given to it, from before the program begins.
    ///
    /// # Errors
    /// The kernel's: `NotFound` where there is no such program.
    pub fn start(&self) -> io::Result<Child> {
        let path = c_string(self.path.as_os_str())?;
        let mut arguments = vec![path.clone()];
        for argument in &self.arguments {
            arguments.push(c_string(argument)?);
        }
        let mut environment = Vec::with_capacity(self.environment.len());
        for (name, value) in &self.environment {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            environment.push(c_string(&variable)?);
        }
        let (stdin, to) = io::pipe()?;
        let outputs = match &self.outputs {
            Some(given) => Outputs::Given(given),
            None => Outputs::Pipes(io::pipe()?, io::pipe()?),
        };
        let (stdout, stderr) = match &outputs {
            Outputs::Given(given) => (given.as_fd(), given.as_fd()),
            Outputs::Pipes((_, stdout), (_, stderr)) => (stdout.as_fd(), stderr.as_fd()),
        };
        let inherited: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(|fd| fd.as_fd()).collect();
        let _making = BEING_MADE.read().unwrap_or_else(PoisonError::into_inner);
        let pid = spawn(&path, &arguments, &environment, [stdin.as_fd(), stdout, stderr], &inherited, self.own_group)?;
        let (stdout, stderr) = match outputs {
            Outputs::Given(_) => (None, None),
            Outputs::Pipes((out, _), (complaints, _)) => (Some(out), Some(complaints)),
        };
        Ok(Child { pid, stdin: Some(to), stdout, stderr })
    }
}

impl Child {
    /// Its id, and its group's where it leads one. It is nobody else's until [`Self::wait`] has returned.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// The kernel's. One that has ended and was not waited for can be killed once more without harm.
    pub fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, Signal::KILL)?)
    }

    /// Waits for its end, however long that takes.
    ///
    /// # Errors
    /// The kernel's, where somebody else has waited for it.
    pub fn wait(self) -> io::Result<ExitStatus> {
        loop {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Asks the kernel for something that nobody may use, and, told that it is busy, once more while no child of this process is being made.
///
/// # Errors
/// The call's own.
pub(crate) fn unless_a_child_is_made<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match call() {
        Err(Errno::BUSY) => {
            let _none = BEING_MADE.write().unwrap_or_else(PoisonError::into_inner);
            call()
        }
        answer => answer,
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    // What has a zero byte in it can be the name of no program, nor an argument.
    CString::new(text.as_bytes()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn input_outputs_and_status_are_its_own() {
        let program = Program::new("/bin/sh").arguments(["-c", "read line; echo \"$line $GREETING\"; pwd >&2; exit 7"]);
        let mut child = program.variable("GREETING", "there").start().unwrap();
        child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
        let (mut out, mut complaints) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        assert_eq!((out.as_str(), complaints.as_str()), ("hello there\n", "/\n"));
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn a_child_has_no_descriptor_of_ours() {
        // Inherited on purpose: without CLOEXEC.
        let kept = std::fs::File::open("/proc").unwrap();
        rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
        let mut child = Program::new("/bin/ls").arguments(["/proc/self/fd"]).start().unwrap();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert!(child.wait().unwrap().success());
        // 3 is the folder that it lists.
        assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let error = Program::new("/nowhere/program").start().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn one_that_is_killed_is_waited_for() {
        let child = Program::new("/bin/sleep").arguments(["1000"]).in_own_group().start().unwrap();
        assert_eq!(rustix::process::getpgid(Some(child.pid())).unwrap(), child.pid());
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
