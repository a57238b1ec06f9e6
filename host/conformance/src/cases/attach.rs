//! Attaching volumes, finding them again, and their devices.

use volhost_kernel::BlockDevices;
use volhost_runtime::{Attachment, CallError, ErrorCase};

use crate::bench::Bench;
use crate::ladder::Rung;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::Plan;

/// N1: what is attached is found, and what is detached is not.
pub(super) fn is_found(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder_to(Rung::Attach)?, bench.pod("a")?);
    for (did, wanted) in [("attach", true), ("detach", false)] {
        let called = match wanted {
            true => bench.up(&ladder, Rung::Attach, &pod, Plan::Watch)?,
            false => bench.down(&ladder, Rung::Attach, &pod, Plan::Watch)?,
        };
        called.or_fail(did)?;
        match bench.is_up(&ladder, Rung::Attach, &pod)? {
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
pub(super) fn in_order(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder_to(Rung::Attach)?, bench.pod("a")?);
    let other = bench.case.other().or_else(|why| fail("read the case file's `other`", "a volume", why))?;
    let Some(other) = other else { return not_applicable("the case file names no `other` volume") };
    let other = bench.ladder_of(other)?.name;
    bench.up(&ladder, Rung::Attach, &pod, Plan::Watch)?.or_fail("attach")?;
    if bench.is_up(&ladder, Rung::Attach, &pod)?.is_none() {
        return not_applicable("the plugin cannot say what is attached");
    }
    let names = [other.clone(), ladder.name.clone(), other];
    let did = "are-attached of three names, of which only the second is attached";
    let found = bench.are_attached(&names).or_fail(did)?;
    if found != [false, true, false] {
        return fail(did, "[false, true, false]", format!("{found:?}"));
    }
    match bench.are_attached(&[]).or_fail("are-attached of no names")?.as_slice() {
        [] => bench.descend(&ladder, &pod),
        some => fail("are-attached of no names", "no answers", format!("{some:?}")),
    }
}

/// N3: the device of what is attached is found, the same one each time, and the rest of the way up can use it.
pub(super) fn finds_the_device(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder_to(Rung::Attach)?, bench.pod("a")?);
    bench.up(&ladder, Rung::Attach, &pod, Plan::Watch)?.or_fail("attach")?;
    let did = "wait-for-attach of a volume that is attached";
    let ask = || match bench.attachment(&ladder) {
        Ok(attached) => Ok(attached.and_then(|attached| attached.device)),
        Err(error) => fail(did, "its device", error.message()),
    };
    let first = ask()?;
    if let Some(device) = &first {
        match bench.kernel.device_size(device) {
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
    bench.climb(&ladder, &pod)?;
    bench.descend(&ladder, &pod)
}

/// N4: what is not there yet is waited for.
pub(super) fn not_there(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder_to(Rung::Attach)?, bench.pod("a")?);
    bench.up(&ladder, Rung::Attach, &pod, Plan::Watch)?.or_fail("attach")?;
    let Some(attached_as) = bench.attached_as() else { return fail("attach", "a word for it", "none") };
    bench.down(&ladder, Rung::Attach, &pod, Plan::Watch)?.or_fail("detach")?;
    let attached = Attachment { attached_as, metadata: Default::default(), device: None };
    let did = "wait-for-attach of a volume whose device is not there";
    match bench.wait_for_attach(&ladder, &attached).result {
        Ok(None) => Ok(()),
        Err(CallError::Plugin(said)) if said.case == ErrorCase::Retryable => Ok(()),
        Ok(Some(device)) => fail(did, "retryable", format!("the device {}", device.path().display())),
        Err(CallError::Plugin(said)) => fail(did, "retryable", format!("{:?}: {}", said.case, said.message)),
        Err(error) => fail(did, "retryable", error.message()),
    }
}

/// N5: every pod sees the same.
pub(super) fn same_for_every_pod(bench: &Bench) -> Verdict {
    if bench.case.expect.shared == Some(false) {
        return not_applicable("the case file says that one pod has the volume at a time");
    }
    let (ladder, first, second) = (bench.ladder_to(Rung::Node)?, bench.pod("a")?, bench.pod("b")?);
    if !super::data::writable(bench) {
        return not_applicable("pods cannot write to the volume");
    }
    bench.climb(&ladder, &first)?;
    bench.up(&ladder, Rung::Pod, &second, Plan::Watch)?.or_fail("publish for a second pod")?;
    super::data::write(bench, &ladder, &first)
        .or_else(|error| fail("writing a file into the first pod's volume", "ok", super::data::not_written(&error)))?;
    if !super::data::is_there(bench, &ladder, &second) {
        return fail("reading it in the second pod's volume", "what the first wrote", "it is not there");
    }
    bench.down(&ladder, Rung::Pod, &second, Plan::Watch)?.or_fail("unpublish for the second pod")?;
    bench.descend(&ladder, &first)
}

/// B1: the device that is handed over is a device, and the same one each time.
pub(super) fn hands_over_a_device(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder_to(Rung::Device)?, bench.pod("a")?);
    bench.climb_below(&ladder, Rung::Device, &pod)?;
    let mut paths = Vec::new();
    for _ in 0..2 {
        let Some(device) = bench.device(&ladder)?.or_fail("stage-device")? else {
            bench.descend(&ladder, &pod)?;
            return not_applicable("each pod has a device of its own");
        };
        match bench.kernel.device_size(&device) {
            Ok(bytes) if bytes > 0 => paths.push(device.path().to_owned()),
            Ok(_) => return fail("stage-device", "a device", format!("{} is empty", device.path().display())),
            Err(error) => return fail("stage-device", "a device", error.to_string()),
        }
    }
    if paths.first() != paths.last() {
        return fail("stage-device, twice", "the same device", format!("{paths:?}"));
    }
    bench.climb(&ladder, &pod)?;
    bench.descend(&ladder, &pod)
}
