//! Counts volumes and operations for metrics, without making a view of every volume.

use std::collections::BTreeMap;

use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};

use super::Core;
use crate::event::Time;

/// Volumes and operations, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeCounts {
    /// By plugin; one without volumes or operations is missing.
    pub plugins: BTreeMap<PluginName, PluginCounts>,
    /// Volumes of pods that cannot be resolved, and so have no plugin yet.
    pub unresolved: u64,
    /// Volumes that are mounted for certain and belong to a claim, each claim once.
    pub claims: Vec<ClaimedVolume>,
}

/// The counts of one plugin. A volume counts once for each pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PluginCounts {
    /// Wanted by pods.
    pub desired: u64,
    /// Mounted or mapped, for certain.
    pub actual: u64,
    /// Wanted, and not mounted as wanted.
    pub to_mount: u64,
    /// Mounted, or perhaps, and not wanted.
    pub to_unmount: u64,
    /// Mounted or not: the last operation did not say.
    pub uncertain: u64,
    /// Operations that run.
    pub running: u64,
    /// Of these, past their deadline.
    pub overdue: u64,
    /// Operations that failed and wait for their next try.
    pub waiting: u64,
}

/// A mounted volume that belongs to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedVolume {
    /// The claim, `namespace/name`.
    pub claim: String,
    /// Its unique name.
    pub volume: UniqueVolumeName,
    /// Its plugin.
    pub plugin: PluginName,
    /// A pod it is mounted for.
    pub pod: PodUid,
    /// The name of its folder there.
    pub spec_name: SpecName,
}

/// By plugin, its name borrowed: a node has tens of thousands of volumes and a handful of plugins.
type Counts<'a> = BTreeMap<&'a PluginName, PluginCounts>;

impl Core {
    /// Counts what there is now.
    pub fn counts(&self) -> VolumeCounts {
        let mut counts = Counts::new();
        let unresolved = self.count_desired(&mut counts);
        let claims = self.count_actual(&mut counts);
        self.count_operations(&mut counts);
        let plugins = counts.into_iter().map(|(name, counted)| (name.clone(), counted)).collect();
        VolumeCounts { plugins, unresolved, claims }
    }

    /// Returns how many volumes are unresolved.
    fn count_desired<'a>(&'a self, counts: &mut Counts<'a>) -> u64 {
        let mut unresolved = 0;
        for (uid, entry) in self.desired.pods().filter(|(uid, _)| self.is_desired(uid)) {
            for (name, wanted) in &entry.volumes {
                let plugin = counts.entry(&wanted.volume.plugin).or_default();
                plugin.desired += 1;
                plugin.to_mount += u64::from(!self.is_mounted_as_wanted(uid, name, wanted));
            }
            unresolved += u64::try_from(entry.unresolved.len()).unwrap_or(u64::MAX);
        }
        unresolved
    }

    /// Returns the claims whose volumes are mounted.
    fn count_actual<'a>(&'a self, counts: &mut Counts<'a>) -> Vec<ClaimedVolume> {
        let mut claims = BTreeMap::new();
        for (name, volume) in self.actual.volumes() {
            for (uid, mount) in volume.mounts.iter() {
                let plugin = counts.entry(&volume.plugin).or_default();
                plugin.actual += u64::from(mount.state.is_present());
                plugin.uncertain += u64::from(mount.state.may_exist() && !mount.state.is_present());
                plugin.to_unmount += u64::from(mount.state.may_exist() && self.wanted(uid, name).is_none());
                let claim = mount.spec.as_ref().and_then(|spec| spec.persistent_volume.as_ref()).map(|pv| &pv.claim);
                if let Some(claim) = claim.filter(|claim| !claim.is_empty() && mount.is_usable()) {
                    let first = claims.entry(claim).or_insert((name, uid, volume, mount));
                    if (name, uid) < (first.0, first.1) {
                        *first = (name, uid, volume, mount);
                    }
                }
            }
        }
        let claimed = claims.into_iter().map(|(claim, (name, uid, volume, mount))| ClaimedVolume {
            claim: claim.clone(),
            volume: name.name().clone(),
            plugin: volume.plugin.clone(),
            pod: uid.name().clone(),
            spec_name: mount.spec_name.clone(),
        });
        claimed.collect()
    }

    fn count_operations<'a>(&'a self, counts: &mut Counts<'a>) {
        for (_, running) in self.pending.all_running() {
            let plugin = counts.entry(&running.operation.plugin).or_default();
            plugin.running += 1;
            plugin.overdue += u64::from(running.overdue.is_some());
        }
        for (volume, scope, failed) in self.pending.all_failed() {
            let again = self.pending.is_retried(volume, scope, failed);
            counts.entry(&failed.plugin).or_default().waiting += u64::from(!again);
        }
    }

    /// How long the pod waited for this volume, from when it was wanted until it was ready, in
    /// microseconds. None while it is not, and for one that was found ready by recovery.
    pub fn mount_took(&self, uid: &PodUid, volume: &UniqueVolumeName) -> Option<Time> {
        let (uid, volume) = (self.pod_names.get(uid)?, self.volume_names.get(volume)?);
        let ready_at = self.actual.mount(volume, uid)?.ready_at?;
        ready_at.checked_sub(self.wanted(uid, volume)?.since)
    }
}
