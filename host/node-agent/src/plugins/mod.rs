//! Plugins that the cluster installs: the node's NodePlugins object, carried out by the daemon.
//!
//! ```text
//!  NodePlugins.spec --> pull from the registry --> daemon: checks, installs, loads
//!  NodePlugins.status <---------------------------- what the daemon says of each
//! ```
//!
//! The daemon decides: whether the cluster may install plugins at all, what it may grant, whose
//! signature is required. The agent pulls, and reports.
//!
//! Where the cluster has no NodePlugins, or the daemon takes none, nothing is done.
//!
//! | module | its job |
//! |---|---|
//! | `installing` | one plugin, from the registry to the daemon |
//! | `reports` | what the node reports (pure) |

mod installing;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;
use tonic::Status;
use tracing::{debug, info, warn};
use volhost_api::pb;
use volhost_cluster_client::plugins::{AssignedPlugin, GROUP, NodePlugins, NodePluginsStatus, VERSION};
use volhost_cluster_client::watch_one;

use crate::daemon::{Daemon, daemon_ends};
use crate::in_use::MANAGER;
use crate::watches::KnownNode;
use installing::{Refusal, install};
use reports::{Removal, reports};

/// How long after a failure something is tried again, at first.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest such wait: a registry may be down for hours.
const LONGEST: Duration = Duration::from_secs(160);
/// How often the daemon is asked while something is not settled. It reports most changes itself.
const ASK: Duration = Duration::from_secs(2);

/// Keeps the node's plugins as the cluster wants them, until the daemon is lost.
pub(crate) async fn keep(client: &Client, name: &str, daemon: &Daemon, mut node: KnownNode) -> Result<(), Status> {
    let api = Api::<NodePlugins>::all(client.clone());
    let mut objects = std::pin::pin!(watch_one(api.clone(), name));
    let mut updates = daemon.watch(pb::Kind::Plugins, 0).await?;
    let mut plugins = Plugins::new(api, name, daemon);
    loop {
        let uid = node.borrow_and_update().as_ref().map(|node| node.uid.clone());
        plugins.advance(uid.as_deref()).await?;
        tokio::select! {
            object = objects.next() => match object {
                Some(Ok(object)) => plugins.object = Some(object),
                // The kind is not known, most often.
                Some(Err(error)) => debug!("the node's NodePlugins cannot be watched now: {error}"),
                None => return Err(Status::cancelled("the agent ends")),
            },
            update = updates.message() => {
                update?.ok_or_else(daemon_ends)?;
            }
            changed = node.changed() => changed.map_err(|_| Status::cancelled("the agent ends"))?,
            Some((plugin, revision, outcome)) = plugins.running.next() => plugins.ended(plugin, revision, outcome)?,
            () = tokio::time::sleep(ASK), if plugins.is_unsettled => {}
        }
    }
}

/// The outcome of an installation: the VolumePlugin, the revision, and why it is refused.
type Installation = (String, String, Result<(), Refusal>);

/// A refused installation, and when it is tried again.
#[derive(Debug)]
struct Refused {
    revision: String,
    refusal: Refusal,
    wait: Duration,
    due: Instant,
}

/// The plugins of the node, as far as is known.
struct Plugins<'a> {
    api: Api<NodePlugins>,
    name: &'a str,
    daemon: &'a Daemon,
    /// None: the object has not been read. `Some(None)`: there is none.
    object: Option<Option<NodePlugins>>,
    /// Plugins that are being installed, by the VolumePlugin's name.
    installing: BTreeSet<String>,
    running: FuturesUnordered<LocalBoxFuture<'static, Installation>>,
    refused: BTreeMap<String, Refused>,
    /// Something is to be looked at again without a report of the daemon or the API server.
    is_unsettled: bool,
}

impl<'a> Plugins<'a> {
    fn new(api: Api<NodePlugins>, name: &'a str, daemon: &'a Daemon) -> Self {
        Self {
            api,
            name,
            daemon,
            object: None,
            installing: BTreeSet::new(),
            running: FuturesUnordered::new(),
            refused: BTreeMap::new(),
            is_unsettled: false,
        }
    }

    /// Does what can be done now, and reports.
    async fn advance(&mut self, uid: Option<&str>) -> Result<(), Status> {
        self.is_unsettled = false;
        let Some(object) = self.object.clone() else { return Ok(()) };
        let installed = self.daemon.cluster_plugins().await?;
        let Some(object) = object else {
            if let (Some(_), Some(uid)) = (&installed, uid) {
                self.create(uid).await;
            }
            return Ok(());
        };
        let status = match installed {
            None => NodePluginsStatus::default(),
            Some(installed) => {
                let assigned = object.spec.plugins.clone();
                let removals = self.remove(assigned.as_deref(), &installed).await?;
                self.install(assigned.as_deref().unwrap_or_default(), &installed);
                let refused = |name: &str, revision: &str| {
                    let refused = self.refused.get(name).filter(|refused| refused.revision == revision)?;
                    Some(refused.refusal.clone())
                };
                let plugins = reports(
                    assigned.as_deref(),
                    &installed,
                    &object.status.plugins,
                    &removals,
                    refused,
                    Timestamp::now(),
                );
                NodePluginsStatus { accepts_plugins: true, plugins }
            }
        };
        self.is_unsettled |= reports::are_unsettled(&status.plugins);
        if status != object.status {
            self.report(&status).await;
        }
        Ok(())
    }

    /// Begins to install what is to be installed.
    fn install(&mut self, assigned: &[AssignedPlugin], installed: &[pb::InstalledClusterPlugin]) {
        self.refused.retain(|name, _| assigned.iter().any(|plugin| plugin.name == *name));
        for plugin in assigned {
            let revision = &plugin.revision.revision;
            let has = installed.iter().find(|one| one.plugin == plugin.revision.content.plugin);
            let waits = self.refused.get(&plugin.name);
            let waits = waits.is_some_and(|refused| refused.revision == *revision && Instant::now() < refused.due);
            if waits {
                self.is_unsettled = true;
            }
            let is_done = has.is_some_and(|has| has.revision == *revision);
            if is_done || waits || !self.installing.insert(plugin.name.clone()) {
                continue;
            }
            info!(
                plugin = plugin.name,
                revision,
                image = plugin.revision.content.image,
                "the cluster installs a plugin"
            );
            let has_content = has.is_some_and(|has| has.digest == plugin.revision.content.digest);
            let (daemon, plugin) = (self.daemon.clone(), plugin.clone());
            self.running.push(Box::pin(async move {
                let outcome = install(&daemon, &plugin.revision, has_content).await;
                (plugin.name, plugin.revision.revision, outcome)
            }));
        }
    }

    fn ended(&mut self, plugin: String, revision: String, outcome: Result<(), Refusal>) -> Result<(), Status> {
        self.installing.remove(&plugin);
        let refusal = match outcome {
            Ok(()) => {
                self.refused.remove(&plugin);
                return Ok(());
            }
            Err(Refusal::Lost(status)) => return Err(status),
            Err(refusal) => refusal,
        };
        warn!(plugin, revision, "a plugin of the cluster is not installed: {}", refusal.message());
        let before = self.refused.get(&plugin).filter(|refused| refused.revision == revision);
        let wait = before.map_or(AGAIN, |refused| refused.wait.saturating_mul(2).min(LONGEST));
        self.refused.insert(plugin, Refused { revision, refusal, wait, due: Instant::now() + wait });
        Ok(())
    }

    /// Removes what is not to be there. Without a decision of the controller, nothing.
    async fn remove(
        &mut self,
        assigned: Option<&[AssignedPlugin]>,
        installed: &[pb::InstalledClusterPlugin],
    ) -> Result<Vec<Removal>, Status> {
        let Some(assigned) = assigned else { return Ok(Vec::new()) };
        let mut removals = Vec::new();
        let is_kept = |plugin: &str| assigned.iter().any(|one| one.revision.content.plugin == plugin);
        for plugin in installed.iter().filter(|one| !is_kept(&one.plugin)) {
            let message = match self.daemon.remove_plugin(&plugin.plugin).await {
                Ok(()) => {
                    info!(plugin = plugin.plugin, "a plugin of the cluster is removed");
                    continue;
                }
                Err(status) if status.code() == tonic::Code::FailedPrecondition => status.message().to_owned(),
                Err(status) => return Err(status),
            };
            self.is_unsettled = true;
            removals.push(Removal { plugin: plugin.plugin.clone(), message });
        }
        Ok(removals)
    }

    /// Makes the object, which belongs to the Node. The controller decides what is in it.
    async fn create(&mut self, uid: &str) {
        let object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "NodePlugins",
            "metadata": {
                "name": self.name,
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": self.name, "uid": uid }],
            },
            "spec": {},
        });
        let object = match serde_json::from_value::<kube::api::DynamicObject>(object) {
            Ok(object) => object,
            Err(error) => return warn!("the node's NodePlugins cannot be made: {error}"),
        };
        let resource = kube::api::ApiResource::erase::<NodePlugins>(&());
        let api = Api::<kube::api::DynamicObject>::all_with(self.api.clone().into_client(), &resource);
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match api.create(&parameters, &object).await {
            Ok(_) => {}
            // The watch shows it.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => {
                debug!("the node's NodePlugins cannot be made now: {error}");
                self.is_unsettled = true;
            }
        }
    }

    async fn report(&mut self, status: &NodePluginsStatus) {
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "status": status }));
        match self.api.patch_status(self.name, &parameters, &patch).await {
            Ok(written) => self.object = Some(Some(written)),
            Err(error) => {
                warn!(node = self.name, "the state of the node's plugins cannot be reported now: {error}");
                self.is_unsettled = true;
            }
        }
    }
}
