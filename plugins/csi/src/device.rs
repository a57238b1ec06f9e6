//! Volumes that are devices: staged once for the node, and published for each pod, at device
//! places. The host maps the device for the pod.

use prost::Message as _;
use volhost_plugin_sdk::driver_mounts::{self, DevicePlace, Leaf, prepare_device};
use volhost_plugin_sdk::grpc::Request;
use volhost_plugin_sdk::prelude::*;

use crate::call::{Abilities, ask, meaning, node, send};
use crate::driver_object::DriverObject;
use crate::messages::{Empty, LeavePathRequest, NodePublishVolumeRequest};
use crate::source::{self, Source};
use crate::{request, stage};

/// The device place at which the driver stages.
const STAGING: &str = "staging";
/// The prefix of the device places for pods; the pod's uid follows.
const POD: &str = "pod-";
/// The number of the map of secrets in `NodePublishVolumeRequest`.
const PUBLISH_SECRETS: u32 = 7;

/// Stages the volume. The device appears when it is published for a pod.
pub(crate) fn stage(volume: &Volume, attached: Option<&Attachment>) -> Result<()> {
    let source = Source::read(volume)?;
    let abilities = Abilities::of_node(&source.driver)?;
    let staging = prepare_device(STAGING, Leaf::Folder)?.path();
    if !abilities.has(node::STAGE_UNSTAGE_VOLUME) {
        return Ok(());
    }
    stage::call(&source, &abilities, volume, attached, staging)
}

/// Publishes the volume for the pod, and returns the device that the driver has made appear.
pub(crate) fn publish(volume: &Volume, pod: &Pod) -> Result<BlockDevice> {
    const CALL: &str = "NodePublishVolume";
    let source = Source::read(volume)?;
    let driver = source.driver.as_str();
    let object = DriverObject::of(driver).map_err(request::unbegun)?;
    object.check_lifecycle(driver, volume)?;
    let abilities = Abilities::of_node(driver)?;
    let place = published_at(&pod.uid())?;
    let mut context = source.attributes.clone();
    request::pod_context(&object, volume, pod, &mut context);
    let message = NodePublishVolumeRequest {
        volume_id: source.id(volume, pod),
        publish_context: request::publish_context(
            driver_mounts::attached_as().as_deref(),
            driver_mounts::attachment_metadata(),
        )?,
        // For a device the kubelet always sets it, whether or not the driver stages.
        staging_target_path: prepare_device(STAGING, Leaf::Folder)?.path(),
        target_path: place.path(),
        volume_capability: Some(request::capability(&source, volume, &abilities)),
        readonly: volume.read_only(),
        volume_context: context,
    };
    let encoded = Request::new(&message.encode_to_vec());
    request::add_secret(&encoded, PUBLISH_SECRETS, volume, Some(pod), "nodePublishSecretRef")?;
    send::<Empty>(driver, "Node/NodePublishVolume", &encoded).map_err(|failure| meaning(driver, CALL, &failure))?;
    place.device().map_err(kept)?.ok_or_else(|| {
        Error::uncertain(format!("{driver}: {CALL} was answered with ok, but there is no device at {}", place.path()))
    })
}

/// The place of a pod's device; its content is left alone.
fn published_at(pod_uid: &str) -> Result<DevicePlace> {
    prepare_device(&format!("{POD}{pod_uid}"), Leaf::Absent)
}

fn kept(error: Error) -> Error {
    Error::uncertain(error.message().to_owned())
}

/// Unpublishes the volume from the pod.
pub(crate) fn unpublish(volume_name: &str, pod_uid: &str) -> Result<()> {
    // A volume of the pod's own, which is never a device; the host asks when it does not know.
    if source::split(volume_name).is_err() {
        return Ok(());
    }
    leave(volume_name, &published_at(pod_uid)?)
}

fn leave(volume_name: &str, place: &DevicePlace) -> Result<()> {
    const CALL: &str = "NodeUnpublishVolume";
    let (driver, id) = source::split(volume_name)?;
    let message = LeavePathRequest { volume_id: id.to_owned(), path: place.path() };
    ask::<_, Empty>(driver, "Node/NodeUnpublishVolume", &message).map_err(|failure| meaning(driver, CALL, &failure))?;
    place.clear()
}

/// Unpublishes the volume from pods that a crashed host has forgotten, and unstages it.
pub(crate) fn unstage(volume_name: &str) -> Result<()> {
    for name in driver_mounts::device_places()?.iter().filter(|name| name.starts_with(POD)) {
        leave(volume_name, &prepare_device(name, Leaf::Absent)?)?;
    }
    let (driver, id) = source::split(volume_name)?;
    let staging = prepare_device(STAGING, Leaf::Folder)?;
    if Abilities::of_node(driver)?.has(node::STAGE_UNSTAGE_VOLUME) {
        stage::leave(driver, id, staging.path())?;
    }
    staging.clear()
}

/// The paths of a pod's device and of the staging folder.
pub(crate) fn paths() -> Result<(String, String)> {
    let names = driver_mounts::device_places()?;
    let Some(published) = names.iter().find(|name| name.starts_with(POD)) else {
        return Err(Error::not_begun("no pod uses the device now"));
    };
    Ok((prepare_device(published, Leaf::Absent)?.path(), prepare_device(STAGING, Leaf::Folder)?.path()))
}
