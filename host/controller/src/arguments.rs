//! The command line. Users type the same words to `volhost`, which passes them on.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use volhost_config::{ColorChoice, ControllerArguments, CsiProbeArguments};

/// The controller of a CSI driver. `volhost` is the command line; it starts this program for
/// `controller` and `csi-probe`
#[derive(Debug, Parser)]
#[command(name = "volhost-controller", version, max_term_width = 100)]
pub(super) struct Cli {
    /// Of the command line's other commands: no daemon is asked.
    #[arg(long, global = true, hide = true)]
    socket: Option<PathBuf>,
    /// When to use colour in errors
    #[arg(long, global = true, value_name = "auto|always|never", default_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Controller(Box<ControllerArguments>),
    CsiProbe(CsiProbeArguments),
}
