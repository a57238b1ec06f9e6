//! One registration socket: asks for the driver's identity, checks whether it may register, and
//! reports the result back.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tracing::{info, warn};
use volhost_model::view::{DriverKind, DriverState};

use super::call::RpcError;
use super::connection::DriverConnection;
use super::node_info::{NodeInfo, NodeInfoError};
use super::registry::{CsiDrivers, RegisteredDriver};
use super::registry::{NameConflict, TopologyConflict};
use super::versions::{self, VersionError};
use volhost_driver_table::DriverRow;
use volhost_proto::csi::identity_client::IdentityClient;
use volhost_proto::csi::node_client::NodeClient;
use volhost_proto::csi::{GetPluginInfoRequest, NodeGetCapabilitiesRequest, node_service_capability};
use volhost_proto::registration::registration_client::RegistrationClient;
use volhost_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};

/// How long a registrar may take to identify itself.
const INFO_TIME: Duration = Duration::from_secs(10);
/// How long it may take to accept the result.
const NOTIFY_TIME: Duration = Duration::from_secs(5);
/// The type of plugin that may register.
const CSI_PLUGIN: &str = "CSIPlugin";
/// The longest name of a driver, in bytes: CSI's limit.
const NAME_BYTES: usize = 63;

/// Why a socket's driver was not registered.
#[derive(Debug, Error)]
pub(super) enum RegistrationError {
    /// The registrar does not identify itself.
    #[error("{} does not answer GetInfo: {source}", socket.display())]
    Info {
        /// The registration socket.
        socket: PathBuf,
        /// Why.
        source: RpcError,
    },
    /// The driver may not register.
    #[error("the driver {name:?} cannot be registered: {source}")]
    Refused {
        /// The name it gives.
        name: String,
        /// Why.
        source: RegistrationRefusal,
    },
    /// The driver itself gives no usable answer.
    #[error("the driver {name} at {} does not answer {method}: {source}", endpoint.display())]
    Driver {
        /// Its name.
        name: String,
        /// Its socket.
        endpoint: PathBuf,
        /// The call.
        method: &'static str,
        /// Why.
        source: NodeInfoError,
    },
}

/// Why a driver may not register.
#[derive(Debug, Error)]
pub(super) enum RegistrationRefusal {
    /// Another type of kubelet plugin.
    #[error("it is a {0:?}, and only {CSI_PLUGIN} can register here")]
    Type(String),
    /// CSI does not allow the name.
    #[error(
        "a driver's name has 1 to {NAME_BYTES} letters, digits, `-`, `_` and `.`, and none of these three at its ends"
    )]
    Name,
    /// No version of the interface can be agreed on.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// Another driver has the name.
    #[error(transparent)]
    NameTaken(#[from] NameConflict),
    /// The endpoint cannot be connected.
    #[error("its endpoint {} is no socket on this node; see the registrar's --kubelet-registration-path", .0.display())]
    Endpoint(PathBuf),
    /// Its topology contradicts the node's labels or another driver's topology.
    #[error(transparent)]
    Topology(#[from] TopologyConflict),
}

/// Registers the driver behind a socket, and reports the result to it.
///
/// # Errors
/// [`RegistrationError`]; a registered driver of that name stays registered.
pub(super) async fn register(drivers: &CsiDrivers, socket: &Path) -> Result<String, RegistrationError> {
    let registrar = DriverConnection::new(socket);
    let mut client = RegistrationClient::new(registrar.channel());
    let info = registrar
        .within(INFO_TIME, "/pluginregistration.Registration/GetInfo", client.get_info(InfoRequest {}))
        .await
        .map_err(|source| RegistrationError::Info { socket: socket.to_owned(), source })?;
    let outcome = register_driver(drivers, socket, info).await;
    let status = RegistrationStatus {
        plugin_registered: outcome.is_ok(),
        error: outcome.as_ref().err().map(ToString::to_string).unwrap_or_default(),
    };
    let notified = client.notify_registration_status(status);
    let method = "/pluginregistration.Registration/NotifyRegistrationStatus";
    if let Err(error) = registrar.within(NOTIFY_TIME, method, notified).await {
        warn!(socket = %socket.display(), %error, "the registration's result could not be reported to the driver");
    }
    outcome
}

async fn register_driver(drivers: &CsiDrivers, socket: &Path, info: PluginInfo) -> Result<String, RegistrationError> {
    let PluginInfo { r#type, name, endpoint, supported_versions } = info;
    let refused = |source: RegistrationRefusal| RegistrationError::Refused { name: name.clone(), source };
    if r#type != CSI_PLUGIN {
        return Err(refused(RegistrationRefusal::Type(r#type)));
    }
    check_name(&name).map_err(refused)?;
    let version = versions::highest(&supported_versions).map_err(|error| refused(error.into()))?;
    drivers.check_name_is_free(&name, version, socket).map_err(|conflict| refused(conflict.into()))?;
    let endpoint = if endpoint.is_empty() { socket.to_owned() } else { PathBuf::from(&endpoint) };
    let is_socket = std::fs::metadata(&endpoint).is_ok_and(|found| found.file_type().is_socket());
    if !endpoint.is_absolute() || !is_socket {
        return Err(refused(RegistrationRefusal::Endpoint(endpoint)));
    }
    let connection = DriverConnection::new(&endpoint).with_observed(drivers.observed(&name));
    let failed = |method, source| {
        let (name, endpoint) = (name.clone(), endpoint.clone());
        RegistrationError::Driver { name, endpoint, method, source }
    };
    let node_info = NodeInfo::ask(&connection).await.map_err(|error| failed("NodeGetInfo", error))?;
    drivers.check_topology(&name, &node_info.topology).map_err(|conflict| refused(conflict.into()))?;
    let mut node = NodeClient::new(connection.channel());
    let asked = node.node_get_capabilities(NodeGetCapabilitiesRequest {});
    let capabilities = connection
        .within(INFO_TIME, "/csi.v1.Node/NodeGetCapabilities", asked)
        .await
        .map_err(|error| failed("NodeGetCapabilities", error.into()))?;
    let mut identity = IdentityClient::new(connection.channel());
    // Only shown to users: a driver may leave it out.
    let asked = identity.get_plugin_info(GetPluginInfoRequest {});
    let vendor = connection.within(INFO_TIME, "/csi.v1.Identity/GetPluginInfo", asked).await;
    let row = DriverRow {
        version: vendor.map(|vendor| vendor.vendor_version).unwrap_or_default(),
        state: DriverState::Ready,
        capabilities: capabilities.capabilities.iter().filter_map(capability).collect(),
        volume_limit: node_info.volume_limit,
        topology: node_info.topology.clone(),
        node_id: node_info.node_id.clone(),
        ..DriverRow::found(DriverKind::Csi, &name, endpoint.display().to_string())
    };
    info!(
        driver = name,
        endpoint = %endpoint.display(),
        interface = %version,
        node_id = node_info.node_id,
        volume_limit = node_info.volume_limit,
        topology = ?node_info.topology,
        "CSI driver registered"
    );
    let socket = socket.to_owned();
    let (refresh_now, probe_now) = (Arc::default(), Arc::default());
    let registered =
        RegisteredDriver { name: name.clone(), socket, version, node_info, connection, refresh_now, probe_now };
    drivers.register(registered, row);
    Ok(name)
}

/// The driver's row while it cannot be registered.
pub(super) fn failed_row(socket: &Path, error: &RegistrationError) -> DriverRow {
    let name = match error {
        RegistrationError::Driver { name, .. } => name.clone(),
        RegistrationError::Refused { name, .. } if check_name(name).is_ok() => name.clone(),
        _ => socket.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
    };
    DriverRow {
        state: DriverState::Failed,
        error: error.to_string(),
        ..DriverRow::found(DriverKind::Csi, name, socket.display().to_string())
    }
}

fn check_name(name: &str) -> Result<(), RegistrationRefusal> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if name.len() <= NAME_BYTES && name.chars().all(inner) && outer(name.chars().next()) && outer(name.chars().last()) {
        return Ok(());
    }
    Err(RegistrationRefusal::Name)
}

fn capability(capability: &volhost_proto::csi::NodeServiceCapability) -> Option<String> {
    match capability.r#type.as_ref()? {
        node_service_capability::Type::Rpc(rpc) => Some(rpc.r#type().as_str_name().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_name_follows_csi() {
        for good in ["hostpath.csi.k8s.io", "a", "A-1_b.c"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a.", "a/b", "a b", "ä", &"a".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
