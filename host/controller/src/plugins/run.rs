//! The controller of plugins from its start to its end, and its writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Resource as _};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_cluster_client::plugins::{AssignedPlugin, FINALIZER, NodePlugins, VolumePlugin, VolumePluginStatus};
use volhost_cluster_client::{Connection, Events};
use volhost_config::PluginControllerArguments;
use volhost_model::duration::HumanDuration;

use super::cluster::Cluster;
use super::decide::{Decisions, decide};
use super::unwritten::assignable;
use crate::error::ControllerError;
use crate::finalizers::{self, FIELD_MANAGER};
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::service;

/// The Lease of the one that works.
const LEASE: &str = "volhost-plugin-controller";
/// How long after a write that failed everything is decided again.
const AGAIN: Duration = Duration::from_secs(2);

/// Runs until SIGTERM, SIGINT or the loss of the Lease.
///
/// # Errors
/// [`ControllerError`].
pub(crate) fn run(arguments: PluginControllerArguments) -> Result<(), ControllerError> {
    service::serve(arguments.log_format, &arguments.log_level.clone(), |stop| control(arguments, stop))
}

async fn control(arguments: PluginControllerArguments, stop: CancellationToken) -> Result<(), ControllerError> {
    let metrics = Arc::<Metrics>::default();
    if let Some(address) = arguments.metrics_listen {
        metrics.serve(address, CancellationToken::new()).await?;
    }
    let config = volhost_cluster_client::configuration(arguments.kubeconfig.as_deref()).await?;
    let namespace = arguments.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let agent = format!("volhost-plugin-controller/{}", env!("CARGO_PKG_VERSION"));
    let Connection { requests: client, watches } = volhost_cluster_client::connect(config.clone(), &agent)?;
    let changed = Arc::new(Notify::new());
    let cluster = Cluster::start(&watches, &changed);
    match stop.run_until_cancelled(cluster.wait_ready()).await {
        None => return Ok(()),
        Some(ready) => ready.map_err(|_| ControllerError::Watch)?,
    }
    let HumanDuration(duration) = arguments.lease_duration;
    let election = service::candidate(config, &agent, &namespace, LEASE.to_owned(), duration)?;
    metrics.set_leads(election.lease(), false);
    let Some(held) = stop.run_until_cancelled(election.acquire()).await else { return Ok(()) };
    metrics.set_leads(election.lease(), true);
    // Nothing is written to it: all that is decided is in the objects. It stays open.
    let (_journal, mut requests) = Journal::new();
    let events = Events::start(client.clone(), LEASE, election.identity());
    let writer = Writer { client, cluster, events };
    let working = writer.work(&changed, &stop);
    service::lead(&election, held, &mut requests, &stop, working).await
}

/// Decides and writes.
struct Writer {
    client: Client,
    cluster: Cluster,
    events: Events,
}

impl Writer {
    /// Decides and writes after each change, until `stop` is cancelled. What has begun to be
    /// written is written before the end.
    async fn work(&self, changed: &Notify, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let (plugins, on_nodes) = (self.cluster.plugins.all(), self.cluster.on_nodes.all());
            let decided = decide(&plugins, &self.cluster.nodes(), &on_nodes, Timestamp::now());
            let wait = match self.write(&decided).await {
                Ok(()) => decided.due.map(until),
                Err(error) => {
                    warn!("what was decided cannot be written now, and is decided again: {error}");
                    Some(AGAIN)
                }
            };
            let due = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = changed.notified() => {}
                () = due => {}
            }
        }
    }

    /// Statuses first: that a revision has failed is known before a node goes back. A VolumePlugin
    /// that cannot be written holds up its own plugin alone, which stays as it is on every node. The
    /// first error is returned.
    async fn write(&self, decided: &Decisions) -> Result<(), kube::Error> {
        let mut outcome = Ok(());
        let mut unwritten = BTreeSet::new();
        let mut wrote = |name, written: Result<(), kube::Error>| {
            if let Err(error) = written {
                unwritten.insert(name);
                if outcome.is_ok() {
                    outcome = Err(error);
                }
            }
        };
        for name in &decided.kept {
            wrote(name.as_str(), self.set_finalizers(name, &[], &[FINALIZER]).await);
        }
        for name in &decided.released {
            wrote(name.as_str(), self.set_finalizers(name, &[FINALIZER], &[]).await);
        }
        for (name, status) in &decided.statuses {
            wrote(name.as_str(), self.set_status(name, status).await);
        }
        for (name, plugins) in &decided.nodes {
            outcome = outcome.and(self.assign(name, plugins, &unwritten).await);
        }
        outcome
    }

    async fn set_finalizers(&self, name: &str, remove: &[&str], add: &[&str]) -> Result<(), kube::Error> {
        let Some(object) = self.cluster.plugins.get(&ObjectRef::new(name)) else { return Ok(()) };
        let patch = Patch::Merge(finalizers::patch(&object.metadata, remove, add));
        match Api::<VolumePlugin>::all(self.client.clone()).patch(name, &parameters(), &patch).await {
            Ok(written) => self.cluster.plugins.wrote(written),
            Err(error) if is_outdated(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn set_status(&self, name: &str, status: &VolumePluginStatus) -> Result<(), kube::Error> {
        let Some(object) = self.cluster.plugins.get(&ObjectRef::new(name)) else { return Ok(()) };
        let before = &object.status;
        let api = Api::<VolumePlugin>::all(self.client.clone());
        // Of the version that was read: another one may need another status.
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let written = api.replace_status(name, &parameters, &object.with_status(status.clone())).await?;
        self.cluster.plugins.wrote(written);
        self.report(&object.object_ref(&()), before, status);
        Ok(())
    }

    /// Events of what users wait for.
    fn report(&self, object: &ObjectReference, before: &VolumePluginStatus, now: &VolumePluginStatus) {
        let name = object.name.as_deref().unwrap_or_default();
        if before.phase != now.phase {
            info!(plugin = name, phase = now.phase, "the state of a plugin's rollout has changed");
        }
        let message = |kind: &str| {
            let condition = now.conditions.iter().find(|condition| condition.type_ == kind);
            condition.map(|condition| condition.message.clone()).unwrap_or_default()
        };
        if now.rolled_back.is_some() && now.rolled_back != before.rolled_back {
            self.events.warning(object, "RolledBack", &message("RolledBack"));
        } else if now.current != before.current {
            self.events.normal(object, "RolledOut", &message("Ready"));
        } else if now.phase == "GrantNeeded" && before.phase != now.phase {
            self.events.warning(object, "GrantNeeded", &message("GrantNeeded"));
        }
    }

    async fn assign(
        &self,
        name: &str,
        plugins: &[AssignedPlugin],
        unwritten: &BTreeSet<&str>,
    ) -> Result<(), kube::Error> {
        let Some(object) = self.cluster.on_nodes.get(&ObjectRef::new(name)) else { return Ok(()) };
        let Some(plugins) = assignable(plugins, &object, unwritten) else { return Ok(()) };
        let patch = json!({
            "metadata": { "resourceVersion": object.metadata.resource_version, "uid": object.metadata.uid },
            "spec": { "plugins": plugins },
        });
        let api = Api::<NodePlugins>::all(self.client.clone());
        match api.patch(name, &parameters(), &Patch::Merge(patch)).await {
            Ok(written) => self.cluster.on_nodes.wrote(written),
            // The node has reported something; its change leads here again.
            Err(error) if is_outdated(&error) => {}
            Err(error) => return Err(error),
        }
        for plugin in &plugins {
            info!(
                node = name,
                plugin = plugin.name,
                revision = plugin.revision.revision,
                "the node is to have a plugin"
            );
        }
        Ok(())
    }
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// The object has changed since it was read, or is gone.
fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || status.code == 404)
}

/// How long it is until then.
fn until(due: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default()
}
