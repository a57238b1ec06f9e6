//! The changes by each event. The reconciler decides which operations follow.

use std::collections::BTreeMap;

use volhost_model::names::UniqueVolumeName;

use super::{Core, Turn};
use crate::actual::{ActualVolume, Mount};
use crate::compare::share;
use crate::event::{DesiredPod, Event, RecoveredDevice, RecoveredVolume};
use crate::identity::{PodId, VolumeId};
use crate::small_map::SmallMap;
use crate::transitions::{MountState, OutcomeClass, Presence};
use crate::waiters::WaitCondition;

impl Core {
    pub(super) fn apply(&mut self, event: Event, turn: &mut Turn) {
        match event {
            Event::PodDesired(desired) => self.pod_desired(desired, turn),
            Event::PodGone { uid } => {
                if let Some(uid) = self.pod_names.get(&uid).cloned() {
                    self.pod_gone(&uid, turn);
                }
            }
            Event::SourcesSynced => {
                self.sources_synced = true;
                turn.dirty.extend(self.actual.volumes().map(|(name, _)| name.clone()));
            }
            Event::Recovered(found) => self.recovered(found, turn),
            Event::RecoveredDevice(found) => self.recovered_device(found, turn),
            Event::PluginChanged { plugin } => turn.dirty.extend(self.pending.reset_plugin(&plugin, self.now)),
            Event::StorageAnswers(volumes) => {
                let known = volumes.iter().filter_map(|volume| self.volume_names.get(volume));
                turn.dirty.extend(known.filter(|volume| self.pending.retry_early(volume, self.now)).cloned());
            }
            Event::OperationDone { id, report } => self.operation_done(id, report, turn),
            Event::OperationOverdue { id, message } => self.operation_overdue(id, message, turn),
            Event::Timer => {}
            Event::WaitMounted { waiter, uid, deadline } => {
                self.wait(waiter, &uid, WaitCondition::Mounted, deadline, turn);
            }
            Event::WaitUnmounted { waiter, uid, deadline } => {
                self.wait(waiter, &uid, WaitCondition::Unmounted, deadline, turn);
            }
            Event::WaitCancelled { waiter } => self.waiters.remove(waiter),
            Event::SourceChanged { uid } => {
                if let Some(uid) = self.pod_names.get(&uid).cloned() {
                    self.require_remount(&uid, turn);
                    self.retry_now(&uid, turn);
                }
            }
            Event::Refresh => self.refresh(turn),
            Event::Vanished { pod, volume } => {
                let known = self.pod_names.get(&pod).cloned().zip(self.volume_names.get(&volume).cloned());
                if let Some((pod, volume)) = known {
                    self.vanished(&pod, &volume, turn);
                }
            }
            Event::DeviceVanished { volume } => {
                if let Some(volume) = self.volume_names.get(&volume).cloned() {
                    self.device_vanished(&volume, turn);
                }
            }
            Event::ReportedInUse(volumes) => {
                let reported = volumes.into_iter().collect();
                turn.dirty.extend(self.known(self.reported_in_use.symmetric_difference(&reported)));
                self.reported_in_use = reported;
            }
            Event::AttachFailures(failures) => {
                let failures: BTreeMap<_, _> = failures.into_iter().collect();
                let before = std::mem::replace(&mut self.attach_failures, failures);
                let differs = |name: &&UniqueVolumeName| before.get(*name) != self.attach_failures.get(*name);
                turn.dirty.extend(self.known(before.keys().chain(self.attach_failures.keys()).filter(differs)));
            }
            Event::NodeAttachments(attached) => self.node_attachments(attached.into_iter().collect(), turn),
            Event::AttachmentsSoFar(attached) => self.attachments_so_far(attached, turn),
            Event::NotAttached(volumes) => {
                for name in &volumes {
                    self.not_attached(name, turn);
                }
            }
            Event::Drain => self.drain(true, turn),
            Event::DrainEnded => self.drain(false, turn),
        }
    }

    /// The names of volumes that something refers to. Those of others concern no volume here.
    pub(super) fn known<'a>(
        &'a self,
        names: impl Iterator<Item = &'a UniqueVolumeName> + 'a,
    ) -> impl Iterator<Item = VolumeId> + 'a {
        names.filter_map(|name| self.volume_names.get(name).cloned())
    }

    fn drain(&mut self, draining: bool, turn: &mut Turn) {
        self.draining = draining;
        turn.dirty.extend(self.actual.volumes().map(|(name, _)| name.clone()));
        turn.dirty.extend(self.desired.volumes().map(|(name, _)| name.clone()));
        let pods: Vec<PodId> = self.desired.pods().map(|(uid, _)| uid.clone()).collect();
        for uid in &pods {
            if self.is_desired(uid) {
                self.adopt(uid);
            }
        }
        turn.changed_pods.extend(pods);
    }

    fn pod_desired(&mut self, mut desired: DesiredPod, turn: &mut Turn) {
        let uid = self.pod_names.id(&desired.pod.uid);
        self.keep_owners(&uid, &mut desired);
        self.recheck_awaited(&uid, turn);
        let change = self.desired.set_pod(self.now, &uid, desired, &mut self.volume_names);
        turn.changed_pods.insert(uid.clone());
        turn.dirty.extend(change.volumes);
        turn.dirty.extend(self.actual.volumes_of(&uid).cloned());
        for (outer_name, reason) in change.new_reasons {
            self.publish_unresolved(&uid, &outer_name, &reason, turn);
        }
        if change.pod_changed {
            // Labels, annotations and limits are content too.
            self.require_remount(&uid, turn);
        }
        if !self.draining {
            self.adopt(&uid);
        }
        self.note_edits(&uid, turn);
    }

    /// Checks again the volumes that stay for the pod's unresolved volumes: they may be resolved
    /// now, or gone.
    fn recheck_awaited(&mut self, uid: &PodId, turn: &mut Turn) {
        if self.desired.has_unresolved(uid) {
            turn.dirty.append(&mut self.awaited);
        }
    }

    /// Gives the pod's mounts the names it knows them by, and adopts what recovery found
    /// complete and as wanted.
    fn adopt(&mut self, uid: &PodId) {
        let Some(entry) = self.desired.pod(uid) else {
            return;
        };
        for (name, wanted) in &entry.volumes {
            let Some(volume) = self.actual.get_mut(name) else {
                continue;
            };
            let Some(mount) = volume.mounts.get_mut(uid) else {
                continue;
            };
            mount.outer_names.clone_from(&wanted.outer_names);
            match (&mut mount.pod, &entry.pod) {
                (Some(known), Some(pod)) => share(known, pod),
                (known @ None, pod) => known.clone_from(pod),
                (Some(_), None) => {}
            }
            // What the records contain is mostly what the source says.
            let specs = [&mut mount.spec, &mut volume.spec, &mut volume.label_spec];
            specs.into_iter().flatten().for_each(|spec| share(spec, &wanted.volume.spec));
            share(&mut mount.container_mounts, &wanted.volume.container_mounts);
            let as_wanted = !mount.is_outdated(wanted);
            if !(mount.state.is_recovered() && mount.intact && mount.spec.is_some() && as_wanted) {
                continue;
            }
            mount.state = MountState::PRESENT;
            mount.ready_at = Some(self.now);
            // Its source may have changed while the host was down: it is usable, and is refreshed.
            mount.remount_required = wanted.volume.follows_source;
            if volume.stageable {
                volume.device = MountState::PRESENT;
            }
            if volume.size.is_none() {
                volume.size = mount.spec.as_ref().and_then(|spec| spec.capacity());
            }
        }
    }

    fn pod_gone(&mut self, uid: &PodId, turn: &mut Turn) {
        self.recheck_awaited(uid, turn);
        let wanted = self.desired.set_gone(uid);
        turn.dirty.extend(wanted);
        turn.dirty.extend(self.actual.volumes_of(uid).cloned());
        turn.changed_pods.insert(uid.clone());
    }

    fn require_remount(&mut self, uid: &PodId, turn: &mut Turn) {
        let names: Vec<VolumeId> = self.actual.volumes_of(uid).cloned().collect();
        for name in names {
            // The volume may be unresolved now. Whether it follows its source is checked when it is
            // wanted.
            if let Some(mount) = self.actual.mount_mut(&name, uid) {
                mount.remount_required = true;
                turn.dirty.insert(name);
            }
        }
    }

    fn refresh(&mut self, turn: &mut Turn) {
        for (uid, name) in self.desired.refreshed() {
            if let Some(mount) = self.actual.mount_mut(&name, &uid) {
                mount.remount_required = true;
                turn.dirty.insert(name);
            }
        }
    }

    /// What kept a volume from being set up may be mended by the change of its source: it need not
    /// wait.
    fn retry_now(&mut self, uid: &PodId, turn: &mut Turn) {
        let Some(entry) = self.desired.pod(uid) else {
            return;
        };
        for (name, _) in entry.volumes.iter().filter(|(_, wanted)| wanted.volume.follows_source) {
            if self.pending.reset(name, uid, self.now) {
                turn.dirty.insert(name.clone());
            }
        }
    }

    /// What is known already, from an operation or an earlier finding, is newer than what recovery
    /// found.
    fn recovered(&mut self, found: RecoveredVolume, turn: &mut Turn) {
        let device = RecoveredDevice {
            plugin: found.plugin,
            unique_name: found.unique_name,
            spec_name: found.spec_name,
            spec: found.spec,
            attachable: found.attachable,
            stageable: found.stageable,
        };
        let (pod, name) = (self.pod_names.id(&found.pod), self.volume_names.id(&device.unique_name));
        if self.actual.mount(&name, &pod).is_some() {
            return;
        }
        self.desired.note_found(self.now, &pod, found.known_pod.clone());
        let mount = Mount {
            state: MountState::RECOVERED,
            intact: found.intact,
            leaving: false,
            vanished: false,
            remount_required: false,
            block: device.spec.as_ref().is_some_and(|spec| spec.is_block()),
            at_folder: found.at_folder,
            spec: device.spec.clone(),
            container_mounts: found.container_mounts,
            parts_unsure: false,
            needs: found.needs,
            spec_name: device.spec_name.clone(),
            pod: found.known_pod,
            outer_names: Vec::new(),
            since: self.now,
            ready_at: None,
        };
        self.recovered_device(device, turn);
        self.actual.insert_mount(&name, &pod, mount);
        if self.is_desired(&pod) {
            self.adopt(&pod);
        }
        turn.changed_pods.insert(pod);
    }

    fn recovered_device(&mut self, found: RecoveredDevice, turn: &mut Turn) {
        let name = self.volume_names.id(&found.unique_name);
        turn.dirty.insert(name.clone());
        let state = |may_be: bool| {
            if may_be { MountState::RECOVERED } else { MountState::ABSENT }
        };
        let (attachable, stageable) = (found.attachable, found.stageable);
        let volume = self.actual.entry(&name, || ActualVolume {
            plugin: found.plugin,
            spec_name: found.spec_name,
            spec: None,
            label_spec: found.spec.clone(),
            attachable,
            stageable,
            attach: state(attachable),
            other_node: None,
            device: state(stageable),
            device_vanished: false,
            device_path: None,
            size: None,
            refused_size: None,
            mounts: SmallMap::default(),
        });
        let Some(volume) = volume else { return };
        if volume.label_spec.is_none() {
            volume.label_spec.clone_from(&found.spec);
        }
        if attachable && !volume.attachable {
            volume.attachable = true;
            volume.attach = MountState::RECOVERED;
        }
        if stageable && !volume.stageable {
            volume.stageable = true;
            volume.device = MountState::RECOVERED;
        }
        // Another pod's folder may know more.
        let known = volume.spec.clone().or(found.spec);
        self.actual.set_spec(&name, known);
    }

    /// Marks an attachment that its plugin does not find as uncertain: the volume is attached
    /// again, or detached, and what is mounted stays.
    fn not_attached(&mut self, name: &UniqueVolumeName, turn: &mut Turn) {
        let Some(name) = self.volume_names.get(name).cloned() else { return };
        let attaching = &self.attaching;
        // An operation that ended since is newer than this observation.
        if self.pending.running_on(&name).next().is_some() {
            return;
        }
        let Some(volume) = self.actual.get_mut(&name).filter(|volume| volume.attachable && volume.attach.is_present())
        else {
            return;
        };
        // The look may have been wrong: that it cannot be attached again is no proof that it is not
        // attached.
        volume.attach = if attaching.by_host(&volume.plugin) {
            MountState::RECOVERED
        } else {
            volume.attach.after_removal(OutcomeClass::Uncertain)
        };
        self.publish_not_attached(&name, turn);
        turn.changed_pods.extend(self.desired.users(&name).cloned());
        turn.dirty.insert(name);
    }

    /// Applies a part of the controller's report: what it names is attached. It says nothing of
    /// other volumes (rule R2).
    fn attachments_so_far(&mut self, attached: Vec<(UniqueVolumeName, String)>, turn: &mut Turn) {
        for (name, path) in attached {
            let known = self.node_attachments.get_or_insert_default();
            if known.insert(name.clone(), path.clone()).as_ref() == Some(&path) {
                continue;
            }
            let Some(name) = self.volume_names.get(&name).cloned() else { continue };
            let theirs = |volume: &&mut ActualVolume| volume.attachable && !self.attaching.by_host(&volume.plugin);
            let volume = self.actual.get_mut(&name).filter(theirs);
            if let Some(volume) = volume {
                note_reported(volume, &path);
            }
            turn.dirty.insert(name);
        }
    }

    /// Applies the controller's report: it settles what recovery could not know, and drops
    /// attachments that are not in use yet.
    fn node_attachments(&mut self, attached: BTreeMap<UniqueVolumeName, String>, turn: &mut Turn) {
        let changed = |name: &UniqueVolumeName, before: Option<&BTreeMap<UniqueVolumeName, String>>| {
            before.is_none_or(|before| before.get(name) != attached.get(name))
        };
        let before = self.node_attachments.as_ref();
        turn.dirty.extend(self.known(attached.keys().filter(|name| changed(name, before))));
        let no_more = before.into_iter().flatten().map(|(name, _)| name).filter(|name| changed(name, before));
        turn.dirty.extend(self.known(no_more));
        turn.dirty.extend(self.desired.volumes().map(|(name, _)| name).filter(|_| before.is_none()).cloned());
        let attaching = &self.attaching;
        if !attaching.has_no_controller() {
            let theirs = |volume: &ActualVolume| volume.attachable && !attaching.by_host(&volume.plugin);
            for (name, volume) in self.actual.volumes_mut().filter(|(_, volume)| theirs(volume)) {
                match attached.get(name.name()) {
                    Some(path) if note_reported(volume, path) => {}
                    None if volume.attach.presence() == Presence::Uncertain => volume.attach = MountState::ABSENT,
                    None if volume.mounts.is_empty() && !volume.device.may_exist() => {
                        volume.attach = MountState::ABSENT
                    }
                    _ => continue,
                }
                turn.dirty.insert(name.clone());
            }
        }
        self.node_attachments = Some(attached);
    }
}

/// Notes that a controller reports the volume as attached under this name. Returns whether that is
/// new. A volume that a plugin found attached before any report has no name until then.
fn note_reported(volume: &mut ActualVolume, path: &str) -> bool {
    match volume.attach.presence() {
        Presence::Uncertain => volume.attach = MountState::PRESENT,
        Presence::Present if volume.device_path.is_none() => {}
        _ => return false,
    }
    volume.device_path = Some(path.to_owned());
    true
}
