//! What a restart finds.

use std::collections::BTreeSet;

use volhost_core::{RecoveredDevice, RecoveredVolume};

/// The volumes that exist on the node at the start, or may exist.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Volumes that are published, or may be.
    pub volumes: Vec<RecoveredVolume>,
    /// Volumes that are attached or staged, or may be.
    pub devices: Vec<RecoveredDevice>,
    /// The digests of the plugins that brought them up: their compiled code is still needed.
    pub digests: BTreeSet<String>,
    /// What could not be read or was not made by the host, and stays as it is: `(what, why)`.
    pub problems: Vec<(String, String)>,
}

impl Recovery {
    /// Adds what another part of the scan has found.
    pub(super) fn add(&mut self, other: Self) {
        self.volumes.extend(other.volumes);
        self.devices.extend(other.devices);
        self.digests.extend(other.digests);
        self.problems.extend(other.problems);
    }
}
