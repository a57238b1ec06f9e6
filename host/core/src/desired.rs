//! The desired state of the world: which pods want which volumes, as sources last reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use volhost_model::names::{OuterName, PodUid, UniqueVolumeName};
use volhost_model::{Pod, VolumeSpec};

use crate::blocked::BlockedReason;
use crate::compare::{is_same_source, share};
use crate::event::{DesiredPod, DesiredVolume, OperationId, Time, UnresolvedVolume};
use crate::identity::{ById, Names, PodId, VolumeId};
use crate::small_map::SmallMap;

/// The report of sources on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PodReport {
    /// Nothing: recovery found its folder.
    Nothing,
    /// It exists.
    Exists,
    /// It is gone or finished.
    Gone,
}

/// A pod that a source reported, or that recovery found a folder of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PodEntry {
    /// Its object, as far as known.
    #[serde(with = "crate::shared::option")]
    pub(crate) pod: Option<Arc<Pod>>,
    /// The report of sources on it.
    pub(crate) reported: PodReport,
    /// The volumes it wants; empty unless it exists. Boxed: a map's node has room for eleven, and a
    /// pod has mostly few. An image lists what has the number of a volume separately.
    #[serde(skip)]
    pub(crate) volumes: BTreeMap<VolumeId, Box<VolumeEntry>>,
    /// The wanted volumes that could not be resolved.
    #[serde(skip)]
    pub(crate) unresolved: BTreeMap<OuterName, Unresolved>,
    /// Its containers use names of which the source says nothing.
    pub(crate) has_unaccounted: bool,
    /// Some of its volumes are made of others of them.
    pub(crate) has_needs: bool,
    /// The volume that was last found not to be mounted as wanted.
    #[serde(skip)]
    pub(crate) unready: Option<VolumeId>,
    /// The time of the first report.
    pub(crate) since: Time,
    /// When its last volume became ready; none while one is not.
    pub(crate) ready_at: Option<Time>,
}

impl PodEntry {
    /// The entry of a pod of which no source has reported anything.
    const fn found(now: Time) -> Self {
        Self {
            pod: None,
            reported: PodReport::Nothing,
            volumes: BTreeMap::new(),
            unresolved: BTreeMap::new(),
            has_unaccounted: false,
            has_needs: false,
            unready: None,
            since: now,
            ready_at: None,
        }
    }

    /// `namespace/name`, or nothing when only the uid is known.
    pub(crate) fn full_name(&self) -> Option<String> {
        self.pod.as_ref().map(|pod| pod.full_name())
    }

    /// Returns the names that the pod's containers use and that are neither resolved nor
    /// unresolved.
    pub(crate) fn unaccounted(&self) -> Vec<&OuterName> {
        let resolved: BTreeSet<&OuterName> = self.volumes.values().flat_map(|wanted| &wanted.outer_names).collect();
        let is_known = |name: &&OuterName| self.unresolved.contains_key(*name) || resolved.contains(name);
        let used = self.pod.iter().flat_map(|pod| &pod.used_volumes);
        used.filter(|name| !is_known(name)).collect()
    }
}

/// A volume that a pod wants and that could not be resolved.
#[derive(Debug, Clone)]
pub(crate) struct Unresolved {
    /// The reason.
    pub(crate) reason: String,
    /// The volume that the name led to when it was last resolved.
    pub(crate) was: Option<VolumeId>,
    /// The volume it is, where only its plugin could not be asked.
    pub(crate) spec: Option<Arc<VolumeSpec>>,
    /// The claim it comes by.
    pub(crate) claim: Option<String>,
}

impl Unresolved {
    /// It may be this volume, of which this is known.
    fn may_be(&self, name: &VolumeId, known: Option<&Arc<VolumeSpec>>) -> bool {
        let claim = known.and_then(|known| known.persistent_volume.as_ref()).map(|pv| &pv.claim);
        self.was.as_ref() == Some(name)
            || (self.claim.is_some() && self.claim.as_ref() == claim)
            || self.spec.as_ref().zip(known).is_some_and(|(spec, known)| is_same_source(spec, known))
    }
}

/// One volume that one pod wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct VolumeEntry {
    /// The volume, as the first outer name that leads to it describes it.
    pub(crate) volume: DesiredVolume,
    /// Every outer name that leads to it; never empty.
    pub(crate) outer_names: Vec<OuterName>,
    /// When it became wanted.
    pub(crate) since: Time,
    /// The last operation begun for it, 0 if none: among the pods of one volume, the one that
    /// waited longest goes first.
    pub(crate) last_attempt: OperationId,
    /// Why no operation is begun for it, though it is not as wanted and no back-off runs.
    pub(crate) blocked_reason: Option<BlockedReason>,
    /// The edit of its PersistentVolume that applies at its next mount.
    pub(crate) pending_edit: Option<String>,
}

/// The changes by [`DesiredState::set_pod`].
#[derive(Debug, Default)]
pub(crate) struct PodChange {
    /// Volumes it wanted before or wants now.
    pub(crate) volumes: BTreeSet<VolumeId>,
    /// Outer names whose reason for not being resolved is new.
    pub(crate) new_reasons: Vec<(OuterName, String)>,
    /// The pod's object differs from the one known before.
    pub(crate) pod_changed: bool,
}

/// Pods, and for each volume the pods that want it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DesiredState {
    pods: ById<PodUid, PodEntry>,
    users: ById<UniqueVolumeName, SmallMap<PodId, ()>>,
    /// The pods that have an unresolved volume.
    waiting: BTreeSet<PodId>,
}

impl DesiredState {
    /// The pod's entry.
    pub(crate) fn pod(&self, uid: &PodId) -> Option<&PodEntry> {
        self.pods.get(uid)
    }

    /// The pod's entry, to be changed except for its volumes.
    pub(crate) fn pod_mut(&mut self, uid: &PodId) -> Option<&mut PodEntry> {
        self.pods.get_mut(uid)
    }

    /// Every entry, in an order of no meaning.
    pub(crate) fn pods(&self) -> impl Iterator<Item = (&PodId, &PodEntry)> {
        self.pods.iter()
    }

    /// Returns the wanted volume of the pod.
    pub(crate) fn wanted(&self, uid: &PodId, volume: &VolumeId) -> Option<&VolumeEntry> {
        self.pods.get(uid)?.volumes.get(volume).map(Box::as_ref)
    }

    /// Returns the wanted volume of the pod, to be changed.
    pub(crate) fn wanted_mut(&mut self, uid: &PodId, volume: &VolumeId) -> Option<&mut VolumeEntry> {
        self.pods.get_mut(uid)?.volumes.get_mut(volume).map(Box::as_mut)
    }

    /// The pods that want the volume.
    pub(crate) fn users(&self, volume: &VolumeId) -> impl Iterator<Item = &PodId> {
        self.users.get(volume).into_iter().flat_map(SmallMap::keys)
    }

    /// Whether a pod has an unresolved volume that may be this one, of which this is known (rule
    /// R2).
    pub(crate) fn is_awaited(&self, name: &VolumeId, known: Option<&Arc<VolumeSpec>>) -> bool {
        let entries = self.waiting.iter().filter_map(|uid| self.pods.get(uid));
        entries.flat_map(|entry| entry.unresolved.values()).any(|unresolved| unresolved.may_be(name, known))
    }

    /// Whether the pod has an unresolved volume.
    pub(crate) fn has_unresolved(&self, uid: &PodId) -> bool {
        self.waiting.contains(uid)
    }

    /// Every wanted volume with its users, in an order of no meaning.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = (&VolumeId, &SmallMap<PodId, ()>)> {
        self.users.iter()
    }

    /// Returns the volumes that are refreshed at intervals, in an order of no meaning.
    pub(crate) fn refreshed(&self) -> Vec<(PodId, VolumeId)> {
        let of_pod = |(uid, entry): (&PodId, &PodEntry)| {
            let refreshed = entry.volumes.iter().filter(|(_, wanted)| wanted.volume.refreshed);
            refreshed.map(|(name, _)| (uid.clone(), name.clone())).collect::<Vec<_>>()
        };
        self.pods.iter().flat_map(of_pod).collect()
    }

    /// Makes sure there is an entry for a pod whose folder was found.
    pub(crate) fn note_found(&mut self, now: Time, uid: &PodId, pod: Option<Arc<Pod>>) {
        let entry = self.pods.entry(uid, || PodEntry::found(now));
        if let Some(entry) = entry.filter(|entry| entry.pod.is_none()) {
            entry.pod = pod;
        }
    }

    /// Replaces what is known of the pod. The time a volume became wanted, and its turn, are kept.
    pub(crate) fn set_pod(
        &mut self,
        now: Time,
        uid: &PodId,
        desired: DesiredPod,
        names: &mut Names<UniqueVolumeName>,
    ) -> PodChange {
        let mut change = PodChange::default();
        let Some(entry) = self.pods.entry(uid, || PodEntry::found(now)) else {
            return change;
        };
        change.pod_changed = entry.pod.as_ref().is_some_and(|known| known != &desired.pod);
        let mut before = std::mem::take(&mut entry.volumes);
        change.volumes.extend(before.keys().cloned());
        for mut volume in desired.volumes {
            let name = names.id(&volume.unique_name);
            volume.unique_name = name.name().clone();
            change.volumes.insert(name.clone());
            if let Some(same) = entry.volumes.get_mut(&name) {
                // Two names lead to one volume: the first says what it is.
                if !same.outer_names.contains(&volume.outer_name) {
                    same.outer_names.push(volume.outer_name);
                    let both = same.volume.container_mounts.iter().chain(volume.container_mounts.iter());
                    same.volume.container_mounts = both.cloned().collect();
                }
                continue;
            }
            let old = before.remove(&name);
            if let Some(old) = &old {
                // What was resolved again is mostly what it was.
                share(&mut volume.spec, &old.volume.spec);
                share(&mut volume.container_mounts, &old.volume.container_mounts);
            }
            if let Some(why) = volume.blocked.as_ref().filter(|_| !volume.is_pending)
                && old.as_ref().is_none_or(|old| old.volume.blocked.as_ref() != Some(why))
            {
                change.new_reasons.push((volume.outer_name.clone(), why.clone()));
            }
            let wanted = VolumeEntry {
                outer_names: vec![volume.outer_name.clone()],
                since: old.as_ref().map_or(now, |old| old.since),
                last_attempt: old.as_ref().map_or(0, |old| old.last_attempt),
                pending_edit: old.as_ref().and_then(|old| old.pending_edit.clone()),
                blocked_reason: old.and_then(|old| old.blocked_reason),
                volume,
            };
            if let Some(users) = self.users.entry(&name, SmallMap::default) {
                users.insert(uid.clone(), ());
            }
            entry.volumes.insert(name, Box::new(wanted));
        }
        let mut unresolved = BTreeMap::new();
        for UnresolvedVolume { outer_name, reason, is_pending, spec, claim } in desired.unresolved {
            let old = entry.unresolved.remove(&outer_name);
            if !is_pending && old.as_ref().is_none_or(|old| old.reason != reason) {
                change.new_reasons.push((outer_name.clone(), reason.clone()));
            }
            let led_to =
                || before.iter().find(|(_, old)| old.outer_names.contains(&outer_name)).map(|(name, _)| name.clone());
            let was = old.and_then(|old| old.was).or_else(led_to);
            unresolved.insert(outer_name, Unresolved { reason, was, spec, claim });
        }
        entry.unresolved = unresolved;
        if entry.unresolved.is_empty() {
            self.waiting.remove(uid);
        } else {
            self.waiting.insert(uid.clone());
        }
        entry.has_needs = entry.volumes.values().any(|wanted| !wanted.volume.needs.is_empty());
        entry.pod = Some(desired.pod);
        entry.has_unaccounted = !entry.unaccounted().is_empty();
        entry.reported = PodReport::Exists;
        let dropped: Vec<_> = before.into_keys().collect();
        for name in dropped {
            self.drop_user(&name, uid);
        }
        change
    }

    /// The pod is gone: it wants nothing. Answers what it wanted.
    pub(crate) fn set_gone(&mut self, uid: &PodId) -> Vec<VolumeId> {
        let Some(entry) = self.pods.get_mut(uid) else {
            return Vec::new();
        };
        entry.reported = PodReport::Gone;
        entry.unresolved.clear();
        entry.has_needs = false;
        entry.unready = None;
        self.waiting.remove(uid);
        let volumes: Vec<_> = std::mem::take(&mut entry.volumes).into_keys().collect();
        for name in &volumes {
            self.drop_user(name, uid);
        }
        volumes
    }

    /// Forgets a pod that wants nothing.
    pub(crate) fn forget(&mut self, uid: &PodId) {
        for name in self.pods.remove(uid).into_iter().flat_map(|entry| entry.volumes.into_keys()) {
            self.drop_user(&name, uid);
        }
        self.waiting.remove(uid);
    }

    /// Puts the entry of an image back.
    pub(crate) fn restore(&mut self, uid: &PodId, entry: PodEntry) {
        for volume in entry.volumes.keys() {
            if let Some(users) = self.users.entry(volume, SmallMap::default) {
                users.insert(uid.clone(), ());
            }
        }
        if !entry.unresolved.is_empty() {
            self.waiting.insert(uid.clone());
        }
        self.pods.entry(uid, || entry);
    }

    fn drop_user(&mut self, volume: &VolumeId, uid: &PodId) {
        if let Some(users) = self.users.get_mut(volume) {
            users.remove(uid);
            if users.is_empty() {
                self.users.remove(volume);
            }
        }
    }
}
