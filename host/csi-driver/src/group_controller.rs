//! The service GroupController: snapshots of several volumes at one moment.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use volhost_runtime::Capability;

use crate::check::shown;
use crate::driver::ServedPlugin;
use crate::groups::group_message;
use crate::node::on_thread;
use crate::secrets::RequestSecrets;
use volhost_proto::csi::group_controller_server::GroupController;
use volhost_proto::csi::group_controller_service_capability::rpc::Type;
use volhost_proto::csi::group_controller_service_capability::{self, Rpc};
use volhost_proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse, DeleteVolumeGroupSnapshotRequest,
    DeleteVolumeGroupSnapshotResponse, GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse, GroupControllerServiceCapability,
};

type RpcResult<T> = std::result::Result<Response<T>, Status>;

/// The service.
#[derive(Debug)]
pub(crate) struct GroupControllerService(pub(crate) Arc<ServedPlugin>);

#[tonic::async_trait]
impl GroupController for GroupControllerService {
    async fn group_controller_get_capabilities(
        &self,
        _request: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> RpcResult<GroupControllerGetCapabilitiesResponse> {
        let can = self.0.can(Capability::GroupSnapshotter);
        let all = can.then_some(Type::CreateDeleteGetVolumeGroupSnapshot).into_iter();
        let capabilities = all.map(|kind| GroupControllerServiceCapability {
            r#type: Some(group_controller_service_capability::Type::Rpc(Rpc { r#type: kind.into() })),
        });
        Ok(Response::new(GroupControllerGetCapabilitiesResponse { capabilities: capabilities.collect() }))
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> RpcResult<CreateVolumeGroupSnapshotResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "CreateVolumeGroupSnapshot", shown(&request.name), move |driver| {
            let group_snapshot = Some(group_message(driver.create_group(request)?));
            Ok(CreateVolumeGroupSnapshotResponse { group_snapshot })
        })
        .await
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> RpcResult<DeleteVolumeGroupSnapshotResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "DeleteVolumeGroupSnapshot", shown(&request.group_snapshot_id), move |driver| {
            let secrets = RequestSecrets::read(&request.secrets)?;
            driver
                .delete_group(&request.group_snapshot_id, &request.snapshot_ids, &secrets)
                .map(|()| DeleteVolumeGroupSnapshotResponse {})
        })
        .await
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<GetVolumeGroupSnapshotRequest>,
    ) -> RpcResult<GetVolumeGroupSnapshotResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "GetVolumeGroupSnapshot", shown(&request.group_snapshot_id), move |driver| {
            let secrets = RequestSecrets::read(&request.secrets)?;
            let found = driver.find_group(&request.group_snapshot_id, &request.snapshot_ids, &secrets)?;
            Ok(GetVolumeGroupSnapshotResponse { group_snapshot: Some(group_message(found)) })
        })
        .await
    }
}
