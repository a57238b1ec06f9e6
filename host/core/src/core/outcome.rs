//! The end of an operation. Besides recovery, only this changes ACTUAL.

use volhost_model::VolumeSpec;
use volhost_model::names::{SpecName, UniqueVolumeName};

use super::{Core, Turn};
use crate::command::OperationKind;
use crate::event::{DeviceReport, OperationId, OperationReport};
use crate::identity::{PodId, VolumeId};
use crate::keys::Scope;
use crate::mount_check::same_parts;
use crate::pending::InFlightOperation;
use crate::transitions::{MountState, OutcomeClass, Presence};

impl Core {
    pub(super) fn operation_done(&mut self, id: OperationId, report: OperationReport, turn: &mut Turn) {
        let Some(running) = self.pending.finish(id) else {
            return;
        };
        let operation = &running.operation;
        turn.dirty.insert(running.volume.clone());
        turn.changed_pods.extend(running.pod.clone());
        let first_time = match operation.kind {
            OperationKind::Mount { .. } | OperationKind::Map { .. } => self.mount_ended(&running, &report, turn),
            OperationKind::Unmount | OperationKind::Unmap => {
                self.unmount_ended(&running, OutcomeClass::of(&report.result), turn);
                true
            }
            _ => {
                turn.changed_pods.extend(self.desired.users(&running.volume).cloned());
                self.volume_operation_ended(&running, &report);
                if matches!(operation.kind, OperationKind::Attach | OperationKind::Detach) {
                    self.attach_place_is_free(turn);
                }
                true
            }
        };
        // A device that was there already was not mounted by this operation.
        let brought_back = report.device == Some(DeviceReport::Mounted)
            || (report.result.is_ok() && !running.operation.kind.found_device());
        self.settle_vanished_device(&running, brought_back, turn);
        match report.result {
            Ok(()) => {
                self.pending.succeed(&running);
                if first_time {
                    self.publish_success(&running, turn);
                }
            }
            Err(failure) => {
                let scope = self.failing_scope(&running);
                self.publish_failure(&running, &failure, turn);
                // Other pods may want the volume: the end of one pod's operation is no failure of
                // theirs.
                if !(report.cancelled && scope == Scope::Volume) {
                    self.pending.fail(&running, scope, failure, self.now);
                }
            }
        }
    }

    pub(super) fn operation_overdue(&mut self, id: OperationId, message: String, turn: &mut Turn) {
        let Some(running) = self.pending.overdue(id, message.clone()) else {
            return;
        };
        turn.changed_pods.extend(running.pod.clone());
        if let Some(running) = self.pending.running(id) {
            self.publish_overdue(running, &message, turn);
        }
    }

    /// A mount that fails before its device is mounted fails for every pod of the volume; after
    /// that, for its pod alone.
    fn failing_scope(&self, ended: &InFlightOperation) -> Scope {
        let of_device = matches!(ended.operation.kind, OperationKind::Mount { .. } | OperationKind::Map { .. })
            && self.actual.get(&ended.volume).is_some_and(|volume| volume.stageable && !volume.device.is_present());
        Scope::of(ended.pod.clone().filter(|_| !of_device))
    }

    /// Whether the mount is there for the first time.
    fn mount_ended(&mut self, ended: &InFlightOperation, report: &OperationReport, turn: &mut Turn) -> bool {
        let InFlightOperation { operation, volume: name, pod, .. } = ended;
        let now = self.now;
        let outcome = OutcomeClass::of(&report.result);
        let Some(pod) = pod else {
            return false;
        };
        if outcome == OutcomeClass::Done {
            self.actual.set_folder(name, pod, &operation.spec_name);
        }
        let Some(volume) = self.actual.get_mut(name) else {
            return false;
        };
        if let Some(device) = device_report(report, outcome, volume.stageable) {
            volume.device = volume.device.after_report(device);
        }
        if !matches!(operation.kind, OperationKind::Mount { remount: true, .. }) {
            volume.refused_size = report.refused_size;
        }
        if outcome == OutcomeClass::Done {
            // A mount brings the file system to the size its PersistentVolume asks for.
            let asked = operation.spec.as_deref().and_then(VolumeSpec::capacity);
            volume.size = report.size.or(volume.size.max(asked));
        } else if report.size.is_some() {
            volume.size = report.size;
        }
        if let Some(path) = &report.device_path {
            volume.device_path = Some(path.clone());
        }
        let Some(mount) = volume.mounts.get_mut(pod) else {
            return false;
        };
        let before = mount.state;
        // A failure at the device leaves the pod's mount as it was.
        let at_device = volume.stageable
            && match (outcome, report.device) {
                (OutcomeClass::Done, _) | (_, Some(DeviceReport::Mounted)) => false,
                (_, Some(DeviceReport::Unmounted | DeviceReport::Uncertain)) => true,
                // The device that it found counts, not one that became known since.
                (_, None) => outcome == OutcomeClass::Final && !operation.kind.found_device(),
            };
        mount.state = if at_device { before } else { before.after_creation(outcome) };
        if outcome == OutcomeClass::Done {
            mount.spec.clone_from(&operation.spec);
            mount.container_mounts = std::sync::Arc::clone(&operation.container_mounts);
            mount.parts_unsure = false;
            mount.block = operation.spec.as_deref().is_some_and(VolumeSpec::is_block);
            mount.ready_at = Some(now).filter(|_| !before.is_present()).or(mount.ready_at);
        } else if matches!(operation.kind, OperationKind::Mount { remount: true, .. }) {
            mount.remount_required = true;
            mount.parts_unsure |=
                outcome != OutcomeClass::Transient && !same_parts(&mount.container_mounts, &operation.container_mounts);
        }
        let gone = std::mem::take(&mut mount.vanished) && outcome != OutcomeClass::Done && mount.state.is_present();
        if gone {
            self.mark_vanished(pod, name, turn);
        } else if !mount.state.may_exist() {
            self.forget_mount(name, pod, &operation.spec_name, turn);
        } else {
            self.needed_changed(name, pod, turn);
        }
        self.note_edit(pod, name, turn);
        !before.is_present()
    }

    fn unmount_ended(&mut self, ended: &InFlightOperation, outcome: OutcomeClass, turn: &mut Turn) {
        let InFlightOperation { operation, volume: name, pod, .. } = ended;
        let Some(pod) = pod else {
            return;
        };
        let Some(mount) = self.actual.mount_mut(name, pod) else {
            return;
        };
        mount.state = mount.state.after_removal(outcome);
        mount.leaving = false;
        if std::mem::take(&mut mount.vanished) && mount.state.is_present() {
            return self.mark_vanished(pod, name, turn);
        }
        if mount.state.may_exist() {
            if !mount.state.is_present() {
                mount.ready_at = None;
            }
            return self.needed_changed(name, pod, turn);
        }
        self.forget_mount(name, pod, &operation.spec_name, turn);
        self.note_edit(pod, name, turn);
    }

    /// Forgets a mount that is known to be gone, and wakes what waited for that.
    fn forget_mount(&mut self, volume: &VolumeId, pod: &PodId, folder: &SpecName, turn: &mut Turn) {
        if let Some(mount) = self.actual.remove_mount(volume, pod) {
            turn.dirty.extend(self.known(mount.needs.iter().map(|needed| &needed.unique_name)));
        }
        self.folder_is_free(pod, folder, turn);
    }

    /// Another volume of the pod may have waited for the folder.
    fn folder_is_free(&self, pod: &PodId, folder: &SpecName, turn: &mut Turn) {
        if let Some(entry) = self.desired.pod(pod) {
            let waiting = entry.volumes.iter().filter(|(_, wanted)| wanted.volume.spec.name == *folder);
            turn.dirty.extend(waiting.map(|(name, _)| name.clone()));
        }
    }

    fn volume_operation_ended(&mut self, ended: &InFlightOperation, report: &OperationReport) {
        let operation = &ended.operation;
        let outcome = OutcomeClass::of(&report.result);
        let reported = self.reported_path(&operation.volume);
        let Some(volume) = self.actual.get_mut(&ended.volume) else {
            return;
        };
        match operation.kind {
            OperationKind::Attach => {
                volume.attach = volume.attach.after_creation(outcome);
                // An attempt that has not ended for certain has found nothing out.
                if matches!(outcome, OutcomeClass::Done | OutcomeClass::Final) {
                    volume.other_node.clone_from(&report.other_node);
                }
            }
            // Looking changes nothing but what is known.
            OperationKind::VerifyControllerAttached if outcome == OutcomeClass::Done => {
                volume.attach = MountState::PRESENT
            }
            OperationKind::Detach => volume.attach = volume.attach.after_removal(outcome),
            OperationKind::UnmountDevice | OperationKind::UnmapDevice => {
                volume.device = volume.device.after_removal(outcome)
            }
            OperationKind::Expand { to, .. } if outcome == OutcomeClass::Done => {
                // Done means that there is nothing more to do for this size, whatever size the
                // plugin then reports.
                volume.size = Some(report.size.unwrap_or(to).max(to));
            }
            OperationKind::Expand { .. } => {
                volume.size = report.size.or(volume.size);
                volume.refused_size = report.refused_size;
            }
            _ => {}
        }
        if matches!(operation.kind, OperationKind::Attach | OperationKind::VerifyControllerAttached)
            && outcome == OutcomeClass::Done
        {
            volume.device_path = report.device_path.clone().or(reported).or(volume.device_path.take());
        }
        if volume.attach.presence() == Presence::Absent {
            volume.device_path = None;
        }
    }

    fn reported_path(&self, volume: &UniqueVolumeName) -> Option<String> {
        self.node_attachments.as_ref()?.get(volume).cloned()
    }
}

/// Returns what became of the device. Without an explicit report: done means mounted, uncertain
/// means possibly mounted.
fn device_report(report: &OperationReport, outcome: OutcomeClass, stageable: bool) -> Option<DeviceReport> {
    report.device.or(match outcome {
        OutcomeClass::Done if stageable => Some(DeviceReport::Mounted),
        OutcomeClass::Uncertain if stageable => Some(DeviceReport::Uncertain),
        _ => None,
    })
}
