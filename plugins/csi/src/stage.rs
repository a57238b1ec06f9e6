//! Staging: `NodeStageVolume`, once for the node, at the staging target. A driver need not mount
//! anything there.

use prost::Message as _;
use volhost_plugin_sdk::driver_mounts::{self, Leaf};
use volhost_plugin_sdk::grpc::Request;
use volhost_plugin_sdk::prelude::*;

use crate::call::{Abilities, ask, meaning, node, send};
use crate::messages::{Empty, LeavePathRequest, NodeStageVolumeRequest};
use crate::note::Note;
use crate::request;
use crate::source::{self, Source};

/// The number of the map of secrets in `NodeStageVolumeRequest`.
const STAGE_SECRETS: u32 = 5;

/// Stages the volume in the folder at the staging target. The folder is made even for a driver that
/// does not stage: it represents the volume.
pub(crate) fn stage(volume: &Volume, attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
    let source = Source::read(volume)?;
    let abilities = Abilities::of_node(&source.driver)?;
    // First: once the folder is there, the volume counts as staged.
    if let Some(handle) = &source.handle {
        Note::of_node(&source, handle, volume).keep(target)?;
    }
    let place = driver_mounts::prepare(target, Leaf::Folder)?;
    place.may_be_folder();
    if !abilities.has(node::STAGE_UNSTAGE_VOLUME) {
        return Ok(());
    }
    call(&source, &abilities, volume, attached, place.path())
}

/// `NodeStageVolume` at this path.
pub(crate) fn call(
    source: &Source,
    abilities: &Abilities,
    volume: &Volume,
    attached: Option<&Attachment>,
    path: String,
) -> Result<()> {
    const CALL: &str = "NodeStageVolume";
    let message = NodeStageVolumeRequest {
        volume_id: source.handle.clone().unwrap_or_default(),
        publish_context: request::staging_context(attached)?,
        staging_target_path: path,
        volume_capability: Some(request::capability(source, volume, abilities)),
        volume_context: source.attributes.clone(),
    };
    let encoded = Request::new(&message.encode_to_vec());
    request::add_secret(&encoded, STAGE_SECRETS, volume, None, "nodeStageSecretRef")?;
    send::<Empty>(&source.driver, "Node/NodeStageVolume", &encoded)
        .map_err(|failure| meaning(&source.driver, CALL, &failure))?;
    Ok(())
}

/// Unstages the volume, and removes the driver's leftovers at the staging target.
pub(crate) fn unstage(volume_name: &str, target: &MountTarget) -> Result<()> {
    let (driver, id) = source::split(volume_name)?;
    if Abilities::of_node(driver)?.has(node::STAGE_UNSTAGE_VOLUME) {
        leave(driver, id, path_of(target)?)?;
    }
    clean(driver, target)
}

/// `NodeUnstageVolume` of this path.
pub(crate) fn leave(driver: &str, id: &str, path: String) -> Result<()> {
    const CALL: &str = "NodeUnstageVolume";
    let message = LeavePathRequest { volume_id: id.to_owned(), path };
    ask::<_, Empty>(driver, "Node/NodeUnstageVolume", &message).map_err(|failure| meaning(driver, CALL, &failure))?;
    Ok(())
}

/// The target's path, with its content left alone.
pub(crate) fn path_of(target: &MountTarget) -> Result<String> {
    let leaf = match target.state()? {
        TargetState::Plain => Leaf::Folder,
        TargetState::Absent | TargetState::Mounted => Leaf::Absent,
    };
    Ok(driver_mounts::prepare(target, leaf)?.path())
}

/// Removes a driver's leftovers: a mount it forgot, the empty folder.
pub(crate) fn clean(driver: &str, target: &MountTarget) -> Result<()> {
    if target.is_mounted()? {
        log::warn(format_args!("{driver} has left a mount at {}; the host unmounts it", target.spec_name()));
    }
    target.detach()
}
