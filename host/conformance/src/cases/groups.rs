//! Making snapshots of several volumes at one moment.

use std::collections::BTreeSet;

use volhost_runtime::{
    CallError, Capability, ErrorCase, MadeGroup, MadeSnapshot, MadeVolume, WantedGroup, WantedVolume,
};

use super::made_volumes::{FAULT, create, is_told, refused, wanted};
use crate::look::NodeSnapshot;
use crate::test_node::TestNode;
use crate::verdict::{CallResult, Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// How many snapshots are asked for at once, and how many times at most: a list that never ends is
/// a failure, not a hang.
const PAGE: u32 = 100;
const PAGES: usize = 100;

/// Two volumes to take snapshots of.
struct VolumePair {
    volumes: [MadeVolume; 2],
    /// The node with them and without any group.
    before: NodeSnapshot,
}

impl VolumePair {
    fn make(test_node: &TestNode) -> Verdict<Self> {
        if !test_node.plugin.exports(Capability::GroupSnapshotter) {
            return not_applicable("the plugin does not export group-snapshotter");
        }
        let volumes = [create(test_node, &wanted(test_node, "one")?)?, create(test_node, &wanted(test_node, "two")?)?];
        // What a plugin makes for all of its groups may stay.
        let first = make(test_node, &Self::of(&volumes, "first"))?;
        test_node.delete_group(&first.id, HostCallPlan::Watch).or_fail("delete-group")?;
        Ok(Self { volumes, before: test_node.snapshot()? })
    }

    fn of(volumes: &[MadeVolume], name: &str) -> WantedGroup {
        WantedGroup {
            name: format!("group-{name}"),
            volume_ids: volumes.iter().map(|volume| volume.id.clone()).collect(),
            ..WantedGroup::default()
        }
    }

    /// The group of both that has this name.
    fn wanted(&self, name: &str) -> WantedGroup {
        Self::of(&self.volumes, name)
    }

    fn check_nothing_left(&self, test_node: &TestNode, did: &str) -> Verdict {
        match self.before.left_over(&test_node.snapshot()?, &self.before) {
            Some(what) => fail(did, "nothing more on the node than before", what),
            None => Ok(()),
        }
    }
}

fn make(test_node: &TestNode, wanted: &WantedGroup) -> Verdict<MadeGroup> {
    test_node.create_group(wanted, HostCallPlan::Watch).or_fail("create-group")
}

fn delete(test_node: &TestNode, did: &str, group: &MadeGroup) -> Verdict {
    test_node.delete_group(&group.id, HostCallPlan::Watch).or_fail(did)
}

/// The names of a call's host calls.
fn names<T>(called: &CallResult<T>) -> Vec<String> {
    called.calls.iter().map(|call| call.name.clone()).collect()
}

/// The snapshots that are listed, of this volume or of all.
fn listed(test_node: &TestNode, volume: Option<&str>) -> Verdict<Vec<MadeSnapshot>> {
    let (mut found, mut start) = (Vec::new(), String::new());
    for _ in 0..PAGES {
        let page = test_node.list_snapshots(volume, &start, PAGE).or_fail("list-snapshots")?;
        found.extend(page.entries);
        match page.next {
            Some(next) => start = next,
            None => return Ok(found),
        }
    }
    fail("list-snapshots", "an end", format!("more than {PAGES} pages"))
}

/// Whether it is this group, in whatever order its snapshots are.
fn same(one: &MadeGroup, other: &MadeGroup) -> bool {
    let ids = |group: &MadeGroup| group.snapshots.iter().map(|of| of.id.clone()).collect::<BTreeSet<_>>();
    let all = one.snapshots.iter().all(|snapshot| other.snapshots.contains(snapshot));
    one.id == other.id && ids(one) == ids(other) && all
}

fn check_found(test_node: &TestNode, did: &str, made: &MadeGroup) -> Verdict {
    let did = format!("{did}; then find-group");
    let found = test_node.find_group(&made.id).or_fail(&did)?;
    if same(made, &found) { Ok(()) } else { fail(did, format!("{made:?}"), format!("{found:?}")) }
}

/// Neither the group nor one of its snapshots is there.
fn check_gone(test_node: &TestNode, did: &str, group: &MadeGroup) -> Verdict {
    refused(&format!("{did}; then find-group"), &ErrorCase::NotFound, test_node.find_group(&group.id))?;
    for snapshot in &group.snapshots {
        let did = format!("{did}; then find-snapshot of one of its snapshots");
        refused(&did, &ErrorCase::NotFound, test_node.find_snapshot(&snapshot.id))?;
    }
    let left: Vec<MadeSnapshot> =
        listed(test_node, None)?.into_iter().filter(|one| one.group.as_deref() == Some(group.id.as_str())).collect();
    match left.as_slice() {
        [] => Ok(()),
        left => fail(format!("{did}; then list-snapshots"), "none of the group", format!("{left:?}")),
    }
}

/// G1: found as it was answered.
pub(super) fn is_found(test_node: &TestNode) -> Verdict {
    let made = make(test_node, &VolumePair::make(test_node)?.wanted("found"))?;
    check_found(test_node, "create-group", &made)
}

/// G2: asked again, the same answer and no further snapshot.
pub(super) fn idempotent(test_node: &TestNode) -> Verdict {
    let wanted = VolumePair::make(test_node)?.wanted("again");
    let (first, before) = (make(test_node, &wanted)?, listed(test_node, None)?);
    let did = "create-group, twice";
    let second = test_node.create_group(&wanted, HostCallPlan::Watch).or_fail(did)?;
    if !same(&first, &second) {
        return fail(did, format!("the same answer: {first:?}"), format!("{second:?}"));
    }
    let after = listed(test_node, None)?;
    if before == after { Ok(()) } else { fail(did, format!("no more than {before:?}"), format!("{after:?}")) }
}

/// G3: a name that a group of other volumes has: fewer, more, others.
pub(super) fn conflict(test_node: &TestNode) -> Verdict {
    let pair = VolumePair::make(test_node)?;
    let third = create(test_node, &wanted(test_node, "three")?)?;
    let [one, two] = &pair.volumes;
    let made = make(test_node, &pair.wanted("taken"))?;
    for others in [vec![one.clone()], vec![one.clone(), third.clone()], vec![one.clone(), two.clone(), third.clone()]] {
        let ids: Vec<&str> = others.iter().map(|volume| volume.id.as_str()).collect();
        let did = format!("create-group of {} under the name of a group of {} and {}", ids.join(", "), one.id, two.id);
        let called = test_node.create_group(&VolumePair::of(&others, "taken"), HostCallPlan::Watch);
        refused(&did, &ErrorCase::Conflict, called)?;
        check_found(test_node, &did, &made)?;
    }
    Ok(())
}

/// G4: a group with a volume that is not there is none, nor is anything of it.
pub(super) fn no_volume(test_node: &TestNode) -> Verdict {
    let pair = VolumePair::make(test_node)?;
    let mut wanted = pair.wanted("incomplete");
    // The last one: a plugin that takes one after the other has taken those that are there.
    let last = pair.volumes.iter().map(|volume| volume.id.as_str()).max().unwrap_or_default();
    wanted.volume_ids.insert(format!("{last}-never"));
    let did = format!("create-group of two volumes and of {last}-never, which is not there");
    refused(&did, &ErrorCase::NotFound, test_node.create_group(&wanted, HostCallPlan::Watch))?;
    match listed(test_node, None)?.as_slice() {
        [] => pair.check_nothing_left(test_node, &did),
        left => fail(format!("{did}; then list-snapshots"), "no snapshot", format!("{left:?}")),
    }
}

/// G5: its snapshots are found and listed, each as one of the group.
pub(super) fn snapshots_are_listed(test_node: &TestNode) -> Verdict {
    let pair = VolumePair::make(test_node)?;
    let made = make(test_node, &pair.wanted("shown"))?;
    let all = listed(test_node, None)?;
    for snapshot in &made.snapshots {
        let did = "create-group; then find-snapshot of one of its snapshots";
        let found = test_node.find_snapshot(&snapshot.id).or_fail(did)?;
        if found != *snapshot {
            return fail(did, format!("{snapshot:?}"), format!("{found:?}"));
        }
        let of_volume = listed(test_node, Some(&snapshot.volume_id))?;
        for (what, list) in [("list-snapshots", &all), ("list-snapshots of its volume", &of_volume)] {
            if !list.contains(snapshot) {
                let did = format!("create-group; then {what}");
                return fail(did, format!("{snapshot:?} among them"), format!("{list:?}"));
            }
        }
        if let Some(other) = of_volume.iter().find(|other| other.volume_id != snapshot.volume_id) {
            let did = format!("create-group; then list-snapshots of {}", snapshot.volume_id);
            return fail(did, "its snapshots alone", format!("{other:?}"));
        }
    }
    Ok(())
}

/// G5: a snapshot of a group is not deleted by itself.
pub(super) fn not_one_alone(test_node: &TestNode) -> Verdict {
    let made = make(test_node, &VolumePair::make(test_node)?.wanted("whole"))?;
    for snapshot in &made.snapshots {
        let did = "delete-snapshot of one of a group's snapshots";
        match test_node.delete_snapshot(&snapshot.id, HostCallPlan::Watch).result {
            Err(CallError::Plugin(_)) => check_found(test_node, did, &made)?,
            Err(error) => return fail(did, "an error that the plugin answers", error.message()),
            Ok(()) => return fail(did, "an error: it goes with its group alone", "ok"),
        }
    }
    Ok(())
}

/// G6: a volume that is made of one of its snapshots is as large as it at least, and outlives the
/// group.
pub(super) fn volume_of_a_group(test_node: &TestNode) -> Verdict {
    let made = make(test_node, &VolumePair::make(test_node)?.wanted("source"))?;
    let mut restored = Vec::new();
    for (at, snapshot) in made.snapshots.iter().enumerate() {
        let did = "create of a snapshot of a group";
        let source_snapshot = Some(snapshot.id.clone());
        let wanted = wanted(test_node, &format!("restored-{at}"))?;
        let wanted = WantedVolume { required_bytes: None, source_snapshot, ..wanted };
        let volume = test_node.create_volume(&wanted, HostCallPlan::Watch).or_fail(did)?;
        if volume.capacity != 0 && volume.capacity < snapshot.bytes {
            return fail(did, format!("{} bytes at least", snapshot.bytes), format!("{volume:?}"));
        }
        restored.push(volume);
    }
    delete(test_node, "delete-group", &made)?;
    for volume in &restored {
        let did = "find of a volume whose snapshot went with its group";
        let found = test_node.find_volume(&volume.id).or_fail(did)?;
        if found != *volume {
            return fail(did, format!("{volume:?}"), format!("{found:?}"));
        }
    }
    Ok(())
}

/// G7: nothing is left of it.
pub(super) fn deleted(test_node: &TestNode) -> Verdict {
    let pair = VolumePair::make(test_node)?;
    let made = make(test_node, &pair.wanted("gone"))?;
    delete(test_node, "delete-group", &made)?;
    check_gone(test_node, "delete-group", &made)?;
    pair.check_nothing_left(test_node, "create-group; then delete-group")?;
    for volume in &pair.volumes {
        test_node.find_volume(&volume.id).or_fail("delete-group; then find of one of the volumes")?;
    }
    Ok(())
}

/// G8: what is not there is deleted.
pub(super) fn delete_idempotent(test_node: &TestNode) -> Verdict {
    let made = make(test_node, &VolumePair::make(test_node)?.wanted("twice"))?;
    delete(test_node, "delete-group", &made)?;
    delete(test_node, "delete-group, twice", &made)?;
    let never = format!("{}-never", made.id);
    test_node.delete_group(&never, HostCallPlan::Watch).or_fail("delete-group of a group that never was")
}

/// What an undisturbed `create-group` comes to, and its host calls.
struct UndisturbedGroup {
    pair: VolumePair,
    usual: MadeGroup,
    calls: Vec<String>,
}

impl UndisturbedGroup {
    fn take(test_node: &TestNode) -> Verdict<Self> {
        let pair = VolumePair::make(test_node)?;
        let called = test_node.create_group(&pair.wanted("reference"), HostCallPlan::Watch);
        let calls = names(&called);
        Ok(Self { usual: called.or_fail("create-group")?, pair, calls })
    }

    /// The group is found, and each of its snapshots is as large as in an undisturbed one.
    fn check_whole(&self, test_node: &TestNode, did: &str, group: &MadeGroup) -> Verdict {
        check_found(test_node, did, group)?;
        for snapshot in &group.snapshots {
            let usual = self.usual.snapshots.iter().find(|usual| usual.volume_id == snapshot.volume_id);
            let bytes = usual.map(|usual| usual.bytes);
            if bytes != Some(snapshot.bytes) {
                return fail(did, format!("{bytes:?} bytes"), format!("{snapshot:?}"));
            }
        }
        Ok(())
    }

    /// The handle that the group of this name has, which is not there.
    fn handle(&self, test_node: &TestNode, wanted: &WantedGroup) -> Verdict<String> {
        let made = make(test_node, wanted)?;
        delete(test_node, "delete-group", &made)?;
        Ok(made.id)
    }
}

/// G9: ended at any host call it is not there, or whole; repeated, it is.
pub(super) fn create_crash_then_repeat(test_node: &TestNode) -> Verdict {
    let reference = UndisturbedGroup::take(test_node)?;
    for (at, name) in reference.calls.iter().enumerate() {
        let wanted = reference.pair.wanted(&format!("crash-{at}"));
        let id = reference.handle(test_node, &wanted)?;
        let _ = test_node.create_group(&wanted, HostCallPlan::EndAt(at));
        let did = format!("create-group, ended where its host call {} would begin, {name}", at + 1);
        match test_node.find_group(&id) {
            CallResult { result: Ok(found), .. } if found.snapshots.len() == wanted.volume_ids.len() => {}
            called => {
                refused(&format!("{did}; then find-group of what is not whole"), &ErrorCase::NotFound, called)?;
            }
        }
        let did = format!("{did}; then repeated");
        let made = test_node.create_group(&wanted, HostCallPlan::Watch).or_fail(&did)?;
        reference.check_whole(test_node, &did, &made)?;
    }
    Ok(())
}

/// G9: ended at any host call, what was begun goes with the group.
pub(super) fn create_crash_then_delete(test_node: &TestNode) -> Verdict {
    let reference = UndisturbedGroup::take(test_node)?;
    delete(test_node, "delete-group", &reference.usual)?;
    if reference.handle(test_node, &reference.pair.wanted("reference"))? != reference.usual.id {
        return not_applicable("a group of the same name has another handle each time");
    }
    for (at, name) in reference.calls.iter().enumerate() {
        let wanted = reference.pair.wanted("reference");
        let _ = test_node.create_group(&wanted, HostCallPlan::EndAt(at));
        let did = format!("create-group, ended where its host call {} would begin, {name}; then delete-group", at + 1);
        delete(test_node, &did, &reference.usual)?;
        check_gone(test_node, &did, &reference.usual)?;
        reference.pair.check_nothing_left(test_node, &did)?;
    }
    Ok(())
}

/// G10: a fault is reported, and a repeat comes to the same.
pub(super) fn create_fault_then_repeat(test_node: &TestNode) -> Verdict {
    let reference = UndisturbedGroup::take(test_node)?;
    for (at, name) in reference.calls.iter().enumerate() {
        let wanted = reference.pair.wanted(&format!("fault-{at}"));
        let did = format!("create-group, its host call {}, {name}, failing with {}", at + 1, FAULT.1);
        match test_node.create_group(&wanted, HostCallPlan::FailAt(at, FAULT.0)).result {
            Ok(made) => reference.check_whole(test_node, &did, &made)?,
            Err(error) => is_told(&did, &error)?,
        }
        let did = format!("{did}; then repeated");
        let made = test_node.create_group(&wanted, HostCallPlan::Watch).or_fail(&did)?;
        reference.check_whole(test_node, &did, &made)?;
    }
    Ok(())
}

/// The host calls of an undisturbed `delete-group`.
fn host_calls_of_delete(test_node: &TestNode, pair: &VolumePair) -> Verdict<Vec<String>> {
    let made = make(test_node, &pair.wanted("reference"))?;
    let called = test_node.delete_group(&made.id, HostCallPlan::Watch);
    let calls = names(&called);
    called.or_fail("delete-group").map(|()| calls)
}

/// G9, of `delete-group`.
pub(super) fn delete_crash_then_repeat(test_node: &TestNode) -> Verdict {
    let pair = VolumePair::make(test_node)?;
    for (at, name) in host_calls_of_delete(test_node, &pair)?.iter().enumerate() {
        let made = make(test_node, &pair.wanted("crash"))?;
        let _ = test_node.delete_group(&made.id, HostCallPlan::EndAt(at));
        let did = format!("delete-group, ended where its host call {} would begin, {name}; then repeated", at + 1);
        delete(test_node, &did, &made)?;
        check_gone(test_node, &did, &made)?;
        pair.check_nothing_left(test_node, &did)?;
    }
    Ok(())
}

/// G10, of `delete-group`.
pub(super) fn delete_fault_then_repeat(test_node: &TestNode) -> Verdict {
    let pair = VolumePair::make(test_node)?;
    for (at, name) in host_calls_of_delete(test_node, &pair)?.iter().enumerate() {
        let made = make(test_node, &pair.wanted("fault"))?;
        let did = format!("delete-group, its host call {}, {name}, failing with {}", at + 1, FAULT.1);
        match test_node.delete_group(&made.id, HostCallPlan::FailAt(at, FAULT.0)).result {
            Ok(()) => check_gone(test_node, &did, &made)?,
            Err(error) => is_told(&did, &error)?,
        }
        let did = format!("{did}; then repeated");
        delete(test_node, &did, &made)?;
        check_gone(test_node, &did, &made)?;
    }
    Ok(())
}
