//! What the pods of a node want, and the plan that follows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Attachment, ClusterState, Key, Nodes, PodName, Version, pod_name};
use crate::attach_detach::names;
use crate::attach_detach::objects::Pod;
use crate::attach_detach::plan::{AttachmentFacts, NodePlan, NodeView, Stage, Wanted, plan};
use crate::attach_detach::source::{self, Flex, Resolved, Unknown, resolve};
use crate::protection;

/// The plan for a node, with what its execution needs to know.
#[derive(Debug)]
pub(in crate::attach_detach) struct Planned {
    pub(in crate::attach_detach) plan: NodePlan,
    pub(in crate::attach_detach) wanted: BTreeMap<String, Wanted>,
    /// The UID of the node.
    pub(in crate::attach_detach) node_uid: Option<String>,
    /// The metadata of VolumeAttachments that are created protected, by their names.
    pub(in crate::attach_detach) protected: BTreeMap<String, ObjectMeta>,
    /// The pods that want an attachment.
    pub(in crate::attach_detach) pods: BTreeMap<String, Vec<PodName>>,
    /// For attachments that wait: the pods that use the volume on other nodes.
    pub(in crate::attach_detach) users: BTreeMap<String, Vec<PodName>>,
    /// For attachments that wait: why the volume cannot be detached.
    pub(in crate::attach_detach) detach_errors: BTreeMap<String, String>,
    /// The errors of attachments that are wanted.
    pub(in crate::attach_detach) attach_errors: BTreeMap<String, String>,
    /// The volumes that wait until a FlexVolume driver's program has attached them, and their pods.
    pub(in crate::attach_detach) flex: BTreeMap<Flex, Vec<PodName>>,
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
    /// Plans for a node. VolumeAttachments that the plan creates are known from now on, and keep
    /// their volumes from other nodes until [`ClusterState::wrote_attachment`],
    /// [`ClusterState::not_created`] or [`ClusterState::may_be_created`].
    pub(in crate::attach_detach) fn plan(
        &mut self,
        node: &str,
        force_after: Option<Duration>,
        now: Instant,
    ) -> Planned {
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
    pub(in crate::attach_detach) fn counts(&self) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
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
