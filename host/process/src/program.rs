//! What to start: a program with its arguments, environment and descriptors.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use volhost_kernel::child::{NewChild, spawn};

use crate::child::Child;

/// A program to start: without a shell, with the environment given here and no more, in `/`, its
/// input and outputs on pipes.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    own_group: bool,
    /// From 3 on.
    descriptors: Vec<Arc<OwnedFd>>,
    /// Both outputs, where they are not pipes to this process.
    outputs: Option<Arc<OwnedFd>>,
}

/// Where a program writes.
enum Outputs<'a> {
    Given(&'a OwnedFd),
    Pipes((PipeReader, PipeWriter), (PipeReader, PipeWriter)),
}

impl Program {
    /// The program at this path. No search path is tried.
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
    pub fn with_arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Adds a variable to its environment, which is otherwise empty.
    #[must_use]
    pub fn with_variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Makes it the leader of a process group: a signal to the group reaches its children too, and
    /// a terminal's interrupt does not reach the program.
    #[must_use]
    pub fn with_own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    /// Gives it one more descriptor. The first one has the number [`Self::FIRST_DESCRIPTOR`], the
    /// next one follows.
    #[must_use]
    pub fn with_descriptor(mut self, descriptor: Arc<OwnedFd>) -> Self {
        self.descriptors.push(descriptor);
        self
    }

    /// The number of the first descriptor beyond input and outputs.
    pub const FIRST_DESCRIPTOR: usize = 3;

    /// Sends both its outputs here, instead of to pipes to this process.
    #[must_use]
    pub fn with_outputs(mut self, outputs: Arc<OwnedFd>) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// Starts it. Blocks until the kernel has loaded it.
    ///
    /// # Guarantees
    /// From before the program begins, the child has no descriptor of this process but its three
    /// pipes and those given to it.
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
        let pid = spawn(&NewChild {
            program: &path,
            arguments: &arguments,
            environment: &environment,
            stdio: [stdin.as_fd(), stdout, stderr],
            inherited: &inherited,
            own_group: self.own_group,
        })?;
        let mut child = Child::new(pid, self.own_group)?;
        child.stdin = Some(to);
        if let Outputs::Pipes((stdout, _), (stderr, _)) = outputs {
            (child.stdout, child.stderr) = (Some(stdout), Some(stderr));
        }
        Ok(child)
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    // A word with a zero byte in it can name no program and be no argument.
    CString::new(text.as_bytes()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::Signal;

    use super::*;

    #[test]
    fn input_outputs_and_status_are_its_own() {
        let program =
            Program::new("/bin/sh").with_arguments(["-c", "read line; echo \"$line $GREETING\"; pwd >&2; exit 7"]);
        let mut child = program.with_variable("GREETING", "there").start().unwrap();
        child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
        let (mut out, mut errors) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((out.as_str(), errors.as_str()), ("hello there\n", "/\n"));
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn a_child_has_no_descriptor_of_this_process() {
        // Inherited on purpose: without CLOEXEC.
        let kept = std::fs::File::open("/proc").unwrap();
        rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
        let mut child = Program::new("/bin/ls").with_arguments(["/proc/self/fd"]).start().unwrap();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert!(child.wait().unwrap().success());
        // 3 is the folder that it lists.
        assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    }

    #[test]
    fn a_missing_program_is_not_found() {
        let error = Program::new("/nowhere/program").start().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_killed_program_is_waited_for() {
        let child = Program::new("/bin/sleep").with_arguments(["1000"]).with_own_group().start().unwrap();
        assert_eq!(rustix::process::getpgid(Some(child.pid())).unwrap(), child.pid());
        child.kill();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
