//! The objects that one volume of a pod depends on.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use volhost_csi_translation as translation;

use crate::cluster::{Cluster, Read};
use crate::error::PluginError;
use crate::state::attachment_name;

/// What a volume of a pod is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// One of the node's own kinds, by the name of its field: `emptyDir`.
    OfNode(String),
    /// A CSI volume inside of the pod.
    Csi {
        /// Its driver.
        driver: String,
    },
    /// A claim of this name.
    Claim(String),
}

/// Where a volume of a pod comes from.
pub(crate) fn source(pod: &str, volume: &Volume) -> Source {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Source::Claim(claim.claim_name.clone());
    }
    if volume.ephemeral.is_some() {
        return Source::Claim(format!("{pod}-{}", volume.name));
    }
    if let Some(csi) = &volume.csi {
        return Source::Csi { driver: csi.driver.clone() };
    }
    // The one field beside the name.
    let fields = serde_json::to_value(volume).unwrap_or_default();
    let kind = fields.as_object().and_then(|fields| fields.keys().find(|key| *key != "name").cloned());
    Source::OfNode(kind.unwrap_or_else(|| "emptyDir".to_owned()))
}

/// The driver of a PersistentVolume and the driver's name for it, translated for a former in-tree
/// kind. `None` for one that no CSI driver serves.
pub(crate) fn driver_and_handle(volume: &PersistentVolume) -> Option<(String, String)> {
    let translated = translation::to_csi(volume).ok();
    let spec = translated.as_ref().unwrap_or(volume).spec.as_ref()?;
    let csi = spec.csi.as_ref()?;
    Some((csi.driver.clone(), csi.volume_handle.clone()))
}

/// A claim and what is below it.
#[derive(Debug, Clone)]
pub(crate) struct ClaimChain {
    pub(crate) name: String,
    pub(crate) claim: Read<PersistentVolumeClaim>,
    pub(crate) events: Vec<Event>,
    pub(crate) class: Option<(String, Read<StorageClass>)>,
    /// Who makes volumes for the class, if that is a CSI driver with our controller.
    pub(crate) leases: Vec<Lease>,
    pub(crate) volume: Option<(String, Read<PersistentVolume>)>,
    pub(crate) driver: Option<DriverChain>,
}

/// A driver, and what it has to do with one volume on one node.
#[derive(Debug, Clone)]
pub(crate) struct DriverChain {
    pub(crate) name: String,
    /// Of the pod's node.
    pub(crate) node: Option<Read<CSINode>>,
    /// On the pod's node.
    pub(crate) attachment: Option<Read<VolumeAttachment>>,
    /// The same volume on other nodes.
    pub(crate) elsewhere: Vec<VolumeAttachment>,
}

/// The claim of this name, for a pod on this node, which may have none yet.
pub(crate) async fn claim(cluster: &Cluster, namespace: &str, name: &str, node: Option<&str>) -> ClaimChain {
    let claim: Read<PersistentVolumeClaim> = cluster.read_in(namespace, name).await;
    let spec = claim.found().and_then(|claim| claim.spec.as_ref());
    let class_name = spec.and_then(|spec| spec.storage_class_name.clone()).filter(|name| !name.is_empty());
    let volume_name = spec.and_then(|spec| spec.volume_name.clone()).filter(|name| !name.is_empty());
    let class = match class_name {
        Some(name) => Some((name.clone(), cluster.read::<StorageClass>(&name).await)),
        None => None,
    };
    let volume = match volume_name {
        Some(name) => Some((name.clone(), cluster.read::<PersistentVolume>(&name).await)),
        None => None,
    };
    let served = volume.as_ref().and_then(|(_, volume)| driver_and_handle(volume.found()?));
    let provisioner = class.as_ref().and_then(|(_, class)| Some(class.found()?.provisioner.clone()));
    let leases = match served.as_ref().map(|(driver, _)| driver).or(provisioner.as_ref()) {
        Some(driver) => leases(cluster, driver).await,
        None => Vec::new(),
    };
    let driver = match served {
        Some((driver, handle)) => {
            let name = volume.as_ref().map(|(name, _)| name.as_str()).unwrap_or_default();
            Some(driver_of(cluster, driver, Some(NamedVolume { handle: &handle, name }), node).await)
        }
        None => None,
    };
    let events = events(cluster, namespace, "PersistentVolumeClaim", name).await;
    ClaimChain { name: name.to_owned(), claim, events, class, leases, volume, driver }
}

/// A volume of a driver: the driver's name for it, and that of its PersistentVolume.
pub(crate) struct NamedVolume<'a> {
    handle: &'a str,
    name: &'a str,
}

/// A driver on a pod's node.
pub(crate) async fn driver_of(
    cluster: &Cluster,
    name: String,
    volume: Option<NamedVolume<'_>>,
    node: Option<&str>,
) -> DriverChain {
    let object = cluster.read::<CSIDriver>(&name).await;
    let csi_node = match node {
        Some(node) => Some(cluster.read::<CSINode>(node).await),
        None => None,
    };
    let mut attachment = None;
    let mut elsewhere = Vec::new();
    if let (Some(volume), Some(node), true) = (volume, node, is_attached(&object)) {
        let own = cluster.read::<VolumeAttachment>(&attachment_name(volume.handle, &name, node)).await;
        let is_ready = own.found().and_then(|own| own.status.as_ref()).is_some_and(|status| status.attached);
        if !is_ready {
            // Whoever may not list them learns less.
            let all: Vec<VolumeAttachment> = cluster.list().await.unwrap_or_default();
            elsewhere.extend(all.into_iter().filter(|one| {
                one.spec.node_name != node && one.spec.source.persistent_volume_name.as_deref() == Some(volume.name)
            }));
        }
        attachment = Some(own);
    }
    DriverChain { name, node: csi_node, attachment, elsewhere }
}

/// Whether volumes of the driver are attached to nodes: unless its object says no.
fn is_attached(object: &Read<CSIDriver>) -> bool {
    object.found().and_then(|object| object.spec.attach_required).unwrap_or(true)
}

/// The Leases of `volhost controller` for this driver, in any namespace.
async fn leases(cluster: &Cluster, driver: &str) -> Vec<Lease> {
    let name = format!("metadata.name=volhost-controller-{}", driver.to_ascii_lowercase());
    cluster.list_in(None, &name).await.unwrap_or_default()
}

/// The events of an object.
pub(crate) async fn events(cluster: &Cluster, namespace: &str, kind: &str, name: &str) -> Vec<Event> {
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
    cluster.list_in(Some(namespace), &fields).await.unwrap_or_default()
}

/// The pod of this name.
///
/// # Errors
/// [`PluginError`].
pub(crate) async fn pod(cluster: &Cluster, namespace: &str, name: &str) -> Result<Pod, PluginError> {
    match cluster.read_in::<Pod>(namespace, name).await {
        Read::Found(pod) => Ok(pod),
        Read::Missing => {
            Err(PluginError::Missing { kind: "pod", namespace: namespace.to_owned(), name: name.to_owned() })
        }
        Read::Refused(reason) => Err(PluginError::Read { kind: "pod", name: name.to_owned(), reason }),
    }
}
