//! `volhost attach-detach-controller`: attaches the volumes of pods to their nodes and detaches
//! them, in place of the controller in kube-controller-manager.
//!
//! ```text
//!  pods, claims, PersistentVolumes, CSIDrivers --.
//!  nodes, CSINodes, VolumeAttachments -----------+--> state --nodes--> queue --> worker: plan
//!                                                       ^                          |
//!  VolumeAttachments <--- create, delete ---------------+--------------------------'
//!  node.status.volumesAttached <--- patch
//! ```
//!
//! Drivers' controllers do the work that VolumeAttachments ask for (`volhost controller`, or
//! external-attacher). The state is made of the objects alone, so that a replica that takes over
//! needs nothing from the one before it. It lists VolumeAttachments once it has the Lease: what the
//! one before has created is known before it creates any.
//!
//! | module | its job |
//! |---|---|
//! | [`objects`] | the fields of pods, claims and nodes |
//! | [`names`] | names of volumes and attachments |
//! | [`source`] | what is attached for a pod's volume |
//! | [`state`] | what is known, and which nodes a change concerns |
//! | [`plan`] | what is to be done for a node |
//! | [`worker`] | does it |
//! | [`watch`] | reports changes |
//! | [`reports`] | events |
//! | [`metrics`] | figures for Prometheus |

mod metrics;
mod names;
mod objects;
mod plan;
mod reports;
#[cfg(test)]
mod simulation;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod watch;
mod worker;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::Client;
use tokio_util::sync::CancellationToken;
use volhost_cluster_client::{Connection, Events};
use volhost_config::AttachDetachArguments;
use volhost_model::duration::HumanDuration;

use crate::error::ControllerError;
use crate::journal::Journal;
use crate::queue::WorkQueue;
use crate::service;
use metrics::Metrics;
use reports::Reports;
use state::{ClusterState, Nodes};
use watch::{Listed, follow, wait_listed};
use worker::Worker;

/// The Lease, and the component of events.
const NAME: &str = "volhost-attach-detach-controller";

/// What watches and workers share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ClusterState>,
    queue: Arc<WorkQueue<String>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> &WorkQueue<String> {
        &self.queue
    }

    /// Changes the state. The nodes that the change concerns are planned for.
    fn update(&self, change: impl FnOnce(&mut ClusterState) -> Nodes) {
        let nodes = change(&mut self.state());
        nodes.into_iter().for_each(|node| self.queue.add(node));
    }
}

/// Runs until SIGTERM, SIGINT or the loss of the Lease.
///
/// # Errors
/// [`ControllerError`].
pub(crate) fn run(arguments: AttachDetachArguments) -> Result<(), ControllerError> {
    service::serve(arguments.log_format, &arguments.log_level.clone(), |stop| control(arguments, stop))
}

async fn control(arguments: AttachDetachArguments, stop: CancellationToken) -> Result<(), ControllerError> {
    let (metrics, shared) = (Arc::<Metrics>::default(), Arc::<Shared>::default());
    if let Some(address) = arguments.metrics_listen {
        metrics.serve(&shared, address, CancellationToken::new()).await?;
    }
    let config = volhost_cluster_client::configuration(arguments.kubeconfig.as_deref()).await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let agent = format!("{NAME}/{}", env!("CARGO_PKG_VERSION"));
    let Connection { requests: client, watches } = volhost_cluster_client::connect(config.clone(), &agent)?;
    let mut listed = watch_causes(&watches, &shared);
    // Not waited for: without a node's id an attachment takes one write more.
    let csi_nodes = watch_csi_nodes(&watches, &shared);
    let HumanDuration(duration) = arguments.lease_duration;
    let election = service::candidate(config, &agent, &namespace, NAME.to_owned(), duration)?;
    metrics.leads.set(election.lease(), false);
    let elected = async {
        for listed in &mut listed {
            if !wait_listed(listed).await {
                return Err(ControllerError::Watch);
            }
        }
        Ok(election.acquire().await)
    };
    let Some(held) = stop.run_until_cancelled(elected).await else { return Ok(()) };
    let held = held?;
    metrics.leads.set(election.lease(), true);

    let events = Events::start(client.clone(), NAME, election.identity());
    let force_after = arguments.force_detach_after.duration();
    let reports = Reports::new(events);
    let worker = Arc::new(Worker::new(Arc::clone(&shared), client, reports, metrics, force_after));
    let working = async {
        let mut attachments = watch_attachments(&watches, &shared);
        // Until they are known, every volume may be attached elsewhere.
        if stop.run_until_cancelled(wait_listed(&mut attachments)).await != Some(true) {
            return;
        }
        let nodes = shared.state().all_nodes();
        nodes.into_iter().for_each(|node| shared.queue.add(node));
        let queue = Arc::clone(&shared.queue);
        queue
            .run(arguments.workers, stop.clone(), |node| {
                let worker = Arc::clone(&worker);
                async move { worker.work(&node).await }
            })
            .await;
        drop(attachments);
    };
    // Nothing is written to it: each replica computes the names of VolumeAttachments.
    let (_journal, mut requests) = Journal::new();
    let outcome = service::lead(&election, held, &mut requests, &stop, working).await;
    drop((listed, csi_nodes));
    outcome
}

/// Watches what decides which volumes are wanted where.
fn watch_causes(client: &Client, shared: &Arc<Shared>) -> [Listed; 5] {
    let of = || Arc::clone(shared);
    let (pods, claims, volumes, drivers, nodes) = (of(), of(), of(), of(), of());
    [
        follow(client, move |change| pods.update(|state| state.pods(change))),
        follow(client, move |change| claims.update(|state| state.claims(change))),
        follow(client, move |change| volumes.update(|state| state.volumes(change))),
        follow(client, move |change| drivers.update(|state| state.drivers(change))),
        follow(client, move |change| nodes.update(|state| state.nodes(change))),
    ]
}

fn watch_csi_nodes(client: &Client, shared: &Arc<Shared>) -> Listed {
    let shared = Arc::clone(shared);
    follow::<CSINode>(client, move |change| shared.update(|state| state.csi_nodes(change)))
}

fn watch_attachments(client: &Client, shared: &Arc<Shared>) -> Listed {
    let shared = Arc::clone(shared);
    follow::<VolumeAttachment>(client, move |change| shared.update(|state| state.attachments(change)))
}
