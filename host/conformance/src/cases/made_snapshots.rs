//! Making snapshots, and volumes of them.

use volhost_runtime::{CallError, ErrorCase, MadeSnapshot, MadeVolume, WantedSnapshot, WantedVolume};

use super::made_volumes::{create, refused, wanted};
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// A volume to take snapshots of.
fn volume(test_node: &TestNode, name: &str) -> Verdict<MadeVolume> {
    let wanted = wanted(test_node, name)?;
    if !test_node.plugin.info().exports.iter().any(|export| export == "snapshotter") {
        return not_applicable("the plugin does not export snapshotter");
    }
    create(test_node, &wanted)
}

fn of(volume: &MadeVolume, name: &str) -> WantedSnapshot {
    WantedSnapshot { name: format!("snapshot-{name}"), volume_id: volume.id.clone(), ..WantedSnapshot::default() }
}

fn check_found(test_node: &TestNode, did: &str, made: &MadeSnapshot) -> Verdict {
    let did = format!("{did}; then find-snapshot");
    let found = test_node.find_snapshot(&made.id).or_fail(&did)?;
    if found == *made { Ok(()) } else { fail(did, format!("{made:?}"), format!("{found:?}")) }
}

fn check_gone(test_node: &TestNode, did: &str, id: &str) -> Verdict {
    match test_node.find_snapshot(id).result {
        Err(CallError::Plugin(said)) if said.case == ErrorCase::NotFound => Ok(()),
        Err(error) => fail(format!("{did}; then find-snapshot"), "not-found", error.message()),
        Ok(found) => fail(format!("{did}; then find-snapshot"), "not-found", format!("{found:?}")),
    }
}

/// V1: of the volume that was named, and found as it was answered.
pub(super) fn is_found(test_node: &TestNode) -> Verdict {
    let volume = volume(test_node, "shown")?;
    let made = test_node.create_snapshot(&of(&volume, "shown"), HostCallPlan::Watch).or_fail("create-snapshot")?;
    if made.volume_id != volume.id {
        return fail("create-snapshot", format!("a snapshot of {}", volume.id), format!("{made:?}"));
    }
    check_found(test_node, "create-snapshot", &made)
}

/// V2: asked again, the same answer.
pub(super) fn idempotent(test_node: &TestNode) -> Verdict {
    let volume = volume(test_node, "again")?;
    let wanted = of(&volume, "again");
    let first = test_node.create_snapshot(&wanted, HostCallPlan::Watch).or_fail("create-snapshot")?;
    let second = test_node.create_snapshot(&wanted, HostCallPlan::Watch).or_fail("create-snapshot, twice")?;
    if first == second {
        return Ok(());
    }
    fail("create-snapshot, twice", format!("the same answer: {first:?}"), format!("{second:?}"))
}

/// V3: a name that another volume's snapshot has.
pub(super) fn conflict(test_node: &TestNode) -> Verdict {
    let (one, other) = (volume(test_node, "one")?, volume(test_node, "other")?);
    let made = test_node.create_snapshot(&of(&one, "taken"), HostCallPlan::Watch).or_fail("create-snapshot")?;
    let did = "create-snapshot under a name that a snapshot of another volume has";
    refused(did, &ErrorCase::Conflict, test_node.create_snapshot(&of(&other, "taken"), HostCallPlan::Watch))?;
    check_found(test_node, did, &made)
}

/// V6: ended at any host call and repeated, it is whole.
pub(super) fn crash_then_repeat(test_node: &TestNode) -> Verdict {
    let volume = volume(test_node, "crash")?;
    let called = test_node.create_snapshot(&of(&volume, "reference"), HostCallPlan::Watch);
    let calls: Vec<String> = called.calls.iter().map(|call| call.name.clone()).collect();
    let usual = called.or_fail("create-snapshot")?;
    for (at, name) in calls.iter().enumerate() {
        let wanted = of(&volume, &format!("crash-{at}"));
        let _ = test_node.create_snapshot(&wanted, HostCallPlan::EndAt(at));
        let did = format!("create-snapshot, ended where its host call {} would begin, {name}; then repeated", at + 1);
        let made = test_node.create_snapshot(&wanted, HostCallPlan::Watch).or_fail(&did)?;
        check_found(test_node, &did, &made)?;
        if made.bytes != usual.bytes {
            return fail(did, format!("{} bytes", usual.bytes), format!("{}", made.bytes));
        }
    }
    Ok(())
}

/// V8: nothing is left of it.
pub(super) fn deleted(test_node: &TestNode) -> Verdict {
    let volume = volume(test_node, "kept")?;
    let before = test_node.snapshot()?;
    let made = test_node.create_snapshot(&of(&volume, "gone"), HostCallPlan::Watch).or_fail("create-snapshot")?;
    test_node.delete_snapshot(&made.id, HostCallPlan::Watch).or_fail("delete-snapshot")?;
    check_gone(test_node, "delete-snapshot", &made.id)?;
    match before.left_over(&test_node.snapshot()?, &before) {
        Some(what) => fail("create-snapshot; then delete-snapshot", "nothing more on the node than before", what),
        None => Ok(()),
    }
}

/// V9: what is not there is deleted.
pub(super) fn delete_idempotent(test_node: &TestNode) -> Verdict {
    let volume = volume(test_node, "twice")?;
    let made = test_node.create_snapshot(&of(&volume, "twice"), HostCallPlan::Watch).or_fail("create-snapshot")?;
    test_node.delete_snapshot(&made.id, HostCallPlan::Watch).or_fail("delete-snapshot")?;
    test_node.delete_snapshot(&made.id, HostCallPlan::Watch).or_fail("delete-snapshot, twice")
}

/// V12: a volume of a snapshot is as large as it at least, and of one that is not there, none is
/// made.
pub(super) fn volume_of_a_snapshot(test_node: &TestNode) -> Verdict {
    let volume = volume(test_node, "source")?;
    let made = test_node.create_snapshot(&of(&volume, "source"), HostCallPlan::Watch).or_fail("create-snapshot")?;
    let of_it = |name: &str| {
        let source_snapshot = Some(made.id.clone());
        wanted(test_node, name).map(|wanted| WantedVolume { required_bytes: None, source_snapshot, ..wanted })
    };
    let restored = create(test_node, &of_it("restored")?)?;
    if restored.capacity != 0 && restored.capacity < made.bytes {
        return fail("create of a snapshot", format!("{} bytes at least", made.bytes), format!("{restored:?}"));
    }
    test_node.delete_snapshot(&made.id, HostCallPlan::Watch).or_fail("delete-snapshot")?;
    let did = "create of a snapshot that is not there any more";
    refused(did, &ErrorCase::NotFound, test_node.create_volume(&of_it("late")?, HostCallPlan::Watch))?;
    test_node.find_volume(&restored.id).or_fail("find of a volume whose snapshot was deleted").map(|_| ())
}
