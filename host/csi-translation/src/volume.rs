//! A source of a PersistentVolume or of a pod's volume as a CSI source.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, CSIPersistentVolumeSource, GCEPersistentDiskVolumeSource,
    PersistentVolume, PersistentVolumeSpec, SecretReference, Volume, VsphereVirtualDiskVolumeSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::error::{TranslationError, TranslationProblem};
use crate::migration::Migration;
use crate::topology;
use crate::values::{given, id, namespace, part, secret_name, shown, without};

/// The annotation with the resource group of an Azure file share.
pub const AZURE_RESOURCE_GROUP_ANNOTATION: &str = "kubernetes.io/azure-file-resource-group";
/// The annotations with name and namespace of the Secret of a Portworx volume.
pub const PORTWORX_ANNOTATIONS: [&str; 2] = ["openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace"];

/// What stands for a zone or project that is not known.
const UNSPECIFIED: &str = "UNSPECIFIED";
const PARTITION: &str = "partition";
pub(crate) const MANAGED: &str = "Managed";
pub(crate) const SHARE_NAME: &str = "sharename";
pub(crate) const STORAGE_POLICY: &str = "storagepolicyname";
/// The namespace of the Secret of an Azure file share, where nothing else says it.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// Translates a PersistentVolume: its source, its node affinity and its access modes.
///
/// # Errors
/// [`TranslationError`] naming the field below `spec`; also for a volume of no source in the table.
pub fn to_csi(volume: &PersistentVolume) -> Result<PersistentVolume, TranslationError> {
    let mut volume = volume.clone();
    let migration = volume.spec.as_ref().and_then(Migration::of_volume);
    let migration = migration.ok_or_else(|| TranslationError::new("spec", TranslationProblem::NotMigrated))?;
    let csi = source_of(&volume, migration)?;
    if migration == Migration::VsphereVolume {
        topology::to_vsphere(&mut volume);
    } else if let (Some(key), true) = (migration.zone_key(), migration != Migration::AzureDisk) {
        // Azure's own topology is in the volume already.
        topology::to_csi(&mut volume, key);
    }
    let spec = volume.spec.get_or_insert_default();
    remove_source(spec, migration);
    spec.csi = Some(csi);
    if migration == Migration::GcePersistentDisk {
        spec.access_modes = spec.access_modes.take().map(google_modes);
    }
    Ok(volume)
}

/// Translates a pod's own volume to a PersistentVolume. `pod_namespace`: of the pod, and so of its
/// Secrets.
///
/// # Errors
/// As [`to_csi`], naming the field below the volume.
pub fn inline_to_csi(volume: &Volume, pod_namespace: &str) -> Result<PersistentVolume, TranslationError> {
    let migration = Migration::of_inline(volume)
        .ok_or_else(|| TranslationError::new(&volume.name, TranslationProblem::NotMigrated))?;
    let (csi, mode) = inline_source_of(volume, migration, pod_namespace)?;
    // The name is unique for each disk: of it, the staging path is made.
    let name = match migration {
        Migration::AzureDisk | Migration::AzureFile => csi.volume_handle.clone(),
        Migration::GcePersistentDisk => {
            format!("{}-{}", csi.driver, volume.gce_persistent_disk.as_ref().map_or("", |disk| disk.pd_name.as_str()))
        }
        _ => format!("{}-{}", csi.driver, csi.volume_handle),
    };
    Ok(PersistentVolume {
        metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(vec![mode.to_owned()]),
            csi: Some(csi),
            volume_mode: Some("Filesystem".to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    })
}

fn source_of(volume: &PersistentVolume, migration: Migration) -> Result<CSIPersistentVolumeSource, TranslationError> {
    let none = PersistentVolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&none);
    let missing = || TranslationError::new(migration.source(), TranslationProblem::Missing);
    match migration {
        Migration::AwsElasticBlockStore => aws(spec.aws_elastic_block_store.as_ref().ok_or_else(missing)?),
        Migration::AzureDisk => azure_disk(spec.azure_disk.as_ref().ok_or_else(missing)?),
        Migration::AzureFile => azure_file(volume, spec),
        Migration::Cinder => {
            let source = spec.cinder.as_ref().ok_or_else(missing)?;
            cinder(&source.volume_id, source.read_only, source.fs_type.as_ref())
        }
        Migration::GcePersistentDisk => {
            let source = spec.gce_persistent_disk.as_ref().ok_or_else(missing)?;
            google(source, &topology::labelled_zones(volume))
        }
        Migration::PortworxVolume => {
            let source = spec.portworx_volume.as_ref().ok_or_else(missing)?;
            Ok(with_secret(portworx(&source.volume_id, source.fs_type.as_ref())?, portworx_secret(volume)?.as_ref()))
        }
        Migration::VsphereVolume => vsphere(spec.vsphere_volume.as_ref().ok_or_else(missing)?),
    }
}

fn inline_source_of(
    volume: &Volume,
    migration: Migration,
    pod_namespace: &str,
) -> Result<(CSIPersistentVolumeSource, &'static str), TranslationError> {
    const ONCE: &str = "ReadWriteOnce";
    let missing = || TranslationError::new(migration.source(), TranslationProblem::Missing);
    let shared = |read_only: Option<bool>| if read_only == Some(true) { "ReadOnlyMany" } else { ONCE };
    Ok(match migration {
        Migration::AwsElasticBlockStore => (aws(volume.aws_elastic_block_store.as_ref().ok_or_else(missing)?)?, ONCE),
        Migration::AzureDisk => {
            let mut csi = azure_disk(volume.azure_disk.as_ref().ok_or_else(missing)?)?;
            // Of a pod's own volume, Kubernetes leaves an empty one out.
            if let Some(attributes) = &mut csi.volume_attributes {
                attributes.retain(|key, value| key != "cachingmode" || !value.is_empty());
            }
            (csi, ONCE)
        }
        Migration::AzureFile => {
            let source = volume.azure_file.as_ref().ok_or_else(missing)?;
            let namespace = if pod_namespace.is_empty() { DEFAULT_NAMESPACE } else { pod_namespace };
            let (secret, share) = (source.secret_name.as_str(), source.share_name.as_str());
            let csi = azure_share("", secret, share, &volume.name, namespace, source.read_only)?;
            (csi, "ReadWriteMany")
        }
        Migration::Cinder => {
            let source = volume.cinder.as_ref().ok_or_else(missing)?;
            (cinder(&source.volume_id, source.read_only, source.fs_type.as_ref())?, ONCE)
        }
        Migration::GcePersistentDisk => {
            let source = volume.gce_persistent_disk.as_ref().ok_or_else(missing)?;
            (google(source, &[])?, shared(source.read_only))
        }
        Migration::PortworxVolume => {
            let source = volume.portworx_volume.as_ref().ok_or_else(missing)?;
            (portworx(&source.volume_id, source.fs_type.as_ref())?, shared(source.read_only))
        }
        Migration::VsphereVolume => (vsphere(volume.vsphere_volume.as_ref().ok_or_else(missing)?)?, ONCE),
    })
}

fn remove_source(spec: &mut PersistentVolumeSpec, migration: Migration) {
    match migration {
        Migration::AwsElasticBlockStore => spec.aws_elastic_block_store = None,
        Migration::AzureDisk => spec.azure_disk = None,
        Migration::AzureFile => spec.azure_file = None,
        Migration::Cinder => spec.cinder = None,
        Migration::GcePersistentDisk => spec.gce_persistent_disk = None,
        Migration::PortworxVolume => spec.portworx_volume = None,
        Migration::VsphereVolume => spec.vsphere_volume = None,
    }
}

/// A CSI source without secrets. `attributes` without entries are left out, as Kubernetes does.
fn csi(
    migration: Migration,
    handle: String,
    read_only: Option<bool>,
    fs_type: Option<&String>,
    attributes: BTreeMap<String, String>,
) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        driver: migration.driver().to_owned(),
        volume_handle: handle,
        read_only: read_only.filter(|read_only| *read_only),
        fs_type: given(fs_type),
        volume_attributes: Some(attributes).filter(|all| !all.is_empty()),
        ..CSIPersistentVolumeSource::default()
    }
}

fn attributes<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn aws(source: &AWSElasticBlockStoreVolumeSource) -> Result<CSIPersistentVolumeSource, TranslationError> {
    let handle = aws_volume("awsElasticBlockStore.volumeID", &source.volume_id)?;
    let partition = attributes([(PARTITION, source.partition.unwrap_or_default().to_string())]);
    let fs_type = source.fs_type.as_ref();
    Ok(csi(Migration::AwsElasticBlockStore, handle, source.read_only, fs_type, partition))
}

/// `aws://ZONE/vol-...`, `aws:///vol-...`, or the id itself.
fn aws_volume(field: &str, text: &str) -> Result<String, TranslationError> {
    let text = id(field, text)?;
    let Some(rest) = text.strip_prefix("aws://") else { return Ok(text.to_owned()) };
    let path = rest.split_once('/').map_or("", |(_zone, path)| path).trim_matches('/');
    let is_id = path.strip_prefix("vol-").is_some_and(|id| !id.chars().any(|one| "/?#%".contains(one)));
    if is_id {
        return Ok(path.to_owned());
    }
    Err(TranslationError::new(field, TranslationProblem::AwsVolume(shown(text))))
}

fn azure_disk(source: &AzureDiskVolumeSource) -> Result<CSIPersistentVolumeSource, TranslationError> {
    if let Some(kind) = source.kind.as_ref().filter(|kind| !kind.eq_ignore_ascii_case(MANAGED)) {
        return Err(TranslationError::new("azureDisk.kind", TranslationProblem::Unmanaged(shown(kind))));
    }
    let handle = id("azureDisk.diskURI", &source.disk_uri)?.to_owned();
    let mut all = attributes([("kind", MANAGED.to_owned())]);
    all.extend(source.caching_mode.iter().map(|mode| ("cachingmode".to_owned(), mode.clone())));
    all.extend(source.fs_type.iter().map(|fs_type| ("fstype".to_owned(), fs_type.clone())));
    Ok(csi(Migration::AzureDisk, handle, source.read_only, source.fs_type.as_ref(), all))
}

fn azure_file(
    volume: &PersistentVolume,
    spec: &PersistentVolumeSpec,
) -> Result<CSIPersistentVolumeSource, TranslationError> {
    let source =
        spec.azure_file.as_ref().ok_or_else(|| TranslationError::new("azureFile", TranslationProblem::Missing))?;
    let annotations = volume.metadata.annotations.as_ref();
    let group = annotations.and_then(|all| all.get(AZURE_RESOURCE_GROUP_ANNOTATION)).map_or("", String::as_str);
    without("metadata.annotations", group, |one| one == '#' || one.is_control(), "no `#` in a resource group")?;
    let of_claim = || spec.claim_ref.as_ref().and_then(|claim| claim.namespace.as_ref());
    let namespace = source.secret_namespace.as_ref().or_else(of_claim).filter(|namespace| !namespace.is_empty());
    let namespace = namespace
        .ok_or_else(|| TranslationError::new("azureFile.secretNamespace", TranslationProblem::SecretNamespace))?;
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    azure_share(group, &source.secret_name, &source.share_name, name, namespace, source.read_only)
}

/// `name`: makes the handle unique, since the same share may be mounted with other options.
fn azure_share(
    group: &str,
    secret: &str,
    share: &str,
    name: &str,
    secret_namespace: &str,
    read_only: Option<bool>,
) -> Result<CSIPersistentVolumeSource, TranslationError> {
    part("azureFile.shareName", share, '#', "no `#` in a share's name")?;
    secret_name("azureFile.secretName", secret)?;
    namespace("azureFile.secretNamespace", secret_namespace)?;
    let account = storage_account(secret).unwrap_or(secret);
    let handle = format!("{group}#{account}#{share}#{name}#{secret_namespace}");
    let shared = attributes([(SHARE_NAME, share.to_owned())]);
    let secret = SecretReference { name: Some(secret.to_owned()), namespace: Some(secret_namespace.to_owned()) };
    let csi = csi(Migration::AzureFile, handle, read_only, None, shared);
    Ok(CSIPersistentVolumeSource { node_stage_secret_ref: Some(secret), ..csi })
}

/// The account in the name that Azure's cloud provider gives a Secret:
/// `azure-storage-account-ACCOUNT-secret`.
fn storage_account(secret: &str) -> Option<&str> {
    let (_, rest) = secret.split_once("azure-storage-account-")?;
    let (account, _) = rest.rsplit_once("-secret")?;
    Some(account).filter(|account| !account.is_empty())
}

fn cinder(
    volume: &str,
    read_only: Option<bool>,
    fs_type: Option<&String>,
) -> Result<CSIPersistentVolumeSource, TranslationError> {
    let handle = id("cinder.volumeID", volume)?.to_owned();
    Ok(csi(Migration::Cinder, handle, read_only, fs_type, BTreeMap::new()))
}

fn google(
    source: &GCEPersistentDiskVolumeSource,
    zones: &[String],
) -> Result<CSIPersistentVolumeSource, TranslationError> {
    let name = part("gcePersistentDisk.pdName", &source.pd_name, '/', "no `/` in a disk's name")?;
    let zone_rule = |zone: &String| {
        without("metadata.labels", zone, |one| one == '/' || one.is_control(), "no `/` in a zone's name").map(drop)
    };
    zones.iter().try_for_each(zone_rule)?;
    let place = match zones {
        [zone] if !zone.is_empty() => format!("zones/{zone}"),
        [] | [_] => format!("zones/{UNSPECIFIED}"),
        several => format!("regions/{}", topology::google_region(several)?),
    };
    let handle = format!("projects/{UNSPECIFIED}/{place}/disks/{name}");
    let partition = source.partition.filter(|partition| *partition != 0).map(|partition| partition.to_string());
    let partition = attributes([(PARTITION, partition.unwrap_or_default())]);
    let fs_type = source.fs_type.as_ref();
    Ok(csi(Migration::GcePersistentDisk, handle, source.read_only, fs_type, partition))
}

/// The in-tree plugin took every mode for ReadWriteOnce that is not ReadOnlyMany alone; the driver
/// refuses others.
fn google_modes(modes: Vec<String>) -> Vec<String> {
    let is_read_only = !modes.is_empty()
        && modes.iter().all(|mode| mode == "ReadOnlyMany" || mode == "ReadWriteOncePod")
        && modes.iter().any(|mode| mode == "ReadOnlyMany");
    vec![if is_read_only { "ReadOnlyMany" } else { "ReadWriteOnce" }.to_owned()]
}

fn portworx(volume: &str, fs_type: Option<&String>) -> Result<CSIPersistentVolumeSource, TranslationError> {
    let handle = id("portworxVolume.volumeID", volume)?.to_owned();
    Ok(csi(Migration::PortworxVolume, handle, None, fs_type, BTreeMap::new()))
}

/// The Secret that a Portworx volume's annotations name, if they name one.
fn portworx_secret(volume: &PersistentVolume) -> Result<Option<SecretReference>, TranslationError> {
    let annotation = |key: &str| volume.metadata.annotations.as_ref()?.get(key);
    let [name_key, namespace_key] = PORTWORX_ANNOTATIONS;
    let (Some(name), Some(in_namespace)) = (annotation(name_key), annotation(namespace_key)) else { return Ok(None) };
    secret_name("metadata.annotations", name)?;
    namespace("metadata.annotations", in_namespace)?;
    Ok(Some(SecretReference { name: Some(name.clone()), namespace: Some(in_namespace.clone()) }))
}

fn with_secret(csi: CSIPersistentVolumeSource, secret: Option<&SecretReference>) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        controller_publish_secret_ref: secret.cloned(),
        node_stage_secret_ref: secret.cloned(),
        node_publish_secret_ref: secret.cloned(),
        controller_expand_secret_ref: secret.cloned(),
        node_expand_secret_ref: secret.cloned(),
        ..csi
    }
}

fn vsphere(source: &VsphereVirtualDiskVolumeSource) -> Result<CSIPersistentVolumeSource, TranslationError> {
    let handle = id("vsphereVolume.volumePath", &source.volume_path)?.to_owned();
    let policy = given(source.storage_policy_name.as_ref()).map(|policy| (STORAGE_POLICY.to_owned(), policy));
    Ok(csi(Migration::VsphereVolume, handle, None, source.fs_type.as_ref(), policy.into_iter().collect()))
}
