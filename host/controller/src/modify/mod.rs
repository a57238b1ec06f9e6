//! Claims that name another VolumeAttributesClass, as external-resizer does.
//!
//! ```text
//!  spec's class is not the status's --> ControllerModifyVolume --> volume's class --> claim's status
//! ```

mod failure;
mod status;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use tracing::{info, warn};
use volhost_proto::csi::ControllerModifyVolumeRequest;

use crate::caches::Caches;
use crate::driver::{Can, Driver};
use crate::finalizers::FIELD_MANAGER;
use crate::key::ObjectKey;
use crate::migrated;
use crate::provision::attributes;
use failure::ModifyError;
use volhost_cluster_client::Events;

/// Changes volumes.
pub(crate) struct Modifier {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    events: Events,
}

impl Modifier {
    /// A modifier.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches, events: Events) -> Self {
        Self { client, driver, caches, events }
    }

    /// Works on a claim. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, key: &ObjectKey) -> bool {
        if !self.driver.can(Can::ModifyVolume) {
            return true;
        }
        let found = self.caches.claim(key.namespace(), key.name());
        let Some(claim) = found.filter(|claim| claim.metadata.uid.as_deref() == Some(key.uid())) else { return true };
        let Some(class) = wanted(&claim) else { return true };
        let Some(volume) = self.caches.volume_of(&claim, self.driver.name()) else { return true };
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let object = claim.object_ref(&());
        match self.modify(key, &volume, class).await {
            Ok(()) => {
                info!(claim = %key, volume = name, class, "a volume is modified");
                let note = format!("external resizer modified volume {name} with vac {class} successfully");
                self.events.normal(&object, "VolumeModifySuccessful", &note);
                true
            }
            Err(error) => {
                warn!(claim = %key, volume = name, class, "a volume is not modified: {error}");
                let note = format!("modify volume {name:?} by vac {class:?} failed: {error}");
                self.events.warning(&object, "VolumeModifyFailed", &note);
                if let Err(unsaid) = self.patch_status(key, &status::failed(class, &error)).await {
                    warn!(claim = %key, "the error is not in the claim's status: {unsaid}");
                }
                false
            }
        }
    }

    async fn modify(&self, key: &ObjectKey, volume: &PersistentVolume, class: &str) -> Result<(), ModifyError> {
        let parameters = attributes(&self.caches, self.driver.name(), class)?;
        self.patch_status(key, &status::modifying(class)).await.map_err(ModifyError::Write)?;
        let csi = migrated::source_of(volume, self.driver.name());
        let request = ControllerModifyVolumeRequest {
            volume_id: csi.map(|csi| csi.volume_handle).unwrap_or_default(),
            mutable_parameters: parameters.into_iter().collect(),
            ..ControllerModifyVolumeRequest::default()
        };
        let answer = self.driver.client().controller_modify_volume(self.driver.request(request)).await;
        answer.map_err(|source| ModifyError::Call { source: Box::new(source) })?;
        let patch = json!({
            "metadata": { "uid": volume.metadata.uid },
            "spec": { "volumeAttributesClassName": class },
        });
        let api = Api::<PersistentVolume>::all(self.client.clone());
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let written = api.patch(name, &parameters_of_patch(), &Patch::Merge(patch)).await;
        self.caches.wrote_volume(written.map_err(ModifyError::Write)?);
        self.patch_status(key, &status::modified(class)).await.map_err(ModifyError::Write)
    }

    async fn patch_status(&self, key: &ObjectKey, status: &Value) -> Result<(), kube::Error> {
        let api = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), key.namespace());
        let patch = json!({ "metadata": { "uid": key.uid() }, "status": status });
        let written = api.patch_status(key.name(), &parameters_of_patch(), &Patch::Strategic(patch)).await?;
        self.caches.wrote_claim(written);
        Ok(())
    }
}

/// The class that the claim names and does not have.
fn wanted(claim: &PersistentVolumeClaim) -> Option<&str> {
    let class = claim.spec.as_ref()?.volume_attributes_class_name.as_deref().filter(|class| !class.is_empty())?;
    let has = claim.status.as_ref().and_then(|status| status.current_volume_attributes_class_name.as_deref());
    (has != Some(class)).then_some(class)
}

fn parameters_of_patch() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
