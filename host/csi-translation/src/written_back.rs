//! A CSI source as the source of an in-tree plugin: a volume that was made for a class of the
//! plugin is written as its other volumes are.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, AzureFilePersistentVolumeSource,
    CSIPersistentVolumeSource, CinderPersistentVolumeSource, GCEPersistentDiskVolumeSource, PersistentVolume,
    PortworxVolumeSource, VsphereVirtualDiskVolumeSource,
};

use crate::error::{TranslationError, TranslationProblem};
use crate::migration::Migration;
use crate::topology;
use crate::values::{given, shown};
use crate::volume::{AZURE_RESOURCE_GROUP_ANNOTATION, DEFAULT_NAMESPACE, MANAGED, SHARE_NAME};

const HANDLE: &str = "csi.volumeHandle";
/// The number of a disk's name among the parts of Google's handle.
const GOOGLE_NAME: usize = 5;

/// Translates a PersistentVolume of a driver in the table to one of its in-tree plugin.
///
/// # Errors
/// [`TranslationError`] naming the field below `spec`; also for a volume of another driver.
pub fn from_csi(volume: &PersistentVolume) -> Result<PersistentVolume, TranslationError> {
    let mut volume = volume.clone();
    let csi = volume.spec.as_mut().and_then(|spec| spec.csi.take());
    let not_migrated = || TranslationError::new("csi.driver", TranslationProblem::NotMigrated);
    let csi = csi.ok_or_else(not_migrated)?;
    let migration = Migration::of_driver(&csi.driver).ok_or_else(not_migrated)?;
    match migration {
        Migration::AwsElasticBlockStore => {
            let source = amazon(csi)?;
            topology::from_csi(&mut volume, zone_key(migration), Some(topology::amazon_region))?;
            volume.spec.get_or_insert_default().aws_elastic_block_store = Some(source);
        }
        Migration::GcePersistentDisk => {
            let source = google(csi)?;
            topology::from_csi(&mut volume, zone_key(migration), Some(topology::google_region))?;
            volume.spec.get_or_insert_default().gce_persistent_disk = Some(source);
        }
        Migration::AzureDisk => volume.spec.get_or_insert_default().azure_disk = Some(azure_disk(csi)?),
        Migration::AzureFile => azure_file(csi, &mut volume)?,
        Migration::Cinder => {
            topology::from_csi(&mut volume, zone_key(migration), None)?;
            volume.spec.get_or_insert_default().cinder = Some(CinderPersistentVolumeSource {
                volume_id: csi.volume_handle,
                fs_type: csi.fs_type,
                read_only: csi.read_only,
                secret_ref: None,
            });
        }
        Migration::PortworxVolume => {
            volume.spec.get_or_insert_default().portworx_volume = Some(PortworxVolumeSource {
                volume_id: csi.volume_handle,
                fs_type: csi.fs_type,
                read_only: csi.read_only,
            });
        }
        Migration::VsphereVolume => {
            topology::from_vsphere(&mut volume);
            let path = csi.volume_attributes.as_ref().and_then(|all| all.get("initialvolumefilepath"));
            volume.spec.get_or_insert_default().vsphere_volume = Some(VsphereVirtualDiskVolumeSource {
                volume_path: path.cloned().unwrap_or_default(),
                fs_type: csi.fs_type,
                ..VsphereVirtualDiskVolumeSource::default()
            });
        }
    }
    Ok(volume)
}

fn zone_key(migration: Migration) -> &'static str {
    migration.zone_key().unwrap_or_default()
}

fn partition(attributes: Option<&BTreeMap<String, String>>) -> Result<Option<i32>, TranslationError> {
    let text = attributes.and_then(|all| all.get("partition")).filter(|text| !text.is_empty());
    let number = |text: &String| {
        let wrong =
            || TranslationError::new("csi.volumeAttributes.partition", TranslationProblem::Partition(shown(text)));
        text.parse::<i32>().map_err(|_| wrong())
    };
    Ok(text.map(number).transpose()?.filter(|number| *number != 0))
}

fn amazon(csi: CSIPersistentVolumeSource) -> Result<AWSElasticBlockStoreVolumeSource, TranslationError> {
    Ok(AWSElasticBlockStoreVolumeSource {
        partition: partition(csi.volume_attributes.as_ref())?,
        volume_id: csi.volume_handle,
        fs_type: csi.fs_type,
        read_only: csi.read_only,
    })
}

fn google(csi: CSIPersistentVolumeSource) -> Result<GCEPersistentDiskVolumeSource, TranslationError> {
    let name = csi.volume_handle.split('/').nth(GOOGLE_NAME);
    let name = name.ok_or_else(|| no_handle(&csi, Migration::GcePersistentDisk))?.to_owned();
    Ok(GCEPersistentDiskVolumeSource {
        pd_name: name,
        partition: partition(csi.volume_attributes.as_ref())?,
        fs_type: csi.fs_type,
        read_only: csi.read_only,
    })
}

fn no_handle(csi: &CSIPersistentVolumeSource, migration: Migration) -> TranslationError {
    let problem = TranslationProblem::Handle { shown: shown(&csi.volume_handle), driver: migration.driver() };
    TranslationError::new(HANDLE, problem)
}

/// The attribute of this name, in whatever case it is written.
fn attribute(csi: &CSIPersistentVolumeSource, name: &str) -> Option<String> {
    let found = csi.volume_attributes.iter().flatten().find(|(key, _)| key.eq_ignore_ascii_case(name));
    given(found.map(|(_, value)| value))
}

fn azure_disk(csi: CSIPersistentVolumeSource) -> Result<AzureDiskVolumeSource, TranslationError> {
    let name = disk_name(&csi.volume_handle).ok_or_else(|| no_handle(&csi, Migration::AzureDisk))?;
    Ok(AzureDiskVolumeSource {
        disk_name: name.to_owned(),
        caching_mode: attribute(&csi, "cachingmode"),
        // Kubernetes writes both, also when they are empty.
        fs_type: Some(attribute(&csi, "fstype").or(csi.fs_type).unwrap_or_default()),
        read_only: Some(csi.read_only.unwrap_or_default()),
        disk_uri: csi.volume_handle,
        kind: Some(MANAGED.to_owned()),
    })
}

/// The name at the end of a disk's address: of a managed one
/// `.../subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/disks/NAME`, of an old one
/// `https://HOST/vhds/NAME`.
fn disk_name(address: &str) -> Option<&str> {
    let is_old = address.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http"));
    if is_old {
        let (before, name) = address.rsplit_once("/vhds/")?;
        return before.contains("://").then_some(name).filter(|name| !name.is_empty());
    }
    let (before, name) = address.rsplit_once("/providers/Microsoft.Compute/disks/")?;
    let (_, group) = before.split_once("/subscriptions/")?;
    group.contains("/resourceGroups/").then_some(name).filter(|name| !name.is_empty())
}

fn azure_file(csi: CSIPersistentVolumeSource, volume: &mut PersistentVolume) -> Result<(), TranslationError> {
    let mut source = AzureFilePersistentVolumeSource {
        read_only: csi.read_only,
        share_name: attribute(&csi, SHARE_NAME).unwrap_or_default(),
        secret_name: attribute(&csi, "secretname").unwrap_or_default(),
        secret_namespace: attribute(&csi, "secretnamespace"),
    };
    let secret =
        csi.node_stage_secret_ref.as_ref().filter(|secret| secret.name.as_ref().is_some_and(|name| !name.is_empty()));
    if let Some(secret) = secret {
        source.secret_name = secret.name.clone().unwrap_or_default();
        source.secret_namespace = Some(secret.namespace.clone().unwrap_or_default());
    }
    if source.share_name.is_empty() || source.secret_name.is_empty() {
        let mut parts = csi.volume_handle.split('#');
        let (Some(group), Some(account), Some(share)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(no_handle(&csi, Migration::AzureFile));
        };
        if source.share_name.is_empty() {
            share.clone_into(&mut source.share_name);
        }
        if source.secret_name.is_empty() {
            source.secret_name = format!("azure-storage-account-{account}-secret");
        }
        if !group.is_empty() {
            let annotations = volume.metadata.annotations.get_or_insert_default();
            annotations.insert(AZURE_RESOURCE_GROUP_ANNOTATION.to_owned(), group.to_owned());
        }
    }
    source.secret_namespace.get_or_insert_with(|| DEFAULT_NAMESPACE.to_owned());
    volume.spec.get_or_insert_default().azure_file = Some(source);
    Ok(())
}
