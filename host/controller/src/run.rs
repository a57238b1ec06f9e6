//! The controller from its start to its end.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_cluster_client::Events;
use volhost_config::ControllerArguments;
use volhost_model::duration::HumanDuration;
use volhost_telemetry::Telemetry;

use crate::attach::Attacher;
use crate::caches::{Caches, Handlers};
use crate::driver::Driver;
use crate::error::ControllerError;
use crate::journal::Journal;
use crate::lease::Election;
use crate::modify::Modifier;
use crate::provision::{ClaimKey, Deleter, ProvisionOptions, Provisioner, source_name};
use crate::queue::WorkQueue;
use crate::resize::Resizer;

/// How long calls of the driver may take to end once the controller is to end. The Lease is given
/// back after them.
const FAREWELL: Duration = Duration::from_secs(20);
/// A new random UUID with each reading.
const RANDOM_UUID: &str = "/proc/sys/kernel/random/uuid";

/// Runs until SIGTERM, SIGINT or the loss of the Lease.
///
/// # Errors
/// [`ControllerError`].
pub(crate) fn run(arguments: ControllerArguments) -> Result<(), ControllerError> {
    let telemetry = Telemetry::begin(arguments.log_format, &arguments.log_level, None, "")?;
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let threads = threads.map_err(ControllerError::Runtime)?;
    let outcome = threads.block_on(control(arguments));
    threads.shutdown_background();
    telemetry.end();
    outcome
}

/// What is still to be done, by kind.
#[derive(Debug, Clone)]
struct Queues {
    claims: Arc<WorkQueue<ClaimKey>>,
    volumes: Arc<WorkQueue<String>>,
    attachments: Arc<WorkQueue<String>>,
    changes: Arc<WorkQueue<ClaimKey>>,
}

async fn control(arguments: ControllerArguments) -> Result<(), ControllerError> {
    let stop = stopped_by_signal()?;
    let Some(outcome) = stop.run_until_cancelled(begin(&arguments)).await else { return Ok(()) };
    let Begun { client, driver, caches, queues, election } = outcome?;
    let Some(held) = stop.run_until_cancelled(election.acquire()).await else { return Ok(()) };

    let (journal, mut requests) = Journal::new();
    let events = Events::start(client.clone(), &format!("{}/volhost-controller", driver.name()), election.identity());
    let provisioner = Arc::new(Provisioner::new(
        client.clone(),
        Arc::clone(&driver),
        caches.clone(),
        journal,
        events.clone(),
        ProvisionOptions {
            default_fs_type: arguments.default_fstype,
            metadata: arguments.extra_create_metadata,
            strict_topology: arguments.strict_topology,
        },
    ));
    for key in provisioner.resume(held.entries()) {
        queues.claims.add(key);
    }
    let deleter = Deleter::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone());
    let attacher = Arc::new(Attacher::new(client.clone(), Arc::clone(&driver), caches.clone()));
    let ends = Arc::new(Ends { deleter, attacher: Arc::clone(&attacher), caches: caches.clone() });
    let resizer = Resizer::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone());
    let changes = Arc::new(Changes { resizer, modifier: Modifier::new(client, driver, caches, events) });

    let workers = arguments.workers;
    let working = async {
        tokio::join!(
            queues.claims.run(workers, stop.clone(), |key| {
                let provisioner = Arc::clone(&provisioner);
                async move { provisioner.work(&key).await }
            }),
            queues.volumes.run(workers, stop.clone(), |name| {
                let ends = Arc::clone(&ends);
                async move { ends.work(&name).await }
            }),
            queues.attachments.run(workers, stop.clone(), |name| {
                let attacher = Arc::clone(&attacher);
                async move { attacher.work(&name).await }
            }),
            queues.changes.run(workers, stop.clone(), |key| {
                let changes = Arc::clone(&changes);
                async move { changes.work(&key).await }
            }),
        );
    };
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
            // What the driver still does is done by the next leader again: the Lease must expire.
            () = late => warn!("calls of the driver did not end in time; the Lease is not given back"),
        }
    };
    tokio::select! {
        kept = election.keep(held, &mut requests, released.clone()) => Ok(kept?),
        () = ending => Ok(()),
    }
}

struct Begun {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    queues: Queues,
    election: Election,
}

/// What every replica does, whether it leads or not.
async fn begin(arguments: &ControllerArguments) -> Result<Begun, ControllerError> {
    let config = volhost_cluster_client::configuration(arguments.kubeconfig.as_deref()).await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let HumanDuration(timeout) = arguments.timeout;
    let driver = Arc::new(Driver::connect(arguments.csi.path(), timeout).await?);
    let agent = format!("volhost-controller/{} ({})", env!("CARGO_PKG_VERSION"), driver.name());
    let client = volhost_cluster_client::connect(config, &agent)?;
    let queues = Queues {
        claims: Arc::new(WorkQueue::new()),
        volumes: Arc::new(WorkQueue::new()),
        attachments: Arc::new(WorkQueue::new()),
        changes: Arc::new(WorkQueue::new()),
    };
    let caches = Caches::start(&client, &driver, handlers(&queues));
    if !caches.wait_ready().await {
        return Err(ControllerError::Watch);
    }
    // Containers of one machine have the same host name and the same process id.
    let unique = std::fs::read_to_string(RANDOM_UUID).map_err(ControllerError::Random)?;
    let identity = format!("{}_{}", volhost_config::host_name()?, unique.trim());
    // Objects' names have no capitals.
    let lease = format!("volhost-controller-{}", driver.name().to_ascii_lowercase());
    let HumanDuration(duration) = arguments.lease_duration;
    info!(driver = driver.name(), identity, lease, namespace, "waiting for the Lease");
    let election = Election::new(client.clone(), &namespace, lease, identity, duration);
    Ok(Begun { client, driver, caches, queues, election })
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

/// The ends of volumes: what the driver deletes, and what was attached.
struct Ends {
    deleter: Deleter,
    attacher: Arc<Attacher>,
    caches: Caches,
}

impl Ends {
    async fn work(&self, name: &str) -> bool {
        let Some(volume) = self.caches.volume(name) else {
            self.deleter.forget(name);
            return true;
        };
        // The deleter removes both finalizers of its volumes at once.
        self.deleter.work(&volume).await && self.attacher.release(&volume).await
    }
}

/// What changes volumes that are there.
struct Changes {
    resizer: Resizer,
    modifier: Modifier,
}

impl Changes {
    async fn work(&self, key: &ClaimKey) -> bool {
        // One does not wait for the success of the other.
        let (grown, modified) = (self.resizer.work(key).await, self.modifier.work(key).await);
        grown && modified
    }
}

fn handlers(queues: &Queues) -> Handlers {
    let (claims, volumes, attachments) = (queues.clone(), queues.clone(), queues.clone());
    Handlers {
        claims: Box::new(move |claim, is_gone| claim_changed(&claims, claim, is_gone)),
        volumes: Box::new(move |volume, is_gone| volume_changed(&volumes, volume, is_gone)),
        attachments: Box::new(move |attachment, is_gone| attachment_changed(&attachments, attachment, is_gone)),
    }
}

fn claim_changed(queues: &Queues, claim: &PersistentVolumeClaim, is_gone: bool) {
    let key = ClaimKey::of(claim);
    if let Some(source) = source_name(claim) {
        // It may be free of its finalizer now.
        queues.claims.add_known(|known| known.namespace() == key.namespace() && known.name() == source);
    }
    if is_gone {
        queues.changes.gone(key.clone());
        // Its volume may have been begun.
        queues.claims.gone(key);
        return;
    }
    let wanted = fingerprint(&(&claim.spec, &claim.metadata.annotations, &claim.metadata.deletion_timestamp));
    queues.claims.changed(key.clone(), wanted);
    queues.changes.changed(key, fingerprint(&claim.spec));
}

fn volume_changed(queues: &Queues, volume: &PersistentVolume, is_gone: bool) {
    let Some(name) = volume.metadata.name.clone() else { return };
    if is_gone {
        queues.volumes.gone(name);
        return;
    }
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_ref());
    let wanted = fingerprint(&(&volume.spec, phase, &volume.metadata.deletion_timestamp));
    queues.volumes.changed(name, wanted);
}

fn attachment_changed(queues: &Queues, attachment: &VolumeAttachment, is_gone: bool) {
    let Some(name) = attachment.metadata.name.clone() else { return };
    if is_gone {
        queues.attachments.gone(name);
        // Its volume may be deleted now.
        if let Some(volume) = attachment.spec.source.persistent_volume_name.clone() {
            queues.volumes.retry(&volume);
        }
        return;
    }
    queues.attachments.changed(name, fingerprint(&attachment.metadata.deletion_timestamp));
}

/// A number that differs when what it covers does.
fn fingerprint(wanted: &impl serde::Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(wanted).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
