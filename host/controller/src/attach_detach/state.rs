//! What is known of the cluster, by node and by volume, and which nodes a change concerns. Pure.
//!
//! Nothing here walks over all pods when one object changes: pods are found by their node and by
//! their claims, attachments by their node and their volume.
//!
//! # Guarantees
//! - An attachment that this program creates is known before the request is sent, so that no other
//!   node gets its volume meanwhile. It stays known until the API server says that it is not there.
//! - What this program has written is not replaced by an older version that a watch shows later.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::names;
use super::objects::{Node, PersistentVolumeClaim, Pod};
use super::plan::{AttachmentFacts, NodeFacts, NodePlan, NodeView, Stage, Wanted, plan};
use super::source::{self, Flex, Objects, Resolved, Unknown, csi_name, may_attach, resolve};
use crate::{migrated, protection};

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

/// The plan for a node, with what its execution needs to know.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: NodePlan,
    pub(super) wanted: BTreeMap<String, Wanted>,
    /// The UID of the node.
    pub(super) node_uid: Option<String>,
    /// The metadata of VolumeAttachments that are created protected, by their names.
    pub(super) protected: BTreeMap<String, ObjectMeta>,
    /// The pods that want an attachment.
    pub(super) pods: BTreeMap<String, Vec<PodName>>,
    /// For attachments that wait: the pods that use the volume on other nodes.
    pub(super) users: BTreeMap<String, Vec<PodName>>,
    /// For attachments that wait: why the volume cannot be detached.
    pub(super) detach_errors: BTreeMap<String, String>,
    /// The errors of attachments that are wanted.
    pub(super) attach_errors: BTreeMap<String, String>,
    /// The volumes that wait until a FlexVolume driver's program has attached them, and their pods.
    pub(super) flex: BTreeMap<Flex, Vec<PodName>>,
}

/// What the pods of a node want.
#[derive(Default)]
struct Wants {
    /// Volumes that are attached, by attachment.
    wanted: BTreeMap<String, Wanted>,
    /// The pods that want an attachment.
    pods: BTreeMap<String, Vec<PodName>>,
    /// The pods that lack objects.
    unknown: Vec<(Key, Unknown)>,
    /// The volumes of FlexVolume drivers.
    flex: BTreeMap<Flex, Vec<PodName>>,
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

    /// VolumeAttachments have changed.
    pub(super) fn attachments(&mut self, change: Change<VolumeAttachment>) -> Nodes {
        let mut nodes = Nodes::new();
        match change {
            Change::Begun => self.lists = self.lists.saturating_add(1),
            Change::Listed(listed) => {
                let names: HashSet<&str> = listed.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
                let lists = self.lists;
                // What was made after the list was asked for need not be in it.
                let is_gone = |(name, known): &(&String, &Attachment)| {
                    !names.contains(name.as_str()) && known.created_in.is_none_or(|begun| begun < lists)
                };
                let gone = self.attachments.iter().filter(is_gone).map(|(name, _)| name.clone());
                let gone: Vec<String> = gone.collect();
                gone.iter().for_each(|name| self.drop_attachment(name, &mut nodes));
                let shown: HashSet<&String> = listed.iter().filter_map(|one| one.metadata.uid.as_ref()).collect();
                self.gone.retain(|uid| shown.contains(uid));
                listed.iter().for_each(|one| self.put_attachment(one, false, &mut nodes));
            }
            Change::Applied(attachment) => self.put_attachment(&attachment, false, &mut nodes),
            Change::Deleted(attachment) => {
                let uid = attachment.metadata.uid.unwrap_or_default();
                self.gone.remove(&uid);
                let name = attachment.metadata.name.unwrap_or_default();
                let is_other = |known: &Attachment| known.facts.uid.as_ref().is_some_and(|known| *known != uid);
                if !self.attachments.get(&name).is_some_and(is_other) {
                    self.drop_attachment(&name, &mut nodes);
                }
            }
        }
        nodes
    }

    /// This program has written this VolumeAttachment: the API server's answer.
    pub(super) fn wrote_attachment(&mut self, attachment: &VolumeAttachment) -> Nodes {
        let mut nodes = Nodes::new();
        self.put_attachment(attachment, true, &mut nodes);
        nodes
    }

    /// The VolumeAttachment of this name was not created.
    pub(super) fn not_created(&mut self, name: &str) -> Nodes {
        let mut nodes = Nodes::new();
        if self.attachments.get(name).is_some_and(|known| known.facts.uid.is_none()) {
            self.drop_attachment(name, &mut nodes);
        }
        nodes
    }

    /// Whether the VolumeAttachment of this name was created is not known.
    pub(super) fn may_be_created(&mut self, name: &str) {
        if let Some(known) = self.attachments.get_mut(name).filter(|known| known.facts.uid.is_none()) {
            known.facts.stage = Stage::Uncertain;
        }
    }

    /// The API server says that this VolumeAttachment is gone.
    pub(super) fn deleted_attachment(&mut self, name: &str, uid: Option<&str>) -> Nodes {
        let mut nodes = Nodes::new();
        let known = self.attachments.get(name).map(|known| known.facts.uid.as_deref());
        if known == Some(uid) {
            self.gone.extend(uid.map(str::to_owned));
            self.drop_attachment(name, &mut nodes);
        }
        nodes
    }

    fn put_attachment(&mut self, object: &VolumeAttachment, is_answer: bool, nodes: &mut Nodes) {
        let Some(name) = object.metadata.name.clone() else { return };
        let uid = object.metadata.uid.clone();
        if uid.as_ref().is_some_and(|uid| self.gone.contains(uid)) {
            return;
        }
        let version = version(object);
        let before = self.attachments.get(&name);
        let is_old = |known: &&Attachment| known.facts.uid == uid && known.version >= version;
        if before.is_some_and(|known| is_old(&known)) {
            if let Some(known) = self.attachments.get_mut(&name).filter(|_| !is_answer) {
                known.created_in = None;
            }
            return;
        }
        let before = self.take_attachment(&name);
        let status = object.status.as_ref();
        let error = |error: Option<&k8s_openapi::api::storage::v1::VolumeError>| {
            error.and_then(|error| error.message.clone()).filter(|message| !message.is_empty())
        };
        let stage = match (&object.metadata.deletion_timestamp, status.is_some_and(|status| status.attached)) {
            (Some(_), _) => Stage::Detaching,
            (None, true) => Stage::Attached,
            (None, false) => Stage::Attaching,
        };
        let source = &object.spec.source;
        let inline = source.inline_volume_spec.as_ref().and_then(csi_name);
        let persistent_volume = source.persistent_volume_name.clone();
        let volume = inline.or_else(|| self.volume_of(persistent_volume.as_deref()?));
        // An answer to a creation: until the watch shows it, a list may be older than it.
        let created_in = match &before {
            Some(before) if before.facts.uid == uid => before.created_in,
            _ => Some(self.lists),
        };
        let mut known = Attachment {
            node: object.spec.node_name.clone(),
            facts: AttachmentFacts {
                stage,
                uid,
                is_own: false,
                volume: volume.or_else(|| before.as_ref()?.facts.volume.clone()),
                attach_error: error(status.and_then(|status| status.attach_error.as_ref())),
            },
            persistent_volume,
            detach_error: error(status.and_then(|status| status.detach_error.as_ref())),
            version,
            created_in: created_in.filter(|_| is_answer),
        };
        known.facts.is_own = is_own(&name, &known);
        nodes.insert(known.node.clone());
        let is_same_error = before.as_ref().is_some_and(|before| before.detach_error == known.detach_error);
        if let (false, Some(volume)) = (is_same_error, &known.facts.volume) {
            nodes.extend(self.waiting.get(volume).into_iter().flatten().cloned());
        }
        self.insert_attachment(name, known);
    }

    fn drop_attachment(&mut self, name: &str, nodes: &mut Nodes) {
        let Some(known) = self.take_attachment(name) else { return };
        if let Some(since) = self.unwanted_since.get_mut(&known.node) {
            since.remove(name);
        }
        nodes.insert(known.node);
        match &known.facts.volume {
            Some(volume) => nodes.extend(self.waiting.get(volume).into_iter().flatten().cloned()),
            // Of which volume it was, is not known.
            None => nodes.extend(self.waiting.values().flatten().cloned()),
        }
    }

    fn take_attachment(&mut self, name: &str) -> Option<Attachment> {
        let known = self.attachments.remove(name)?;
        let name = name.to_owned();
        remove(&mut self.attachments_of_node, &known.node, &name);
        match &known.facts.volume {
            Some(volume) => remove(&mut self.attachments_of_volume, volume, &name),
            None => drop(self.unidentified.remove(&name)),
        }
        if let Some(object) = &known.persistent_volume {
            remove(&mut self.attachments_of_object, object, &name);
        }
        Some(known)
    }

    fn insert_attachment(&mut self, name: String, known: Attachment) {
        self.attachments_of_node.entry(known.node.clone()).or_default().insert(name.clone());
        match &known.facts.volume {
            Some(volume) => drop(self.attachments_of_volume.entry(volume.clone()).or_default().insert(name.clone())),
            None => drop(self.unidentified.insert(name.clone())),
        }
        if let Some(object) = &known.persistent_volume {
            self.attachments_of_object.entry(object.clone()).or_default().insert(name.clone());
        }
        self.attachments.insert(name, known);
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

    /// Plans for a node. VolumeAttachments that the plan creates are known from now on, and keep
    /// their volumes from other nodes until [`ClusterState::wrote_attachment`],
    /// [`ClusterState::not_created`] or [`ClusterState::may_be_created`].
    pub(super) fn plan(&mut self, node: &str, force_after: Option<Duration>, now: Instant) -> Planned {
        let Wants { wanted, pods, unknown, mut flex } = self.wanted(node);
        for nodes in self.waiting.values_mut() {
            nodes.remove(node);
        }
        self.waiting.retain(|_, nodes| !nodes.is_empty());
        let names = self.attachments_of_node.get(node);
        let known = |name: &String| Some((name.clone(), self.attachments.get(name)?.facts.clone()));
        let attachments: BTreeMap<_, _> = names.into_iter().flatten().filter_map(known).collect();
        let held = |name: &&String| unknown.iter().any(|(pod, unknown)| self.may_be(name, pod, unknown));
        let held = attachments.keys().filter(held).cloned().collect();
        let since = self.unwanted_since.entry(node.to_owned()).or_default();
        since.retain(|name, _| !wanted.contains_key(name));
        let facts = self.nodes.get(node).map(|(facts, _)| facts);
        let listed = facts.iter().flat_map(|facts| &facts.listed).map(|entry| &entry.name);
        let alone = listed.filter(|volume| names::is_listed_alone(volume));
        for name in attachments.keys().chain(alone).filter(|name| !wanted.contains_key(*name)) {
            since.entry(name.clone()).or_insert(now);
        }
        let view = NodeView {
            name: node,
            node: facts,
            wanted,
            held,
            holds_listed: !unknown.is_empty(),
            attachments,
            unwanted_since: since.clone(),
        };
        let plan = plan(&view, force_after, now);
        let node_uid = facts.map(|facts| facts.uid.clone());
        flex.retain(|volume, _| facts.is_some_and(|facts| facts.waits_for(volume)));
        let NodeView { wanted, attachments, .. } = view;
        if since.is_empty() {
            self.unwanted_since.remove(node);
        }
        let attach_errors = attachments.into_iter().filter(|(name, _)| wanted.contains_key(name));
        let attach_errors = attach_errors.filter_map(|(name, facts)| Some((name, facts.attach_error?))).collect();
        let (mut users, mut detach_errors) = (BTreeMap::new(), BTreeMap::new());
        for name in &plan.blocked {
            let Some(wanted) = wanted.get(name) else { continue };
            let volume = &wanted.source.volume;
            self.waiting.entry(volume.clone()).or_default().insert(node.to_owned());
            let others = wanted.elsewhere.iter().flat_map(|other| self.pods_with(volume, other));
            users.insert(name.clone(), others.collect());
            let others = self.attachments_of_volume.get(volume).into_iter().flatten();
            let error = others.filter_map(|other| self.attachments.get(other)?.detach_error.clone()).next();
            detach_errors.extend(error.map(|error| (name.clone(), error)));
        }
        let mut protected = BTreeMap::new();
        for name in &plan.create {
            if let Some(wanted) = wanted.get(name) {
                self.reserve(name, node, wanted);
                protected.extend(self.protection(node, wanted).map(|metadata| (name.clone(), metadata)));
            }
        }
        Planned { plan, wanted, node_uid, protected, pods, users, detach_errors, attach_errors, flex }
    }

    /// The metadata of a VolumeAttachment that is created protected; none if its attacher has to
    /// protect it.
    fn protection(&self, node: &str, wanted: &Wanted) -> Option<ObjectMeta> {
        let source::Through::Driver { driver, source } = &wanted.source.through else { return None };
        let volume = self.volumes.get(source.persistent_volume_name.as_ref()?)?;
        protection::metadata(volume, driver, self.node_ids.get(node)?.get(driver)?)
    }

    fn reserve(&mut self, name: &str, node: &str, wanted: &Wanted) {
        let persistent_volume = match &wanted.source.through {
            source::Through::Driver { source, .. } => source.persistent_volume_name.clone(),
            source::Through::Node => None,
        };
        drop(self.take_attachment(name));
        let facts = AttachmentFacts {
            stage: Stage::Creating,
            uid: None,
            is_own: true,
            volume: Some(wanted.source.volume.clone()),
            attach_error: None,
        };
        let known = Attachment {
            node: node.to_owned(),
            facts,
            persistent_volume,
            detach_error: None,
            version: Version::default(),
            // Until the answer: no list may drop it.
            created_in: Some(u64::MAX),
        };
        self.insert_attachment(name.to_owned(), known);
    }

    /// What the pods of a node want.
    fn wanted(&self, node: &str) -> Wants {
        let keeps = self.node(node).is_some_and(|facts| facts.keeps_terminated);
        let mut wants = Wants::default();
        let add = |users: &mut Vec<PodName>, pod: &Pod| {
            let pod = pod_name(pod);
            if !users.contains(&pod) {
                users.push(pod);
            }
        };
        for key in self.pods_of_node.get(node).into_iter().flatten() {
            let Some(pod) = self.pods.get(key).filter(|pod| keeps || !pod.has_ended()) else { continue };
            for volume in &pod.spec.volumes {
                let source = match resolve(pod, volume, self) {
                    Resolved::Attached(source) => source,
                    Resolved::NotAttached => continue,
                    Resolved::Flex(flex) => {
                        add(wants.flex.entry(flex).or_default(), pod);
                        continue;
                    }
                    Resolved::Unknown(what) => {
                        wants.unknown.push((key.clone(), what));
                        continue;
                    }
                };
                let name = names::attachment(&source.volume, node);
                add(wants.pods.entry(name.clone()).or_default(), pod);
                let elsewhere = if source.is_exclusive { self.elsewhere(&source.volume, node) } else { Nodes::new() };
                wants.wanted.entry(name).or_insert(Wanted { source, elsewhere });
            }
        }
        wants
    }

    /// The other nodes that have a volume, or may have it.
    fn elsewhere(&self, volume: &str, node: &str) -> Nodes {
        let attached = self.attachments_of_volume.get(volume).into_iter().flatten();
        let attached = attached.filter_map(|name| Some(&self.attachments.get(name)?.node));
        let is_of = |(name, known): &(&String, &Attachment)| names::attachment(volume, &known.node) == **name;
        let unidentified = self.unidentified.iter().filter_map(|name| Some((name, self.attachments.get(name)?)));
        let unidentified = unidentified.filter(is_of).map(|(_, known)| &known.node);
        let listed = self.listed.get(volume).into_iter().flatten();
        attached.chain(unidentified).chain(listed).filter(|other| *other != node).cloned().collect()
    }

    /// Whether the attachment may be that of a pod's volume whose objects are missing.
    fn may_be(&self, attachment: &str, pod: &Key, unknown: &Unknown) -> bool {
        let named = self.attachments.get(attachment).and_then(|known| known.persistent_volume.as_deref());
        match unknown {
            Unknown::Volume(name) => named == Some(name),
            Unknown::Claim(name) => {
                let Some(named) = named else { return false };
                let Some(volume) = self.volumes.get(named) else { return true };
                let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
                claim.is_some_and(|claim| claim.namespace.as_ref() == Some(&pod.0) && claim.name.as_ref() == Some(name))
            }
        }
    }

    /// The pods of a node that want this volume.
    fn pods_with(&self, volume: &str, node: &str) -> Vec<PodName> {
        self.wanted(node).pods.remove(&names::attachment(volume, node)).unwrap_or_default()
    }

    /// Counts volumes by plugin: those that pods want on a node, and those that are attached to one.
    pub(super) fn counts(&self) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
        let mut desired: BTreeMap<String, i64> = BTreeMap::new();
        for node in self.pods_of_node.keys() {
            for wanted in self.wanted(node).wanted.values() {
                let count = desired.entry(names::plugin_of(&wanted.source.volume)).or_default();
                *count = count.saturating_add(1);
            }
        }
        let mut actual: BTreeMap<String, i64> = BTreeMap::new();
        for (volume, nodes) in &self.listed {
            let count = actual.entry(names::plugin_of(volume)).or_default();
            *count = count.saturating_add(i64::try_from(nodes.len()).unwrap_or(i64::MAX));
        }
        (desired, actual)
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

/// Whether Kubernetes' controller or this one has made it: its name says for which volume. Where the
/// volume is not known, its form must do.
fn is_own(name: &str, known: &Attachment) -> bool {
    match &known.facts.volume {
        Some(volume) => names::attachment(volume, &known.node) == name,
        None => names::is_attachment(name),
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
