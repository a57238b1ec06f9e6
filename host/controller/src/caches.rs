//! The objects of the cluster, kept by watches.
//!
//! The last known objects stay while the API server does not answer.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use tokio::sync::Notify;

use crate::cache::{Cache, OnChange};
use crate::capacity::{DRIVER_LABEL, MANAGER, MANAGER_LABEL};
use crate::driver::{Can, Driver};
use crate::migrated;
use crate::snapshots::{GroupCaches, GroupHandlers, Known, SnapshotCaches, SnapshotHandlers};

/// The caches.
#[derive(Debug, Clone)]
pub(crate) struct Caches {
    claims: Cache<PersistentVolumeClaim>,
    volumes: Cache<PersistentVolume>,
    classes: Cache<StorageClass>,
    csi_nodes: Cache<CSINode>,
    nodes: Option<Cache<PartialObjectMeta<Node>>>,
    attachments: Cache<VolumeAttachment>,
    attributes_classes: Option<Cache<VolumeAttributesClass>>,
    driver_object: Cache<CSIDriver>,
    capacities: Option<Cache<CSIStorageCapacity>>,
    driver: String,
    namespace: String,
    snapshots: Option<Known<SnapshotCaches>>,
    groups: Option<Known<GroupCaches>>,
}

/// What is called with changes.
pub(crate) struct Handlers {
    /// Of claims.
    pub(crate) claims: OnChange<PersistentVolumeClaim>,
    /// Of volumes.
    pub(crate) volumes: OnChange<PersistentVolume>,
    /// Of attachments.
    pub(crate) attachments: OnChange<VolumeAttachment>,
    /// Of the driver's CSIDriver object.
    pub(crate) driver_object: OnChange<CSIDriver>,
    /// Notified when the places of capacity may have changed.
    pub(crate) places: Arc<Notify>,
    /// Of snapshots.
    pub(crate) snapshots: SnapshotHandlers,
    /// Of groups of snapshots.
    pub(crate) groups: GroupHandlers,
}

impl Caches {
    /// Starts the watches. Needs a tokio runtime. Nodes are watched only for a driver whose volumes
    /// some nodes cannot reach, VolumeAttributesClasses only for one that modifies volumes, snapshots
    /// only for one that takes them, and its capacity, in `namespace`, only for one that knows it.
    pub(crate) fn start(client: &Client, driver: &Driver, namespace: &str, handlers: Handlers) -> Self {
        let (topology, modifies) = (driver.has_topology(), driver.can(Can::ModifyVolume));
        let has_capacity = topology && driver.can(Can::GetCapacity);
        let takes_snapshots = driver.can(Can::CreateDeleteSnapshot);
        Self {
            claims: Cache::start(client, handlers.claims),
            volumes: Cache::start(client, handlers.volumes),
            classes: Cache::start(client, notifying(&handlers.places)),
            csi_nodes: Cache::start(client, notifying(&handlers.places)),
            nodes: topology.then(|| Cache::start(client, notifying(&handlers.places))),
            attachments: Cache::start(client, handlers.attachments),
            attributes_classes: modifies.then(|| Cache::start(client, Box::new(|_, _| {}))),
            driver_object: Cache::start_for(client, driver.name(), handlers.driver_object),
            capacities: has_capacity.then(|| {
                let labels = format!("{DRIVER_LABEL}={},{MANAGER_LABEL}={MANAGER}", driver.name());
                let api = Api::namespaced(client.clone(), namespace);
                Cache::start_over(api, Config::default().labels(&labels), notifying(&handlers.places))
            }),
            driver: driver.name().to_owned(),
            namespace: namespace.to_owned(),
            snapshots: takes_snapshots.then(|| Known::start(client, handlers.snapshots)),
            groups: driver.takes_groups().then(|| Known::start(client, handlers.groups)),
        }
    }

    /// Waits until all objects are known, and for some time for snapshots. Returns false if a watch
    /// has ended, which it does not.
    pub(crate) async fn wait_ready(&self) -> bool {
        let nodes = async {
            match &self.nodes {
                Some(nodes) => nodes.wait_ready().await.is_ok(),
                None => true,
            }
        };
        let attributes_classes = async {
            match &self.attributes_classes {
                Some(classes) => classes.wait_ready().await.is_ok(),
                None => true,
            }
        };
        let capacities = async {
            match &self.capacities {
                Some(capacities) => capacities.wait_ready().await.is_ok(),
                None => true,
            }
        };
        let others = tokio::try_join!(
            self.claims.wait_ready(),
            self.volumes.wait_ready(),
            self.classes.wait_ready(),
            self.csi_nodes.wait_ready(),
            self.attachments.wait_ready(),
            self.driver_object.wait_ready(),
        );
        let is_ready = others.is_ok() && nodes.await && attributes_classes.await && capacities.await;
        if let Some(snapshots) = self.snapshots.as_ref().filter(|_| is_ready) {
            snapshots.wait_first_look().await;
        }
        if let Some(groups) = self.groups.as_ref().filter(|_| is_ready) {
            groups.wait_first_look().await;
        }
        is_ready
    }

    /// The claim of this name.
    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(&ObjectRef::new(name).within(namespace))
    }

    /// Whether there is a claim for which this holds.
    pub(crate) fn has_claim(&self, predicate: impl Fn(&PersistentVolumeClaim) -> bool) -> bool {
        self.claims.find(predicate).is_some()
    }

    /// The volume of this name.
    pub(crate) fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.get(&ObjectRef::new(name))
    }

    /// The class of this name.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get(&ObjectRef::new(name))
    }

    /// All classes.
    pub(crate) fn classes(&self) -> Vec<Arc<StorageClass>> {
        self.classes.all()
    }

    /// The driver's CSIDriver object.
    pub(crate) fn driver_object(&self) -> Option<Arc<CSIDriver>> {
        self.driver_object.get(&ObjectRef::new(&self.driver))
    }

    /// The driver's capacity, as it is published.
    pub(crate) fn capacities(&self) -> Vec<Arc<CSIStorageCapacity>> {
        self.capacities.as_ref().map(Cache::all).unwrap_or_default()
    }

    /// The published capacity in the object of this name.
    pub(crate) fn capacity(&self, name: &str) -> Option<Arc<CSIStorageCapacity>> {
        self.capacities.as_ref()?.get(&ObjectRef::new(name).within(&self.namespace))
    }

    /// A capacity is now this, and may be new: the API server's answer to a write.
    pub(crate) fn wrote_capacity(&self, capacity: CSIStorageCapacity) {
        if let Some(capacities) = &self.capacities {
            capacities.created(capacity);
        }
    }

    /// All attachments, of every driver.
    pub(crate) fn attachments(&self) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.all()
    }

    /// The VolumeAttributesClass of this name.
    pub(crate) fn attributes_class(&self, name: &str) -> Option<Arc<VolumeAttributesClass>> {
        self.attributes_classes.as_ref()?.get(&ObjectRef::new(name))
    }

    /// The volume of a claim that is bound to one of this driver.
    pub(crate) fn volume_of(&self, claim: &PersistentVolumeClaim, driver: &str) -> Option<Arc<PersistentVolume>> {
        let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let name = claim.spec.as_ref()?.volume_name.as_deref().filter(|_| is_bound)?;
        let volume = self.volume(name)?;
        let spec = volume.spec.as_ref()?;
        let is_of_driver = migrated::serves(driver, spec);
        let is_bound = spec.claim_ref.as_ref().is_some_and(|bound| bound.uid == claim.metadata.uid);
        (is_of_driver && is_bound).then_some(volume)
    }

    /// A claim is now this: the API server's answer to a write.
    pub(crate) fn wrote_claim(&self, claim: PersistentVolumeClaim) {
        self.claims.wrote(claim);
    }

    /// A volume is now this: the API server's answer to a write.
    pub(crate) fn wrote_volume(&self, volume: PersistentVolume) {
        self.volumes.wrote(volume);
    }

    /// An attachment is now this: the API server's answer to a write.
    pub(crate) fn wrote_attachment(&self, attachment: VolumeAttachment) {
        self.attachments.wrote(attachment);
    }

    /// The snapshots, if the driver takes them and the cluster has their custom resources.
    pub(crate) fn snapshots(&self) -> Option<SnapshotCaches> {
        self.snapshots.as_ref()?.get()
    }

    /// The groups of snapshots, if the driver takes them and the cluster has their custom resources.
    pub(crate) fn groups(&self) -> Option<GroupCaches> {
        self.groups.as_ref()?.get()
    }

    /// The claims for which this holds.
    pub(crate) fn claims(&self, predicate: impl Fn(&PersistentVolumeClaim) -> bool) -> Vec<Arc<PersistentVolumeClaim>> {
        self.claims.all().into_iter().filter(|claim| predicate(claim)).collect()
    }

    /// The volume that the driver knows by this name.
    pub(crate) fn volume_of_handle(&self, driver: &str, handle: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.find(|volume| {
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            csi.is_some_and(|csi| csi.driver == driver && csi.volume_handle == handle)
        })
    }

    /// What the drivers of this node have registered.
    pub(crate) fn csi_node(&self, name: &str) -> Option<Arc<CSINode>> {
        self.csi_nodes.get(&ObjectRef::new(name))
    }

    /// What the drivers of all nodes have registered.
    pub(crate) fn csi_nodes(&self) -> Vec<Arc<CSINode>> {
        self.csi_nodes.all()
    }

    /// The node of this name.
    pub(crate) fn node(&self, name: &str) -> Option<Arc<PartialObjectMeta<Node>>> {
        self.nodes.as_ref()?.get(&ObjectRef::new(name))
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> Vec<Arc<PartialObjectMeta<Node>>> {
        self.nodes.as_ref().map(Cache::all).unwrap_or_default()
    }

    /// The attachment of this name.
    pub(crate) fn attachment(&self, name: &str) -> Option<Arc<VolumeAttachment>> {
        self.attachments.get(&ObjectRef::new(name))
    }

    /// An attachment of this volume.
    pub(crate) fn attachment_of(&self, volume: &str) -> Option<Arc<VolumeAttachment>> {
        self.attachments.find(|attachment| attachment.spec.source.persistent_volume_name.as_deref() == Some(volume))
    }
}

/// A handler that only notifies.
fn notifying<K: Resource>(places: &Arc<Notify>) -> OnChange<K> {
    let places = Arc::clone(places);
    Box::new(move |_, _| places.notify_one())
}
