//! `volhost debug bundle`: what a bug report needs, in one file. `volhost debug record`: the
//! daemon's recording.
//!
//! | module | its job |
//! |---|---|
//! | [`bundle`] | what is collected |
//! | [`record`] | the daemon's recording |
//! | [`log`] | the end of the daemon's log |
//! | [`redact`] | secrets in text, replaced |
//! | [`tar`] | the archive |

mod bundle;
mod log;
mod record;
mod redact;
mod tar;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use volhost_config::EnvironmentVariables;

use super::client::Client;
use super::doctor::DaemonOptions;
use super::error::CliError;
use super::format::{now_us, rfc3339};
use super::output::Output;
use bundle::Bundle;

/// `debug`.
#[derive(Debug, Subcommand)]
pub(super) enum DebugCommand {
    /// Put what a bug report needs into one file, without secrets
    #[command(
        after_help = "The file has: the node's lists, events, metrics, the daemon's recording (for `volhost replay`), the mounts below the root folder, the end of the daemon's log, its configuration, versions, digests of plugins, and what `volhost doctor` says. Passwords in configuration, log and command line are replaced; read the file before you send it. A file that exists is not overwritten.\n\nExamples:\n  volhost debug bundle\n  volhost debug bundle -o /tmp/volhost.tar --config /etc/volhost/config.toml"
    )]
    Bundle(Box<BundleArguments>),
    /// Write the daemon's last events and decisions to a file for `volhost replay`
    #[command(
        after_help = "The daemon keeps the last steps of its state machine in memory, up to 8 MiB of them, from its start on. The file has names, labels and annotations of pods, fields of volumes, and the words of failures; it has no content of a Secret. A file that exists is not overwritten.\n\nExamples:\n  volhost debug record\n  volhost debug record -o today.jsonl && volhost replay today.jsonl"
    )]
    Record(RecordArguments),
}

/// `debug record`.
#[derive(Debug, Args)]
pub(super) struct RecordArguments {
    /// The file to write [default: volhost-recording-TIME.jsonl in the current folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// `debug bundle`.
#[derive(Debug, Args)]
pub(super) struct BundleArguments {
    /// The file to write [default: volhost-debug-TIME.tar in the current folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Options of the daemon.
    #[command(flatten)]
    daemon: DaemonOptions,
}

/// Collects and writes the bundle, or the recording.
///
/// # Errors
/// [`CliError::Config`] for the daemon's options; [`CliError::File`] if the file exists or cannot be
/// written: then it is not left behind.
pub(super) async fn run(
    command: DebugCommand,
    socket: &Path,
    environment: &EnvironmentVariables,
    output: &mut Output,
) -> Result<(), CliError> {
    let time: String =
        rfc3339(now_us()).unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).take(15).collect();
    let arguments = match command {
        DebugCommand::Bundle(arguments) => arguments,
        DebugCommand::Record(RecordArguments { output: file }) => {
            let file = file.unwrap_or_else(|| PathBuf::from(format!("volhost-recording-{time}.jsonl")));
            return write_recording(file, socket, output).await;
        }
    };
    let BundleArguments { output: file, daemon } = *arguments;
    let config = daemon.load(socket, environment)?;
    let name = format!("volhost-debug-{time}");
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{name}.tar")));
    // Before the work of collecting.
    if file.symlink_metadata().is_ok() {
        return Err(exists(file));
    }
    let bundle = Bundle::collect(&config).await;
    write(&file, &bundle.archive(&name, now_us() / 1_000_000))?;
    for problem in bundle.problems() {
        output.note(&format!("Warning: not in the bundle: {problem}"));
    }
    output.line(&format!("{} written; read it before you send it to others", file.display()))
}

async fn write_recording(file: PathBuf, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    if file.symlink_metadata().is_ok() {
        return Err(exists(file));
    }
    let mut client = Client::connect(socket).await?;
    let recording = record::of_daemon(&mut client, socket).await?;
    write(&file, &recording)?;
    output.line(&format!("{0} written; `volhost replay {0}` shows it", file.display()))
}

fn exists(file: PathBuf) -> CliError {
    let source = std::io::Error::new(std::io::ErrorKind::AlreadyExists, "it exists; name another file with -o");
    CliError::File { path: file, source }
}

/// Writes a file that does not exist; only its owner may read it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path.to_path_buf()),
        _ => CliError::File { path: path.to_path_buf(), source },
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    if let Err(source) = file.write_all(bytes).and_then(|()| file.sync_all()) {
        // Half an archive is of no use.
        let _ = std::fs::remove_file(path);
        return Err(CliError::File { path: path.to_path_buf(), source });
    }
    Ok(())
}
