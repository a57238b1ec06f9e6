//! The command that builds the plugin.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use thiserror::Error;
use tokio::process::Command;

use crate::arguments::DevArguments;
use crate::error::CliError;
use crate::plugin::{digest, read_plugin};

/// Has cargo print warnings and errors alone, unless the user says otherwise.
const QUIET: &str = "CARGO_TERM_QUIET";

/// A built component.
#[derive(Debug)]
pub(super) struct Component {
    pub(super) wasm: Vec<u8>,
    /// SHA-256 in hex.
    pub(super) digest: String,
    /// How long the build took.
    pub(super) time: Duration,
}

/// Why there is no component. The build's own words are on standard error already.
#[derive(Debug, Error)]
pub(super) enum BuildFailure {
    /// It does not start.
    #[error("the build cannot be started: {0}")]
    Start(#[source] io::Error),
    /// It failed.
    #[error("the build failed ({0})")]
    Failed(std::process::ExitStatus),
    /// It has written no component.
    #[error("the build succeeded and wrote no component: {0}")]
    NoComponent(#[source] CliError),
}

/// Where the component is after a build.
#[derive(Debug)]
enum Place {
    /// The only file of a folder of ours.
    Folder(PathBuf),
    /// This file.
    File(PathBuf),
}

/// Builds the plugin, by one command.
#[derive(Debug)]
pub(super) struct Builder {
    program: PathBuf,
    words: Vec<OsString>,
    place: Place,
}

impl Builder {
    /// The author's command, or `volhost plugin build` of the crate in the current folder, which
    /// writes into `folder`.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub(super) fn new(arguments: &DevArguments, folder: PathBuf) -> Result<Self, CliError> {
        if let (Some(command), Some(out)) = (&arguments.build, &arguments.out) {
            let words = vec!["-c".into(), command.clone()];
            return Ok(Self { program: PathBuf::from("/bin/sh"), words, place: Place::File(out.clone()) });
        }
        let program = std::env::current_exe().map_err(CliError::Runtime)?;
        let words = ["plugin", "build", "--out"].map(OsString::from).into_iter();
        let words = words.chain([folder.clone().into_os_string()]).collect();
        Ok(Self { program, words, place: Place::Folder(folder) })
    }

    /// Builds once. The build's messages go to standard error. When this is dropped early, the
    /// build is killed with all that it has started.
    pub(super) async fn build(&self) -> Result<Component, BuildFailure> {
        let begun = Instant::now();
        // What the command prints is no output of ours.
        let messages = io::stderr().as_fd().try_clone_to_owned().map_err(BuildFailure::Start)?;
        let output = match self.place {
            Place::Folder(_) => Stdio::null(),
            Place::File(_) => Stdio::from(messages),
        };
        let mut command = Command::new(&self.program);
        command.args(&self.words).stdin(Stdio::null()).stdout(output).process_group(0).kill_on_drop(true);
        if std::env::var_os(QUIET).is_none() {
            command.env(QUIET, "true");
        }
        let mut child = command.spawn().map_err(BuildFailure::Start)?;
        let mut group = KilledGroup(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
        let status = child.wait().await.map_err(BuildFailure::Start)?;
        group.0 = None;
        if !status.success() {
            return Err(BuildFailure::Failed(status));
        }
        let wasm = self.component().map_err(BuildFailure::NoComponent)?;
        Ok(Component { digest: digest(&wasm), wasm, time: begun.elapsed() })
    }

    fn component(&self) -> Result<Vec<u8>, CliError> {
        match &self.place {
            Place::File(file) => read_plugin(file),
            Place::Folder(folder) => read_plugin(&only_file(folder)?),
        }
    }
}

/// The file of a folder that has one.
fn only_file(folder: &Path) -> Result<PathBuf, CliError> {
    let failed = |source| CliError::File { path: folder.to_owned(), source };
    let mut files = fs::read_dir(folder).map_err(failed)?;
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    files.next().unwrap_or_else(|| Err(missing())).map(|entry| entry.path()).map_err(failed)
}

/// A group of processes that is killed when this is dropped.
struct KilledGroup(Option<Pid>);

impl Drop for KilledGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Its leader is our child and not waited for, so the number is still its own.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
