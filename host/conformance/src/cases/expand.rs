//! Growing a volume.

use std::sync::Arc;

use volhost_kernel::{BlockDevices, Errno, Usages};
use volhost_model::Pod;
use volhost_runtime::{CallError, Capability, ErrorCase};

use crate::bench::Bench;
use crate::ladder::{Ladder, Rung};
use crate::verdict::{Called, Verdict, fail, not_applicable};
use crate::watch::Plan;

/// What a volume without a capacity is taken for, in bytes.
const USUAL: u64 = 64 << 20;
/// The word of the fault that is injected.
const FAULT: (Errno, &str) = (Errno::IO, "EIO");

/// A volume that is up, and how large it is to become.
struct Growing {
    ladder: Ladder,
    pod: Arc<Pod>,
    from: u64,
    to: u64,
}

/// Takes the volume up, on storage made anew.
fn growing(bench: &Bench) -> Verdict<Growing> {
    if !bench.plugin.exports(Capability::Expander) {
        return not_applicable("the plugin does not export expander");
    }
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.descend(&ladder, &pod)?;
    bench.make_storage_anew()?;
    bench.climb(&ladder, &pod)?;
    let from = capacity(&ladder);
    let volume = Growing { ladder, pod, from, to: from.saturating_mul(2) };
    match volume.real(bench)?.0 {
        // A folder of a disk, say.
        bytes if bytes == 0 || bytes >= volume.to => not_applicable("the volume has no size of its own"),
        _ => Ok(volume),
    }
}

/// The size that the volume is asked for, in bytes.
fn capacity(ladder: &Ladder) -> u64 {
    ladder.spec.persistent_volume.as_ref().and_then(|of| of.capacity).unwrap_or(USUAL)
}

impl Growing {
    fn expand(&self, bench: &Bench, to: u64, plan: Plan) -> Verdict<Called<u64>> {
        bench.expand(&self.ladder, &self.pod, to, plan)
    }

    /// The size of the file system that the pod sees, and of the device behind it, if it has one.
    fn real(&self, bench: &Bench) -> Verdict<(u64, Option<u64>)> {
        let place = bench.volume_place(&self.ladder, &self.pod)?;
        let asked =
            |error: volhost_kernel::KernelError| fail("asked for the volume's size", "an answer", error.to_string());
        let usage = bench.kernel.usage(&place.parent, &place.name).or_else(asked)?;
        let attached =
            bench.attachment(&self.ladder).or_else(|error| fail("wait-for-attach", "ok", error.message()))?;
        let device = attached.and_then(|attached| attached.device);
        let device = device.map(|device| bench.kernel.device_size(&device)).transpose();
        Ok((
            usage.capacity,
            device.or_else(|error| fail("asked for the device's size", "an answer", error.to_string()))?,
        ))
    }

    fn check(&self, bench: &Bench, did: &str, said: u64, before: u64) -> Verdict {
        let (volume, device) = self.real(bench)?;
        if said < self.to {
            return fail(did, format!("{} bytes at least", self.to), format!("{said}"));
        }
        if device.is_some_and(|device| device < said) {
            return fail(did, format!("a device of the {said} bytes that were answered"), format!("{device:?}"));
        }
        if volume <= before {
            return fail(did, format!("a file system of more than {before} bytes"), format!("{volume}"));
        }
        Ok(())
    }
}

/// The size that it has grown to. The plugin may say that it cannot, and the kernel that it may not: an ext4 that is mounted grows only with
/// `CAP_SYS_RESOURCE`.
fn grown(did: &str, called: Called<u64>) -> Verdict<u64> {
    match called.result {
        Ok(said) => Ok(said),
        Err(CallError::Plugin(said))
            if matches!(said.case, ErrorCase::Precondition | ErrorCase::Unsupported | ErrorCase::PermissionDenied) =>
        {
            not_applicable(format!("the volume cannot grow here while it is in use: {}", said.message))
        }
        Err(error) => fail(did, "the volume's new size", error.message()),
    }
}

/// E1: it grows while it is in use, and says how large it is.
pub(super) fn grows(bench: &Bench) -> Verdict {
    let volume = growing(bench)?;
    let (before, _) = volume.real(bench)?;
    let did = format!("expand of a volume of {} bytes to {}", volume.from, volume.to);
    let said = grown(&did, volume.expand(bench, volume.to, Plan::Watch)?)?;
    volume.check(bench, &did, said, before)?;
    bench.descend(&volume.ladder, &volume.pod)
}

/// E2: large enough already is done, and nothing shrinks.
pub(super) fn large_enough(bench: &Bench) -> Verdict {
    let volume = growing(bench)?;
    let grown = grown("expand", volume.expand(bench, volume.to, Plan::Watch)?)?;
    let before = volume.real(bench)?;
    for to in [volume.to, volume.from, 1] {
        let did = format!("expand to {to} bytes of a volume that has {grown}");
        let said = volume.expand(bench, to, Plan::Watch)?.or_fail(&did)?;
        if said != grown {
            return fail(did, format!("{grown}"), format!("{said}"));
        }
        let after = volume.real(bench)?;
        if after != before {
            return fail(did, format!("nothing changes: {before:?}"), format!("{after:?}"));
        }
    }
    bench.descend(&volume.ladder, &volume.pod)
}

/// E3: ended at any host call, a repeat comes to the same.
pub(super) fn crash_then_repeat(bench: &Bench) -> Verdict {
    each_host_call(bench, |volume, at, name| {
        let (before, _) = volume.real(bench)?;
        let _ = volume.expand(bench, volume.to, Plan::EndAt(at))?;
        let did = format!("expand, ended where its host call {} would begin, {name}; then repeated", at + 1);
        let said = volume.expand(bench, volume.to, Plan::Watch)?.or_fail(&did)?;
        volume.check(bench, &did, said, before)
    })
}

/// E4: a fault is told, in the kernel's words, as none of the volume's, and a repeat comes to the same.
pub(super) fn fault_then_repeat(bench: &Bench) -> Verdict {
    let (errno, word) = FAULT;
    each_host_call(bench, |volume, at, name| {
        let (before, _) = volume.real(bench)?;
        let did = format!("expand, its host call {}, {name}, failing with {word}", at + 1);
        match volume.expand(bench, volume.to, Plan::FailAt(at, errno))?.result {
            Ok(said) => return volume.check(bench, &did, said, before),
            Err(CallError::Plugin(said)) if said.case != ErrorCase::InvalidArgument && said.message.contains(word) => {}
            Err(CallError::Plugin(said)) => {
                let expected = format!("an error with {word} that is not invalid-argument");
                return fail(did, expected, format!("{:?}: {}", said.case, said.message));
            }
            Err(error) => return fail(did, "an error that the plugin answers", error.message()),
        }
        let did = format!("{did}; then repeated");
        let said = volume.expand(bench, volume.to, Plan::Watch)?.or_fail(&did)?;
        volume.check(bench, &did, said, before)
    })
}

/// For each host call of an undisturbed expand, on a volume made anew.
fn each_host_call(bench: &Bench, check: impl Fn(&Growing, usize, &str) -> Verdict) -> Verdict {
    let volume = growing(bench)?;
    let called = volume.expand(bench, volume.to, Plan::Watch)?;
    let calls = called.calls.clone();
    grown("expand", called)?;
    for (at, call) in calls.iter().enumerate() {
        let volume = growing(bench)?;
        check(&volume, at, &call.name)?;
    }
    bench.descend(&volume.ladder, &volume.pod)
}

/// E5: a device grows too.
pub(super) fn grows_as_a_device(bench: &Bench) -> Verdict {
    if !bench.plugin.exports(Capability::Expander) {
        return not_applicable("the plugin does not export expander");
    }
    let (ladder, pod) = (bench.ladder_to(Rung::PodDevice)?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let to = capacity(&ladder).saturating_mul(2);
    let did = format!("expand of a device to {to} bytes");
    let said = grown(&did, bench.expand(&ladder, &pod, to, Plan::Watch)?)?;
    let Some(device) = bench.device(&ladder)?.or_fail("stage-device")? else {
        bench.descend(&ladder, &pod)?;
        return not_applicable("each pod has a device of its own");
    };
    match bench.kernel.device_size(&device) {
        Ok(real) if real >= said && real >= to => {}
        Ok(real) => return fail(did, format!("a device of {said} bytes"), format!("{real}")),
        Err(error) => return fail(did, "a device", error.to_string()),
    }
    drop(device);
    bench.descend(&ladder, &pod)
}
