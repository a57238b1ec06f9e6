//! Changing what made volumes are like.

use std::collections::BTreeMap;
use std::fmt;

use volhost_runtime::{Capability, ErrorCase, MadeVolume, WantedVolume};

use super::made_volumes::{FAULT, check_gone, create, is_told, listed, refused, wanted};
use crate::case_file::ModifySection;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// What no plugin knows. It is the last of the keys: a plugin that sets one after the other has set
/// those that it knows.
const UNKNOWN: &str = "zNoSuchParameter";

/// Mutable parameters.
type MutableParameters = BTreeMap<String, String>;

/// What a volume is like.
#[derive(Debug, Clone, PartialEq, Eq)]
struct VolumeAppearance {
    capacity: u64,
    /// In the words of the case file's program; none without one.
    shown: Option<String>,
}

impl fmt::Display for VolumeAppearance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.capacity)?;
        self.shown.as_ref().map_or(Ok(()), |shown| write!(f, ", shown as {shown:?}"))
    }
}

fn asked(test_node: &TestNode) -> Verdict<&ModifySection> {
    if !test_node.plugin.exports(Capability::Modifier) {
        return not_applicable("the plugin does not export modifier");
    }
    let Some(modify) = test_node.case.controller.as_ref().and_then(|of| of.modify.as_ref()) else {
        return not_applicable("the case file has no `controller.modify`, which says what to change");
    };
    Ok(modify)
}

/// The same, where what a volume is like can be looked at.
fn asked_and_shown(test_node: &TestNode) -> Verdict<&ModifySection> {
    match asked(test_node)? {
        of if of.shows.is_empty() => {
            not_applicable("the case file has no `controller.modify.shows`, which reads the values of a volume")
        }
        of => Ok(of),
    }
}

fn like(test_node: &TestNode, did: &str, volume: &MadeVolume) -> Verdict<VolumeAppearance> {
    let found = test_node.find_volume(&volume.id).or_fail(&format!("{did}; then find"))?;
    let shows = &asked(test_node)?.shows;
    let shown = if shows.is_empty() { None } else { Some(test_node.shown(shows, &volume.id)?) };
    Ok(VolumeAppearance { capacity: found.capacity, shown })
}

fn check_like(test_node: &TestNode, did: &str, volume: &MadeVolume, expected: &VolumeAppearance) -> Verdict {
    let now = like(test_node, did, volume)?;
    if now == *expected { Ok(()) } else { fail(did, format!("a volume of {expected}"), now.to_string()) }
}

fn modify(test_node: &TestNode, did: &str, volume: &MadeVolume, to: &MutableParameters) -> Verdict {
    test_node.modify_volume(&volume.id, to, HostCallPlan::Watch).or_fail(did)
}

/// What a volume of this name is like once it was changed, and the host calls of that.
fn reference(test_node: &TestNode, name: &str) -> Verdict<(VolumeAppearance, Vec<String>)> {
    let to = &asked(test_node)?.to;
    let volume = create(test_node, &wanted(test_node, name)?)?;
    let called = test_node.modify_volume(&volume.id, to, HostCallPlan::Watch);
    let calls = called.calls.iter().map(|call| call.name.clone()).collect();
    let did = format!("modify to {to:?}");
    called.or_fail(&did)?;
    Ok((like(test_node, &did, &volume)?, calls))
}

/// C1: it is as it was asked to be, and stays so when the volume is asked for again.
pub(super) fn values_are_kept(test_node: &TestNode) -> Verdict {
    let (to, wanted) = (&asked_and_shown(test_node)?.to, wanted(test_node, "is-kept")?);
    let volume = create(test_node, &wanted)?;
    let before = like(test_node, "create", &volume)?;
    let did = format!("modify to {to:?}");
    modify(test_node, &did, &volume, to)?;
    let after = like(test_node, &did, &volume)?;
    if after.shown == before.shown {
        return fail(did, "a volume that shows otherwise than before", format!("{after}, as before"));
    }
    if after.capacity != before.capacity {
        return fail(did, format!("{} bytes, as before", before.capacity), format!("{} bytes", after.capacity));
    }
    let did = format!("{did}; then create, as at first");
    test_node.create_volume(&wanted, HostCallPlan::Watch).or_fail(&did)?;
    check_like(test_node, &did, &volume, &after)
}

/// C2: asked again, it is as it was.
pub(super) fn idempotent(test_node: &TestNode) -> Verdict {
    let to = &asked(test_node)?.to;
    let volume = create(test_node, &wanted(test_node, "again")?)?;
    modify(test_node, "modify", &volume, to)?;
    let once = like(test_node, "modify", &volume)?;
    let did = format!("modify to {to:?}, twice");
    modify(test_node, &did, &volume, to)?;
    check_like(test_node, &did, &volume, &once)
}

/// C3: one after the other comes to the same as all at once.
pub(super) fn leaves_the_others(test_node: &TestNode) -> Verdict {
    let to = &asked_and_shown(test_node)?.to;
    if to.len() < 2 {
        return not_applicable("`controller.modify.to` of the case file names one parameter alone");
    }
    let (at_once, _) = reference(test_node, "at-once")?;
    let volume = create(test_node, &wanted(test_node, "one-by-one")?)?;
    let mut did = String::from("create");
    for (key, value) in to {
        did = format!("{did}; then modify of {key} alone");
        modify(test_node, &did, &volume, &MutableParameters::from([(key.clone(), value.clone())]))?;
    }
    check_like(test_node, &did, &volume, &at_once)
}

/// The volume is refused this change, by the name of the parameter, and nothing of it is made.
fn check_refused(test_node: &TestNode, key: &str, value: &str) -> Verdict {
    let mut to = asked(test_node)?.to.clone();
    to.insert(key.to_owned(), value.to_owned());
    let volume = create(test_node, &wanted(test_node, "refused")?)?;
    let (before, node) = (like(test_node, "create", &volume)?, test_node.snapshot()?);
    let did = format!("modify to {to:?}");
    let said =
        refused(&did, &ErrorCase::InvalidArgument, test_node.modify_volume(&volume.id, &to, HostCallPlan::Watch))?;
    if !said.contains(key) {
        return fail(did, format!("a text that names {key}"), said);
    }
    check_like(test_node, &did, &volume, &before)?;
    match node.left_over(&test_node.snapshot()?, &node) {
        Some(what) => fail(did, "nothing more on the node than before", what),
        None => Ok(()),
    }
}

/// C4: a parameter that there is not.
pub(super) fn unknown_parameter(test_node: &TestNode) -> Verdict {
    asked(test_node)?;
    check_refused(test_node, UNKNOWN, "1")
}

/// C4: values that the volume cannot have.
pub(super) fn wrong_value(test_node: &TestNode) -> Verdict {
    let values = &asked(test_node)?.refused;
    if values.is_empty() {
        return not_applicable("the case file has no `controller.modify.refused`, which says what no volume can have");
    }
    values.iter().try_for_each(|(key, value)| check_refused(test_node, key, value))
}

/// C5: a volume that is not there.
pub(super) fn no_volume(test_node: &TestNode) -> Verdict {
    let to = &asked(test_node)?.to;
    let volume = create(test_node, &wanted(test_node, "gone")?)?;
    test_node.delete_volume(&volume.id, HostCallPlan::Watch).or_fail("delete")?;
    let node = test_node.snapshot()?;
    let did = "modify of a volume that was deleted";
    refused(did, &ErrorCase::NotFound, test_node.modify_volume(&volume.id, to, HostCallPlan::Watch))?;
    check_gone(test_node, did, &volume.id)?;
    match node.left_over(&test_node.snapshot()?, &node) {
        Some(what) => fail(did, "nothing more on the node than before", what),
        None => Ok(()),
    }
}

/// C6: ended at any host call and repeated, it comes to the same.
pub(super) fn crash_then_repeat(test_node: &TestNode) -> Verdict {
    let to = &asked(test_node)?.to;
    let (usual, calls) = reference(test_node, "reference")?;
    for (at, name) in calls.iter().enumerate() {
        let volume = create(test_node, &wanted(test_node, &format!("crash-{at}"))?)?;
        let _ = test_node.modify_volume(&volume.id, to, HostCallPlan::EndAt(at));
        let did = format!("modify, ended where its host call {} would begin, {name}; then repeated", at + 1);
        modify(test_node, &did, &volume, to)?;
        check_like(test_node, &did, &volume, &usual)?;
    }
    Ok(())
}

/// C7: a fault is reported, and a repeat comes to the same.
pub(super) fn fault_then_repeat(test_node: &TestNode) -> Verdict {
    let to = &asked(test_node)?.to;
    let (usual, calls) = reference(test_node, "reference")?;
    for (at, name) in calls.iter().enumerate() {
        let volume = create(test_node, &wanted(test_node, &format!("fault-{at}"))?)?;
        let did = format!("modify, its host call {}, {name}, failing with {}", at + 1, FAULT.1);
        match test_node.modify_volume(&volume.id, to, HostCallPlan::FailAt(at, FAULT.0)).result {
            Ok(()) => check_like(test_node, &did, &volume, &usual)?,
            Err(error) => is_told(&did, &error)?,
        }
        let did = format!("{did}; then repeated");
        modify(test_node, &did, &volume, to)?;
        check_like(test_node, &did, &volume, &usual)?;
    }
    Ok(())
}

/// C8: made so, a volume is as one that was changed.
pub(super) fn made_so(test_node: &TestNode) -> Verdict {
    let to = &asked_and_shown(test_node)?.to;
    let (changed, _) = reference(test_node, "changed")?;
    let wanted = WantedVolume { mutable_parameters: to.clone(), ..wanted(test_node, "made-so")? };
    let did = format!("create with the mutable parameters {to:?}");
    for did in [did.clone(), format!("{did}, twice")] {
        let made = test_node.create_volume(&wanted, HostCallPlan::Watch).or_fail(&did)?;
        check_like(test_node, &did, &made, &changed)?;
    }
    Ok(())
}

/// C8: a mutable parameter that there is not.
pub(super) fn made_with_an_unknown_one(test_node: &TestNode) -> Verdict {
    let mut wanted = WantedVolume { mutable_parameters: asked(test_node)?.to.clone(), ..wanted(test_node, "unknown")? };
    wanted.mutable_parameters.insert(UNKNOWN.to_owned(), "1".to_owned());
    let before = listed(test_node, 100)?;
    let did = format!("create with the mutable parameter {UNKNOWN}");
    let said = refused(&did, &ErrorCase::InvalidArgument, test_node.create_volume(&wanted, HostCallPlan::Watch))?;
    if !said.contains(UNKNOWN) {
        return fail(did, format!("a text that names {UNKNOWN}"), said);
    }
    let after = listed(test_node, 100)?;
    if before == after { Ok(()) } else { fail(did, format!("nothing is made: {before:?}"), format!("{after:?}")) }
}
