//! The `Inspect` service.

use std::pin::Pin;

use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::answers::{now_us, volume_stats};
use super::filter::{Filter, event_is_about};
use super::status::refused;
use super::watch;
use volhost_api::pb;
use volhost_api::pb::inspect_server::Inspect;
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::{RequestError, Snapshot};
use volhost_objects::Problem;
use volhost_volume_ops::stats::MeteredVolume;

/// What a recording names as its program.
const PROGRAM: &str = concat!("volhostd ", env!("CARGO_PKG_VERSION"));
/// The bytes of one part of a recording: a quarter of what a client takes at once.
const PART_BYTES: usize = 1 << 20;

/// Answers from the node's lists.
#[derive(Debug, Clone)]
pub(super) struct InspectService {
    node: NodeHandle,
    shutdown: CancellationToken,
    /// When the daemon began to serve, in microseconds since the Unix epoch.
    started_us: u64,
}

impl InspectService {
    pub(super) fn new(node: NodeHandle, shutdown: CancellationToken) -> Self {
        Self { node, shutdown, started_us: now_us() }
    }

    async fn snapshot(&self) -> Result<Snapshot, Status> {
        self.node.snapshot().await.map_err(|error| refused(&error))
    }
}

#[tonic::async_trait]
impl Inspect for InspectService {
    async fn list_pods(&self, request: Request<pb::ListRequest>) -> Result<Response<pb::ListPodsResponse>, Status> {
        let filter = Filter::try_from(request.into_inner())?;
        let pods = filter.pods(self.snapshot().await?).map(Into::into).collect();
        Ok(Response::new(pb::ListPodsResponse { pods }))
    }

    async fn list_volumes(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::ListVolumesResponse>, Status> {
        let filter = Filter::try_from(request.into_inner())?;
        let volumes = filter.volumes(self.snapshot().await?).map(Into::into).collect();
        Ok(Response::new(pb::ListVolumesResponse { volumes }))
    }

    async fn list_plugins(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::ListPluginsResponse>, Status> {
        let filter = Filter::without_labels(request.into_inner(), "plugins")?;
        let plugins =
            filter.plugins(self.node.plugins().await.map_err(|error| refused(&error))?).map(Into::into).collect();
        Ok(Response::new(pb::ListPluginsResponse { plugins }))
    }

    async fn list_drivers(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::ListDriversResponse>, Status> {
        let filter = Filter::without_labels(request.into_inner(), "drivers")?;
        let drivers =
            filter.drivers(self.node.drivers().await.map_err(|error| refused(&error))?).map(Into::into).collect();
        Ok(Response::new(pb::ListDriversResponse { drivers }))
    }

    async fn list_claims(&self, request: Request<pb::ListRequest>) -> Result<Response<pb::ListClaimsResponse>, Status> {
        let filter = Filter::try_from(request.into_inner())?;
        let listed = self.node.claims().await.map_err(|error| refused(&error))?;
        let claims = filter.claims(listed.claims).map(Into::into).collect();
        Ok(Response::new(pb::ListClaimsResponse { claims }))
    }

    async fn list_persistent_volumes(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::ListPersistentVolumesResponse>, Status> {
        let filter = Filter::try_from(request.into_inner())?;
        let listed = self.node.claims().await.map_err(|error| refused(&error))?;
        let volumes = filter.persistent_volumes(listed.volumes).map(Into::into).collect();
        Ok(Response::new(pb::ListPersistentVolumesResponse { volumes }))
    }

    async fn list_operations(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::ListOperationsResponse>, Status> {
        let filter = Filter::try_from(request.into_inner())?;
        let operations = filter.operations(&self.node).await.map_err(|error| refused(&error))?;
        let operations = operations.into_iter().map(Into::into).collect();
        Ok(Response::new(pb::ListOperationsResponse { operations }))
    }

    async fn volume_stats(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::VolumeStatsResponse>, Status> {
        let filter = Filter::try_from(request.into_inner())?;
        let mounted = filter.volumes(self.snapshot().await?).filter_map(|volume| MeteredVolume::of(&volume)).collect();
        let volumes = self.node.volume_stats(mounted).await.map_err(|error| refused(&error))?;
        let volumes = volumes.into_iter().map(|(volume, usage)| volume_stats(&volume, usage)).collect();
        Ok(Response::new(pb::VolumeStatsResponse { volumes }))
    }

    async fn list_events(
        &self,
        request: Request<pb::ListEventsRequest>,
    ) -> Result<Response<pb::ListEventsResponse>, Status> {
        let request = request.into_inner();
        let events = self.node.events(request.after).await.map_err(|error| refused(&error))?;
        let events =
            events.into_iter().filter(|event| event_is_about(event, &request.object)).map(Into::into).collect();
        Ok(Response::new(pb::ListEventsResponse { events }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<pb::WatchUpdate, Status>> + Send>>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        watch::watch(self.node.clone(), request.into_inner(), self.shutdown.clone()).map(Response::new)
    }

    async fn metrics(&self, _: Request<pb::MetricsRequest>) -> Result<Response<pb::MetricsResponse>, Status> {
        let text = self.node.metrics().await.map_err(|error| refused(&error))?;
        Ok(Response::new(pb::MetricsResponse { text }))
    }

    async fn status(&self, _: Request<pb::StatusRequest>) -> Result<Response<pb::StatusResponse>, Status> {
        let status = self.node.status().await.map_err(|error| refused(&error))?;
        let problem = |problem: Problem| pb::ManifestProblem { file: problem.file, messages: problem.messages };
        Ok(Response::new(pb::StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_us: self.started_us,
            root: status.root,
            synced: status.synced,
            draining: status.draining,
            manifest_problems: status.manifest_problems.into_iter().map(problem).collect(),
        }))
    }

    type RecordingStream = Pin<Box<dyn Stream<Item = Result<pb::RecordingPart, Status>> + Send>>;

    async fn recording(&self, _: Request<pb::RecordingRequest>) -> Result<Response<Self::RecordingStream>, Status> {
        let recording = self.node.recording().await.map_err(|error| refused(&error))?;
        let written = tokio::task::spawn_blocking(move || recording.file(PROGRAM, now_us())).await;
        let file = written.map_err(|_| refused(&RequestError::Stopping))?;
        let file = file.map_err(|error| Status::internal(format!("the recording cannot be written: {error}")))?;
        let parts: Vec<_> =
            file.chunks(PART_BYTES).map(|part| Ok(pb::RecordingPart { bytes: part.to_vec() })).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn version(&self, _: Request<pb::VersionRequest>) -> Result<Response<pb::VersionResponse>, Status> {
        Ok(Response::new(pb::VersionResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            api: "volhost.v1".to_owned(),
            pid: std::process::id(),
        }))
    }
}
