//! What is to be done for the volumes of one node, from what is known of it. Pure.
//!
//! ```text
//!  a pod wants it      VolumeAttachment            node.status            kubelet
//!  ------------------> created ------> attached -> volumesAttached -----> mounts (volumesInUse)
//!  no pod wants it                                 not in volumesInUse
//!  ------------------> out of volumesAttached ---> VolumeAttachment deleted
//! ```
//!
//! # Guarantees
//! - A volume that one node at a time may have is attached only if no other node has it.
//! - A volume is detached only if no pod on the node wants it or may want it, and if the kubelet
//!   does not report it in use, unless the node is gone, is out of service, or has not been ready
//!   at the end of the time that is given to it.
//! - A volume is out of `volumesAttached` before its VolumeAttachment is deleted.
//! - A VolumeAttachment of another maker, and a node that attaches by itself, are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::AttachedVolume;

use super::names;
use super::source::{Flex, Source, Through};

/// What is known of a node.
#[derive(Debug)]
pub(super) struct NodeView<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its object; none if it is gone.
    pub(super) node: Option<&'a NodeFacts>,
    /// What its pods want, by the name of the attachment.
    pub(super) wanted: BTreeMap<String, Wanted>,
    /// Attachments that a pod may want: some of its objects are missing.
    pub(super) held: BTreeSet<String>,
    /// Whether a pod may want any volume that has no VolumeAttachment.
    pub(super) holds_listed: bool,
    /// Its VolumeAttachments, by name.
    pub(super) attachments: BTreeMap<String, AttachmentFacts>,
    /// Since when an attachment is not wanted.
    pub(super) unwanted_since: BTreeMap<String, Instant>,
}

/// The fields of a node that attaching depends on.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct NodeFacts {
    /// The node's UID.
    pub(super) uid: String,
    /// The controller attaches, not the kubelet.
    pub(super) is_managed: bool,
    /// Volumes of pods that have ended stay.
    pub(super) keeps_terminated: bool,
    /// The kubelet reports that it is ready.
    pub(super) is_ready: bool,
    /// It has the taint of a node that is shut down.
    pub(super) is_out_of_service: bool,
    /// `status.volumesAttached`.
    pub(super) listed: Vec<AttachedVolume>,
    /// The attachments of `status.volumesInUse`.
    pub(super) in_use: BTreeSet<String>,
}

impl NodeFacts {
    /// Whether the node waits until this volume of a FlexVolume driver is attached. Only the node has
    /// the driver, and so knows whether it attaches: a volume that is not attached is never in use.
    pub(super) fn waits_for(&self, flex: &Flex) -> bool {
        let is_listed = |volume: &String| self.listed.iter().any(|entry| entry.name == *volume);
        let mut its = self.in_use.iter().filter(|volume| names::is_flex_volume(volume, &flex.driver, &flex.name));
        self.is_managed && its.any(|volume| !is_listed(volume))
    }
}

/// What pods want attached to a node.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The volume.
    pub(super) source: Source,
    /// The other nodes that have it.
    pub(super) elsewhere: BTreeSet<String>,
}

/// A VolumeAttachment of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AttachmentFacts {
    /// How far it is.
    pub(super) stage: Stage,
    /// The object's UID, once it is known.
    pub(super) uid: Option<String>,
    /// Whether Kubernetes' controller or this one has made it.
    pub(super) is_own: bool,
    /// The unique name of its volume, if it is known.
    pub(super) volume: Option<String>,
    /// `status.attachError`.
    pub(super) attach_error: Option<String>,
}

/// How far an attachment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being created.
    Creating,
    /// It may have been created: the API server's answer was lost.
    Uncertain,
    /// It exists, and is not attached yet.
    Attaching,
    /// It is attached.
    Attached,
    /// It is deleted, and is to be detached.
    Detaching,
}

/// Why a volume is detached that the kubelet reports in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Force {
    /// The node is not ready, and the time is over.
    Timeout,
    /// The node is out of service.
    OutOfService,
}

impl Force {
    /// The reason, as Kubernetes' metrics name it.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::OutOfService => "out-of-service",
        }
    }
}

/// A VolumeAttachment that is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Detach {
    /// Its name.
    pub(super) name: String,
    /// Its UID, if it is known.
    pub(super) uid: Option<String>,
    /// Why, though it is in use.
    pub(super) force: Option<Force>,
}

/// What is to be done for a node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NodePlan {
    /// VolumeAttachments to create, by name.
    pub(super) create: Vec<String>,
    /// The new `status.volumesAttached`; none if it need not be written.
    pub(super) list: Option<Vec<AttachedVolume>>,
    /// The attachments that are new in the list.
    pub(super) newly_listed: Vec<String>,
    /// VolumeAttachments to delete, once the list is written and does not show them in use.
    pub(super) detach: Vec<Detach>,
    /// Volumes that leave the list alone though they are in use.
    pub(super) forced: Vec<Force>,
    /// Attachments that wait for other nodes.
    pub(super) blocked: Vec<String>,
    /// When time alone may change the plan.
    pub(super) look_again: Option<Instant>,
}

/// Whether a volume may be detached.
enum Release {
    Now(Option<Force>),
    /// At this time at the latest.
    NotYet(Option<Instant>),
}

/// Plans for a node. `force_after`: how long a node that is not ready may keep a volume in use that
/// no pod wants.
pub(super) fn plan(view: &NodeView<'_>, force_after: Option<Duration>, now: Instant) -> NodePlan {
    let mut plan = NodePlan::default();
    if view.node.is_some_and(|node| !node.is_managed) {
        return plan;
    }
    let mut listed: BTreeMap<String, String> = BTreeMap::new();
    for (name, wanted) in &view.wanted {
        if is_attached(view, name, wanted) {
            listed.insert(name.clone(), wanted.source.volume.clone());
            continue;
        }
        let is_missing = match (&wanted.source.through, view.attachments.get(name)) {
            (Through::Driver { .. }, Some(attachment)) => attachment.stage == Stage::Uncertain,
            _ => true,
        };
        if view.node.is_none() || !is_missing {
            continue;
        }
        if wanted.source.is_exclusive && !wanted.elsewhere.is_empty() {
            plan.blocked.push(name.clone());
        } else if wanted.source.through == Through::Node {
            listed.insert(name.clone(), wanted.source.volume.clone());
        } else {
            plan.create.push(name.clone());
        }
    }
    let unwanted = view.attachments.iter().filter(|(name, facts)| facts.is_own && !view.wanted.contains_key(*name));
    for (name, facts) in unwanted {
        let release = match facts.stage {
            Stage::Creating | Stage::Detaching => continue,
            _ if view.held.contains(name) => Release::NotYet(None),
            _ => release(view, name, force_after, now),
        };
        match release {
            Release::Now(force) => plan.detach.push(Detach { name: name.clone(), uid: facts.uid.clone(), force }),
            Release::NotYet(at) => {
                plan.look_again = earlier(plan.look_again, at);
                if let (Stage::Attached, Some(volume)) = (facts.stage, &facts.volume) {
                    listed.insert(name.clone(), volume.clone());
                }
            }
        }
    }
    if let Some(node) = view.node {
        list(view, node, &listed, (force_after, now), &mut plan);
    }
    plan
}

/// Returns those that may be detached also as the node is now, after the list was written. The others
/// have come into use meanwhile.
pub(super) fn still_unused(detach: &[Detach], now: &NodeFacts) -> Vec<Detach> {
    detach.iter().filter(|one| one.force.is_some() || !now.in_use.contains(&one.name)).cloned().collect()
}

/// Whether a wanted volume is attached.
fn is_attached(view: &NodeView<'_>, name: &str, wanted: &Wanted) -> bool {
    match wanted.source.through {
        Through::Driver { .. } => view.attachments.get(name).is_some_and(|facts| facts.stage == Stage::Attached),
        Through::Node => view.node.is_some_and(|node| node.listed.iter().any(|entry| entry.name == name)),
    }
}

/// Whether a volume that no pod wants may be detached.
fn release(view: &NodeView<'_>, name: &str, force_after: Option<Duration>, now: Instant) -> Release {
    // Of a node that is gone, nothing is mounted.
    let Some(node) = view.node else { return Release::Now(None) };
    if !node.in_use.contains(name) {
        return Release::Now(None);
    }
    if node.is_out_of_service {
        return Release::Now(Some(Force::OutOfService));
    }
    let since = view.unwanted_since.get(name).copied().unwrap_or(now);
    // Without a limit, or with one beyond all time, only the kubelet ends the use.
    let Some(end) = force_after.and_then(|time| since.checked_add(time)) else { return Release::NotYet(None) };
    match (node.is_ready, end <= now) {
        (false, true) => Release::Now(Some(Force::Timeout)),
        // The node's next change is looked at anyway.
        (true, true) => Release::NotYet(None),
        (_, false) => Release::NotYet(Some(end)),
    }
}

/// Plans `status.volumesAttached`: entries keep their order.
fn list(
    view: &NodeView<'_>,
    node: &NodeFacts,
    listed: &BTreeMap<String, String>,
    (force_after, now): (Option<Duration>, Instant),
    plan: &mut NodePlan,
) {
    let mut shown = BTreeSet::new();
    let mut entries = Vec::new();
    for entry in &node.listed {
        let name = names::attachment(&entry.name, view.name);
        let stays = if listed.contains_key(&name) {
            true
        } else if names::is_listed_alone(&entry.name) {
            let release =
                if view.holds_listed { Release::NotYet(None) } else { release(view, &name, force_after, now) };
            match release {
                Release::Now(force) => {
                    plan.forced.extend(force);
                    false
                }
                Release::NotYet(at) => {
                    plan.look_again = earlier(plan.look_again, at);
                    true
                }
            }
        } else {
            // Of a kind that is not attached here; an entry without its VolumeAttachment is wrong.
            names::driver_of(&entry.name).is_none()
        };
        if stays && shown.insert(name) {
            entries.push(entry.clone());
        }
    }
    for (name, volume) in listed.iter().filter(|(name, _)| !shown.contains(*name)) {
        plan.newly_listed.push(name.clone());
        entries.push(AttachedVolume { device_path: String::new(), name: volume.clone() });
    }
    // Before a volume is detached, what the kubelet reports must be as new as the list.
    if entries != node.listed || !plan.detach.is_empty() {
        plan.list = Some(entries);
    }
}

/// Of two times, the earlier one.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
