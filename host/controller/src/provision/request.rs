//! From a claim and its class to `CreateVolume`, and from its answer to a PersistentVolume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
    SecretReference,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use volhost_proto::csi::{CapacityRange, CreateVolumeRequest, Volume};

use super::failure::ProvisionError;
use super::topology;
use crate::access;
use crate::protection::OF_VOLUMES;
use crate::secrets::{self, FS_TYPE, PREFIX};
use volhost_cluster_client::quantity;
use volhost_csi_translation::{MIGRATED_TO_ANNOTATION, Migration, from_csi};

/// Who made the volume.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The Secret for its deletion: the class may be gone then.
pub(crate) const DELETION_SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
/// The Secret's namespace.
pub(crate) const DELETION_SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";
/// Keeps the PersistentVolume until its volume is deleted.
pub(crate) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
const IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// What the operator chose for all claims.
#[derive(Debug, Clone)]
pub(crate) struct ProvisionOptions {
    /// The file system of volumes whose class names none.
    pub(crate) default_fs_type: String,
    /// Pass names to the driver.
    pub(crate) metadata: bool,
    /// The selected node's topology alone.
    pub(crate) strict_topology: bool,
}

/// A checked claim: the request without Secrets, source and topology, and the volume that will be
/// written.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) request: CreateVolumeRequest,
    pub(crate) provisioner_secret: Option<SecretReference>,
    csi: CSIPersistentVolumeSource,
}

/// The name of the volume for this claim, in the driver and in the cluster.
pub(crate) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// Checks the claim and its class, and makes the request.
///
/// # Errors
/// [`ProvisionError`], all final.
pub(crate) fn prepare(
    driver: &str,
    distinguishes_writers: bool,
    options: &ProvisionOptions,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Result<Prepared, ProvisionError> {
    let spec = claim.spec.clone().unwrap_or_default();
    if spec.selector.is_some() {
        return Err(ProvisionError::Selector);
    }
    let name = volume_name(claim);
    let none = BTreeMap::new();
    let parameters = class.parameters.as_ref().unwrap_or(&none);
    let fs_types: Vec<&String> = parameters
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case("fstype") || *key == FS_TYPE)
        .map(|(_, value)| value)
        .collect();
    let fs_type = match fs_types.as_slice() {
        [] => options.default_fs_type.clone(),
        [one] => (*one).clone(),
        _ => return Err(ProvisionError::FsTypes),
    };
    let bytes = quantity::storage(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    let required_bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok()).ok_or(ProvisionError::Size)?;
    let is_block = spec.volume_mode.as_deref() == Some("Block");
    let flags = class.mount_options.clone().unwrap_or_default();
    let capability = |mode: &String| {
        let mode = access::mode(std::slice::from_ref(mode), distinguishes_writers)?;
        Ok::<_, ProvisionError>(access::capability(mode, is_block, &fs_type, &flags))
    };
    let volume_capabilities = spec.access_modes.iter().flatten().map(capability).collect::<Result<Vec<_>, _>>()?;
    let mut passed = std::collections::HashMap::new();
    for (key, value) in parameters {
        if !key.starts_with(PREFIX) {
            passed.insert(key.clone(), value.clone());
        } else if !secrets::is_known(key) {
            return Err(ProvisionError::Parameter(key.clone()));
        }
    }
    if options.metadata {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        passed.insert("csi.storage.k8s.io/pvc/name".to_owned(), text(&claim.metadata.name));
        passed.insert("csi.storage.k8s.io/pvc/namespace".to_owned(), text(&claim.metadata.namespace));
        passed.insert("csi.storage.k8s.io/pv/name".to_owned(), name.clone());
    }
    let secret = |of| secrets::reference(of, parameters, &name, claim);
    let csi = CSIPersistentVolumeSource {
        driver: driver.to_owned(),
        fs_type: (!is_block && !fs_type.is_empty()).then(|| fs_type.clone()),
        controller_publish_secret_ref: secret(secrets::PUBLISH)?,
        node_stage_secret_ref: secret(secrets::NODE_STAGE)?,
        node_publish_secret_ref: secret(secrets::NODE_PUBLISH)?,
        controller_expand_secret_ref: secret(secrets::EXPAND)?,
        node_expand_secret_ref: secret(secrets::NODE_EXPAND)?,
        ..CSIPersistentVolumeSource::default()
    };
    let provisioner_secret = secret(secrets::PROVISIONER)?;
    secret(secrets::MODIFY)?;
    let request = CreateVolumeRequest {
        name,
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
        volume_capabilities,
        parameters: passed,
        ..CreateVolumeRequest::default()
    };
    Ok(Prepared { request, provisioner_secret, csi })
}

/// The PersistentVolume as the class's plugin would have written it, if the class is one of a former
/// in-tree plugin: the cluster's other objects and programs name its volumes so.
///
/// # Errors
/// What of the volume has no place there.
pub(crate) fn of_plugin(object: PersistentVolume, plugin: Option<Migration>) -> Result<PersistentVolume, String> {
    let Some(plugin) = plugin else { return Ok(object) };
    let mut object = from_csi(&object)
        .map_err(|error| format!("the created volume cannot be written as {}: {error}", plugin.source()))?;
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(PROVISIONED_BY.to_owned(), plugin.plugin().to_owned());
    annotations.insert(MIGRATED_TO_ANNOTATION.to_owned(), plugin.driver().to_owned());
    Ok(object)
}

impl Prepared {
    /// What is wrong with the driver's volume, if anything.
    pub(crate) fn problem(&self, volume: &Volume) -> Option<String> {
        let wanted = self.request.capacity_range.map(|range| range.required_bytes).unwrap_or_default();
        if volume.capacity_bytes != 0 && volume.capacity_bytes < wanted {
            let has = volume.capacity_bytes;
            return Some(format!("created volume capacity {has} less than requested capacity {wanted}"));
        }
        if self.request.volume_content_source.is_some() && volume.content_source.is_none() {
            return Some("volume content source missing".to_owned());
        }
        None
    }

    /// The PersistentVolume for the driver's volume. `finalizers`: besides the provisioner's own.
    pub(crate) fn persistent_volume(
        self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        volume: Volume,
        has_topology: bool,
        finalizers: Vec<String>,
    ) -> PersistentVolume {
        let spec = claim.spec.clone().unwrap_or_default();
        let wanted = self.request.capacity_range.map(|range| range.required_bytes).unwrap_or_default();
        // A size of 0 is one that the driver does not know.
        let bytes = if volume.capacity_bytes > 0 { volume.capacity_bytes } else { wanted };
        let secret = self.provisioner_secret.unwrap_or_default();
        let attacher = (!finalizers.is_empty()).then(|| (OF_VOLUMES.0, OF_VOLUMES.1.to_owned()));
        let annotations = [
            (PROVISIONED_BY, self.csi.driver.clone()),
            (DELETION_SECRET_NAME, secret.name.unwrap_or_default()),
            (DELETION_SECRET_NAMESPACE, secret.namespace.unwrap_or_default()),
        ];
        let annotations = annotations.into_iter().chain(attacher).map(|(key, value)| (key.to_owned(), value));
        let mut attributes: BTreeMap<String, String> = volume.volume_context.into_iter().collect();
        attributes.entry(IDENTITY.to_owned()).or_insert_with(|| self.csi.driver.clone());
        let csi = CSIPersistentVolumeSource {
            volume_handle: volume.volume_id,
            volume_attributes: Some(attributes),
            ..self.csi
        };
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(self.request.name),
                annotations: Some(annotations.collect()),
                finalizers: Some([vec![FINALIZER.to_owned()], finalizers].concat()),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                access_modes: spec.access_modes,
                capacity: Some([("storage".to_owned(), quantity::of_bytes(bytes.unsigned_abs()))].into()),
                claim_ref: Some(ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("PersistentVolumeClaim".to_owned()),
                    name: claim.metadata.name.clone(),
                    namespace: claim.metadata.namespace.clone(),
                    uid: claim.metadata.uid.clone(),
                    resource_version: claim.metadata.resource_version.clone(),
                    ..ObjectReference::default()
                }),
                csi: Some(csi),
                mount_options: class.mount_options.clone(),
                node_affinity: has_topology.then(|| topology::affinity(&volume.accessible_topology)).flatten(),
                persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
                storage_class_name: class.metadata.name.clone(),
                volume_mode: spec.volume_mode,
                volume_attributes_class_name: spec.volume_attributes_class_name.filter(|name| !name.is_empty()),
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        }
    }
}
