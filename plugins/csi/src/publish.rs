//! Publishing: `NodePublishVolume`, for each pod, at the pod's target.

use prost::Message as _;
use volhost_plugin_sdk::driver_mounts::{self, Leaf};
use volhost_plugin_sdk::grpc::Request;
use volhost_plugin_sdk::prelude::*;

use crate::call::{Abilities, ask, meaning, node, send};
use crate::driver_object::DriverObject;
use crate::messages::{Empty, LeavePathRequest, NodePublishVolumeRequest};
use crate::note::Note;
use crate::request;
use crate::source::Source;
use crate::stage::{clean, path_of};

/// The numbers of the maps in `NodePublishVolumeRequest` that the host fills in.
const PUBLISH_SECRETS: u32 = 7;
const PUBLISH_CONTEXT: u32 = 8;

/// Publishes the volume to the pod. One that the host knows to be published is published again only
/// if its driver requires that. A mount that the host does not know may be unfinished: the driver is
/// asked again, which CSI allows.
pub(crate) fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
    const CALL: &str = "NodePublishVolume";
    let source = Source::read(volume)?;
    let object = DriverObject::of(&source.driver).map_err(request::unbegun)?;
    object.check_lifecycle(&source.driver, volume)?;
    let is_published = driver_mounts::is_refresh() && target.is_mounted()?;
    if is_published && !object.requires_republish {
        return give_to_group(&source, &object, volume, pod, target);
    }
    let abilities = Abilities::of_node(&source.driver)?;
    let driver_groups = abilities.has(node::VOLUME_MOUNT_GROUP);
    let staged = source.handle.is_some() && abilities.has(node::STAGE_UNSTAGE_VOLUME);
    let leaf = if target.state()? == TargetState::Plain { Leaf::Folder } else { Leaf::Absent };
    let place = driver_mounts::prepare(target, leaf)?;
    let mut context = source.attributes.clone();
    request::pod_context(&object, volume, pod, &mut context);
    let message = NodePublishVolumeRequest {
        volume_id: source.id(volume, pod),
        publish_context: request::publish_context(
            driver_mounts::attached_as().as_deref(),
            driver_mounts::attachment_metadata(),
        )?,
        staging_target_path: driver_mounts::node_path(target)?.filter(|_| staged).unwrap_or_default(),
        target_path: place.path(),
        volume_capability: Some(request::capability(&source, volume, &abilities)),
        readonly: volume.read_only(),
        volume_context: context,
    };
    let encoded = Request::new(&message.encode_to_vec());
    request::add_secret(&encoded, PUBLISH_SECRETS, volume, Some(pod), "nodePublishSecretRef")?;
    request::add_tokens(&encoded, PUBLISH_SECRETS, PUBLISH_CONTEXT, &object, pod)?;

    let note = Note::of_pod(&source, &message.volume_id, volume);
    if !is_published || Note::of(target)?.as_ref() != Some(&note) {
        note.keep(target)?;
    }
    if let Err(failure) = send::<Empty>(&source.driver, "Node/NodePublishVolume", &encoded) {
        let error = meaning(&source.driver, CALL, &failure);
        return Err(match error {
            // The pod's mount stays as it is, even if publishing it again fails.
            error if is_published => Error::not_begun(error.message().to_owned()),
            Error::Uncertain(_) => error,
            error => forget(target, error),
        });
    }
    place.take_over().map_err(|error| {
        Error::uncertain(format!("{}: {CALL} was answered with ok, but {}", source.driver, error.message()))
    })?;
    if driver_groups {
        return Ok(());
    }
    give_to_group(&source, &object, volume, pod, target)
}

/// Cleans up when nothing was published: removes the empty folder that a driver may have made, and
/// the note. The volume is uncertain when that fails.
fn forget(target: &MountTarget, error: Error) -> Error {
    let gone = match target.state() {
        Ok(TargetState::Absent) => Ok(()),
        Ok(TargetState::Plain) => target.detach(),
        Ok(TargetState::Mounted) => return Error::uncertain(error.message().to_owned()),
        Err(error) => Err(error),
    };
    match gone.and_then(|()| driver_mounts::keep_note(target, "")) {
        Ok(()) => error,
        Err(left) => {
            Error::uncertain(format!("{}; and its leftovers cannot be removed: {}", error.message(), left.message()))
        }
    }
}

/// Gives the volume's files to the pod's group, where the host has to do that.
fn give_to_group(
    source: &Source,
    object: &DriverObject,
    volume: &Volume,
    pod: &Pod,
    target: &MountTarget,
) -> Result<()> {
    if volume.read_only() || pod.fs_group().is_none() || !object.applies_group(&source.fs_type, volume) {
        return Ok(());
    }
    target.apply_fs_group(pod, false)
}

/// Unpublishes the volume from the pod, and removes the driver's leftovers at the target.
pub(crate) fn unpublish(target: &MountTarget) -> Result<()> {
    const CALL: &str = "NodeUnpublishVolume";
    // Without a note, no driver was ever called.
    let Some(note) = Note::of(target)? else { return target.detach() };
    let message = LeavePathRequest { volume_id: note.id.clone(), path: path_of(target)? };
    ask::<_, Empty>(&note.driver, "Node/NodeUnpublishVolume", &message)
        .map_err(|failure| meaning(&note.driver, CALL, &failure))?;
    clean(&note.driver, target)
}
