//! What a volume is asked for besides its source: read-only, mount options, a group.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;

use volhost_model::Pod;
use volhost_runtime::{CallError, ErrorCase};

use super::data;
use crate::bench::Bench;
use crate::ladder::Rung;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::Plan;

/// A mount option that no volume has by itself.
const OPTION: &str = "nodiratime";
/// A group that owns nothing on any machine.
const GROUP: u32 = 54_321;

/// M12: nothing can be written through a mount that was asked for read-only.
pub(super) fn read_only(bench: &Bench) -> Verdict {
    let mut spec = bench.spec()?;
    if !bench.case.expect.read_only.unwrap_or(spec.persistent_volume.is_some()) {
        return not_applicable("such a volume cannot be asked for read-only");
    }
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    // Whatever has to be made before it can be read.
    bench.climb(&ladder, &pod)?;
    bench.descend(&ladder, &pod)?;
    spec.read_only = true;
    let (ladder, did) = (bench.ladder_of(spec)?, "publish of the volume, read-only");
    bench.climb(&ladder, &pod)?;
    for again in [false, true] {
        if again {
            bench.up(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail("publish again of the volume, read-only")?;
        }
        if data::write(bench, &ladder, &pod).is_ok() {
            return fail(did, "writing into it is refused", "it is not");
        }
    }
    bench.descend(&ladder, &pod)
}

/// M13: a PersistentVolume's mount options hold on the mount.
pub(super) fn mount_options(bench: &Bench) -> Verdict {
    if !bench.plugin.info().accepts_mount_options {
        return not_applicable("the plugin does not accept mount options");
    }
    let mut spec = bench.spec()?;
    match &mut spec.persistent_volume {
        Some(of) => of.mount_options = vec![OPTION.to_owned()],
        None => return not_applicable("only a PersistentVolume has mount options"),
    }
    let (ladder, pod, did) =
        (bench.ladder_of(spec)?, bench.pod("a")?, format!("publish with the mount option {OPTION}"));
    bench.climb(&ladder, &pod)?;
    match bench.standing(&ladder, Rung::Pod, &pod)? {
        Some((standing, _)) if standing.options.iter().any(|option| option == OPTION) => bench.descend(&ladder, &pod),
        Some((standing, _)) => fail(did, format!("a mount with {OPTION}"), standing.options.join(",")),
        None => fail(did, "the volume stands", "it does not"),
    }
}

/// M14: the pod's group gets to use the volume.
pub(super) fn fs_group(bench: &Bench) -> Verdict {
    if bench.case.expect.fs_group == Some(false) {
        return not_applicable("the case file says that such a volume is given to no group");
    }
    let ladder = bench.ladder()?;
    let pod = Arc::new(Pod { fs_group: Some(GROUP), ..Pod::clone(&*bench.pod("a")?) });
    bench.climb(&ladder, &pod)?;
    let path = bench.volume_path(&ladder, &pod);
    let did = format!("publish for a pod with the fsGroup {GROUP}");
    for again in [false, true] {
        if again {
            bench.up(&ladder, Rung::Pod, &pod, Plan::Watch)?.or_fail(&format!("{did}, again"))?;
        }
        let found = fs::metadata(&path).or_else(|error| fail(&*did, "the volume stands", error.to_string()))?;
        let (mode, group) = (found.permissions().mode() & 0o7777, found.gid());
        let bits = if group == GROUP { mode >> 3 } else { mode };
        let needed = match (data::writable(bench), found.is_dir()) {
            (true, true) => 0o7,
            (false, true) => 0o5,
            (true, false) => 0o6,
            (false, false) => 0o4,
        };
        if bits & needed != needed {
            let way_out = "if its files are nobody's to give, say `expect: { fsGroup: false }` in the case file";
            let found = format!("mode {mode:o}, group {group}; {way_out}");
            return fail(did, format!("the group {GROUP} may use the volume"), found);
        }
    }
    bench.descend(&ladder, &pod)
}

/// M13: an option that makes no sense is refused.
pub(super) fn unknown_mount_option(bench: &Bench) -> Verdict {
    const NONSENSE: &str = "conformance-nonsense";
    if !bench.plugin.info().accepts_mount_options {
        return not_applicable("the plugin does not accept mount options");
    }
    let mut spec = bench.spec()?;
    match &mut spec.persistent_volume {
        Some(of) => of.mount_options = vec![NONSENSE.to_owned()],
        None => return not_applicable("only a PersistentVolume has mount options"),
    }
    let did = format!("the way up with the mount option {NONSENSE}");
    let spec = Arc::new(spec);
    if let Err(error) = bench.identify(&spec).result {
        return names(&did, NONSENSE, &error);
    }
    let (ladder, pod) = (bench.ladder_of((*spec).clone())?, bench.pod("a")?);
    for rung in ladder.rungs.clone() {
        if let Err(error) = bench.up(&ladder, rung, &pod, Plan::Watch)?.result {
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
