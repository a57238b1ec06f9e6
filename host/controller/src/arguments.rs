//! The command line. Users type the same words to `volhost`, which passes them on.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use volhost_config::{
    AttachDetachArguments, ColorChoice, ControllerArguments, CsiProbeArguments, NodeAgentArguments,
    PluginControllerArguments,
};

/// The part of volhost that speaks to a Kubernetes API server. `volhost` is the command line; it
/// starts this program for `controller`, `attach-detach-controller`, `plugin-controller`,
/// `csi-probe` and `node-agent`
#[derive(Debug, Parser)]
#[command(name = "volhost-controller", version, max_term_width = 100)]
pub(super) struct Cli {
    /// The daemon's socket, for `node-agent`
    #[arg(long, global = true, hide = true)]
    pub(super) socket: Option<PathBuf>,
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
    AttachDetachController(AttachDetachArguments),
    PluginController(PluginControllerArguments),
    CsiProbe(CsiProbeArguments),
    NodeAgent(NodeAgentArguments),
}
