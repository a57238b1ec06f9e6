//! The launcher: a process that drops its privileges and becomes a program. It is this program
//! itself, started again, and reads from its input what to become. If the process that started it
//! has ended before that was written, it becomes nothing.

use std::convert::Infallible;
use std::ffi::{CString, NulError, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::unistd::execve;
use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::privileges::{PrivilegeError, Privileges};
use crate::program::Program;

/// The running program itself, also after its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The arguments by which volhost's program calls [`become_program`].
const THIS_PROGRAM_ARGUMENTS: [&str; 2] = ["internal", "run-program"];

/// How to start the launcher: a program that calls [`become_program`] first thing.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// A program for the launcher to become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program, by absolute path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// What it may do.
    pub privileges: Privileges,
}

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument(pub Vec<ArgumentPart>);

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgumentPart {
    /// This text.
    Text(OsString),
    /// The path, for every process, of one of the program's descriptors: 0 for the first that it
    /// was given besides its input and outputs.
    Descriptor(usize),
}

impl From<OsString> for Argument {
    fn from(text: OsString) -> Self {
        Self(vec![ArgumentPart::Text(text)])
    }
}

/// Why the launcher became nothing.
#[derive(Debug, Error)]
enum LaunchError {
    /// The process that started it has ended, or wrote something else.
    #[error("what to run cannot be read: {0}")]
    Format(#[from] serde_json::Error),
    /// The input cannot be read.
    #[error("what to run cannot be read: {0}")]
    Input(#[source] io::Error),
    /// A word contains a zero byte.
    #[error(transparent)]
    Nul(#[from] NulError),
    /// The empty input cannot be opened.
    #[error("it cannot get an empty input: {0}")]
    EmptyInput(#[source] io::Error),
    /// A privilege stays.
    #[error("it {0}")]
    Privileges(#[from] PrivilegeError),
    /// The program cannot be executed.
    #[error("it cannot begin: {0}")]
    Execute(#[source] Errno),
}

impl Launcher {
    /// A launcher that is started so.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().collect() }
    }

    /// The running program, which must be volhost's: `volhost internal run-program`.
    #[must_use]
    pub fn this_program() -> Self {
        Self::volhost(THIS_PROGRAM)
    }

    /// volhost's program at this path.
    #[must_use]
    pub fn volhost(program: impl Into<PathBuf>) -> Self {
        Self::new(program, THIS_PROGRAM_ARGUMENTS.map(OsString::from))
    }

    /// The launcher as a program to start. It reads [`Launch::to_input`].
    #[must_use]
    pub fn program(&self) -> Program {
        Program::new(&self.program).with_arguments(&self.arguments)
    }
}

impl Launch {
    /// What the launcher reads.
    #[must_use]
    pub fn to_input(&self) -> Vec<u8> {
        // Texts and numbers are always JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Drops the privileges and becomes the program.
    fn execute(self) -> Result<Infallible, LaunchError> {
        let program = CString::new(self.program.into_vec())?;
        let mut arguments = vec![program.clone()];
        for argument in &self.arguments {
            arguments.push(CString::new(argument.word().into_vec())?);
        }
        let variable = |(name, value): (OsString, OsString)| {
            let mut text = name;
            text.push("=");
            text.push(value);
            CString::new(text.into_vec())
        };
        let environment = self.environment.into_iter().map(variable).collect::<Result<Vec<_>, _>>()?;
        self.privileges.enforce()?;
        execve(&program, &arguments, &environment).map_err(LaunchError::Execute)
    }
}

impl Argument {
    fn word(&self) -> OsString {
        let mut word = OsString::new();
        for part in &self.0 {
            match part {
                ArgumentPart::Text(text) => word.push(text),
                // By this process, so that programs which the program starts find it, too.
                ArgumentPart::Descriptor(number) => {
                    let number = Program::FIRST_DESCRIPTOR.saturating_add(*number);
                    word.push(format!("/proc/{}/fd/{number}", std::process::id()));
                }
            }
        }
        word
    }
}

/// Reads what to become, drops every privilege that it is not to have, and becomes it. To be called
/// first thing in `main`, before any thread exists. Returns only when that failed; the error output
/// says why.
#[must_use]
pub fn become_program() -> ExitCode {
    let failed = match read_and_execute() {
        Ok(never) => match never {},
        Err(failed) => failed,
    };
    // The parent may have ended, and nothing reads it then.
    let _ = writeln!(io::stderr(), "the program was not started: {failed}");
    ExitCode::FAILURE
}

fn read_and_execute() -> Result<Infallible, LaunchError> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(LaunchError::Input)?;
    let launch: Launch = serde_json::from_slice(&text)?;
    let nothing = rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    nothing.and_then(rustix::stdio::dup2_stdin).map_err(|errno| LaunchError::EmptyInput(errno.into()))?;
    launch.execute()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_launch_reads_what_it_writes_even_if_it_is_not_utf8() {
        let odd = OsStr::from_bytes(b"/p\xff").to_owned();
        let launch = Launch {
            program: odd.clone(),
            arguments: vec![Argument::from(odd.clone()), Argument(vec![ArgumentPart::Descriptor(1)])],
            environment: vec![("PATH".into(), odd)],
            privileges: Privileges { user: Some(1), ..Privileges::default() },
        };
        assert_eq!(serde_json::from_slice::<Launch>(&launch.to_input()).unwrap(), launch);
    }

    #[test]
    fn a_descriptor_is_named_by_the_process_that_has_it() {
        let argument = Argument(vec![ArgumentPart::Text("upper=".into()), ArgumentPart::Descriptor(1)]);
        assert_eq!(argument.word(), OsString::from(format!("upper=/proc/{}/fd/4", std::process::id())));
    }
}
