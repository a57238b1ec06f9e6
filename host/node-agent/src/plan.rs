//! Which objects the daemon has to add and remove, from what the API server has and what the daemon
//! has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volhost_config::PodScope;
use volhost_objects::{Kind, ObjectKey};

use crate::cluster_object::{ClusterObject, CsiVolume};
use crate::known::{Known, all_of};

/// What the daemon has of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

/// What the daemon has of the cluster.
pub(crate) type HeldObjects = BTreeMap<ObjectKey, Held>;

/// One change of what the daemon has.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Forget this object.
    Remove(ObjectKey, Held),
    /// Add or replace this object.
    Add(Arc<ClusterObject>),
}

/// A pod that is not passed on to the daemon yet, or not as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingPod {
    pub(crate) key: ObjectKey,
    /// What has not been read.
    pub(crate) unread: Vec<ObjectKey>,
    /// The daemon has it, as an earlier run of the agent passed it on.
    pub(crate) is_held: bool,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// In this order.
    pub(crate) steps: Vec<Step>,
    /// The single objects to watch.
    pub(crate) watched: BTreeSet<ObjectKey>,
    /// Whether ClusterTrustBundles are to be watched.
    pub(crate) wants_bundles: bool,
    /// Pods that wait for something that they name.
    pub(crate) waiting: Vec<WaitingPod>,
}

/// The parts that a plan is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planner<'a> {
    pub(crate) known: &'a Known,
    pub(crate) held: &'a HeldObjects,
    /// The unique names of attachable volumes that the daemon wants or has.
    pub(crate) in_use: &'a BTreeSet<String>,
    /// This node's name.
    pub(crate) node: &'a str,
    /// Which of the node's pods the daemon is to have.
    pub(crate) scope: &'a PodScope,
}

impl<'a> Planner<'a> {
    /// Makes a plan.
    pub(crate) fn plan(self) -> Plan {
        let mut plan = Plan::default();
        // Objects to pass on, those that others name first.
        let mut ready = BTreeMap::new();
        for driver in self.known.of_kind(Kind::CsiDriver) {
            self.add(driver, &mut ready);
        }
        for pod in self.known.of_kind(Kind::Pod).filter(|pod| self.is_ours(pod)) {
            let mut search = Search::default();
            self.search(pod, &mut search);
            plan.watched.extend(search.named.into_iter().cloned());
            for object in search.objects {
                self.add(object, &mut ready);
            }
            if search.unread.is_empty() {
                self.add(pod, &mut ready);
            } else {
                let unread = search.unread.into_iter().cloned().collect();
                plan.waiting.push(WaitingPod { key: pod.key.clone(), unread, is_held: self.has(pod) });
            }
        }
        self.keep_attached(&mut ready, &mut plan);
        plan.wants_bundles = plan.watched.remove(&all_of(Kind::ClusterTrustBundle));
        if plan.wants_bundles {
            for bundle in self.known.of_kind(Kind::ClusterTrustBundle) {
                self.add(bundle, &mut ready);
            }
        }
        plan.steps = self.removals(&plan);
        plan.steps.extend(ready.into_values().map(Step::Add));
        plan
    }

    /// Whether the daemon is to have the pod: it is in the scope, or the daemon has it already. A pod
    /// that leaves the scope keeps its volumes until it is gone.
    fn is_ours(self, pod: &ClusterObject) -> bool {
        pod.is_in(self.scope) || self.has(pod)
    }

    /// Whether the daemon has the pod, in whichever version.
    fn has(self, pod: &ClusterObject) -> bool {
        self.held.get(&pod.key).is_some_and(|held| held.uid == pod.uid)
    }

    /// Finds all that an object names, and what these name.
    fn search(self, object: &'a ClusterObject, search: &mut Search<'a>) {
        for key in self.known.references(object) {
            if !search.named.insert(key) {
                continue;
            }
            if !self.known.is_read(key) {
                search.unread.insert(key);
            } else if let Some(named) = self.known.get(key) {
                let before = search.unread.len();
                self.search(named, search);
                // What names something that is not read yet is passed on with it.
                if search.unread.len() == before {
                    search.objects.push(named);
                }
            }
        }
    }

    /// Passes an object on if the daemon has it otherwise.
    fn add(self, object: &Arc<ClusterObject>, ready: &mut BTreeMap<(u8, ObjectKey), Arc<ClusterObject>>) {
        if object.object.is_err() {
            return;
        }
        let is_same = |held: &Held| held.uid == object.uid && held.resource_version == object.resource_version;
        if !self.held.get(&object.key).is_some_and(is_same) {
            ready.insert((rank(object.key.kind), object.key.clone()), Arc::clone(object));
        }
    }

    /// A volume stays attached until it is unmounted, which is after its pod is gone: until then
    /// its PersistentVolume and its VolumeAttachment stay.
    fn keep_attached(self, ready: &mut BTreeMap<(u8, ObjectKey), Arc<ClusterObject>>, plan: &mut Plan) {
        let mut kept = BTreeSet::new();
        for key in self.held.keys().filter(|key| key.kind == Kind::PersistentVolume) {
            // Unread: it was added by an earlier run.
            let Some(volume) = self.known.get(key) else {
                if !self.known.is_read(key) {
                    plan.watched.insert(key.clone());
                }
                continue;
            };
            for csi in volume.csi_volumes.iter().filter(|csi| self.in_use.contains(&csi.unique_name)) {
                if let Some(object) = self.known.get(&csi.attachment) {
                    self.add(object, ready);
                }
                plan.watched.extend([key.clone(), csi.attachment.clone()]);
                kept.insert(&csi.unique_name);
            }
        }
        // A volume that a pod names itself has no PersistentVolume.
        let others = self.in_use.iter().filter(|name| !kept.contains(name));
        for volume in others.filter_map(|name| CsiVolume::of_unique_name(name, self.node)) {
            if self.held.contains_key(&volume.attachment) {
                plan.watched.insert(volume.attachment);
            }
        }
    }

    /// What the daemon has and is to forget: pods first, so that nothing is missed by them.
    fn removals(self, plan: &Plan) -> Vec<Step> {
        if !self.known.has_pods() {
            return Vec::new();
        }
        let unread_volumes = plan
            .watched
            .iter()
            .any(|key| key.kind == Kind::PersistentVolume && !self.known.is_read(key) && self.held.contains_key(key));
        let is_gone = |key: &ObjectKey, held: &Held| match key.kind {
            // It may belong to a volume that is not read yet.
            Kind::VolumeAttachment if unread_volumes && !self.known.is_read(key) => false,
            Kind::ClusterTrustBundle if !plan.wants_bundles => true,
            // Another pod of the name may be in the scope no more.
            Kind::Pod => self.known.is_read(key) && self.known.get(key).is_none_or(|pod| !self.is_ours(pod)),
            Kind::CsiDriver | Kind::ClusterTrustBundle => self.known.is_read(key) && self.known.get(key).is_none(),
            _ if !plan.watched.contains(key) => true,
            // Another object of the name is not a change of the first.
            _ => self.known.is_read(key) && self.known.get(key).is_none_or(|object| object.uid != held.uid),
        };
        let mut gone: Vec<_> = self.held.iter().filter(|(key, held)| is_gone(key, held)).collect();
        gone.sort_by_key(|(key, _)| std::cmp::Reverse(rank(key.kind)));
        gone.into_iter().map(|(key, held)| Step::Remove(key.clone(), held.clone())).collect()
    }
}

/// What a pod names, directly or not.
#[derive(Debug, Default)]
struct Search<'a> {
    named: BTreeSet<&'a ObjectKey>,
    unread: BTreeSet<&'a ObjectKey>,
    /// Those that exist and can be passed on.
    objects: Vec<&'a Arc<ClusterObject>>,
}

/// The place of a kind among the steps: what others name is added before them.
fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::CsiDriver => 0,
        Kind::Secret | Kind::ConfigMap | Kind::ClusterTrustBundle => 1,
        Kind::PersistentVolume => 2,
        Kind::VolumeAttachment => 3,
        Kind::PersistentVolumeClaim => 4,
        Kind::Pod => 6,
        _ => 5,
    }
}

#[cfg(test)]
mod tests;
