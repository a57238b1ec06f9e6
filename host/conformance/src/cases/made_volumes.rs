//! Making volumes, deleting them, telling which there are.

use std::collections::BTreeMap;

use volhost_kernel::Errno;
use volhost_runtime::{CallError, ErrorCase, MadeVolume, WantedVolume};

use crate::test_node::TestNode;
use crate::verdict::{CallResult, Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// The word of the fault that is injected.
pub(super) const FAULT: (Errno, &str) = (Errno::IO, "EIO");
/// What no volume can have, in bytes.
const TOO_LARGE: u64 = 1 << 62;
/// More pages than the volumes of a case take: a list that never ends is a failure, not a hang.
const PAGES: usize = 100;
/// How many volumes are there when they are listed.
const LISTED: usize = 5;

/// What the case file says of the volumes that are made, by this name.
pub(super) fn wanted(test_node: &TestNode, name: &str) -> Verdict<WantedVolume> {
    if !test_node.plugin.info().exports.iter().any(|export| export == "controller") {
        return not_applicable("the plugin does not export controller");
    }
    let Some(of) = &test_node.case.controller else {
        return not_applicable("the case file has no `controller`, which says what volumes to make");
    };
    let size = of.bytes().or_else(|why| fail("read the case file", "controller.size", why.to_string()))?;
    Ok(WantedVolume {
        name: format!("conformance-{name}"),
        required_bytes: Some(size),
        limit_bytes: Some(size.saturating_mul(4)),
        parameters: of.parameters.clone(),
        fs_type: of.fs_type.clone(),
        access_modes: vec!["ReadWriteOnce".to_owned()],
        ..WantedVolume::default()
    })
}

pub(super) fn create(test_node: &TestNode, wanted: &WantedVolume) -> Verdict<MadeVolume> {
    test_node.create_volume(wanted, HostCallPlan::Watch).or_fail("create")
}

/// The size that is asked for.
fn size(wanted: &WantedVolume) -> u64 {
    wanted.required_bytes.unwrap_or_default()
}

/// The ids of all volumes that are listed, this many a page.
pub(super) fn listed(test_node: &TestNode, most: u32) -> Verdict<Vec<String>> {
    let mut ids = Vec::new();
    let mut start = String::new();
    for _ in 0..PAGES {
        let did = format!("list-volumes from {start:?}, at most {most}");
        let page = test_node.list_volumes(&start, most).or_fail(&did)?;
        ids.extend(page.entries.into_iter().map(|volume| volume.id));
        match page.next {
            Some(next) => start = next,
            None => return Ok(ids),
        }
    }
    fail(format!("list-volumes, at most {most} a page"), "an end", format!("more than {PAGES} pages"))
}

/// The volume is found as it was answered.
fn check_found(test_node: &TestNode, did: &str, made: &MadeVolume) -> Verdict {
    let did = format!("{did}; then find");
    let found = test_node.find_volume(&made.id).or_fail(&did)?;
    if found == *made { Ok(()) } else { fail(did, format!("{made:?}"), format!("{found:?}")) }
}

/// There is no such volume.
pub(super) fn check_gone(test_node: &TestNode, did: &str, id: &str) -> Verdict {
    match test_node.find_volume(id).result {
        Err(CallError::Plugin(said)) if said.case == ErrorCase::NotFound => Ok(()),
        Err(error) => fail(format!("{did}; then find"), "not-found", error.message()),
        Ok(found) => fail(format!("{did}; then find"), "not-found", format!("{found:?}")),
    }
}

/// An error of this kind.
pub(super) fn refused<T: std::fmt::Debug>(did: &str, expected: &ErrorCase, called: CallResult<T>) -> Verdict<String> {
    match called.result {
        Err(CallError::Plugin(said)) if said.case == *expected => Ok(said.message),
        Err(CallError::Plugin(said)) => {
            fail(did, format!("{expected:?}"), format!("{:?}: {}", said.case, said.message))
        }
        Err(error) => fail(did, format!("{expected:?}"), error.message()),
        // Where there is no answer, `()` would say nothing.
        Ok(_) if size_of::<T>() == 0 => fail(did, format!("{expected:?}"), "ok"),
        Ok(answer) => fail(did, format!("{expected:?}"), format!("{answer:?}")),
    }
}

/// The error of a failed host call: the kernel's word, and not the request's fault.
pub(super) fn is_told(did: &str, error: &CallError) -> Verdict {
    match error {
        CallError::Plugin(said) if said.case != ErrorCase::InvalidArgument && said.message.contains(FAULT.1) => Ok(()),
        CallError::Plugin(said) => {
            let expected = format!("an error with {} that is not invalid-argument", FAULT.1);
            fail(did, expected, format!("{:?}: {}", said.case, said.message))
        }
        error => fail(did, "an error that the plugin answers", error.message()),
    }
}

/// V1: as large as was asked, and found and listed as it was answered.
pub(super) fn is_found(test_node: &TestNode) -> Verdict {
    let wanted = wanted(test_node, "found")?;
    let made = create(test_node, &wanted)?;
    let (least, most) = (size(&wanted), wanted.limit_bytes.unwrap_or(u64::MAX));
    // 0: the plugin does not say.
    if made.capacity != 0 && !(least..=most).contains(&made.capacity) {
        return fail("create", format!("{least} to {most} bytes"), format!("{} bytes", made.capacity));
    }
    check_found(test_node, "create", &made)?;
    let ids = listed(test_node, 100)?;
    if !ids.contains(&made.id) {
        return fail("create; then list-volumes", format!("{} among them", made.id), format!("{ids:?}"));
    }
    Ok(())
}

/// V2: asked again, the same answer and no second volume.
pub(super) fn idempotent(test_node: &TestNode) -> Verdict {
    let wanted = wanted(test_node, "again")?;
    let (first, before) = (create(test_node, &wanted)?, listed(test_node, 100)?);
    let second = create(test_node, &wanted)?;
    if first != second {
        return fail("create, twice", format!("the same answer: {first:?}"), format!("{second:?}"));
    }
    let after = listed(test_node, 100)?;
    if before != after {
        return fail("create, twice; then list-volumes", format!("{before:?}"), format!("{after:?}"));
    }
    Ok(())
}

/// V3: a name that is taken by what does not fit.
pub(super) fn conflict(test_node: &TestNode) -> Verdict {
    let wanted = wanted(test_node, "taken")?;
    let made = create(test_node, &wanted)?;
    let larger = size(&wanted).saturating_mul(8);
    let other = WantedVolume { required_bytes: Some(larger), limit_bytes: None, ..wanted };
    let did = format!("create of {larger} bytes under a name that is taken");
    refused(&did, &ErrorCase::Conflict, test_node.create_volume(&other, HostCallPlan::Watch))?;
    check_found(test_node, &did, &made)
}

/// V4: a parameter that there is not is named.
pub(super) fn unknown_parameter(test_node: &TestNode) -> Verdict {
    const UNKNOWN: &str = "noSuchParameter";
    let mut wanted = wanted(test_node, "unknown")?;
    wanted.parameters.insert(UNKNOWN.to_owned(), "1".to_owned());
    let before = listed(test_node, 100)?;
    let did = format!("create with the parameter {UNKNOWN}");
    let said = refused(&did, &ErrorCase::InvalidArgument, test_node.create_volume(&wanted, HostCallPlan::Watch))?;
    if !said.contains(UNKNOWN) {
        return fail(did, format!("a text that names {UNKNOWN}"), said);
    }
    let after = listed(test_node, 100)?;
    if before == after { Ok(()) } else { fail(did, format!("nothing is made: {before:?}"), format!("{after:?}")) }
}

/// V5: a size that no volume has.
pub(super) fn out_of_range(test_node: &TestNode) -> Verdict {
    let wanted = WantedVolume { required_bytes: Some(TOO_LARGE), limit_bytes: None, ..wanted(test_node, "large")? };
    let before = listed(test_node, 100)?;
    let did = format!("create of {TOO_LARGE} bytes");
    refused(&did, &ErrorCase::Other("OUT_OF_RANGE".to_owned()), test_node.create_volume(&wanted, HostCallPlan::Watch))?;
    let after = listed(test_node, 100)?;
    if before == after { Ok(()) } else { fail(did, format!("nothing is made: {before:?}"), format!("{after:?}")) }
}

/// V6: ended at any host call and repeated, it is one volume.
pub(super) fn create_crash_then_repeat(test_node: &TestNode) -> Verdict {
    for (at, name) in host_calls_of_create(test_node)?.iter().enumerate() {
        let wanted = wanted(test_node, &format!("crash-{at}"))?;
        let before = listed(test_node, 100)?.len();
        let _ = test_node.create_volume(&wanted, HostCallPlan::EndAt(at));
        let did = format!("create, ended where its host call {} would begin, {name}; then repeated", at + 1);
        let made = test_node.create_volume(&wanted, HostCallPlan::Watch).or_fail(&did)?;
        check_found(test_node, &did, &made)?;
        let more = listed(test_node, 100)?.len().saturating_sub(before);
        if more != 1 {
            return fail(did, "one volume more than before", format!("{more} more"));
        }
    }
    Ok(())
}

/// V7: a fault is reported, and a repeat comes to the same.
pub(super) fn create_fault_then_repeat(test_node: &TestNode) -> Verdict {
    for (at, name) in host_calls_of_create(test_node)?.iter().enumerate() {
        let wanted = wanted(test_node, &format!("fault-{at}"))?;
        let did = format!("create, its host call {}, {name}, failing with {}", at + 1, FAULT.1);
        match test_node.create_volume(&wanted, HostCallPlan::FailAt(at, FAULT.0)).result {
            Ok(made) => check_found(test_node, &did, &made)?,
            Err(error) => is_told(&did, &error)?,
        }
        let did = format!("{did}; then repeated");
        let made = test_node.create_volume(&wanted, HostCallPlan::Watch).or_fail(&did)?;
        check_found(test_node, &did, &made)?;
    }
    Ok(())
}

/// The host calls of an undisturbed `create`.
fn host_calls_of_create(test_node: &TestNode) -> Verdict<Vec<String>> {
    let called = test_node.create_volume(&wanted(test_node, "reference")?, HostCallPlan::Watch);
    let names = called.calls.iter().map(|call| call.name.clone()).collect();
    called.or_fail("create").map(|_| names)
}

/// The host calls of an undisturbed `delete`.
fn host_calls_of_delete(test_node: &TestNode) -> Verdict<Vec<String>> {
    let made = create(test_node, &wanted(test_node, "reference")?)?;
    let called = test_node.delete_volume(&made.id, HostCallPlan::Watch);
    let names = called.calls.iter().map(|call| call.name.clone()).collect();
    called.or_fail("delete").map(|()| names)
}

/// V8: nothing is left of it.
pub(super) fn deleted(test_node: &TestNode) -> Verdict {
    let wanted = wanted(test_node, "gone")?;
    // What a plugin makes for all of its volumes may stay.
    let first = create(test_node, &WantedVolume { name: "conformance-first".to_owned(), ..wanted.clone() })?;
    test_node.delete_volume(&first.id, HostCallPlan::Watch).or_fail("delete")?;
    let before = test_node.snapshot()?;
    let made = create(test_node, &wanted)?;
    test_node.delete_volume(&made.id, HostCallPlan::Watch).or_fail("delete")?;
    check_gone(test_node, "delete", &made.id)?;
    let ids = listed(test_node, 100)?;
    if ids.contains(&made.id) {
        return fail("delete; then list-volumes", format!("without {}", made.id), format!("{ids:?}"));
    }
    match before.left_over(&test_node.snapshot()?, &before) {
        Some(what) => fail("create; then delete", "nothing more on the node than before", what),
        None => Ok(()),
    }
}

/// V9: what is not there is deleted.
pub(super) fn delete_idempotent(test_node: &TestNode) -> Verdict {
    let made = create(test_node, &wanted(test_node, "twice")?)?;
    test_node.delete_volume(&made.id, HostCallPlan::Watch).or_fail("delete")?;
    test_node.delete_volume(&made.id, HostCallPlan::Watch).or_fail("delete, twice")?;
    let never = format!("{}-never", made.id);
    test_node.delete_volume(&never, HostCallPlan::Watch).or_fail("delete of a volume that never was")
}

/// V6, of `delete`.
pub(super) fn delete_crash_then_repeat(test_node: &TestNode) -> Verdict {
    for (at, name) in host_calls_of_delete(test_node)?.iter().enumerate() {
        let made = create(test_node, &wanted(test_node, &format!("crash-{at}"))?)?;
        let _ = test_node.delete_volume(&made.id, HostCallPlan::EndAt(at));
        let did = format!("delete, ended where its host call {} would begin, {name}; then repeated", at + 1);
        test_node.delete_volume(&made.id, HostCallPlan::Watch).or_fail(&did)?;
        check_gone(test_node, &did, &made.id)?;
    }
    Ok(())
}

/// V7, of `delete`.
pub(super) fn delete_fault_then_repeat(test_node: &TestNode) -> Verdict {
    for (at, name) in host_calls_of_delete(test_node)?.iter().enumerate() {
        let made = create(test_node, &wanted(test_node, &format!("fault-{at}"))?)?;
        let did = format!("delete, its host call {}, {name}, failing with {}", at + 1, FAULT.1);
        match test_node.delete_volume(&made.id, HostCallPlan::FailAt(at, FAULT.0)).result {
            Ok(()) => check_gone(test_node, &did, &made.id)?,
            Err(error) => is_told(&did, &error)?,
        }
        let did = format!("{did}; then repeated");
        test_node.delete_volume(&made.id, HostCallPlan::Watch).or_fail(&did)?;
        check_gone(test_node, &did, &made.id)?;
    }
    Ok(())
}

/// V10: each volume once, whatever the size of a page.
pub(super) fn pages(test_node: &TestNode) -> Verdict {
    for at in 0..LISTED {
        create(test_node, &wanted(test_node, &format!("page-{at}"))?)?;
    }
    let all = listed(test_node, 100)?;
    let mut counted: BTreeMap<&String, usize> = BTreeMap::new();
    for id in &all {
        *counted.entry(id).or_default() += 1;
    }
    if let Some((id, times)) = counted.iter().find(|(_, times)| **times > 1) {
        return fail("list-volumes", "each volume once", format!("{id} {times} times"));
    }
    for most in [1, 2, 3] {
        let paged = listed(test_node, most)?;
        if paged != all {
            return fail(format!("list-volumes, {most} a page"), format!("{all:?}"), format!("{paged:?}"));
        }
    }
    Ok(())
}

/// V10: a token that was never given.
pub(super) fn unknown_token(test_node: &TestNode) -> Verdict {
    create(test_node, &wanted(test_node, "token")?)?;
    let called = test_node.list_volumes("no-such-token", 10);
    refused("list-volumes from a token that was never given", &ErrorCase::InvalidArgument, called).map(|_| ())
}

/// V11: as large as was asked at least, and as it says.
pub(super) fn grows(test_node: &TestNode) -> Verdict {
    let wanted = wanted(test_node, "grows")?;
    let made = create(test_node, &wanted)?;
    let to = size(&wanted).saturating_mul(2);
    let did = format!("expand of a made volume to {to} bytes");
    let said = test_node.expand_volume(&made.id, to, HostCallPlan::Watch).or_fail(&did)?;
    let found = test_node.find_volume(&made.id).or_fail("find")?;
    if found.capacity != 0 && found.capacity != said {
        return fail(format!("{did}; then find"), format!("{said} bytes"), format!("{} bytes", found.capacity));
    }
    Ok(())
}

/// V11: nothing shrinks.
pub(super) fn large_enough(test_node: &TestNode) -> Verdict {
    let wanted = wanted(test_node, "enough")?;
    let made = create(test_node, &wanted)?;
    let large =
        test_node.expand_volume(&made.id, size(&wanted).saturating_mul(2), HostCallPlan::Watch).or_fail("expand")?;
    for to in [large, size(&wanted), 1] {
        let did = format!("expand to {to} bytes of a made volume that has {large}");
        let said = test_node.expand_volume(&made.id, to, HostCallPlan::Watch).or_fail(&did)?;
        let found = test_node.find_volume(&made.id).or_fail("find")?.capacity;
        if said != large || (found != 0 && found != large) {
            return fail(did, format!("{large} bytes, as before"), format!("{said} answered, {found} found"));
        }
    }
    Ok(())
}

/// V6, of `expand`.
pub(super) fn expand_crash_then_repeat(test_node: &TestNode) -> Verdict {
    let to = size(&wanted(test_node, "reference")?).saturating_mul(2);
    let made = create(test_node, &wanted(test_node, "reference")?)?;
    let called = test_node.expand_volume(&made.id, to, HostCallPlan::Watch);
    let calls: Vec<String> = called.calls.iter().map(|call| call.name.clone()).collect();
    let usual = called.or_fail("expand")?;
    for (at, name) in calls.iter().enumerate() {
        let made = create(test_node, &wanted(test_node, &format!("crash-{at}"))?)?;
        let _ = test_node.expand_volume(&made.id, to, HostCallPlan::EndAt(at));
        let did = format!("expand, ended where its host call {} would begin, {name}; then repeated", at + 1);
        let said = test_node.expand_volume(&made.id, to, HostCallPlan::Watch).or_fail(&did)?;
        let found = test_node.find_volume(&made.id).or_fail(&did)?.capacity;
        if said != usual || (found != 0 && found != usual) {
            return fail(did, format!("{usual} bytes"), format!("{said} answered, {found} found"));
        }
    }
    Ok(())
}
