//! The common parts of requests to a driver: capability, contexts, secrets and tokens.

use std::collections::BTreeMap;

use volhost_plugin_sdk::grpc::{Part, Request};
use volhost_plugin_sdk::objects::{Keyed as _, Secret, service_account_token, token_expires};
use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::provisioning_calls;

use crate::call::{Abilities, node};
use crate::driver_object::DriverObject;
use crate::messages::{AccessMode, AccessType, Empty, Mode, MountVolume, VolumeCapability};
use crate::source::Source;

/// The attachment of a volume that needs no attaching.
pub(crate) const NOTHING: &str = "-";
/// The key of the tokens, as in Kubernetes.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// The pod's use of the volume, for a driver with these abilities. A driver that applies a pod's
/// group itself gets the group; an SELinux label is a mount option.
pub(crate) fn capability(source: &Source, volume: &Volume, abilities: &Abilities) -> VolumeCapability {
    let group = volume.mount_group().filter(|_| abilities.has(node::VOLUME_MOUNT_GROUP));
    capability_of(source, volume, abilities.has(node::SINGLE_NODE_MULTI_WRITER), group)
}

/// As [`capability`], for a driver's controller. `multi_writer`: it distinguishes one writer on a
/// node from several.
pub(crate) fn capability_of(
    source: &Source,
    volume: &Volume,
    multi_writer: bool,
    group: Option<u32>,
) -> VolumeCapability {
    let access_type = if volume.is_device() {
        AccessType::Block(Empty {})
    } else {
        let label = volume.selinux_label().map(|label| format!("context=\"{label}\""));
        AccessType::Mount(MountVolume {
            fs_type: source.fs_type.clone(),
            mount_flags: volume.mount_options().into_iter().chain(label).collect(),
            volume_mount_group: group.map(|group| group.to_string()).unwrap_or_default(),
        })
    };
    let modes = volume.access_modes();
    let mode = mode(modes.first().map_or("ReadWriteOnce", String::as_str), multi_writer);
    VolumeCapability { access_type: Some(access_type), access_mode: Some(AccessMode { mode: mode.into() }) }
}

/// An access mode in Kubernetes' spelling, as CSI has it.
pub(crate) fn mode(kubernetes: &str, multi_writer: bool) -> Mode {
    match kubernetes {
        "ReadOnlyMany" => Mode::MultiNodeReaderOnly,
        "ReadWriteMany" => Mode::MultiNodeMultiWriter,
        "ReadWriteOncePod" if multi_writer => Mode::SingleNodeSingleWriter,
        "ReadWriteOnce" if multi_writer => Mode::SingleNodeMultiWriter,
        _ => Mode::SingleNodeWriter,
    }
}

/// The publish context of the attached volume: the attachment metadata of a VolumeAttachment, else
/// `attached-as`, which [`attached_as`] wrote or a controller reported.
///
/// # Errors
/// `precondition` when it is not a map of texts.
pub(crate) fn publish_context(
    attached_as: Option<&str>,
    metadata: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    if !metadata.is_empty() {
        return Ok(metadata);
    }
    let Some(text) = attached_as.filter(|text| text.starts_with('{')) else { return Ok(BTreeMap::new()) };
    serde_json::from_str(text)
        .map_err(|error| Error::precondition(format!("`attached-as` of the volume is not a map of texts: {error}")))
}

/// As [`publish_context`], of a volume that is being staged.
///
/// # Errors
/// As [`publish_context`].
pub(crate) fn staging_context(attached: Option<&Attachment>) -> Result<BTreeMap<String, String>> {
    let metadata = attached.map(|attached| attached.metadata().into_iter().collect()).unwrap_or_default();
    publish_context(attached.map(Attachment::attached_as).as_deref(), metadata)
}

/// Encodes a publish context as `attached-as`.
///
/// # Errors
/// `uncertain`: the volume is attached already.
pub(crate) fn attached_as(context: &BTreeMap<String, String>) -> Result<String> {
    serde_json::to_string(context)
        .map_err(|error| Error::uncertain(format!("the driver's publish context cannot be stored: {error}")))
}

/// Puts the secret that a field of the volume refers to into the request's map of secrets.
///
/// # Errors
/// `not-found` and others when it cannot be read; nothing was sent.
pub(crate) fn add_secret(request: &Request, map: u32, volume: &Volume, pod: Option<&Pod>, field: &str) -> Result<()> {
    if volume.kind(field).is_none() {
        return Ok(());
    }
    let secret = match pod.filter(|_| volume.persistent_volume().is_none()) {
        Some(pod) => Secret::open(volume, pod, &volume.required(&format!("{field}.name"))?),
        None => Secret::referenced(volume, field),
    };
    let secret = secret.map_err(|error| unbegun(error).context(format!("csi.{field}")))?;
    add_entries(request, map, &secret)
}

/// Puts the secret that the StorageClass names for this call, if it names one, into the request's
/// map of secrets.
///
/// # Errors
/// As [`add_secret`].
pub(crate) fn add_class_secret(request: &Request, map: u32) -> Result<()> {
    match provisioning_calls::secret().map_err(|error| unbegun(error).context("the StorageClass's secret"))? {
        Some(secret) => add_entries(request, map, &secret),
        None => Ok(()),
    }
}

/// Puts the secret that a volume was attached with into the request that detaches it. A secret that
/// has been deleted since must not keep the volume attached for ever: the driver is called without
/// it.
///
/// # Errors
/// As [`add_secret`].
pub(crate) fn add_recorded_secret(request: &Request, map: u32) -> Result<()> {
    match provisioning_calls::secret() {
        Ok(Some(secret)) => add_entries(request, map, &secret),
        Ok(None) => Ok(()),
        Err(Error::NotFound(why)) => {
            log::warn(format_args!("the volume is detached without the secret that it was attached with: {why}"));
            Ok(())
        }
        Err(error) => Err(unbegun(error).context("csi.controllerPublishSecretRef")),
    }
}

fn add_entries(request: &Request, map: u32, secret: &Secret) -> Result<()> {
    for key in secret.keys() {
        if let Some(content) = secret.content(&key) {
            request.add_entry(map, &key, &[Part::Content(&content)])?;
        }
    }
    Ok(())
}

/// Puts the tokens that the driver requests into the map of secrets or into that of the volume's
/// context.
///
/// # Errors
/// `precondition` and others when the node cannot issue them; nothing was sent.
pub(crate) fn add_tokens(
    request: &Request,
    secrets: u32,
    context: u32,
    object: &DriverObject,
    pod: &Pod,
) -> Result<()> {
    if object.tokens.is_empty() {
        return Ok(());
    }
    let mut tokens = Vec::new();
    for wanted in &object.tokens {
        let audience = Some(wanted.audience.as_str()).filter(|audience| !audience.is_empty());
        let token = service_account_token(pod, audience, wanted.expiration_seconds)
            .map_err(|error| unbegun(error).context("a token that the driver's CSIDriver object requests"))?;
        tokens.push((wanted.audience.as_str(), token));
    }
    // JSON around tokens, which the plugin cannot read; a token has no character that JSON escapes.
    let mut parts = Vec::new();
    for (index, (audience, token)) in tokens.iter().enumerate() {
        let begin = if index == 0 { '{' } else { ',' };
        let audience = serde_json::Value::from(*audience);
        let expires = serde_json::Value::from(token_expires(token).unwrap_or_default());
        parts.push(Part::Text(format!("{begin}{audience}:{{\"token\":\"")));
        parts.push(Part::Content(token));
        parts.push(Part::Text(format!("\",\"expirationTimestamp\":{expires}}}")));
    }
    parts.push(Part::Text("}".to_owned()));
    request.add_entry(if object.tokens_in_secrets { secrets } else { context }, TOKENS, &parts)
}

/// The pod's identity, for the driver.
pub(crate) fn pod_context(object: &DriverObject, volume: &Volume, pod: &Pod, into: &mut BTreeMap<String, String>) {
    if !object.pod_info {
        return;
    }
    let ephemeral = volume.persistent_volume().is_none();
    for (key, value) in [
        ("pod.name", pod.name()),
        ("pod.namespace", pod.namespace()),
        ("pod.uid", pod.uid()),
        ("serviceAccount.name", pod.service_account()),
        ("ephemeral", ephemeral.to_string()),
    ] {
        into.insert(format!("csi.storage.k8s.io/{key}"), value);
    }
}

/// A failure before anything was sent: the state that an earlier call left is unchanged. An invalid
/// field stays one.
pub(crate) fn unbegun(error: Error) -> Error {
    match error {
        Error::InvalidArgument(_) => error,
        other => Error::not_begun(other.message().to_owned()),
    }
}

/// A failure before anything was sent, where only the driver's own answer may say that a field is
/// wrong for good.
pub(crate) fn not_sent(error: Error) -> Error {
    Error::not_begun(error.message().to_owned())
}
