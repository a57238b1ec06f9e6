//! How full a plugin says that a volume is.

use volhost_kernel::{Usage, Usages};
use volhost_runtime::{Capability, Measured};

use crate::lifecycle::LifecycleStep;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};

/// By how much a figure may differ from the file system's own, in parts of the whole: one in so
/// many.
const TOLERANCE: u64 = 10;
/// The host call that asks a CSI driver.
const DRIVER_CALL: &str = "grpc";

fn can_measure(test_node: &TestNode) -> Verdict {
    if test_node.plugin.exports(Capability::Stats) {
        Ok(())
    } else {
        not_applicable("the plugin does not export stats")
    }
}

/// S1: its figures are true.
pub(super) fn truthful(test_node: &TestNode) -> Verdict {
    can_measure(test_node)?;
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let place = test_node.volume_place(&lifecycle, &pod)?;
    let real = test_node.kernel.usage(&place.parent, &place.name);
    let real = real.or_else(|error| fail("asked for the volume's size", "an answer", error.to_string()))?;
    let said = test_node.measure(&lifecycle, Some(&pod))?.or_fail("measure")?;
    check(&said, &real)?;
    if let Some(why) = &said.abnormal {
        return fail("measure of a volume that is well", "nothing abnormal", why.clone());
    }
    drop(place);
    test_node.bring_down(&lifecycle, &pod)
}

fn check(said: &Measured, real: &Usage) -> Verdict {
    let total = real.capacity;
    let near = |said: u64, real: u64| said.abs_diff(real) <= total / TOLERANCE;
    for (what, said, real) in [
        ("capacity", said.capacity, real.capacity),
        ("available", said.available, real.available),
        ("used", said.used, real.used),
    ] {
        if let Some(said) = said.filter(|said| !near(*said, real)) {
            return fail("measure", format!("{what} as the file system has it, about {real} bytes"), format!("{said}"));
        }
    }
    Ok(())
}

/// S2: it changes nothing.
pub(super) fn changes_nothing(test_node: &TestNode) -> Verdict {
    can_measure(test_node)?;
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let called = test_node.measure(&lifecycle, Some(&pod))?;
    // What a driver does when it is asked is the driver's.
    match called.calls.iter().find(|call| call.changes && call.name != DRIVER_CALL) {
        Some(call) => fail("measure", "no host call that may change something", call.name.clone()),
        None => test_node.bring_down(&lifecycle, &pod),
    }
}

/// S3: it answers for a device, and for a volume that is not there.
pub(super) fn answers_without_a_mount(test_node: &TestNode) -> Verdict {
    can_measure(test_node)?;
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    if let Err(error) = test_node.measure(&lifecycle, None)?.result
        && error.is_misbehaviour()
    {
        return fail("measure of a volume that is not up, without a target", "an answer", error.message());
    }
    let Ok(device) = test_node.lifecycle_to(LifecycleStep::StageDevice) else { return Ok(()) };
    test_node.bring_up(&device, &pod)?;
    test_node.measure(&device, None)?.or_fail("measure of a volume that is a device")?;
    test_node.bring_down(&device, &pod)
}
