//! `volhostd`: the process that mounts, as the daemon of a node (`run`) or as a CSI driver
//! (`csi-serve`).
//!
//! It links only what serving takes. `volhost`, the command line, finds it beside itself and
//! becomes it for these two commands.
//!
//! | module | its job |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`run`] | the daemon's options, log and runtime |
//! | [`daemon`] | the daemon from its start to its end |
//! | [`agent`] | the node agent beside the daemon |
//! | [`page`] | what the status page shows |
//! | [`csi_serve`] | a plugin as a CSI driver |
//! | [`error`] | failures and their exit codes |
#![forbid(unsafe_code)]

mod agent;
mod arguments;
mod csi_serve;
mod daemon;
mod error;
mod page;
mod run;
mod watchdog;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use volhost_allocator as _;
use volhost_config::EnvironmentVariables;

use arguments::{Cli, Command, InternalCommand};

/// Runs the command, and reports a failure on standard error.
///
/// The internal commands give up privileges, which has to happen before any thread exists.
fn main() -> ExitCode {
    let cli = match Cli::from_arg_matches(&arguments::command().get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let outcome = match cli.command {
        Command::Run(arguments) => run::run(*arguments, cli.socket, &EnvironmentVariables::of_process()),
        Command::CsiServe(arguments) => csi_serve::run(*arguments),
        Command::Internal { command } => return become_program(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let colour = cli.color.is_wanted(std::io::stderr().is_terminal());
            error.report(colour);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Becomes what the daemon starts itself for.
fn become_program(command: InternalCommand) -> ExitCode {
    match command {
        InternalCommand::CompilePlugin => volhost_runtime::compile_stdin_to_stdout(&volhost_runtime::Limits::default()),
        InternalCommand::RunProgram => volhost_process::launch::become_program(),
    }
}
