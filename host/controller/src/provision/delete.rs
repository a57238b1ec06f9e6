//! The end of volumes: a PersistentVolume whose claim is gone and that is not to be kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource as _};
use thiserror::Error;
use tonic::Status;
use tracing::{info, warn};
use volhost_proto::csi::DeleteVolumeRequest;

use super::request::{DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, FINALIZER, PROVISIONED_BY};
use crate::caches::Caches;
use crate::driver::{Can, Driver, said};
use crate::finalizers::{self, FIELD_MANAGER};
use crate::migrated;
use crate::secrets::{self, SecretError};
use volhost_cluster_client::Events;
use volhost_csi_translation::TranslationError;

/// Why a volume is not deleted yet. The text is the event on the PersistentVolume.
#[derive(Debug, Error)]
enum DeleteError {
    /// A node may still write to it.
    #[error("persistentvolume {volume} is still attached to node {node}")]
    Attached {
        /// The volume.
        volume: String,
        /// The node.
        node: String,
    },
    /// The driver deletes no volumes.
    #[error("the CSI driver does not support deletion of volumes")]
    Incapable,
    /// The volume of a former in-tree source that the driver cannot serve.
    #[error("spec.{0}")]
    Untranslatable(#[from] TranslationError),
    /// A Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The driver.
    #[error("{}", said("DeleteVolume", .source))]
    Call {
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// The API server.
    #[error("cannot delete the PersistentVolume: {0}")]
    Write(#[source] kube::Error),
}

/// Deletes volumes.
pub(crate) struct Deleter {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    events: Events,
    /// The UIDs of PersistentVolumes that were deleted and may be in the cache still, by name:
    /// until they are gone, whatever others write to them.
    deleted: Mutex<HashMap<String, Option<String>>>,
}

impl Deleter {
    /// A deleter.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches, events: Events) -> Self {
        Self { client, driver, caches, events, deleted: Mutex::default() }
    }

    /// The PersistentVolume of this name is gone from the cache.
    pub(crate) fn forget(&self, name: &str) {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Works on a volume. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, volume: &PersistentVolume) -> bool {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if !is_of(volume, self.driver.name()) || deleted.is_some_and(|uid| uid == volume.metadata.uid) {
            return true;
        }
        let worked = match wanted(volume) {
            Wanted::Nothing => Ok(()),
            Wanted::Finalizer => self.patch(&volume.metadata, &[], &[FINALIZER]).await,
            Wanted::NoFinalizer => self.patch(&volume.metadata, &[FINALIZER], &[]).await,
            Wanted::Deletion => {
                if let Err(error) = self.delete(name, volume).await {
                    warn!(volume = name, "a volume is not deleted: {error}");
                    self.events.warning(&volume.object_ref(&()), "VolumeFailedDelete", &error.to_string());
                    return false;
                }
                let mut deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
                deleted.insert(name.to_owned(), volume.metadata.uid.clone());
                return true;
            }
        };
        match worked {
            Ok(()) => true,
            Err(error) => {
                warn!(volume = name, "the provisioner's finalizer cannot be changed: {error}");
                false
            }
        }
    }

    /// Deletes the driver's volume and then the PersistentVolume.
    async fn delete(&self, name: &str, volume: &PersistentVolume) -> Result<(), DeleteError> {
        if !self.driver.can(Can::CreateDeleteVolume) {
            return Err(DeleteError::Incapable);
        }
        if let Some(attachment) = self.caches.attachment_of(name) {
            let node = attachment.spec.node_name.clone();
            return Err(DeleteError::Attached { volume: name.to_owned(), node });
        }
        let annotation = |key| volume.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (secret, namespace) = (annotation(DELETION_SECRET_NAME), annotation(DELETION_SECRET_NAMESPACE));
        let secret = given(secret).zip(given(namespace));
        let secret = secret.map(|(name, namespace)| SecretReference { name: Some(name), namespace: Some(namespace) });
        let csi = migrated::as_csi(volume)?.spec.as_ref().and_then(|spec| spec.csi.clone());
        let request = DeleteVolumeRequest {
            volume_id: csi.map(|csi| csi.volume_handle).unwrap_or_default(),
            secrets: secrets::read(&self.client, secret.as_ref()).await?,
        };
        let answer = self.driver.client().delete_volume(self.driver.request(request)).await;
        answer.map_err(|source| DeleteError::Call { source: Box::new(source) })?;
        info!(volume = name, "a volume is deleted");
        // No node has it attached: nothing else has to happen before it goes. Before the deletion,
        // by which other programs remove their finalizers, too.
        let attached = finalizers::of_attachments(self.driver.name());
        if [FINALIZER, &attached].into_iter().any(|one| finalizers::has(&volume.metadata, one)) {
            self.patch(&volume.metadata, &[FINALIZER, &attached], &[]).await.map_err(DeleteError::Write)?;
        }
        if volume.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let preconditions = Preconditions { uid: volume.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match Api::<PersistentVolume>::all(self.client.clone()).delete(name, &parameters).await {
            Ok(_) => Ok(()),
            // Gone, or another one of this name.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(error) => Err(DeleteError::Write(error)),
        }
    }

    async fn patch(&self, meta: &ObjectMeta, remove: &[&str], add: &[&str]) -> Result<(), kube::Error> {
        let name = meta.name.as_deref().unwrap_or_default();
        let patch = finalizers::patch(meta, remove, add);
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let api = Api::<PersistentVolume>::all(self.client.clone());
        match api.patch(name, &parameters, &Patch::Merge(patch)).await {
            Ok(written) => {
                self.caches.wrote_volume(written);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What is to be done about a volume.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// Nothing.
    Nothing,
    /// It has to wait for the driver once it is deleted.
    Finalizer,
    /// It is to be kept by the driver, and so need not wait for it.
    NoFinalizer,
    /// The driver is to delete it.
    Deletion,
}

fn wanted(volume: &PersistentVolume) -> Wanted {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_deleted = volume.metadata.deletion_timestamp.is_some();
    let has_finalizer = finalizers::has(&volume.metadata, FINALIZER);
    match (policy, phase) {
        (Some("Delete"), Some("Released")) if has_finalizer || !is_deleted => Wanted::Deletion,
        (Some("Delete"), Some("Bound")) if !has_finalizer && !is_deleted => Wanted::Finalizer,
        (Some("Delete"), _) => Wanted::Nothing,
        _ if has_finalizer => Wanted::NoFinalizer,
        _ => Wanted::Nothing,
    }
}

/// Whether this driver's provisioner made the volume, or the in-tree plugin did that it replaced.
fn is_of(volume: &PersistentVolume, driver: &str) -> bool {
    let provisioned_by = volume.metadata.annotations.as_ref().and_then(|all| all.get(PROVISIONED_BY));
    let is_made_by =
        provisioned_by.is_some_and(|by| by == driver || migrated::is_migrated_to(driver, &volume.metadata));
    is_made_by && volume.spec.as_ref().is_some_and(|spec| migrated::serves(driver, spec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{PersistentVolumeSpec, PersistentVolumeStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn volume(policy: &str, phase: &str, finalizers: &[&str], is_deleted: bool) -> PersistentVolume {
        PersistentVolume {
            metadata: ObjectMeta {
                finalizers: Some(finalizers.iter().map(|one| (*one).to_owned()).collect()),
                deletion_timestamp: is_deleted.then(|| Time(jiff::Timestamp::now())),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                persistent_volume_reclaim_policy: Some(policy.to_owned()),
                ..PersistentVolumeSpec::default()
            }),
            status: Some(PersistentVolumeStatus { phase: Some(phase.to_owned()), ..PersistentVolumeStatus::default() }),
        }
    }

    #[test]
    fn a_volume_of_the_plugin_that_the_driver_replaced_is_the_drivers() {
        let of = |annotations: serde_json::Value, spec: serde_json::Value| {
            let metadata = serde_json::json!({ "name": "pv", "annotations": annotations });
            let volume = serde_json::json!({ "metadata": metadata, "spec": spec });
            is_of(&serde_json::from_value(volume).unwrap(), "ebs.csi.aws.com")
        };
        let (plugin, driver) = ("kubernetes.io/aws-ebs", "ebs.csi.aws.com");
        let migrated = serde_json::json!({ PROVISIONED_BY: plugin, "pv.kubernetes.io/migrated-to": driver });
        let disk = serde_json::json!({ "awsElasticBlockStore": { "volumeID": "vol-1" } });
        assert!(of(migrated.clone(), disk.clone()));
        assert!(!of(serde_json::json!({ PROVISIONED_BY: plugin }), disk.clone()), "no controller has said so");
        assert!(!of(serde_json::json!({ "pv.kubernetes.io/migrated-to": driver }), disk), "nobody has made it");
        assert!(!of(migrated, serde_json::json!({ "gcePersistentDisk": { "pdName": "disk" } })));
        let csi = serde_json::json!({ "csi": { "driver": driver, "volumeHandle": "vol-1" } });
        assert!(of(serde_json::json!({ PROVISIONED_BY: driver }), csi));
    }

    #[test]
    fn only_released_volumes_that_are_not_kept_are_deleted() {
        let of =
            |policy, phase, finalizers: &[&str], is_deleted| wanted(&volume(policy, phase, finalizers, is_deleted));
        assert_eq!(of("Delete", "Released", &[FINALIZER], false), Wanted::Deletion);
        assert_eq!(of("Delete", "Released", &[], false), Wanted::Deletion);
        assert_eq!(of("Delete", "Released", &[FINALIZER], true), Wanted::Deletion);
        // Somebody else has the last word on it.
        assert_eq!(of("Delete", "Released", &["other"], true), Wanted::Nothing);
        assert_eq!(of("Delete", "Bound", &[FINALIZER], false), Wanted::Nothing);
        assert_eq!(of("Delete", "Bound", &[FINALIZER], true), Wanted::Nothing);
        assert_eq!(of("Delete", "Bound", &[], false), Wanted::Finalizer);
        assert_eq!(of("Delete", "Pending", &[], false), Wanted::Nothing);
        assert_eq!(of("Retain", "Released", &[FINALIZER], false), Wanted::NoFinalizer);
        assert_eq!(of("Retain", "Released", &[], true), Wanted::Nothing);
        assert_eq!(of("Retain", "Bound", &[FINALIZER], true), Wanted::NoFinalizer);
    }
}
