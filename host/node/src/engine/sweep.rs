//! Looking for the folders of pods that nobody knows: when every source has spoken, after the last volume of a pod, on SIGHUP, and now
//! and then.
//!
//! ```text
//!  due ──> names in pods/ (thread) ──> nobody knows them? ──> clean each (thread) ──> volumes ──> the state machine
//!                                                                            └──> left over ──> told, once
//! ```
//!
//! Before every source has spoken completely nothing is looked for (rule R2). A folder that hangs holds a thread and no other pod's folder.
#![deny(clippy::disallowed_methods)]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tracing::warn;
use volhost_core::Event;
use volhost_model::names::PodUid;
use volhost_model::view::EventKind;

use super::forced::ForcedMount;
use super::serve::Engine;
use volhost_volume_ops::expected_mounts::{NodePlace, Vanished, VolumePlace};
use volhost_volume_ops::forced::Forced;
use volhost_volume_ops::orphans::Orphan;

/// How often the pods' folder is looked through although nothing happens. What was left by others is in nobody's way meanwhile.
const EVERY: Duration = Duration::from_secs(60);

/// How long a drain waits for the folders of a pod to be removed after its last volume was unmounted.
/// This takes milliseconds; a folder on storage that hangs is reported when the thread comes back.
const CLEANING: Duration = Duration::from_secs(5);

/// Why the folder of a pod is cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cleaning {
    /// The last volume of the pod has been unmounted, or the pod is gone and had none: a drain waits.
    AfterLastVolume,
    /// A look through the pods' folder found it. Nothing waits for it.
    Orphan,
}

/// What a thread has found.
#[derive(Debug)]
pub(super) enum Found {
    /// The pods that have a folder.
    Folders(Vec<PodUid>),
    /// What one of them holds.
    Orphan(PodUid, Orphan),
    /// Mounts that are gone and that no operation took away.
    Vanished(Vanished),
    /// A volume was forced out of sight.
    Forced(ForcedMount, Forced),
}

/// What is known of the folders of pods that nobody knows.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Where threads answer; none before the engine runs.
    pub(super) answers: Option<mpsc::UnboundedSender<Found>>,
    /// Somebody wants it now.
    pub(super) asked: Arc<Notify>,
    /// When the pods' folder is looked through next; none while it is, and before every source has spoken.
    pub(super) due: Option<Instant>,
    /// Pods whose folders are being cleaned, and until when a drain waits for it.
    cleaning: BTreeMap<PodUid, Option<Instant>>,
    /// What was told of which pod.
    told: BTreeMap<PodUid, Vec<String>>,
}

impl Sweep {
    /// Whether folders are being cleaned for which a drain waits.
    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        self.cleaning.values().flatten().any(|until| *until > now)
    }

    /// When a drain waits no longer for the first of the folders that it waits for.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        self.cleaning.values().flatten().filter(|until| **until > now).min().copied()
    }

    /// Takes note that the folder of the pod is being cleaned from now on. Returns whether it was not
    /// before.
    fn begin_cleaning(&mut self, pod: &PodUid, why: Cleaning, now: Instant) -> bool {
        let until = (why == Cleaning::AfterLastVolume).then(|| now + CLEANING);
        match self.cleaning.entry(pod.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(until);
                true
            }
            Entry::Occupied(mut entry) => {
                let awaited = entry.get_mut();
                *awaited = awaited.or(until);
                false
            }
        }
    }
}

impl Engine {
    /// Looks through the pods' folder, if it is time.
    pub(super) fn sweep_when_due(&mut self) {
        let Some(answers) = self.sweep.answers.clone() else { return };
        if self.sweep.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.sweep.due = None;
        let (volume_ops, servers) = (self.volume_ops.clone(), self.volume_ops.fuse_servers().clone());
        // The mount table does not change when the last user of a lazily unmounted file system closes
        // its files, and a server that is stopped does not end by itself.
        tokio::task::spawn_blocking(move || servers.settle_all());
        tokio::task::spawn_blocking(move || {
            // Recovery reported the folders that are not a pod's.
            let pods = volume_ops.pod_folders().unwrap_or_else(|error| {
                warn!(%error, "the pods' folder cannot be looked through for what gone pods have left");
                Vec::new()
            });
            // Fails only when the engine ends.
            let _ = answers.send(Found::Folders(pods));
        });
    }

    /// Looks through the pods' folder now, unless that is going on, or would be too early.
    pub(super) fn sweep_now(&mut self) {
        self.sweep.due = self.sweep.due.map(|_| Instant::now());
    }

    /// Takes what a thread has found.
    pub(super) fn swept(&mut self, found: Found) {
        match found {
            Found::Folders(pods) => {
                self.sweep.due = Some(Instant::now() + EVERY);
                let there: BTreeSet<&PodUid> = pods.iter().collect();
                self.sweep.told.retain(|pod, _| there.contains(pod));
                for pod in &pods {
                    self.clean_pod_folder(pod, Cleaning::Orphan);
                }
            }
            Found::Orphan(pod, orphan) => {
                self.sweep.cleaning.remove(&pod);
                if !self.is_nobodys(&pod) {
                    return;
                }
                for volume in orphan.volumes {
                    self.world.feed(Event::Recovered(volume));
                }
                self.tell_left(pod, orphan.left);
            }
            Found::Vanished(Vanished { of_pods, of_node }) => {
                for NodePlace { volume, .. } in of_node {
                    self.world.feed(Event::DeviceVanished { volume });
                }
                for VolumePlace { pod, plugin, spec_name } in of_pods {
                    if let Some(volume) = self.world.core.mounted_in(&pod, &plugin, &spec_name).cloned() {
                        self.world.feed(Event::Vanished { pod, volume });
                    }
                }
            }
            Found::Forced(volume, how) => self.forced(volume, how),
        }
    }

    /// Cleans the folder of a pod that nobody knows, on a thread that may block.
    pub(super) fn clean_pod_folder(&mut self, pod: &PodUid, why: Cleaning) {
        let Some(answers) = self.sweep.answers.clone() else { return };
        if !self.is_nobodys(pod) || !self.sweep.begin_cleaning(pod, why, Instant::now()) {
            return;
        }
        let (volume_ops, uid) = (self.volume_ops.clone(), pod.clone());
        let cleaning = self.world.do_chore(move || {
            let orphan = volume_ops.clean_orphan(&uid);
            let _ = answers.send(Found::Orphan(uid, orphan));
        });
        if !cleaning {
            self.sweep.cleaning.remove(pod);
        }
    }

    /// No pod of this uid is wanted, and nothing of one is mounted, or may be.
    fn is_nobodys(&self, pod: &PodUid) -> bool {
        self.is_synced() && !self.world.core.knows(pod)
    }

    fn tell_left(&mut self, pod: PodUid, left: Vec<String>) {
        // A pod that has finished is known to its source, and its folder is nobody else's business.
        if left.is_empty() || self.sources.knows(&pod) {
            self.sweep.told.remove(&pod);
            return;
        }
        if self.sweep.told.get(&pod) == Some(&left) {
            return;
        }
        let message = format!(
            "the pod is gone, and its folder holds what volhost did not make, or cannot remove: {}; look at it, and remove it if nobody needs it",
            left.join(", ")
        );
        self.world.tell(EventKind::Warning, "OrphanedPod", &format!("pod {pod}"), &message);
        self.sweep.told.insert(pod, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_waits_for_the_folders_of_unmounted_volumes_and_not_for_orphans() {
        let (mut sweep, now) = (Sweep::default(), Instant::now());
        let [orphan, last] = ["orphan", "last"].map(|name| PodUid::new(name).unwrap());
        assert!(sweep.begin_cleaning(&orphan, Cleaning::Orphan, now));
        assert!(!sweep.is_awaited(now), "its storage may hang for ever");
        assert_eq!(sweep.next_deadline(), None);
        assert!(sweep.begin_cleaning(&last, Cleaning::AfterLastVolume, now));
        assert!(sweep.is_awaited(now));
        assert!(sweep.next_deadline().is_some());
        // Storage that hangs delays the drain, and does not hold it up.
        assert!(!sweep.is_awaited(now + CLEANING));
        // A look through the folder does not begin the wait anew, nor end it.
        assert!(!sweep.begin_cleaning(&last, Cleaning::Orphan, now + CLEANING / 2));
        assert!(sweep.is_awaited(now + CLEANING / 2) && !sweep.is_awaited(now + CLEANING));
    }
}
