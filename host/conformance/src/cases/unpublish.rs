//! Taking a volume away from its pod.

use std::fs::{self, File};

use volhost_runtime::{CallError, ErrorCase};

use super::data;
use crate::bench::Bench;
use crate::ladder::Rung;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::Plan;

/// M3: nothing stands at the target, whatever the pod left in it.
pub(super) fn gone(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let path = bench.volume_path(&ladder, &pod);
    if data::writable(bench) && path.is_dir() {
        let left = fs::create_dir_all(path.join("some/folders")).and_then(|()| fs::write(path.join("some/file"), "x"));
        left.or_else(|error| fail("writing into the volume", "ok", data::not_written(&error)))?;
    }
    bench.down(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail("unpublish")?;
    if fs::symlink_metadata(&path).is_ok() {
        return fail("unpublish", "nothing at the target", "something is there");
    }
    bench.descend(&ladder, &pod)
}

/// M6: another pod's volume stays as it is.
pub(super) fn leaves_the_other_pod(bench: &Bench) -> Verdict {
    if bench.case.expect.shared == Some(false) {
        return not_applicable("the case file says that one pod has the volume at a time");
    }
    let (ladder, first, second) = (bench.ladder()?, bench.pod("a")?, bench.pod("b")?);
    bench.climb(&ladder, &first)?;
    bench.up(&ladder, Rung::Pod, &second, Plan::Watch)?.or_fail("publish for a second pod")?;
    let Some(before) = bench.standing(&ladder, Rung::Pod, &second)? else {
        return fail("publish for a second pod", "its volume stands", "it does not");
    };
    let did = "unpublish for the first of two pods";
    bench.down(&ladder, Rung::Pod, &first, Plan::Watch)?.or_fail(did)?;
    match bench.standing(&ladder, Rung::Pod, &second)? {
        Some(after) if after == before => {}
        Some((after, _)) => {
            let how = before.0.difference(&after).unwrap_or_else(|| "another mount stands there".into());
            return fail(did, "the second pod's volume as before", how);
        }
        None => return fail(did, "the second pod's volume stands", "it does not"),
    }
    bench.descend(&ladder, &second)
}

/// M9: of the volume no more is known than its target tells.
pub(super) fn without_the_source(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    bench.objects.set_gone(true);
    let did = "the whole way down, when every object that the volume names is gone";
    let called = bench.down(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail(did);
    bench.objects.set_gone(false);
    called?;
    bench.descend(&ladder, &pod)
}

/// M10: what is in use is told as busy, and stays.
pub(super) fn busy(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let Some((before, mounts)) = bench.standing(&ladder, Rung::Pod, &pod)? else {
        return fail("publish", "the volume stands", "it does not");
    };
    if mounts.is_empty() {
        return not_applicable("the volume is no mount");
    }
    let did = "unpublish while a process has the volume open";
    let user = File::open(bench.volume_path(&ladder, &pod))
        .or_else(|error| fail("opened the volume, as a process of a pod would", "ok", error.to_string()))?;
    let called = bench.down(&ladder, Rung::Pod, &pod, Plan::Watch)?;
    match called.result {
        Err(CallError::Plugin(said)) if said.case == ErrorCase::Busy || bench.case.expect.busy_in_own_words => {}
        Err(error) => return fail(did, "busy", error.message()),
        Ok(()) => return fail(did, "busy", "ok"),
    }
    match bench.standing(&ladder, Rung::Pod, &pod)? {
        Some((after, _)) if before.difference(&after).is_none() => {}
        Some((after, _)) => return fail(did, "the volume as before", before.difference(&after).unwrap_or_default()),
        None => return fail(did, "the volume stands", "it does not"),
    }
    drop(user);
    bench.down(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail("unpublish once nobody has the volume open")?;
    bench.descend(&ladder, &pod)
}
