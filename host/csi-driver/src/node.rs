//! The service Node: checks each request, and runs it on a thread that may block.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use tracing::{info, warn};
use volhost_runtime::Capability;

use crate::check::{self, volume};
use crate::driver::ServedPlugin;
use crate::refusal::{Refusal, Result};
use volhost_proto::csi::node_server::Node;
use volhost_proto::csi::node_service_capability::rpc::Type;
use volhost_proto::csi::node_service_capability::{self, Rpc};
use volhost_proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse, Topology,
};

type RpcResult<T> = std::result::Result<Response<T>, Status>;

/// The service.
#[derive(Debug)]
pub(crate) struct NodeService(pub(crate) Arc<ServedPlugin>);

/// Runs the call on a thread that may block, and logs its result.
pub(crate) async fn on_thread<T: Send + 'static>(
    driver: &Arc<ServedPlugin>,
    call: &'static str,
    subject: String,
    work: impl FnOnce(&ServedPlugin) -> Result<T> + Send + 'static,
) -> RpcResult<T> {
    let driver = Arc::clone(driver);
    let _running = driver.running.begin();
    let done = tokio::task::spawn_blocking(move || work(&driver)).await;
    match done.unwrap_or_else(|error| Err(Refusal::Lost(error.to_string()))) {
        Ok(answer) => {
            info!(call, subject, "done");
            Ok(Response::new(answer))
        }
        Err(refusal) => {
            let code = refusal.code();
            warn!(call, subject, ?code, "{refusal}");
            Err(refusal.into())
        }
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(&self, request: Request<NodeStageVolumeRequest>) -> RpcResult<NodeStageVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "NodeStageVolume", volume(&request.volume_id), move |driver| {
            check::id("volume_id", &request.volume_id)?;
            check::map("volume_context", &request.volume_context)?;
            check::map("publish_context", &request.publish_context)?;
            driver.stage(&request).map(|()| NodeStageVolumeResponse {})
        })
        .await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> RpcResult<NodeUnstageVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "NodeUnstageVolume", volume(&request.volume_id), move |driver| {
            check::id("volume_id", &request.volume_id)?;
            driver.unstage(&request.volume_id, &request.staging_target_path).map(|()| NodeUnstageVolumeResponse {})
        })
        .await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> RpcResult<NodePublishVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "NodePublishVolume", volume(&request.volume_id), move |driver| {
            check::id("volume_id", &request.volume_id)?;
            check::map("volume_context", &request.volume_context)?;
            check::map("publish_context", &request.publish_context)?;
            driver.publish(&request).map(|()| NodePublishVolumeResponse {})
        })
        .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> RpcResult<NodeUnpublishVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "NodeUnpublishVolume", volume(&request.volume_id), move |driver| {
            check::id("volume_id", &request.volume_id)?;
            driver.unpublish(&request.volume_id, &request.target_path).map(|()| NodeUnpublishVolumeResponse {})
        })
        .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> RpcResult<NodeGetVolumeStatsResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "NodeGetVolumeStats", volume(&request.volume_id), move |driver| {
            check::id("volume_id", &request.volume_id)?;
            driver.figures(&request.volume_id, &request.volume_path)
        })
        .await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> RpcResult<NodeExpandVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "NodeExpandVolume", volume(&request.volume_id), move |driver| {
            check::id("volume_id", &request.volume_id)?;
            driver.grow(&request)
        })
        .await
    }

    async fn node_get_capabilities(
        &self,
        _request: Request<NodeGetCapabilitiesRequest>,
    ) -> RpcResult<NodeGetCapabilitiesResponse> {
        let driver = &self.0;
        let all = [
            (driver.stages(), Type::StageUnstageVolume),
            (driver.can(Capability::Expander), Type::ExpandVolume),
            (true, Type::GetVolumeStats),
            (driver.can(Capability::Stats), Type::VolumeCondition),
            (driver.takes_mount_group(), Type::VolumeMountGroup),
            (true, Type::SingleNodeMultiWriter),
        ];
        let can = all.into_iter().filter(|(can, _)| *can);
        let capabilities = can.map(|(_, kind)| NodeServiceCapability {
            r#type: Some(node_service_capability::Type::Rpc(Rpc { r#type: kind.into() })),
        });
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities: capabilities.collect() }))
    }

    async fn node_get_info(&self, _request: Request<NodeGetInfoRequest>) -> RpcResult<NodeGetInfoResponse> {
        let driver = &self.0;
        let segments = driver.topology.clone().into_iter().collect();
        Ok(Response::new(NodeGetInfoResponse {
            node_id: driver.node_id.clone(),
            max_volumes_per_node: driver.max_volumes.map_or(0, i64::from),
            accessible_topology: (!driver.topology.is_empty()).then_some(Topology { segments }),
        }))
    }
}
