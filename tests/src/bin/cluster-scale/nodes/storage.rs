//! The driver's part on one node: it mounts in the node's kernel, which is in memory.

use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};
use volhost_kernel::{Detach, Directory, Entry, FsOption, Kernel as _, KernelError};
use volhost_proto::csi::identity_server::{Identity, IdentityServer};
use volhost_proto::csi::node_server::{Node, NodeServer};
use volhost_proto::csi::node_service_capability::{self, Rpc, rpc};
use volhost_proto::csi::*;
use volhost_proto::registration::registration_server::{Registration, RegistrationServer};
use volhost_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use volhost_testing_kernel::InMemoryKernel;

use crate::driver::{Answer, DRIVER, ScaleDriver, about};

/// The driver on one node. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) struct NodeStorage {
    node: String,
    kernel: InMemoryKernel,
    driver: ScaleDriver,
}

impl NodeStorage {
    pub(crate) fn new(node: &str, kernel: &InMemoryKernel, driver: &ScaleDriver) -> Self {
        Self { node: node.to_owned(), kernel: kernel.clone(), driver: driver.clone() }
    }

    /// Serves the driver and its registration at this socket, until the process ends. Needs a tokio
    /// runtime.
    pub(crate) fn serve(self, socket: &Path) {
        let listener = UnixListener::bind(socket).expect("a socket");
        let server = tonic::transport::Server::builder()
            .add_service(RegistrationServer::new(self.clone()))
            .add_service(IdentityServer::new(self.clone()))
            .add_service(NodeServer::new(self))
            .serve_with_incoming(UnixListenerStream::new(listener));
        tokio::spawn(async move { server.await.expect("the driver serves") });
    }

    /// The folder that a path lies in, and its name there.
    fn place(&self, path: &str) -> Result<(Directory, PathBuf), Status> {
        let path = Path::new(path);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Status::invalid_argument(format!("{} names no place", path.display())));
        };
        Ok((self.kernel.open_directory(folder).map_err(failed)?, name.into()))
    }

    fn unmount(&self, path: &str) -> Result<(), Status> {
        match self.place(path) {
            Ok((folder, name)) => self.kernel.detach(&folder, name.as_os_str(), Detach::Normal).map_err(failed),
            // The folder is gone, and the mount with it.
            Err(_) if !self.kernel.exists(path) => Ok(()),
            Err(status) => Err(status),
        }
    }
}

fn failed(error: KernelError) -> Status {
    Status::internal(error.to_string())
}

#[tonic::async_trait]
impl Registration for NodeStorage {
    async fn get_info(&self, _: Request<InfoRequest>) -> Answer<PluginInfo> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: DRIVER.to_owned(),
            endpoint: String::new(),
            supported_versions: vec!["1.0.0".to_owned()],
        }))
    }

    async fn notify_registration_status(&self, _: Request<RegistrationStatus>) -> Answer<RegistrationStatusResponse> {
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

#[tonic::async_trait]
impl Identity for NodeStorage {
    async fn get_plugin_info(&self, _: Request<GetPluginInfoRequest>) -> Answer<GetPluginInfoResponse> {
        Ok(Response::new(about()))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Answer<GetPluginCapabilitiesResponse> {
        Ok(Response::new(GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Answer<ProbeResponse> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}

#[tonic::async_trait]
impl Node for NodeStorage {
    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Answer<NodeGetInfoResponse> {
        Ok(Response::new(NodeGetInfoResponse { node_id: self.node.clone(), ..Default::default() }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Answer<NodeGetCapabilitiesResponse> {
        let stage = NodeServiceCapability {
            r#type: Some(node_service_capability::Type::Rpc(Rpc { r#type: rpc::Type::StageUnstageVolume.into() })),
        };
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities: vec![stage] }))
    }

    async fn node_stage_volume(&self, request: Request<NodeStageVolumeRequest>) -> Answer<NodeStageVolumeResponse> {
        let NodeStageVolumeRequest { volume_id, staging_target_path, .. } = request.into_inner();
        self.driver.stage(&volume_id, &self.node);
        let (folder, name) = self.place(&staging_target_path)?;
        if !matches!(self.kernel.entry(&folder, name.as_os_str()).map_err(failed)?, Entry::Mount(_)) {
            let mount = self.kernel.tmpfs(&[FsOption::new("mode", "0755")]).map_err(failed)?;
            self.kernel.attach(mount, &folder, name.as_os_str()).map_err(failed)?;
        }
        Ok(Response::new(NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Answer<NodeUnstageVolumeResponse> {
        let NodeUnstageVolumeRequest { volume_id, staging_target_path } = request.into_inner();
        self.unmount(&staging_target_path)?;
        self.driver.unstage(&volume_id, &self.node);
        Ok(Response::new(NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Answer<NodePublishVolumeResponse> {
        let NodePublishVolumeRequest { staging_target_path, target_path, .. } = request.into_inner();
        self.driver.count("NodePublishVolume");
        let (folder, name) = self.place(&target_path)?;
        if !matches!(self.kernel.entry(&folder, name.as_os_str()).map_err(failed)?, Entry::Mount(_)) {
            let staged = self.kernel.open_directory(Path::new(&staging_target_path)).map_err(failed)?;
            let source = self.kernel.source(&staged).map_err(failed)?;
            let mount = self.kernel.bind(&source, false).map_err(failed)?;
            self.kernel.attach(mount, &folder, name.as_os_str()).map_err(failed)?;
        }
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Answer<NodeUnpublishVolumeResponse> {
        self.driver.count("NodeUnpublishVolume");
        self.unmount(&request.into_inner().target_path)?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(&self, _: Request<NodeGetVolumeStatsRequest>) -> Answer<NodeGetVolumeStatsResponse> {
        Err(Status::unimplemented("the driver has no such capability"))
    }

    async fn node_expand_volume(&self, _: Request<NodeExpandVolumeRequest>) -> Answer<NodeExpandVolumeResponse> {
        Err(Status::unimplemented("the driver has no such capability"))
    }
}
