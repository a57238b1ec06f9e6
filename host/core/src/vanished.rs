//! Mounts that others take away: a pod's, and the node's own.

use volhost_model::names::{PodUid, UniqueVolumeName};

use crate::command::{Operation, OperationKind};
use crate::core::{Core, Turn};
use crate::pending::Running;
use crate::transitions::Stage;

impl Core {
    /// Somebody else took the mount away. It is as one that recovery found incomplete: set up again if it is wanted, else undone.
    pub(crate) fn vanished(&mut self, pod: &PodUid, volume: &UniqueVolumeName, turn: &mut Turn) {
        let of_mount = |running: &Running| running.operation.pod_uid.as_ref() == Some(pod) && !running.is_expansion();
        let changing = self.pending.running_on(volume).any(of_mount);
        let Some(mount) = self.actual.mount_mut(volume, pod) else { return };
        mount.intact = false;
        if changing {
            // It may be the operation that has taken it away, to bring it back.
            mount.vanished = mount.stage.is_present();
            return;
        }
        if mount.is_usable() {
            self.take_for_gone(pod, volume, turn);
        }
        self.pending.reset(volume, pod, self.now);
        turn.dirty.insert(volume.clone());
        turn.touched.insert(pod.clone());
    }

    /// The mount that stood is there no more, and no operation took it away.
    pub(crate) fn take_for_gone(&mut self, pod: &PodUid, volume: &UniqueVolumeName, turn: &mut Turn) {
        let Some(mount) = self.actual.mount_mut(volume, pod) else { return };
        mount.stage = Stage::RECOVERED;
        mount.ready_at = None;
        let spec_name = mount.spec_name.clone();
        self.publish_vanished(pod, volume, &spec_name, turn);
        self.needed_changed(volume, pod, turn);
    }

    /// Somebody else took the node's own mount away. Pods keep theirs; it is made again before another pod gets the volume, and for those that
    /// have it, or what is left of it is undone.
    pub(crate) fn device_vanished(&mut self, name: &UniqueVolumeName, turn: &mut Turn) {
        let changing = self.pending.running_on(name).any(|running| works_on_device(&running.operation));
        let Some(volume) = self.actual.get_mut(name) else { return };
        // What recovery found complete is so no more.
        volume.mounts.values_mut().for_each(|mount| mount.intact = false);
        if changing {
            volume.device_vanished = volume.device.is_present();
            return;
        }
        if volume.device.is_present() {
            self.take_device_for_gone(name, turn);
        }
        self.pending.reset_volume(name, self.now);
        turn.dirty.insert(name.clone());
    }

    /// An operation has ended in the course of which the node's mount had vanished.
    pub(crate) fn settle_vanished_device(&mut self, operation: &Operation, brought_back: bool, turn: &mut Turn) {
        let Some(volume) = self.actual.get_mut(&operation.volume) else { return };
        if !works_on_device(operation) {
            return;
        }
        if std::mem::take(&mut volume.device_vanished) && !brought_back && volume.device.is_present() {
            self.take_device_for_gone(&operation.volume, turn);
        }
    }

    fn take_device_for_gone(&mut self, name: &UniqueVolumeName, turn: &mut Turn) {
        let Some(volume) = self.actual.get_mut(name) else { return };
        volume.device = Stage::RECOVERED;
        let spec_name = volume.spec_name.clone();
        self.publish_device_vanished(name, &spec_name, turn);
        turn.touched.extend(self.desired.users(name).cloned());
    }
}

/// The operation makes the node's mount, or takes it away.
const fn works_on_device(operation: &Operation) -> bool {
    matches!(
        operation.kind,
        OperationKind::Mount { .. }
            | OperationKind::Map { .. }
            | OperationKind::UnmountDevice
            | OperationKind::UnmapDevice
    )
}
