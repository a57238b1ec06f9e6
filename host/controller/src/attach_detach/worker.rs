//! Does what is planned for one node. One worker at a time has a node.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;
use tracing::{info, warn};

use super::Shared;
use super::metrics::Metrics;
use super::objects::Node;
use super::plan::{Detach, Wanted, still_unused};
use super::reports::Reports;
use super::source::Through;
use super::state::{Change, Planned, facts};
use crate::finalizers::FIELD_MANAGER;

/// How many requests for one node are sent at once.
const TOGETHER: usize = 16;
const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;

/// Plans and acts.
pub(super) struct Worker {
    shared: Arc<Shared>,
    attachments: Api<VolumeAttachment>,
    nodes: Api<Node>,
    reports: Mutex<Reports>,
    metrics: Arc<Metrics>,
    force_after: Option<Duration>,
}

impl Worker {
    /// A worker that writes by this client.
    pub(super) fn new(
        shared: Arc<Shared>,
        client: Client,
        reports: Reports,
        metrics: Arc<Metrics>,
        force_after: Option<Duration>,
    ) -> Self {
        Self {
            shared,
            attachments: Api::all(client.clone()),
            nodes: Api::all(client),
            reports: Mutex::new(reports),
            metrics,
            force_after,
        }
    }

    /// Works on a node. Returns whether nothing failed.
    pub(super) async fn work(&self, node: &str) -> bool {
        let planned = self.shared.state().plan(node, self.force_after, Instant::now());
        if let Some(at) = planned.plan.look_again {
            self.shared.queue().add_at(node.to_owned(), at.into());
        }
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).plan(node, &planned);
        let mut creations = Vec::new();
        for name in &planned.plan.create {
            if let Some(wanted) = planned.wanted.get(name) {
                let metadata = planned.protected.get(name).cloned().unwrap_or_default();
                creations.push(self.create(node, name, metadata, wanted));
            }
        }
        let created = all_done(creations);
        let (created, released) = tokio::join!(created, self.list_and_detach(node, &planned));
        created && released
    }

    async fn create(&self, node: &str, name: &str, metadata: ObjectMeta, wanted: &Wanted) -> bool {
        let Through::Driver { driver, source } = &wanted.source.through else { return true };
        let attachment = VolumeAttachment {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..metadata },
            spec: VolumeAttachmentSpec {
                attacher: driver.clone(),
                node_name: node.to_owned(),
                source: (**source).clone(),
            },
            status: None,
        };
        let volume = &wanted.source.name;
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.attachments.create(&parameters, &attachment).await {
            Ok(attachment) => {
                info!(volume, node, attachment = name, "the volume is to be attached");
                self.shared.update(|state| state.wrote_attachment(&attachment));
                true
            }
            // It is there, and the watch will show it. Its volume stays this node's until then.
            Err(kube::Error::Api(answer)) if answer.code == CONFLICT => {
                self.shared.state().may_be_created(name);
                false
            }
            Err(kube::Error::Api(answer)) if (400..500).contains(&answer.code) => {
                warn!(volume, node, "the VolumeAttachment cannot be created: {}", answer.message);
                self.shared.update(|state| state.not_created(name));
                false
            }
            Err(error) => {
                warn!(volume, node, "whether the VolumeAttachment is created is not known: {error}");
                self.shared.state().may_be_created(name);
                false
            }
        }
    }

    /// Writes the list, and detaches what the node as it is then does not use.
    async fn list_and_detach(&self, node: &str, planned: &Planned) -> bool {
        let Some(list) = &planned.plan.list else { return self.detach_all(node, &planned.plan.detach).await };
        // Of the node that was planned for, not of another one of its name.
        let patch = json!({ "metadata": { "uid": planned.node_uid }, "status": { "volumesAttached": list } });
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let shown = match self.nodes.patch_status(node, &parameters, &Patch::Merge(patch)).await {
            Ok(shown) => shown,
            // The watch shows that it is gone, or another one.
            Err(kube::Error::Api(answer)) if answer.code == NOT_FOUND => return true,
            Err(error) => {
                warn!(node, "status.volumesAttached cannot be written: {error}");
                return false;
            }
        };
        let unused = still_unused(&planned.plan.detach, &facts(node, &shown));
        self.shared.update(|state| state.nodes(Change::Applied(shown)));
        planned.plan.forced.iter().for_each(|force| self.metrics.forced(*force));
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).attached(planned);
        if unused.len() < planned.plan.detach.len() {
            // What the kubelet has begun to use meanwhile is listed again.
            self.shared.queue().add(node.to_owned());
        }
        self.detach_all(node, &unused).await
    }

    async fn detach_all(&self, node: &str, all: &[Detach]) -> bool {
        let mut deletions = Vec::new();
        for detach in all {
            deletions.push(self.detach(node, detach));
        }
        all_done(deletions).await
    }

    async fn detach(&self, node: &str, detach: &Detach) -> bool {
        let Detach { name, uid, force } = detach;
        let preconditions = uid.clone().map(|uid| Preconditions { uid: Some(uid), resource_version: None });
        let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.attachments.delete(name, &parameters).await {
            Ok(deleted) => {
                match force {
                    Some(force) => {
                        self.metrics.forced(*force);
                        let reason = force.reason();
                        warn!(
                            node,
                            attachment = name,
                            reason,
                            "a volume that the node reports in use is to be detached"
                        );
                    }
                    None => info!(node, attachment = name, "the volume is to be detached"),
                }
                match deleted.left() {
                    Some(attachment) if attachment.metadata.deletion_timestamp.is_some() => {
                        self.shared.update(|state| state.wrote_attachment(&attachment));
                    }
                    _ => self.shared.update(|state| state.deleted_attachment(name, uid.as_deref())),
                }
                true
            }
            Err(kube::Error::Api(answer)) if answer.code == NOT_FOUND => {
                self.shared.update(|state| state.deleted_attachment(name, uid.as_deref()));
                true
            }
            // Another one of this name, which the watch will show.
            Err(kube::Error::Api(answer)) if answer.code == CONFLICT => true,
            Err(error) => {
                warn!(node, attachment = name, "the VolumeAttachment cannot be deleted: {error}");
                false
            }
        }
    }
}

/// Sends all requests, some at a time. Returns whether all were done.
async fn all_done<F: Future<Output = bool>>(requests: Vec<F>) -> bool {
    let outcomes: Vec<bool> = futures_util::stream::iter(requests).buffer_unordered(TOGETHER).collect().await;
    outcomes.into_iter().all(|is_done| is_done)
}
