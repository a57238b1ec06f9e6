//! `volhost plugin dev`: builds a plugin whenever its sources change, and lets a daemon with a
//! mounted volume load it.
//!
//! ```text
//!  sources changed --> build --> swap ------------> mount, or mount again --> conformance suite --+
//!        ^               | fails   | refused          | fails                  a change ends it   |
//!        +---------------+---------+------------------+-------------------------------------------+
//! ```
//!
//! | module | its job |
//! |---|---|
//! | `sources` | what the sources are, and when they have changed |
//! | `builder` | the command that builds, one at a time |
//! | `swap` | the daemon loads the component |
//! | `checks` | the conformance suite, which a change ends |
//! | `session` | the steps in their order, and what the author reads |

mod builder;
mod checks;
mod session;
mod sources;
mod swap;

use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use volhost_kernel::namespace::unshare_mounts;
use volhost_model::text::error_chain;

use self::session::Session;
use super::scratch_daemon::ScratchDaemon;
use super::shell;
use crate::arguments::DevArguments;
use crate::error::CliError;
use crate::output::Output;

/// Runs until the shell ends or a signal arrives, then unmounts and removes everything. The whole
/// process enters a mount namespace of its own, so no thread may exist yet.
pub(super) fn run(arguments: &DevArguments, output: &mut Output) -> Result<(), CliError> {
    unshare_mounts().map_err(|error| CliError::Failed(error_chain(&error)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let daemon = ScratchDaemon::start(None, arguments.config.as_deref())?;
    let outcome = runtime.block_on(work(arguments, &daemon, output));
    let drained = runtime.block_on(daemon.drain(output));
    // Waits for the conformance case that is running, which removes what it made.
    drop(runtime);
    outcome.and(daemon.end(drained))
}

async fn work(arguments: &DevArguments, daemon: &ScratchDaemon, output: &mut Output) -> Result<(), CliError> {
    let mut end = EndSignals::new()?;
    let mut session = Session::new(arguments, daemon, output)?;
    let mut shell = None;
    loop {
        let is_shell = shell.is_some();
        tokio::select! {
            mounted = session.step() => {
                if let Some(place) = mounted? && !is_shell && has_shell(arguments) {
                    shell = Some(start_shell(arguments, &place, &daemon.socket())?);
                }
            }
            () = end.received(is_shell) => return Ok(()),
            status = ended(&mut shell) => {
                return shell::judge(&arguments.command, status.map_err(CliError::Runtime)?);
            }
        }
    }
}

/// Whether to start a shell or a command. Without a terminal a shell would end at once.
fn has_shell(arguments: &DevArguments) -> bool {
    !arguments.no_shell && (!arguments.command.is_empty() || io::stdin().is_terminal())
}

/// Starts the shell in the current folder: a shell in the volume would keep it busy.
fn start_shell(arguments: &DevArguments, place: &Path, socket: &Path) -> Result<Child, CliError> {
    let (program, words) = shell::program(&arguments.command);
    let mut command = Command::new(&program);
    command.args(words).envs(shell::variables(place, socket)).kill_on_drop(true);
    command.spawn().map_err(|source| CliError::File { path: PathBuf::from(&program), source })
}

/// Waits until the shell ends; for ever without one.
async fn ended(shell: &mut Option<Child>) -> io::Result<std::process::ExitStatus> {
    match shell {
        Some(shell) => shell.wait().await,
        None => pending().await,
    }
}

/// The signals that end the command.
struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl EndSignals {
    fn new() -> Result<Self, CliError> {
        let on = |kind| signal(kind).map_err(CliError::Runtime);
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them. While there is a shell, Ctrl-C is for the shell.
    async fn received(&mut self, is_shell: bool) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => if !is_shell { return },
                _ = self.terminate.recv() => return,
                _ = self.hangup.recv() => return,
            }
        }
    }
}
