//! Registration with a kubelet, without a sidecar: a socket in its folder that says who the driver
//! is and where it listens.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use tracing::{error, info};

use crate::driver::ServedPlugin;
use volhost_proto::registration::registration_server::Registration;
use volhost_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

/// What the kubelet knows drivers as.
const KIND: &str = "CSIPlugin";
/// The versions of drivers' calls that a kubelet knows: not those of the specification.
const VERSION: &str = "1.0.0";

/// The service.
#[derive(Debug)]
pub(crate) struct RegistrationService {
    pub(crate) driver: Arc<ServedPlugin>,
    /// The driver's socket, as the kubelet sees it.
    pub(crate) endpoint: String,
}

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _request: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: KIND.to_owned(),
            name: self.driver.name().to_owned(),
            endpoint: self.endpoint.clone(),
            supported_versions: vec![VERSION.to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error: why } = request.into_inner();
        if plugin_registered {
            info!(driver = self.driver.name(), "registered");
        } else {
            error!(driver = self.driver.name(), why, "the kubelet refused the registration");
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
