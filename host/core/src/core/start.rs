//! Starts an operation: its key, the room it gets in ACTUAL beforehand, and what it is given to
//! work with.

use std::sync::Arc;

use super::{Core, Turn};
use crate::actual::{ActualVolume, Mount};
use crate::command::{CoreCommand, Operation, OperationKind};
use crate::identity::{PodId, VolumeId};
use crate::keys::Scope;
use crate::pending::InFlightOperation;
use crate::small_map::SmallMap;
use crate::transitions::MountState;

impl Core {
    /// No running operation's key matches, and no back-off of this operation runs.
    pub(super) fn is_free(&self, name: &VolumeId, scope: &Scope, pod: Option<&PodId>, kind: OperationKind) -> bool {
        !self.pending.is_taken(name, scope) && !self.pending.is_waiting(name, pod, kind.name(), self.now)
    }

    /// The scope of the operation's key: the volume when it must be the only one on it.
    pub(super) fn key_scope(&self, name: &VolumeId, kind: OperationKind, pod: Option<&PodId>) -> Scope {
        let Some(pod) = pod else { return Scope::Volume };
        match kind {
            OperationKind::Mount { .. } | OperationKind::Map { .. } => {
                let shared = self.desired.wanted(pod, name).is_some_and(|w| w.volume.attachable || w.volume.stageable)
                    || self.actual.get(name).is_some_and(|v| v.attachable || v.stageable);
                if shared { Scope::Volume } else { Scope::Pod(pod.clone()) }
            }
            OperationKind::Unmount | OperationKind::Unmap => Scope::Pod(pod.clone()),
            _ => Scope::Volume,
        }
    }

    /// Makes room in ACTUAL for what an operation for `pod` is about to do: from here on the volume
    /// may be mounted.
    pub(super) fn prepare(&mut self, name: &VolumeId, pod: &PodId, kind: OperationKind) {
        let Some(wanted) = self.desired.wanted(pod, name) else {
            return;
        };
        let (now, desired, outer_names) = (self.now, wanted.volume.clone(), wanted.outer_names.clone());
        let object = self.pod_object(pod);
        let volume = self.actual.entry(name, || ActualVolume {
            plugin: desired.plugin.clone(),
            spec_name: desired.spec.name.clone(),
            spec: None,
            label_spec: None,
            attachable: false,
            stageable: false,
            attach: MountState::ABSENT,
            other_node: None,
            device: MountState::ABSENT,
            device_vanished: false,
            device_path: None,
            size: None,
            refused_size: None,
            mounts: SmallMap::default(),
        });
        let Some(volume) = volume else { return };
        volume.attachable |= desired.attachable;
        volume.stageable |= desired.stageable;
        self.actual.set_spec(name, Some(Arc::clone(&desired.spec)));
        let Some(volume) = self.actual.get_mut(name) else {
            return;
        };
        if !matches!(kind, OperationKind::Mount { .. } | OperationKind::Map { .. }) {
            return;
        }
        if !volume.device.may_exist() || volume.label_spec.is_none() {
            volume.label_spec = Some(Arc::clone(&desired.spec));
        }
        if let Some(mount) = volume.mounts.get_mut(pod) {
            // Later changes are not in this operation.
            mount.remount_required = false;
            mount.intact = false;
            self.actual.set_needs(name, pod, desired.needs);
            return;
        }
        let mount = Mount {
            at_folder: false,
            state: MountState::ABSENT,
            intact: false,
            leaving: false,
            vanished: false,
            remount_required: false,
            spec: Some(Arc::clone(&desired.spec)),
            container_mounts: Arc::default(),
            parts_unsure: false,
            needs: desired.needs,
            spec_name: desired.spec.name.clone(),
            block: desired.spec.is_block(),
            pod: object,
            outer_names,
            since: now,
            ready_at: None,
        };
        self.actual.insert_mount(name, pod, mount);
    }

    /// Starts an operation whose key is free. `pod` is whose use of the volume it serves; none for
    /// the volume alone.
    pub(super) fn start(&mut self, name: &VolumeId, kind: OperationKind, pod: Option<PodId>, turn: &mut Turn) {
        let Some(volume) = self.actual.get(name) else {
            return;
        };
        let id = self.pending.next_id();
        let mount = pod.as_ref().and_then(|pod| volume.mounts.get(pod));
        let wanted = pod.as_ref().and_then(|pod| self.wanted(pod, name));
        let (spec, spec_name) = match (kind, mount, wanted) {
            // Unmount the mounted volume, regardless of the wanted one.
            (OperationKind::Unmount | OperationKind::Unmap, Some(mount), _) => {
                (mount.spec.clone(), mount.spec_name.clone())
            }
            // An edit of the PersistentVolume applies at the next mount, not to one that is only
            // refreshed.
            (OperationKind::Mount { remount: true, .. }, Some(mount), Some(wanted)) if mount.keeps_edit(wanted) => {
                (mount.spec.clone(), mount.spec_name.clone())
            }
            (_, _, Some(wanted)) => (Some(Arc::clone(&wanted.volume.spec)), wanted.volume.spec.name.clone()),
            _ => (volume.spec.clone(), volume.spec_name.clone()),
        };
        let object =
            pod.as_ref().and_then(|uid| self.pod_object(uid)).or_else(|| mount.and_then(|mount| mount.pod.clone()));
        // Attachments are the volume's: they take and fail its own key.
        let of_volume = matches!(kind, OperationKind::Attach | OperationKind::VerifyControllerAttached);
        let operation = Operation {
            id,
            kind,
            volume: name.name().clone(),
            plugin: wanted.map_or_else(|| volume.plugin.clone(), |wanted| wanted.volume.plugin.clone()),
            spec_name,
            pod_uid: pod.as_ref().filter(|_| !of_volume).map(|pod| pod.name().clone()),
            pod: object.filter(|_| !of_volume),
            spec,
            device_path: volume.device_path.clone(),
            // A volume that was recovered without a record counts as attached, in case it is; a pod
            // that has it mounted knows whether that takes an attachment.
            attachable: match (kind, wanted) {
                (OperationKind::Mount { .. } | OperationKind::Map { .. }, Some(wanted)) => wanted.volume.attachable,
                _ => volume.attachable,
            },
            stageable: volume.stageable,
            container_mounts: match kind {
                OperationKind::Mount { .. } => wanted.map(|wanted| Arc::clone(&wanted.volume.container_mounts)),
                _ => None,
            }
            .unwrap_or_default(),
            needs: match kind {
                OperationKind::Mount { .. } => wanted.map(|wanted| Arc::clone(&wanted.volume.needs)),
                _ => None,
            }
            .unwrap_or_default(),
        };
        let scope = self.key_scope(name, kind, pod.as_ref());
        self.pending.start(InFlightOperation {
            operation: operation.clone(),
            volume: name.clone(),
            pod: pod.clone().filter(|_| !of_volume),
            scope,
            since: self.now,
            overdue: None,
        });
        if let Some(pod) = pod {
            if let Some(wanted) = self.desired.wanted_mut(&pod, name) {
                wanted.last_attempt = id;
            }
            turn.changed_pods.insert(pod);
        }
        turn.commands.push(CoreCommand::Start(operation));
    }
}
