//! The `VolumeManager` service.

use std::pin::Pin;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use volhost_core::WaitFailure;

use super::status::{refused, stopping};
use super::tokens::{self, TokenQuestions};
use super::{answers, watch};
use volhost_api::pb;
use volhost_api::pb::volume_manager_server::VolumeManager;
use volhost_api::{DEFAULT_WAIT, MAX_MANIFEST_BYTES};
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::ForceTarget;
use volhost_node::event_loop::requests::{Added, Compared, PodSelector, RequestError};
use volhost_objects::{DEFAULT_NAMESPACE, Kind, ObjectKey};

/// How a wait ends: the node's answer, with the pod's failure in it.
type WaitEnd = Result<Result<(), WaitFailure>, RequestError>;

/// Answers from the node.
#[derive(Debug, Clone)]
pub(super) struct ManagerService {
    node: NodeHandle,
    shutdown: CancellationToken,
}

impl ManagerService {
    pub(super) const fn new(node: NodeHandle, shutdown: CancellationToken) -> Self {
        Self { node, shutdown }
    }

    /// Waits for the node's answer, or for the end of volhost.
    async fn until_shutdown<T>(&self, answer: impl Future<Output = Result<T, RequestError>>) -> Result<T, Status> {
        tokio::select! {
            answer = answer => answer.map_err(|error| refused(&error)),
            () = self.shutdown.cancelled() => Err(stopping()),
        }
    }

    /// Waits for all of these. Returns the failures by the pods' names.
    async fn failures(&self, mut waits: JoinSet<WaitEnd>) -> Result<Vec<pb::WaitFailure>, Status> {
        let mut failures = Vec::new();
        loop {
            let ended = tokio::select! {
                ended = waits.join_next() => ended,
                () = self.shutdown.cancelled() => return Err(stopping()),
            };
            let Some(ended) = ended else { break };
            let result = ended.map_err(|error| Status::internal(format!("a wait ended without an answer: {error}")))?;
            if let Err(failure) = result.map_err(|error| refused(&error))? {
                failures.push(answers::wait_failure(failure));
            }
        }
        failures.sort_by(|a, b| a.pod.cmp(&b.pod));
        Ok(failures)
    }

    async fn mounted(&self, request: pb::PodRequest, possibly: bool) -> Result<pb::MountedVolumes, Status> {
        let pod = selector(request.pod)?;
        let volumes = self.node.mounted_volumes(pod, possibly).await.map_err(|error| refused(&error))?;
        Ok(pb::MountedVolumes { volumes: volumes.into_iter().map(answers::mounted_volume).collect() })
    }
}

fn selector(pod: Option<pb::PodSelector>) -> Result<PodSelector, Status> {
    answers::selected_pod(pod.unwrap_or_default()).map_err(|error| refused(&error))
}

fn check_size(manifest: &str) -> Result<(), Status> {
    match manifest.len() {
        0..=MAX_MANIFEST_BYTES => Ok(()),
        bytes => Err(Status::invalid_argument(format!(
            "the manifest has {bytes} bytes, {MAX_MANIFEST_BYTES} at most; send its objects in several calls"
        ))),
    }
}

fn timeout(milliseconds: u64) -> Duration {
    if milliseconds == 0 { DEFAULT_WAIT } else { Duration::from_millis(milliseconds) }
}

fn wait_result(result: Result<(), WaitFailure>) -> pb::WaitResult {
    pb::WaitResult { failure: result.err().map(answers::wait_failure) }
}

#[tonic::async_trait]
impl VolumeManager for ManagerService {
    async fn add_pods(&self, request: Request<pb::AddPodsRequest>) -> Result<Response<pb::AddPodsResponse>, Status> {
        let pb::AddPodsRequest { manifest, wait_ms, field_validation, dry_run } = request.into_inner();
        let validation = answers::field_validation(field_validation).map_err(|error| refused(&error))?;
        check_size(&manifest)?;
        let added = match dry_run {
            true => self.node.check_objects(manifest, validation).await,
            false => self.node.add_objects(manifest, validation).await,
        };
        let Added { pods, warnings } = added.map_err(|error| refused(&error))?;
        let mut waits = JoinSet::new();
        for pod in pods.iter().filter(|_| wait_ms > 0 && !dry_run) {
            let (node, pod) = (self.node.clone(), PodSelector::Uid(pod.uid.to_string()));
            waits.spawn(async move { node.wait_mounted(pod, Duration::from_millis(wait_ms)).await });
        }
        let failures = self.failures(waits).await?;
        Ok(Response::new(pb::AddPodsResponse {
            pods: pods.into_iter().map(answers::added_pod).collect(),
            failures,
            warnings,
        }))
    }

    async fn compare_objects(
        &self,
        request: Request<pb::CompareObjectsRequest>,
    ) -> Result<Response<pb::CompareObjectsResponse>, Status> {
        let pb::CompareObjectsRequest { manifest, field_validation } = request.into_inner();
        let validation = answers::field_validation(field_validation).map_err(|error| refused(&error))?;
        check_size(&manifest)?;
        let compared = self.node.compare_objects(manifest, validation).await.map_err(|error| refused(&error))?;
        let Compared { objects, warnings } = compared;
        Ok(Response::new(pb::CompareObjectsResponse {
            objects: objects.into_iter().map(answers::compared_object).collect(),
            warnings,
        }))
    }

    async fn plan(&self, request: Request<pb::PlanRequest>) -> Result<Response<pb::PlanResponse>, Status> {
        let pb::PlanRequest { manifest, field_validation, drain } = request.into_inner();
        let planned = if drain {
            self.node.plan_drain().await
        } else {
            let validation = answers::field_validation(field_validation).map_err(|error| refused(&error))?;
            check_size(&manifest)?;
            self.node.plan_objects(manifest, validation).await
        };
        planned.map(|planned| Response::new(answers::planned(planned))).map_err(|error| refused(&error))
    }

    async fn remove_pod(
        &self,
        request: Request<pb::RemovePodRequest>,
    ) -> Result<Response<pb::RemovePodResponse>, Status> {
        let pod = selector(request.into_inner().pod)?;
        self.node.remove_pod(pod).await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::RemovePodResponse {}))
    }

    async fn remove_object(
        &self,
        request: Request<pb::RemoveObjectRequest>,
    ) -> Result<Response<pb::RemoveObjectResponse>, Status> {
        let pb::RemoveObjectRequest { kind, namespace, name } = request.into_inner();
        let known = Kind::from_name(&kind).filter(|kind| *kind != Kind::Pod);
        let kind = known.ok_or_else(|| {
            Status::invalid_argument(format!(
                "kind: {kind:?} is no kind that this call removes; RemovePod removes pods"
            ))
        })?;
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE.to_owned() } else { namespace };
        let removed = self.node.remove_object(ObjectKey::new(kind, namespace, name)).await;
        let outcome = removed.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::RemoveObjectResponse { outcome }))
    }

    async fn list_objects(
        &self,
        _: Request<pb::ListObjectsRequest>,
    ) -> Result<Response<pb::ListObjectsResponse>, Status> {
        let objects = self.node.added_objects().await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::ListObjectsResponse { objects: objects.into_iter().map(answers::added_object).collect() }))
    }

    async fn set_node_labels(
        &self,
        request: Request<pb::NodeLabels>,
    ) -> Result<Response<pb::SetNodeLabelsResponse>, Status> {
        let labels = request.into_inner().labels.into_iter().collect();
        self.node.set_node_labels(labels).await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::SetNodeLabelsResponse {}))
    }

    type IssueTokensStream = TokenQuestions;

    async fn issue_tokens(
        &self,
        request: Request<Streaming<pb::TokenAnswer>>,
    ) -> Result<Response<Self::IssueTokensStream>, Status> {
        Ok(Response::new(tokens::questions(&self.node, request.into_inner(), self.shutdown.clone())))
    }

    async fn wait_for_attach_and_mount(
        &self,
        request: Request<pb::WaitRequest>,
    ) -> Result<Response<pb::WaitResult>, Status> {
        let request = request.into_inner();
        let pod = selector(request.pod)?;
        let result = self.until_shutdown(self.node.wait_mounted(pod, timeout(request.timeout_ms))).await?;
        Ok(Response::new(wait_result(result)))
    }

    async fn wait_for_unmount(&self, request: Request<pb::WaitRequest>) -> Result<Response<pb::WaitResult>, Status> {
        let request = request.into_inner();
        let pod = selector(request.pod)?;
        let result = self.until_shutdown(self.node.wait_unmounted(pod, timeout(request.timeout_ms))).await?;
        Ok(Response::new(wait_result(result)))
    }

    async fn wait_for_all_pods_unmount(
        &self,
        request: Request<pb::WaitForAllPodsUnmountRequest>,
    ) -> Result<Response<pb::WaitForAllPodsUnmountResponse>, Status> {
        let request = request.into_inner();
        let timeout = timeout(request.timeout_ms);
        let pods = request.pods.into_iter().map(|pod| selector(Some(pod))).collect::<Result<Vec<_>, _>>()?;
        let mut waits = JoinSet::new();
        for pod in pods {
            let node = self.node.clone();
            waits.spawn(async move { node.wait_unmounted(pod, timeout).await });
        }
        let failures = self.failures(waits).await?;
        Ok(Response::new(pb::WaitForAllPodsUnmountResponse { failures }))
    }

    async fn get_mounted_volumes_for_pod(
        &self,
        request: Request<pb::PodRequest>,
    ) -> Result<Response<pb::MountedVolumes>, Status> {
        self.mounted(request.into_inner(), false).await.map(Response::new)
    }

    async fn get_possibly_mounted_volumes_for_pod(
        &self,
        request: Request<pb::PodRequest>,
    ) -> Result<Response<pb::MountedVolumes>, Status> {
        self.mounted(request.into_inner(), true).await.map(Response::new)
    }

    async fn has_possibly_mounted_volumes_for_pod(
        &self,
        request: Request<pb::PodRequest>,
    ) -> Result<Response<pb::HasPossiblyMountedVolumesForPodResponse>, Status> {
        let mounted = self.mounted(request.into_inner(), true).await?;
        Ok(Response::new(pb::HasPossiblyMountedVolumesForPodResponse { possibly_mounted: !mounted.volumes.is_empty() }))
    }

    async fn get_extra_supplemental_groups_for_pod(
        &self,
        request: Request<pb::PodRequest>,
    ) -> Result<Response<pb::GetExtraSupplementalGroupsForPodResponse>, Status> {
        let pod = selector(request.into_inner().pod)?;
        let mut groups = self.node.extra_supplemental_groups(pod).await.map_err(|error| refused(&error))?;
        groups.sort_unstable();
        Ok(Response::new(pb::GetExtraSupplementalGroupsForPodResponse { groups }))
    }

    async fn get_volumes_in_use(
        &self,
        _: Request<pb::GetVolumesInUseRequest>,
    ) -> Result<Response<pb::VolumesInUse>, Status> {
        let volumes = self.node.volumes_in_use().await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::VolumesInUse { volumes }))
    }

    type WatchVolumesInUseStream = Pin<Box<dyn Stream<Item = Result<pb::VolumesInUse, Status>> + Send>>;

    async fn watch_volumes_in_use(
        &self,
        _: Request<pb::WatchVolumesInUseRequest>,
    ) -> Result<Response<Self::WatchVolumesInUseStream>, Status> {
        Ok(Response::new(watch::volumes_in_use(self.node.clone(), self.shutdown.clone())))
    }

    async fn mark_volumes_as_reported_in_use(
        &self,
        request: Request<pb::VolumesInUse>,
    ) -> Result<Response<pb::MarkVolumesAsReportedInUseResponse>, Status> {
        self.node.mark_reported_in_use(request.into_inner().volumes).await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::MarkVolumesAsReportedInUseResponse {}))
    }

    async fn set_node_attachments(
        &self,
        request: Request<pb::NodeAttachments>,
    ) -> Result<Response<pb::SetNodeAttachmentsResponse>, Status> {
        let attachments = request.into_inner().attachments.into_iter();
        let attachments = attachments.map(|one| (one.volume, one.device_path)).collect();
        self.node.set_node_attachments(attachments).await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::SetNodeAttachmentsResponse {}))
    }

    async fn volume_is_attached(
        &self,
        request: Request<pb::VolumeIsAttachedRequest>,
    ) -> Result<Response<pb::VolumeIsAttachedResponse>, Status> {
        let attached =
            self.node.volume_is_attached(request.into_inner().volume).await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::VolumeIsAttachedResponse { attached }))
    }

    async fn states_synced(
        &self,
        _: Request<pb::StatesSyncedRequest>,
    ) -> Result<Response<pb::StatesSyncedResponse>, Status> {
        let synced = self.node.states_synced().await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::StatesSyncedResponse { synced }))
    }

    async fn sources_ready(
        &self,
        _: Request<pb::SourcesReadyRequest>,
    ) -> Result<Response<pb::SourcesReadyResponse>, Status> {
        self.node.sources_ready().await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::SourcesReadyResponse {}))
    }

    async fn end_drain(&self, _: Request<pb::EndDrainRequest>) -> Result<Response<pb::EndDrainResponse>, Status> {
        let was_draining = self.node.end_drain().await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::EndDrainResponse { was_draining }))
    }

    type DrainStream = Pin<Box<dyn Stream<Item = Result<pb::DrainUpdate, Status>> + Send>>;

    async fn drain(&self, request: Request<pb::DrainRequest>) -> Result<Response<Self::DrainStream>, Status> {
        let timeout = timeout(request.into_inner().timeout_ms);
        Ok(Response::new(watch::drain(self.node.clone(), timeout, self.shutdown.clone())))
    }

    async fn force_unmount(
        &self,
        request: Request<pb::ForceUnmountRequest>,
    ) -> Result<Response<pb::ForceUnmountResponse>, Status> {
        let pb::ForceUnmountRequest { pod, volume, end_server, of_node } = request.into_inner();
        let target = if of_node { ForceTarget::OfNode(volume) } else { ForceTarget::OfPod(selector(pod)?, volume) };
        let forced = self.until_shutdown(self.node.force_unmount(target, end_server)).await?;
        Ok(Response::new(pb::ForceUnmountResponse { server_ended: forced.server_ended }))
    }

    async fn get_mounts(&self, request: Request<pb::PodRequest>) -> Result<Response<pb::GetMountsResponse>, Status> {
        let pod = selector(request.into_inner().pod)?;
        let mounts = self.until_shutdown(self.node.mounts(pod)).await?;
        Ok(Response::new(pb::GetMountsResponse { mounts: mounts.into_iter().map(answers::mount).collect() }))
    }
}
