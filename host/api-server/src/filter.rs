//! Which objects a list request means.

use std::collections::BTreeMap;

use tonic::Status;
use volhost_model::label_selector::LabelSelector;
use volhost_model::view::{
    ClaimView, DriverView, EventView, OperationView, PersistentVolumeView, PluginView, PodView, VolumeView,
};

use volhost_api::pb;
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::{RequestError, Snapshot};

/// The selection of a list request. Empty fields select everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    namespace: String,
    name: String,
    labels: LabelSelector,
}

impl TryFrom<pb::ListRequest> for Filter {
    type Error = Status;

    /// # Errors
    /// `INVALID_ARGUMENT` when the label selector is none.
    fn try_from(request: pb::ListRequest) -> Result<Self, Status> {
        let labels = request.label_selector.parse();
        let labels = labels.map_err(|error| Status::invalid_argument(format!("label_selector: {error}")))?;
        Ok(Self { namespace: request.namespace, name: request.name, labels })
    }
}

impl Filter {
    /// Reads the selection of objects that have no labels.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when it selects by labels: it would always be empty.
    pub(super) fn without_labels(request: pb::ListRequest, kind: &str) -> Result<Self, Status> {
        let filter = Self::try_from(request)?;
        match filter.labels.selects_all() {
            true => Ok(filter),
            false => Err(Status::invalid_argument(format!(
                "label_selector: {kind} have no labels; pods, volumes, operations, claims and PersistentVolumes have"
            ))),
        }
    }

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
        self.selects_namespace(&pod.namespace) && (self.name.is_empty() || named()) && self.labels.matches(&pod.labels)
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
        let pods = snapshot.pods.into_iter().filter(|pod| self.labels.matches(&pod.labels));
        let unused = snapshot.unused_volumes.into_iter().filter(|_| self.labels.matches(&BTreeMap::new()));
        pods.flat_map(|pod| pod.volumes).chain(unused).filter(|volume| self.volume(volume))
    }

    /// The node's operations that are selected: by labels, those of pods that have the labels.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub(super) async fn operations(&self, node: &NodeHandle) -> Result<Vec<OperationView>, RequestError> {
        let mut operations = node.operations().await?;
        operations.retain(|operation| self.operation(operation));
        if !self.labels.selects_all() {
            // An operation names its pod as it is known: by its name, or by its uid alone.
            let pods = node.snapshot().await?.pods.into_iter();
            let labels: BTreeMap<String, BTreeMap<String, String>> = pods
                .flat_map(|pod| {
                    [(format!("{}/{}", pod.namespace, pod.name), pod.labels.clone()), (pod.uid, pod.labels)]
                })
                .collect();
            let none = BTreeMap::new();
            operations.retain(|operation| self.labels.matches(labels.get(&operation.pod).unwrap_or(&none)));
        }
        Ok(operations)
    }

    /// The selected drivers.
    pub(super) fn drivers(&self, drivers: Vec<DriverView>) -> impl Iterator<Item = DriverView> {
        drivers.into_iter().filter(|driver| self.name.is_empty() || self.name == driver.name)
    }

    /// The selected claims.
    pub(super) fn claims(&self, claims: Vec<ClaimView>) -> impl Iterator<Item = ClaimView> {
        claims.into_iter().filter(|claim| {
            let named = || match self.name.split_once('/') {
                Some((namespace, name)) => claim.namespace == namespace && claim.name == name,
                None => claim.name == self.name,
            };
            self.selects_namespace(&claim.namespace)
                && (self.name.is_empty() || named())
                && self.labels.matches(&claim.labels)
        })
    }

    /// The selected PersistentVolumes.
    pub(super) fn persistent_volumes(
        &self,
        volumes: Vec<PersistentVolumeView>,
    ) -> impl Iterator<Item = PersistentVolumeView> {
        volumes
            .into_iter()
            .filter(|volume| (self.name.is_empty() || self.name == volume.name) && self.labels.matches(&volume.labels))
    }

    /// The selected plugins.
    pub(super) fn plugins(&self, plugins: Vec<PluginView>) -> impl Iterator<Item = PluginView> {
        plugins.into_iter().filter(|plugin| self.plugin(plugin))
    }
}

/// Whether the event is about this object, or about a part of it (`pod default/web volume data`
/// belongs to `pod default/web`).
pub(super) fn event_is_about(event: &EventView, object: &str) -> bool {
    object.is_empty() || event.object.strip_prefix(object).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
