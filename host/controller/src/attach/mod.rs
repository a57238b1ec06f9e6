//! VolumeAttachments, as external-attacher does.
//!
//! ```text
//!  attachment --> finalizers (but for one that was created with its own: see protection)
//!             --> ControllerPublishVolume --> status.attached
//!  deleted    --> ControllerUnpublishVolume --> finalizer removed --> gone
//! ```
//!
//! A driver that lists where its volumes are attached is asked from time to time. An attachment that
//! is reported as attached is attached again if the driver lists its volume without the node.
//!
//! # Guarantees
//! - The attachment and its PersistentVolume, if it has one, have a finalizer before the driver is called: neither is gone
//!   while the driver may still have the volume attached.
//! - An attachment that is deleted is detached, also if attaching it never succeeded: an attempt
//!   whose outcome is unknown may have attached it.

mod failure;
mod listed;
mod status;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, SecretReference};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tonic::Code;
use tracing::{info, warn};
use volhost_proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};

use crate::access;
use crate::caches::Caches;
use crate::driver::{Can, Driver};
use crate::finalizers::{self, FIELD_MANAGER};
use crate::migrated;
use crate::protection::{self, NODE_ID};
use crate::secrets::read as read_secret;
use failure::AttachError;
use listed::ListedVolumes;

/// The volume of an attachment, as the driver knows it.
struct AttachedVolume {
    /// Its PersistentVolume; none for a volume that the attachment describes itself: of a pod's own
    /// volume, whose former in-tree plugin the driver replaced.
    object: Option<Arc<PersistentVolume>>,
    /// For messages: of the PersistentVolume, or the driver's.
    name: String,
    spec: PersistentVolumeSpec,
    csi: CSIPersistentVolumeSource,
}

/// A volume that is to be detached.
struct DetachedVolume {
    /// For messages.
    name: String,
    handle: String,
    secret: Option<SecretReference>,
    /// Its PersistentVolume is.
    is_gone: bool,
}

/// Attaches and detaches volumes.
pub(crate) struct Attacher {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    finalizer: String,
    /// Attachments that the driver did not list, until they are attached again.
    lost: Mutex<HashSet<String>>,
}

impl Attacher {
    /// An attacher.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches) -> Self {
        let finalizer = finalizers::of_attachments(driver.name());
        Self { client, driver, caches, finalizer, lost: Mutex::default() }
    }

    /// Whether the attachment is one of this driver.
    pub(crate) fn is_ours(&self, attachment: &VolumeAttachment) -> bool {
        attachment.spec.attacher == self.driver.name()
    }

    /// Works on an attachment. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, name: &str) -> bool {
        let Some(attachment) = self.caches.attachment(name).filter(|found| self.is_ours(found)) else {
            self.lost().remove(name);
            return true;
        };
        let is_deleted = attachment.metadata.deletion_timestamp.is_some();
        let is_attached = attachment.status.as_ref().is_some_and(|status| status.attached);
        let worked = match (is_deleted, is_attached) {
            (true, _) if !finalizers::has(&attachment.metadata, &self.finalizer) => return true,
            (false, true) if !self.lost().contains(name) => return true,
            (true, _) => self.detach(name, &attachment).await,
            (false, _) => self.attach(name, &attachment).await,
        };
        let Err(error) = worked else {
            self.lost().remove(name);
            return true;
        };
        warn!(attachment = name, node = attachment.spec.node_name, "{error}");
        if let Err(unsaid) = self.patch_status(&attachment, &status::failed(&attachment, is_deleted, &error)).await {
            warn!(attachment = name, "the error is not in the attachment's status: {unsaid}");
        }
        false
    }

    /// Whether the driver can say where its volumes are attached.
    pub(crate) fn lists(&self) -> bool {
        [Can::PublishUnpublishVolume, Can::ListVolumes, Can::ListVolumesPublishedNodes]
            .into_iter()
            .all(|what| self.driver.can(what))
    }

    /// Compares the attachments with the driver's list. Returns those that are to be attached again.
    pub(crate) async fn find_lost(&self) -> Vec<String> {
        // Those that come while the driver is asked need not be in its list.
        let known: Vec<_> = self.caches.attachments().into_iter().filter(|one| self.is_listed(one)).collect();
        if known.is_empty() {
            return Vec::new();
        }
        let listed = match ListedVolumes::ask(&self.driver).await {
            Ok(listed) => listed,
            Err(error) => {
                warn!("it is not known which volumes are attached: {error}");
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for attachment in known {
            let name = attachment.metadata.name.clone().unwrap_or_default();
            let node_id = protection::node_id(&attachment);
            let (Some(node_id), Ok(volume)) = (node_id, self.volume(&attachment)) else { continue };
            let is_same = self.caches.attachment(&name).is_some_and(|now| now.metadata == attachment.metadata);
            if !is_same || !listed.lacks(&volume.csi.volume_handle, node_id) {
                continue;
            }
            warn!(
                attachment = name,
                node = attachment.spec.node_name,
                volume = volume.name,
                "the driver does not list the volume as attached any more; it is attached again"
            );
            self.lost().insert(name.clone());
            found.push(name);
        }
        found
    }

    /// Whether the driver's list has to have this attachment. Volumes of former in-tree plugins have
    /// handles that a driver may list in another form.
    fn is_listed(&self, attachment: &VolumeAttachment) -> bool {
        let volume = attachment.spec.source.persistent_volume_name.as_deref();
        let has_handle = |name| {
            let volume = self.caches.volume(name);
            volume.is_some_and(|volume| volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some()))
        };
        self.is_ours(attachment)
            && attachment.metadata.deletion_timestamp.is_none()
            && attachment.status.as_ref().is_some_and(|status| status.attached)
            && volume.is_some_and(has_handle)
    }

    fn lost(&self) -> MutexGuard<'_, HashSet<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn attach(&self, name: &str, attachment: &VolumeAttachment) -> Result<(), AttachError> {
        if !self.driver.can(Can::PublishUnpublishVolume) {
            // Kubernetes waits for the status even where there is nothing to do.
            let status = status::attached(Default::default());
            return self.patch_status(attachment, &status).await.map_err(AttachError::Write);
        }
        let AttachedVolume { object, name: volume, spec, csi } = self.volume(attachment)?;
        let node = attachment.spec.node_name.as_str();
        let node_id = self.node_id(node).ok_or_else(|| AttachError::NoNode(node.to_owned()))?;
        self.protect(name, attachment, object.as_deref(), &node_id).await.map_err(AttachError::Write)?;
        let mode = access::mode(
            spec.access_modes.as_deref().unwrap_or_default(),
            self.driver.can(Can::SingleNodeMultiWriter),
        )?;
        let is_block = spec.volume_mode.as_deref() == Some("Block");
        let fs_type = csi.fs_type.clone().unwrap_or_default();
        let flags = spec.mount_options.unwrap_or_default();
        let request = ControllerPublishVolumeRequest {
            volume_id: csi.volume_handle.clone(),
            node_id,
            volume_capability: Some(access::capability(mode, is_block, &fs_type, &flags)),
            readonly: self.driver.can(Can::PublishReadonly) && csi.read_only == Some(true),
            secrets: read_secret(&self.client, csi.controller_publish_secret_ref.as_ref()).await?,
            volume_context: csi.volume_attributes.into_iter().flatten().collect(),
        };
        let answer = self.driver.client().controller_publish_volume(self.driver.request(request)).await;
        let answer = answer.map_err(|source| AttachError::Attach { source: Box::new(source) })?;
        let context = answer.into_inner().publish_context;
        let status = status::attached(context.into_iter().collect());
        self.patch_status(attachment, &status).await.map_err(AttachError::Write)?;
        info!(attachment = name, node, volume, "a volume is attached");
        Ok(())
    }

    async fn detach(&self, name: &str, attachment: &VolumeAttachment) -> Result<(), AttachError> {
        if self.driver.can(Can::PublishUnpublishVolume) {
            let DetachedVolume { name: volume, handle, secret, is_gone } = self.detached_volume(attachment)?;
            let node = attachment.spec.node_name.as_str();
            let annotated = protection::node_id(attachment).map(str::to_owned);
            let node_id =
                annotated.or_else(|| self.node_id(node)).ok_or_else(|| AttachError::NoNode(node.to_owned()))?;
            let request = ControllerUnpublishVolumeRequest {
                volume_id: handle,
                node_id,
                secrets: read_secret(&self.client, secret.as_ref()).await?,
            };
            let answer = self.driver.client().controller_unpublish_volume(self.driver.request(request)).await;
            match answer {
                Ok(_) => {}
                // Neither Kubernetes nor the driver has the volume any more.
                Err(status) if is_gone && status.code() == Code::NotFound => {}
                Err(source) => return Err(AttachError::Detach { source: Box::new(source) }),
            }
            info!(attachment = name, node, volume, "a volume is detached");
        }
        let patch = finalizers::patch(&attachment.metadata, &[&self.finalizer], &[]);
        let api = Api::<VolumeAttachment>::all(self.client.clone());
        match api.patch(name, &parameters(), &Patch::Merge(patch)).await {
            Ok(written) => {
                self.caches.wrote_attachment(written);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(AttachError::Write(error)),
        }
    }

    /// Removes the finalizer from a volume that is deleted and attached nowhere. Returns whether
    /// nothing is left to do.
    pub(crate) async fn release(&self, volume: &PersistentVolume) -> bool {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        if volume.metadata.deletion_timestamp.is_none() || !finalizers::has(&volume.metadata, &self.finalizer) {
            return true;
        }
        if self.caches.attachment_of(name).is_some() {
            // The end of the attachment leads here again.
            return true;
        }
        let patch = finalizers::patch(&volume.metadata, &[&self.finalizer], &[]);
        let api = Api::<PersistentVolume>::all(self.client.clone());
        match api.patch(name, &parameters(), &Patch::Merge(patch)).await {
            Ok(written) => {
                self.caches.wrote_volume(written);
                true
            }
            Err(kube::Error::Api(status)) if status.code == 404 => true,
            Err(error) => {
                warn!(volume = name, "the finalizer of attachments cannot be removed: {error}");
                false
            }
        }
    }

    /// Writes the finalizers of attachment and volume and the node's id, as far as they are missing.
    async fn protect(
        &self,
        name: &str,
        attachment: &VolumeAttachment,
        volume: Option<&PersistentVolume>,
        node_id: &str,
    ) -> Result<(), kube::Error> {
        if let Some(volume) = volume.filter(|volume| !finalizers::has(&volume.metadata, &self.finalizer)) {
            let mut patch = finalizers::patch(&volume.metadata, &[], &[&self.finalizer]);
            annotate(&mut patch, protection::OF_VOLUMES);
            let api = Api::<PersistentVolume>::all(self.client.clone());
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            self.caches.wrote_volume(api.patch(name, &parameters(), &Patch::Merge(patch)).await?);
        }
        let has_node = protection::node_id(attachment) == Some(node_id);
        if !finalizers::has(&attachment.metadata, &self.finalizer) || !has_node {
            let mut patch = finalizers::patch(&attachment.metadata, &[], &[&self.finalizer]);
            annotate(&mut patch, (NODE_ID, node_id));
            let api = Api::<VolumeAttachment>::all(self.client.clone());
            self.caches.wrote_attachment(api.patch(name, &parameters(), &Patch::Merge(patch)).await?);
        }
        Ok(())
    }

    fn volume(&self, attachment: &VolumeAttachment) -> Result<AttachedVolume, AttachError> {
        let source = &attachment.spec.source;
        let (object, name, csi_volume) = match (&source.persistent_volume_name, &source.inline_volume_spec) {
            (Some(name), _) => {
                let object = self.caches.volume(name).ok_or_else(|| AttachError::NoVolume(name.to_owned()))?;
                let translated = migrated::as_csi(&object);
                let translated = translated.map_err(|source| AttachError::Untranslatable(name.clone(), source))?;
                let spec = translated.spec.clone();
                (Some(object), name.clone(), spec)
            }
            (None, Some(spec)) => {
                let handle = spec.csi.as_ref().map(|csi| csi.volume_handle.clone()).unwrap_or_default();
                (None, handle, Some(spec.clone()))
            }
            (None, None) => return Err(AttachError::NoName),
        };
        let spec = csi_volume.unwrap_or_default();
        let csi = spec.csi.clone().filter(|csi| csi.driver == self.driver.name());
        let csi = csi.ok_or_else(|| AttachError::OtherDriver(name.clone()))?;
        Ok(AttachedVolume { object, name, spec, csi })
    }

    /// Finds what is known of a volume that is to be detached. One whose PersistentVolume is gone
    /// was never attached if it is that of an attachment that was created protected: an attacher
    /// keeps the PersistentVolume before it calls the driver. The driver is asked all the same.
    fn detached_volume(&self, attachment: &VolumeAttachment) -> Result<DetachedVolume, AttachError> {
        match self.volume(attachment) {
            Ok(AttachedVolume { name, csi, .. }) => {
                let (handle, secret) = (csi.volume_handle, csi.controller_publish_secret_ref);
                Ok(DetachedVolume { name, handle, secret, is_gone: false })
            }
            Err(AttachError::NoVolume(name)) if let Some(handle) = protection::handle(attachment) => {
                Ok(DetachedVolume { name, handle: handle.to_owned(), secret: None, is_gone: true })
            }
            Err(error) => Err(error),
        }
    }

    fn node_id(&self, node: &str) -> Option<String> {
        let csi_node = self.caches.csi_node(node)?;
        csi_node.spec.drivers.iter().find(|one| one.name == self.driver.name()).map(|one| one.node_id.clone())
    }

    /// Writes the status of this attachment, and not of a later one with its name.
    async fn patch_status(&self, attachment: &VolumeAttachment, status: &serde_json::Value) -> Result<(), kube::Error> {
        let api = Api::<VolumeAttachment>::all(self.client.clone());
        let patch = serde_json::json!({ "metadata": { "uid": attachment.metadata.uid }, "status": status });
        let name = attachment.metadata.name.as_deref().unwrap_or_default();
        self.caches.wrote_attachment(api.patch_status(name, &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }
}

/// Adds an annotation to a merge patch of an object.
fn annotate(patch: &mut serde_json::Value, (key, value): (&str, &str)) {
    if let Some(metadata) = patch.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.insert("annotations".to_owned(), serde_json::json!({ key: value }));
    }
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
