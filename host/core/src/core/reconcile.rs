//! Compares what is desired of one volume with what is actual, and starts what is due: first
//! unmounts, so that a volume moves from a pod that is gone to a new one, then mounts, last the
//! device and the attachment.

use volhost_model::VolumeSpec;

use super::{Core, Turn};
use crate::actual::{ActualVolume, Mount};
use crate::blocked::BlockedReason;
use crate::command::{OperationKind, OperationName};
use crate::desired::VolumeEntry;
use crate::identity::{PodId, VolumeId};
use crate::keys::Scope;
use crate::transitions::{Need, Presence, need};

/// The operations that the volume needs, whether or not they could be started: the others' failures
/// are forgotten.
type NeededOperations = Vec<(Scope, OperationName)>;

impl Core {
    /// Starts everything that is due on the volume.
    pub(super) fn reconcile(&mut self, volume: &VolumeId, turn: &mut Turn) {
        let mut needed = NeededOperations::new();
        self.unmount_unwanted(volume, &mut needed, turn);
        self.mount_wanted(volume, &mut needed, turn);
        self.release_device(volume, &mut needed, turn);
        self.pending.keep_only(volume, &needed);
    }

    fn unmount_unwanted(&mut self, name: &VolumeId, needed: &mut NeededOperations, turn: &mut Turn) {
        let Some(volume) = self.actual.get(name) else {
            return;
        };
        let unwanted: Vec<PodId> = volume
            .mounts
            .iter()
            .filter(|(pod, mount)| mount.state.may_exist() && self.must_unmount(pod, name, mount))
            .map(|(pod, _)| pod.clone())
            .collect();
        for pod in unwanted {
            let Some(mount) = self.actual.mount(name, &pod) else {
                continue;
            };
            let kind = if mount.block { OperationKind::Unmap } else { OperationKind::Unmount };
            needed.push((Scope::Pod(pod.clone()), kind.name()));
            if self.is_needed(name, &pod) || !self.is_free(name, &Scope::Pod(pod.clone()), Some(&pod), kind) {
                continue;
            }
            self.start(name, kind, Some(pod.clone()), turn);
            if let Some(mount) = self.actual.mount_mut(name, &pod) {
                mount.leaving = true;
                // A complete mount may no longer be complete, however this ends.
                mount.intact = false;
            }
        }
    }

    /// The mount has to be unmounted: its pod is known not to want it, or wants another in its
    /// place.
    fn must_unmount(&self, pod: &PodId, name: &VolumeId, mount: &Mount) -> bool {
        if mount.state.is_recovered() && !self.may_unmount_recovered() {
            return false;
        }
        match self.wanted(pod, name) {
            Some(wanted) if wanted.volume.blocked.is_some() => false,
            Some(wanted) => {
                let volume = self.actual.get(name);
                mount.must_be_replaced(wanted)
                    || self.loses_needed(pod, mount)
                    || volume.is_some_and(|volume| self.shows_other_label(volume, pod, mount, wanted))
            }
            None => self.draining || !self.is_kept(pod, mount),
        }
    }

    /// The pod has volumes that could not be resolved, and this mount may be one of them (rule R2).
    pub(super) fn is_kept(&self, pod: &PodId, mount: &Mount) -> bool {
        self.desired.pod(pod).is_some_and(|entry| {
            !entry.unresolved.is_empty()
                && (mount.outer_names.is_empty()
                    || mount.outer_names.iter().any(|name| entry.unresolved.contains_key(name)))
        })
    }

    fn mount_wanted(&mut self, name: &VolumeId, needed: &mut NeededOperations, turn: &mut Turn) {
        if self.draining {
            return;
        }
        let turn_of = |uid: &PodId| self.desired.wanted(uid, name).map_or(0, |wanted| wanted.last_attempt);
        let mut users: Vec<PodId> = self.desired.users(name).cloned().collect();
        // If the label is unknown, consider pods that already mount the volume first.
        let label_is_open = |uid: &PodId| {
            let volume = self.actual.get(name).filter(|volume| volume.label_spec.is_none());
            volume.is_some_and(|volume| !volume.mounts.contains_key(uid))
        };
        users.sort_by_key(|uid| (label_is_open(uid), turn_of(uid)));
        for pod in users {
            self.advance(name, &pod, needed, turn);
        }
    }

    /// Starts the next operation that the pod's use of the volume needs, or notes why it cannot.
    fn advance(&mut self, name: &VolumeId, pod: &PodId, needed: &mut NeededOperations, turn: &mut Turn) {
        let Some(wanted) = self.desired.wanted(pod, name) else {
            return;
        };
        let volume = self.actual.get(name);
        let mount = volume.and_then(|volume| volume.mounts.get(pod)).map(Box::as_ref);
        let mut blocked = None;
        let mut no_place = false;
        let next = if let Some(why) = &wanted.volume.blocked {
            blocked = Some(BlockedReason::BySource(why.clone()));
            None
        } else if mount.is_some_and(|mount| {
            mount.state.may_exist() && (mount.must_be_replaced(wanted) || self.loses_needed(pod, mount))
        }) {
            // The old mount goes first; unmounting has been started, or waits.
            let waits = mount.is_some_and(|mount| mount.state.is_recovered()) && !self.may_unmount_recovered();
            blocked = waits.then_some(BlockedReason::SourcesUnread);
            None
        } else {
            match self.need_of(wanted, volume, mount) {
                Need::Nothing => None,
                Need::Attach => match self.attach_step(name, wanted) {
                    Ok(kind) => {
                        needed.push((Scope::Volume, kind.name()));
                        Some((kind, None))
                    }
                    Err(why) => {
                        blocked = Some(why);
                        no_place = self.attaching.by_host(&wanted.volume.plugin);
                        None
                    }
                },
                step @ (Need::Mount | Need::Remount) => {
                    let kind = mount_kind(&wanted.volume.spec, volume, step == Need::Remount);
                    needed.extend([Scope::Pod(pod.clone()), Scope::Volume].map(|scope| (scope, kind.name())));
                    blocked = self.mount_blocked_reason(name, pod, wanted, volume);
                    blocked.is_none().then(|| (kind, Some(pod.clone())))
                }
                Need::Expand => {
                    let to = wanted.volume.spec.capacity().unwrap_or(0);
                    let kind = OperationKind::Expand { from: volume.and_then(|volume| volume.size).unwrap_or(0), to };
                    needed.push((Scope::Pod(pod.clone()), kind.name()));
                    Some((kind, Some(pod.clone())))
                }
            }
        };
        self.set_blocked_reason(name, pod, blocked, turn);
        if no_place {
            self.waiting_for_place.insert(name.clone());
        }
        let Some((kind, op_pod)) = next else { return };
        let scope = self.key_scope(name, kind, Some(pod));
        if self.is_free(name, &scope, op_pod.as_ref(), kind) {
            self.prepare(name, pod, kind);
            self.start(name, kind, Some(pod.clone()), turn);
        }
    }

    fn need_of(&self, wanted: &VolumeEntry, volume: Option<&ActualVolume>, mount: Option<&Mount>) -> Need {
        let attached = !wanted.volume.attachable || volume.is_some_and(|volume| volume.attach.is_present());
        let remount = mount.is_some_and(|mount| {
            (mount.remount_required && wanted.volume.follows_source)
                || mount.is_outdated(wanted)
                || mount.lacks_parts(wanted)
        });
        let size = volume.and_then(|volume| volume.size);
        let refused = volume.and_then(|volume| volume.refused_size);
        let spec = &wanted.volume.spec;
        // Restage if the staging mount is gone, even while the pod's mount exists.
        let remount = remount
            || (wanted.volume.stageable
                && !spec.is_block()
                && volume.is_some_and(|volume| volume.device.may_exist() && !volume.device.is_present()));
        let grow = wanted.volume.expandable
            && !spec.read_only
            && matches!((spec.capacity(), size), (Some(to), Some(from)) if to > from && refused != Some(to));
        need(mount.map_or(Presence::Absent, |mount| mount.state.presence()), attached, remount, grow)
    }

    /// The operation that brings the attachment, or why none is begun.
    fn attach_step(&self, name: &VolumeId, wanted: &VolumeEntry) -> Result<OperationKind, BlockedReason> {
        if self.attaching.by_host(&wanted.volume.plugin) {
            return match self.attach_limit_reached(name, wanted) {
                Some(reached) => Err(BlockedReason::AttachLimit(reached)),
                None => Ok(OperationKind::Attach),
            };
        }
        if !self.reported_in_use.contains(name.name()) {
            return Err(BlockedReason::NotReportedInUse);
        }
        match &self.node_attachments {
            Some(attached) if !attached.contains_key(name.name()) => Err(match self.attach_failures.get(name.name()) {
                Some(why) => BlockedReason::ControllerFailed(why.clone()),
                None => BlockedReason::ControllerPending,
            }),
            _ => Ok(OperationKind::VerifyControllerAttached),
        }
    }

    /// Returns why the pod cannot mount the volume now. Every cause ends when another mount is made
    /// or unmounted, which reconciles the volume again.
    fn mount_blocked_reason(
        &self,
        name: &VolumeId,
        pod: &PodId,
        wanted: &VolumeEntry,
        volume: Option<&ActualVolume>,
    ) -> Option<BlockedReason> {
        let spec = &wanted.volume.spec;
        let other_pod = volume.and_then(|volume| volume.mounts.keys().find(|other| *other != pod));
        let single_pod = spec.is_single_pod();
        if let (true, Some(other)) = (single_pod, other_pod) {
            return Some(BlockedReason::UsedByPod(self.pod_name(other)));
        }
        if let Some(conflict) = self.label_conflict(pod, wanted, volume) {
            return Some(conflict);
        }
        if volume.is_some_and(|volume| self.must_be_staged_again(name, volume)) {
            return Some(BlockedReason::StagedBeforeEdit);
        }
        if let Some(taken) = self.actual.folder_taken_by(pod, &wanted.volume.plugin, &spec.name, name) {
            return Some(BlockedReason::FolderInUse { volume: taken.name().clone(), folder: spec.name.clone() });
        }
        self.missing_need(pod, wanted)
    }

    fn set_blocked_reason(&mut self, name: &VolumeId, pod: &PodId, reason: Option<BlockedReason>, turn: &mut Turn) {
        let Some(wanted) = self.desired.wanted_mut(pod, name) else {
            return;
        };
        if wanted.blocked_reason == reason {
            return;
        }
        wanted.blocked_reason.clone_from(&reason);
        let spec_name = wanted.volume.spec.name.clone();
        turn.changed_pods.insert(pod.clone());
        if let Some(reason) = reason.filter(|reason| !reason.is_reported_already()) {
            self.publish_blocked(name, &spec_name, pod, &reason, turn);
        }
    }

    fn release_device(&mut self, name: &VolumeId, needed: &mut NeededOperations, turn: &mut Turn) {
        let Some(volume) = self.actual.get(name) else {
            return;
        };
        let in_use = !volume.mounts.is_empty();
        let relabel = volume.device.may_exist()
            && (self.must_be_relabelled(name, volume) || self.must_be_staged_again(name, volume));
        let wanted = !self.draining && self.desired.users(name).next().is_some() && !relabel;
        if in_use || wanted {
            return;
        }
        let (state, kind) = if volume.device.may_exist() {
            let block = volume.spec.as_ref().is_some_and(|spec| spec.is_block());
            (volume.device, if block { OperationKind::UnmapDevice } else { OperationKind::UnmountDevice })
        } else if self.attaching.by_host(&volume.plugin) && volume.attach.may_exist() {
            (volume.attach, OperationKind::Detach)
        } else {
            // It is neither staged nor attached. Where a controller attaches, it detaches too, once
            // the volume is no longer in use.
            if !self.pending.is_taken(name, &Scope::Volume) {
                self.actual.remove(name);
            }
            return;
        };
        needed.push((Scope::Volume, kind.name()));
        let awaited = self.desired.is_awaited(name, volume.spec.as_ref());
        if awaited && !relabel && !self.draining {
            self.awaited.insert(name.clone());
            return;
        }
        if (!state.is_recovered() || self.may_unmount_recovered()) && self.is_free(name, &Scope::Volume, None, kind) {
            self.start(name, kind, None, turn);
        }
    }
}

fn mount_kind(spec: &VolumeSpec, volume: Option<&ActualVolume>, remount: bool) -> OperationKind {
    let staged = volume.is_some_and(|volume| volume.device.is_present());
    if spec.is_block() { OperationKind::Map { staged } } else { OperationKind::Mount { staged, remount } }
}
