//! The command line of `volhostd`. Users type the same words to `volhost`, which passes them on.

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};
use volhost_config::{ColorChoice, CsiServeArguments, RunArguments, with_variables};

/// The process that mounts. `volhost` is the command line; it starts this program for `run` and
/// `csi-serve`
#[derive(Debug, Parser)]
#[command(name = "volhostd", version, max_term_width = 100)]
pub(super) struct Cli {
    /// The daemon's unix socket [env: VOLHOST_SOCKET] [default: /run/volhost/volhost.sock]
    #[arg(long, global = true, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// When to use colour in errors
    #[arg(long, global = true, value_name = "auto|always|never", default_value = "auto", hide_possible_values = true)]
    pub(super) color: ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Run(Box<RunArguments>),
    CsiServe(Box<CsiServeArguments>),
    /// What the process starts itself for.
    #[command(hide = true)]
    Internal {
        /// Which part.
        #[command(subcommand)]
        command: InternalCommand,
    },
}

/// What the process starts itself for.
#[derive(Debug, Subcommand)]
pub(super) enum InternalCommand {
    /// Compile a plugin: WebAssembly on standard input, machine code on standard output, no
    /// privileges.
    CompilePlugin,
    /// Read what program to become, drop the privileges that it is not to have, and become it.
    RunProgram,
}

/// The whole command, with the environment's variables named in the help of `run`.
pub(super) fn command() -> clap::Command {
    Cli::command().mut_subcommand("run", with_variables)
}
