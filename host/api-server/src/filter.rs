//! Which objects a list request means.

use volhost_model::view::{
    ClaimView, DriverView, EventView, OperationView, PersistentVolumeView, PluginView, PodView, VolumeView,
};

use volhost_api::pb;
use volhost_node::event_loop::requests::Snapshot;

/// The selection of a list request. Empty fields select everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    namespace: String,
    name: String,
}

impl From<pb::ListRequest> for Filter {
    fn from(request: pb::ListRequest) -> Self {
        Self { namespace: request.namespace, name: request.name }
    }
}

impl Filter {
    fn selects_namespace(&self, namespace: &str) -> bool {
        self.namespace.is_empty() || self.namespace == namespace
    }

    /// The namespace of `namespace/name`. A pod of which only the uid is known has none.
    fn namespace_of(pod: &str) -> &str {
        pod.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    fn pod(&self, pod: &PodView) -> bool {
        let named = || match self.name.split_once('/') {
            Some((namespace, name)) => pod.namespace == namespace && pod.name == name,
            None => pod.name == self.name || pod.uid == self.name,
        };
        self.selects_namespace(&pod.namespace) && (self.name.is_empty() || named())
    }

    fn volume(&self, volume: &VolumeView) -> bool {
        let named = || {
            let full = self.name.strip_prefix(&volume.pod).and_then(|rest| rest.strip_prefix('/'));
            self.name == volume.unique_name
                || self.name == volume.name
                || self.name == volume.spec_name
                || (!volume.pod.is_empty() && full.is_some_and(|rest| rest == volume.name || rest == volume.spec_name))
        };
        self.selects_namespace(Self::namespace_of(&volume.pod)) && (self.name.is_empty() || named())
    }

    fn operation(&self, operation: &OperationView) -> bool {
        self.selects_namespace(Self::namespace_of(&operation.pod))
            && (self.name.is_empty() || self.name == operation.volume || self.name == operation.name)
    }

    fn plugin(&self, plugin: &PluginView) -> bool {
        self.name.is_empty() || self.name == plugin.name
    }

    /// The selected pods.
    pub(super) fn pods(&self, snapshot: Snapshot) -> impl Iterator<Item = PodView> {
        snapshot.pods.into_iter().filter(|pod| self.pod(pod))
    }

    /// The selected volumes: those of pods, then those that no pod uses.
    pub(super) fn volumes(&self, snapshot: Snapshot) -> impl Iterator<Item = VolumeView> {
        let of_pods = snapshot.pods.into_iter().flat_map(|pod| pod.volumes);
        of_pods.chain(snapshot.unused_volumes).filter(|volume| self.volume(volume))
    }

    /// The selected operations.
    pub(super) fn operations(&self, snapshot: Snapshot) -> impl Iterator<Item = OperationView> {
        snapshot.operations.into_iter().filter(|operation| self.operation(operation))
    }

    /// The selected drivers.
    pub(super) fn drivers(&self, snapshot: Snapshot) -> impl Iterator<Item = DriverView> {
        snapshot.drivers.into_iter().filter(|driver| self.name.is_empty() || self.name == driver.name)
    }

    /// The selected claims.
    pub(super) fn claims(&self, claims: Vec<ClaimView>) -> impl Iterator<Item = ClaimView> {
        claims.into_iter().filter(|claim| {
            let named = || match self.name.split_once('/') {
                Some((namespace, name)) => claim.namespace == namespace && claim.name == name,
                None => claim.name == self.name,
            };
            self.selects_namespace(&claim.namespace) && (self.name.is_empty() || named())
        })
    }

    /// The selected PersistentVolumes.
    pub(super) fn persistent_volumes(
        &self,
        volumes: Vec<PersistentVolumeView>,
    ) -> impl Iterator<Item = PersistentVolumeView> {
        volumes.into_iter().filter(|volume| self.name.is_empty() || self.name == volume.name)
    }

    /// The selected plugins.
    pub(super) fn plugins(&self, snapshot: Snapshot) -> impl Iterator<Item = PluginView> {
        snapshot.plugins.into_iter().filter(|plugin| self.plugin(plugin))
    }
}

/// Whether the event is about this object, or about a part of it (`pod default/web volume data`
/// belongs to `pod default/web`).
pub(super) fn event_is_about(event: &EventView, object: &str) -> bool {
    object.is_empty() || event.object.strip_prefix(object).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
