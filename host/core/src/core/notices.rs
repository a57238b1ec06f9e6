//! Events for users, with the kubelet's reasons, and reasons of our own where it has none.

use volhost_model::names::{OuterName, SpecName};
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};

use super::{Core, Turn};
use crate::blocked::BlockedReason;
use crate::command::{CoreCommand, Notice, OperationKind};
use crate::desired::VolumeEntry;
use crate::identity::{PodId, VolumeId};
use crate::pending::InFlightOperation;

/// The reason of an event on a failure.
const fn failure_reason(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Attach | OperationKind::VerifyControllerAttached => "FailedAttachVolume",
        OperationKind::Detach => "FailedDetachVolume",
        OperationKind::Mount { .. } => "FailedMount",
        OperationKind::Map { .. } => "FailedMapVolume",
        OperationKind::Unmount | OperationKind::Unmap => "FailedUnmount",
        OperationKind::UnmountDevice | OperationKind::UnmapDevice => "FailedUnmountDevice",
        OperationKind::Expand { .. } => "VolumeResizeFailed",
    }
}

/// The reason of an event on success, and what to say; none where there is no event.
const fn success(kind: OperationKind) -> Option<(&'static str, &'static str)> {
    match kind {
        OperationKind::Attach => Some(("SuccessfulAttachVolume", "AttachVolume.Attach")),
        OperationKind::Detach => Some(("SuccessfulDetachVolume", "DetachVolume.Detach")),
        OperationKind::Mount { .. } => Some(("SuccessfulMountVolume", "MountVolume.SetUp")),
        OperationKind::Map { .. } => Some(("SuccessfulMountVolume", "MapVolume.MapPodDevice")),
        OperationKind::Unmount => Some(("SuccessfulUnmount", "UnmountVolume.TearDown")),
        OperationKind::Unmap => Some(("SuccessfulUnmount", "UnmapVolume.UnmapPodDevice")),
        OperationKind::Expand { .. } => Some(("FileSystemResizeSuccessful", "NodeExpandVolume")),
        OperationKind::UnmountDevice => Some(("SuccessfulUnmountDevice", "UnmountDevice")),
        OperationKind::UnmapDevice => Some(("SuccessfulUnmountDevice", "UnmapDevice")),
        // The operation that follows it has one.
        OperationKind::VerifyControllerAttached => None,
    }
}

impl Core {
    pub(super) fn publish_success(&self, ended: &InFlightOperation, turn: &mut Turn) {
        let operation = &ended.operation;
        if let Some((reason, step)) = success(operation.kind) {
            // Every volume has two: formatting takes three times as long.
            let message = [step, " succeeded for volume \"", operation.spec_name.as_str(), "\""].concat();
            self.publish_operation(ended, EventKind::Normal, reason, message, turn);
        }
    }

    pub(super) fn publish_failure(&self, ended: &InFlightOperation, failure: &Failure, turn: &mut Turn) {
        let operation = &ended.operation;
        let message = format!("{} failed for volume \"{}\": {}", failure.step, operation.spec_name, cause(failure));
        self.publish_operation(ended, EventKind::Warning, failure_reason(operation.kind), message, turn);
    }

    pub(super) fn publish_overdue(&self, running: &InFlightOperation, message: &str, turn: &mut Turn) {
        let operation = &running.operation;
        let message = format!(
            "{} of volume \"{}\" has passed its deadline: {message}",
            operation.kind.name(),
            operation.spec_name
        );
        self.publish_operation(running, EventKind::Warning, "VolumeOverdue", message, turn);
    }

    pub(super) fn publish_vanished(&self, pod: &PodId, volume: &VolumeId, spec_name: &SpecName, turn: &mut Turn) {
        let message = format!(
            "volume \"{spec_name}\" is not mounted any more, and volhost did not unmount it; it is mounted again, and containers that have been started may have to be restarted to see it"
        );
        self.publish(EventKind::Warning, "VolumeVanished", Some(pod), Some(volume), message, turn);
    }

    /// To every pod that wants the volume; without a pod if there is none.
    pub(super) fn publish_device_vanished(&self, volume: &VolumeId, spec_name: &SpecName, turn: &mut Turn) {
        let message = format!(
            "the staging mount of volume \"{spec_name}\" is gone, and volhost did not unmount it; pods' mounts stay, and the volume is staged again before another pod gets the volume"
        );
        self.publish_to_users(EventKind::Warning, "VolumeVanished", volume, &message, turn);
    }

    pub(super) fn publish_blocked(
        &self,
        volume: &VolumeId,
        spec_name: &SpecName,
        pod: &PodId,
        why: &BlockedReason,
        turn: &mut Turn,
    ) {
        let failed = self.desired.wanted(pod, volume).is_some_and(|wanted| {
            if self.attaching.by_host(&wanted.volume.plugin) {
                self.attach_limit_reached(volume, wanted).is_some()
            } else {
                self.attach_failures.contains_key(volume.name())
            }
        });
        if failed {
            let message = format!("AttachVolume.Attach failed for volume \"{spec_name}\": {why}");
            self.publish(EventKind::Warning, "FailedAttachVolume", Some(pod), Some(volume), message, turn);
        }
        // A controller that takes its time is no fault.
        let attachable = self.desired.wanted(pod, volume).is_some_and(|wanted| wanted.volume.attachable)
            && !self.actual.get(volume).is_some_and(|volume| volume.attach.is_present());
        if !attachable {
            let message = format!("MountVolume.SetUp failed for volume \"{spec_name}\": {why}");
            self.publish(EventKind::Warning, "FailedMount", Some(pod), Some(volume), message, turn);
        }
    }

    pub(super) fn publish_not_attached(&self, volume: &VolumeId, turn: &mut Turn) {
        let spec_name = self.actual.get(volume).map(|volume| volume.spec_name.to_string()).unwrap_or_default();
        let message = format!(
            "VerifyVolumesAreAttached failed for volume \"{spec_name}\": its plugin does not find it attached to this node any more; what is mounted stays, and it is attached again before it is mounted again"
        );
        self.publish_to_users(EventKind::Warning, "VolumeNotAttached", volume, &message, turn);
    }

    fn publish_to_users(
        &self,
        kind: EventKind,
        reason: &'static str,
        volume: &VolumeId,
        message: &str,
        turn: &mut Turn,
    ) {
        let mut pods: Vec<Option<&PodId>> = self.desired.users(volume).map(Some).collect();
        if pods.is_empty() {
            pods.push(None);
        }
        for pod in pods {
            self.publish(kind, reason, pod, Some(volume), message.to_owned(), turn);
        }
    }

    /// To the pod whose mount does not have the edit.
    pub(super) fn publish_edit(
        &self,
        pod: &PodId,
        volume: &VolumeId,
        wanted: &VolumeEntry,
        fields: &str,
        turn: &mut Turn,
    ) {
        let message = format!(
            "PersistentVolume \"{}\" was edited ({fields}); volume \"{}\" stays mounted as it is, and the edit applies at its next mount: delete the pod and create it again",
            wanted.volume.spec.name,
            wanted.outer_names.first().map(OuterName::as_str).unwrap_or_default()
        );
        self.publish(EventKind::Normal, "VolumeEditPending", Some(pod), Some(volume), message, turn);
    }

    pub(super) fn publish_unresolved(&self, pod: &PodId, outer_name: &OuterName, reason: &str, turn: &mut Turn) {
        let message = format!("volume \"{outer_name}\" cannot be resolved: {reason}");
        self.publish(EventKind::Warning, "UnresolvedVolume", Some(pod), None, message, turn);
    }

    /// To the operation's pod; for an operation on the volume alone, to every pod that wants it.
    fn publish_operation(
        &self,
        of: &InFlightOperation,
        kind: EventKind,
        reason: &'static str,
        message: String,
        turn: &mut Turn,
    ) {
        match &of.pod {
            Some(pod) => self.publish(kind, reason, Some(pod), Some(&of.volume), message, turn),
            None => self.publish_to_users(kind, reason, &of.volume, &message, turn),
        }
    }

    fn publish(
        &self,
        kind: EventKind,
        reason: &'static str,
        pod: Option<&PodId>,
        volume: Option<&VolumeId>,
        message: String,
        turn: &mut Turn,
    ) {
        turn.commands.push(CoreCommand::Publish(Notice {
            kind,
            reason,
            pod_uid: pod.map(|pod| pod.name().clone()),
            pod: pod.map(|uid| self.pod_name(uid)).unwrap_or_default(),
            volume: volume.map(|volume| volume.name().clone()),
            message,
        }));
    }
}

/// The cause of a failure as events show it.
fn cause(failure: &Failure) -> String {
    match failure.class {
        FailureClass::Uncertain => {
            format!("{} (uncertain: it may have happened; it will be repeated or undone)", failure.message)
        }
        FailureClass::Final | FailureClass::Transient => failure.message.clone(),
    }
}
