//! CSIStorageCapacity objects, by which the scheduler knows where a volume has room, as
//! external-provisioner with `--enable-capacity` does.
//!
//! ```text
//!  classes, CSINodes, nodes, CSIDriver --survey--> places --GetCapacity--> one object each
//!                                        |
//!                                        '--> objects of places that are no more: deleted
//! ```
//!
//! A place is asked again when a volume there was made or has gone, and from time to time.
//!
//! # Guarantees
//! - A place has one object, whichever replica wrote it: its name follows from the place.
//! - An object goes with the CSIDriver object, which owns it.
//! - Labels are external-provisioner's: either takes over the other's objects.

mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource as _};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_cluster_client::quantity;
use volhost_proto::csi::GetCapacityRequest;

pub(crate) use place::Place;

use crate::caches::Caches;
use crate::driver::{Driver, said};
use crate::finalizers::FIELD_MANAGER;
use crate::queue::WorkQueue;
use crate::secrets::PREFIX;

/// The label with the driver's name.
pub(crate) const DRIVER_LABEL: &str = "csi.storage.k8s.io/drivername";
/// The label with the program that keeps the object.
pub(crate) const MANAGER_LABEL: &str = "csi.storage.k8s.io/managed-by";
/// Its value.
pub(crate) const MANAGER: &str = "external-provisioner";
/// The pause between two surveys: nodes change all the time.
const SURVEY_PAUSE: Duration = Duration::from_secs(1);

/// Publishes the driver's capacity.
pub(crate) struct Capacities {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    namespace: String,
    queue: Arc<WorkQueue<Place>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    places: BTreeSet<Place>,
    /// The objects of places, where the cluster has them.
    objects: BTreeMap<Place, String>,
}

impl Capacities {
    /// A publisher of objects in this namespace.
    pub(crate) fn new(
        client: Client,
        driver: Arc<Driver>,
        caches: Caches,
        namespace: String,
        queue: Arc<WorkQueue<Place>>,
    ) -> Self {
        Self { client, driver, caches, namespace, queue, known: Mutex::default() }
    }

    /// Keeps the places current until `stop` is cancelled, and asks for all of them every
    /// `interval`. `changed` is notified when what they follow from has changed.
    pub(crate) async fn survey(&self, changed: &Notify, interval: Duration, stop: &CancellationToken) {
        let mut asked = Instant::now();
        loop {
            self.update().await;
            if asked.elapsed() >= interval {
                asked = Instant::now();
                self.queue.add_known(|_| true);
            }
            let again = async {
                tokio::select! { () = changed.notified() => {}, () = sleep_until(asked + interval) => {} }
                tokio::time::sleep(SURVEY_PAUSE).await;
            };
            if stop.run_until_cancelled(again).await.is_none() {
                return;
            }
        }
    }

    /// Finds the places, queues new ones, and deletes the objects of those that are no more.
    async fn update(&self) {
        let places = place::all(&self.driver, &self.caches);
        let (mut objects, mut stale) = (BTreeMap::new(), Vec::new());
        for object in self.caches.capacities() {
            match (Place::of(&object).filter(|place| places.contains(place)), object.metadata.name.clone()) {
                (Some(place), Some(name)) if !objects.contains_key(&place) => drop(objects.insert(place, name)),
                _ => stale.push(object),
            }
        }
        let known = Known { places: places.clone(), objects: objects.clone() };
        let before = std::mem::replace(&mut *self.lock(), known).places;
        before.difference(&places).for_each(|place| self.queue.gone(place.clone()));
        // New ones, and those whose object was deleted by hand.
        let lacking = places.iter().filter(|place| !before.contains(*place) || !objects.contains_key(*place));
        lacking.for_each(|place| self.queue.changed(place.clone(), 0));
        for object in stale.iter().filter(|object| object.metadata.deletion_timestamp.is_none()) {
            self.delete(object).await;
        }
    }

    async fn delete(&self, object: &CSIStorageCapacity) {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions { uid: object.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api().delete(name, &parameters).await {
            Ok(_) => info!(object = name, class = object.storage_class_name, "a capacity is published no more"),
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
            // The next survey tries again.
            Err(error) => warn!(object = name, "a stale CSIStorageCapacity cannot be deleted: {error}"),
        }
    }

    /// Asks the driver for a place and publishes its answer. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, place: &Place) -> bool {
        let name = {
            let known = self.lock();
            if !known.places.contains(place) {
                return true;
            }
            known.objects.get(place).cloned().unwrap_or_else(|| place.object_name(self.driver.name()))
        };
        // The survey queues it again when they are there.
        let (Some(class), Some(owner)) = (self.caches.class(place.class()), self.caches.driver_object()) else {
            return true;
        };
        let parameters = class.parameters.clone().unwrap_or_default();
        let request = GetCapacityRequest {
            parameters: parameters.into_iter().filter(|(key, _)| !key.starts_with(PREFIX)).collect(),
            accessible_topology: Some(place.topology()),
            ..GetCapacityRequest::default()
        };
        let answer = match self.driver.client().get_capacity(self.driver.request(request)).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => {
                warn!(class = place.class(), segment = ?place.segment(), "{}", said("GetCapacity", &status));
                return false;
            }
        };
        let bytes = |size: i64| quantity::of_bytes(u64::try_from(size).unwrap_or_default());
        let (capacity, largest) = (bytes(answer.available_capacity), answer.maximum_volume_size.map(bytes));
        let is_shown = self.caches.capacity(&name).is_some_and(|object| {
            let owners = object.metadata.owner_references.iter().flatten();
            object.capacity.as_ref() == Some(&capacity)
                && object.maximum_volume_size == largest
                && owners.into_iter().any(|one| Some(&one.uid) == owner.metadata.uid.as_ref())
        });
        if is_shown {
            return true;
        }
        let mut object = json!({
            "apiVersion": CSIStorageCapacity::api_version(&()),
            "kind": CSIStorageCapacity::kind(&()),
            "metadata": {
                "name": name,
                "labels": { DRIVER_LABEL: self.driver.name(), MANAGER_LABEL: MANAGER },
                "ownerReferences": owner.owner_ref(&()).into_iter().collect::<Vec<_>>(),
            },
            "nodeTopology": { "matchLabels": place.segment() },
            "storageClassName": place.class(),
            "capacity": capacity,
        });
        if let (Some(largest), Some(object)) = (largest, object.as_object_mut()) {
            object.insert("maximumVolumeSize".to_owned(), json!(largest));
        }
        match self.api().patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object)).await {
            Ok(written) => {
                self.caches.wrote_capacity(written);
                true
            }
            Err(error) => {
                warn!(object = name, class = place.class(), "a CSIStorageCapacity cannot be written: {error}");
                false
            }
        }
    }

    fn api(&self) -> Api<CSIStorageCapacity> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a volume can be reached from. Empty: everywhere.
pub(crate) fn reachable_from(volume: &PersistentVolume) -> Vec<BTreeMap<String, String>> {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let terms = affinity.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    terms
        .iter()
        .map(|term| {
            let expressions = term.match_expressions.iter().flatten();
            // This program and upstream's write one value each.
            expressions.filter_map(|one| Some((one.key.clone(), one.values.as_ref()?.first()?.clone()))).collect()
        })
        .collect()
}
