//! The lists of a node that explanations are made of.

use volhost_model::view::{
    ClaimView, OperationView, PersistentVolumeView, PluginView, PodView, VolumeState, VolumeView,
};

use super::sentences::{Facts, explanation};

/// Everything that explanations are made of.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// All claims.
    pub claims: Vec<ClaimView>,
    /// All PersistentVolumes.
    pub persistent_volumes: Vec<PersistentVolumeView>,
    /// All plugins.
    pub plugins: Vec<PluginView>,
    /// The operations that run or wait.
    pub operations: Vec<OperationView>,
    /// The node is drained.
    pub is_drained: bool,
}

impl NodeFacts {
    /// The chain for a volume, a sentence each. `now_us` is the time in microseconds since the Unix
    /// epoch.
    pub fn of_volume(&self, volume: &VolumeView, now_us: u64) -> Vec<String> {
        let claim = self.claims.iter().find(|claim| format!("{}/{}", claim.namespace, claim.name) == volume.claim);
        let persistent_volume =
            claim.and_then(|claim| self.persistent_volumes.iter().find(|pv| pv.name == claim.volume));
        // Of a volume that pods share, those of this pod and those of the volume alone.
        let is_ours = |one: &&OperationView| {
            one.running && one.volume == volume.unique_name && (one.pod.is_empty() || one.pod == volume.pod)
        };
        explanation(&Facts {
            volume,
            claim,
            persistent_volume,
            plugins: &self.plugins,
            running: self.operations.iter().find(is_ours).filter(|_| !volume.unique_name.is_empty()),
            is_drained: self.is_drained,
            now_us,
        })
    }

    /// The volumes of a pod that are not ready, or have a failure.
    pub fn waiting_volumes(pod: &PodView) -> impl Iterator<Item = &VolumeView> {
        pod.volumes.iter().filter(|volume| volume.state != VolumeState::Mounted || volume.failure.is_some())
    }
}
