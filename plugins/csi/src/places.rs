//! The topology of a new volume, for drivers whose volumes cannot be reached from everywhere.

use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::provisioning_calls::{self, Place};

use crate::call::ask;
use crate::controller_messages::{GetPluginCapabilitiesResponse, NodeGetInfoResponse, Topology, TopologyRequirement};
use crate::messages::Empty;

/// `VOLUME_ACCESSIBILITY_CONSTRAINTS`, by CSI's number.
const ACCESSIBILITY_CONSTRAINTS: i32 = 2;

/// The requirement that this node reaches the volume; none for a driver without topology.
///
/// # Errors
/// `not-begun` while the driver does not answer; `precondition` when the StorageClass does not
/// allow this node's topology.
pub(crate) fn requirement(driver: &str) -> Result<Option<TopologyRequirement>> {
    let unbegun = |call: &str, why: &dyn std::fmt::Display| Error::not_begun(format!("{driver}: {call}: {why}"));
    let abilities: GetPluginCapabilitiesResponse = ask(driver, "Identity/GetPluginCapabilities", &Empty {})
        .map_err(|failure| unbegun("GetPluginCapabilities", &failure))?;
    let mut services = abilities.capabilities.iter().filter_map(|one| one.service.as_ref());
    if !services.any(|service| service.kind == ACCESSIBILITY_CONSTRAINTS) {
        return Ok(None);
    }
    let node: NodeGetInfoResponse =
        ask(driver, "Node/NodeGetInfo", &Empty {}).map_err(|failure| unbegun("NodeGetInfo", &failure))?;
    let Some(here) = node.accessible_topology.filter(|here| !here.segments.is_empty()) else { return Ok(None) };
    let allowed = provisioning_calls::allowed_places();
    if !allowed.is_empty() && !allowed.iter().any(|place| is_in(&here, place)) {
        let labels: Vec<String> = here.segments.iter().map(|(key, value)| format!("{key}={value}")).collect();
        return Err(Error::precondition(format!(
            "allowedTopologies of the StorageClass does not contain this node's topology for {driver}: {}",
            labels.join(", ")
        )));
    }
    Ok(Some(TopologyRequirement { requisite: vec![here.clone()], preferred: vec![here] }))
}

fn is_in(here: &Topology, place: &Place) -> bool {
    place.iter().all(|(key, values)| here.segments.get(key).is_some_and(|value| values.contains(value)))
}
