//! Volumes that are devices: staged and published once for the node, at places of the volume's own. The host shows the device to pods.

use prost::Message as _;
use volhost_plugin_sdk::driver_mounts::{DevicePlace, Leaf, prepare_device};
use volhost_plugin_sdk::grpc::Request;
use volhost_plugin_sdk::prelude::*;

use crate::call::{Abilities, ask, meaning, node, send};
use crate::messages::{Empty, LeavePathRequest, NodePublishVolumeRequest};
use crate::source::{self, Source};
use crate::{request, stage};

/// Where the driver stages.
const STAGING: &str = "staging";
/// Where it makes the device appear.
const DEVICE: &str = "device";
/// The number of the map of secrets in `NodePublishVolumeRequest`.
const PUBLISH_SECRETS: u32 = 7;

/// Stages and publishes; the device.
pub(crate) fn set_up(volume: &Volume, attached: Option<&Attachment>) -> Result<BlockDevice> {
    const CALL: &str = "NodePublishVolume";
    let source = Source::read(volume)?;
    let driver = source.driver.as_str();
    let abilities = Abilities::of_node(driver)?;
    let staging = prepare_device(STAGING, Leaf::Folder)?.path();
    if abilities.has(node::STAGE_UNSTAGE_VOLUME) {
        stage::call(&source, &abilities, volume, attached, staging.clone())?;
    }
    let place = published_at()?;
    let message = NodePublishVolumeRequest {
        volume_id: source.handle.clone().unwrap_or_default(),
        publish_context: request::staging_context(attached)?,
        staging_target_path: staging,
        target_path: place.path(),
        volume_capability: Some(request::capability(&source, volume, &abilities)),
        readonly: volume.read_only(),
        volume_context: source.attributes.clone(),
    };
    let encoded = Request::new(&message.encode_to_vec());
    // From here on it is staged: whatever fails, something has to be taken back.
    request::add_secret(&encoded, PUBLISH_SECRETS, volume, None, "nodePublishSecretRef").map_err(kept)?;
    send::<Empty>(driver, "Node/NodePublishVolume", &encoded)
        .map_err(|failure| kept(meaning(driver, CALL, &failure)))?;
    place.device().map_err(kept)?.ok_or_else(|| {
        Error::uncertain(format!("{driver}: {CALL} was answered with ok, but no device stands at {}", place.path()))
    })
}

/// The device's place; what stands there is left alone.
fn published_at() -> Result<DevicePlace> {
    prepare_device(DEVICE, Leaf::Absent)
}

fn kept(error: Error) -> Error {
    Error::uncertain(error.message().to_owned())
}

/// Takes both back.
pub(crate) fn tear_down(volume_name: &str) -> Result<()> {
    const CALL: &str = "NodeUnpublishVolume";
    let (driver, id) = source::split(volume_name)?;
    let place = published_at()?;
    let message = LeavePathRequest { volume_id: id.to_owned(), path: place.path() };
    ask::<_, Empty>(driver, "Node/NodeUnpublishVolume", &message).map_err(|failure| meaning(driver, CALL, &failure))?;
    place.clear()?;
    let staging = prepare_device(STAGING, Leaf::Folder)?;
    if Abilities::of_node(driver)?.has(node::STAGE_UNSTAGE_VOLUME) {
        stage::leave(driver, id, staging.path())?;
    }
    staging.clear()
}

/// Where the device and its staging folder are.
pub(crate) fn paths() -> Result<(String, String)> {
    Ok((published_at()?.path(), prepare_device(STAGING, Leaf::Folder)?.path()))
}
