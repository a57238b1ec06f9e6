//! Attaching volumes, finding them again, and their devices.

use volhost_kernel::BlockDevices;
use volhost_runtime::{CallError, ErrorCase};

use crate::lifecycle::LifecycleStep;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// N1: what is attached is found, and what is detached is not.
pub(super) fn is_found(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle_to(LifecycleStep::Attach)?, test_node.pod("a")?);
    for (did, wanted) in [("attach", true), ("detach", false)] {
        let called = match wanted {
            true => test_node.advance(&lifecycle, LifecycleStep::Attach, &pod, HostCallPlan::Watch)?,
            false => test_node.roll_back(&lifecycle, LifecycleStep::Attach, &pod, HostCallPlan::Watch)?,
        };
        called.or_fail(did)?;
        match test_node.is_up(&lifecycle, LifecycleStep::Attach, &pod)? {
            None => return not_applicable("the plugin cannot say what is attached"),
            Some(found) if found == wanted => {}
            Some(found) => {
                return fail(format!("are-attached after {did}"), format!("[{wanted}]"), format!("[{found}]"));
            }
        }
    }
    Ok(())
}

/// N2: an answer for each name, in order, also of volumes that it never saw.
pub(super) fn in_order(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle_to(LifecycleStep::Attach)?, test_node.pod("a")?);
    let other =
        test_node.case.other().or_else(|why| fail("read the case file's `other`", "a volume", why.to_string()))?;
    let Some(other) = other else { return not_applicable("the case file names no `other` volume") };
    let other = test_node.lifecycle_of(other)?.name;
    test_node.advance(&lifecycle, LifecycleStep::Attach, &pod, HostCallPlan::Watch)?.or_fail("attach")?;
    if test_node.is_up(&lifecycle, LifecycleStep::Attach, &pod)?.is_none() {
        return not_applicable("the plugin cannot say what is attached");
    }
    let names = [other.clone(), lifecycle.name.clone(), other];
    let did = "are-attached of three names, of which only the second is attached";
    let found = test_node.are_attached(&names).or_fail(did)?;
    if found != [false, true, false] {
        return fail(did, "[false, true, false]", format!("{found:?}"));
    }
    match test_node.are_attached(&[]).or_fail("are-attached of no names")?.as_slice() {
        [] => test_node.bring_down(&lifecycle, &pod),
        some => fail("are-attached of no names", "no answers", format!("{some:?}")),
    }
}

/// N3: the device of what is attached is found, the same one each time, and the steps after it can
/// use it.
pub(super) fn finds_the_device(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle_to(LifecycleStep::Attach)?, test_node.pod("a")?);
    test_node.advance(&lifecycle, LifecycleStep::Attach, &pod, HostCallPlan::Watch)?.or_fail("attach")?;
    let did = "wait-for-attach of a volume that is attached";
    let ask = || match test_node.attachment(&lifecycle) {
        Ok(attached) => Ok(attached.and_then(|attached| attached.device)),
        Err(error) => fail(did, "its device", error.message()),
    };
    let first = ask()?;
    if let Some(device) = &first {
        match test_node.kernel.device_size(device) {
            Ok(0) => return fail(did, "a device", format!("{} is empty", device.path().display())),
            Ok(_) => {}
            Err(error) => return fail(did, "a device", error.to_string()),
        }
    }
    let path = |device: &Option<_>| {
        device.as_ref().map(|device: &std::sync::Arc<volhost_kernel::BlockDevice>| device.path().to_owned())
    };
    let second = ask()?;
    if path(&first) != path(&second) {
        return fail(format!("{did}, twice"), format!("{:?}", path(&first)), format!("{:?}", path(&second)));
    }
    drop((first, second));
    test_node.bring_up(&lifecycle, &pod)?;
    test_node.bring_down(&lifecycle, &pod)
}

/// N4: what is not there yet is waited for.
pub(super) fn no_device(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle_to(LifecycleStep::Attach)?, test_node.pod("a")?);
    test_node.advance(&lifecycle, LifecycleStep::Attach, &pod, HostCallPlan::Watch)?.or_fail("attach")?;
    let Some(attached_as) = test_node.attached_as() else { return fail("attach", "a word for it", "none") };
    test_node.roll_back(&lifecycle, LifecycleStep::Attach, &pod, HostCallPlan::Watch)?.or_fail("detach")?;
    let did = "wait-for-attach of a volume whose device is not there";
    match test_node.wait_for_attach(&lifecycle, attached_as).result.map(|attached| attached.device) {
        Ok(None) => Ok(()),
        Err(CallError::Plugin(said)) if said.case == ErrorCase::Retryable => Ok(()),
        Ok(Some(device)) => fail(did, "retryable", format!("the device {}", device.path().display())),
        Err(CallError::Plugin(said)) => fail(did, "retryable", format!("{:?}: {}", said.case, said.message)),
        Err(error) => fail(did, "retryable", error.message()),
    }
}

/// N5: every pod sees the same.
pub(super) fn same_for_every_pod(test_node: &TestNode) -> Verdict {
    if test_node.case.expect.shared == Some(false) {
        return not_applicable("the case file says that one pod has the volume at a time");
    }
    let (lifecycle, first, second) =
        (test_node.lifecycle_to(LifecycleStep::Stage)?, test_node.pod("a")?, test_node.pod("b")?);
    if !super::data::writable(test_node) {
        return not_applicable("pods cannot write to the volume");
    }
    test_node.bring_up(&lifecycle, &first)?;
    test_node
        .advance(&lifecycle, LifecycleStep::Publish, &second, HostCallPlan::Watch)?
        .or_fail("publish for a second pod")?;
    super::data::write(test_node, &lifecycle, &first)
        .or_else(|error| fail("writing a file into the first pod's volume", "ok", super::data::not_written(&error)))?;
    if !super::data::is_there(test_node, &lifecycle, &second) {
        return fail("reading it in the second pod's volume", "what the first wrote", "it is not there");
    }
    test_node
        .roll_back(&lifecycle, LifecycleStep::Publish, &second, HostCallPlan::Watch)?
        .or_fail("unpublish for the second pod")?;
    test_node.bring_down(&lifecycle, &first)
}

/// B1: the device that is handed over is a device, and the same one each time.
pub(super) fn returns_a_device(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle_to(LifecycleStep::StageDevice)?, test_node.pod("a")?);
    test_node.bring_up_below(&lifecycle, LifecycleStep::StageDevice, &pod)?;
    let mut paths = Vec::new();
    for _ in 0..2 {
        let Some(device) = test_node.device(&lifecycle)?.or_fail("stage-device")? else {
            test_node.bring_down(&lifecycle, &pod)?;
            return not_applicable("each pod has a device of its own");
        };
        match test_node.kernel.device_size(&device) {
            Ok(bytes) if bytes > 0 => paths.push(device.path().to_owned()),
            Ok(_) => return fail("stage-device", "a device", format!("{} is empty", device.path().display())),
            Err(error) => return fail("stage-device", "a device", error.to_string()),
        }
    }
    if paths.first() != paths.last() {
        return fail("stage-device, twice", "the same device", format!("{paths:?}"));
    }
    test_node.bring_up(&lifecycle, &pod)?;
    test_node.bring_down(&lifecycle, &pod)
}
