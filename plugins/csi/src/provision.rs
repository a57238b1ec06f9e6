//! Creating, expanding and deleting volumes: `CreateVolume`, `ControllerExpandVolume`,
//! `DeleteVolume` of the driver that a StorageClass names.

use volhost_plugin_sdk::grpc::{Failure, Request};
use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::provisioning_calls;

use prost::Message as _;

use crate::Csi;
use crate::call::{self, Abilities, NOT_FOUND, ask, controller, meaning, node, send};
use crate::controller_messages::{
    Content, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, CreateVolumeRequest, CreateVolumeResponse,
    CreatedVolume, DeleteRequest, GetCapacityRequest, GetCapacityResponse, SourceId, VolumeContentSource,
};
use crate::messages::{AccessMode, AccessType, CapacityRange, Empty, MountVolume, VolumeCapability};
use crate::{places, request};

/// The numbers of the maps of secrets in the requests.
const CREATE_SECRETS: u32 = 5;
const DELETE_SECRETS: u32 = 2;
const EXPAND_SECRETS: u32 = 3;

/// The longest id of a volume, in bytes, as CSI has it.
const ID_BYTES: usize = 128;
/// The most entries of a volume's context, and the bytes of all together, as CSI has it for maps.
const CONTEXT_ENTRIES: usize = 64;
const CONTEXT_BYTES: usize = 4096;

/// The fault in the driver's description of the new volume, if it has one. The volume exists all
/// the same.
fn wrong(made: &CreatedVolume) -> Option<String> {
    let id = &made.volume_id;
    if id.is_empty() {
        return Some("it succeeded, and names no volume".to_owned());
    }
    if id.len() > ID_BYTES || id.chars().any(char::is_control) {
        return Some(format!(
            "its id of the volume has {} bytes; {ID_BYTES} at most, and no control characters",
            id.len()
        ));
    }
    let context = &made.volume_context;
    let bytes: usize = context.iter().map(|(key, value)| key.len().saturating_add(value.len())).sum();
    (context.len() > CONTEXT_ENTRIES || bytes > CONTEXT_BYTES).then(|| {
        format!(
            "its context of the volume has {} entries of {bytes} bytes; {CONTEXT_ENTRIES} of {CONTEXT_BYTES} at most",
            context.len()
        )
    })
}

/// The driver that the StorageClass names.
///
/// # Errors
/// `precondition` where there is none.
pub(crate) fn driver() -> Result<String> {
    provisioning_calls::provisioner().ok_or_else(|| {
        Error::precondition("no StorageClass names the CSI driver for this call; this plugin serves any of them")
    })
}

/// The error for a call that the driver does not support.
pub(crate) fn cannot(driver: &str, what: &str) -> Error {
    Error::unsupported(format!("the CSI driver {driver} {what}: its controller does not report the capability"))
}

fn capabilities(wanted: &VolumeRequest<'_>, multi_writer: bool) -> Vec<VolumeCapability> {
    let access_type = if wanted.as_device() {
        AccessType::Block(Empty {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: wanted.fs_type().unwrap_or_default(),
            mount_flags: provisioning_calls::mount_options(),
            volume_mount_group: String::new(),
        })
    };
    let modes = wanted.access_modes();
    let modes = modes.iter().map(|mode| request::mode(mode, multi_writer).into());
    modes
        .map(|mode| VolumeCapability { access_type: Some(access_type.clone()), access_mode: Some(AccessMode { mode }) })
        .collect()
}

/// The source of the volume's content.
fn content(driver: &str, abilities: &Abilities, wanted: &VolumeRequest<'_>) -> Result<Option<VolumeContentSource>> {
    let content = match (wanted.source_snapshot(), wanted.source_volume()) {
        (Some(_), _) if !abilities.has(controller::CREATE_DELETE_SNAPSHOT) => {
            return Err(cannot(driver, "makes no volumes from snapshots"));
        }
        (None, Some(_)) if !abilities.has(controller::CLONE_VOLUME) => {
            return Err(cannot(driver, "makes no volumes from others"));
        }
        (Some(id), _) => Content::Snapshot(SourceId { id }),
        (None, Some(id)) => Content::Volume(SourceId { id }),
        (None, None) => return Ok(None),
    };
    Ok(Some(VolumeContentSource { content: Some(content) }))
}

fn bytes(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Deletes a volume whose answer has no source: the driver has ignored the request's source, and
/// the volume is empty.
fn check_content(driver: &str, asked: Option<&VolumeContentSource>, made: &CreatedVolume) -> Result<()> {
    if asked.is_none() || made.content_source.is_some() {
        return Ok(());
    }
    delete(driver, &made.volume_id)?;
    Err(Error::precondition(format!(
        "{driver}: CreateVolume: it made an empty volume in place of a copy; the plugin has deleted it"
    )))
}

fn delete(driver: &str, id: &str) -> Result<()> {
    let encoded = Request::new(&DeleteRequest { id: id.to_owned() }.encode_to_vec());
    request::add_class_secret(&encoded, DELETE_SECRETS)?;
    match send::<Empty>(driver, "Controller/DeleteVolume", &encoded) {
        Ok(_) | Err(Failure::Status { code: NOT_FOUND, .. }) => Ok(()),
        Err(failure) => Err(meaning(driver, "DeleteVolume", &failure)),
    }
}

impl Controller for Csi {
    fn create(wanted: &VolumeRequest<'_>, into: &mut VolumeAnswer<'_>) -> Result<()> {
        const CALL: &str = "CreateVolume";
        let driver = driver()?;
        let abilities = Abilities::of_controller(&driver)?;
        if !abilities.has(controller::CREATE_DELETE_VOLUME) {
            return Err(cannot(&driver, "makes no volumes"));
        }
        let content = content(&driver, &abilities, wanted)?;
        let required = wanted.required_bytes().map(CapacityRange::at_least);
        let limit = wanted.limit_bytes().and_then(|limit| i64::try_from(limit).ok()).unwrap_or_default();
        let message = CreateVolumeRequest {
            name: wanted.name(),
            capacity_range: required.map(|range| CapacityRange { limit_bytes: limit, ..range }),
            volume_capabilities: capabilities(wanted, abilities.has(controller::SINGLE_NODE_MULTI_WRITER)),
            parameters: wanted
                .parameters()
                .into_iter()
                .filter_map(|key| wanted.parameter(&key).map(|value| (key, value)))
                .collect(),
            volume_content_source: content.clone(),
            accessibility_requirements: places::requirement(&driver)?,
        };
        let has_places = message.accessibility_requirements.is_some();
        let encoded = Request::new(&message.encode_to_vec());
        request::add_class_secret(&encoded, CREATE_SECRETS)?;
        let answer: CreateVolumeResponse =
            send(&driver, "Controller/CreateVolume", &encoded).map_err(|failure| meaning(&driver, CALL, &failure))?;
        let made = answer.volume.unwrap_or_default();
        if let Some(wrong) = wrong(&made) {
            return Err(Error::uncertain(format!("{driver}: {CALL}: {wrong}")));
        }
        check_content(&driver, content.as_ref(), &made)?;
        into.id(&made.volume_id).capacity(bytes(made.capacity_bytes));
        for (key, value) in &made.volume_context {
            into.attribute(key, value);
        }
        if has_places {
            for place in made.accessible_topology {
                provisioning_calls::reachable_from(&place.segments.into_iter().collect::<Vec<_>>());
            }
        }
        Ok(())
    }

    fn delete(volume_id: &str) -> Result<()> {
        delete(&driver()?, volume_id)
    }

    /// Unsupported: not every driver has such a call.
    fn find(_volume_id: &str, _into: &mut VolumeAnswer<'_>) -> Result<()> {
        Err(Error::unsupported("the csi plugin does not look up single volumes"))
    }

    /// Expands the volume. A driver whose controller cannot may expand it on the node.
    fn expand(volume_id: &str, to: u64, limit: Option<u64>) -> Result<u64> {
        const CALL: &str = "ControllerExpandVolume";
        let driver = driver()?;
        if !Abilities::of_controller(&driver)?.has(controller::EXPAND_VOLUME) {
            let on_node = Abilities::of_node(&driver)?.has(node::EXPAND_VOLUME);
            return if on_node { Ok(to) } else { Err(cannot(&driver, "expands no volumes")) };
        }
        let limit_bytes = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or_default();
        let message = ControllerExpandVolumeRequest {
            volume_id: volume_id.to_owned(),
            capacity_range: Some(CapacityRange { limit_bytes, ..CapacityRange::at_least(to) }),
        };
        let encoded = Request::new(&message.encode_to_vec());
        request::add_class_secret(&encoded, EXPAND_SECRETS)?;
        let answer: ControllerExpandVolumeResponse = send(&driver, "Controller/ControllerExpandVolume", &encoded)
            .map_err(|failure| call::meaning_of_growth(&driver, CALL, &failure))?;
        Ok(bytes(answer.capacity_bytes))
    }

    fn list_volumes(_start: &str, _most: u32, _into: &mut VolumePage<'_>) -> Result<()> {
        Err(Error::unsupported("the csi plugin does not list volumes"))
    }

    fn free_space(wanted: &VolumeRequest<'_>) -> Result<Option<u64>> {
        let driver = driver()?;
        if !Abilities::of_controller(&driver)?.has(controller::GET_CAPACITY) {
            return Ok(None);
        }
        let parameters = wanted.parameters().into_iter();
        let parameters = parameters.filter_map(|key| wanted.parameter(&key).map(|value| (key, value))).collect();
        let answer: GetCapacityResponse = ask(&driver, "Controller/GetCapacity", &GetCapacityRequest { parameters })
            .map_err(|failure| meaning(&driver, "GetCapacity", &failure))?;
        Ok(Some(bytes(answer.available_capacity)))
    }
}
