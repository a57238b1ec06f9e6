//! Growing a volume.

use std::sync::Arc;

use volhost_kernel::{BlockDevices, Errno, Usages};
use volhost_model::Pod;
use volhost_runtime::{CallError, Capability, ErrorCase};

use crate::lifecycle::{Lifecycle, LifecycleStep};
use crate::test_node::TestNode;
use crate::verdict::{CallResult, Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// What a volume without a capacity is taken for, in bytes.
const USUAL: u64 = 64 << 20;
/// The word of the fault that is injected.
const FAULT: (Errno, &str) = (Errno::IO, "EIO");

/// A volume that is up, and how large it is to become.
struct ExpandingVolume {
    lifecycle: Lifecycle,
    pod: Arc<Pod>,
    from: u64,
    to: u64,
}

/// Takes the volume up, on storage made anew.
fn growing(test_node: &TestNode) -> Verdict<ExpandingVolume> {
    if !test_node.plugin.exports(Capability::Expander) {
        return not_applicable("the plugin does not export expander");
    }
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_down(&lifecycle, &pod)?;
    test_node.make_storage_anew()?;
    test_node.bring_up(&lifecycle, &pod)?;
    let from = capacity(&lifecycle);
    let volume = ExpandingVolume { lifecycle, pod, from, to: from.saturating_mul(2) };
    match volume.real(test_node)?.0 {
        // A folder of a disk, say.
        bytes if bytes == 0 || bytes >= volume.to => not_applicable("the volume has no size of its own"),
        _ => Ok(volume),
    }
}

/// The size that the volume is asked for, in bytes.
fn capacity(lifecycle: &Lifecycle) -> u64 {
    lifecycle.spec.persistent_volume.as_ref().and_then(|of| of.capacity).unwrap_or(USUAL)
}

impl ExpandingVolume {
    fn expand(&self, test_node: &TestNode, to: u64, plan: HostCallPlan) -> Verdict<CallResult<u64>> {
        test_node.expand(&self.lifecycle, &self.pod, to, plan)
    }

    /// The size of the file system that the pod sees, and of the device behind it, if it has one.
    fn real(&self, test_node: &TestNode) -> Verdict<(u64, Option<u64>)> {
        let place = test_node.volume_place(&self.lifecycle, &self.pod)?;
        let asked =
            |error: volhost_kernel::KernelError| fail("asked for the volume's size", "an answer", error.to_string());
        let usage = test_node.kernel.usage(&place.parent, &place.name).or_else(asked)?;
        let attached =
            test_node.attachment(&self.lifecycle).or_else(|error| fail("wait-for-attach", "ok", error.message()))?;
        let device = attached.and_then(|attached| attached.device);
        let device = device.map(|device| test_node.kernel.device_size(&device)).transpose();
        Ok((
            usage.capacity,
            device.or_else(|error| fail("asked for the device's size", "an answer", error.to_string()))?,
        ))
    }

    fn check(&self, test_node: &TestNode, did: &str, said: u64, before: u64) -> Verdict {
        let (volume, device) = self.real(test_node)?;
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

/// The size that it has grown to. The plugin may say that it cannot, and the kernel that it may
/// not: an ext4 that is mounted grows only with `CAP_SYS_RESOURCE`.
fn grown(did: &str, called: CallResult<u64>) -> Verdict<u64> {
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
pub(super) fn grows(test_node: &TestNode) -> Verdict {
    let volume = growing(test_node)?;
    let (before, _) = volume.real(test_node)?;
    let did = format!("expand of a volume of {} bytes to {}", volume.from, volume.to);
    let said = grown(&did, volume.expand(test_node, volume.to, HostCallPlan::Watch)?)?;
    volume.check(test_node, &did, said, before)?;
    test_node.bring_down(&volume.lifecycle, &volume.pod)
}

/// E2: large enough already is done, and nothing shrinks.
pub(super) fn large_enough(test_node: &TestNode) -> Verdict {
    let volume = growing(test_node)?;
    let grown = grown("expand", volume.expand(test_node, volume.to, HostCallPlan::Watch)?)?;
    let before = volume.real(test_node)?;
    for to in [volume.to, volume.from, 1] {
        let did = format!("expand to {to} bytes of a volume that has {grown}");
        let said = volume.expand(test_node, to, HostCallPlan::Watch)?.or_fail(&did)?;
        if said != grown {
            return fail(did, format!("{grown}"), format!("{said}"));
        }
        let after = volume.real(test_node)?;
        if after != before {
            return fail(did, format!("nothing changes: {before:?}"), format!("{after:?}"));
        }
    }
    test_node.bring_down(&volume.lifecycle, &volume.pod)
}

/// E3: ended at any host call, a repeat comes to the same.
pub(super) fn crash_then_repeat(test_node: &TestNode) -> Verdict {
    each_host_call(test_node, |volume, at, name| {
        let (before, _) = volume.real(test_node)?;
        let _ = volume.expand(test_node, volume.to, HostCallPlan::EndAt(at))?;
        let did = format!("expand, ended where its host call {} would begin, {name}; then repeated", at + 1);
        let said = volume.expand(test_node, volume.to, HostCallPlan::Watch)?.or_fail(&did)?;
        volume.check(test_node, &did, said, before)
    })
}

/// E4: a fault is reported, in the kernel's words, as none of the volume's, and a repeat has the
/// same result.
pub(super) fn fault_then_repeat(test_node: &TestNode) -> Verdict {
    let (errno, word) = FAULT;
    each_host_call(test_node, |volume, at, name| {
        let (before, _) = volume.real(test_node)?;
        let did = format!("expand, its host call {}, {name}, failing with {word}", at + 1);
        match volume.expand(test_node, volume.to, HostCallPlan::FailAt(at, errno))?.result {
            Ok(said) => return volume.check(test_node, &did, said, before),
            Err(CallError::Plugin(said)) if said.case != ErrorCase::InvalidArgument && said.message.contains(word) => {}
            Err(CallError::Plugin(said)) => {
                let expected = format!("an error with {word} that is not invalid-argument");
                return fail(did, expected, format!("{:?}: {}", said.case, said.message));
            }
            Err(error) => return fail(did, "an error that the plugin answers", error.message()),
        }
        let did = format!("{did}; then repeated");
        let said = volume.expand(test_node, volume.to, HostCallPlan::Watch)?.or_fail(&did)?;
        volume.check(test_node, &did, said, before)
    })
}

/// For each host call of an undisturbed expand, on a volume made anew.
fn each_host_call(test_node: &TestNode, check: impl Fn(&ExpandingVolume, usize, &str) -> Verdict) -> Verdict {
    let volume = growing(test_node)?;
    let called = volume.expand(test_node, volume.to, HostCallPlan::Watch)?;
    let calls = called.calls.clone();
    grown("expand", called)?;
    for (at, call) in calls.iter().enumerate() {
        let volume = growing(test_node)?;
        check(&volume, at, &call.name)?;
    }
    test_node.bring_down(&volume.lifecycle, &volume.pod)
}

/// E5: a device grows too.
pub(super) fn grows_as_a_device(test_node: &TestNode) -> Verdict {
    if !test_node.plugin.exports(Capability::Expander) {
        return not_applicable("the plugin does not export expander");
    }
    let (lifecycle, pod) = (test_node.lifecycle_to(LifecycleStep::MapDevice)?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let to = capacity(&lifecycle).saturating_mul(2);
    let did = format!("expand of a device to {to} bytes");
    let said = grown(&did, test_node.expand(&lifecycle, &pod, to, HostCallPlan::Watch)?)?;
    let Some(device) = test_node.device(&lifecycle)?.or_fail("stage-device")? else {
        test_node.bring_down(&lifecycle, &pod)?;
        return not_applicable("each pod has a device of its own");
    };
    match test_node.kernel.device_size(&device) {
        Ok(real) if real >= said && real >= to => {}
        Ok(real) => return fail(did, format!("a device of {said} bytes"), format!("{real}")),
        Err(error) => return fail(did, "a device", error.to_string()),
    }
    drop(device);
    test_node.bring_down(&lifecycle, &pod)
}
