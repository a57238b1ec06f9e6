//! The agent from its start to its end.

use std::path::Path;
use std::time::Duration;

use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{info, warn};
use volhost_cluster_client::{Connection, Events};
use volhost_config::NodeAgentArguments;
use volhost_telemetry::Telemetry;

use crate::daemon::{CallError, Daemon};
use crate::error::AgentError;
use crate::mirror::{Mirror, PodReferences};
use crate::watches::{Connect, KnownNode};
use crate::{csi_node, events, growth, in_use, parent, plugins, tokens, watches};

/// How long after the end of a session the daemon is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until SIGTERM or SIGINT, with the daemon at this socket. Mounted volumes and the daemon's pods stay as they are then.
///
/// # Errors
/// [`AgentError`].
pub fn run(arguments: NodeAgentArguments, socket: &Path) -> Result<(), AgentError> {
    if let Some(daemon) = arguments.parent
        && !parent::end_with(daemon)?
    {
        return Ok(());
    }
    let telemetry = Telemetry::begin(arguments.log_format, &arguments.log_level, None, "")?;
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AgentError::Runtime)?;
    let outcome = threads.block_on(agent(arguments, socket));
    threads.shutdown_background();
    telemetry.end();
    outcome
}

async fn agent(arguments: NodeAgentArguments, socket: &Path) -> Result<(), AgentError> {
    let stop = stopped_by_signal()?;
    let node = match arguments.node_name {
        Some(name) => name,
        None => volhost_config::host_name()?,
    };
    let config = volhost_cluster_client::configuration(arguments.kubeconfig.as_deref()).await?;
    let agent = format!("volhost-node-agent/{} ({node})", env!("CARGO_PKG_VERSION"));
    let Connection { requests: client, watches } = volhost_cluster_client::connect(config.clone(), &agent)?;
    let connect: Connect =
        Box::new(move |starts| volhost_cluster_client::connect_in_turns(config.clone(), &agent, starts));
    let (seen, known) = watch::channel(None);
    tokio::spawn(watches::watch_node(watches.clone(), node.clone(), seen));
    let events = Events::start(client.clone(), "volhost-node-agent", &node);
    let pods = PodReferences::default();
    let mut mirror = Mirror::start(&watches, connect, &node, arguments.scope.clone(), events.clone(), pods.clone());
    let has_all = arguments.scope.is_whole_node();
    let parts = SessionParts { client, node, has_all, daemon: Daemon::new(socket), events, pods, known };
    let mut logged = String::new();
    loop {
        let ended = stop.run_until_cancelled(parts.session(&mut mirror)).await;
        let Some(Err(status)) = ended else { return Ok(()) };
        // Logged once while the daemon stays away.
        if logged != status.message() {
            warn!(socket = %socket.display(), "no session with the daemon: {}", status.message());
            status.message().clone_into(&mut logged);
        }
        if stop.run_until_cancelled(tokio::time::sleep(AGAIN)).await.is_none() {
            return Ok(());
        }
    }
}

struct SessionParts {
    client: Client,
    node: String,
    /// No kubelet mounts volumes on the node.
    has_all: bool,
    daemon: Daemon,
    events: Events,
    pods: PodReferences,
    known: KnownNode,
}

impl SessionParts {
    /// Keeps one run of the daemon up to date, until it is lost. Another run may have forgotten
    /// something.
    async fn session(&self, mirror: &mut Mirror) -> Result<(), Status> {
        let Self { client, node, has_all, daemon, events, pods, known } = self;
        let mut volumes = daemon.watch_volumes_in_use().await?;
        let (set_in_use, in_use) = watch::channel(volumes.next().await?);
        // Volumes are resolved by them.
        let mut labels = known.clone();
        set_labels(daemon, &mut labels).await?;
        match daemon.cluster_attaches().await {
            Ok(()) => {}
            // Volumes of drivers that need no attachment are served all the same.
            Err(CallError::Refused(why)) => warn!(node, "start the daemon with --controller-attaches: {why}"),
            Err(CallError::Lost(status)) => return Err(status),
        }
        let growing = mirror.growing();
        info!(node, "a session with the daemon begins");
        tokio::try_join!(
            mirror.keep(daemon, in_use.clone()),
            in_use::read(volumes, set_in_use),
            async {
                match has_all {
                    true => in_use::report(client, node, daemon, in_use).await,
                    false => in_use::follow(daemon, in_use, known.clone()).await,
                }
            },
            events::publish(daemon, pods, events),
            growth::report(client, daemon, events, growing),
            tokens::issue(client, daemon),
            csi_node::report(client, node, daemon, known.clone()),
            plugins::keep(client, node, daemon, known.clone()),
            keep_labels(daemon, labels),
        )?;
        Ok(())
    }
}

async fn set_labels(daemon: &Daemon, node: &mut KnownNode) -> Result<(), Status> {
    let known = node.borrow_and_update().clone();
    match known {
        Some(node) => daemon.set_labels(node.labels).await,
        None => Ok(()),
    }
}

async fn keep_labels(daemon: &Daemon, mut node: KnownNode) -> Result<(), Status> {
    while node.changed().await.is_ok() {
        set_labels(daemon, &mut node).await?;
    }
    Err(Status::cancelled("the agent ends"))
}

fn stopped_by_signal() -> Result<CancellationToken, AgentError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(AgentError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(AgentError::Runtime)?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        info!("the agent ends; volumes stay mounted");
        stopped.cancel();
    });
    Ok(stop)
}
