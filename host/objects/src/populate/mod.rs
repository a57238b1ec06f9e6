//! Pods and objects to resolved volumes: the spec and the plugin of each volume of a pod, or the
//! reason why it cannot be resolved, for a person to act on.
//!
//! ```text
//!  container --names--> volume of the pod --+-- inline source ------------------+--> VolumeSpec --> plugin --> DesiredVolume
//!                            |              '-- claim --> PersistentVolume -----'
//!                            '-- missing, unknown, unbound ... --> UnresolvedVolume
//! ```
//!
//! Pure: no I/O, no clock, no state. A volume that no container names is left out, as the kubelet
//! does, unless one that is named is made of it.
#![deny(clippy::disallowed_methods)]

pub mod attachments;
pub mod catalog;
mod claim;
mod container_mounts;
mod error;
mod identify;
mod needs;
pub mod node;
mod selinux;
mod selinux_counts;
mod source;
mod sub_path_expr;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use volhost_core::{DesiredPod, DesiredVolume, UnresolvedVolume};
use volhost_model::{OuterName, UniqueVolumeName, VolumeSpec};

pub use catalog::{NoChoice, PluginCatalog, PluginChoice};
pub use node::{NodeIdentity, PodPlacement, placement};
pub use selinux::asks_for_labels;
pub use selinux_counts::{SelinuxCounts, selinux_counts};

use crate::{ObjectStore, PodObject};
use error::ResolveError;
use identify::{identify, spec_of};
use needs::ResolvedVolume;

/// Resolves every volume that the pod's containers name, and those that these are made of. Each is
/// in exactly one of the two lists.
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

/// Returns an unresolved volume with its spec, as far as it is known: a mount of it is recognised
/// by the spec.
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
) -> Result<ResolvedVolume, NoChoice> {
    let (mut spec, choice) = identify(pod, name, store, catalog, node)?;
    check_mount_options(&spec, &choice)?;
    let label = selinux::label(pod, name, &spec, &choice, node).map_err(ResolveError::from)?;
    if let Some(label) = label {
        Arc::make_mut(&mut spec).selinux_label = Some(label);
    }
    let container_mounts = container_mounts::of(pod, name, node).map_err(ResolveError::from)?;
    let unique_name = match &choice.unique_shared_name {
        Some(shared) => UniqueVolumeName::shared(&choice.plugin, shared)
            .map_err(|problem| ResolveError::UniqueName { plugin: choice.plugin.clone(), problem })?,
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
    Ok(ResolvedVolume { volume, needs: choice.needs })
}

/// Checks that a volume with sub-paths shares its folder's name with no other: the mounts of
/// sub-paths have folders of that name.
fn check_parts(others: &[DesiredVolume], volume: DesiredVolume) -> Result<DesiredVolume, ResolveError> {
    let has_parts = |one: &DesiredVolume| one.container_mounts.iter().any(|mount| mount.sub_path.is_some());
    let same = |one: &&DesiredVolume| one.spec.name == volume.spec.name && one.unique_name != volume.unique_name;
    match others.iter().find(same) {
        Some(other) if has_parts(other) || has_parts(&volume) => Err(ResolveError::SameFolder {
            volume: volume.outer_name.clone(),
            other: other.outer_name.clone(),
            name: volume.spec.name.clone(),
        }),
        _ => Ok(volume),
    }
}

fn check_mount_options(spec: &VolumeSpec, choice: &PluginChoice) -> Result<(), ResolveError> {
    match &spec.persistent_volume {
        Some(volume) if !volume.mount_options.is_empty() && !choice.accepts_mount_options => {
            Err(ResolveError::MountOptions {
                volume: volume.name.clone(),
                options: volume.mount_options.join(", "),
                plugin: choice.plugin.clone(),
            })
        }
        _ => Ok(()),
    }
}
