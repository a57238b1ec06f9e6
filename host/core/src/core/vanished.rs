//! Mounts that another process unmounted: a pod's mount, and the staging mount.

use super::{Core, Turn};
use crate::command::{Operation, OperationKind};
use crate::identity::{PodId, VolumeId};
use crate::pending::InFlightOperation;
use crate::transitions::MountState;

impl Core {
    /// Another process took the mount away. It becomes like one that recovery found incomplete:
    /// mounted again if it is wanted, else unmounted.
    pub(super) fn vanished(&mut self, pod: &PodId, volume: &VolumeId, turn: &mut Turn) {
        let of_mount = |running: &InFlightOperation| running.pod.as_ref() == Some(pod) && !running.is_expansion();
        let changing = self.pending.running_on(volume).any(of_mount);
        let Some(mount) = self.actual.mount_mut(volume, pod) else { return };
        mount.intact = false;
        if changing {
            // It may be the operation that has taken it away, to bring it back.
            mount.vanished = mount.state.is_present();
            return;
        }
        if mount.is_usable() {
            self.mark_vanished(pod, volume, turn);
        }
        self.pending.reset(volume, pod, self.now);
        turn.dirty.insert(volume.clone());
        turn.changed_pods.insert(pod.clone());
    }

    /// Marks the mount as gone, without an operation having unmounted it.
    pub(super) fn mark_vanished(&mut self, pod: &PodId, volume: &VolumeId, turn: &mut Turn) {
        let Some(mount) = self.actual.mount_mut(volume, pod) else { return };
        mount.state = MountState::RECOVERED;
        mount.ready_at = None;
        let spec_name = mount.spec_name.clone();
        self.publish_vanished(pod, volume, &spec_name, turn);
        self.needed_changed(volume, pod, turn);
    }

    /// Another process took the staging mount away. Pods keep theirs; it is made again before
    /// another pod gets the volume, and for those that have it, or what is left of it is undone.
    pub(super) fn device_vanished(&mut self, name: &VolumeId, turn: &mut Turn) {
        let changing = self.pending.running_on(name).any(|running| works_on_device(&running.operation));
        let Some(volume) = self.actual.get_mut(name) else { return };
        // A mount that recovery found complete no longer is.
        volume.mounts.values_mut().for_each(|mount| mount.intact = false);
        if changing {
            volume.device_vanished = volume.device.is_present();
            return;
        }
        if volume.device.is_present() {
            self.mark_device_vanished(name, turn);
        }
        self.pending.reset_volume(name, self.now);
        turn.dirty.insert(name.clone());
    }

    /// An operation has ended in the course of which the node's mount had vanished.
    pub(super) fn settle_vanished_device(&mut self, ended: &InFlightOperation, brought_back: bool, turn: &mut Turn) {
        let Some(volume) = self.actual.get_mut(&ended.volume) else { return };
        if !works_on_device(&ended.operation) {
            return;
        }
        if std::mem::take(&mut volume.device_vanished) && !brought_back && volume.device.is_present() {
            self.mark_device_vanished(&ended.volume, turn);
        }
    }

    fn mark_device_vanished(&mut self, name: &VolumeId, turn: &mut Turn) {
        let Some(volume) = self.actual.get_mut(name) else { return };
        volume.device = MountState::RECOVERED;
        let spec_name = volume.spec_name.clone();
        self.publish_device_vanished(name, &spec_name, turn);
        turn.changed_pods.extend(self.desired.users(name).cloned());
    }
}

/// Whether the operation makes or removes the staging mount.
const fn works_on_device(operation: &Operation) -> bool {
    matches!(
        operation.kind,
        OperationKind::Mount { .. }
            | OperationKind::Map { .. }
            | OperationKind::UnmountDevice
            | OperationKind::UnmapDevice
    )
}
