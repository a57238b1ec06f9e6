//! Volumes that other nodes have.

use std::sync::Arc;

use volhost_model::Pod;
use volhost_runtime::{CallError, Capability, ErrorCase};

use super::made_volumes::{FAULT, is_told, refused};
use crate::bench::Bench;
use crate::ladder::{Ladder, Rung};
use crate::verdict::{Called, Verdict, fail, not_applicable};
use crate::watch::Plan;

/// The access modes of a volume that one node has at a time.
const OF_ONE_NODE: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];
/// The host call that asks a CSI driver.
const DRIVER_CALL: &str = "grpc";

/// A volume, and another node than this one.
struct Elsewhere {
    ladder: Ladder,
    pod: Arc<Pod>,
    /// The other node, as `node.name` says it.
    node: String,
}

impl Elsewhere {
    fn find(bench: &Bench) -> Verdict<Self> {
        if !bench.plugin.exports(Capability::OtherNodes) {
            return not_applicable("the plugin does not export other-nodes");
        }
        let (ladder, pod) = (bench.ladder_to(Rung::Attach)?, bench.pod("a")?);
        match bench.case.other_nodes.first() {
            Some(node) => Ok(Self { ladder, pod, node: node.clone() }),
            None => not_applicable("the case file names no `otherNodes`, which the storage knows"),
        }
    }

    /// The other node has the volume from now on; its name in the storage's words.
    fn attach(&self, bench: &Bench) -> Verdict<String> {
        attach_for(bench, &self.node, &self.ladder)
    }

    /// What the storage calls the other node, which has the volume no more.
    fn storages_name(&self, bench: &Bench) -> Verdict<String> {
        let name = self.attach(bench)?;
        bench.detach_for(&self.node, &self.ladder).or_fail(&format!("detach for node {}", self.node))?;
        Ok(name)
    }

    /// Takes the volume away from the other node, which this one knows by that name.
    fn detach_from(&self, bench: &Bench, name: &str, did: &str) -> Verdict {
        bench.detach_from(&self.ladder, name, Plan::Watch).or_fail(did)
    }

    fn attach_here(&self, bench: &Bench, did: &str) -> Verdict {
        bench.up(&self.ladder, Rung::Attach, &self.pod, Plan::Watch)?.or_fail(did)
    }

    /// No other node has the volume.
    fn check_free(&self, bench: &Bench, did: &str) -> Verdict {
        match bench.attached_to(&self.ladder).or_fail(&format!("{did}; then attached-to"))? {
            None => check_attached(bench, &self.node, &self.ladder, did, false),
            Some(name) => fail(format!("{did}; then attached-to"), "no node", name),
        }
    }

    /// The other node has the volume.
    fn check_kept(&self, bench: &Bench, did: &str, name: &str) -> Verdict {
        let found = bench.attached_to(&self.ladder).or_fail(&format!("{did}; then attached-to"))?;
        if found.as_deref() != Some(name) {
            return fail(format!("{did}; then attached-to"), name, format!("{found:?}"));
        }
        check_attached(bench, &self.node, &self.ladder, did, true)
    }
}

fn attach_for(bench: &Bench, node: &str, ladder: &Ladder) -> Verdict<String> {
    let did = format!("attach for node {node}");
    bench.attach_for(node, ladder).or_fail(&did)?;
    match bench.attached_to(ladder).or_fail(&format!("{did}; then attached-to"))? {
        Some(name) => Ok(name),
        None => fail(format!("{did}; then attached-to"), "that node", "none"),
    }
}

/// Whether a node has the volume, as far as the plugin can say it.
fn check_attached(bench: &Bench, node: &str, ladder: &Ladder, did: &str, wanted: bool) -> Verdict {
    let did = format!("{did}; then are-attached for node {node}");
    match bench.is_attached_for(node, ladder) {
        Called { result: Ok(found), .. } if found == wanted => Ok(()),
        Called { result: Err(CallError::Plugin(said)), .. } if said.case == ErrorCase::Unsupported => Ok(()),
        called => {
            let found = called.or_fail(&did)?;
            fail(did, format!("[{wanted}]"), format!("[{found}]"))
        }
    }
}

/// O1: the node that has it, each by a name of its own.
pub(super) fn names_the_node(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let mut names: Vec<(String, &String)> = Vec::new();
    for node in &bench.case.other_nodes {
        let name = attach_for(bench, node, &elsewhere.ladder)?;
        if let Some((_, first)) = names.iter().find(|(first, _)| *first == name) {
            let did = format!("attached-to of a volume that node {node} has, and that node {first} had before");
            return fail(did, "another name", format!("{name} again"));
        }
        names.push((name, node));
        let did = format!("detach for node {node}");
        bench.detach_for(node, &elsewhere.ladder).or_fail(&did)?;
        elsewhere.check_free(bench, &did)?;
    }
    Ok(())
}

/// O2: none, where no node has it, or this one alone.
pub(super) fn none_but_this_one(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    elsewhere.check_free(bench, "nothing yet")?;
    elsewhere.attach_here(bench, "attach")?;
    elsewhere.check_free(bench, "attach for this node alone")?;
    bench.descend(&elsewhere.ladder, &elsewhere.pod)
}

/// O3: asking changes nothing.
pub(super) fn asking_changes_nothing(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    for attached in [false, true] {
        if attached {
            elsewhere.attach(bench)?;
        }
        let called = bench.attached_to(&elsewhere.ladder);
        // What a driver does when it is asked is the driver's.
        if let Some(call) = called.calls.iter().find(|call| call.changes && call.name != DRIVER_CALL) {
            return fail("attached-to", "no host call that may change something", call.name.clone());
        }
    }
    Ok(())
}

/// O4: what is done for one node is done for that one.
pub(super) fn for_the_node_that_is_named(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let (node, ladder) = (&elsewhere.node, &elsewhere.ladder);
    let did = format!("attach for node {node}");
    let first = bench.attach_for(node, ladder).or_fail(&did)?;
    let name = elsewhere.attach(bench)?;
    let again = bench.attach_for(node, ladder).or_fail(&format!("{did}, again"))?;
    if first != again {
        return fail(format!("{did}, again"), first, again);
    }
    elsewhere.check_kept(bench, &did, &name)?;
    if bench.is_up(ladder, Rung::Attach, &elsewhere.pod)? == Some(true) {
        return fail(format!("{did}; then are-attached for this node"), "[false]", "[true]");
    }
    let did = format!("{did}; then detach for this node");
    bench.down(ladder, Rung::Attach, &elsewhere.pod, Plan::Watch)?.or_fail(&did)?;
    elsewhere.check_kept(bench, &did, &name)
}

/// O5: what only one node may have is refused to a second, which is told who has it.
pub(super) fn conflict(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let modes = elsewhere.ladder.spec.persistent_volume.as_ref().map(|of| of.access_modes.as_slice());
    if modes.is_none_or(|modes| modes.iter().any(|mode| !OF_ONE_NODE.contains(&mode.as_str()))) {
        return not_applicable("several nodes may have the volume");
    }
    let name = elsewhere.attach(bench)?;
    let did = format!("attach of a volume that node {} has", elsewhere.node);
    let called = bench.up(&elsewhere.ladder, Rung::Attach, &elsewhere.pod, Plan::Watch)?;
    let said = refused(&did, &ErrorCase::Conflict, called)?;
    if !said.contains(&name) {
        return fail(did, format!("a text that names {name}"), said);
    }
    elsewhere.check_kept(bench, &did, &name)?;
    bench.detach_for(&elsewhere.node, &elsewhere.ladder).or_fail("detach for the other node")?;
    elsewhere.attach_here(bench, &format!("{did}, once that has let go"))?;
    bench.descend(&elsewhere.ladder, &elsewhere.pod)
}

/// O6: it is gone from there, and comes here.
pub(super) fn taken_away(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let name = elsewhere.attach(bench)?;
    let did = format!("detach-from {name}");
    elsewhere.detach_from(bench, &name, &did)?;
    elsewhere.check_free(bench, &did)?;
    elsewhere.attach_here(bench, &format!("{did}; then attach"))?;
    bench.descend(&elsewhere.ladder, &elsewhere.pod)
}

/// O7: from a node that does not have it, nothing is taken away; from this one neither.
pub(super) fn taken_away_twice(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let name = elsewhere.storages_name(bench)?;
    let did = format!("detach-from {name} of a volume that no node has");
    elsewhere.detach_from(bench, &name, &did)?;
    elsewhere.attach(bench)?;
    elsewhere.detach_from(bench, &name, &format!("detach-from {name}"))?;
    elsewhere.detach_from(bench, &name, &format!("detach-from {name}, twice"))?;
    elsewhere.attach_here(bench, "attach")?;
    let did = format!("detach-from {name} of a volume that this node has");
    elsewhere.detach_from(bench, &name, &did)?;
    if bench.is_up(&elsewhere.ladder, Rung::Attach, &elsewhere.pod)? == Some(false) {
        return fail(format!("{did}; then are-attached for this node"), "[true]", "[false]");
    }
    bench.descend(&elsewhere.ladder, &elsewhere.pod)
}

/// O8: other volumes stay with the node.
pub(super) fn others_stay(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let other = bench.case.other().or_else(|why| fail("read the case file's `other`", "a volume", why))?;
    let Some(other) = other else { return not_applicable("the case file names no `other` volume") };
    let other = Elsewhere { ladder: bench.ladder_of(other)?, ..Elsewhere::find(bench)? };
    let (name, others) = (elsewhere.attach(bench)?, other.attach(bench)?);
    let did = format!("detach-from {name} of one of two volumes");
    elsewhere.detach_from(bench, &name, &did)?;
    other.check_kept(bench, &format!("{did}; of the other"), &others)
}

/// The host calls of an undisturbed `detach-from`, and the name of the node that had the volume.
fn reference(bench: &Bench, elsewhere: &Elsewhere) -> Verdict<(String, Vec<String>)> {
    let name = elsewhere.attach(bench)?;
    let called = bench.detach_from(&elsewhere.ladder, &name, Plan::Watch);
    let calls = called.calls.iter().map(|call| call.name.clone()).collect();
    called.or_fail(&format!("detach-from {name}")).map(|()| (name, calls))
}

/// O9: ended at any host call and repeated, it is gone from there.
pub(super) fn crash_then_repeat(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let (name, calls) = reference(bench, &elsewhere)?;
    for (at, call) in calls.iter().enumerate() {
        elsewhere.attach(bench)?;
        let _ = bench.detach_from(&elsewhere.ladder, &name, Plan::EndAt(at));
        let did =
            format!("detach-from {name}, ended where its host call {} would begin, {call}; then repeated", at + 1);
        elsewhere.detach_from(bench, &name, &did)?;
        elsewhere.check_free(bench, &did)?;
    }
    Ok(())
}

/// O10: a fault is told, and a repeat comes to the same.
pub(super) fn fault_then_repeat(bench: &Bench) -> Verdict {
    let elsewhere = Elsewhere::find(bench)?;
    let (name, calls) = reference(bench, &elsewhere)?;
    for (at, call) in calls.iter().enumerate() {
        elsewhere.attach(bench)?;
        let did = format!("detach-from {name}, its host call {}, {call}, failing with {}", at + 1, FAULT.1);
        match bench.detach_from(&elsewhere.ladder, &name, Plan::FailAt(at, FAULT.0)).result {
            Ok(()) => elsewhere.check_free(bench, &did)?,
            Err(error) => is_told(&did, &error)?,
        }
        let did = format!("{did}; then repeated");
        elsewhere.detach_from(bench, &name, &did)?;
        elsewhere.check_free(bench, &did)?;
    }
    Ok(())
}
