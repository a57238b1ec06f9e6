//! `volhost csi-serve`: a plugin as a CSI driver.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_config::{Label, LogFilter, LogFormat};
use volhost_csi_driver::{Driver, Endpoint, Options, Sockets, serve};
use volhost_kernel::Kernel;
use volhost_model::duration::HumanDuration;
use volhost_process::{Launcher, linux_kernel};
use volhost_runtime::{Compiler, Limits, Runtime, RuntimeConfig, Signatures};
use volhost_telemetry::Telemetry;

use super::error::{CliError, chain};

/// `csi-serve`.
#[derive(Debug, Args)]
pub(super) struct CsiServeArguments {
    /// The plugin's .wasm file
    #[arg(long, value_name = "FILE")]
    plugin: PathBuf,
    /// The driver's socket: unix:///csi/csi.sock
    #[arg(long, value_name = "ENDPOINT", env = "CSI_ENDPOINT")]
    endpoint: Endpoint,
    /// This node's name, as Kubernetes knows it; the host's name if it is not given
    #[arg(long, alias = "nodeid", value_name = "NAME", env = "KUBE_NODE_NAME")]
    node_id: Option<String>,
    /// The driver's name; the plugin suggests one
    #[arg(long, alias = "drivername", value_name = "NAME")]
    driver_name: Option<String>,
    /// Folder for records of what is staged, published and made
    #[arg(long, alias = "statedir", value_name = "DIR", default_value = "/var/lib/volhost-csi")]
    state_dir: PathBuf,
    /// The kubelet's folder: volumes are staged and published below it, and nowhere else
    #[arg(long, alias = "kubelet-root-dir", value_name = "DIR", default_value = "/var/lib/kubelet")]
    kubelet_dir: PathBuf,
    /// Where this node is; its volumes can be reached from there. May be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    topology: Vec<Label>,
    /// Register with a kubelet that watches this folder, without a sidecar
    #[arg(long, value_name = "DIR")]
    registration_dir: Option<PathBuf>,
    /// The driver's socket as the kubelet sees it, if the driver runs in a container
    #[arg(long, value_name = "PATH", requires = "registration_dir")]
    kubelet_registration_path: Option<String>,
    /// The controller publishes volumes to this node, and holds them against access modes and --max-volumes-per-node
    #[arg(long)]
    enable_attach: bool,
    /// The controller publishes volumes to nodes of every name, as far as the CO says that they are; a plugin that knows nodes by their
    /// names is asked in any case
    #[arg(long, requires = "enable_attach")]
    any_node: bool,
    /// How many volumes a node takes
    #[arg(long, aliases = ["maxvolumespernode", "attach-limit"], value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max_volumes_per_node: Option<u32>,
    /// TOML file with the grants of plugins, trusted-keys and require-signature, as `volhost run` reads it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for compiled plugins; only root may write there
    #[arg(long, value_name = "DIR", default_value = "/var/cache/volhost")]
    cache_dir: PathBuf,
    /// How long a plugin's own code may run in one call
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    plugin_cpu_time: HumanDuration,
    /// How log lines are written to standard error: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or levels by module
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LogFilter,
}

/// Serves the plugin until SIGTERM or SIGINT. Volumes stay as they are.
///
/// # Errors
/// [`CliError::Config`] for the options, [`CliError::Daemon`] when the driver could not start or ended early.
pub(super) fn run(arguments: CsiServeArguments) -> Result<(), CliError> {
    let node_id = match arguments.node_id {
        Some(node_id) => node_id,
        None => volhost_config::host_name()?,
    };
    let grants = volhost_config::grants(arguments.config.as_deref())?;
    let makers = volhost_config::trusted_makers(arguments.config.as_deref())?;
    let telemetry = Telemetry::begin(arguments.log_format, &arguments.log_level, None, &node_id).map_err(ended)?;
    if let Some(warning) = grants.shipped().warning() {
        warn!("{warning}");
    }
    let signatures = Signatures::of_folder(makers.trusted_keys.as_deref(), makers.require_signature).map_err(ended)?;
    let kernel: Arc<dyn Kernel> = Arc::new(linux_kernel());
    let runtime = Runtime::new(
        RuntimeConfig {
            cache_dir: absolute(&arguments.cache_dir)?,
            limits: Limits::default(),
            // The running binary itself, also after its file was replaced.
            compiler: Compiler {
                program: PathBuf::from("/proc/self/exe"),
                args: vec!["internal".into(), "compile-plugin".into()],
            },
            grants,
        },
        Arc::clone(&kernel),
    )
    .map_err(ended)?
    .trusting(signatures);
    let plugin = runtime.load(&arguments.plugin).map_err(ended)?;
    let HumanDuration(plugin_time) = arguments.plugin_cpu_time;
    let driver = Driver::start(Options {
        plugin,
        kernel,
        name: arguments.driver_name,
        node_id,
        topology: arguments.topology.into_iter().map(|label| (label.key, label.value)).collect(),
        co_folder: absolute(&arguments.kubelet_dir)?,
        state_dir: absolute(&arguments.state_dir)?,
        attach: arguments.enable_attach,
        any_node: arguments.any_node,
        max_volumes: arguments.max_volumes_per_node,
        plugin_time: plugin_time.max(SHORTEST),
        launcher: Launcher::this_program(),
    })
    .map_err(ended)?;
    let sockets = Sockets {
        endpoint: arguments.endpoint,
        registration_dir: arguments.registration_dir,
        kubelet_registration_path: arguments.kubelet_registration_path,
    };
    // One thread for what waits; each call has a thread of its own that may block.
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let outcome = threads.block_on(until_told(Arc::new(driver), sockets));
    // A thread that the kernel holds in a hung system call must not keep the process from ending.
    threads.shutdown_background();
    telemetry.end();
    outcome
}

/// A plugin needs some time for anything.
const SHORTEST: Duration = Duration::from_millis(1);

async fn until_told(driver: Arc<Driver>, sockets: Sockets) -> Result<(), CliError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::Runtime)?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("the driver stops; volumes stay");
        told.cancel();
    });
    let name = driver.name().to_owned();
    let endpoint = sockets.endpoint.path().to_owned();
    let ready = move || {
        info!(driver = name, endpoint = %endpoint.display(), "the driver serves");
        // Nobody may be listening: it need not be run by systemd.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    };
    let stopped = move || {
        let stop = stop.clone();
        async move { stop.cancelled().await }
    };
    serve(driver, sockets, ready, stopped).await.map_err(ended)
}

fn ended(error: impl std::error::Error + 'static) -> CliError {
    CliError::Daemon(chain(&error))
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|source| CliError::File { path: path.to_owned(), source })
}
