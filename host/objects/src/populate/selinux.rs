//! The SELinux label with which a pod's volume is mounted.

use std::collections::BTreeSet;

use thiserror::Error;
use volhost_model::selinux::SelinuxChangePolicy;
use volhost_model::{OuterName, VolumeSpec};

use super::catalog::PluginChoice;
use super::node::NodeIdentity;
use crate::PodObject;

/// Containers that need different labels for one volume.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "containers of the pod use volume {volume} with different SELinux labels ({labels}), and it is mounted with one; give them the same seLinuxOptions, or the pod seLinuxChangePolicy: Recursive"
)]
pub(super) struct LabelConflict {
    volume: OuterName,
    labels: String,
}

/// Returns the label of all files of the volume. None where it is mounted without: a volume of the
/// pod itself, a device, a plugin that mounts without labels, a pod that wants its files labelled
/// one by one, containers whose level is not known yet, a node without SELinux.
///
/// # Errors
/// [`LabelConflict`].
pub(super) fn label(
    pod: &PodObject,
    name: &OuterName,
    spec: &VolumeSpec,
    choice: &PluginChoice,
    node: &NodeIdentity,
) -> Result<Option<String>, LabelConflict> {
    let Some(context) = node.container_file_label.as_deref().filter(|_| is_enforced(pod, spec, choice)) else {
        return Ok(None);
    };
    let mut labels = labels(pod, name, context);
    let label = labels.pop_first().flatten();
    if labels.is_empty() {
        return Ok(label);
    }
    let named =
        |label: &Option<String>| label.as_deref().map_or_else(|| "none".to_owned(), |label| format!("{label:?}"));
    let all: Vec<String> = std::iter::once(&label).chain(&labels).map(named).collect();
    Err(LabelConflict { volume: name.clone(), labels: all.join(", ") })
}

/// Returns the labels that the pod's containers ask for the volume; none for a level that is not
/// known yet.
pub(super) fn labels(pod: &PodObject, name: &OuterName, context: &str) -> BTreeSet<Option<String>> {
    let uses = pod.uses.iter().filter(|used| used.volume == *name);
    uses.map(|used| used.selinux.as_ref().and_then(|options| options.file_label(context))).collect()
}

/// Whether the volume is mounted with a label if the pod's containers have one.
pub(super) fn is_enforced(pod: &PodObject, spec: &VolumeSpec, choice: &PluginChoice) -> bool {
    let by_policy = match pod.selinux_change_policy {
        Some(SelinuxChangePolicy::MountOption) => true,
        Some(SelinuxChangePolicy::Recursive) => false,
        // Only one pod has it: no other pod can need another label.
        None => spec.is_single_pod(),
    };
    by_policy && choice.selinux_mount && spec.persistent_volume.is_some() && !spec.is_block()
}

/// Whether a container of the pod has a label that a volume could be mounted with.
pub fn asks_for_labels(pod: &PodObject) -> bool {
    pod.uses.iter().any(|used| used.selinux.as_ref().is_some_and(|options| !options.level.is_empty()))
}
