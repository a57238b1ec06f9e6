//! The command line. It reaches the daemon through the gRPC API alone; `run` and `csi-serve` start
//! `volhostd`, the program that mounts.
//!
//! | module | its job |
//! |---|---|
//! | [`arguments`] | what can be typed, and the help that teaches it |
//! | [`client`] | the connection, and words for when there is none |
//! | [`error`] | failures and their exit codes |
//! | [`serve`] | `run`, `csi-serve`, the controllers, `csi-probe`, `node-agent`: becomes `volhostd` or `volhost-controller` |
//! | [`list`] | objects as the API streams them, by kind |
//! | [`columns`], [`text`], [`format`] | what is printed |
//! | [`reason`] | why something is not as it should be, in a word |
//! | [`line_edits`] | the lines in which two texts differ |
//! | [`manifest_file`], [`names`], [`answer`] | files, names and answers as users write them |
//! | the others | one command each, named as it is typed |
#![forbid(unsafe_code)]

mod adopt;
mod answer;
mod apply;
mod arguments;
mod attachments;
mod client;
mod columns;
mod compiled;
mod completions;
mod conformance;
mod debug;
mod delete;
mod describe;
mod diff;
mod docker;
mod doctor;
mod drain;
mod error;
mod events;
mod explain;
mod fetch_image;
mod force_unmount;
mod format;
mod get;
mod line_edits;
mod list;
mod man;
mod manifest_file;
mod metrics;
mod mounts;
mod names;
mod output;
mod plan;
mod plugin;
mod reason;
mod replay;
mod serve;
mod status;
mod structured;
mod text;
mod top;
mod usage;
mod version;
mod volume;
mod wait;

use std::process::ExitCode;

use clap::FromArgMatches;
use volhost_allocator as _;
use volhost_config::EnvironmentVariables;

use arguments::{Cli, Command, InternalCommand};
use error::CliError;
use output::Output;

/// Parses the command line, runs the command, and reports a failure.
///
/// Must be called first thing in `main`, before any thread exists: the compiler child gives up its
/// privileges here.
fn main() -> ExitCode {
    let matches = arguments::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    if let Command::Internal { command } = &cli.command {
        return match command {
            InternalCommand::CompilePlugin => {
                volhost_runtime::compile_stdin_to_stdout(&volhost_runtime::Limits::default())
            }
            InternalCommand::RunProgram => volhost_process::launch::become_program(),
            InternalCommand::FetchImage => fetch_image::run(),
        };
    }
    let mut output = Output::of_process(cli.color);
    match dispatch(cli, &mut output).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has read enough: `volhost get pods | head -1`.
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // Not a failure: the exit code alone says it, as that of `diff`.
        Err(error @ CliError::Differs) => {
            let _ = output.flush();
            ExitCode::from(error.exit_code())
        }
        Err(error) => {
            let code = error.exit_code();
            // What was printed before belongs before the error. If it can't be written, the error
            // is still reported.
            let _ = output.flush();
            output.error(&error.to_string());
            ExitCode::from(code)
        }
    }
}

fn dispatch(cli: Cli, output: &mut Output) -> Result<(), CliError> {
    let environment = EnvironmentVariables::of_process();
    match cli.command {
        Command::Run(_) | Command::CsiServe(_) => return Err(serve::become_daemon()),
        Command::Controller(_)
        | Command::AttachDetachController(_)
        | Command::PluginController(_)
        | Command::CsiProbe(_)
        | Command::NodeAgent(_) => {
            return Err(serve::become_controller());
        }
        Command::Adopt(arguments) => return adopt::run(&arguments, output),
        Command::Completions { shell } => return completions::print(shell, output),
        Command::Man { dir } => return man::write(dir.as_deref(), output),
        Command::Plugin { command } => {
            return plugin::run(&command, &volhost_config::socket(cli.socket, &environment), output);
        }
        Command::Conformance(arguments) => return conformance::run(&arguments, output),
        Command::Replay(arguments) => return replay::run(&arguments, output),
        Command::Version { client: true, output: format } => return version::print_client(format, output),
        // Handled before any of this.
        Command::Internal { .. } => return Ok(()),
        _ => {}
    }
    // One thread is enough for one connection.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let socket = volhost_config::socket(cli.socket, &environment);
    runtime.block_on(async {
        match cli.command {
            Command::Get(arguments) => get::run(&arguments, &socket, output).await,
            Command::Describe(arguments) => describe::run(&arguments, &socket, output).await,
            Command::Debug { command } => debug::run(command, &socket, &environment, output).await,
            Command::Doctor(arguments) => doctor::run(*arguments, &socket, &environment, output).await,
            Command::Explain(arguments) => explain::run(&arguments, &socket, output).await,
            Command::Status(arguments) => status::run(&arguments, &socket, output).await,
            Command::Wait(arguments) => wait::run(&arguments, &socket, output).await,
            Command::Mounts(arguments) => mounts::run(&arguments, &socket, output).await,
            Command::Events(arguments) => events::run(&arguments, &socket, output).await,
            Command::Apply(arguments) => apply::run(&arguments, &socket, output).await,
            Command::Diff(arguments) => diff::run(&arguments, &socket, output).await,
            Command::Plan(arguments) => plan::run(&arguments, &socket, output).await,
            Command::Delete(arguments) => delete::run(&arguments, &socket, output).await,
            Command::Attachments { command } => attachments::run(&command, &socket, output).await,
            Command::Drain(arguments) => drain::run(&arguments, &socket, output).await,
            Command::Uncordon => drain::end(&socket, output).await,
            Command::ForceUnmount(arguments) => force_unmount::run(&arguments, &socket, output).await,
            Command::Volume { command } => volume::run(command, &socket, output).await,
            Command::Docker(arguments) => docker::run(&arguments, &socket, output).await,
            Command::Top(arguments) => top::run(&arguments, &socket, output).await,
            Command::Metrics => metrics::print(&socket, output).await,
            Command::Version { output: format, .. } => version::print(&socket, format, output).await,
            Command::Run(_)
            | Command::CsiServe(_)
            | Command::Controller(_)
            | Command::AttachDetachController(_)
            | Command::PluginController(_)
            | Command::CsiProbe(_)
            | Command::NodeAgent(_)
            | Command::Adopt(_)
            | Command::Completions { .. }
            | Command::Man { .. }
            | Command::Plugin { .. }
            | Command::Conformance(_)
            | Command::Replay(_)
            | Command::Internal { .. } => Ok(()),
        }
    })
}
