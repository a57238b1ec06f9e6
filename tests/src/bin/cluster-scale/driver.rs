//! A CSI driver without storage, which keeps account of what it is asked for: its controller part,
//! and what its parts on the nodes have staged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};
use volhost_proto::csi::controller_server::{Controller, ControllerServer};
use volhost_proto::csi::controller_service_capability::{self, Rpc, rpc::Type};
use volhost_proto::csi::identity_server::{Identity, IdentityServer};
use volhost_proto::csi::plugin_capability::{self, service};
use volhost_proto::csi::*;

/// Its name.
pub(crate) const DRIVER: &str = "scale.test";

pub(crate) type Answer<T> = Result<Response<T>, Status>;

/// What the driver has, and what it should never have been asked for.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The nodes of each volume.
    volumes: BTreeMap<String, BTreeSet<String>>,
    /// The nodes on which each volume is staged.
    staged: BTreeMap<String, BTreeSet<String>>,
    /// How many volumes are attached to each node, and how many are staged there.
    attached_to: BTreeMap<String, usize>,
    staged_on: BTreeMap<String, usize>,
    /// How often it was asked to create, to publish and so on.
    pub(crate) calls: BTreeMap<&'static str, u64>,
    /// Calls that lose or endanger data.
    pub(crate) violations: Vec<String>,
}

impl Account {
    /// How many volumes it has.
    pub(crate) fn volumes(&self) -> usize {
        self.volumes.len()
    }

    /// How many volumes are attached to a node.
    pub(crate) fn attached(&self) -> usize {
        self.attached_to.values().sum()
    }

    /// How many volumes are staged on a node.
    pub(crate) fn staged(&self) -> usize {
        self.staged_on.values().sum()
    }

    /// How many volumes are attached to this node.
    pub(crate) fn attached_to(&self, node: &str) -> usize {
        self.attached_to.get(node).copied().unwrap_or_default()
    }
}

/// The driver. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScaleDriver(Arc<Mutex<Account>>);

impl ScaleDriver {
    /// Serves it at this socket, until the process ends.
    pub(crate) fn serve(&self, socket: &Path) {
        let driver = self.clone();
        let socket = socket.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = UnixListener::bind(&socket).expect("a socket");
                let server = tonic::transport::Server::builder()
                    .add_service(IdentityServer::new(driver.clone()))
                    .add_service(ControllerServer::new(driver))
                    .serve_with_incoming(UnixListenerStream::new(listener));
                server.await.expect("the driver serves");
            });
        });
    }

    /// Its account now.
    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of its part on a node.
    pub(crate) fn count(&self, call: &'static str) {
        drop(self.called(call));
    }

    /// Stages a volume on a node: only where it is attached.
    pub(crate) fn stage(&self, volume: &str, node: &str) {
        let mut account = self.called("NodeStageVolume");
        if !account.volumes.get(volume).is_some_and(|nodes| nodes.contains(node)) {
            account.violations.push(format!("{volume} is to be staged on {node}, and is not attached to it"));
        }
        if account.staged.entry(volume.to_owned()).or_default().insert(node.to_owned()) {
            *account.staged_on.entry(node.to_owned()).or_default() += 1;
        }
    }

    /// Unstages it.
    pub(crate) fn unstage(&self, volume: &str, node: &str) {
        let mut account = self.called("NodeUnstageVolume");
        if account.staged.get_mut(volume).is_some_and(|nodes| nodes.remove(node)) {
            *account.staged_on.entry(node.to_owned()).or_default() -= 1;
        }
    }

    fn called(&self, call: &'static str) -> MutexGuard<'_, Account> {
        let mut account = self.account();
        *account.calls.entry(call).or_default() += 1;
        account
    }
}

/// What it says of itself.
pub(crate) fn about() -> GetPluginInfoResponse {
    GetPluginInfoResponse { name: DRIVER.to_owned(), vendor_version: "1".to_owned(), ..Default::default() }
}

#[tonic::async_trait]
impl Identity for ScaleDriver {
    async fn get_plugin_info(&self, _: Request<GetPluginInfoRequest>) -> Answer<GetPluginInfoResponse> {
        Ok(Response::new(about()))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Answer<GetPluginCapabilitiesResponse> {
        let service = plugin_capability::Service { r#type: service::Type::ControllerService.into() };
        let capability = PluginCapability { r#type: Some(plugin_capability::Type::Service(service)) };
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities: vec![capability] }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Answer<ProbeResponse> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}

#[tonic::async_trait]
impl Controller for ScaleDriver {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Answer<ControllerGetCapabilitiesResponse> {
        let all = [
            Type::CreateDeleteVolume,
            Type::PublishUnpublishVolume,
            Type::ListVolumes,
            Type::ListVolumesPublishedNodes,
        ];
        let capabilities = all.map(|kind| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(Rpc { r#type: kind.into() })),
        });
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities: capabilities.to_vec() }))
    }

    async fn create_volume(&self, request: Request<CreateVolumeRequest>) -> Answer<CreateVolumeResponse> {
        let request = request.into_inner();
        self.called("CreateVolume").volumes.entry(request.name.clone()).or_default();
        let capacity_bytes = request.capacity_range.map(|range| range.required_bytes).unwrap_or_default();
        let volume = Volume { volume_id: request.name, capacity_bytes, ..Default::default() };
        Ok(Response::new(CreateVolumeResponse { volume: Some(volume) }))
    }

    async fn delete_volume(&self, request: Request<DeleteVolumeRequest>) -> Answer<DeleteVolumeResponse> {
        let id = request.into_inner().volume_id;
        let mut account = self.called("DeleteVolume");
        if account.volumes.get(&id).is_some_and(|nodes| !nodes.is_empty()) {
            account.violations.push(format!("{id} is to be deleted while it is attached"));
        }
        for node in account.volumes.remove(&id).unwrap_or_default() {
            *account.attached_to.entry(node).or_default() -= 1;
        }
        for node in account.staged.remove(&id).unwrap_or_default() {
            *account.staged_on.entry(node).or_default() -= 1;
        }
        Ok(Response::new(DeleteVolumeResponse {}))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Answer<ControllerPublishVolumeResponse> {
        let ControllerPublishVolumeRequest { volume_id, node_id, .. } = request.into_inner();
        let mut account = self.called("ControllerPublishVolume");
        let Some(nodes) = account.volumes.get_mut(&volume_id) else {
            account.violations.push(format!("{volume_id} is to be attached and does not exist"));
            return Err(Status::not_found(volume_id));
        };
        let is_new = nodes.insert(node_id.clone());
        let violation = (nodes.len() > 1).then(|| format!("{volume_id} is attached to {nodes:?}"));
        account.violations.extend(violation);
        if is_new {
            *account.attached_to.entry(node_id).or_default() += 1;
        }
        Ok(Response::new(ControllerPublishVolumeResponse::default()))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Answer<ControllerUnpublishVolumeResponse> {
        let ControllerUnpublishVolumeRequest { volume_id, node_id, .. } = request.into_inner();
        let mut account = self.called("ControllerUnpublishVolume");
        if account.staged.get(&volume_id).is_some_and(|nodes| nodes.contains(&node_id)) {
            account.violations.push(format!("{volume_id} is to be detached from {node_id} while it is staged there"));
        }
        if account.volumes.get_mut(&volume_id).is_some_and(|nodes| nodes.remove(&node_id)) {
            *account.attached_to.entry(node_id).or_default() -= 1;
        }
        Ok(Response::new(ControllerUnpublishVolumeResponse {}))
    }

    async fn list_volumes(&self, _: Request<ListVolumesRequest>) -> Answer<ListVolumesResponse> {
        let account = self.called("ListVolumes");
        let entry = |(id, nodes): (&String, &BTreeSet<String>)| list_volumes_response::Entry {
            volume: Some(Volume { volume_id: id.clone(), ..Default::default() }),
            status: Some(list_volumes_response::VolumeStatus {
                published_node_ids: nodes.iter().cloned().collect(),
                volume_condition: None,
            }),
        };
        let entries = account.volumes.iter().map(entry).collect();
        Ok(Response::new(ListVolumesResponse { entries, next_token: String::new() }))
    }
}
