//! How many volumes of a plugin may be attached to the node at once.

use volhost_model::names::{PluginName, UniqueVolumeName};

use crate::actual::Volume;
use crate::command::OperationKind;
use crate::config::Mutation;
use crate::core::{Core, Turn};
use crate::desired::Wanted;

/// How many attached volumes a message names.
const NAMED: usize = 5;

impl Core {
    /// Why the volume is not attached now: as many of its plugin are as may be. One that may be attached counts (rule R1).
    pub(crate) fn attach_limit_reached(&self, name: &UniqueVolumeName, wanted: &Wanted) -> Option<String> {
        let limit = wanted.volume.attach_limit.filter(|_| !self.mutated(Mutation::IgnoreLimit))?;
        let plugin = &wanted.volume.plugin;
        if self.actual.get(name).is_some_and(|volume| self.counts_as_attached(name, volume)) {
            return None;
        }
        let attached: Vec<&UniqueVolumeName> = self.attached_of(plugin).collect();
        let count = u32::try_from(attached.len()).unwrap_or(u32::MAX);
        if count < limit {
            return None;
        }
        let mut named: Vec<&str> = attached.iter().take(NAMED).map(|name| name.as_str()).collect();
        if attached.len() > NAMED {
            named.push("...");
        }
        let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        Some(format!(
            "plugin {plugin} may have {limit} volumes attached to this node and has {count}{named}; it waits until one is detached"
        ))
    }

    /// A volume has left the node, or never came: those that waited for a place are looked at.
    pub(crate) fn attach_place_is_free(&mut self, turn: &mut Turn) {
        if !self.mutated(Mutation::ForgetPlace) {
            turn.dirty.append(&mut self.waiting_for_place);
        }
    }

    fn attached_of<'a>(&'a self, plugin: &'a PluginName) -> impl Iterator<Item = &'a UniqueVolumeName> {
        let of_plugin = self.actual.volumes().filter(move |(_, volume)| volume.plugin == *plugin);
        of_plugin.filter(|(name, volume)| self.counts_as_attached(name, volume)).map(|(name, _)| name)
    }

    fn counts_as_attached(&self, name: &UniqueVolumeName, volume: &Volume) -> bool {
        let attaching = || self.pending.running_on(name).any(|running| running.operation.kind == OperationKind::Attach);
        volume.attach.may_be() || attaching()
    }
}
