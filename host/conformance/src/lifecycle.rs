//! The steps that bring one volume up on a node.

use std::sync::Arc;

use volhost_model::VolumeSpec;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_runtime::{Capability, Identified, Plugin};
use volhost_volume_ops::node_folders::VolumeRef;

use crate::verdict::{Verdict, fail};

/// One step of a volume towards its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifecycleStep {
    /// Attach to the node.
    Attach,
    /// Stage on the node.
    Stage,
    /// Publish for the pod.
    Publish,
    /// Stage as a device.
    StageDevice,
    /// Map the device for the pod.
    MapDevice,
}

impl LifecycleStep {
    /// Returns the function that takes the step.
    pub(crate) const fn up(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Stage => "stage",
            Self::Publish => "publish",
            Self::StageDevice => "stage-device",
            Self::MapDevice => "map-device",
        }
    }

    /// Returns the function that undoes the step.
    pub(crate) const fn down(self) -> &'static str {
        match self {
            Self::Attach => "detach",
            Self::Stage => "unstage",
            Self::Publish => "unpublish",
            Self::StageDevice => "unstage-device",
            Self::MapDevice => "unmap-device",
        }
    }

    /// Returns whether only volumes that are used as devices take the step.
    pub(crate) const fn is_block(self) -> bool {
        matches!(self, Self::StageDevice | Self::MapDevice)
    }
}

/// A volume and its steps.
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    pub(crate) spec: Arc<VolumeSpec>,
    /// The plugin's own name for the volume; empty when it has none.
    pub(crate) name: String,
    pub(crate) steps: Vec<LifecycleStep>,
    plugin: PluginName,
    unique_name: UniqueVolumeName,
}

impl Lifecycle {
    /// Creates the lifecycle of a volume that the plugin identified.
    pub(crate) fn new(plugin: &Plugin, spec: Arc<VolumeSpec>, identified: &Identified) -> Verdict<Self> {
        let can = |capability| plugin.exports(capability);
        let mut steps = Vec::new();
        if can(Capability::Attacher) && identified.attachable.unwrap_or(true) {
            steps.push(LifecycleStep::Attach);
        }
        if spec.is_block() {
            steps.extend([LifecycleStep::StageDevice, LifecycleStep::MapDevice]);
        } else {
            if can(Capability::Stager) && identified.stageable.unwrap_or(true) {
                steps.push(LifecycleStep::Stage);
            }
            steps.push(LifecycleStep::Publish);
        }
        let plugin = plugin.info().name.clone();
        let named = identified.name.as_deref().unwrap_or(spec.name.as_str());
        let unique_name = UniqueVolumeName::shared(&plugin, named)
            .or_else(|error| fail("identify of the volume", "a name for it", error.to_string()))?;
        Ok(Self { spec, name: identified.name.clone().unwrap_or_default(), steps, plugin, unique_name })
    }

    /// Returns the volume as the host's folders name it.
    pub(crate) fn volume(&self) -> VolumeRef<'_> {
        VolumeRef {
            plugin: &self.plugin,
            volume: &self.unique_name,
            spec_name: &self.spec.name,
            is_staged: self.has(LifecycleStep::Stage),
        }
    }

    /// Returns the plugin's own name for the volume; none when it has none.
    pub(crate) fn own_name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the steps before this one, the first one first.
    pub(crate) fn below(&self, step: LifecycleStep) -> impl Iterator<Item = LifecycleStep> + '_ {
        self.steps.iter().copied().take_while(move |other| *other != step)
    }

    pub(crate) fn has(&self, step: LifecycleStep) -> bool {
        self.steps.contains(&step)
    }
}
