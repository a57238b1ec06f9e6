//! What `run`, `csi-serve`, the controllers, `csi-probe` and `node-agent` take on the command line.
//!
//! `volhostd` and `volhost-controller` act on these words. `volhost` checks them, explains them and passes them on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use volhost_model::duration::{HumanDuration, ParseDurationError};

use super::csi_endpoint::CsiEndpoint;
use super::environment::variable;
use super::pod_scope::PodScope;
use super::settings::Settings;
use super::values::LogFormat;
use super::values::{Label, LogFilter};

/// Run the daemon
///
/// Every option can be given here, as an environment variable (VOLHOST_ROOT_DIR for --root-dir), or
/// in a TOML file (root-dir = "..."). The command line takes precedence over the environment, and
/// the environment over the file.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM ends the daemon and leaves every mount in place; `volhost drain` unmounts them. SIGHUP reads manifests and plugins again, and cleans up after pods that are gone."
)]
pub struct RunArguments {
    /// TOML file with any of these options, and the grants of plugins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The options.
    #[command(flatten)]
    pub settings: Settings,
}

/// Serve a plugin as a CSI driver; needs no daemon
///
/// Identity, Node and Controller services of CSI v1.12 over one plugin: the plugin's exports are
/// the driver's capabilities.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM ends the driver and leaves every volume as it is.\n\nExample:\n  volhost csi-serve --plugin target/plugins/loop.wasm --kubernetes"
)]
pub struct CsiServeArguments {
    /// The plugin's .wasm file
    #[arg(long, value_name = "FILE")]
    pub plugin: PathBuf,
    /// The driver's socket: unix:///csi/csi.sock
    #[arg(long, value_name = "ENDPOINT", env = "CSI_ENDPOINT", required_unless_present = "kubernetes")]
    pub endpoint: Option<CsiEndpoint>,
    /// Serve the kubelet of this node: the driver's socket is plugins/DRIVER/csi.sock below
    /// --kubelet-dir, and it registers in plugins_registry there
    #[arg(long)]
    pub kubernetes: bool,
    /// This node's name in Kubernetes [default: the host name]
    #[arg(long, alias = "nodeid", value_name = "NAME", env = "KUBE_NODE_NAME")]
    pub node_id: Option<String>,
    /// The driver's name [default: the plugin's suggestion]
    #[arg(long, alias = "drivername", value_name = "NAME")]
    pub driver_name: Option<String>,
    /// Folder for records of staged, published and created volumes
    #[arg(long, alias = "statedir", value_name = "DIR", default_value = "/var/lib/volhost-csi")]
    pub state_dir: PathBuf,
    /// The kubelet's folder: volumes are staged and published below it, and nowhere else
    #[arg(long, alias = "kubelet-root-dir", value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub kubelet_dir: PathBuf,
    /// A topology segment of this node, from which its volumes can be reached; may be given several
    /// times
    #[arg(long, value_name = "KEY=VALUE")]
    pub topology: Vec<Label>,
    /// Register with a kubelet that watches this folder, without a sidecar
    #[arg(long, value_name = "DIR")]
    pub registration_dir: Option<PathBuf>,
    /// The driver's socket as the kubelet sees it, if the driver runs in a container
    #[arg(long, value_name = "PATH", requires = "registration_dir")]
    pub kubelet_registration_path: Option<String>,
    /// The controller publishes volumes to this node, and checks access modes and
    /// --max-volumes-per-node
    #[arg(long)]
    pub enable_attach: bool,
    /// The controller publishes volumes to nodes of any name, if the CO says that they exist; a
    /// plugin that knows nodes by name is asked in any case
    #[arg(long, requires = "enable_attach")]
    pub any_node: bool,
    /// How many volumes may be published to a node
    #[arg(long, aliases = ["maxvolumespernode", "attach-limit"], value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_volumes_per_node: Option<u32>,
    /// TOML file with the grants of plugins, trusted-keys and require-signature, as `volhost run`
    /// reads it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for compiled plugins; only root may write there
    #[arg(long, value_name = "DIR", default_value = "/var/cache/volhost")]
    pub cache_dir: PathBuf,
    /// How long a plugin's own code may run in one call
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub plugin_cpu_time: HumanDuration,
    /// Address and port where metrics are served over HTTP, for Prometheus, as 127.0.0.1:9812; the
    /// path is /metrics [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Format of the log lines on standard error: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or levels by module
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogFilter,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Whether a stream gets colour. `NO_COLOR` in the environment turns `auto` off.
    #[must_use]
    pub fn is_wanted(self, is_terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }
}

/// The command `run` with each option's environment variable named in its help.
#[must_use]
pub fn with_variables(run: clap::Command) -> clap::Command {
    run.mut_args(|argument| {
        let (Some(long), Some(help)) = (argument.get_long(), argument.get_help()) else {
            return argument;
        };
        let help = format!("{help} [env: {}]", variable(long));
        argument.help(help)
    })
}

/// Create, attach, grow and snapshot the volumes of a CSI driver in a Kubernetes cluster
///
/// Does what the sidecars external-provisioner, external-attacher, external-resizer and
/// csi-snapshotter do, and for its driver what the cluster's snapshot-controller does. Run as many
/// replicas as you like: the one that holds the Lease works.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  volhost controller --csi unix:///csi/csi.sock\n\nIn a pod, it uses the service account; elsewhere, the kubeconfig file of --kubeconfig or KUBECONFIG."
)]
pub struct ControllerArguments {
    /// The driver's socket: unix:///csi/csi.sock
    #[arg(long, value_name = "ENDPOINT", env = "CSI_ENDPOINT")]
    pub csi: CsiEndpoint,
    /// The kubeconfig file [default: the service account, or KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease [default: that of the service account or kubeconfig]
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How long another replica waits before it replaces one that does not answer
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = lease_duration)]
    pub lease_duration: HumanDuration,
    /// How long a call of the driver may take
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = call_time)]
    pub timeout: HumanDuration,
    /// How often the driver is asked for its capacity, and which volumes are attached
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = poll_interval)]
    pub poll_interval: HumanDuration,
    /// How many objects of a kind are worked on at once
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: u16,
    /// The file system of volumes whose class names none
    #[arg(long, value_name = "TYPE", default_value = "")]
    pub default_fstype: String,
    /// Pass the names of the claim and the volume to the driver
    #[arg(long)]
    pub extra_create_metadata: bool,
    /// Require the topology of the selected node alone
    #[arg(long)]
    pub strict_topology: bool,
    /// Leave snapshots and groups of them to csi-snapshotter and snapshot-controller
    #[arg(long)]
    pub no_snapshots: bool,
    /// Address and port where metrics are served over HTTP, for Prometheus, as 127.0.0.1:9811; the
    /// path is /metrics [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Format of the log lines on standard error: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or levels by module
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogFilter,
}

/// Roll out the plugins that VolumePlugin objects name to the nodes of a Kubernetes cluster
///
/// Gives each node its plugins by a NodePlugins object, a few nodes at a time, and takes a revision
/// back that fails on a node. Run as many replicas as you like: the one that holds the Lease works.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  kubectl apply -k deploy/plugins\n  volhost plugin-controller --kubeconfig ~/.kube/config --namespace volhost-plugins\n\nIn a pod, it uses the service account; elsewhere, the kubeconfig file of --kubeconfig or KUBECONFIG."
)]
pub struct PluginControllerArguments {
    /// The kubeconfig file [default: the service account, or KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease [default: that of the service account or kubeconfig]
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How long another replica waits before it replaces one that does not answer
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = lease_duration)]
    pub lease_duration: HumanDuration,
    /// Address and port where metrics are served over HTTP, for Prometheus, as 127.0.0.1:9811; the
    /// path is /metrics [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Format of the log lines on standard error: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or levels by module
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogFilter,
}

/// Attach the volumes of a cluster's pods to their nodes, and detach them
///
/// Does what the persistentvolume-attach-detach-controller of kube-controller-manager does, which
/// must not run: kube-controller-manager --controllers=*,-persistentvolume-attach-detach-controller.
/// Run as many replicas as you like: the one that holds the Lease works.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  volhost attach-detach-controller --kubeconfig /etc/volhost/kubeconfig\n\nIn a pod, it uses the service account; elsewhere, the kubeconfig file of --kubeconfig or KUBECONFIG."
)]
pub struct AttachDetachArguments {
    /// The kubeconfig file [default: the service account, or KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease [default: that of the service account or kubeconfig]
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How long another replica waits before it replaces one that does not answer
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = lease_duration)]
    pub lease_duration: HumanDuration,
    /// How many nodes are worked on at once
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: u16,
    /// After what time a volume that no pod wants is detached from a node that is not ready, though
    /// the node last reported it in use: a duration, or never
    #[arg(long, value_name = "DURATION|never", default_value = "6m")]
    pub force_detach_after: ForceDetachAfter,
    /// Address and port where metrics are served over HTTP, for Prometheus, as 127.0.0.1:9812; the
    /// path is /metrics [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Format of the log lines on standard error: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or levels by module
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogFilter,
}

/// How long a node that is not ready keeps a volume that it last reported in use and no pod wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForceDetachAfter(Option<Duration>);

impl ForceDetachAfter {
    /// The time; none without a limit.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        self.0
    }
}

impl FromStr for ForceDetachAfter {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "never" {
            return Ok(Self(None));
        }
        text.parse().map(|HumanDuration(time)| Self(Some(time)))
    }
}

/// Bring the pods of this node from a Kubernetes cluster to the daemon
///
/// `volhost run --kubernetes` runs it. By itself, it runs beside `volhost run` as another service or
/// in a pod. It needs the socket of the daemon and no right on the node.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM ends the agent. The daemon keeps its pods, and volumes stay mounted.\n\nExample:\n  volhost run --controller-attaches &\n  volhost node-agent --kubeconfig /etc/volhost/kubeconfig\n\nIn a pod, it uses the service account; elsewhere, the kubeconfig file of --kubeconfig or KUBECONFIG."
)]
pub struct NodeAgentArguments {
    /// The name of this node's Node object [default: the host name]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node_name: Option<String>,
    /// The kubeconfig file [default: the service account, or KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Which pods of the node are volhost's: node for all, label:SELECTOR, annotation:KEY=VALUE or
    /// runtime-class:NAME
    #[arg(long, value_name = "SCOPE", default_value = "node")]
    pub scope: PodScope,
    /// The process id of the daemon that has started the agent, which ends with it
    #[arg(long, value_name = "PID", hide = true)]
    pub parent: Option<i32>,
    /// Format of the log lines on standard error: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or levels by module
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogFilter,
}

/// Ask a CSI driver whether it is ready, as a liveness probe
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 0 if the driver answers that it is ready.\n\nExample:\n  volhost csi-probe --csi unix:///csi/csi.sock"
)]
pub struct CsiProbeArguments {
    /// The driver's socket: unix:///csi/csi.sock
    #[arg(long, value_name = "ENDPOINT", env = "CSI_ENDPOINT")]
    pub csi: CsiEndpoint,
    /// How long the answer may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = call_time)]
    pub timeout: HumanDuration,
}

/// The shortest Lease: it is renewed several times within it, by an API server that is busy.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

fn lease_duration(text: &str) -> Result<HumanDuration, String> {
    let duration: HumanDuration = text.parse().map_err(|error| format!("{error}"))?;
    if duration.0 < SHORTEST_LEASE { Err("a Lease lasts 3s or longer".to_owned()) } else { Ok(duration) }
}

/// The shortest interval: the driver also has other work.
const SHORTEST_POLL: Duration = Duration::from_secs(1);

fn poll_interval(text: &str) -> Result<HumanDuration, String> {
    let interval: HumanDuration = text.parse().map_err(|error| format!("{error}"))?;
    if interval.0 < SHORTEST_POLL { Err("the driver is asked every 1s at most".to_owned()) } else { Ok(interval) }
}

fn call_time(text: &str) -> Result<HumanDuration, String> {
    let duration: HumanDuration = text.parse().map_err(|error| format!("{error}"))?;
    if duration.0.is_zero() { Err("no call ends in no time: give more than 0".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_no_call_and_no_lease_can_have_are_refused() {
        assert_eq!(lease_duration("15s"), Ok(HumanDuration(Duration::from_secs(15))));
        for text in ["0", "2s999ms", "soon"] {
            lease_duration(text).unwrap_err();
        }
        assert_eq!(poll_interval("1s"), Ok(HumanDuration(Duration::from_secs(1))));
        for text in ["0", "999ms", "often"] {
            poll_interval(text).unwrap_err();
        }
        assert_eq!(call_time("1ms"), Ok(HumanDuration(Duration::from_millis(1))));
        for text in ["0", "0s", "soon"] {
            call_time(text).unwrap_err();
        }
    }

    #[test]
    fn volumes_in_use_are_detached_after_a_time_or_never() {
        let after = |text: &str| text.parse::<ForceDetachAfter>().map(ForceDetachAfter::duration);
        assert_eq!(after("6m"), Ok(Some(Duration::from_secs(360))));
        assert_eq!(after("never"), Ok(None));
        after("Never").unwrap_err();
    }
}
