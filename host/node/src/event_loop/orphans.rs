//! Cleanup of the folders of unknown pods: when every source has reported, after the last volume of
//! a pod, on SIGHUP, and at intervals.
//!
//! ```text
//!  due ──> names in pods/ (thread) ──> unknown pods? ──> clean each folder (thread) ──> volumes ──> state machine
//!                                                                                └──> leftovers ──> event, once
//! ```
//!
//! Nothing is cleaned before every source has reported completely (rule R2). A folder that hangs
//! blocks one thread and no other pod's folder.
#![deny(clippy::disallowed_methods)]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::warn;
use volhost_core::Event;
use volhost_metrics::OrphanCounts;
use volhost_model::names::PodUid;
use volhost_model::view::EventKind;

use super::orphan_search::OrphanSearch;
use super::reports::WorkerReport;
use super::sources::Sources;
use super::world::World;
use volhost_volume_ops::orphans::Orphan;
use volhost_volume_ops::volume_ops::VolumeOps;
use volhost_volume_ops::worker_pool::WorkerPool;

/// The interval at which the pods' folder is searched although nothing happens. Leftovers of other
/// programs disturb no pod in the meantime.
const EVERY: Duration = Duration::from_secs(60);

/// How long a drain waits for the folders of a pod to be removed after its last volume was
/// unmounted. This takes milliseconds; a folder on storage that hangs is reported when the thread
/// comes back.
const CLEANING: Duration = Duration::from_secs(5);

/// How many folders of gone pods are cleaned at once. A folder that hangs blocks a thread, and this
/// many may hang before others wait: the node's pods need none of these threads.
const WORKERS: usize = 16;

/// Why the folder of a pod is cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The last volume of the pod has been unmounted, or the pod is gone and had none: a drain
    /// waits.
    AfterLastVolume,
    /// A search of the pods' folder found it. Nothing waits for it.
    Orphan,
}

/// The cleanup of the folders of unknown pods.
#[derive(Debug)]
pub(super) struct OrphanCleanup {
    volume_ops: Arc<VolumeOps>,
    reports: mpsc::UnboundedSender<WorkerReport>,
    workers: WorkerPool,
    /// When the pods' folder is searched next; none while it is, and before every source has
    /// reported.
    due: Option<Instant>,
    cleaning: FoldersInCleaning,
    search: OrphanSearch,
    /// The leftovers of each pod for which an event was emitted.
    reported: BTreeMap<PodUid, Vec<String>>,
}

/// The pods whose folders are being cleaned, and until when a drain waits for them.
#[derive(Debug, Default)]
struct FoldersInCleaning(BTreeMap<PodUid, Option<Instant>>);

impl FoldersInCleaning {
    /// Whether folders are being cleaned for which a drain waits.
    fn is_awaited(&self, now: Instant) -> bool {
        self.0.values().flatten().any(|until| *until > now)
    }

    /// Returns when a drain stops waiting for the first of these folders.
    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.0.values().flatten().filter(|until| **until > now).min().copied()
    }

    /// Notes that the folder of the pod is being cleaned from now on. Returns whether it was not
    /// before.
    fn begin(&mut self, pod: &PodUid, reason: Reason, now: Instant) -> bool {
        let until = (reason == Reason::AfterLastVolume).then(|| now + CLEANING);
        match self.0.entry(pod.clone()) {
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

    fn end(&mut self, pod: &PodUid) {
        self.0.remove(pod);
    }
}

impl OrphanCleanup {
    /// Creates a cleanup that is not due. Its threads report to `reports`.
    pub(super) fn new(volume_ops: Arc<VolumeOps>, reports: mpsc::UnboundedSender<WorkerReport>) -> Self {
        Self {
            volume_ops,
            reports,
            workers: WorkerPool::eager(WORKERS),
            due: None,
            cleaning: FoldersInCleaning::default(),
            search: OrphanSearch::default(),
            reported: BTreeMap::new(),
        }
    }

    /// Returns what the last search has found and cleaned.
    pub(super) const fn counts(&self) -> OrphanCounts {
        self.search.counts()
    }

    /// Whether folders are being cleaned for which a drain waits.
    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        self.cleaning.is_awaited(now)
    }

    /// Returns when a drain stops waiting for the first of the folders that it waits for.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.cleaning.next_deadline(Instant::now())
    }

    /// Returns when the pods' folder is searched next.
    pub(super) const fn next_search(&self) -> Option<Instant> {
        self.due
    }

    /// Makes the first search due: every source has reported completely.
    pub(super) fn begin(&mut self) {
        self.due = Some(Instant::now());
    }

    /// Makes a search due now, unless one is running, or would be too early.
    pub(super) fn search_now(&mut self) {
        self.due = self.due.map(|_| Instant::now());
    }

    /// Searches the pods' folder, if it is due.
    pub(super) fn search_when_due(&mut self) {
        if self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.due = None;
        let (volume_ops, servers) = (self.volume_ops.clone(), self.volume_ops.fuse_servers().clone());
        let reports = self.reports.clone();
        // The mount table does not change when the last user of a lazily unmounted file system
        // closes its files, and a server that is stopped does not end by itself.
        tokio::task::spawn_blocking(move || servers.settle_all());
        tokio::task::spawn_blocking(move || {
            // Recovery has reported the names that are no uids.
            let pods = volume_ops.pod_folders().unwrap_or_else(|error| {
                warn!(%error, "the pods' folder cannot be searched for leftovers of gone pods");
                Vec::new()
            });
            // The loop ends only with the process.
            let _ = reports.send(WorkerReport::PodFolders(pods));
        });
    }

    /// Cleans the folders of unknown pods that a search has found.
    pub(super) fn found(&mut self, pods: &[PodUid], world: &World, sources: &Sources) {
        self.due = Some(Instant::now() + EVERY);
        let found: BTreeSet<&PodUid> = pods.iter().collect();
        self.reported.retain(|pod, _| found.contains(pod));
        let is_orphan = |pod: &&PodUid| is_unknown(pod, world) && !sources.knows(pod);
        self.search.begin(pods.iter().filter(is_orphan).cloned());
        for pod in pods {
            self.clean(pod, Reason::Orphan, world);
        }
    }

    /// Removes the folders of a pod that has no volume any more.
    pub(super) fn last_volume_unmounted(&mut self, pod: PodUid, world: &World) {
        if world.is_synced() {
            self.clean(&pod, Reason::AfterLastVolume, world);
        } else {
            self.remove_empty_folders(pod);
        }
    }

    /// Handles the result of cleaning the folder of a pod.
    pub(super) fn cleaned(&mut self, pod: PodUid, orphan: Orphan, world: &mut World, sources: &Sources) {
        self.cleaning.end(&pod);
        self.search.cleaned(&pod, orphan.volumes.is_empty() && orphan.left.is_empty());
        if !is_unknown(&pod, world) {
            return;
        }
        for volume in orphan.volumes {
            world.dispatch(Event::Recovered(volume));
        }
        self.report_leftovers(pod, orphan.left, world, sources);
    }

    fn clean(&mut self, pod: &PodUid, reason: Reason, world: &World) {
        if !is_unknown(pod, world) || !self.cleaning.begin(pod, reason, Instant::now()) {
            return;
        }
        let (volume_ops, reports, uid) = (self.volume_ops.clone(), self.reports.clone(), pod.clone());
        let started = self.spawn(move || {
            let orphan = volume_ops.clean_orphan(&uid);
            let _ = reports.send(WorkerReport::Orphan(uid, orphan));
        });
        if !started {
            self.cleaning.end(pod);
        }
    }

    /// Removes, on a worker thread, the empty folders of a pod that has no volume any more.
    fn remove_empty_folders(&self, pod: PodUid) {
        let volume_ops = self.volume_ops.clone();
        self.spawn(move || {
            if let Err(error) = volume_ops.forget_pod(&pod) {
                warn!(%pod, %error, "the empty folders of a pod could not be removed");
            }
        });
    }

    /// Runs work on one of a few threads that may block. Returns whether there is a thread for it.
    fn spawn(&self, work: impl FnOnce() + Send + 'static) -> bool {
        match self.workers.push(Box::new(work)) {
            Ok(()) => true,
            Err((_, error)) => {
                warn!(%error, "no thread can be started to clean the folders of gone pods; it is tried again later");
                false
            }
        }
    }

    fn report_leftovers(&mut self, pod: PodUid, left: Vec<String>, world: &mut World, sources: &Sources) {
        // The source of a pod that has finished still names it, and its folder may contain files of
        // other programs.
        if left.is_empty() || sources.knows(&pod) {
            self.reported.remove(&pod);
            return;
        }
        if self.reported.get(&pod) == Some(&left) {
            return;
        }
        let message = format!(
            "the pod is gone, and its folder contains files that volhost did not make, or cannot remove: {}; inspect it, and remove it if it is not needed",
            left.join(", ")
        );
        world.emit(EventKind::Warning, "OrphanedPod", &format!("pod {pod}"), &message);
        self.reported.insert(pod, left);
    }
}

/// Whether no pod of this uid is wanted, and nothing of one is mounted, or may be.
fn is_unknown(pod: &PodUid, world: &World) -> bool {
    !world.core().knows(pod) && world.is_synced()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_waits_for_the_folders_of_unmounted_volumes_and_not_for_orphans() {
        let (mut cleaning, now) = (FoldersInCleaning::default(), Instant::now());
        let [orphan, last] = ["orphan", "last"].map(|name| PodUid::new(name).unwrap());
        assert!(cleaning.begin(&orphan, Reason::Orphan, now));
        assert!(!cleaning.is_awaited(now), "its storage may hang for ever");
        assert_eq!(cleaning.next_deadline(now), None);
        assert!(cleaning.begin(&last, Reason::AfterLastVolume, now));
        assert!(cleaning.is_awaited(now));
        assert!(cleaning.next_deadline(now).is_some());
        // Storage that hangs delays the drain by a bounded time.
        assert!(!cleaning.is_awaited(now + CLEANING));
        // Another search neither restarts the wait nor ends it.
        assert!(!cleaning.begin(&last, Reason::Orphan, now + CLEANING / 2));
        assert!(cleaning.is_awaited(now + CLEANING / 2) && !cleaning.is_awaited(now + CLEANING));
    }
}
