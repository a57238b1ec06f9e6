//! What every controller of this program does around its work: the log, threads, signals, and its
//! part in the election.

use std::future::Future;
use std::time::Duration;

use kube::Config;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_cluster_client::Connection;
use volhost_config::{LogFilter, LogFormat};
use volhost_telemetry::Telemetry;

use crate::error::ControllerError;
use crate::journal::JournalRequest;
use crate::lease::{Election, HeldLease};

/// How long work that has begun may take to end once the controller is to end. The Lease is given
/// back after it.
const FAREWELL: Duration = Duration::from_secs(20);
/// A new random UUID with each reading.
const RANDOM_UUID: &str = "/proc/sys/kernel/random/uuid";

/// Runs a controller, which is to end when the token that it gets is cancelled: at SIGTERM or SIGINT.
///
/// # Errors
/// [`ControllerError`].
pub(crate) fn serve<F>(
    log_format: LogFormat,
    log_level: &LogFilter,
    control: impl FnOnce(CancellationToken) -> F,
) -> Result<(), ControllerError>
where
    F: Future<Output = Result<(), ControllerError>>,
{
    let telemetry = Telemetry::begin(log_format, log_level, None, "")?;
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let threads = threads.map_err(ControllerError::Runtime)?;
    let outcome = threads.block_on(async { control(stopped_by_signal()?).await });
    threads.shutdown_background();
    telemetry.end();
    outcome
}

fn stopped_by_signal() -> Result<CancellationToken, ControllerError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ControllerError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ControllerError::Runtime)?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        info!("the controller ends");
        stopped.cancel();
    });
    Ok(stop)
}

/// This replica's part in the election for a Lease, by a name that no other replica ever has. `agent`:
/// who asks, for the API server's log.
///
/// It has a connection of its own: the API server takes 100 requests of a connection at once, and a
/// renewal that waits behind others may come too late.
///
/// # Errors
/// [`ControllerError::Random`], [`ControllerError::Config`], [`ControllerError::Connection`].
pub(crate) fn candidate(
    config: Config,
    agent: &str,
    namespace: &str,
    lease: String,
    duration: Duration,
) -> Result<Election, ControllerError> {
    // Containers of one machine have the same host name and the same process id.
    let unique = std::fs::read_to_string(RANDOM_UUID).map_err(ControllerError::Random)?;
    let identity = format!("{}_{}", volhost_config::host_name()?, unique.trim());
    info!(identity, lease, namespace, "waiting for the Lease");
    let Connection { requests, .. } = volhost_cluster_client::connect(config, agent)?;
    Ok(Election::new(requests, namespace, lease, identity, duration))
}

/// Works while the Lease is held. `working` ends some time after `stop` is cancelled, and the Lease
/// is given back then.
///
/// # Errors
/// [`ControllerError::Lease`]: the process must end at once.
pub(crate) async fn lead(
    election: &Election,
    held: HeldLease,
    requests: &mut mpsc::Receiver<JournalRequest>,
    stop: &CancellationToken,
    working: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let released = CancellationToken::new();
    let ending = async {
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            () = working => {
                released.cancel();
                std::future::pending().await
            }
            // What has begun is done by the next leader again: the Lease must expire.
            () = late => warn!("work that has begun did not end in time; the Lease is not given back"),
        }
    };
    tokio::select! {
        kept = election.keep(held, requests, released.clone()) => Ok(kept?),
        () = ending => Ok(()),
    }
}
