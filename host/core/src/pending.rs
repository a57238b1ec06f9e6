//! The operation table (rule R3): what runs, which key it holds, and how long a failed key waits.
//!
//! A key is (volume, pod); an empty pod stands for all pods of the volume. Keys match when the volumes are equal and the pods are
//! equal or one of them is empty. Of matching keys only one runs. A failed key waits before the *same* operation is tried again;
//! another operation on it begins at once and wipes the wait.
//!
//! Unlike the kubelet's list, a failure of a shared volume's mount that happened after its device was mounted holds up only its
//! own pod: the key that runs and the key that waits are told apart.

use std::collections::{BTreeMap, BTreeSet};

use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_model::{BackOff, Failure};

use crate::command::{Operation, OperationKind};
use crate::event::{OperationId, Time};

/// The waits of failed keys, before they are spread.
const BACK_OFF: BackOff = BackOff::KUBELET;

/// The part of a wait by which the waits of different keys differ: a quarter.
const SPREAD: Time = 4;

/// The wait of one key after this many failures in a row. Keys that failed together, because their
/// storage is down, are tried again one after another: each wait is longer than that of [`BACK_OFF`] by up
/// to a quarter, and at the longest wait shorter by up to a quarter. The key alone decides by how
/// much, so that a simulation can be repeated.
fn spread_backoff(volume: &UniqueVolumeName, slot: &Slot, failures: u32) -> Time {
    let (wait, longest) = (BACK_OFF.micros(failures), BACK_OFF.longest_micros());
    let share = key_hash(volume, slot, failures) % (wait / SPREAD);
    if wait == longest { wait - share } else { (wait + share).min(longest) }
}

/// FNV-1a: the same on every machine and in every build.
fn key_hash(volume: &UniqueVolumeName, slot: &Slot, failures: u32) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let pod = slot.as_ref().map_or("", PodUid::as_str);
    let bytes = volume.as_str().bytes().chain([0]).chain(pod.bytes()).chain(failures.to_le_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    // The low bits of FNV differ little between names that differ in the last character.
    hash ^ (hash >> 32)
}

/// An operation that was started and has not ended.
#[derive(Debug)]
pub(crate) struct Running {
    /// What was started.
    pub(crate) operation: Operation,
    /// The pod of its key; none holds the whole volume.
    pub(crate) key_pod: Option<PodUid>,
    /// When it began.
    pub(crate) since: Time,
    /// What it hangs at, once it has passed its deadline.
    pub(crate) overdue: Option<String>,
}

impl Running {
    /// It changes the size of what stands, and takes nothing away.
    pub(crate) const fn is_expansion(&self) -> bool {
        matches!(self.operation.kind, OperationKind::Expand { .. })
    }
}

/// A key that failed.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// The operation that failed, as metrics name it.
    pub(crate) name: &'static str,
    /// The plugin that was asked.
    pub(crate) plugin: PluginName,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// The failures there were when it was last tried before its wait was over; 0 if it never was.
    pub(crate) hurried_at: u32,
    /// When it last failed.
    pub(crate) failed_at: Time,
    /// When it may be tried again.
    pub(crate) retry_at: Time,
    /// How it failed.
    pub(crate) failure: Failure,
}

/// The part of a failed key beside the volume.
pub(crate) type Slot = Option<PodUid>;

#[derive(Debug, Default)]
struct OfVolume {
    running: Vec<OperationId>,
    failed: BTreeMap<Slot, Backoff>,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    running: BTreeMap<OperationId, Running>,
    volumes: BTreeMap<UniqueVolumeName, OfVolume>,
    retries: BTreeSet<(Time, UniqueVolumeName, Slot)>,
    last_id: OperationId,
}

fn pods_match(a: Option<&PodUid>, b: Option<&PodUid>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

impl Pending {
    /// A name for a new operation.
    pub(crate) fn next_id(&mut self) -> OperationId {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    /// Whether a running operation holds a key that matches.
    pub(crate) fn is_taken(&self, volume: &UniqueVolumeName, key_pod: Option<&PodUid>) -> bool {
        self.running_on(volume).any(|running| pods_match(running.key_pod.as_ref(), key_pod))
    }

    /// Whether `name` failed on one of the slots and its wait is not over.
    pub(crate) fn is_waiting(&self, volume: &UniqueVolumeName, pod: Option<&PodUid>, name: &str, now: Time) -> bool {
        self.failures_for(volume, pod).any(|failed| failed.name == name && failed.retry_at > now)
    }

    /// The failures that concern `pod`'s use of the volume: its own first, then the volume's.
    pub(crate) fn failures_for(
        &self,
        volume: &UniqueVolumeName,
        pod: Option<&PodUid>,
    ) -> impl Iterator<Item = &Backoff> {
        let failed = self.volumes.get(volume).map(|of| &of.failed);
        let own = pod.and_then(|pod| failed?.get(&Some(pod.clone())));
        own.into_iter().chain(failed.and_then(|failed| failed.get(&None)))
    }

    /// Operations that run on the volume.
    pub(crate) fn running_on(&self, volume: &UniqueVolumeName) -> impl Iterator<Item = &Running> {
        self.volumes.get(volume).into_iter().flat_map(|of| &of.running).filter_map(|id| self.running.get(id))
    }

    /// Every operation that runs.
    pub(crate) fn all_running(&self) -> impl Iterator<Item = (&OperationId, &Running)> {
        self.running.iter()
    }

    /// Every failed key.
    pub(crate) fn all_failed(&self) -> impl Iterator<Item = (&UniqueVolumeName, &Slot, &Backoff)> {
        self.volumes.iter().flat_map(|(volume, of)| of.failed.iter().map(move |(slot, failed)| (volume, slot, failed)))
    }

    /// Takes the key. An earlier failure of another operation on its slot is wiped.
    pub(crate) fn start(&mut self, operation: Operation, key_pod: Option<PodUid>, now: Time) {
        let (id, volume, name) = (operation.id, operation.volume.clone(), operation.kind.name());
        let slot = operation.pod_uid.clone();
        let other =
            self.volumes.get(&volume).and_then(|of| of.failed.get(&slot)).is_some_and(|failed| failed.name != name);
        if other {
            self.clear(&volume, &slot);
        }
        self.volumes.entry(volume).or_default().running.push(id);
        self.running.insert(id, Running { operation, key_pod, since: now, overdue: None });
    }

    /// Gives the key back; nothing when no such operation runs.
    pub(crate) fn finish(&mut self, id: OperationId) -> Option<Running> {
        let running = self.running.remove(&id)?;
        if let Some(of) = self.volumes.get_mut(&running.operation.volume) {
            of.running.retain(|other| *other != id);
        }
        self.tidy(&running.operation.volume);
        Some(running)
    }

    /// Notes that a running operation has passed its deadline; its operation, when it runs.
    pub(crate) fn overdue(&mut self, id: OperationId, message: String) -> Option<&Running> {
        let running = self.running.get_mut(&id)?;
        running.overdue = Some(message);
        Some(running)
    }

    /// The operation failed: the slot waits, twice as long as before if it failed in the same way before.
    pub(crate) fn fail(&mut self, operation: &Operation, slot: Slot, failure: Failure, now: Time) {
        let name = operation.kind.name();
        let before = self.clear(&operation.volume, &slot).filter(|failed| failed.name == name);
        let (failures, hurried_at) = before.map_or((0, 0), |failed| (failed.failures, failed.hurried_at));
        let failures = failures.saturating_add(1);
        let retry_at = now.saturating_add(spread_backoff(&operation.volume, &slot, failures));
        self.retries.insert((retry_at, operation.volume.clone(), slot.clone()));
        let plugin = operation.plugin.clone();
        let failed = Backoff { name, plugin, failures, hurried_at, failed_at: now, retry_at, failure };
        self.volumes.entry(operation.volume.clone()).or_default().failed.insert(slot, failed);
    }

    /// The operation succeeded: what it waited for, alone or with others, is made good.
    pub(crate) fn succeed(&mut self, operation: &Operation) {
        let name = operation.kind.name();
        for slot in [operation.pod_uid.clone(), None] {
            let same = self
                .volumes
                .get(&operation.volume)
                .and_then(|of| of.failed.get(&slot))
                .is_some_and(|failed| failed.name == name);
            if same {
                self.clear(&operation.volume, &slot);
            }
        }
        self.tidy(&operation.volume);
    }

    /// Forgets failures of operations that nobody needs any more.
    pub(crate) fn keep_only(&mut self, volume: &UniqueVolumeName, needed: &[(Slot, &'static str)]) {
        let Some(of) = self.volumes.get(volume) else {
            return;
        };
        let stale: Vec<Slot> = of
            .failed
            .iter()
            .filter(|(slot, failed)| {
                // While an operation runs again, its earlier failures count.
                !of.running
                    .iter()
                    .filter_map(|id| self.running.get(id))
                    .any(|running| running.operation.kind.name() == failed.name)
                    && !needed.iter().any(|(needed_slot, name)| needed_slot == *slot && *name == failed.name)
            })
            .map(|(slot, _)| slot.clone())
            .collect();
        for slot in stale {
            self.clear(volume, &slot);
        }
        self.tidy(volume);
    }

    /// Lets every failed key of the plugin be tried at once, as if for the first time. Answers the volumes.
    pub(crate) fn reset_plugin(&mut self, plugin: &PluginName, now: Time) -> Vec<UniqueVolumeName> {
        let mut touched = Vec::new();
        for (volume, of) in &mut self.volumes {
            for (slot, failed) in of.failed.iter_mut().filter(|(_, failed)| failed.plugin == *plugin) {
                self.retries.remove(&(failed.retry_at, volume.clone(), slot.clone()));
                failed.failures = 0;
                failed.hurried_at = 0;
                failed.retry_at = now;
                touched.push(volume.clone());
            }
        }
        touched
    }

    /// Lets the volume's failed keys be tried at once; their failures count on. A key is hurried
    /// again only after twice as many failures, so that a cause which comes and goes does not keep
    /// it from waiting longer and longer. Returns whether a key was hurried.
    pub(crate) fn hurry(&mut self, volume: &UniqueVolumeName, now: Time) -> bool {
        let Some(of) = self.volumes.get_mut(volume) else { return false };
        let mut hurried = false;
        for (slot, failed) in &mut of.failed {
            if failed.retry_at <= now || failed.failures < failed.hurried_at.saturating_mul(2) {
                continue;
            }
            self.retries.remove(&(failed.retry_at, volume.clone(), slot.clone()));
            failed.hurried_at = failed.failures;
            failed.retry_at = now;
            hurried = true;
        }
        hurried
    }

    /// Lets the pod's failed key of the volume be tried at once, as if for the first time. Says whether there is one.
    pub(crate) fn reset(&mut self, volume: &UniqueVolumeName, pod: &PodUid, now: Time) -> bool {
        let slot = Some(pod.clone());
        let Some(failed) = self.volumes.get_mut(volume).and_then(|of| of.failed.get_mut(&slot)) else {
            return false;
        };
        self.retries.remove(&(failed.retry_at, volume.clone(), slot));
        failed.failures = 0;
        failed.retry_at = now;
        true
    }

    /// Lets the volume's own failed key be tried at once, as if for the first time.
    pub(crate) fn reset_volume(&mut self, volume: &UniqueVolumeName, now: Time) {
        if let Some(failed) = self.volumes.get_mut(volume).and_then(|of| of.failed.get_mut(&None)) {
            self.retries.remove(&(failed.retry_at, volume.clone(), None));
            failed.failures = 0;
            failed.retry_at = now;
        }
    }

    /// The time of the next retry.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.retries.first().map(|(at, _, _)| *at)
    }

    /// Takes out one retry that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<UniqueVolumeName> {
        if self.next_retry()? > now {
            return None;
        }
        self.retries.pop_first().map(|(_, volume, _)| volume)
    }

    fn clear(&mut self, volume: &UniqueVolumeName, slot: &Slot) -> Option<Backoff> {
        let failed = self.volumes.get_mut(volume)?.failed.remove(slot)?;
        self.retries.remove(&(failed.retry_at, volume.clone(), slot.clone()));
        Some(failed)
    }

    fn tidy(&mut self, volume: &UniqueVolumeName) {
        if self.volumes.get(volume).is_some_and(|of| of.running.is_empty() && of.failed.is_empty()) {
            self.volumes.remove(volume);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_of_keys_that_failed_together_are_spread_within_a_quarter() {
        let volume = |n: u32| UniqueVolumeName::new(format!("kubernetes.io/csi/driver^volume-{n}")).unwrap();
        for failures in 1..=12 {
            let wait = BACK_OFF.micros(failures);
            let bounds =
                if wait == BACK_OFF.longest_micros() { wait - wait / 4..=wait } else { wait..=wait + wait / 4 };
            let waits: BTreeSet<Time> = (0..1000).map(|n| spread_backoff(&volume(n), &None, failures)).collect();
            assert!(waits.iter().all(|wait| bounds.contains(wait)), "{failures}");
            assert!(waits.len() > 900, "{} different waits after {failures} failures", waits.len());
            // Every tenth of the window has its part.
            let tenth = (bounds.end() - bounds.start()) / 10;
            for part in 0..10 {
                let from = bounds.start() + part * tenth;
                let there = waits.range(from..from + tenth).count();
                assert!((40..200).contains(&there), "{there} of 1000 in part {part} after {failures} failures");
            }
            assert_eq!(spread_backoff(&volume(1), &None, failures), spread_backoff(&volume(1), &None, failures));
        }
    }

    #[test]
    fn keys_match_when_a_pod_is_equal_or_empty() {
        let (a, b) = (PodUid::new("a").unwrap(), PodUid::new("b").unwrap());
        for (left, right, expected) in [
            (None, None, true),
            (None, Some(&a), true),
            (Some(&a), None, true),
            (Some(&a), Some(&a), true),
            (Some(&a), Some(&b), false),
        ] {
            assert_eq!(pods_match(left, right), expected, "{left:?} {right:?}");
        }
    }
}
