//! Keeps what is mounted, staged or attached with the plugin that did it (rule R2).
//!
//! A source can resolve a volume to another plugin than before: the plugin's file is missing for a
//! moment, or another plugin serves the same source. Then the pod wants what the node already has
//! of the volume, and nothing else: the volume keeps its unique name and its plugin, no operation
//! is started for it, and users get an event.

use std::sync::Arc;

use volhost_model::VolumeSpec;
use volhost_model::names::{OuterName, PluginName, UniqueVolumeName};

use super::Core;
use crate::actual::{ActualVolume, Mount};
use crate::compare::{is_same_volume, same_mount};
use crate::event::{DesiredPod, DesiredVolume, UnresolvedVolume};
use crate::identity::{PodId, VolumeId};

/// The volume on the node that a pod wants.
struct OwnedVolume<'a> {
    name: &'a VolumeId,
    volume: &'a ActualVolume,
    /// The pod's own mount, if it has one.
    mount: Option<&'a Mount>,
}

impl Core {
    /// Replaces each volume that resolves to another plugin or name than the one that the node
    /// already has by the latter.
    pub(super) fn keep_owners(&self, uid: &PodId, desired: &mut DesiredPod) {
        for volume in &mut desired.volumes {
            self.keep_folder(uid, volume);
            if let Some(owned) = self.owned(uid, &volume.spec, Some(volume)) {
                *volume = owned.kept_instead_of(volume);
            }
        }
        // Of two names of one volume, the one that it was mounted under says what it is.
        desired.volumes.sort_by_cached_key(|volume| !self.is_mounted_with(uid, volume));
        let mut kept = Vec::new();
        desired.unresolved.retain(|unresolved| {
            let known = unresolved.spec.as_ref();
            let volume = known.and_then(|spec| Some(self.owned(uid, spec, None)?.kept_unresolved(unresolved, spec)));
            let is_unknown = volume.is_none();
            kept.extend(volume);
            is_unknown
        });
        desired.volumes.append(&mut kept);
    }

    /// An inline volume that two names of the pod lead to stays in the folder in which it was
    /// mounted.
    fn keep_folder(&self, uid: &PodId, volume: &mut DesiredVolume) {
        let Some(mount) = self.mount_under(uid, &volume.unique_name).filter(|mount| mount.state.may_exist()) else {
            return;
        };
        let same = |made: &Arc<VolumeSpec>| {
            volume.spec.persistent_volume.is_none()
                && made.source == volume.spec.source
                && made.fields == volume.spec.fields
        };
        if mount.spec_name != volume.spec.name && mount.spec.as_ref().is_some_and(same) {
            Arc::make_mut(&mut volume.spec).name = mount.spec_name.clone();
        }
    }

    /// The pod's mount of the volume of this name.
    fn mount_under(&self, uid: &PodId, name: &UniqueVolumeName) -> Option<&Mount> {
        // Most pods that are reported are new, and have none.
        let known = || self.volume_names.get(name);
        self.actual.mount(self.actual.has_mounts_of(uid).then(known)??, uid)
    }

    fn is_mounted_with(&self, uid: &PodId, volume: &DesiredVolume) -> bool {
        let mount = self.mount_under(uid, &volume.unique_name).filter(|mount| mount.state.may_exist());
        mount.and_then(|mount| mount.spec.as_ref()).is_some_and(|spec| same_mount(spec, &volume.spec))
    }

    /// Returns the volume on the node that has another name or plugin than the one that it is
    /// resolved to.
    fn owned(&self, uid: &PodId, spec: &Arc<VolumeSpec>, resolved: Option<&DesiredVolume>) -> Option<OwnedVolume<'_>> {
        let is_itself = |name: &VolumeId| resolved.is_some_and(|resolved| resolved.unique_name == *name.name());
        if resolved.is_some_and(|resolved| self.mount_under(uid, &resolved.unique_name).is_some()) {
            return None;
        }
        let own = self.actual.volumes_of(uid).filter(|name| !is_itself(name)).find_map(|name| {
            let volume = self.actual.get(name)?;
            let mount = volume.mounts.get(uid).map(Box::as_ref)?;
            let same = match &mount.spec {
                Some(made) => is_same_volume(made, spec),
                // Without a record, the folder's name decides, unless its own plugin says
                // otherwise.
                None => {
                    mount.spec_name == spec.name && resolved.is_none_or(|resolved| resolved.plugin != volume.plugin)
                }
            };
            (same && mount.state.may_exist() && !mount.leaving).then_some(OwnedVolume {
                name,
                volume,
                mount: Some(mount),
            })
        });
        own.or_else(|| {
            let of_other = |name: &VolumeId, volume: &ActualVolume| {
                !is_itself(name)
                    && resolved.is_none_or(|resolved| resolved.plugin != volume.plugin)
                    && (volume.attach.may_exist() || volume.device.may_exist() || !volume.mounts.is_empty())
            };
            let mut shared = self.actual.with_source(spec);
            let found = shared.find(|(name, volume)| of_other(name, volume));
            found.map(|(name, volume)| OwnedVolume { name, volume, mount: None })
        })
    }
}

impl OwnedVolume<'_> {
    /// The volume as the node has it, where a source now resolves it otherwise.
    fn kept_instead_of(&self, resolved: &DesiredVolume) -> DesiredVolume {
        let same_plugin = resolved.plugin == self.volume.plugin;
        let blocked = (!same_plugin).then(|| {
            format!(
                "plugin {} mounted it and does not serve it now, and plugin {} does not take it over; what is mounted stays, until plugin {} serves it again or the pod is deleted",
                self.volume.plugin, resolved.plugin, self.volume.plugin
            )
        });
        let spec = self.spec(&resolved.spec);
        DesiredVolume {
            declared: Some(Arc::clone(&resolved.spec)).filter(|_| same_plugin),
            follows_source: resolved.follows_source && same_plugin,
            expandable: resolved.expandable && same_plugin,
            container_mounts: Arc::clone(&resolved.container_mounts),
            ..self.kept(resolved.outer_name.clone(), spec, blocked)
        }
    }

    /// The volume as the node has it, where its plugin cannot be asked.
    fn kept_unresolved(&self, unresolved: &UnresolvedVolume, spec: &Arc<VolumeSpec>) -> DesiredVolume {
        let blocked = not_asked(&self.volume.plugin, &unresolved.reason);
        let kept = self.kept(unresolved.outer_name.clone(), self.spec(spec), Some(blocked));
        DesiredVolume { is_pending: unresolved.is_pending, ..kept }
    }

    fn kept(&self, outer_name: OuterName, spec: Arc<VolumeSpec>, blocked: Option<String>) -> DesiredVolume {
        let mount = self.mount;
        DesiredVolume {
            outer_name,
            unique_name: self.name.name().clone(),
            plugin: self.volume.plugin.clone(),
            spec,
            attachable: self.volume.attachable,
            stageable: self.volume.stageable,
            follows_source: false,
            expandable: false,
            attach_limit: None,
            attach_limit_of: None,
            refreshed: false,
            container_mounts: mount.map(|mount| Arc::clone(&mount.container_mounts)).unwrap_or_default(),
            needs: mount.map(|mount| Arc::clone(&mount.needs)).unwrap_or_default(),
            blocked,
            is_pending: false,
            declared: None,
        }
    }

    /// Returns the spec with which it was mounted, at the size that is wanted now.
    fn spec(&self, now: &Arc<VolumeSpec>) -> Arc<VolumeSpec> {
        let Some(made) = self.mount.and_then(|mount| mount.spec.as_ref()) else { return Arc::clone(now) };
        let mut spec = Arc::clone(made);
        let capacity = now.persistent_volume.as_ref().and_then(|now| now.capacity);
        if spec.persistent_volume.as_ref().is_some_and(|made| made.capacity != capacity)
            && let Some(made) = &mut Arc::make_mut(&mut spec).persistent_volume
        {
            made.capacity = capacity;
        }
        spec
    }
}

fn not_asked(plugin: &PluginName, reason: &str) -> String {
    format!("{reason}; what plugin {plugin} mounted stays as it is")
}
