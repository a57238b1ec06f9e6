//! The rungs that a volume goes up on a node, and down again.

use std::sync::Arc;

use volhost_model::VolumeSpec;
use volhost_runtime::{Capability, Identified, Plugin};

/// One step of a volume towards its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rung {
    /// Attached to the node.
    Attach,
    /// Mounted for the node.
    Node,
    /// Set up for the pod.
    Pod,
    /// Made ready for the node as a device.
    Device,
    /// Mapped for the pod.
    PodDevice,
}

impl Rung {
    /// The function that takes the volume up to it.
    pub(crate) const fn up(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Node => "stage",
            Self::Pod => "publish",
            Self::Device => "stage-device",
            Self::PodDevice => "map-device",
        }
    }

    /// The function that takes the volume down from it.
    pub(crate) const fn down(self) -> &'static str {
        match self {
            Self::Attach => "detach",
            Self::Node => "unstage",
            Self::Pod => "unpublish",
            Self::Device => "unstage-device",
            Self::PodDevice => "unmap-device",
        }
    }

    /// Only for a volume that is handed over as a device.
    pub(crate) const fn is_block(self) -> bool {
        matches!(self, Self::Device | Self::PodDevice)
    }
}

/// A volume and its way up.
#[derive(Debug, Clone)]
pub(crate) struct Ladder {
    pub(crate) spec: Arc<VolumeSpec>,
    /// The plugin's own name for it; empty when it has none.
    pub(crate) name: String,
    pub(crate) rungs: Vec<Rung>,
}

impl Ladder {
    /// The way up of a volume that the plugin has identified so.
    pub(crate) fn new(plugin: &Plugin, spec: Arc<VolumeSpec>, identified: &Identified) -> Self {
        let can = |capability| plugin.exports(capability);
        let mut rungs = Vec::new();
        if can(Capability::Attacher) && identified.attachable.unwrap_or(true) {
            rungs.push(Rung::Attach);
        }
        if spec.is_block() {
            rungs.extend([Rung::Device, Rung::PodDevice]);
        } else {
            if can(Capability::Stager) && identified.stageable.unwrap_or(true) {
                rungs.push(Rung::Node);
            }
            rungs.push(Rung::Pod);
        }
        Self { spec, name: identified.name.clone().unwrap_or_default(), rungs }
    }

    /// The rungs below this one, from the ground.
    pub(crate) fn below(&self, rung: Rung) -> impl Iterator<Item = Rung> + '_ {
        self.rungs.iter().copied().take_while(move |other| *other != rung)
    }

    pub(crate) fn has(&self, rung: Rung) -> bool {
        self.rungs.contains(&rung)
    }
}
