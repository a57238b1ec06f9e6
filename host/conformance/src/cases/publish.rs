//! How a volume is published in its pod's folder.

use std::fs;
use std::sync::Barrier;
use std::thread;

use volhost_kernel::{Detach, Kernel};
use volhost_model::SpecName;

use super::data::{self, writable};
use crate::lifecycle::LifecycleStep;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// The longest name of a volume in a pod, in bytes, and the longest of a PersistentVolume.
const NAME_BYTES: usize = 63;
const PV_NAME_BYTES: usize = 253;
/// The mode of a folder that another process left at the target.
const LEFT_FOLDER_MODE: u32 = 0o750;

/// M1: the volume is published, as its case file says, and can be used.
pub(super) fn is_published(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let Some((found, _)) = test_node.target(&lifecycle, LifecycleStep::Publish, &pod)? else {
        return fail("publish", "a folder or a mount at the target", "nothing is there");
    };
    if let Some(kind) = test_node.case.expect.kind.as_ref().filter(|kind| **kind != found.kind) {
        return fail("publish", kind.clone(), found.kind);
    }
    for (path, text) in &test_node.case.expect.files {
        let found = fs::read_to_string(test_node.volume_path(&lifecycle, &pod).join(path));
        let did = format!("reading {} in the volume", path.display());
        match found {
            Ok(found) if found == *text => {}
            Ok(found) => return fail(did, format!("{text:?}"), format!("{found:?}")),
            Err(error) => return fail(did, format!("{text:?}"), error.to_string()),
        }
    }
    if test_node.plugin.info().read_only {
        // The container runtime mounts it read-only; to the node's root it is an ordinary folder.
        return test_node.bring_down(&lifecycle, &pod);
    }
    let written = data::write(test_node, &lifecycle, &pod);
    match (writable(test_node), written) {
        (true, Err(error)) => fail("writing a file into the volume", "ok", data::not_written(&error)),
        (false, Ok(())) => fail("writing a file into the volume", "a refusal: it is read-only", "ok"),
        _ => test_node.bring_down(&lifecycle, &pod),
    }
}

/// M11: a folder that is only in the way is no volume.
pub(super) fn over_an_empty_folder(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let usual = test_node.target(&lifecycle, LifecycleStep::Publish, &pod)?.map(|(found, _)| found);
    if !test_node.volume_path(&lifecycle, &pod).is_dir() {
        return not_applicable("the volume is no folder");
    }
    test_node.roll_back(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?.or_fail("unpublish")?;
    let place = test_node.volume_place(&lifecycle, &pod)?;
    test_node
        .kernel
        .make_folder(&place.parent, &place.name, LEFT_FOLDER_MODE, None)
        .or_else(|error| fail("made a folder at the target", "ok", error.to_string()))?;
    let did = "publish where an empty folder was left at the target";
    test_node.advance(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?.or_fail(did)?;
    match (usual, test_node.target(&lifecycle, LifecycleStep::Publish, &pod)?) {
        (Some(usual), Some((now, _))) => match usual.difference(&now) {
            Some(difference) => fail(did, "the volume as always", difference),
            None => test_node.bring_down(&lifecycle, &pod),
        },
        _ => fail(did, "the volume is published", "it is not"),
    }
}

/// M11: a mount that another process unmounted is made again, and its unpublish succeeds too.
pub(super) fn remounts(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let Some((usual, mounts)) = test_node.target(&lifecycle, LifecycleStep::Publish, &pod)? else {
        return fail("publish", "the volume is published", "it is not");
    };
    if mounts.is_empty() {
        return not_applicable("the volume is no mount");
    }
    let unmount = || {
        let place = test_node.volume_place(&lifecycle, &pod)?;
        let gone = test_node.kernel.detach(&place.parent, &place.name, Detach::Lazy);
        gone.or_else(|error| fail("unmounted the volume behind the plugin's back", "ok", error.to_string()))
    };
    unmount()?;
    let did = "publish after another process unmounted the volume";
    test_node.advance(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?.or_fail(did)?;
    match test_node.target(&lifecycle, LifecycleStep::Publish, &pod)? {
        Some((now, _)) => {
            if let Some(difference) = usual.difference(&now) {
                return fail(did, "the volume as before", difference);
            }
        }
        None => return fail(did, "the volume is published", "it is not"),
    }
    unmount()?;
    test_node
        .roll_back(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?
        .or_fail("unpublish after another process unmounted the volume")?;
    test_node.bring_down(&lifecycle, &pod)
}

/// M6: two pods' calls run at once, and both volumes are published.
pub(super) fn two_pods_at_once(test_node: &TestNode) -> Verdict {
    if test_node.case.expect.shared == Some(false) {
        return not_applicable("the case file says that one pod has the volume at a time");
    }
    let (lifecycle, first, second) = (test_node.lifecycle()?, test_node.pod("a")?, test_node.pod("b")?);
    test_node.bring_up_below(&lifecycle, LifecycleStep::Publish, &first)?;
    let start = Barrier::new(2);
    let both = |down: bool| {
        let call = |pod| {
            start.wait();
            if down {
                test_node.roll_back(&lifecycle, LifecycleStep::Publish, pod, HostCallPlan::Watch)
            } else {
                test_node.advance(&lifecycle, LifecycleStep::Publish, pod, HostCallPlan::Watch)
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
        if test_node.target(&lifecycle, LifecycleStep::Publish, pod)?.is_none() {
            return fail(
                "publish for two pods at once",
                "both volumes are published",
                format!("pod {}'s is not", pod.name),
            );
        }
    }
    both(true)?;
    for pod in [&first, &second] {
        if test_node.target(&lifecycle, LifecycleStep::Publish, pod)?.is_some() {
            return fail(
                "unpublish for two pods at once",
                "neither volume is published",
                format!("pod {}'s is", pod.name),
            );
        }
    }
    test_node.bring_down(&lifecycle, &first)
}

/// M18: a volume may have the longest name there is.
pub(super) fn long_name(test_node: &TestNode) -> Verdict {
    let mut spec = test_node.spec()?;
    let of_volume = spec.persistent_volume.as_mut().map(|of| &mut of.name);
    let name = "n".repeat(if of_volume.is_some() { PV_NAME_BYTES } else { NAME_BYTES });
    if let Some(of_volume) = of_volume {
        name.clone_into(of_volume);
    }
    spec.name = SpecName::new(name).or_else(|error| fail("made a name", "a name", error.to_string()))?;
    let (lifecycle, pod) = (test_node.lifecycle_of(spec)?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    if test_node.target(&lifecycle, LifecycleStep::Publish, &pod)?.is_none() {
        return fail("publish of a volume with the longest name there is", "it is published", "it is not");
    }
    test_node.bring_down(&lifecycle, &pod)
}

/// M17: what a pod mounts in its volume appears there and nowhere else.
pub(super) fn mounts_do_not_propagate(test_node: &TestNode) -> Verdict {
    const INNER: &str = "conformance-mount";
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    let path = test_node.volume_path(&lifecycle, &pod);
    if !path.is_dir() || !writable(test_node) {
        return not_applicable("nothing can be mounted in a volume that is a file, or read-only");
    }
    let did = "mounting something inside the volume, as its pod may";
    fs::create_dir(path.join(INNER))
        .or_else(|error| fail("making a folder in the volume", "ok", data::not_written(&error)))?;
    let before = test_node.mounts()?;
    let mounted = || {
        let volume = test_node.kernel.open_directory(&path)?;
        test_node.kernel.attach(test_node.kernel.tmpfs(&[])?, &volume, INNER.as_ref())
    };
    mounted().or_else(|error| fail(did, "ok", error.to_string()))?;
    let after = test_node.mounts()?;
    let unmounted = test_node
        .kernel
        .open_directory(&path)
        .and_then(|volume| test_node.kernel.detach(&volume, INNER.as_ref(), Detach::Normal));
    unmounted.or_else(|error| fail("unmounting it", "ok", error.to_string()))?;
    if after != before + 1 {
        return fail(did, "one mount more", format!("{} more", after.saturating_sub(before)));
    }
    test_node.bring_down(&lifecycle, &pod)
}
