//! The service Identity: who the driver is, and what it can do.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use volhost_runtime::Capability;

use crate::driver::ServedPlugin;
use crate::driver_object::MANIFEST_KEY;
use volhost_proto::csi::identity_server::Identity;
use volhost_proto::csi::plugin_capability::service::Type as Service;
use volhost_proto::csi::plugin_capability::volume_expansion::Type as Expansion;
use volhost_proto::csi::plugin_capability::{self, Type};
use volhost_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};

/// The service.
#[derive(Debug)]
pub(crate) struct IdentityService(pub(crate) Arc<ServedPlugin>);

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let info = self.0.plugin.info();
        let version = if info.version.is_empty() { env!("CARGO_PKG_VERSION") } else { &info.version };
        let object = self.0.driver_object();
        let manifest = [
            ("volhost", env!("CARGO_PKG_VERSION")),
            ("plugin", info.name.as_str()),
            ("sha256", &info.digest),
            (MANIFEST_KEY, &object),
        ];
        Ok(Response::new(GetPluginInfoResponse {
            name: self.0.name.clone(),
            vendor_version: version.to_owned(),
            manifest: manifest.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let service = |kind: Service| Type::Service(plugin_capability::Service { r#type: kind.into() });
        let mut capabilities = vec![service(Service::ControllerService)];
        if !self.0.topology.is_empty() {
            capabilities.push(service(Service::VolumeAccessibilityConstraints));
        }
        if self.0.can(Capability::GroupSnapshotter) {
            capabilities.push(service(Service::GroupControllerService));
        }
        if self.0.can(Capability::Expander) {
            let online = plugin_capability::VolumeExpansion { r#type: Expansion::Online.into() };
            capabilities.push(Type::VolumeExpansion(online));
        }
        let capabilities = capabilities.into_iter().map(|kind| PluginCapability { r#type: Some(kind) }).collect();
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.0.check_state()?;
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
