//! What is known of the cluster, by node and by volume, and which nodes a change concerns. Pure.
//!
//! | module | its job |
//! |---|---|
//! | [`attachments`] | what VolumeAttachments change |
//! | [`planning`] | what a node's pods want, and the plan that follows |
//!
//! Nothing here walks over all pods when one object changes: pods are found by their node and by
//! their claims, attachments by their node and their volume.
//!
//! # Guarantees
//! - An attachment that this program creates is known before the request is sent, so that no other
//!   node gets its volume meanwhile. It stays known until the API server says that it is not there.
//! - What this program has written is not replaced by an older version that a watch shows later.

mod attachments;
mod planning;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Instant;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode};
use kube::Resource;

use super::names;
use super::objects::{Node, PersistentVolumeClaim, Pod};
use super::plan::{AttachmentFacts, NodeFacts};
use super::source::{self, Objects, csi_name, may_attach};
use crate::migrated;

use attachments::is_own;
pub(super) use planning::Planned;

/// Namespace and name.
type Key = (String, String);
/// The names of the nodes to plan for.
pub(super) type Nodes = BTreeSet<String>;

/// A change of the objects of one kind, as their watch shows it.
#[derive(Debug, Clone)]
pub(super) enum Change<K> {
    /// All objects are about to be listed.
    Begun,
    /// These are all objects.
    Listed(Vec<K>),
    /// The object is new or has changed.
    Applied(K),
    /// The object is gone.
    Deleted(K),
}

/// A pod, in events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodName {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What is known of a VolumeAttachment.
#[derive(Debug, Clone)]
struct Attachment {
    node: String,
    facts: AttachmentFacts,
    /// The PersistentVolume that it names.
    persistent_volume: Option<String>,
    detach_error: Option<String>,
    version: Version,
    /// Made by this program, and not shown by the watch yet: the lists that had begun then.
    created_in: Option<u64>,
}

/// A version of an object. Versions of one kind are numbers that grow (Kubernetes 1.35, KEP 5504),
/// without leading zeros.
type Version = (usize, String);

/// What is known of the cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    pods: HashMap<Key, Pod>,
    pods_of_node: HashMap<String, BTreeSet<Key>>,
    pods_of_claim: HashMap<Key, BTreeSet<Key>>,
    claims: HashMap<Key, PersistentVolumeClaim>,
    volumes: HashMap<String, PersistentVolume>,
    /// `spec.attachRequired`, by driver.
    drivers: HashMap<String, bool>,
    nodes: HashMap<String, (NodeFacts, Version)>,
    /// The ids of nodes as drivers know them, by node and driver.
    node_ids: HashMap<String, BTreeMap<String, String>>,
    /// The nodes whose `status.volumesAttached` has a volume, by its unique name.
    listed: HashMap<String, Nodes>,
    attachments: HashMap<String, Attachment>,
    attachments_of_node: HashMap<String, BTreeSet<String>>,
    attachments_of_volume: HashMap<String, BTreeSet<String>>,
    /// By PersistentVolume.
    attachments_of_object: HashMap<String, BTreeSet<String>>,
    /// Attachments whose volume is not known.
    unidentified: BTreeSet<String>,
    /// The UIDs of VolumeAttachments that this program has deleted and the watch still shows.
    gone: HashSet<String>,
    /// How often a list of VolumeAttachments has begun.
    lists: u64,
    /// The nodes that wait until other nodes release a volume.
    waiting: HashMap<String, Nodes>,
    /// Since when an attachment is not wanted, by node.
    unwanted_since: HashMap<String, BTreeMap<String, Instant>>,
}

impl ClusterState {
    /// Pods have changed.
    pub(super) fn pods(&mut self, change: Change<Pod>) -> Nodes {
        let mut nodes = Nodes::new();
        match change {
            Change::Begun => {}
            Change::Listed(pods) => {
                let listed: HashSet<Key> = pods.iter().map(key).collect();
                let gone: Vec<Key> = self.pods.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.remove_pod(key, &mut nodes));
                pods.into_iter().for_each(|pod| self.put_pod(pod, &mut nodes));
            }
            Change::Applied(pod) => self.put_pod(pod, &mut nodes),
            Change::Deleted(pod) => self.remove_pod(&key(&pod), &mut nodes),
        }
        nodes
    }

    fn put_pod(&mut self, mut pod: Pod, nodes: &mut Nodes) {
        let key = key(&pod);
        pod.spec.volumes.retain(may_attach);
        let Some(node) = pod.spec.node_name.clone().filter(|node| !node.is_empty() && !pod.spec.volumes.is_empty())
        else {
            // A pod of this name may have been replaced meanwhile.
            return self.remove_pod(&key, nodes);
        };
        pod.metadata.managed_fields = None;
        let is_same = self.pods.get(&key).is_some_and(|before| {
            before.metadata.uid == pod.metadata.uid
                && before.has_ended() == pod.has_ended()
                && before.spec.node_name == pod.spec.node_name
        });
        if is_same {
            self.pods.insert(key, pod);
            return;
        }
        self.remove_pod(&key, nodes);
        for claim in claims_of(&pod) {
            self.pods_of_claim.entry((key.0.clone(), claim)).or_default().insert(key.clone());
        }
        self.pods_of_node.entry(node.clone()).or_default().insert(key.clone());
        self.pods.insert(key, pod);
        nodes.insert(node);
    }

    fn remove_pod(&mut self, key: &Key, nodes: &mut Nodes) {
        let Some(pod) = self.pods.remove(key) else { return };
        for claim in claims_of(&pod) {
            remove(&mut self.pods_of_claim, &(key.0.clone(), claim), key);
        }
        if let Some(node) = pod.spec.node_name {
            remove(&mut self.pods_of_node, &node, key);
            nodes.insert(node);
        }
    }

    /// Claims have changed.
    pub(super) fn claims(&mut self, change: Change<PersistentVolumeClaim>) -> Nodes {
        let mut changed = Vec::new();
        match change {
            Change::Begun => {}
            Change::Listed(claims) => {
                let before = std::mem::take(&mut self.claims);
                changed.extend(before.into_keys());
                for claim in claims {
                    changed.push(key(&claim));
                    self.claims.insert(key(&claim), claim);
                }
            }
            Change::Applied(mut claim) => {
                claim.metadata.managed_fields = None;
                changed.push(key(&claim));
                self.claims.insert(key(&claim), claim);
            }
            Change::Deleted(claim) => {
                self.claims.remove(&key(&claim));
                changed.push(key(&claim));
            }
        }
        changed.iter().flat_map(|claim| self.nodes_of_claim(claim)).collect()
    }

    fn nodes_of_claim(&self, claim: &Key) -> Nodes {
        let pods = self.pods_of_claim.get(claim).into_iter().flatten().filter_map(|pod| self.pods.get(pod));
        pods.filter_map(|pod| pod.spec.node_name.clone()).collect()
    }

    /// PersistentVolumes have changed.
    pub(super) fn volumes(&mut self, change: Change<PersistentVolume>) -> Nodes {
        let mut nodes = Nodes::new();
        match change {
            Change::Begun => {}
            Change::Listed(volumes) => {
                let listed: HashSet<&str> = volumes.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
                let gone = self.volumes.keys().filter(|name| !listed.contains(name.as_str())).cloned();
                let gone: Vec<String> = gone.collect();
                gone.iter().for_each(|name| self.remove_volume(name, &mut nodes));
                volumes.into_iter().for_each(|volume| self.put_volume(volume, &mut nodes));
            }
            Change::Applied(volume) => self.put_volume(volume, &mut nodes),
            Change::Deleted(volume) => self.remove_volume(&volume.metadata.name.unwrap_or_default(), &mut nodes),
        }
        nodes
    }

    fn put_volume(&mut self, mut volume: PersistentVolume, nodes: &mut Nodes) {
        let Some(name) = volume.metadata.name.clone() else { return };
        volume.metadata.managed_fields = None;
        volume.status = None;
        if let Some(before) = self.volumes.get_mut(&name).filter(|before| before.spec == volume.spec) {
            // Its finalizers may have changed.
            *before = volume;
            return;
        }
        self.mark_volume(&name, nodes);
        self.volumes.insert(name.clone(), volume);
        self.mark_volume(&name, nodes);
        let named = self.attachments_of_object.get(&name).cloned().unwrap_or_default();
        for attachment in named {
            let Some(mut known) = self.take_attachment(&attachment) else { continue };
            known.facts.volume = self.volume_of(&name).or(known.facts.volume);
            known.facts.is_own = is_own(&attachment, &known);
            nodes.insert(known.node.clone());
            self.insert_attachment(attachment, known);
        }
    }

    fn remove_volume(&mut self, name: &str, nodes: &mut Nodes) {
        self.mark_volume(name, nodes);
        // Attachments stay known as those of their volume.
        self.volumes.remove(name);
    }

    fn mark_volume(&self, name: &str, nodes: &mut Nodes) {
        let claim = self.volumes.get(name).and_then(|volume| volume.spec.as_ref()?.claim_ref.as_ref());
        let claim = claim.and_then(|claim| Some((claim.namespace.clone()?, claim.name.clone()?)));
        nodes.extend(claim.iter().flat_map(|claim| self.nodes_of_claim(claim)));
    }

    /// The unique name of a PersistentVolume of a CSI driver, or of what it was translated from.
    fn volume_of(&self, name: &str) -> Option<String> {
        csi_name(migrated::as_csi(self.volumes.get(name)?).ok()?.spec.as_ref()?)
    }

    /// CSIDriver objects have changed.
    pub(super) fn drivers(&mut self, change: Change<CSIDriver>) -> Nodes {
        let before = self.drivers.clone();
        let name = |driver: &CSIDriver| driver.metadata.name.clone().unwrap_or_default();
        let requires = |driver: &CSIDriver| driver.spec.attach_required.unwrap_or(true);
        match change {
            Change::Begun => {}
            Change::Listed(drivers) => {
                self.drivers = drivers.iter().map(|driver| (name(driver), requires(driver))).collect();
            }
            Change::Applied(driver) => drop(self.drivers.insert(name(&driver), requires(&driver))),
            Change::Deleted(driver) => drop(self.drivers.remove(&name(&driver))),
        }
        // Rare, and any pod may have its volumes.
        if before == self.drivers { Nodes::new() } else { self.pods_of_node.keys().cloned().collect() }
    }

    /// CSINodes have changed: a node's id decides how an attachment is created, not whether.
    pub(super) fn csi_nodes(&mut self, change: Change<CSINode>) -> Nodes {
        let name = |node: &CSINode| node.metadata.name.clone().unwrap_or_default();
        let ids = |node: CSINode| node.spec.drivers.into_iter().map(|driver| (driver.name, driver.node_id)).collect();
        match change {
            Change::Begun => {}
            Change::Listed(nodes) => {
                self.node_ids = nodes.into_iter().map(|node| (name(&node), ids(node))).collect();
            }
            Change::Applied(node) => drop(self.node_ids.insert(name(&node), ids(node))),
            Change::Deleted(node) => drop(self.node_ids.remove(&name(&node))),
        }
        Nodes::new()
    }

    /// Nodes have changed.
    pub(super) fn nodes(&mut self, change: Change<Node>) -> Nodes {
        let mut nodes = Nodes::new();
        match change {
            Change::Begun => {}
            Change::Listed(listed) => {
                let names: HashSet<&str> = listed.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
                let gone = self.nodes.keys().filter(|name| !names.contains(name.as_str())).cloned();
                let gone: Vec<String> = gone.collect();
                gone.iter().for_each(|name| self.remove_node(name, &mut nodes));
                listed.iter().for_each(|node| self.put_node(node, &mut nodes));
            }
            Change::Applied(node) => self.put_node(&node, &mut nodes),
            Change::Deleted(node) => self.remove_node(&node.metadata.name.unwrap_or_default(), &mut nodes),
        }
        nodes
    }

    fn put_node(&mut self, node: &Node, nodes: &mut Nodes) {
        let Some(name) = node.metadata.name.clone() else { return };
        let version = version(node);
        let facts = facts(&name, node);
        if let Some((before, shown)) = self.nodes.get_mut(&name) {
            let is_old = before.uid == facts.uid && *shown > version;
            if is_old || *before == facts {
                // A later version with the same facts is older than none that follows.
                if !is_old {
                    *shown = version;
                }
                return;
            }
        }
        self.forget_listed(&name, nodes);
        for entry in &facts.listed {
            self.listed.entry(entry.name.clone()).or_default().insert(name.clone());
        }
        self.nodes.insert(name.clone(), (facts, version));
        nodes.insert(name);
    }

    fn remove_node(&mut self, name: &str, nodes: &mut Nodes) {
        self.forget_listed(name, nodes);
        if self.nodes.remove(name).is_some() {
            nodes.insert(name.to_owned());
        }
    }

    fn forget_listed(&mut self, node: &str, nodes: &mut Nodes) {
        let Some((facts, _)) = self.nodes.get(node) else { return };
        for entry in facts.listed.clone() {
            remove(&mut self.listed, &entry.name, &node.to_owned());
            // If it is not listed again, another node may have it.
            nodes.extend(self.waiting.get(&entry.name).into_iter().flatten().cloned());
        }
    }

    /// What is known of a node.
    pub(super) fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name).map(|(facts, _)| facts)
    }

    /// The nodes that have objects.
    pub(super) fn all_nodes(&self) -> Nodes {
        let nodes = self.nodes.keys().chain(self.attachments_of_node.keys()).chain(self.pods_of_node.keys());
        nodes.cloned().collect()
    }
}

impl Objects for ClusterState {
    fn claim(&self, namespace: &str, name: &str) -> Option<&PersistentVolumeClaim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name)
    }

    fn requires_attach(&self, driver: &str) -> bool {
        self.drivers.get(driver).copied().unwrap_or(true)
    }
}

/// The fields of a node that attaching depends on.
pub(super) fn facts(name: &str, node: &Node) -> NodeFacts {
    NodeFacts {
        uid: node.metadata.uid.clone().unwrap_or_default(),
        is_managed: node.is_managed(),
        keeps_terminated: node.keeps_terminated(),
        is_ready: node.is_ready(),
        is_out_of_service: node.is_out_of_service(),
        listed: node.volumes_attached().to_vec(),
        in_use: node.volumes_in_use().iter().map(|volume| names::attachment(volume, name)).collect(),
    }
}

fn claims_of(pod: &Pod) -> Vec<String> {
    pod.spec.volumes.iter().filter_map(|volume| source::claim_name(pod, volume)).collect()
}

fn pod_name(pod: &Pod) -> PodName {
    let (namespace, name) = key(pod);
    PodName { namespace, name, uid: pod.metadata.uid.clone().unwrap_or_default() }
}

fn key(object: &impl Resource) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

fn version(object: &impl Resource) -> Version {
    let version = object.meta().resource_version.clone().unwrap_or_default();
    (version.len(), version)
}

fn remove<K: Eq + std::hash::Hash, V: Ord>(index: &mut HashMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}
