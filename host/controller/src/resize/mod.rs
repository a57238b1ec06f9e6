//! Claims that ask for more than their volumes have, as external-resizer does.
//!
//! ```text
//!  request > capacity --> ControllerExpandVolume --> the volume's capacity
//!      --> done, or the kubelet grows the file system on the node
//! ```
//!
//! # Guarantees
//! - A volume never shrinks. A claim that asks for less while an attempt may still succeed waits
//!   for that attempt; after an attempt that cannot succeed, the smaller size is tried.

mod failure;
mod status;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use tracing::{info, warn};
use volhost_proto::csi::{CapacityRange, ControllerExpandVolumeRequest};

use crate::access;
use crate::caches::Caches;
use crate::driver::{Can, Driver};
use crate::finalizers::FIELD_MANAGER;
use crate::key::ObjectKey;
use crate::migrated;
use crate::secrets::read as read_secret;
use failure::ResizeError;
use target::{Target, target};
use volhost_cluster_client::Events;
use volhost_cluster_client::claims::grown;
use volhost_cluster_client::quantity;

/// The size before the node has grown the file system: the kubelet reads it.
const SIZE_BEFORE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// Grows volumes.
pub(crate) struct Resizer {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    events: Events,
}

impl Resizer {
    /// A resizer.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches, events: Events) -> Self {
        Self { client, driver, caches, events }
    }

    /// Works on a claim. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, key: &ObjectKey) -> bool {
        let found = self.caches.claim(key.namespace(), key.name());
        let Some(claim) = found.filter(|claim| claim.metadata.uid.as_deref() == Some(key.uid())) else { return true };
        let Some(volume) = self.caches.volume_of(&claim, self.driver.name()) else { return true };
        let has = volume.spec.as_ref().and_then(|spec| quantity::storage(spec.capacity.as_ref())).unwrap_or_default();
        let to = match target(&claim, has) {
            Target::Nothing => return true,
            Target::Node(bytes) => return self.leave_to_the_node(key, &claim, bytes).await,
            Target::Driver(bytes) => bytes,
        };
        if !self.driver.can(Can::ExpandVolume) && !self.driver.node_expands() {
            // Another program may grow them.
            return true;
        }
        match self.grow(key, &claim, &volume, to).await {
            Ok(()) => true,
            Err(error) => {
                warn!(claim = %key, "a volume is not grown: {error}");
                let note = format!(
                    "resize volume {:?} by resizer {:?} failed: {error}",
                    volume.metadata.name.as_deref().unwrap_or_default(),
                    self.driver.name()
                );
                self.events.warning(&claim.object_ref(&()), "VolumeResizeFailed", &note);
                if error.is_infeasible() {
                    self.set_status(key, &status::infeasible(&claim, to)).await;
                }
                false
            }
        }
    }

    async fn grow(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        to: u64,
    ) -> Result<(), ResizeError> {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let object = claim.object_ref(&());
        self.patch_status(key, &status::growing(claim, to)).await.map_err(ResizeError::Write)?;
        self.events.normal(&object, "Resizing", &format!("External resizer is resizing volume {name}"));
        let (has, by_node) =
            if self.driver.can(Can::ExpandVolume) { self.expand(volume, to).await? } else { (to, true) };
        self.set_capacity(claim, volume, has, by_node).await.map_err(ResizeError::Write)?;
        info!(claim = %key, volume = name, bytes = has, by_node, "a volume is grown");
        if by_node {
            self.patch_status(key, &status::waiting_for_node(has)).await.map_err(ResizeError::Write)?;
            let note = "Require file system resize of volume on node";
            self.events.normal(&object, "FileSystemResizeRequired", note);
        } else {
            self.patch_status(key, &grown(has)).await.map_err(ResizeError::Write)?;
            self.events.normal(&object, "VolumeResizeSuccessful", "Resize volume succeeded");
        }
        Ok(())
    }

    /// Asks the driver. Returns the volume's size, and whether the node has to grow it too.
    async fn expand(&self, volume: &PersistentVolume, to: u64) -> Result<(u64, bool), ResizeError> {
        let spec = migrated::as_csi(volume)?.spec.clone().unwrap_or_default();
        let csi = spec.csi.unwrap_or_default();
        let modes = spec.access_modes.as_deref().unwrap_or_default();
        let mode = access::mode(modes, self.driver.can(Can::SingleNodeMultiWriter))?;
        let is_block = spec.volume_mode.as_deref() == Some("Block");
        let (fs_type, flags) = (csi.fs_type.unwrap_or_default(), spec.mount_options.unwrap_or_default());
        let request = ControllerExpandVolumeRequest {
            volume_id: csi.volume_handle,
            capacity_range: Some(CapacityRange {
                required_bytes: i64::try_from(to).map_err(|_| ResizeError::Size(to))?,
                limit_bytes: 0,
            }),
            secrets: read_secret(&self.client, csi.controller_expand_secret_ref.as_ref()).await?,
            volume_capability: Some(access::capability(mode, is_block, &fs_type, &flags)),
        };
        let answer = self.driver.client().controller_expand_volume(self.driver.request(request)).await;
        let answer = answer.map_err(|source| ResizeError::Call { source: Box::new(source) })?.into_inner();
        let has = u64::try_from(answer.capacity_bytes).unwrap_or_default();
        if has < to {
            return Err(ResizeError::Short { has, wanted: to });
        }
        Ok((has, answer.node_expansion_required))
    }

    /// Writes the volume's new size.
    async fn set_capacity(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        has: u64,
        by_node: bool,
    ) -> Result<(), kube::Error> {
        let mut patch = json!({
            "metadata": { "uid": volume.metadata.uid },
            "spec": { "capacity": { "storage": quantity::of_bytes(has) } },
        });
        let before = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
        if let (true, Some(before), Some(metadata)) =
            (by_node, before, patch.get_mut("metadata").and_then(Value::as_object_mut))
        {
            metadata.insert("annotations".to_owned(), json!(BTreeMap::from([(SIZE_BEFORE, before)])));
        }
        let api = Api::<PersistentVolume>::all(self.client.clone());
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        self.caches.wrote_volume(api.patch(name, &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }

    /// The volume has the size; the claim's status does not say so yet.
    async fn leave_to_the_node(&self, key: &ObjectKey, claim: &PersistentVolumeClaim, bytes: u64) -> bool {
        let status = if self.driver.node_expands() { status::waiting_for_node(bytes) } else { grown(bytes) };
        if status::is_already(claim, &status) {
            return true;
        }
        self.set_status(key, &status).await
    }

    /// Returns whether the status was written.
    async fn set_status(&self, key: &ObjectKey, status: &Value) -> bool {
        match self.patch_status(key, status).await {
            Ok(()) => true,
            Err(error) => {
                warn!(claim = %key, "the claim's status is not written: {error}");
                false
            }
        }
    }

    async fn patch_status(&self, key: &ObjectKey, status: &Value) -> Result<(), kube::Error> {
        let api = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), key.namespace());
        let patch = json!({ "metadata": { "uid": key.uid() }, "status": status });
        self.caches.wrote_claim(api.patch_status(key.name(), &parameters(), &Patch::Strategic(patch)).await?);
        Ok(())
    }
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
