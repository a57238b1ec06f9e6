//! What a volume is asked for besides its source: read-only, mount options, a group.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;

use volhost_model::Pod;
use volhost_runtime::{CallError, ErrorCase};

use super::data;
use crate::lifecycle::LifecycleStep;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// A mount option that no volume has by itself.
const OPTION: &str = "nodiratime";
/// A group that owns nothing on any machine.
const GROUP: u32 = 54_321;

/// M12: nothing can be written through a mount that was asked for read-only.
pub(super) fn read_only(test_node: &TestNode) -> Verdict {
    let mut spec = test_node.spec()?;
    if !test_node.case.expect.read_only.unwrap_or(spec.persistent_volume.is_some()) {
        return not_applicable("such a volume cannot be asked for read-only");
    }
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    // Whatever has to be made before it can be read.
    test_node.bring_up(&lifecycle, &pod)?;
    test_node.bring_down(&lifecycle, &pod)?;
    spec.read_only = true;
    let (lifecycle, did) = (test_node.lifecycle_of(spec)?, "publish of the volume, read-only");
    test_node.bring_up(&lifecycle, &pod)?;
    for again in [false, true] {
        if again {
            test_node
                .advance(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?
                .or_fail("publish again of the volume, read-only")?;
        }
        if data::write(test_node, &lifecycle, &pod).is_ok() {
            return fail(did, "writing into it is refused", "it is not");
        }
    }
    test_node.bring_down(&lifecycle, &pod)
}

/// M13: a PersistentVolume's mount options apply to the mount.
pub(super) fn mount_options(test_node: &TestNode) -> Verdict {
    if !test_node.plugin.info().accepts_mount_options {
        return not_applicable("the plugin does not accept mount options");
    }
    let mut spec = test_node.spec()?;
    match &mut spec.persistent_volume {
        Some(of) => of.mount_options = vec![OPTION.to_owned()],
        None => return not_applicable("only a PersistentVolume has mount options"),
    }
    let (lifecycle, pod, did) =
        (test_node.lifecycle_of(spec)?, test_node.pod("a")?, format!("publish with the mount option {OPTION}"));
    test_node.bring_up(&lifecycle, &pod)?;
    match test_node.target(&lifecycle, LifecycleStep::Publish, &pod)? {
        Some((found, _)) if found.options.iter().any(|option| option == OPTION) => {
            test_node.bring_down(&lifecycle, &pod)
        }
        Some((found, _)) => fail(did, format!("a mount with {OPTION}"), found.options.join(",")),
        None => fail(did, "the volume is published", "it is not"),
    }
}

/// M14: the pod's group gets to use the volume.
pub(super) fn fs_group(test_node: &TestNode) -> Verdict {
    if test_node.case.expect.fs_group == Some(false) {
        return not_applicable("the case file says that such a volume is given to no group");
    }
    let lifecycle = test_node.lifecycle()?;
    let pod = Arc::new(Pod { fs_group: Some(GROUP), ..Pod::clone(&*test_node.pod("a")?) });
    test_node.bring_up(&lifecycle, &pod)?;
    let path = test_node.volume_path(&lifecycle, &pod);
    let did = format!("publish for a pod with the fsGroup {GROUP}");
    for again in [false, true] {
        if again {
            test_node
                .advance(&lifecycle, LifecycleStep::Publish, &pod, HostCallPlan::Watch)?
                .or_fail(&format!("{did}, again"))?;
        }
        let found = fs::metadata(&path).or_else(|error| fail(&*did, "the volume is published", error.to_string()))?;
        let (mode, group) = (found.permissions().mode() & 0o7777, found.gid());
        let bits = if group == GROUP { mode >> 3 } else { mode };
        let needed = match (data::writable(test_node), found.is_dir()) {
            (true, true) => 0o7,
            (false, true) => 0o5,
            (true, false) => 0o6,
            (false, false) => 0o4,
        };
        if bits & needed != needed {
            let way_out =
                "if the plugin cannot change the group of its files, say `expect: { fsGroup: false }` in the case file";
            let found = format!("mode {mode:o}, group {group}; {way_out}");
            return fail(did, format!("the group {GROUP} may use the volume"), found);
        }
    }
    test_node.bring_down(&lifecycle, &pod)
}

/// M13: an option that makes no sense is refused.
pub(super) fn unknown_mount_option(test_node: &TestNode) -> Verdict {
    const NONSENSE: &str = "conformance-nonsense";
    if !test_node.plugin.info().accepts_mount_options {
        return not_applicable("the plugin does not accept mount options");
    }
    let mut spec = test_node.spec()?;
    match &mut spec.persistent_volume {
        Some(of) => of.mount_options = vec![NONSENSE.to_owned()],
        None => return not_applicable("only a PersistentVolume has mount options"),
    }
    let did = format!("bringing the volume up with the mount option {NONSENSE}");
    let spec = Arc::new(spec);
    if let Err(error) = test_node.identify(&spec).result {
        return names(&did, NONSENSE, &error);
    }
    let (lifecycle, pod) = (test_node.lifecycle_of((*spec).clone())?, test_node.pod("a")?);
    for step in lifecycle.steps.clone() {
        if let Err(error) = test_node.advance(&lifecycle, step, &pod, HostCallPlan::Watch)?.result {
            return names(&did, NONSENSE, &error);
        }
    }
    fail(did, "a refusal that names it", "ok")
}

fn names(did: &str, option: &str, error: &CallError) -> Verdict {
    match error {
        CallError::Plugin(said) if said.message.contains(option) && said.case != ErrorCase::Uncertain => Ok(()),
        error => fail(did, "a refusal that names it", error.message()),
    }
}
