//! The status of a pod's volume, for views and for callers that wait.

use volhost_model::Failure;
use volhost_model::names::OuterName;
use volhost_model::view::VolumeState;

use super::Core;
use crate::actual::Mount;
use crate::command::{OperationKind, VolumeStatus};
use crate::desired::VolumeEntry;
use crate::event::Time;
use crate::identity::{PodId, VolumeId};
use crate::pending::{FailedKey, InFlightOperation};
use crate::transitions::Presence;
use crate::waiters::WaitCondition;

/// The operation that concerns a pod's use of a volume, and the failure that delays it.
pub(super) struct Activity<'a> {
    pub(super) running: Option<&'a InFlightOperation>,
    pub(super) failed: Option<&'a FailedKey>,
}

impl Activity<'_> {
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failed.map(|failed| failed.failure.clone())
    }

    /// When the next try is due; none while one runs, or when none is needed.
    pub(super) fn retry_at(&self) -> Option<Time> {
        self.failed.filter(|_| self.running.is_none()).map(|failed| failed.retry_at)
    }
}

impl Core {
    /// Returns the operation on the pod's use of the volume: its own or the volume's.
    pub(super) fn activity(&self, uid: &PodId, volume: &VolumeId) -> Activity<'_> {
        let concerns = |running: &&InFlightOperation| running.pod.as_ref().is_none_or(|pod| pod == uid);
        Activity {
            running: self.pending.running_on(volume).find(concerns),
            failed: self.pending.failures_for(volume, Some(uid)).next(),
        }
    }

    /// The state of the pod's use of the volume.
    pub(super) fn state_of(
        &self,
        uid: &PodId,
        volume: &VolumeId,
        wanted: Option<&VolumeEntry>,
        mount: Option<&Mount>,
    ) -> VolumeState {
        let presence = mount.map_or(Presence::Absent, |mount| mount.state.presence());
        let kind = self.activity(uid, volume).running.map(|running| running.operation.kind);
        match (presence, kind) {
            (_, Some(OperationKind::Unmount | OperationKind::Unmap)) => {
                return VolumeState::Unmounting;
            }
            (Presence::Absent | Presence::Uncertain, Some(OperationKind::Mount { .. } | OperationKind::Map { .. })) => {
                return VolumeState::Mounting;
            }
            (Presence::Uncertain, _) => return VolumeState::Uncertain,
            _ => {}
        }
        let kept = mount.is_some_and(|mount| self.is_kept(uid, mount));
        match (presence, wanted) {
            (Presence::Present, Some(wanted))
                if mount.is_some_and(|mount| mount.is_outdated(wanted) || mount.lacks_parts(wanted)) =>
            {
                VolumeState::Pending
            }
            (Presence::Present, Some(_)) => VolumeState::Mounted,
            (Presence::Present, None) if kept && !self.draining => VolumeState::Mounted,
            (_, None) => VolumeState::Unmounting,
            (_, Some(wanted)) => {
                let attached = self.actual.get(volume).is_some_and(|volume| volume.attach.is_present());
                if wanted.volume.attachable && !attached { VolumeState::Attaching } else { VolumeState::Pending }
            }
        }
    }

    /// Returns the status of each volume of the pod that does not meet the condition.
    pub(super) fn statuses(&self, uid: &PodId, condition: WaitCondition) -> Vec<VolumeStatus> {
        let mut statuses = Vec::new();
        if condition == WaitCondition::Mounted {
            self.unmounted_statuses(uid, &mut statuses);
        } else {
            for name in self.actual.volumes_of(uid) {
                let mount = self.actual.mount(name, uid);
                let known = mount.map(|mount| names(&mount.outer_names)).filter(|names| !names.is_empty());
                let spec_name = || vec![mount.map(|mount| mount.spec_name.to_string()).unwrap_or_default()];
                let why = if self.is_desired(uid) {
                    "the pod still wants it"
                } else if !self.may_unmount_recovered() {
                    "not every source of pods has been read yet"
                } else {
                    ""
                };
                let known = known.unwrap_or_else(spec_name);
                statuses.extend(known.into_iter().map(|one| self.volume_status(uid, name, one, None, why)));
            }
        }
        statuses
    }

    fn unmounted_statuses(&self, uid: &PodId, statuses: &mut Vec<VolumeStatus>) {
        let Some(entry) = self.desired.pod(uid) else {
            return;
        };
        let draining = if self.draining {
            "the host is taking every volume away (drain); `volhost uncordon` ends that"
        } else {
            ""
        };
        for (name, wanted) in &entry.volumes {
            if self.draining || !self.is_mounted_as_wanted(uid, name, wanted) {
                let known = names(&wanted.outer_names);
                statuses
                    .extend(known.into_iter().map(|one| self.volume_status(uid, name, one, Some(wanted), draining)));
            }
        }
        let unknown = |name: String, step: &str, reason: &str| VolumeStatus {
            name,
            state: VolumeState::Unresolved,
            step: step.to_owned(),
            failure: None,
            reason: reason.to_owned(),
            retry_at: None,
            running: None,
        };
        let unmounted = entry.unresolved.iter().filter(|(name, _)| self.mounted_under(uid, name).is_none());
        statuses.extend(unmounted.map(|(name, why)| unknown(name.to_string(), "resolving the volume", &why.reason)));
        statuses.extend(entry.unaccounted().into_iter().map(|name| {
            unknown(
                name.to_string(),
                "resolving the volume",
                "the pod's source has said nothing of this volume, which a container names",
            )
        }));
    }

    fn volume_status(
        &self,
        uid: &PodId,
        volume: &VolumeId,
        name: String,
        wanted: Option<&VolumeEntry>,
        why: &str,
    ) -> VolumeStatus {
        let activity = self.activity(uid, volume);
        let state = self.state_of(uid, volume, wanted, self.actual.mount(volume, uid));
        let step = match (activity.running, activity.failed) {
            (Some(running), _) => format!("{} is running", running.operation.kind.name()),
            (None, Some(failed)) => failed.failure.step.clone(),
            (None, None) => waiting_for(state, wanted).to_owned(),
        };
        let overdue = activity.running.and_then(|running| running.overdue.as_ref());
        let reason = match (overdue, wanted.and_then(|wanted| wanted.blocked_reason.as_ref())) {
            (Some(hangs), _) => format!("past its deadline: {hangs}"),
            (None, Some(blocked)) => blocked.to_string(),
            (None, None) => why.to_owned(),
        };
        let running = activity.running.map(|running| (running.operation.id, running.since));
        VolumeStatus { name, state, step, failure: activity.failure(), reason, retry_at: activity.retry_at(), running }
    }
}

/// The step a volume waits for when nothing runs and nothing has failed.
fn waiting_for(state: VolumeState, wanted: Option<&VolumeEntry>) -> &'static str {
    match (state, wanted) {
        (VolumeState::Attaching, _) => "waiting for volume_attach",
        (_, Some(wanted)) if wanted.volume.spec.is_block() => "waiting for map_volume",
        (_, Some(_)) => "waiting for volume_mount",
        (_, None) => "waiting for volume_unmount",
    }
}

fn names(names: &[OuterName]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
