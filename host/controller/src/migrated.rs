//! Volumes and classes of former in-tree plugins, as the CSI driver that serves them knows them.
//!
//! Objects keep the source and the provisioner that were written; what the driver is asked for is
//! translated, as Kubernetes' sidecars do.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use volhost_csi_translation::{MIGRATED_TO_ANNOTATION, Migration, TranslationError, to_csi};

/// Returns the volume with a CSI source: the volume itself, unless it has a former in-tree one.
///
/// # Errors
/// [`TranslationError`].
pub(crate) fn as_csi(volume: &PersistentVolume) -> Result<Cow<'_, PersistentVolume>, TranslationError> {
    match volume.spec.as_ref().and_then(Migration::of_volume) {
        Some(_) => to_csi(volume).map(Cow::Owned),
        None => Ok(Cow::Borrowed(volume)),
    }
}

/// Returns the CSI source of the volume if the driver serves it. A volume that cannot be translated
/// is no volume of the driver.
pub(crate) fn source_of(volume: &PersistentVolume, driver: &str) -> Option<CSIPersistentVolumeSource> {
    let csi = as_csi(volume).ok()?.spec.as_ref()?.csi.clone();
    csi.filter(|csi| csi.driver == driver)
}

/// Whether the driver serves volumes with this spec.
pub(crate) fn serves(driver: &str, spec: &PersistentVolumeSpec) -> bool {
    match Migration::of_volume(spec) {
        Some(migration) => migration.driver() == driver,
        None => spec.csi.as_ref().is_some_and(|csi| csi.driver == driver),
    }
}

/// Whether the driver provisions for a class or a claim that names this provisioner.
pub(crate) fn provisions(driver: &str, provisioner: &str) -> bool {
    provisioner == driver || Migration::of_plugin(provisioner).is_some_and(|migration| migration.driver() == driver)
}

/// Whether Kubernetes' controllers say that the driver serves the object.
pub(crate) fn is_migrated_to(driver: &str, object: &ObjectMeta) -> bool {
    object.annotations.as_ref().and_then(|all| all.get(MIGRATED_TO_ANNOTATION)).is_some_and(|to| to == driver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(spec: serde_json::Value) -> PersistentVolume {
        serde_json::from_value(json!({ "metadata": { "name": "pv" }, "spec": spec })).unwrap()
    }

    #[test]
    fn a_former_in_tree_volume_is_one_of_its_driver() {
        let disk = volume(json!({ "gcePersistentDisk": { "pdName": "disk" } }));
        let spec = disk.spec.clone().unwrap();
        assert!(serves("pd.csi.storage.gke.io", &spec) && !serves("ebs.csi.aws.com", &spec));
        let csi = source_of(&disk, "pd.csi.storage.gke.io").unwrap();
        assert_eq!(csi.volume_handle, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk");
        assert!(source_of(&disk, "ebs.csi.aws.com").is_none());
        let wrong = volume(json!({ "azureDisk": { "diskName": "d", "diskURI": "u", "kind": "Shared" } }));
        assert!(as_csi(&wrong).unwrap_err().to_string().starts_with("azureDisk.kind: "));
        let own = volume(json!({ "csi": { "driver": "disk.example", "volumeHandle": "one" } }));
        assert_eq!(*as_csi(&own).unwrap(), own);
    }

    #[test]
    fn a_driver_provisions_under_its_name_and_under_its_plugins() {
        assert!(provisions("disk.csi.azure.com", "kubernetes.io/azure-disk"));
        assert!(provisions("disk.example", "disk.example"));
        assert!(!provisions("disk.csi.azure.com", "kubernetes.io/azure-file"));
        let annotations = [(MIGRATED_TO_ANNOTATION.to_owned(), "disk.csi.azure.com".to_owned())].into();
        let object = ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() };
        assert!(is_migrated_to("disk.csi.azure.com", &object) && !is_migrated_to("file.csi.azure.com", &object));
    }
}
