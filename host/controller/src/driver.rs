//! The CSI driver: its capabilities, calls, and which of its errors are final.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use thiserror::Error;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tower::service_fn;
use tracing::{info, warn};
use volhost_proto::csi::controller_client::ControllerClient;
use volhost_proto::csi::group_controller_client::GroupControllerClient;
use volhost_proto::csi::identity_client::IdentityClient;
use volhost_proto::csi::node_client::NodeClient;
use volhost_proto::csi::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest, GetPluginInfoResponse,
    GroupControllerGetCapabilitiesRequest, NodeGetCapabilitiesRequest, ProbeRequest, controller_service_capability,
    group_controller_service_capability, node_service_capability, plugin_capability,
};

pub(crate) use volhost_proto::csi::controller_service_capability::rpc::Type as Can;

use volhost_metrics_listener::driver_calls::{DriverCalls, Observed};

/// Where a driver's manifest has the `spec` of its CSIDriver object, as JSON: `csi-serve`'s has.
const DRIVER_OBJECT: &str = "storage.k8s.io/csidriver";
/// How long a connection to a socket may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The pause between two questions whether the driver is ready.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// The driver answers wrongly at the start.
#[derive(Debug, Error)]
pub(crate) enum DriverError {
    /// A question about the driver itself fails.
    #[error("the driver at {socket} does not answer {call}: {source}")]
    Call {
        /// Its socket.
        socket: PathBuf,
        /// The call.
        call: &'static str,
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// It says so.
    #[error("the driver at {socket} is not ready")]
    NotReady {
        /// Its socket.
        socket: PathBuf,
    },
    /// Its manifest is wrong.
    #[error("the driver at {socket} describes no CSIDriver object in its manifest's {DRIVER_OBJECT}: {source}")]
    Object {
        /// Its socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It has no name.
    #[error("the driver at {socket} has no name")]
    Nameless {
        /// Its socket.
        socket: PathBuf,
    },
}

/// A driver that is ready.
#[derive(Debug)]
pub(crate) struct Driver {
    channel: Observed<Channel>,
    timeout: Duration,
    name: String,
    controller: HashSet<i32>,
    topology: bool,
    node_expands: bool,
    groups: bool,
    object: Option<CSIDriverSpec>,
}

impl Driver {
    /// Waits until the driver at this socket is ready, and asks what it can do. Its later calls are
    /// counted in `calls`.
    ///
    /// # Errors
    /// [`DriverError`].
    pub(crate) async fn connect(
        socket: &Path,
        timeout: Duration,
        calls: Arc<DriverCalls>,
    ) -> Result<Self, DriverError> {
        let channel = channel_to(socket);
        let failed =
            |call| move |source| DriverError::Call { socket: socket.to_owned(), call, source: Box::new(source) };
        let mut identity = IdentityClient::new(channel.clone());
        wait_ready(&mut identity, socket, timeout).await?;
        let request = limited(GetPluginInfoRequest {}, timeout);
        let GetPluginInfoResponse { name, manifest, .. } =
            identity.get_plugin_info(request).await.map_err(failed("GetPluginInfo"))?.into_inner();
        let object = manifest.get(DRIVER_OBJECT).map(|text| serde_json::from_str(text)).transpose();
        let object = object.map_err(|source| DriverError::Object { socket: socket.to_owned(), source })?;
        if name.is_empty() {
            return Err(DriverError::Nameless { socket: socket.to_owned() });
        }
        let request = limited(GetPluginCapabilitiesRequest {}, timeout);
        let plugin = identity.get_plugin_capabilities(request).await.map_err(failed("GetPluginCapabilities"))?;
        let services: HashSet<i32> = plugin
            .into_inner()
            .capabilities
            .into_iter()
            .filter_map(|capability| match capability.r#type {
                Some(plugin_capability::Type::Service(service)) => Some(service.r#type),
                _ => None,
            })
            .collect();
        let has = |service: plugin_capability::service::Type| services.contains(&service.into());
        let controller = if has(plugin_capability::service::Type::ControllerService) {
            let request = limited(ControllerGetCapabilitiesRequest {}, timeout);
            let answer = ControllerClient::new(channel.clone()).controller_get_capabilities(request).await;
            let answer = answer.map_err(failed("ControllerGetCapabilities"))?.into_inner();
            let rpc = |capability: volhost_proto::csi::ControllerServiceCapability| {
                capability.r#type.map(|controller_service_capability::Type::Rpc(rpc)| rpc.r#type)
            };
            answer.capabilities.into_iter().filter_map(rpc).collect()
        } else {
            HashSet::new()
        };
        let topology = has(plugin_capability::service::Type::VolumeAccessibilityConstraints);
        let groups = has(plugin_capability::service::Type::GroupControllerService)
            && takes_groups(channel.clone(), timeout).await.map_err(failed("GroupControllerGetCapabilities"))?;
        let node_expands = node_expands(channel.clone(), timeout).await;
        info!(driver = name, socket = %socket.display(), "the driver is ready");
        let channel = Observed::new(channel, &name, calls);
        Ok(Self { channel, timeout, name, controller, topology, node_expands, groups, object })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its controller service has the capability.
    pub(crate) fn can(&self, what: Can) -> bool {
        self.controller.contains(&what.into())
    }

    /// Whether its volumes can be reached from some nodes alone.
    pub(crate) fn has_topology(&self) -> bool {
        self.topology
    }

    /// Whether it grows volumes on nodes.
    pub(crate) fn node_expands(&self) -> bool {
        self.node_expands
    }

    /// Whether it takes snapshots of several volumes at one moment.
    pub(crate) fn takes_groups(&self) -> bool {
        self.groups
    }

    /// The fields of its CSIDriver object, if it states them: then this program makes the object.
    pub(crate) fn object(&self) -> Option<&CSIDriverSpec> {
        self.object.as_ref()
    }

    /// A client for one call.
    pub(crate) fn client(&self) -> ControllerClient<Observed<Channel>> {
        ControllerClient::new(self.channel.clone())
    }

    /// A client for one call for a group of snapshots.
    pub(crate) fn group_client(&self) -> GroupControllerClient<Observed<Channel>> {
        GroupControllerClient::new(self.channel.clone())
    }

    /// A request that ends after the time that a call may take.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        limited(message, self.timeout)
    }
}

/// Asks the driver at this socket once whether it is ready.
///
/// # Errors
/// [`DriverError::Call`].
pub(crate) async fn probe(socket: &Path, timeout: Duration) -> Result<bool, DriverError> {
    let answer = IdentityClient::new(channel_to(socket)).probe(limited(ProbeRequest {}, timeout)).await;
    let failed = |source| DriverError::Call { socket: socket.to_owned(), call: "Probe", source: Box::new(source) };
    // A driver that does not say is ready.
    Ok(answer.map_err(failed)?.into_inner().ready != Some(false))
}

/// A connection that is made with the first call, and again after it broke.
fn channel_to(socket: &Path) -> Channel {
    let path = socket.to_owned();
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    // The address is never looked up: the connector knows the socket.
    let endpoint = Endpoint::from_static("http://localhost").connect_timeout(CONNECT_TIME);
    endpoint.connect_with_connector_lazy(connector)
}

fn limited<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

async fn wait_ready(
    identity: &mut IdentityClient<Channel>,
    socket: &Path,
    timeout: Duration,
) -> Result<(), DriverError> {
    let mut last = None;
    loop {
        let problem = match identity.probe(limited(ProbeRequest {}, timeout)).await.map(tonic::Response::into_inner) {
            Ok(answer) if answer.ready != Some(false) => return Ok(()),
            Ok(_) => "it is not ready yet".to_owned(),
            Err(source) if matches!(source.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled) => {
                source.to_string()
            }
            Err(source) => {
                return Err(DriverError::Call { socket: socket.to_owned(), call: "Probe", source: Box::new(source) });
            }
        };
        if last.as_ref() != Some(&problem) {
            warn!(socket = %socket.display(), "waiting for the driver: {problem}");
            last = Some(problem);
        }
        tokio::time::sleep(PROBE_PAUSE).await;
    }
}

async fn takes_groups(channel: Channel, timeout: Duration) -> Result<bool, Status> {
    let request = limited(GroupControllerGetCapabilitiesRequest {}, timeout);
    let answer = GroupControllerClient::new(channel).group_controller_get_capabilities(request).await?;
    let takes: i32 = group_controller_service_capability::rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into();
    Ok(answer.into_inner().capabilities.into_iter().any(|capability| {
        matches!(capability.r#type, Some(group_controller_service_capability::Type::Rpc(rpc)) if rpc.r#type == takes)
    }))
}

/// A controller's socket need not have the node service.
async fn node_expands(channel: Channel, timeout: Duration) -> bool {
    let request = limited(NodeGetCapabilitiesRequest {}, timeout);
    let Ok(answer) = NodeClient::new(channel).node_get_capabilities(request).await else { return false };
    let expand: i32 = node_service_capability::rpc::Type::ExpandVolume.into();
    answer.into_inner().capabilities.into_iter().any(
        |capability| matches!(capability.r#type, Some(node_service_capability::Type::Rpc(rpc)) if rpc.r#type == expand),
    )
}

/// What is known of an operation after its call has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// It has not been done and will not be.
    Final,
    /// There is no room where it was asked for.
    Exhausted,
    /// The driver may have done it, or may do it still.
    Unknown,
}

/// Reads an answer as the CSI specification means it.
pub(crate) fn outcome(status: &Status) -> CallOutcome {
    // A status that came from the driver has no source: this one is of a connection that broke.
    if std::error::Error::source(status).is_some() {
        return CallOutcome::Unknown;
    }
    match status.code() {
        Code::ResourceExhausted => CallOutcome::Exhausted,
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => CallOutcome::Unknown,
        _ => CallOutcome::Final,
    }
}

/// What users read about a failed call.
pub(crate) fn said(call: &str, status: &Status) -> String {
    format!("rpc error: {call}: code = {:?} desc = {}", status.code(), status.message())
}
