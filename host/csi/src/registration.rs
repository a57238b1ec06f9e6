//! One registration socket: who it is, whether it may register, what it calls this node, and what it is told.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tracing::{info, warn};
use volhost_model::view::{DriverKind, DriverState};

use super::about_node::{AboutNode, answer};
use super::connection::Connection;
use super::registry::{CsiDrivers, Registered};
use super::versions;
use volhost_driver_table::DriverRow;
use volhost_proto::csi::identity_client::IdentityClient;
use volhost_proto::csi::node_client::NodeClient;
use volhost_proto::csi::{GetPluginInfoRequest, NodeGetCapabilitiesRequest, node_service_capability};
use volhost_proto::registration::registration_client::RegistrationClient;
use volhost_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};

/// How long a registrar may take to say who it is.
const INFO_TIME: Duration = Duration::from_secs(10);
/// How long it may take to hear what came of it.
const NOTIFY_TIME: Duration = Duration::from_secs(5);
/// The type of plugin that is meant.
const CSI_PLUGIN: &str = "CSIPlugin";
/// The longest name of a driver, in bytes, as CSI has it.
const NAME_BYTES: usize = 63;

/// Why a socket's driver was not taken into service.
#[derive(Debug, Error)]
pub(super) enum RegistrationError {
    /// It does not say who it is.
    #[error("{} does not answer GetInfo: {why}", socket.display())]
    Info {
        /// Which.
        socket: PathBuf,
        /// Why.
        why: String,
    },
    /// What it says of itself cannot be used.
    #[error("the driver {name:?} cannot be registered: {why}")]
    Refused {
        /// Its name, as it says.
        name: String,
        /// Why.
        why: String,
    },
    /// The driver itself does not answer.
    #[error("the driver {name} at {} does not answer {method}: {why}", endpoint.display())]
    Driver {
        /// Its name.
        name: String,
        /// Its socket.
        endpoint: PathBuf,
        /// What was asked.
        method: &'static str,
        /// Why.
        why: String,
    },
}

/// Registers the driver behind a socket, and tells it what came of it.
///
/// # Errors
/// [`RegistrationError`]; a driver of that name that was in service stays.
pub(super) async fn register(drivers: &CsiDrivers, socket: &Path) -> Result<String, RegistrationError> {
    let registrar = Connection::new(socket);
    let mut client = RegistrationClient::new(registrar.channel());
    let info = answer(INFO_TIME, client.get_info(InfoRequest {}))
        .await
        .map_err(|why| RegistrationError::Info { socket: socket.to_owned(), why })?;
    let outcome = take_in(drivers, socket, info).await;
    let status = RegistrationStatus {
        plugin_registered: outcome.is_ok(),
        error: outcome.as_ref().err().map(ToString::to_string).unwrap_or_default(),
    };
    if let Err(why) = answer(NOTIFY_TIME, client.notify_registration_status(status)).await {
        warn!(socket = %socket.display(), why, "the driver could not be told what came of its registration");
    }
    outcome
}

async fn take_in(drivers: &CsiDrivers, socket: &Path, info: PluginInfo) -> Result<String, RegistrationError> {
    let PluginInfo { r#type, name, endpoint, supported_versions } = info;
    let refused = |why: String| RegistrationError::Refused { name: name.clone(), why };
    if r#type != CSI_PLUGIN {
        return Err(refused(format!("it is a {type:?}, and only {CSI_PLUGIN} can register here")));
    }
    check_name(&name).map_err(refused)?;
    let version = versions::highest(&supported_versions).map_err(refused)?;
    if let Some(why) = drivers.refused(&name, version, socket) {
        return Err(refused(why));
    }
    let endpoint = if endpoint.is_empty() { socket.to_owned() } else { PathBuf::from(&endpoint) };
    let is_socket = std::fs::metadata(&endpoint).is_ok_and(|found| found.file_type().is_socket());
    if !endpoint.is_absolute() || !is_socket {
        return Err(refused(format!(
            "its endpoint {} is no socket on this node; see the registrar's --kubelet-registration-path",
            endpoint.display()
        )));
    }
    let connection = Connection::new(&endpoint);
    let failed =
        |method, why| RegistrationError::Driver { name: name.clone(), endpoint: endpoint.clone(), method, why };
    let about_node = AboutNode::ask(&connection).await.map_err(|why| failed("NodeGetInfo", why))?;
    if let Some(why) = drivers.elsewhere(&name, &about_node.topology) {
        return Err(refused(why));
    }
    let mut node = NodeClient::new(connection.channel());
    let capabilities = answer(INFO_TIME, node.node_get_capabilities(NodeGetCapabilitiesRequest {}))
        .await
        .map_err(|why| failed("NodeGetCapabilities", why))?;
    let mut identity = IdentityClient::new(connection.channel());
    // For people alone: a driver that does not say is as good.
    let vendor = answer(INFO_TIME, identity.get_plugin_info(GetPluginInfoRequest {})).await;
    let row = DriverRow {
        version: vendor.map(|vendor| vendor.vendor_version).unwrap_or_default(),
        state: DriverState::Ready,
        capabilities: capabilities.capabilities.iter().filter_map(capability).collect(),
        volume_limit: about_node.volume_limit,
        topology: about_node.topology.clone(),
        ..DriverRow::found(DriverKind::Csi, &name, endpoint.display().to_string())
    };
    info!(
        driver = name,
        endpoint = %endpoint.display(),
        interface = %version,
        node_id = about_node.node_id,
        volume_limit = about_node.volume_limit,
        topology = ?about_node.topology,
        "CSI driver registered"
    );
    let socket = socket.to_owned();
    let (asked, suspect) = (Arc::default(), Arc::default());
    drivers.register(Registered { name: name.clone(), socket, version, about_node, connection, asked, suspect }, row);
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

fn check_name(name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if name.len() <= NAME_BYTES && name.chars().all(inner) && outer(name.chars().next()) && outer(name.chars().last()) {
        return Ok(());
    }
    Err(format!(
        "a driver's name has 1 to {NAME_BYTES} letters, digits, `-`, `_` and `.`, and none of these three at its ends"
    ))
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
    fn a_drivers_name_is_as_csi_has_it() {
        for good in ["hostpath.csi.k8s.io", "a", "A-1_b.c"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a.", "a/b", "a b", "ä", &"a".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
