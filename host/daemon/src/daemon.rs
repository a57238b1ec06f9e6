//! The daemon, from its options to its end.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use volhost_images::RegistryProgram;
use volhost_kernel::Propagation;
use volhost_runtime::{Compiler, Signatures, TrustedKeysError};

use volhost_config::RunConfig;
use volhost_metrics_listener::listener::{MetricsBindError, MetricsListener, MetricsSource};
use volhost_node::event_loop::Bounds;
use volhost_node::node::{Node, NodeOptions, StartError};
use volhost_objects::payload::{Issuer, KeyError, Signer};
use volhost_objects::populate::NodeIdentity;
use volhost_process::{Launcher, linux_kernel};

use crate::agent::{Agent, AgentError};

/// Why the daemon ended other than by a signal.
#[derive(Debug, Error)]
pub(super) enum DaemonRunError {
    /// The node could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The socket cannot be used.
    #[error(transparent)]
    Bind(#[from] volhost_api_server::SocketBindError),
    /// Metrics cannot be served at the given address.
    #[error(transparent)]
    Metrics(#[from] MetricsBindError),
    /// The API ended.
    #[error(transparent)]
    Serve(#[from] volhost_api_server::ApiServeError),
    /// The key for tokens cannot be used.
    #[error(transparent)]
    TokenKey(#[from] KeyError),
    /// The folder of trusted keys cannot be used.
    #[error(transparent)]
    TrustedKeys(#[from] TrustedKeysError),
    /// The node agent cannot be run.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Signals cannot be received.
    #[error("signals cannot be received: {0}")]
    Signals(#[source] std::io::Error),
}

/// Runs the daemon until SIGTERM or SIGINT. Mounts stay, unless everything was drained. Writes a
/// line to `ready` once requests are served.
///
/// # Errors
/// [`DaemonRunError`]; then nothing is left running.
pub(super) async fn run(config: RunConfig, ready: Option<File>) -> Result<(), DaemonRunError> {
    let agent_config = config.kubernetes.clone().map(|options| (options, config.clone()));
    let mut terminate = signal(SignalKind::terminate()).map_err(DaemonRunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonRunError::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(DaemonRunError::Signals)?;

    let tokens = match config.token_signing {
        Some(signing) => Some(Issuer {
            signer: Signer::read(&signing.key)?,
            name: signing.issuer,
            max_lifetime: signing.max_lifetime,
        }),
        None => None,
    };
    let signatures = Signatures::of_folder(config.trusted_keys.as_deref(), config.require_signature)?;
    // The socket first, so that a second daemon on it ends before it changes anything.
    let listener = volhost_api_server::bind_for(&config.socket, config.socket_group.as_deref())?;
    let metrics = match config.metrics_listen {
        Some(address) => Some(MetricsListener::bind(address).await?),
        None => None,
    };
    info!(version = env!("CARGO_PKG_VERSION"), node = config.node_name, root = %config.root_dir.display(), "volhost starts");
    if let Some(warning) = config.grants.shipped().warning() {
        warn!("{warning}");
    }
    let starting = Node::start(NodeOptions {
        root: config.root_dir,
        plugins: config.plugin_dir,
        manifests: config.manifests,
        plugin_registry: config.plugin_registry,
        manifest_grace: config.manifest_grace,
        identity: NodeIdentity::new(config.node_name, config.node_labels),
        grants: config.grants,
        grant_file: config.file,
        cluster_plugins: config.cluster_plugins,
        signatures,
        controller_attaches: config.controller_attaches,
        controller_attaches_for: config.controller_attaches_for,
        nodes_out_of_service: config.nodes_out_of_service,
        attach_limits: config.attach_limits,
        verify_attached: config.verify_attached,
        refresh_period: config.refresh_period,
        flex_driver_dir: config.flex_driver_dir,
        flex_drivers: config.flex_drivers,
        cache: config.cache_dir,
        // The running binary itself, also after its file was replaced.
        compiler: Compiler {
            program: PathBuf::from("/proc/self/exe"),
            args: vec!["internal".into(), "compile-plugin".into()],
        },
        launcher: Launcher::this_program(),
        image_client: image_client(),
        propagation: Propagation::Shared,
        bounds: Bounds {
            overdue_after: config.operation_deadline,
            plugin_time: config.plugin_cpu_time,
            max_workers: config.max_operations.get(),
        },
        tokens,
        provision: config.provision,
        reclaim_grace: config.reclaim_grace,
        watchdog: crate::watchdog::of_environment(),
        kernel: Arc::new(linux_kernel()),
    });
    let node = tokio::select! {
        node = starting => node?,
        _ = terminate.recv() => {
            stopped_early();
            return Ok(());
        }
        _ = interrupt.recv() => {
            stopped_early();
            return Ok(());
        }
    };

    let stop = CancellationToken::new();
    let mut serving =
        tokio::spawn(volhost_api_server::serve(listener, node.handle(), node.cluster_plugins(), stop.clone()));
    if let Some(metrics) = metrics {
        if let Ok(address) = metrics.address() {
            info!("metrics are served at http://{address}/metrics");
        }
        let page = crate::page::page(config.status_page, node.handle());
        let handle = node.handle();
        let source = MetricsSource::new(move || {
            let handle = handle.clone();
            async move { handle.metrics().await.map_err(Into::into) }
        });
        tokio::spawn(metrics.serve(source, page, stop.clone()));
    }
    // The agent finds the socket served.
    let agent = match agent_config {
        Some((options, config)) => Some(Agent::start(&config, &options)?),
        None => None,
    };
    report_ready(ready);
    info!(socket = %config.socket.display(), "volhost serves");

    let ended_early = loop {
        tokio::select! {
            _ = terminate.recv() => break None,
            _ = interrupt.recv() => break None,
            _ = hangup.recv() => {
                info!("SIGHUP: the grants and the plugin and manifest folders are read again");
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Reloading]);
                node.reload();
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            }
            ended = &mut serving => break Some(ended),
        }
    };
    info!("volhost stops; mounts stay");
    // Fails without systemd, which need not run volhost.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    // Before the daemon, so that the cluster hears nothing of a daemon that ends.
    if let Some(agent) = agent
        && tokio::task::spawn_blocking(move || agent.stop()).await.is_err()
    {
        warn!("the end of the node agent could not be waited for");
    }
    stop.cancel();
    node.stop().await;
    let ended = match ended_early {
        Some(ended) => ended,
        None => serving.await,
    };
    match ended {
        Ok(outcome) => Ok(outcome?),
        Err(error) => {
            error!(%error, "the API ended early");
            Ok(())
        }
    }
}

/// The command line beside this program, which speaks to registries for it.
fn image_client() -> RegistryProgram {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default().with_file_name("volhost");
    let variable = |name: &str| std::env::var_os(name).map(|value| (name.into(), value));
    RegistryProgram::new(program, variable("SSL_CERT_FILE").into_iter().collect())
}

/// Logs an end before the daemon has served. The next start recovers what exists.
fn stopped_early() {
    info!("volhost stops before it has served; mounts stay");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
}

fn report_ready(ready: Option<File>) {
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    if let Some(mut ready) = ready
        && let Err(error) = ready.write_all(b"ready\n")
    {
        warn!(%error, "the ready file could not be written");
    }
}
