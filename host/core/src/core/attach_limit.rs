//! How many volumes of a plugin may be attached to the node at once.

use volhost_model::names::PluginName;

use super::{Core, Turn};
use crate::actual::ActualVolume;
use crate::blocked::AttachLimitReached;
use crate::command::OperationKind;
use crate::desired::VolumeEntry;
use crate::event::{DesiredVolume, NamedLimit};
use crate::identity::VolumeId;

/// How many attached volumes a message names.
const NAMED: usize = 5;

impl Core {
    /// Returns the limit that keeps the volume from being attached: of its plugin, or of the
    /// volumes whose names begin like its own. A volume that may be attached counts (rule R1).
    pub(super) fn attach_limit_reached(&self, name: &VolumeId, wanted: &VolumeEntry) -> Option<AttachLimitReached> {
        if self.actual.get(name).is_some_and(|volume| self.counts_as_attached(name, volume)) {
            return None;
        }
        let DesiredVolume { plugin, attach_limit, attach_limit_of, .. } = &wanted.volume;
        let of_plugin = attach_limit.map(|limit| (limit, ""));
        let of_names = attach_limit_of.as_ref().map(|NamedLimit { names, limit }| (*limit, names.as_str()));
        of_names.into_iter().chain(of_plugin).find_map(|(limit, names)| {
            let mut volumes: Vec<&VolumeId> = self.attached_of(plugin, names).collect();
            volumes.sort_unstable();
            let attached = u32::try_from(volumes.len()).unwrap_or(u32::MAX);
            (attached >= limit).then(|| AttachLimitReached {
                plugin: plugin.clone(),
                names: names.to_owned(),
                limit,
                attached,
                first: volumes.into_iter().take(NAMED).map(|volume| volume.name().clone()).collect(),
            })
        })
    }

    /// A volume has left the node, or never came: those that waited for a place are looked at.
    pub(super) fn attach_place_is_free(&mut self, turn: &mut Turn) {
        turn.dirty.append(&mut self.waiting_for_place);
    }

    /// The attached volumes of the plugin whose own names begin so.
    fn attached_of<'a>(&'a self, plugin: &'a PluginName, names: &'a str) -> impl Iterator<Item = &'a VolumeId> {
        let of_plugin = self.actual.volumes().filter(move |(_, volume)| volume.plugin == *plugin);
        let begins = move |name: &VolumeId| {
            let own = name.name().as_str().strip_prefix(plugin.as_str()).and_then(|own| own.strip_prefix('/'));
            own.is_some_and(|own| own.starts_with(names))
        };
        let alike = of_plugin.filter(move |(name, _)| names.is_empty() || begins(name));
        alike.filter(|(name, volume)| self.counts_as_attached(name, volume)).map(|(name, _)| name)
    }

    fn counts_as_attached(&self, name: &VolumeId, volume: &ActualVolume) -> bool {
        let attaching = || self.pending.running_on(name).any(|running| running.operation.kind == OperationKind::Attach);
        volume.attach.may_exist() || attaching()
    }
}
