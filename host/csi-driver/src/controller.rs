//! The service Controller: checks each request, and runs it on a thread that may block.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use volhost_runtime::{Capability, MadeVolume};

use crate::check::{self, shown, volume, wire};
use crate::driver::ServedPlugin;
use crate::node::on_thread;
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use crate::snapshots::snapshot_message;
use crate::usage::RequestedUsage;
use volhost_proto::csi::controller_server::Controller;
use volhost_proto::csi::controller_service_capability::rpc::Type;
use volhost_proto::csi::controller_service_capability::{self, Rpc};
use volhost_proto::csi::validate_volume_capabilities_response::Confirmed;
use volhost_proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetCapabilitiesRequest,
    ControllerGetCapabilitiesResponse, ControllerModifyVolumeRequest, ControllerModifyVolumeResponse,
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerServiceCapability,
    ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, DeleteVolumeRequest,
    DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse, GetSnapshotRequest, GetSnapshotResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume, VolumeContentSource,
    list_snapshots_response, list_volumes_response,
};

type RpcResult<T> = std::result::Result<Response<T>, Status>;

/// The service.
#[derive(Debug)]
pub(crate) struct ControllerService(pub(crate) Arc<ServedPlugin>);

impl ServedPlugin {
    /// A volume as the messages have it.
    fn volume_message(&self, made: MadeVolume, content_source: Option<VolumeContentSource>) -> Volume {
        Volume {
            capacity_bytes: wire(made.capacity),
            volume_id: made.id,
            volume_context: made.attributes.into_iter().collect(),
            content_source,
            accessible_topology: self.reachable_from(),
        }
    }

    fn validate(&self, request: ValidateVolumeCapabilitiesRequest) -> Result<ValidateVolumeCapabilitiesResponse> {
        check::id("volume_id", &request.volume_id)?;
        check::map("volume_context", &request.volume_context)?;
        check::map("parameters", &request.parameters)?;
        check::map("mutable_parameters", &request.mutable_parameters)?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        let usages = RequestedUsage::read_all(&request.volume_capabilities)?;
        self.find_noted(&request.volume_id, &secrets)?;
        let unconfirmed = |message| Ok(ValidateVolumeCapabilitiesResponse { confirmed: None, message });
        if let Some(refusal) = usages.iter().find_map(|usage| self.check_usage(usage).err()) {
            return unconfirmed(refusal.to_string());
        }
        if !request.mutable_parameters.is_empty() && !self.can(Capability::Modifier) {
            return unconfirmed("mutable_parameters: volumes of this driver cannot be modified".to_owned());
        }
        let confirmed = Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        };
        Ok(ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() })
    }

    fn list(&self, request: &ListVolumesRequest) -> Result<ListVolumesResponse> {
        let page = self.page_of_volumes(request.max_entries, &request.starting_token)?;
        let entry = |made: MadeVolume| {
            let status = if self.attach {
                let published_node_ids = self.publish_records.nodes_of(&made.id)?;
                Some(list_volumes_response::VolumeStatus { published_node_ids, volume_condition: None })
            } else {
                None
            };
            Ok(list_volumes_response::Entry { volume: Some(self.volume_message(made, None)), status })
        };
        let entries = page.entries.into_iter().map(entry).collect::<Result<_>>()?;
        Ok(ListVolumesResponse { entries, next_token: page.next.unwrap_or_default() })
    }

    fn capacity(&self, request: &GetCapacityRequest) -> Result<GetCapacityResponse> {
        check::map("parameters", &request.parameters)?;
        if !self.provisions() {
            return Err(Refusal::Unimplemented("the plugin does not know how much room there is".to_owned()));
        }
        let unreachable = request.accessible_topology.as_ref().is_some_and(|topology| {
            !self.topology.is_empty()
                && topology.segments.iter().any(|(key, value)| self.topology.get(key) != Some(value))
        });
        if unreachable {
            return Ok(GetCapacityResponse::default());
        }
        let wanted = volhost_runtime::WantedVolume {
            parameters: request.parameters.clone().into_iter().collect(),
            ..volhost_runtime::WantedVolume::default()
        };
        let free = self.did("asking for the room for", "a volume", self.plugin.free_space(&self.call(""), &wanted))?;
        Ok(GetCapacityResponse { available_capacity: wire(free.unwrap_or_default()), ..GetCapacityResponse::default() })
    }

    fn check_attach(&self) -> Result<()> {
        if self.attach {
            return Ok(());
        }
        Err(Refusal::Unimplemented("volumes are attached by the node; see --enable-attach".to_owned()))
    }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(&self, request: Request<CreateVolumeRequest>) -> RpcResult<CreateVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "CreateVolume", shown(&request.name), move |driver| {
            let made = driver.create(&driver.wanted(&request)?, &RequestSecrets::read(&request.secrets)?)?;
            let volume = driver.volume_message(made, request.volume_content_source);
            Ok(CreateVolumeResponse { volume: Some(volume) })
        })
        .await
    }

    async fn delete_volume(&self, request: Request<DeleteVolumeRequest>) -> RpcResult<DeleteVolumeResponse> {
        let DeleteVolumeRequest { volume_id: id, secrets } = request.into_inner();
        on_thread(&self.0, "DeleteVolume", volume(&id), move |driver| {
            check::id("volume_id", &id)?;
            driver.delete(&id, &RequestSecrets::read(&secrets)?).map(|()| DeleteVolumeResponse {})
        })
        .await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> RpcResult<ControllerPublishVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "ControllerPublishVolume", volume(&request.volume_id), move |driver| {
            driver.check_attach()?;
            check::id("volume_id", &request.volume_id)?;
            check::node(&request.node_id)?;
            let publish_context = driver.publish_to_node(&request)?;
            Ok(ControllerPublishVolumeResponse { publish_context })
        })
        .await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> RpcResult<ControllerUnpublishVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "ControllerUnpublishVolume", volume(&request.volume_id), move |driver| {
            driver.check_attach()?;
            check::id("volume_id", &request.volume_id)?;
            if !request.node_id.is_empty() {
                check::node(&request.node_id)?;
            }
            let secrets = RequestSecrets::read(&request.secrets)?;
            driver
                .unpublish_from_node(&request.volume_id, &request.node_id, &secrets)
                .map(|()| ControllerUnpublishVolumeResponse {})
        })
        .await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> RpcResult<ValidateVolumeCapabilitiesResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "ValidateVolumeCapabilities", volume(&request.volume_id), move |driver| {
            driver.validate(request)
        })
        .await
    }

    async fn list_volumes(&self, request: Request<ListVolumesRequest>) -> RpcResult<ListVolumesResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "ListVolumes", String::new(), move |driver| driver.list(&request)).await
    }

    async fn get_capacity(&self, request: Request<GetCapacityRequest>) -> RpcResult<GetCapacityResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "GetCapacity", String::new(), move |driver| driver.capacity(&request)).await
    }

    async fn controller_get_capabilities(
        &self,
        _request: Request<ControllerGetCapabilitiesRequest>,
    ) -> RpcResult<ControllerGetCapabilitiesResponse> {
        let driver = &self.0;
        let snapshots = driver.can(Capability::Snapshotter);
        let all = [
            (true, Type::CreateDeleteVolume),
            (true, Type::ListVolumes),
            (true, Type::SingleNodeMultiWriter),
            (driver.provisions(), Type::GetCapacity),
            (driver.provisions() || driver.can(Capability::Expander), Type::ExpandVolume),
            (snapshots, Type::CreateDeleteSnapshot),
            (snapshots, Type::ListSnapshots),
            (snapshots, Type::GetSnapshot),
            (snapshots, Type::CloneVolume),
            (driver.can(Capability::Modifier), Type::ModifyVolume),
            (driver.attach, Type::PublishUnpublishVolume),
            (driver.attach, Type::PublishReadonly),
            (driver.attach, Type::ListVolumesPublishedNodes),
        ];
        let can = all.into_iter().filter(|(can, _)| *can);
        let capabilities = can.map(|(_, kind)| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(Rpc { r#type: kind.into() })),
        });
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities: capabilities.collect() }))
    }

    async fn create_snapshot(&self, request: Request<CreateSnapshotRequest>) -> RpcResult<CreateSnapshotResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "CreateSnapshot", shown(&request.name), move |driver| {
            let snapshot = driver.create_snapshot(request)?;
            Ok(CreateSnapshotResponse { snapshot: Some(snapshot_message(snapshot)) })
        })
        .await
    }

    async fn delete_snapshot(&self, request: Request<DeleteSnapshotRequest>) -> RpcResult<DeleteSnapshotResponse> {
        let DeleteSnapshotRequest { snapshot_id: id, secrets } = request.into_inner();
        on_thread(&self.0, "DeleteSnapshot", shown(&id), move |driver| {
            driver.delete_snapshot(&id, &RequestSecrets::read(&secrets)?).map(|()| DeleteSnapshotResponse {})
        })
        .await
    }

    async fn list_snapshots(&self, request: Request<ListSnapshotsRequest>) -> RpcResult<ListSnapshotsResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "ListSnapshots", String::new(), move |driver| {
            let page = driver.page_of_snapshots(&request)?;
            let entry = |made: volhost_runtime::MadeSnapshot| list_snapshots_response::Entry {
                snapshot: Some(snapshot_message(made)),
            };
            Ok(ListSnapshotsResponse {
                entries: page.entries.into_iter().map(entry).collect(),
                next_token: page.next.unwrap_or_default(),
            })
        })
        .await
    }

    async fn get_snapshot(&self, request: Request<GetSnapshotRequest>) -> RpcResult<GetSnapshotResponse> {
        let GetSnapshotRequest { snapshot_id: id, secrets } = request.into_inner();
        on_thread(&self.0, "GetSnapshot", shown(&id), move |driver| {
            let found = driver.find_snapshot(&id, &RequestSecrets::read(&secrets)?)?;
            Ok(GetSnapshotResponse { snapshot: Some(snapshot_message(found)) })
        })
        .await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> RpcResult<ControllerExpandVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "ControllerExpandVolume", volume(&request.volume_id), move |driver| {
            if !driver.provisions() && !driver.can(Capability::Expander) {
                return Err(Refusal::Unimplemented("the plugin's volumes do not grow".to_owned()));
            }
            check::id("volume_id", &request.volume_id)?;
            let (required, limit) = check::range(request.capacity_range.as_ref())?;
            let secrets = RequestSecrets::read(&request.secrets)?;
            let size = driver.expand(&request.volume_id, required, limit, &secrets)?;
            let node_expansion_required = driver.can(Capability::Expander);
            Ok(ControllerExpandVolumeResponse { capacity_bytes: wire(size), node_expansion_required })
        })
        .await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> RpcResult<ControllerModifyVolumeResponse> {
        let request = request.into_inner();
        on_thread(&self.0, "ControllerModifyVolume", volume(&request.volume_id), move |driver| {
            driver.modify(&request).map(|()| ControllerModifyVolumeResponse {})
        })
        .await
    }
}
