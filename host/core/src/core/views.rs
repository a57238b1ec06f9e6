//! Queries of users and of the event loop. They change nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volhost_model::csi_layout;
use volhost_model::names::{OuterName, PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::view::{ContainerMountView, OperationView, PodPhase, PodView, VolumeState, VolumeView};
use volhost_model::{ContainerMount, Failure, FailureClass, Pod, RecursiveReadOnly, VolumeSpec};

use super::Core;
use crate::actual::{ActualVolume, Mount};
use crate::desired::{PodEntry, PodReport, Unresolved, VolumeEntry};
use crate::event::{DesiredPod, UnresolvedVolume};
use crate::identity::{PodId, VolumeId};
use crate::keys::Scope;

impl Core {
    /// Every pod that exists, or of which something is still mounted or may be, by uid.
    pub fn pods(&self) -> Vec<PodView> {
        let mut pods: Vec<_> = self.desired.pods().collect();
        pods.sort_unstable_by_key(|(uid, _)| *uid);
        pods.into_iter().filter_map(|(uid, entry)| self.pod_view(uid, entry)).collect()
    }

    /// One pod.
    pub fn pod(&self, uid: &PodUid) -> Option<PodView> {
        let uid = self.pod_names.get(uid)?;
        self.desired.pod(uid).and_then(|entry| self.pod_view(uid, entry))
    }

    /// Whether [`Core::pod`] would return a pod of this uid.
    pub fn has_pod(&self, uid: &PodUid) -> bool {
        self.pod_names.get(uid).is_some_and(|uid| self.desired.pod(uid).is_some() && self.is_shown(uid))
    }

    /// Returns the uid of the pod of this name among [`Core::pods`].
    pub fn pod_named(&self, namespace: &str, name: &str) -> Option<&PodUid> {
        let is_named = |pod: &Arc<Pod>| pod.namespace == namespace && pod.name == name;
        let named = self.desired.pods().filter(|(_, entry)| entry.pod.as_ref().is_some_and(is_named));
        named.map(|(uid, _)| uid).filter(|uid| self.is_shown(uid)).min().map(PodId::name)
    }

    /// The pod exists, or something of it is still mounted or may be.
    fn is_shown(&self, uid: &PodId) -> bool {
        self.is_desired(uid) || self.actual.has_mounts_of(uid)
    }

    fn pod_view(&self, uid: &PodId, entry: &PodEntry) -> Option<PodView> {
        let desired = self.is_desired(uid);
        if !self.is_shown(uid) {
            return None;
        }
        let mut volumes: Vec<VolumeView> = Vec::new();
        let mut ready = 0;
        if desired {
            for (name, wanted) in &entry.volumes {
                let names = u32::try_from(wanted.outer_names.len()).unwrap_or(u32::MAX);
                ready += if self.is_mounted_as_wanted(uid, name, wanted) { names } else { 0 };
                volumes.extend(self.volume_views(uid, name, Some(wanted)));
            }
            let mounted = entry.unresolved.keys().filter(|name| self.mounted_under(uid, name).is_some());
            ready += u32::try_from(mounted.count()).unwrap_or(u32::MAX);
        }
        let others = self.actual.volumes_of(uid).filter(|name| self.wanted(uid, name).is_none());
        volumes.extend(others.flat_map(|name| self.volume_views(uid, name, None)));
        if desired {
            let kept: BTreeSet<String> = volumes.iter().map(|volume| volume.name.clone()).collect();
            let missing = entry.unresolved.iter().filter(|(name, _)| !kept.contains(name.as_str()));
            volumes.extend(missing.map(|(name, why)| self.unresolved_view(uid, entry, name.as_str(), why)));
        }
        let phase = match (self.is_ready(uid), desired, entry.reported) {
            (true, ..) => PodPhase::Mounted,
            (false, true, _) => PodPhase::Mounting,
            // No source has reported it yet, and one still may.
            (false, false, PodReport::Nothing) if !self.may_unmount_recovered() => PodPhase::Mounting,
            (false, false, _) => PodPhase::Unmounting,
        };
        Some(PodView {
            uid: uid.to_string(),
            namespace: entry.pod.as_ref().map(|pod| pod.namespace.clone()).unwrap_or_default(),
            name: entry.pod.as_ref().map(|pod| pod.name.clone()).unwrap_or_default(),
            phase,
            ready,
            total: u32::try_from(volumes.len()).unwrap_or(u32::MAX),
            since: entry.since,
            ready_at: entry.ready_at,
            volumes,
            errors: errors_of(entry),
            labels: entry.pod.as_ref().map(|pod| pod.labels.clone()).unwrap_or_default(),
        })
    }

    fn unresolved_view(&self, uid: &PodId, entry: &PodEntry, name: &str, why: &Unresolved) -> VolumeView {
        VolumeView {
            name: name.to_owned(),
            pod: self.pod_name(uid),
            pod_uid: uid.to_string(),
            since: entry.since,
            claim: why.claim.clone().unwrap_or_default(),
            failure: Some(unresolved(&why.reason)),
            ..empty_view(VolumeState::Unresolved)
        }
    }

    /// One view for each name that the volume has in the pod.
    fn volume_views(&self, uid: &PodId, name: &VolumeId, wanted: Option<&VolumeEntry>) -> Vec<VolumeView> {
        let view = self.volume_view(uid, name, wanted);
        let mounted = self.actual.mount(name, uid).map(|mount| mount.outer_names.as_slice());
        let names = wanted.map(|wanted| wanted.outer_names.as_slice()).or(mounted).unwrap_or_default();
        match names {
            [] => vec![view],
            names => names.iter().map(|name| VolumeView { name: name.to_string(), ..view.clone() }).collect(),
        }
    }

    /// Why the pod's name for the mount cannot be resolved, or the volume cannot be worked on.
    fn kept_for(&self, uid: &PodId, wanted: Option<&VolumeEntry>, mount: Option<&Mount>) -> Option<Failure> {
        if let Some(wanted) = wanted {
            return blocked(wanted).map(unresolved);
        }
        let entry = self.desired.pod(uid)?;
        mount?.outer_names.iter().find_map(|name| entry.unresolved.get(name)).map(|why| unresolved(&why.reason))
    }

    fn volume_view(&self, uid: &PodId, name: &VolumeId, wanted: Option<&VolumeEntry>) -> VolumeView {
        let mount = self.actual.mount(name, uid);
        let activity = self.activity(uid, name);
        let spec = wanted.map(|wanted| &wanted.volume.spec).or_else(|| mount.and_then(|mount| mount.spec.as_ref()));
        let plugin =
            self.actual.get(name).map(|volume| &volume.plugin).or_else(|| wanted.map(|wanted| &wanted.volume.plugin));
        let spec_name = mount.map(|mount| &mount.spec_name).or_else(|| spec.map(|spec| &spec.name));
        let path = mount.zip(plugin).map(|(mount, plugin)| path_of(uid, plugin, mount)).unwrap_or_default();
        let used = wanted.map(|wanted| &wanted.volume.container_mounts).or_else(|| mount.map(|m| &m.container_mounts));
        let used = used.map(|used| &used[..]).unwrap_or_default();
        let needs = wanted.map(|wanted| &wanted.volume.needs).or_else(|| mount.map(|mount| &mount.needs));
        let (attached_by, attached_as) = self.attachment_view(name);
        VolumeView {
            attached_by,
            attached_as,
            attached_elsewhere: self.attached_elsewhere(name.name()).unwrap_or_default().to_owned(),
            container_mounts: used.iter().map(|one| container_mount_view(uid, &path, mount, one)).collect(),
            made_of: needs.into_iter().flat_map(|needs| needs.iter()).map(|needed| needed.name.to_string()).collect(),
            spec_name: spec_name.map(ToString::to_string).unwrap_or_default(),
            unique_name: name.to_string(),
            plugin: plugin.map(ToString::to_string).unwrap_or_default(),
            pod: self.pod_name(uid),
            pod_uid: uid.to_string(),
            path,
            claim: claim_of(spec),
            read_only: spec.is_some_and(|spec| spec.read_only),
            selinux_label: label_of(spec),
            since: wanted.map(|wanted| wanted.since).or_else(|| mount.map(|mount| mount.since)).unwrap_or_default(),
            ready_at: mount.and_then(|mount| mount.ready_at),
            failure: activity.failure().or_else(|| self.kept_for(uid, wanted, mount)),
            size: self.actual.get(name).and_then(|volume| volume.size),
            refused_size: self.actual.get(name).and_then(|volume| volume.refused_size),
            pending_edit: wanted.and_then(|wanted| wanted.pending_edit.clone()).unwrap_or_default(),
            retry_at: activity.retry_at(),
            failures: activity.failed.map_or(0, |failed| failed.failures),
            ..empty_view(self.state_of(uid, name, wanted, mount))
        }
    }

    /// Whether a pod of this uid is wanted, or something of one is mounted, or may be.
    pub fn knows(&self, uid: &PodUid) -> bool {
        let uid = self.pod_names.get(uid);
        uid.is_some_and(|uid| self.desired.pod(uid).is_some() || self.actual.has_mounts_of(uid))
    }

    /// Whether the node has, or may have, an attachable volume of one of these PersistentVolumes
    /// under a name that `is_reported` does not know.
    pub fn has_other_name_of(
        &self,
        persistent_volumes: &BTreeSet<String>,
        is_reported: impl Fn(&UniqueVolumeName) -> bool,
    ) -> bool {
        self.actual.volumes().any(|(name, volume)| {
            // A volume that recovery found without a record may be of any kind.
            let is_inline = volume.spec.as_ref().is_some_and(|spec| spec.persistent_volume.is_none());
            volume.attachable
                && !is_inline
                && persistent_volumes.contains(volume.spec_name.as_str())
                && !is_reported(name.name())
        })
    }

    /// Returns the pod's volume that is mounted for certain in the folder of this name.
    pub fn mounted_in(&self, uid: &PodUid, plugin: &PluginName, spec_name: &SpecName) -> Option<&UniqueVolumeName> {
        let uid = self.pod_names.get(uid)?;
        let mut there = self.actual.in_folder(uid, spec_name).filter(|name| {
            self.actual.get(name).is_some_and(|volume| volume.plugin == *plugin)
                && self.actual.mount(name, uid).is_some_and(Mount::is_usable)
        });
        there.next().map(VolumeId::name)
    }

    /// Returns who attached the volume, `host` or `controller`, and what it is attached as.
    fn attachment_view(&self, name: &VolumeId) -> (String, String) {
        let attached = self.actual.get(name).filter(|volume| volume.attachable && volume.attach.is_present());
        let by = |plugin| if self.attaching.by_host(plugin) { "host" } else { "controller" };
        attached
            .map(|volume| (by(&volume.plugin).to_owned(), volume.device_path.clone().unwrap_or_default()))
            .unwrap_or_default()
    }

    /// The other node that has the volume, or may, which is why it could not be attached to this
    /// one.
    pub fn attached_elsewhere(&self, name: &UniqueVolumeName) -> Option<&str> {
        self.actual.get(self.volume_names.get(name)?)?.other_node.as_deref()
    }

    /// Volumes that no pod uses and that are still attached or staged, or may be.
    pub fn unused_volumes(&self) -> Vec<VolumeView> {
        let unused = self.actual.volumes().filter(|(name, volume)| {
            volume.mounts.is_empty() && (self.draining || self.desired.users(name).next().is_none())
        });
        let mut unused: Vec<_> = unused.collect();
        unused.sort_unstable_by_key(|(name, _)| *name);
        unused
            .into_iter()
            .map(|(name, volume)| {
                let failed = self.pending.failures_for(name, None).next();
                let (attached_by, attached_as) = self.attachment_view(name);
                VolumeView {
                    attached_by,
                    attached_as,
                    spec_name: volume.spec_name.to_string(),
                    unique_name: name.to_string(),
                    plugin: volume.plugin.to_string(),
                    claim: claim_of(volume.spec.as_ref()),
                    read_only: volume.spec.as_ref().is_some_and(|spec| spec.read_only),
                    selinux_label: label_of(volume.label_spec.as_ref()),
                    failure: failed.map(|failed| failed.failure.clone()),
                    retry_at: failed
                        .filter(|_| !self.pending.is_taken(name, &Scope::Volume))
                        .map(|failed| failed.retry_at),
                    failures: failed.map_or(0, |failed| failed.failures),
                    ..empty_view(VolumeState::Unused)
                }
            })
            .collect()
    }

    /// The volumes that wait after a failure, with their plugins and, as far as known, their specs.
    pub fn failed_volumes(&self) -> impl Iterator<Item = (&UniqueVolumeName, &PluginName, Option<&VolumeSpec>)> {
        self.pending.failed_in_order().into_iter().map(|(name, scope, failed)| {
            let wanted = self.desired.users(name).find(|pod| scope.pod().is_none_or(|of| of == *pod));
            let wanted = wanted.and_then(|pod| self.wanted(pod, name)).map(|wanted| wanted.volume.spec.as_ref());
            let known = || self.actual.get(name).and_then(|volume| volume.spec.as_deref());
            (name.name(), &failed.plugin, wanted.or_else(known))
        })
    }

    /// Operations that run, and those that failed and wait. Only its thread knows at which step a
    /// running one is.
    pub fn operations(&self) -> Vec<OperationView> {
        let running = self.pending.all_running().map(|(_, running)| {
            let operation = &running.operation;
            let mut failures = self.pending.failures_for(&running.volume, running.pod.as_ref());
            let failed = failures.find(|failed| failed.name == operation.kind.name());
            OperationView {
                id: operation.id,
                name: operation.kind.name().to_string(),
                volume: operation.volume.to_string(),
                pod: running.pod.as_ref().map(|uid| self.pod_name(uid)).unwrap_or_default(),
                plugin: operation.plugin.to_string(),
                running: true,
                step: String::new(),
                since: running.since,
                overdue: running.overdue.is_some(),
                failures: failed.map_or(0, |failed| failed.failures),
                retry_at: None,
                failure: failed.map(|failed| failed.failure.clone()),
            }
        });
        let failed = self.pending.failed_in_order();
        let waiting =
            failed.into_iter().filter(|(volume, scope, failed)| !self.pending.is_retried(volume, scope, failed));
        let waiting = waiting.map(|(volume, scope, failed)| OperationView {
            id: 0,
            name: failed.name.to_string(),
            volume: volume.to_string(),
            pod: scope.pod().map(|uid| self.pod_name(uid)).unwrap_or_default(),
            plugin: failed.plugin.to_string(),
            running: false,
            step: String::new(),
            since: failed.failed_at,
            overdue: false,
            failures: failed.failures,
            retry_at: Some(failed.retry_at),
            failure: Some(failed.failure.clone()),
        });
        running.chain(waiting).collect()
    }

    /// The attachable volumes that the node's status has to report as in use: from before the first
    /// mount until after the last device unmount. Sorted, each once.
    pub fn volumes_in_use(&self) -> Vec<UniqueVolumeName> {
        let desired = self.desired.volumes().filter(|(name, users)| {
            !self.draining
                && users.keys().any(|uid| self.desired.wanted(uid, name).is_some_and(|wanted| wanted.volume.attachable))
        });
        let actual = self.actual.volumes().filter(|(_, volume)| volume.attachable);
        let names: BTreeSet<&VolumeId> = desired.map(|(name, _)| name).chain(actual.map(|(name, _)| name)).collect();
        names.into_iter().map(|name| name.name().clone()).collect()
    }

    /// The pod's volumes that are mounted for certain.
    pub fn mounted_volumes_of(&self, uid: &PodUid) -> Vec<VolumeView> {
        self.mounts_of(uid, Mount::is_usable)
    }

    /// The pod's volumes that are mounted, may be, or are being mounted: while there is one, the
    /// pod's folder has to stay.
    pub fn possibly_mounted_volumes_of(&self, uid: &PodUid) -> Vec<VolumeView> {
        self.mounts_of(uid, |_| true)
    }

    fn mounts_of(&self, uid: &PodUid, chosen: impl Fn(&Mount) -> bool) -> Vec<VolumeView> {
        let Some(uid) = self.pod_names.get(uid) else { return Vec::new() };
        let names = self.actual.volumes_of(uid).filter(|name| self.actual.mount(name, uid).is_some_and(&chosen));
        names.flat_map(|name| self.volume_views(uid, name, self.wanted(uid, name))).collect()
    }

    /// The volumes that are attached for certain and have no operation running, by plugin: what is
    /// to be verified from time to time.
    pub fn attached_volumes(&self) -> BTreeMap<PluginName, Vec<UniqueVolumeName>> {
        let mut attached: BTreeMap<PluginName, Vec<UniqueVolumeName>> = BTreeMap::new();
        for (name, volume) in self.actual.volumes() {
            if volume.attachable && volume.attach.is_present() && self.pending.running_on(name).next().is_none() {
                attached.entry(volume.plugin.clone()).or_default().push(name.name().clone());
            }
        }
        attached.values_mut().for_each(|names| names.sort_unstable());
        attached
    }

    /// Whether the host attaches every volume itself, so that no controller has anything to say.
    pub fn has_no_controller(&self) -> bool {
        self.attaching.has_no_controller()
    }

    /// Whether the volume is attached to this node for certain, or needs no attachment and is in
    /// use.
    pub fn volume_is_attached(&self, name: &UniqueVolumeName) -> bool {
        let known = self.volume_names.get(name).and_then(|name| self.actual.get(name));
        known.is_some_and(|volume| !volume.attachable || volume.attach.is_present())
    }

    /// [`Core::volumes_in_use`] is complete: of no volume that recovery found is it unknown whether
    /// it is attached.
    pub fn states_synced(&self) -> bool {
        let unknown = |volume: &ActualVolume| {
            volume.attachable && volume.attach.is_recovered() && !self.attaching.by_host(&volume.plugin)
        };
        self.has_no_controller() || !self.actual.volumes().any(|(_, volume)| unknown(volume))
    }

    /// A pod that exists and of which a source can say no more, as it is wanted: nothing new, and
    /// nothing of it unmounted (rule R2).
    pub fn unreadable_pod(&self, uid: &PodUid, why: String) -> DesiredPod {
        let known = self.pod_names.get(uid).and_then(|uid| self.pod_object(uid));
        let known = known.unwrap_or_else(|| Arc::new(Pod::unknown(uid.clone())));
        let names = known.used_volumes.iter().cloned();
        let mut unresolved: Vec<UnresolvedVolume> =
            names.map(|outer_name| UnresolvedVolume::new(outer_name, why.clone())).collect();
        if let (true, Ok(outer_name)) = (unresolved.is_empty(), OuterName::new("unknown")) {
            unresolved.push(UnresolvedVolume::new(outer_name, why));
        }
        DesiredPod { pod: known, volumes: Vec::new(), unresolved }
    }

    /// Whether the host drains: every volume is being unmounted.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Every source of pods has been read completely once.
    pub fn sources_synced(&self) -> bool {
        self.sources_synced
    }

    /// The groups that the pod's mounted PersistentVolumes ask for and that it does not have
    /// already; sorted, each once.
    pub fn extra_supplemental_groups(&self, uid: &PodUid) -> Vec<i64> {
        let Some(uid) = self.pod_names.get(uid) else { return Vec::new() };
        let entry = self.desired.pod(uid);
        let own = entry
            .and_then(|entry| entry.pod.as_ref())
            .map(|pod| pod.supplemental_groups.as_slice())
            .unwrap_or_default();
        let mounts = self.actual.volumes_of(uid).filter_map(|name| self.actual.mount(name, uid));
        let groups: BTreeSet<i64> = mounts
            .filter(|mount| mount.is_usable())
            .filter_map(|mount| mount.spec.as_ref()?.persistent_volume.as_ref()?.gid)
            .filter(|gid| !own.contains(gid))
            .collect();
        groups.into_iter().collect()
    }

    /// Counts the volumes of each plugin that exist or are wanted: while there is one, the plugin is
    /// needed. A plugin without volumes is left out.
    pub fn volumes_by_plugin(&self) -> BTreeMap<PluginName, u32> {
        let mut counts: BTreeMap<&PluginName, u32> = BTreeMap::new();
        let mut count = |plugin| *counts.entry(plugin).or_default() += 1;
        self.actual.volumes().for_each(|(_, volume)| count(&volume.plugin));
        for (name, users) in self.desired.volumes() {
            let existing = self.actual.get(name).map(|volume| &volume.plugin);
            let wanted = users.keys().filter_map(|uid| self.wanted(uid, name)).map(|wanted| &wanted.volume.plugin);
            let plugins: BTreeSet<&PluginName> = wanted.filter(|plugin| Some(*plugin) != existing).collect();
            plugins.into_iter().for_each(&mut count);
        }
        counts.into_iter().map(|(plugin, volumes)| (plugin.clone(), volumes)).collect()
    }
}

/// The pod's path to the mount, below the root folder, as the kubelet lays it out.
fn path_of(uid: &PodId, plugin: &PluginName, mount: &Mount) -> String {
    if !mount.state.may_exist() {
        return String::new();
    }
    let folder = if mount.block { "volumeDevices" } else { "volumes" };
    let path = format!("pods/{uid}/{folder}/{}/{}", plugin.escaped(), mount.spec_name);
    match csi_layout::mount_in_folder(plugin) {
        Some(inner) if !mount.block && !mount.at_folder => format!("{path}/{inner}"),
        _ => path,
    }
}

/// One use by a container. A part of the volume has a path once it was prepared.
fn container_mount_view(uid: &PodId, volume: &str, mount: Option<&Mount>, one: &ContainerMount) -> ContainerMountView {
    let ready = mount.filter(|mount| mount.is_usable());
    let path = match ready {
        Some(_) if one.sub_path.is_none() => volume.to_owned(),
        Some(mount) if mount.container_mounts.contains(one) => {
            format!("pods/{uid}/{}", one.sub_path_place(&mount.spec_name))
        }
        _ => String::new(),
    };
    ContainerMountView {
        container: one.container.clone(),
        index: one.index,
        mount_path: one.mount_path.clone(),
        sub_path: one.sub_path.clone(),
        path,
        read_only: one.read_only || mount.and_then(|mount| mount.spec.as_ref()).is_some_and(|spec| spec.read_only),
        recursive_read_only: one.recursive_read_only != RecursiveReadOnly::Disabled,
        propagation: one.propagation.name().to_owned(),
    }
}

/// Returns the reasons why the pod's volumes are not resolved, or not worked on.
fn errors_of(entry: &PodEntry) -> Vec<String> {
    let error = |name: &OuterName, why: &str| format!("volume \"{name}\": {why}");
    let blocked =
        entry.volumes.values().filter_map(|wanted| Some(error(wanted.outer_names.first()?, blocked(wanted)?)));
    entry.unresolved.iter().map(|(name, why)| error(name, &why.reason)).chain(blocked).collect()
}

/// Returns the reason why the volume is not worked on until a user acts.
fn blocked(wanted: &VolumeEntry) -> Option<&str> {
    wanted.volume.blocked.as_deref().filter(|_| !wanted.volume.is_pending)
}

fn unresolved(why: &str) -> Failure {
    Failure::new(FailureClass::Transient, "resolve", why)
}

fn claim_of(spec: Option<&Arc<VolumeSpec>>) -> String {
    spec.and_then(|spec| spec.persistent_volume.as_ref()).map(|pv| pv.claim.clone()).unwrap_or_default()
}

fn label_of(spec: Option<&Arc<VolumeSpec>>) -> String {
    spec.and_then(|spec| spec.selinux_label.clone()).unwrap_or_default()
}

fn empty_view(state: VolumeState) -> VolumeView {
    VolumeView {
        name: String::new(),
        spec_name: String::new(),
        unique_name: String::new(),
        plugin: String::new(),
        pod: String::new(),
        pod_uid: String::new(),
        state,
        path: String::new(),
        claim: String::new(),
        read_only: false,
        since: 0,
        ready_at: None,
        failure: None,
        retry_at: None,
        failures: 0,
        usage: None,
        attached_by: String::new(),
        attached_as: String::new(),
        attached_elsewhere: String::new(),
        selinux_label: String::new(),
        container_mounts: Vec::new(),
        made_of: Vec::new(),
        pending_edit: String::new(),
        size: None,
        refused_size: None,
    }
}
