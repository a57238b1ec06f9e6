//! What a plugin tells of how full a volume is.

use volhost_kernel::{Usage, Usages};
use volhost_runtime::{Capability, Measured};

use crate::bench::Bench;
use crate::ladder::Rung;
use crate::verdict::{Verdict, fail, not_applicable};

/// By how much a figure may differ from the file system's own, in parts of the whole: one in so many.
const TOLERANCE: u64 = 10;
/// The host call that asks a CSI driver.
const DRIVER_CALL: &str = "grpc";

fn can_measure(bench: &Bench) -> Verdict {
    if bench.plugin.exports(Capability::Stats) { Ok(()) } else { not_applicable("the plugin does not export stats") }
}

/// S1: what it tells is so.
pub(super) fn truthful(bench: &Bench) -> Verdict {
    can_measure(bench)?;
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let place = bench.volume_place(&ladder, &pod)?;
    let real = bench.kernel.usage(&place.parent, &place.name);
    let real = real.or_else(|error| fail("asked for the volume's size", "an answer", error.to_string()))?;
    let said = bench.measure(&ladder, Some(&pod))?.or_fail("measure")?;
    check(&said, &real)?;
    if let Some(why) = &said.abnormal {
        return fail("measure of a volume that is well", "nothing abnormal", why.clone());
    }
    drop(place);
    bench.descend(&ladder, &pod)
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
pub(super) fn changes_nothing(bench: &Bench) -> Verdict {
    can_measure(bench)?;
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let called = bench.measure(&ladder, Some(&pod))?;
    // What a driver does when it is asked is the driver's.
    match called.calls.iter().find(|call| call.changes && call.name != DRIVER_CALL) {
        Some(call) => fail("measure", "no host call that may change something", call.name.clone()),
        None => bench.descend(&ladder, &pod),
    }
}

/// S3: it answers for a device, and for a volume that is not there.
pub(super) fn answers_without_a_mount(bench: &Bench) -> Verdict {
    can_measure(bench)?;
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    if let Err(error) = bench.measure(&ladder, None)?.result
        && error.is_misbehaviour()
    {
        return fail("measure of a volume that is not up, without a target", "an answer", error.message());
    }
    let Ok(device) = bench.ladder_to(Rung::Device) else { return Ok(()) };
    bench.climb(&device, &pod)?;
    bench.measure(&device, None)?.or_fail("measure of a volume that is a device")?;
    bench.descend(&device, &pod)
}
