//! Volumes that other nodes have.

use std::sync::Arc;

use volhost_model::Pod;
use volhost_runtime::{CallError, Capability, ErrorCase};

use super::made_volumes::{FAULT, is_told, refused};
use crate::lifecycle::{Lifecycle, LifecycleStep};
use crate::test_node::TestNode;
use crate::verdict::{CallResult, Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// The access modes of a volume that one node has at a time.
const OF_ONE_NODE: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];
/// The host call that asks a CSI driver.
const DRIVER_CALL: &str = "grpc";

/// A volume, and another node than this one.
struct OtherNode {
    lifecycle: Lifecycle,
    pod: Arc<Pod>,
    /// The other node, as `node.name` says it.
    node: String,
}

impl OtherNode {
    fn find(test_node: &TestNode) -> Verdict<Self> {
        if !test_node.plugin.exports(Capability::OtherNodes) {
            return not_applicable("the plugin does not export other-nodes");
        }
        let (lifecycle, pod) = (test_node.lifecycle_to(LifecycleStep::Attach)?, test_node.pod("a")?);
        match test_node.case.other_nodes.first() {
            Some(node) => Ok(Self { lifecycle, pod, node: node.clone() }),
            None => not_applicable("the case file names no `otherNodes`, which the storage knows"),
        }
    }

    /// The other node has the volume from now on; its name in the storage's words.
    fn attach(&self, test_node: &TestNode) -> Verdict<String> {
        attach_for(test_node, &self.node, &self.lifecycle)
    }

    /// What the storage calls the other node, which has the volume no more.
    fn storages_name(&self, test_node: &TestNode) -> Verdict<String> {
        let name = self.attach(test_node)?;
        test_node.detach_for(&self.node, &self.lifecycle).or_fail(&format!("detach for node {}", self.node))?;
        Ok(name)
    }

    /// Takes the volume away from the other node, which this one knows by that name.
    fn detach_from(&self, test_node: &TestNode, name: &str, did: &str) -> Verdict {
        test_node.detach_from(&self.lifecycle, name, HostCallPlan::Watch).or_fail(did)
    }

    fn attach_here(&self, test_node: &TestNode, did: &str) -> Verdict {
        test_node.advance(&self.lifecycle, LifecycleStep::Attach, &self.pod, HostCallPlan::Watch)?.or_fail(did)
    }

    /// No other node has the volume.
    fn check_free(&self, test_node: &TestNode, did: &str) -> Verdict {
        match test_node.attached_to(&self.lifecycle).or_fail(&format!("{did}; then attached-to"))? {
            None => check_attached(test_node, &self.node, &self.lifecycle, did, false),
            Some(name) => fail(format!("{did}; then attached-to"), "no node", name),
        }
    }

    /// The other node has the volume.
    fn check_kept(&self, test_node: &TestNode, did: &str, name: &str) -> Verdict {
        let found = test_node.attached_to(&self.lifecycle).or_fail(&format!("{did}; then attached-to"))?;
        if found.as_deref() != Some(name) {
            return fail(format!("{did}; then attached-to"), name, format!("{found:?}"));
        }
        check_attached(test_node, &self.node, &self.lifecycle, did, true)
    }
}

fn attach_for(test_node: &TestNode, node: &str, lifecycle: &Lifecycle) -> Verdict<String> {
    let did = format!("attach for node {node}");
    test_node.attach_for(node, lifecycle).or_fail(&did)?;
    match test_node.attached_to(lifecycle).or_fail(&format!("{did}; then attached-to"))? {
        Some(name) => Ok(name),
        None => fail(format!("{did}; then attached-to"), "that node", "none"),
    }
}

/// Whether a node has the volume, as far as the plugin can say it.
fn check_attached(test_node: &TestNode, node: &str, lifecycle: &Lifecycle, did: &str, wanted: bool) -> Verdict {
    let did = format!("{did}; then are-attached for node {node}");
    match test_node.is_attached_for(node, lifecycle) {
        CallResult { result: Ok(found), .. } if found == wanted => Ok(()),
        CallResult { result: Err(CallError::Plugin(said)), .. } if said.case == ErrorCase::Unsupported => Ok(()),
        called => {
            let found = called.or_fail(&did)?;
            fail(did, format!("[{wanted}]"), format!("[{found}]"))
        }
    }
}

/// O1: the node that has it, each by a name of its own.
pub(super) fn names_the_node(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let mut names: Vec<(String, &String)> = Vec::new();
    for node in &test_node.case.other_nodes {
        let name = attach_for(test_node, node, &other_node.lifecycle)?;
        if let Some((_, first)) = names.iter().find(|(first, _)| *first == name) {
            let did = format!("attached-to of a volume that node {node} has, and that node {first} had before");
            return fail(did, "another name", format!("{name} again"));
        }
        names.push((name, node));
        let did = format!("detach for node {node}");
        test_node.detach_for(node, &other_node.lifecycle).or_fail(&did)?;
        other_node.check_free(test_node, &did)?;
    }
    Ok(())
}

/// O2: none, where no node has it, or this one alone.
pub(super) fn none_but_this_one(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    other_node.check_free(test_node, "nothing yet")?;
    other_node.attach_here(test_node, "attach")?;
    other_node.check_free(test_node, "attach for this node alone")?;
    test_node.bring_down(&other_node.lifecycle, &other_node.pod)
}

/// O3: asking changes nothing.
pub(super) fn asking_changes_nothing(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    for attached in [false, true] {
        if attached {
            other_node.attach(test_node)?;
        }
        let called = test_node.attached_to(&other_node.lifecycle);
        // What a driver does when it is asked is the driver's.
        if let Some(call) = called.calls.iter().find(|call| call.changes && call.name != DRIVER_CALL) {
            return fail("attached-to", "no host call that may change something", call.name.clone());
        }
    }
    Ok(())
}

/// O4: what is done for one node is done for that one.
pub(super) fn for_the_named_node(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let (node, lifecycle) = (&other_node.node, &other_node.lifecycle);
    let did = format!("attach for node {node}");
    let first = test_node.attach_for(node, lifecycle).or_fail(&did)?;
    let name = other_node.attach(test_node)?;
    let again = test_node.attach_for(node, lifecycle).or_fail(&format!("{did}, again"))?;
    if first != again {
        return fail(format!("{did}, again"), first, again);
    }
    other_node.check_kept(test_node, &did, &name)?;
    if test_node.is_up(lifecycle, LifecycleStep::Attach, &other_node.pod)? == Some(true) {
        return fail(format!("{did}; then are-attached for this node"), "[false]", "[true]");
    }
    let did = format!("{did}; then detach for this node");
    test_node.roll_back(lifecycle, LifecycleStep::Attach, &other_node.pod, HostCallPlan::Watch)?.or_fail(&did)?;
    other_node.check_kept(test_node, &did, &name)
}

/// O5: what only one node may have is refused to a second node, with the name of the first.
pub(super) fn conflict(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let modes = other_node.lifecycle.spec.persistent_volume.as_ref().map(|of| of.access_modes.as_slice());
    if modes.is_none_or(|modes| modes.iter().any(|mode| !OF_ONE_NODE.contains(&mode.as_str()))) {
        return not_applicable("several nodes may have the volume");
    }
    let name = other_node.attach(test_node)?;
    let did = format!("attach of a volume that node {} has", other_node.node);
    let called =
        test_node.advance(&other_node.lifecycle, LifecycleStep::Attach, &other_node.pod, HostCallPlan::Watch)?;
    let said = refused(&did, &ErrorCase::Conflict, called)?;
    if !said.contains(&name) {
        return fail(did, format!("a text that names {name}"), said);
    }
    other_node.check_kept(test_node, &did, &name)?;
    test_node.detach_for(&other_node.node, &other_node.lifecycle).or_fail("detach for the other node")?;
    other_node.attach_here(test_node, &format!("{did}, once that has let go"))?;
    test_node.bring_down(&other_node.lifecycle, &other_node.pod)
}

/// O6: it is gone from there, and comes here.
pub(super) fn detached_from(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let name = other_node.attach(test_node)?;
    let did = format!("detach-from {name}");
    other_node.detach_from(test_node, &name, &did)?;
    other_node.check_free(test_node, &did)?;
    other_node.attach_here(test_node, &format!("{did}; then attach"))?;
    test_node.bring_down(&other_node.lifecycle, &other_node.pod)
}

/// O7: on a node that does not have the volume, detach-from changes nothing; on this one neither.
pub(super) fn detached_from_twice(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let name = other_node.storages_name(test_node)?;
    let did = format!("detach-from {name} of a volume that no node has");
    other_node.detach_from(test_node, &name, &did)?;
    other_node.attach(test_node)?;
    other_node.detach_from(test_node, &name, &format!("detach-from {name}"))?;
    other_node.detach_from(test_node, &name, &format!("detach-from {name}, twice"))?;
    other_node.attach_here(test_node, "attach")?;
    let did = format!("detach-from {name} of a volume that this node has");
    other_node.detach_from(test_node, &name, &did)?;
    if test_node.is_up(&other_node.lifecycle, LifecycleStep::Attach, &other_node.pod)? == Some(false) {
        return fail(format!("{did}; then are-attached for this node"), "[true]", "[false]");
    }
    test_node.bring_down(&other_node.lifecycle, &other_node.pod)
}

/// O8: other volumes stay with the node.
pub(super) fn others_stay(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let other = OtherNode { lifecycle: test_node.lifecycle_of(test_node.other()?)?, ..OtherNode::find(test_node)? };
    let (name, others) = (other_node.attach(test_node)?, other.attach(test_node)?);
    let did = format!("detach-from {name} of one of two volumes");
    other_node.detach_from(test_node, &name, &did)?;
    other.check_kept(test_node, &format!("{did}; of the other"), &others)
}

/// The host calls of an undisturbed `detach-from`, and the name of the node that had the volume.
fn reference(test_node: &TestNode, other_node: &OtherNode) -> Verdict<(String, Vec<String>)> {
    let name = other_node.attach(test_node)?;
    let called = test_node.detach_from(&other_node.lifecycle, &name, HostCallPlan::Watch);
    let calls = called.calls.iter().map(|call| call.name.clone()).collect();
    called.or_fail(&format!("detach-from {name}")).map(|()| (name, calls))
}

/// O9: ended at any host call and repeated, it is gone from there.
pub(super) fn crash_then_repeat(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let (name, calls) = reference(test_node, &other_node)?;
    for (at, call) in calls.iter().enumerate() {
        other_node.attach(test_node)?;
        let _ = test_node.detach_from(&other_node.lifecycle, &name, HostCallPlan::EndAt(at));
        let did =
            format!("detach-from {name}, ended where its host call {} would begin, {call}; then repeated", at + 1);
        other_node.detach_from(test_node, &name, &did)?;
        other_node.check_free(test_node, &did)?;
    }
    Ok(())
}

/// O10: a fault is reported, and a repeat comes to the same.
pub(super) fn fault_then_repeat(test_node: &TestNode) -> Verdict {
    let other_node = OtherNode::find(test_node)?;
    let (name, calls) = reference(test_node, &other_node)?;
    for (at, call) in calls.iter().enumerate() {
        other_node.attach(test_node)?;
        let did = format!("detach-from {name}, its host call {}, {call}, failing with {}", at + 1, FAULT.1);
        match test_node.detach_from(&other_node.lifecycle, &name, HostCallPlan::FailAt(at, FAULT.0)).result {
            Ok(()) => other_node.check_free(test_node, &did)?,
            Err(error) => is_told(&did, &error)?,
        }
        let did = format!("{did}; then repeated");
        other_node.detach_from(test_node, &name, &did)?;
        other_node.check_free(test_node, &did)?;
    }
    Ok(())
}
