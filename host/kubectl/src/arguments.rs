//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use volhost_config::ColorChoice;
use volhost_model::duration::HumanDuration;

/// Where the volumes of a cluster's pods are, and why they wait
///
/// Reads objects of the API server with your own rights, and changes nothing. It works for every CSI
/// driver, volhost's or not.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-volhost",
    bin_name = "kubectl volhost",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  kubectl volhost explain pod web-0 -n shop\n  kubectl volhost volumes -A --waiting\n  kubectl volhost drivers\n  kubectl volhost check"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
    /// When to use colour
    #[arg(long, global = true, value_name = "auto|always|never", default_value = "auto", hide_possible_values = true)]
    pub(crate) color: ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which cluster, as who.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArguments {
    /// The kubeconfig file [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig file [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace [default: that of the context]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Explain(ExplainArguments),
    Volumes(VolumesArguments),
    /// List CSI drivers: nodes, controller, volumes, attachments
    Drivers(ListArguments),
    Check(CheckArguments),
    /// Print the manual page
    #[command(hide = true)]
    Man,
}

/// Say why a pod or a claim waits for its volumes, step by step, and who has to act
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kubectl volhost explain pod web-0\n  kubectl volhost explain pvc/data-web-0 -n shop"
)]
pub(crate) struct ExplainArguments {
    /// pod NAME, pvc NAME, pod/NAME or pvc/NAME; NAME alone is a pod's
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE NAME")]
    pub(crate) what: Vec<String>,
}

/// List the volumes of pods: claim, PersistentVolume, driver, node, and how far each is
#[derive(Debug, Args)]
pub(crate) struct VolumesArguments {
    /// Of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Of the pods of this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Those alone that are not ready
    #[arg(long)]
    pub(crate) waiting: bool,
    #[command(flatten)]
    pub(crate) list: ListArguments,
}

/// Find what is wrong with the volumes of the cluster; the exit code is 1 if anything is
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// How long a step may take before it is reported
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(crate) late: HumanDuration,
    #[command(flatten)]
    pub(crate) list: ListArguments,
}

/// What every list has.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// The format: table, wide or json
    #[arg(short, long, value_name = "FORMAT", default_value = "table", hide_possible_values = true)]
    pub(crate) output: Format,
    /// No line of headings
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns.
    Table,
    /// More columns.
    Wide,
    /// One JSON array.
    Json,
}
