//! `volhostd csi-serve`: a plugin as a CSI driver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_config::{CsiEndpoint, CsiServeArguments};
use volhost_csi_driver::{DriverOptions, ServedPlugin, Sockets, serve};
use volhost_kernel::Kernel;
use volhost_metrics_listener::driver_calls::DriverCalls;
use volhost_metrics_listener::registry::serve_registry;
use volhost_model::duration::HumanDuration;
use volhost_process::{Launcher, linux_kernel};
use volhost_runtime::{Compiler, Limits, Runtime, RuntimeConfig, Signatures};
use volhost_telemetry::Telemetry;

use super::error::DaemonError;

/// The kubelet's folder of drivers' sockets, below its own.
const DRIVERS_DIR: &str = "plugins";
/// The folder where a kubelet finds registration sockets, below its own.
const REGISTRATION_DIR: &str = "plugins_registry";

/// Serves the plugin until SIGTERM or SIGINT. Volumes stay as they are.
///
/// # Errors
/// [`DaemonError::Config`] for the options; others when the driver could not start or ended early.
pub(super) fn run(arguments: CsiServeArguments) -> Result<(), DaemonError> {
    let node_id = match arguments.node_id {
        Some(node_id) => node_id,
        None => volhost_config::host_name()?,
    };
    let grants = volhost_config::grants(arguments.config.as_deref())?;
    let signers = volhost_config::trusted_signers(arguments.config.as_deref())?;
    let telemetry = Telemetry::begin(arguments.log_format, &arguments.log_level, None, &node_id)?;
    if let Some(warning) = grants.shipped().warning() {
        warn!("{warning}");
    }
    let signatures = Signatures::of_folder(signers.trusted_keys.as_deref(), signers.require_signature)?;
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
    )?
    .trusting(signatures);
    let plugin = runtime.load(&arguments.plugin)?;
    let kubelet_dir = absolute(&arguments.kubelet_dir)?;
    let HumanDuration(plugin_time) = arguments.plugin_cpu_time;
    let driver = ServedPlugin::start(DriverOptions {
        plugin,
        kernel,
        name: arguments.driver_name,
        node_id,
        topology: arguments.topology.into_iter().map(|label| (label.key, label.value)).collect(),
        co_folder: kubelet_dir.clone(),
        state_dir: absolute(&arguments.state_dir)?,
        attach: arguments.enable_attach,
        any_node: arguments.any_node,
        max_volumes: arguments.max_volumes_per_node,
        plugin_time: plugin_time.max(SHORTEST),
        launcher: Launcher::this_program(),
    })?;
    let sockets = Sockets {
        endpoint: match arguments.endpoint {
            Some(endpoint) => endpoint.path().to_owned(),
            None => below_kubelet(&kubelet_dir, driver.name())?,
        },
        registration_dir: arguments
            .registration_dir
            .or_else(|| arguments.kubernetes.then(|| kubelet_dir.join(REGISTRATION_DIR))),
        kubelet_registration_path: arguments.kubelet_registration_path,
    };
    // One thread for everything that waits; each call has a thread of its own that may block.
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DaemonError::Runtime)?;
    let outcome = threads.block_on(until_signal(Arc::new(driver), sockets, arguments.metrics_listen));
    // A thread that the kernel holds in a hung system call must not keep the process from ending.
    threads.shutdown_background();
    telemetry.end();
    outcome
}

/// The shortest plugin time: a plugin needs some time for any call.
const SHORTEST: Duration = Duration::from_millis(1);

async fn until_signal(
    driver: Arc<ServedPlugin>,
    sockets: Sockets,
    metrics: Option<SocketAddr>,
) -> Result<(), DaemonError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::Runtime)?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("the driver stops; volumes stay");
        stopped.cancel();
    });
    let calls = Arc::new(DriverCalls::of_driver());
    if let Some(address) = metrics {
        let counted = Arc::clone(&calls);
        let served = serve_registry(address, stop.clone(), move |registry| counted.register(registry));
        served.await?;
    }
    let name = driver.name().to_owned();
    let endpoint = sockets.endpoint.clone();
    let ready = move || {
        info!(driver = name, endpoint = %endpoint.display(), "the driver serves");
        // Fails without systemd, which need not run it.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    };
    let stopped = move || {
        let stop = stop.clone();
        async move { stop.cancelled().await }
    };
    Ok(serve(driver, sockets, calls, ready, stopped).await?)
}

/// The socket of a driver where kubelets have the sockets of all drivers.
fn below_kubelet(kubelet_dir: &Path, driver: &str) -> Result<PathBuf, DaemonError> {
    let path = kubelet_dir.join(DRIVERS_DIR).join(driver).join("csi.sock");
    let endpoint: CsiEndpoint = path.display().to_string().parse()?;
    Ok(endpoint.path().to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf, DaemonError> {
    std::path::absolute(path).map_err(|source| DaemonError::File { path: path.to_owned(), source })
}
