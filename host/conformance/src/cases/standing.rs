//! How a volume stands in its pod's folder.

use std::fs;
use std::sync::Barrier;
use std::thread;

use volhost_kernel::{Detach, Kernel};
use volhost_model::SpecName;

use super::data::{self, writable};
use crate::bench::Bench;
use crate::ladder::Rung;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::Plan;

/// The longest name of a volume in a pod, in bytes, and the longest of a PersistentVolume.
const NAME_BYTES: usize = 63;
const PV_NAME_BYTES: usize = 253;
/// The mode of a folder that somebody else left at the target.
const LEFT_FOLDER_MODE: u32 = 0o750;

/// M1: the volume stands, as its case file says, and can be used.
pub(super) fn stands(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let Some((standing, _)) = bench.standing(&ladder, Rung::Pod, &pod)? else {
        return fail("publish", "a folder or a mount at the target", "nothing stands there");
    };
    if let Some(kind) = bench.case.expect.kind.as_ref().filter(|kind| **kind != standing.kind) {
        return fail("publish", kind.clone(), standing.kind);
    }
    for (path, text) in &bench.case.expect.files {
        let found = fs::read_to_string(bench.volume_path(&ladder, &pod).join(path));
        let did = format!("reading {} in the volume", path.display());
        match found {
            Ok(found) if found == *text => {}
            Ok(found) => return fail(did, format!("{text:?}"), format!("{found:?}")),
            Err(error) => return fail(did, format!("{text:?}"), error.to_string()),
        }
    }
    if bench.plugin.info().read_only {
        // Containers get it read-only from whoever starts them; to the node's root it is an ordinary folder.
        return bench.descend(&ladder, &pod);
    }
    let written = data::write(bench, &ladder, &pod);
    match (writable(bench), written) {
        (true, Err(error)) => fail("writing a file into the volume", "ok", data::not_written(&error)),
        (false, Ok(())) => fail("writing a file into the volume", "a refusal: it is read-only", "ok"),
        _ => bench.descend(&ladder, &pod),
    }
}

/// M11: a folder that is only in the way is no volume.
pub(super) fn over_an_empty_folder(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let usual = bench.standing(&ladder, Rung::Pod, &pod)?.map(|(standing, _)| standing);
    if !bench.volume_path(&ladder, &pod).is_dir() {
        return not_applicable("the volume is no folder");
    }
    bench.down(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail("unpublish")?;
    let place = bench.volume_place(&ladder, &pod)?;
    bench
        .kernel
        .make_folder(&place.parent, &place.name, LEFT_FOLDER_MODE, None)
        .or_else(|error| fail("made a folder at the target", "ok", error.to_string()))?;
    let did = "publish where an empty folder was left at the target";
    bench.up(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail(did)?;
    match (usual, bench.standing(&ladder, Rung::Pod, &pod)?) {
        (Some(usual), Some((now, _))) => match usual.difference(&now) {
            Some(difference) => fail(did, "the volume as always", difference),
            None => bench.descend(&ladder, &pod),
        },
        _ => fail(did, "the volume stands", "it does not"),
    }
}

/// M11: a mount that somebody took away is made again, and its unpublish succeeds too.
pub(super) fn heals(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let Some((usual, mounts)) = bench.standing(&ladder, Rung::Pod, &pod)? else {
        return fail("publish", "the volume stands", "it does not");
    };
    if mounts.is_empty() {
        return not_applicable("the volume is no mount");
    }
    let unmount = || {
        let place = bench.volume_place(&ladder, &pod)?;
        let gone = bench.kernel.detach(&place.parent, &place.name, Detach::Lazy);
        gone.or_else(|error| fail("unmounted the volume behind the plugin's back", "ok", error.to_string()))
    };
    unmount()?;
    let did = "publish after somebody unmounted the volume";
    bench.up(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail(did)?;
    match bench.standing(&ladder, Rung::Pod, &pod)? {
        Some((now, _)) => {
            if let Some(difference) = usual.difference(&now) {
                return fail(did, "the volume as before", difference);
            }
        }
        None => return fail(did, "the volume stands", "it does not"),
    }
    unmount()?;
    bench.down(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail("unpublish after somebody unmounted the volume")?;
    bench.descend(&ladder, &pod)
}

/// M6: two pods' calls run at once, and both volumes stand.
pub(super) fn two_pods_at_once(bench: &Bench) -> Verdict {
    if bench.case.expect.shared == Some(false) {
        return not_applicable("the case file says that one pod has the volume at a time");
    }
    let (ladder, first, second) = (bench.ladder()?, bench.pod("a")?, bench.pod("b")?);
    bench.climb_below(&ladder, Rung::Pod, &first)?;
    let start = Barrier::new(2);
    let both = |down: bool| {
        let call = |pod| {
            start.wait();
            if down {
                bench.down(&ladder, Rung::Pod, pod, Plan::Watch)
            } else {
                bench.up(&ladder, Rung::Pod, pod, Plan::Watch)
            }
        };
        let (one, other) = thread::scope(|scope| {
            let other = scope.spawn(|| call(&second));
            (call(&first), other.join())
        });
        let did = if down { "unpublish for two pods at once" } else { "publish for two pods at once" };
        one?.or_fail(did)?;
        other.unwrap_or_else(|_| fail(did, "an answer", "the thread ended early"))?.or_fail(did)
    };
    both(false)?;
    for pod in [&first, &second] {
        if bench.standing(&ladder, Rung::Pod, pod)?.is_none() {
            return fail("publish for two pods at once", "both volumes stand", format!("pod {}'s does not", pod.name));
        }
    }
    both(true)?;
    for pod in [&first, &second] {
        if bench.standing(&ladder, Rung::Pod, pod)?.is_some() {
            return fail("unpublish for two pods at once", "nothing stands", format!("pod {}'s does", pod.name));
        }
    }
    bench.descend(&ladder, &first)
}

/// M18: a volume may have the longest name there is.
pub(super) fn long_name(bench: &Bench) -> Verdict {
    let mut spec = bench.spec()?;
    let of_volume = spec.persistent_volume.as_mut().map(|of| &mut of.name);
    let name = "n".repeat(if of_volume.is_some() { PV_NAME_BYTES } else { NAME_BYTES });
    if let Some(of_volume) = of_volume {
        name.clone_into(of_volume);
    }
    spec.name = SpecName::new(name).or_else(|error| fail("made a name", "a name", error.to_string()))?;
    let (ladder, pod) = (bench.ladder_of(spec)?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    if bench.standing(&ladder, Rung::Pod, &pod)?.is_none() {
        return fail("publish of a volume with the longest name there is", "it stands", "it does not");
    }
    bench.descend(&ladder, &pod)
}

/// M17: what a pod mounts in its volume appears there and nowhere else.
pub(super) fn keeps_to_itself(bench: &Bench) -> Verdict {
    const INNER: &str = "conformance-mount";
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    let path = bench.volume_path(&ladder, &pod);
    if !path.is_dir() || !writable(bench) {
        return not_applicable("nothing can be mounted in a volume that is a file, or read-only");
    }
    let did = "mounting something inside the volume, as its pod may";
    fs::create_dir(path.join(INNER))
        .or_else(|error| fail("making a folder in the volume", "ok", data::not_written(&error)))?;
    let before = bench.mounts()?;
    let mounted = || {
        let volume = bench.kernel.open_directory(&path)?;
        bench.kernel.attach(bench.kernel.tmpfs(&[])?, &volume, INNER.as_ref())
    };
    mounted().or_else(|error| fail(did, "ok", error.to_string()))?;
    let after = bench.mounts()?;
    let unmounted = bench
        .kernel
        .open_directory(&path)
        .and_then(|volume| bench.kernel.detach(&volume, INNER.as_ref(), Detach::Normal));
    unmounted.or_else(|error| fail("unmounting it", "ok", error.to_string()))?;
    if after != before + 1 {
        return fail(did, "one mount more", format!("{} more", after.saturating_sub(before)));
    }
    bench.descend(&ladder, &pod)
}
