//! The machine itself: its parts, and one step.

mod answers;
mod apply;
mod attach_limit;
mod counts;
mod edits;
mod image;
mod labels;
mod needs;
mod notices;
mod outcome;
mod owner;
mod reconcile;
mod start;
mod status;
mod vanished;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use volhost_model::Pod;
use volhost_model::names::{OuterName, PluginName, PodUid, UniqueVolumeName};

use crate::actual::ActualState;
use crate::attaching::AttachPolicy;
use crate::command::CoreCommand;
use crate::config::Config;
use crate::desired::{DesiredState, PodEntry, PodReport, VolumeEntry};
use crate::event::{Event, Time};
use crate::identity::{Names, PodId, VolumeId};
use crate::pending::PendingOperations;
use crate::waiters::Waiters;

pub use counts::{ClaimedVolume, PluginCounts, VolumeCounts};
pub use image::CoreImage;

/// The node's volumes, desired and actual, and what runs to make them agree.
///
/// # Guarantees
/// [`Core::step`] is a function of its events: no clock, no randomness, no I/O. It never panics,
/// and it looks only at the volumes and pods that the event may concern.
#[derive(Debug, Clone)]
pub struct Core {
    /// Whether the host attaches volumes.
    attaching: AttachPolicy,
    /// The latest time seen: time never runs backwards here, even if the caller's does.
    now: Time,
    pod_names: Names<PodUid>,
    volume_names: Names<UniqueVolumeName>,
    desired: DesiredState,
    actual: ActualState,
    pending: PendingOperations,
    waiters: Waiters,
    /// The volumes the node's status reports as in use.
    reported_in_use: BTreeSet<UniqueVolumeName>,
    /// The controller's report, once there was one.
    node_attachments: Option<BTreeMap<UniqueVolumeName, String>>,
    /// The volumes that the controller could not attach, and why.
    attach_failures: BTreeMap<UniqueVolumeName, String>,
    /// Volumes that no pod wants and that stay on the node, for an unresolved volume of a pod may
    /// be one of them.
    awaited: BTreeSet<VolumeId>,
    /// Volumes that are not attached because as many of their plugin are as may be.
    waiting_for_place: BTreeSet<VolumeId>,
    sources_synced: bool,
    draining: bool,
    /// The timer that is armed.
    armed: Option<Time>,
}

/// The commands of one step so far, and the volumes and pods left to check.
#[derive(Debug, Default)]
struct Turn {
    /// To be answered by the step.
    commands: Vec<CoreCommand>,
    /// Volumes to reconcile.
    dirty: BTreeSet<VolumeId>,
    /// Pods whose status may have changed.
    changed_pods: BTreeSet<PodId>,
}

impl Core {
    /// A machine that knows of no pod and no volume.
    pub fn new(config: Config) -> Self {
        Self {
            attaching: AttachPolicy::all_by_host(config.host_attaches),
            now: 0,
            pod_names: Names::default(),
            volume_names: Names::default(),
            desired: DesiredState::default(),
            actual: ActualState::default(),
            pending: PendingOperations::default(),
            waiters: Waiters::default(),
            reported_in_use: BTreeSet::new(),
            node_attachments: None,
            attach_failures: BTreeMap::new(),
            awaited: BTreeSet::new(),
            waiting_for_place: BTreeSet::new(),
            sources_synced: false,
            draining: false,
            armed: None,
        }
    }

    /// Leaves attaching the volumes of these plugins to a controller. To be called before the first
    /// step.
    #[must_use]
    pub fn with_controllers_for(mut self, plugins: impl IntoIterator<Item = PluginName>) -> Self {
        self.attaching = self.attaching.except(plugins);
        self
    }

    /// Applies an event and returns what is to be done, in this order.
    ///
    /// # Guarantees
    /// - Every [`CoreCommand::Start`] has an id of its own. While it runs no operation with a
    ///   matching key is started.
    /// - Every waiter is answered at most once: when its condition is met, when it cannot be met
    ///   any more, or at its deadline.
    /// - After the commands are executed, nothing needs doing until the next event or the armed
    ///   timer.
    ///
    /// # Assumptions
    /// Every started operation is answered with one [`Event::OperationDone`]. An answer with an id
    /// that is unknown, or was answered before, changes nothing.
    pub fn step(&mut self, now: Time, event: Event) -> Vec<CoreCommand> {
        self.now = self.now.max(now);
        let mut turn = Turn::default();
        if event == Event::Timer {
            self.armed = None;
        }
        self.apply(event, &mut turn);
        while let Some(volume) = self.pending.pop_due(self.now) {
            turn.dirty.insert(volume);
        }
        while let Some(volume) = turn.dirty.pop_first() {
            self.reconcile(&volume, &mut turn);
        }
        for uid in std::mem::take(&mut turn.changed_pods) {
            self.settle_pod(&uid);
            self.answer_waiters_of(&uid, &mut turn);
        }
        self.answer_overdue_waiters(&mut turn);
        self.arm_timer(&mut turn);
        turn.commands
    }

    /// One timer for everything: armed again only for an earlier time than it is armed for.
    fn arm_timer(&mut self, turn: &mut Turn) {
        let retry = self.pending.next_retry();
        let next = [retry, self.waiters.next_deadline()].into_iter().flatten().min();
        if let Some(next) = next
            && self.armed.is_none_or(|armed| next < armed)
        {
            self.armed = Some(next);
            turn.commands.push(CoreCommand::ArmTimer(next));
        }
    }

    /// Notes when the pod became ready, and forgets it when nothing of it is left.
    fn settle_pod(&mut self, uid: &PodId) {
        let desired = self.desired.pod(uid).filter(|_| self.is_desired(uid));
        let unready = desired.and_then(|entry| self.find_unready(uid, entry));
        let ready = unready.is_none() && desired.is_some_and(|entry| self.has_every_name(uid, entry));
        let is_new = desired.is_some_and(|entry| entry.unready.as_ref() != unready);
        let unready = is_new.then(|| unready.cloned());
        let now = self.now;
        let left = self.actual.has_mounts_of(uid);
        let Some(entry) = self.desired.pod_mut(uid) else {
            return;
        };
        if let Some(unready) = unready {
            entry.unready = unready;
        }
        if entry.reported != PodReport::Exists && !left {
            self.desired.forget(uid);
        } else if !ready {
            entry.ready_at = None;
        } else if entry.ready_at.is_none() {
            entry.ready_at = Some(now);
        }
    }

    /// Returns the wanted volume of the pod; none while draining.
    fn wanted(&self, uid: &PodId, volume: &VolumeId) -> Option<&VolumeEntry> {
        if self.draining { None } else { self.desired.wanted(uid, volume) }
    }

    /// The pod is to be mounted: it exists, and the host does not drain.
    fn is_desired(&self, uid: &PodId) -> bool {
        !self.draining && self.desired.pod(uid).is_some_and(|entry| entry.reported == PodReport::Exists)
    }

    /// Every volume the pod uses is resolved and mounted as wanted.
    fn is_ready(&self, uid: &PodId) -> bool {
        let desired = self.desired.pod(uid).filter(|_| self.is_desired(uid));
        desired.is_some_and(|entry| self.find_unready(uid, entry).is_none() && self.has_every_name(uid, entry))
    }

    /// Each name that the pod uses is of a volume it wants, or of one that is mounted and cannot be
    /// resolved now.
    fn has_every_name(&self, uid: &PodId, entry: &PodEntry) -> bool {
        let mut unresolved = entry.unresolved.keys();
        !entry.has_unaccounted && unresolved.all(|name| self.mounted_under(uid, name).is_some())
    }

    /// Returns a volume of the pod that is not mounted as wanted. The search begins with the volume
    /// that was found last: while a pod's volumes are mounted one after another, each step looks at
    /// few of them.
    fn find_unready<'a>(&self, uid: &PodId, entry: &'a PodEntry) -> Option<&'a VolumeId> {
        let is_unready = |name: &VolumeId, wanted: &VolumeEntry| !self.is_mounted_as_wanted(uid, name, wanted);
        let Some(last) = &entry.unready else {
            return entry.volumes.iter().find(|(name, wanted)| is_unready(name, wanted)).map(|(name, _)| name);
        };
        let find = |from, to| entry.volumes.range((from, to)).find(|(name, wanted)| is_unready(name, wanted));
        let again = || entry.volumes.get_key_value(last).filter(|(name, wanted)| is_unready(name, wanted));
        let after = || find(Bound::Excluded(last), Bound::Unbounded);
        let before = || find(Bound::Unbounded, Bound::Excluded(last));
        again().or_else(after).or_else(before).map(|(name, _)| name)
    }

    /// The volume that is mounted under this name of the pod, whether or not the name can be
    /// resolved now.
    fn mounted_under(&self, uid: &PodId, name: &OuterName) -> Option<&VolumeId> {
        self.actual.volumes_of(uid).find(|volume| {
            let mount = self.actual.mount(volume, uid);
            mount.is_some_and(|mount| mount.is_usable() && mount.outer_names.contains(name))
        })
    }

    /// The volume is mounted as the pod wants it; stale content does not count against it.
    fn is_mounted_as_wanted(&self, uid: &PodId, volume: &VolumeId, wanted: &VolumeEntry) -> bool {
        self.actual
            .mount(volume, uid)
            .is_some_and(|mount| mount.is_usable() && !mount.is_outdated(wanted) && !mount.lacks_parts(wanted))
    }

    /// Whether recovered volumes may be unmounted: every source has been read, or the host drains.
    fn may_unmount_recovered(&self) -> bool {
        self.sources_synced || self.draining
    }

    /// The pod's object.
    fn pod_object(&self, uid: &PodId) -> Option<Arc<Pod>> {
        self.desired.pod(uid).and_then(|entry| entry.pod.clone())
    }

    /// `namespace/name`, or the uid of a pod of which no more is known.
    fn pod_name(&self, uid: &PodId) -> String {
        self.desired.pod(uid).and_then(|entry| entry.full_name()).unwrap_or_else(|| uid.to_string())
    }
}
