//! Unpublishing a volume.

use std::fs::{self, File};

use volhost_runtime::{CallError, ErrorCase};

use super::data;
use crate::lifecycle::LifecycleStep;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// M3: nothing is left at the target, whatever the pod left in it.
pub(super) fn gone(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let path = test_node.volume_path(&lifecycle, &pod);
    if data::writable(test_node) && path.is_dir() {
        let left = fs::create_dir_all(path.join("some/folders")).and_then(|()| fs::write(path.join("some/file"), "x"));
        left.or_else(|error| fail("writing into the volume", "ok", data::not_written(&error)))?;
    }
    test_node.roll_back(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?.or_fail("unpublish")?;
    if fs::symlink_metadata(&path).is_ok() {
        return fail("unpublish", "nothing at the target", "something is there");
    }
    test_node.bring_down(&lifecycle, &pod)
}

/// M6: another pod's volume stays as it is.
pub(super) fn leaves_the_other_pod(test_node: &TestNode) -> Verdict {
    if test_node.case.expect.shared == Some(false) {
        return not_applicable("the case file says that one pod has the volume at a time");
    }
    let (lifecycle, first, second) = (test_node.lifecycle()?, test_node.pod("a")?, test_node.pod("b")?);
    test_node.bring_up(&lifecycle, &first)?;
    test_node
        .advance(&lifecycle, LifecycleStep::Publish, &second, HostCallPlan::Watch)?
        .or_fail("publish for a second pod")?;
    let Some(before) = test_node.target(&lifecycle, LifecycleStep::Publish, &second)? else {
        return fail("publish for a second pod", "its volume is published", "it is not");
    };
    let did = "unpublish for the first of two pods";
    test_node.roll_back(&lifecycle, LifecycleStep::Publish, &first, HostCallPlan::Watch)?.or_fail(did)?;
    match test_node.target(&lifecycle, LifecycleStep::Publish, &second)? {
        Some(after) if after == before => {}
        Some((after, _)) => {
            let how = before.0.difference(&after).unwrap_or_else(|| "another mount is there".into());
            return fail(did, "the second pod's volume as before", how);
        }
        None => return fail(did, "the second pod's volume is published", "it is not"),
    }
    test_node.bring_down(&lifecycle, &second)
}

/// M9: nothing is known of the volume but its target.
pub(super) fn without_the_source(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    test_node.objects.set_gone(true);
    let did = "bringing the volume down, when every object that it names is gone";
    let called = test_node.roll_back(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?.or_fail(did);
    test_node.objects.set_gone(false);
    called?;
    test_node.bring_down(&lifecycle, &pod)
}

/// M10: a volume in use is reported as busy, and stays.
pub(super) fn busy(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let Some((before, mounts)) = test_node.target(&lifecycle, LifecycleStep::Publish, &pod)? else {
        return fail("publish", "the volume is published", "it is not");
    };
    if mounts.is_empty() {
        return not_applicable("the volume is no mount");
    }
    let did = "unpublish while a process has the volume open";
    let user = File::open(test_node.volume_path(&lifecycle, &pod))
        .or_else(|error| fail("opened the volume, as a process of a pod would", "ok", error.to_string()))?;
    let called = test_node.roll_back(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?;
    match called.result {
        Err(CallError::Plugin(said)) if said.case == ErrorCase::Busy || test_node.case.expect.busy_in_own_words => {}
        Err(error) => return fail(did, "busy", error.message()),
        Ok(()) => return fail(did, "busy", "ok"),
    }
    match test_node.target(&lifecycle, LifecycleStep::Publish, &pod)? {
        Some((after, _)) if before.difference(&after).is_none() => {}
        Some((after, _)) => return fail(did, "the volume as before", before.difference(&after).unwrap_or_default()),
        None => return fail(did, "the volume is published", "it is not"),
    }
    drop(user);
    test_node
        .roll_back(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?
        .or_fail("unpublish once no process has the volume open")?;
    test_node.bring_down(&lifecycle, &pod)
}
