//! Attaching: `ControllerPublishVolume`, where no controller attaches for the node.

use prost::Message as _;
use volhost_plugin_sdk::grpc::{Failure, Request, node_id, node_may_have_changed};
use volhost_plugin_sdk::prelude::*;

use crate::call::{Abilities, RESOURCE_EXHAUSTED, controller, meaning, send};
use crate::driver_object::DriverObject;
use crate::messages::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest, Empty,
};
use crate::request::{self, NOTHING};
use crate::source::{self, Source};

/// The number of the map of secrets in `ControllerPublishVolumeRequest`.
const PUBLISH_SECRETS: u32 = 5;
/// The number of the map of secrets in `ControllerUnpublishVolumeRequest`.
const UNPUBLISH_SECRETS: u32 = 3;

/// Attaches the volume, and returns the driver's publish context as a map of texts in JSON.
pub(crate) fn attach(volume: &Volume) -> Result<String> {
    const CALL: &str = "ControllerPublishVolume";
    let source = Source::read(volume)?;
    let driver = source.driver.as_str();
    let Some(handle) = source.handle.clone() else { return Ok(NOTHING.to_owned()) };
    if !DriverObject::of(driver).map_err(request::unbegun)?.attach_required {
        return Ok(NOTHING.to_owned());
    }
    let abilities = Abilities::of_controller(driver)?;
    if !abilities.has(controller::PUBLISH_UNPUBLISH_VOLUME) {
        return Ok(NOTHING.to_owned());
    }
    let multi_writer = abilities.has(controller::SINGLE_NODE_MULTI_WRITER);
    let message = ControllerPublishVolumeRequest {
        volume_id: handle,
        node_id: this_node(driver)?,
        volume_capability: Some(request::capability_of(&source, volume, multi_writer, None)),
        readonly: volume.read_only() && abilities.has(controller::PUBLISH_READONLY),
        volume_context: source.attributes.clone(),
    };
    let encoded = Request::new(&message.encode_to_vec());
    request::add_secret(&encoded, PUBLISH_SECRETS, volume, None, "controllerPublishSecretRef")?;
    let answer: ControllerPublishVolumeResponse = send(driver, "Controller/ControllerPublishVolume", &encoded)
        .map_err(|failure| {
            if matches!(failure, Failure::Status { code: RESOURCE_EXHAUSTED, .. }) {
                // The driver's limit is lower than it has reported.
                node_may_have_changed(driver);
            }
            meaning(driver, CALL, &failure)
        })?;
    request::attached_as(&answer.publish_context)
}

/// Detaches the volume, with the secret that it was attached with. The driver succeeds for a volume
/// that is not attached.
pub(crate) fn detach(volume_name: &str) -> Result<()> {
    const CALL: &str = "ControllerUnpublishVolume";
    let (driver, id) = source::split(volume_name)?;
    if !Abilities::of_controller(driver)?.has(controller::PUBLISH_UNPUBLISH_VOLUME) {
        return Ok(());
    }
    let message = ControllerUnpublishVolumeRequest { volume_id: id.to_owned(), node_id: this_node(driver)? };
    let encoded = Request::new(&message.encode_to_vec());
    request::add_recorded_secret(&encoded, UNPUBLISH_SECRETS)?;
    send::<Empty>(driver, "Controller/ControllerUnpublishVolume", &encoded)
        .map_err(|failure| meaning(driver, CALL, &failure))?;
    Ok(())
}

fn this_node(driver: &str) -> Result<String> {
    node_id(driver).ok_or_else(|| Error::not_begun(format!("{driver} is not registered on this node")))
}
