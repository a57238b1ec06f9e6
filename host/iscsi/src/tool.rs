//! Runs of `iscsiadm`: bounded, without a shell, and without a secret among the arguments.

use std::net::SocketAddr;
use std::time::Duration;

use volhost_process::{Overflow, Program, RunBounds, RunEnd, describe};

use crate::error::PortalError;
use crate::places::Places;

/// The program.
pub(crate) const PROGRAM: &str = "iscsiadm";
/// Its whole environment: the folders of the programs that it starts itself, and messages that are
/// the same everywhere.
const ENVIRONMENT: [(&str, &str); 2] = [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("LC_ALL", "C")];
/// Longer than a login may take: see `records`.
const DEADLINE: Duration = Duration::from_secs(40);
/// How much of each output is kept, in bytes.
const KEPT_BYTES: usize = 16 << 10;
/// How much of its messages a text shows, in characters.
const SHOWN_CHARS: usize = 300;

/// How a run ended. The numbers are those of iscsiadm(8), section "Exit status".
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// Its output.
    pub(crate) output: String,
    words: String,
}

/// The session or record is not there.
const NOT_FOUND: [i32; 2] = [2, 21];
/// The session exists already.
const EXISTS: i32 = 15;
/// iscsid cannot be reached.
const NO_DAEMON: [i32; 2] = [18, 20];
/// The target refuses the login for good: it is not there, or the portal group is another.
pub(crate) const REFUSED_FOR_GOOD: i32 = 19;
/// The credentials are wrong.
const NOT_AUTHORISED: i32 = 24;

/// A record of a portal, as the program is to find it.
pub(crate) struct Record<'a> {
    pub(crate) target: &'a str,
    pub(crate) portal: SocketAddr,
    pub(crate) interface: &'a str,
}

impl Record<'_> {
    /// Runs the program on the record.
    pub(crate) fn run(&self, places: &Places, step: &'static str, words: &[&str]) -> Result<Ran, PortalError> {
        let portal = self.portal.to_string();
        let named = ["-m", "node", "-T", self.target, "-p", &portal, "-I", self.interface];
        run(places, step, &[named.as_slice(), words].concat())
    }
}

/// Runs the program to its end.
pub(crate) fn run(places: &Places, step: &'static str, arguments: &[&str]) -> Result<Ran, PortalError> {
    let path = places.initiator().ok_or(PortalError::NoProgram)?;
    let mut program = Program::new(path).with_arguments(arguments);
    for (name, value) in ENVIRONMENT {
        program = program.with_variable(name, value);
    }
    let ran = program
        .run(RunBounds::new(DEADLINE, Overflow::Dropped { after: KEPT_BYTES }))
        .map_err(|error| PortalError::Run(PROGRAM, error.into()))?;
    let RunEnd::Exited(status) = ran.end else { return Err(PortalError::Deadline(step, DEADLINE.as_secs())) };
    let said = String::from_utf8_lossy(&ran.stderr);
    let said: Vec<&str> = said.lines().map(|line| line.trim().trim_start_matches("iscsiadm: ")).collect();
    let said: String = said.join(" ").chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
    let words = if said.is_empty() { describe(status) } else { format!("{said} ({})", describe(status)) };
    Ok(Ran { code: status.code(), output: String::from_utf8_lossy(&ran.stdout).into_owned(), words })
}

impl Ran {
    /// Returns whether the program did it.
    pub(crate) fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// Done, or done already.
    pub(crate) fn login(self) -> Result<(), PortalError> {
        if self.code == Some(EXISTS) { Ok(()) } else { self.done("log in") }
    }

    /// Undone, or never done.
    pub(crate) fn undone(self, step: &'static str) -> Result<(), PortalError> {
        if self.code.is_some_and(|code| NOT_FOUND.contains(&code)) { Ok(()) } else { self.done(step) }
    }

    /// Done.
    pub(crate) fn done(self, step: &'static str) -> Result<(), PortalError> {
        match self.code {
            Some(0) => Ok(()),
            Some(code) if NO_DAEMON.contains(&code) => Err(PortalError::NoDaemon(self.words)),
            Some(NOT_AUTHORISED) => Err(PortalError::Refused(self.words)),
            _ => Err(PortalError::Failed { step, words: self.words }),
        }
    }
}
