//! Resolves pods and VolumeAttachments, and remembers which of them wait for the answer of a
//! plugin.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use volhost_core::AttachPolicy;
use volhost_model::names::PluginName;
use volhost_model::view::EventKind;
use volhost_objects::payload::SharedObjects;
use volhost_objects::populate::attachments::{AttachmentReport, attachments_of};
use volhost_objects::populate::{
    NodeIdentity, PodPlacement, SelinuxCounts, asks_for_labels, placement, resolve, selinux_counts,
};
use volhost_objects::{ObjectKey, ObjectStore, StoreEffects};
use volhost_plugin_folder::{PluginRegistry, QuestionKey};

use super::effects::Effects;

/// Resolves pods and VolumeAttachments.
#[derive(Debug)]
pub(super) struct Resolver {
    node: NodeIdentity,
    catalog: Arc<PluginRegistry>,
    /// Who attaches volumes: the host or a controller.
    attaching: AttachPolicy,
    /// The event is emitted already that pods ask for SELinux labels, which this node does not
    /// have.
    reported_no_selinux: bool,
    /// Pods of other nodes for which the event is emitted already.
    reported_other_node: BTreeSet<ObjectKey>,
    /// The pods and attachments to resolve again when a plugin has answered.
    waiting: HashMap<QuestionKey, BTreeSet<WaitingResolve>>,
}

/// A pod, or the attachments, that wait for the answer of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum WaitingResolve {
    /// A pod's volumes.
    Pod(ObjectKey),
    /// The VolumeAttachments.
    Attachments,
}

impl Resolver {
    /// Creates a resolver for this node.
    pub(super) fn new(node: NodeIdentity, catalog: Arc<PluginRegistry>, attaching: AttachPolicy) -> Self {
        Self {
            node,
            catalog,
            attaching,
            reported_no_selinux: false,
            reported_other_node: BTreeSet::new(),
            waiting: HashMap::new(),
        }
    }

    /// Returns the node.
    pub(super) const fn node(&self) -> &NodeIdentity {
        &self.node
    }

    /// Adds the topology that drivers report of this node. A driver's earlier report stays when the
    /// driver is gone: the node has not moved.
    pub(super) fn add_topology(&mut self, topology: BTreeMap<String, String>) {
        for (key, value) in topology {
            self.node.topology.insert(key, value);
        }
    }

    /// Sets the labels that the cluster gives this node. Returns whether they have changed.
    pub(super) fn set_node_labels(&mut self, labels: BTreeMap<String, String>) -> bool {
        let before = std::mem::replace(&mut self.node.cluster_labels, labels);
        before != self.node.cluster_labels
    }

    /// Counts the volumes by the SELinux labels that pods ask for.
    pub(super) fn selinux_counts(&self, store: &ObjectStore) -> SelinuxCounts {
        selinux_counts(store, self.catalog.as_ref(), &self.node)
    }

    /// Resolves what a change concerns. `attachments_complete`: there are no VolumeAttachments but
    /// those of the store.
    pub(super) fn resolve(
        &mut self,
        applied: StoreEffects,
        store: &ObjectStore,
        shared: &SharedObjects,
        attachments_complete: bool,
    ) -> Effects {
        // Questions of other callers, as for metrics, are not waited for.
        drop(self.catalog.take_awaited());
        let mut effects = Effects { gone: applied.gone, ..Effects::default() };
        if applied.attachments_changed {
            effects.attachments = Some(self.attachments(store, attachments_complete));
        }
        for uid in &effects.gone {
            shared.forget_pod(uid);
        }
        for key in applied.resolve {
            self.resolve_pod(key, store, &mut effects);
        }
        for key in applied.source_changed {
            if let Some(pod) = store.pod(&key) {
                effects.source_changed.push(pod.pod.uid.clone());
            }
        }
        for conflict in applied.conflicts {
            effects.emit(EventKind::Warning, "ConflictingManifest", "file".to_owned(), conflict.to_string());
        }
        effects
    }

    /// Resolves what a change would concern. Nothing waits for the questions that come up.
    pub(super) fn foresee(&self, applied: StoreEffects, store: &ObjectStore) -> Effects {
        let mut effects = Effects { gone: applied.gone, ..Effects::default() };
        for pod in applied.resolve.iter().filter_map(|key| store.pod(key)) {
            match placement(pod, &self.node) {
                PodPlacement::Runs => effects.desired.push(resolve(pod, store, self.catalog.as_ref(), &self.node)),
                PodPlacement::Finished | PodPlacement::OtherNode { .. } => effects.not_here.push(pod.pod.uid.clone()),
            }
        }
        let changed = applied.source_changed.iter().filter_map(|key| store.pod(key));
        effects.source_changed.extend(changed.map(|pod| pod.pod.uid.clone()));
        effects
    }

    fn attachments(&mut self, store: &ObjectStore, complete: bool) -> AttachmentReport {
        let host_attaches = |plugin: &PluginName| self.attaching.by_host(plugin);
        let report = attachments_of(&self.node.name, store, self.catalog.as_ref(), host_attaches, complete);
        self.note_waiting(&WaitingResolve::Attachments);
        report
    }

    fn resolve_pod(&mut self, key: ObjectKey, store: &ObjectStore, effects: &mut Effects) {
        let Some(pod) = store.pod(&key) else { return };
        let object = || format!("pod {}", key.full_name());
        match placement(pod, &self.node) {
            PodPlacement::Runs => {
                self.reported_other_node.remove(&key);
                if self.node.container_file_label.is_none() && !self.reported_no_selinux && asks_for_labels(pod) {
                    self.reported_no_selinux = true;
                    let message = "its containers have seLinuxOptions, and this node's kernel has no SELinux: volumes are mounted without labels; this is said once";
                    effects.emit(EventKind::Normal, "NoSELinux", object(), message);
                }
                effects.desired.push(resolve(pod, store, self.catalog.as_ref(), &self.node));
                self.note_waiting(&WaitingResolve::Pod(key));
            }
            PodPlacement::Finished => effects.not_here.push(pod.pod.uid.clone()),
            PodPlacement::OtherNode { node } => {
                // This node may have had it before.
                effects.not_here.push(pod.pod.uid.clone());
                if !self.reported_other_node.contains(&key) {
                    let message = format!(
                        "spec.nodeName is {node:?} and this node is {:?}: its volumes are not mounted here",
                        self.node.name
                    );
                    effects.emit(EventKind::Normal, "OtherNode", object(), message);
                    self.reported_other_node.insert(key);
                }
            }
        }
    }

    /// Notes that what was resolved just now waits for the questions that came up.
    fn note_waiting(&mut self, waiting: &WaitingResolve) {
        for key in self.catalog.take_awaited() {
            self.waiting.entry(key).or_default().insert(waiting.clone());
        }
    }

    /// Returns what is to be resolved again now that these questions have an answer.
    pub(super) fn answered(&mut self, questions: impl IntoIterator<Item = QuestionKey>) -> StoreEffects {
        let waiting: BTreeSet<WaitingResolve> =
            questions.into_iter().filter_map(|key| self.waiting.remove(&key)).flatten().collect();
        let mut applied = StoreEffects::default();
        for one in waiting {
            match one {
                WaitingResolve::Pod(key) => drop(applied.resolve.insert(key)),
                WaitingResolve::Attachments => applied.attachments_changed = true,
            }
        }
        applied
    }

    /// Notes that the answer to a question changes nothing for what waited for it.
    pub(super) fn forget_question(&mut self, question: &QuestionKey) {
        self.waiting.remove(question);
    }
}
