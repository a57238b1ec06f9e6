//! `kubectl volhost`: where the volumes of a cluster's pods are, and why they wait. It reads objects
//! of the API server with the rights of who runs it, and changes nothing.
//!
//! ```text
//!  pod --> claim --> class, PersistentVolume --> driver: its controller, the node, the attachment
//!   '--> events
//! ```
//!
//! | module | its job |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`cluster`] | reads objects; what could not be read is known, too |
//! | [`chain`] | the objects that one volume of a pod depends on |
//! | [`explain`] | these objects as sentences: what is done, what is missing, who acts |
//! | [`volumes`], [`drivers`], [`check`] | the other commands |
//! | [`state`] | what one object says of itself: the last event, the age, the attachment |
//! | [`output`] | tables, JSON, names |
#![forbid(unsafe_code)]

mod arguments;
mod chain;
mod check;
mod cluster;
mod drivers;
mod error;
mod explain;
mod output;
mod state;
mod volumes;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use volhost_allocator as _;

use arguments::{Cli, Command};
use cluster::Cluster;
use error::PluginError;
use output::Output;

/// Runs one command, and reports a failure on standard error.
fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::of_process(cli.color);
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = threads.map_err(PluginError::Runtime).and_then(|threads| threads.block_on(run(cli, &output)));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output.error(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}

/// Returns whether everything is as it should be, where the command judges that.
async fn run(cli: Cli, output: &Output) -> Result<bool, PluginError> {
    let connect = Cluster::connect(&cli.connection);
    match cli.command {
        Command::Man => man(output).map(|()| true),
        Command::Explain(arguments) => explain::run(&connect.await?, &arguments, output).await.map(|()| true),
        Command::Volumes(arguments) => volumes::run(&connect.await?, &arguments, output).await.map(|()| true),
        Command::Drivers(arguments) => drivers::run(&connect.await?, &arguments, output).await.map(|()| true),
        Command::Check(arguments) => check::run(&connect.await?, &arguments, output).await,
    }
}

/// Prints kubectl-volhost(1).
fn man(output: &Output) -> Result<(), PluginError> {
    let command = Cli::command().name("kubectl-volhost").bin_name("kubectl-volhost").disable_help_subcommand(true);
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(PluginError::Output)?;
    output.write(&String::from_utf8_lossy(&page))
}
