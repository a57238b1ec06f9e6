//! Counts of volumes by the SELinux labels that pods ask for, as the kubelet's metrics. Computed on
//! request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volhost_model::spec::PersistentVolume;
use volhost_model::{OuterName, PluginName, VolumeSpec};

use super::catalog::{PluginCatalog, PluginChoice};
use super::identify::identify;
use super::node::{NodeIdentity, PodPlacement, placement};
use super::selinux::{asks_for_labels, is_enforced, labels};
use crate::{ObjectStore, PodObject};

/// Figures by access mode: `RWX`, `ROX`, `RWO` or `RWOP`, the widest that the volume has.
type ByMode = BTreeMap<&'static str, u64>;
/// Figures by plugin and access mode.
type ByPlugin = BTreeMap<(PluginName, &'static str), u64>;

/// Counts of volumes that can be mounted with a label. *Errors* are events of the pod, which waits
/// or cannot start; *warnings* are of volumes for which labels are not enforced: they are mounted
/// without one, and would be errors if they were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelinuxCounts {
    /// Containers of one pod that use a volume with different labels.
    pub pod_errors: ByMode,
    /// The same, not enforced.
    pub pod_warnings: ByMode,
    /// Pods that want a volume with another label than the pods before them.
    pub volume_errors: ByPlugin,
    /// The same, not enforced.
    pub volume_warnings: ByPlugin,
    /// Volumes whose pods agree on a label, with which they are mounted.
    pub admitted: ByPlugin,
}

/// The labels that the pods of one volume ask for.
#[derive(Default)]
struct RequestedLabels {
    labels: BTreeSet<Option<String>>,
    enforced: bool,
    differing: u64,
}

/// Counts. A node without SELinux has nothing to count.
pub fn selinux_counts(store: &ObjectStore, catalog: &dyn PluginCatalog, node: &NodeIdentity) -> SelinuxCounts {
    let mut counts = SelinuxCounts::default();
    let Some(context) = node.container_file_label.as_deref() else { return counts };
    let mut volumes: BTreeMap<(PluginName, String, &'static str), RequestedLabels> = BTreeMap::new();
    let pods = store.pods().map(|(_, pod)| pod);
    for pod in pods.filter(|pod| asks_for_labels(pod) && placement(pod, node) == PodPlacement::Runs) {
        for name in &pod.pod.used_volumes {
            let Some((spec, choice)) = labelled_volume(pod, name, store, catalog, node) else { continue };
            let Some(mode) = spec.persistent_volume.as_deref().map(access_mode) else { continue };
            let (enforced, mut labels) = (is_enforced(pod, &spec, &choice), labels(pod, name, context));
            if labels.len() > 1 {
                let of_pod = if enforced { &mut counts.pod_errors } else { &mut counts.pod_warnings };
                *of_pod.entry(mode).or_default() += 1;
                continue;
            }
            let unique = choice.unique_shared_name.clone().unwrap_or_else(|| format!("{}-{}", pod.pod.uid, spec.name));
            let asked = volumes.entry((choice.plugin.clone(), unique, mode)).or_default();
            let label = labels.pop_first().flatten();
            asked.differing += u64::from(!asked.labels.is_empty() && !asked.labels.contains(&label));
            asked.labels.insert(label);
            asked.enforced |= enforced;
        }
    }
    for ((plugin, _, mode), asked) in volumes {
        let of_volume = if asked.enforced { &mut counts.volume_errors } else { &mut counts.volume_warnings };
        if asked.differing > 0 {
            *of_volume.entry((plugin, mode)).or_default() += asked.differing;
        } else if asked.enforced && asked.labels.iter().all(Option::is_some) {
            *counts.admitted.entry((plugin, mode)).or_default() += 1;
        }
    }
    counts
}

/// The volume, if it is one that could be mounted with a label.
fn labelled_volume(
    pod: &PodObject,
    name: &OuterName,
    store: &ObjectStore,
    catalog: &dyn PluginCatalog,
    node: &NodeIdentity,
) -> Option<(Arc<VolumeSpec>, PluginChoice)> {
    let (spec, choice) = identify(pod, name, store, catalog, node).ok()?;
    (choice.selinux_mount && spec.persistent_volume.is_some() && !spec.is_block()).then_some((spec, choice))
}

/// The widest access mode, as the kubelet's figures write it.
fn access_mode(volume: &PersistentVolume) -> &'static str {
    let has = |mode: &str| volume.access_modes.iter().any(|one| one == mode);
    let known =
        [("ReadWriteMany", "RWX"), ("ReadOnlyMany", "ROX"), ("ReadWriteOnce", "RWO"), ("ReadWriteOncePod", "RWOP")];
    known.into_iter().find(|(mode, _)| has(mode)).map_or("none", |(_, short)| short)
}
