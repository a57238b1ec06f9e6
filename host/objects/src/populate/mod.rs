//! Pods and objects to resolved volumes: what each volume of a pod is, which plugin serves it, or, in words a person can act on, why
//! that cannot be said.
//!
//! ```text
//!  container --names--> volume of the pod --+-- inline source ------------------+--> VolumeSpec --> plugin --> DesiredVolume
//!                            |              '-- claim --> PersistentVolume -----'
//!                            '-- missing, unknown, unbound ... --> UnresolvedVolume
//! ```
//!
//! Pure: no I/O, no clock, no state. A volume that no container names is left out, as the kubelet does, unless one that is
//! named is made of it.
#![deny(clippy::disallowed_methods)]

pub mod attachments;
pub mod catalog;
mod claim;
mod container_mounts;
mod needs;
pub mod node;
mod selinux;
mod selinux_census;
mod source;
mod sub_path_expr;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use volhost_core::{DesiredPod, DesiredVolume, UnresolvedVolume};
use volhost_model::spec::VolumeMode;
use volhost_model::{OuterName, SpecName, UniqueVolumeName, VolumeSpec};

pub use catalog::{NoChoice, PluginCatalog, PluginChoice};
pub use node::{NodeIdentity, PodStanding, standing};
pub use selinux::asks_for_labels;
pub use selinux_census::{SelinuxCensus, selinux_census};

use crate::references::{CLAIM_SOURCE, EPHEMERAL_SOURCE};
use crate::{ObjectStore, PodObject, PodVolume};
use needs::Resolved;

/// Resolves every volume that the pod's containers name, and those that these are made of. Each is in exactly one of the two lists.
pub fn resolve(pod: &PodObject, store: &ObjectStore, catalog: &dyn PluginCatalog, node: &NodeIdentity) -> DesiredPod {
    let mut desired = DesiredPod { pod: Arc::clone(&pod.pod), volumes: Vec::new(), unresolved: Vec::new() };
    for (name, volume) in needs::resolve_all(pod, |name| resolve_volume(pod, name, store, catalog, node)) {
        match volume.and_then(|volume| Ok(check_parts(&desired.volumes, volume)?)) {
            Ok(volume) => desired.volumes.push(volume),
            Err(why) => desired.unresolved.push(unresolved(pod, name, why, store, node)),
        }
    }
    desired
}

/// An unresolved volume, with what is known of it beside: what is mounted for it is recognised by
/// that.
fn unresolved(
    pod: &PodObject,
    outer_name: OuterName,
    why: NoChoice,
    store: &ObjectStore,
    node: &NodeIdentity,
) -> UnresolvedVolume {
    let spec = spec_of(pod, &outer_name, store, node).ok().map(Arc::new);
    let claim = claim::name_of(pod, &outer_name);
    UnresolvedVolume { outer_name, reason: why.reason, is_pending: why.is_pending, spec, claim }
}

fn resolve_volume(
    pod: &PodObject,
    name: &OuterName,
    store: &ObjectStore,
    catalog: &dyn PluginCatalog,
    node: &NodeIdentity,
) -> Result<Resolved, NoChoice> {
    let (mut spec, choice) = identify(pod, name, store, catalog, node)?;
    check_mount_options(&spec, &choice)?;
    if let Some(label) = selinux::label(pod, name, &spec, &choice, node)? {
        Arc::make_mut(&mut spec).selinux_label = Some(label);
    }
    let container_mounts = container_mounts::of(pod, name, node)?;
    let unique_name = match &choice.unique_shared_name {
        Some(shared) => UniqueVolumeName::shared(&choice.plugin, shared)
            .map_err(|e| format!("plugin {} gives the volume a name that cannot be used: {e}", choice.plugin))?,
        None => UniqueVolumeName::of_pod(&choice.plugin, &pod.pod.uid, &spec.name),
    };
    let volume = DesiredVolume {
        outer_name: name.clone(),
        unique_name,
        plugin: choice.plugin,
        spec,
        attachable: choice.attachable,
        stageable: choice.stageable,
        follows_source: choice.follows_source,
        expandable: choice.expandable,
        attach_limit: choice.attach_limit,
        attach_limit_of: choice.attach_limit_of,
        refreshed: choice.refreshed && choice.follows_source,
        container_mounts,
        needs: Arc::default(),
        blocked: None,
        is_pending: false,
        declared: None,
    };
    Ok(Resolved { volume, needs: choice.needs })
}

/// What the pod's volume is, and which plugin serves it.
fn identify(
    pod: &PodObject,
    name: &OuterName,
    store: &ObjectStore,
    catalog: &dyn PluginCatalog,
    node: &NodeIdentity,
) -> Result<(Arc<VolumeSpec>, PluginChoice), NoChoice> {
    let mut spec = Arc::new(spec_of(pod, name, store, node)?);
    let choice = catalog.choose(&spec)?;
    if choice.read_only {
        Arc::make_mut(&mut spec).read_only = true;
    }
    Ok((spec, choice))
}

/// What the pod's volume is.
fn spec_of(pod: &PodObject, name: &OuterName, store: &ObjectStore, node: &NodeIdentity) -> Result<VolumeSpec, String> {
    let (index, volume) = pod.volume(name).ok_or_else(|| missing(pod, name))?;
    let spec = match source::of_pod_volume(pod, index, volume)? {
        (CLAIM_SOURCE, source) => claim::named(pod, volume, source, store, node)?,
        (EPHEMERAL_SOURCE, _) => claim::ephemeral(pod, volume, store, node)?,
        (field, fields) => VolumeSpec {
            selinux_label: None,
            name: SpecName::new(name.as_str()).map_err(|e| e.to_string())?,
            source: field.to_owned(),
            read_only: source::is_read_only(fields),
            fields: fields.clone(),
            persistent_volume: None,
        },
    };
    check_mode(pod, volume, &spec)?;
    Ok(spec)
}

/// Parts of volumes are shown in folders by the volume's name in the pod's folder, which has to be the volume's own.
fn check_parts(others: &[DesiredVolume], volume: DesiredVolume) -> Result<DesiredVolume, String> {
    let has_parts = |one: &DesiredVolume| one.container_mounts.iter().any(|mount| mount.sub_path.is_some());
    let same = |one: &&DesiredVolume| one.spec.name == volume.spec.name && one.unique_name != volume.unique_name;
    match others.iter().find(same) {
        Some(other) if has_parts(other) || has_parts(&volume) => Err(format!(
            "volume {} and volume {} of the pod both stand under the name {}, and a container has a subPath in one of them; rename one",
            volume.outer_name, other.outer_name, volume.spec.name
        )),
        _ => Ok(volume),
    }
}

/// A container names a volume that the pod lacks.
fn missing(pod: &PodObject, name: &OuterName) -> String {
    let at = pod.uses.iter().find(|used| used.volume == *name);
    let at =
        at.map(|used| format!("{}:{}: {}", pod.file, used.line, used.path)).unwrap_or_else(|| pod.file.to_string());
    format!("{at} names the volume \"{name}\", but {}", has_only(pod))
}

/// The volumes that a pod has, for a message about one that it lacks.
fn has_only(pod: &PodObject) -> String {
    let mut known: Vec<&str> = pod.volumes.iter().map(|volume| volume.name.as_str()).collect();
    known.sort_unstable();
    let known = if known.is_empty() { "has no volumes".to_owned() } else { format!("has only {}", known.join(", ")) };
    format!("spec.volumes {known}")
}

/// File systems go with `volumeMounts`, devices with `volumeDevices`.
fn check_mode(pod: &PodObject, volume: &PodVolume, spec: &VolumeSpec) -> Result<(), String> {
    let name = &volume.name;
    let used = |as_device: bool| pod.uses.iter().find(|used| used.volume == *name && used.as_device == as_device);
    let mode = spec.persistent_volume.as_ref().map(|persistent| persistent.volume_mode);
    match (mode, used(false), used(true)) {
        (Some(VolumeMode::Block), Some(at), _) => Err(format!(
            "volume {name} has volumeMode Block, but is specified in volumeMounts ({}:{}: {}); list it in volumeDevices",
            pod.file, at.line, at.path
        )),
        (Some(VolumeMode::Filesystem), _, Some(at)) => Err(format!(
            "volume {name} has volumeMode Filesystem, but is specified in volumeDevices ({}:{}: {}); list it in volumeMounts",
            pod.file, at.line, at.path
        )),
        (None, _, Some(at)) => Err(format!(
            "volume {name} is specified in volumeDevices ({}:{}: {}), which takes only volumes with a claim; list it in volumeMounts",
            pod.file, at.line, at.path
        )),
        _ => Ok(()),
    }
}

fn check_mount_options(spec: &VolumeSpec, choice: &PluginChoice) -> Result<(), String> {
    match &spec.persistent_volume {
        Some(volume) if !volume.mount_options.is_empty() && !choice.accepts_mount_options => Err(format!(
            "PersistentVolume {} has mountOptions ({}), but plugin {} takes none; remove spec.mountOptions",
            volume.name,
            volume.mount_options.join(", "),
            choice.plugin
        )),
        _ => Ok(()),
    }
}
