//! The controller from its start to its end.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;
use volhost_cluster_client::{Connection, Events};
use volhost_config::ControllerArguments;
use volhost_model::duration::HumanDuration;

use crate::attach::Attacher;
use crate::caches::Caches;
use crate::capacity::Capacities;
use crate::changes::{Queues, handlers};
use crate::driver::Driver;
use crate::driver_object::DriverObject;
use crate::error::ControllerError;
use crate::group::{GroupSnapshotter, Grouper};
use crate::journal::Journal;
use crate::key::ObjectKey;
use crate::lease::Election;
use crate::metrics::Metrics;
use crate::modify::Modifier;
use crate::provision::{Deleter, ProvisionOptions, Provisioner};
use crate::queue::WorkQueue;
use crate::resize::Resizer;
use crate::service;
use crate::snapshot::{Binder, Snapshotter};

/// Runs until SIGTERM, SIGINT or the loss of the Lease.
///
/// # Errors
/// [`ControllerError`].
pub(crate) fn run(arguments: ControllerArguments) -> Result<(), ControllerError> {
    service::serve(arguments.log_format, &arguments.log_level.clone(), |stop| control(arguments, stop))
}

async fn control(arguments: ControllerArguments, stop: CancellationToken) -> Result<(), ControllerError> {
    let metrics = Arc::<Metrics>::default();
    if let Some(address) = arguments.metrics_listen {
        // Until the end, so that the last calls are counted, too.
        metrics.serve(address, CancellationToken::new()).await?;
    }
    let Some(outcome) = stop.run_until_cancelled(begin(&arguments, &metrics)).await else { return Ok(()) };
    let Begun { client, driver, caches, queues, election, namespace } = outcome?;
    metrics.set_leads(election.lease(), false);
    let Some(held) = stop.run_until_cancelled(election.acquire()).await else { return Ok(()) };
    metrics.set_leads(election.lease(), true);

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
        Arc::clone(&queues.capacities),
    ));
    for key in provisioner.resume(held.entries()) {
        queues.claims.add(key);
    }
    let deleter = Deleter::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone());
    let attacher = Arc::new(Attacher::new(client.clone(), Arc::clone(&driver), caches.clone()));
    let ends = Arc::new(Ends { deleter, attacher: Arc::clone(&attacher), caches: caches.clone() });
    let resizer = Resizer::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone());
    let binder = Binder::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone());
    let binder = Arc::new(binder);
    let metadata = arguments.extra_create_metadata;
    let snapshotter = Snapshotter::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone(), metadata);
    let snapshotter = Arc::new(snapshotter);
    let grouper = Arc::new(Grouper::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone()));
    let group_snapshotter =
        Arc::new(GroupSnapshotter::new(client.clone(), Arc::clone(&driver), caches.clone(), events.clone()));
    let object = Arc::new(DriverObject::new(client.clone(), Arc::clone(&driver), caches.clone()));
    queues.driver_object.add(driver.name().to_owned());
    let capacities =
        Capacities::new(client.clone(), Arc::clone(&driver), caches.clone(), namespace, Arc::clone(&queues.capacities));
    let capacities = Arc::new(capacities);
    let changes = Arc::new(Changes { resizer, modifier: Modifier::new(client, driver, caches, events) });
    let HumanDuration(poll_interval) = arguments.poll_interval;
    let (places, attachments) = (Arc::clone(&queues.places), Arc::clone(&queues.attachments));

    let workers = arguments.workers;
    let snapshots = async {
        if arguments.no_snapshots {
            return;
        }
        tokio::join!(
            queues.snapshots.run(workers, stop.clone(), |key| {
                let binder = Arc::clone(&binder);
                async move { binder.work(&key).await }
            }),
            queues.contents.run(workers, stop.clone(), |name| {
                let snapshotter = Arc::clone(&snapshotter);
                async move { snapshotter.work(&name).await }
            }),
            queues.groups.run(workers, stop.clone(), |key| {
                let grouper = Arc::clone(&grouper);
                async move { grouper.work(&key).await }
            }),
            queues.group_contents.run(workers, stop.clone(), |name| {
                let snapshotter = Arc::clone(&group_snapshotter);
                async move { snapshotter.work(&name).await }
            }),
        );
    };
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
            queues.driver_object.run(1, stop.clone(), |_| {
                let object = Arc::clone(&object);
                async move { object.work().await }
            }),
            queues.capacities.run(workers, stop.clone(), |place| {
                let capacities = Arc::clone(&capacities);
                async move { capacities.work(&place).await }
            }),
            capacities.survey(&places, poll_interval, &stop),
            reconcile(&attacher, &attachments, poll_interval, &stop),
            snapshots,
        );
    };
    service::lead(&election, held, &mut requests, &stop, working).await
}

/// Attaches again what the driver has lost, until `stop` is cancelled.
async fn reconcile(attacher: &Attacher, attachments: &WorkQueue<String>, interval: Duration, stop: &CancellationToken) {
    if !attacher.lists() {
        return;
    }
    let again = async {
        loop {
            tokio::time::sleep(interval).await;
            for name in attacher.find_lost().await {
                attachments.add(name);
            }
        }
    };
    let _: Option<()> = stop.run_until_cancelled(again).await;
}

struct Begun {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    queues: Queues,
    election: Election,
    namespace: String,
}

/// What every replica does, whether it leads or not.
async fn begin(arguments: &ControllerArguments, metrics: &Metrics) -> Result<Begun, ControllerError> {
    let config = volhost_cluster_client::configuration(arguments.kubeconfig.as_deref()).await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let HumanDuration(timeout) = arguments.timeout;
    let driver = Arc::new(Driver::connect(arguments.csi.path(), timeout, metrics.calls()).await?);
    let agent = format!("volhost-controller/{} ({})", env!("CARGO_PKG_VERSION"), driver.name());
    let Connection { requests: client, watches } = volhost_cluster_client::connect(config.clone(), &agent)?;
    let (queues, known) = (Queues::default(), Arc::new(OnceLock::new()));
    metrics.watch_queues(queues.clone());
    let caches = Caches::start(&watches, &driver, &namespace, handlers(&queues, &known, driver.name()));
    // Nothing is worked on before.
    drop(known.set(caches.clone()));
    if !caches.wait_ready().await {
        return Err(ControllerError::Watch);
    }
    DriverObject::check(&driver, &caches)?;
    // Objects' names have no capitals.
    let lease = format!("volhost-controller-{}", driver.name().to_ascii_lowercase());
    let HumanDuration(duration) = arguments.lease_duration;
    let election = service::candidate(config, &agent, &namespace, lease, duration)?;
    Ok(Begun { client, driver, caches, queues, election, namespace })
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
    async fn work(&self, key: &ObjectKey) -> bool {
        // One does not wait for the success of the other.
        let (grown, modified) = (self.resizer.work(key).await, self.modifier.work(key).await);
        grown && modified
    }
}
