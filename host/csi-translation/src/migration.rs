//! The table of plugins and the drivers that replaced them.

use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Volume};

/// The annotation by which Kubernetes' controllers say which CSI driver serves a claim or volume
/// that names an in-tree plugin.
pub const MIGRATED_TO_ANNOTATION: &str = "pv.kubernetes.io/migrated-to";

/// An in-tree plugin of Kubernetes that a CSI driver has replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Migration {
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore,
    /// `azureDisk`.
    AzureDisk,
    /// `azureFile`.
    AzureFile,
    /// `cinder`.
    Cinder,
    /// `gcePersistentDisk`.
    GcePersistentDisk,
    /// `portworxVolume`.
    PortworxVolume,
    /// `vsphereVolume`.
    VsphereVolume,
}

/// A line of the table.
struct Line {
    migration: Migration,
    source: &'static str,
    plugin: &'static str,
    driver: &'static str,
    zone_key: Option<&'static str>,
}

const TABLE: [Line; 7] = [
    Line {
        migration: Migration::AwsElasticBlockStore,
        source: "awsElasticBlockStore",
        plugin: "kubernetes.io/aws-ebs",
        driver: "ebs.csi.aws.com",
        zone_key: Some("topology.ebs.csi.aws.com/zone"),
    },
    Line {
        migration: Migration::AzureDisk,
        source: "azureDisk",
        plugin: "kubernetes.io/azure-disk",
        driver: "disk.csi.azure.com",
        zone_key: Some("topology.disk.csi.azure.com/zone"),
    },
    Line {
        migration: Migration::AzureFile,
        source: "azureFile",
        plugin: "kubernetes.io/azure-file",
        driver: "file.csi.azure.com",
        zone_key: None,
    },
    Line {
        migration: Migration::Cinder,
        source: "cinder",
        plugin: "kubernetes.io/cinder",
        driver: "cinder.csi.openstack.org",
        zone_key: Some("topology.cinder.csi.openstack.org/zone"),
    },
    Line {
        migration: Migration::GcePersistentDisk,
        source: "gcePersistentDisk",
        plugin: "kubernetes.io/gce-pd",
        driver: "pd.csi.storage.gke.io",
        zone_key: Some("topology.gke.io/zone"),
    },
    Line {
        migration: Migration::PortworxVolume,
        source: "portworxVolume",
        plugin: "kubernetes.io/portworx-volume",
        driver: "pxd.portworx.com",
        zone_key: None,
    },
    Line {
        migration: Migration::VsphereVolume,
        source: "vsphereVolume",
        plugin: "kubernetes.io/vsphere-volume",
        driver: "csi.vsphere.vmware.com",
        zone_key: Some("topology.csi.vmware.com/zone"),
    },
];

impl Migration {
    /// Every migration, by the name of its source.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|line| line.migration)
    }

    /// Returns the migration of a source: the field `gcePersistentDisk`.
    pub fn of_source(source: &str) -> Option<Self> {
        Self::find(|line| line.source == source)
    }

    /// Returns the migration of a plugin, as StorageClasses and annotations name it:
    /// `kubernetes.io/gce-pd`.
    pub fn of_plugin(plugin: &str) -> Option<Self> {
        Self::find(|line| line.plugin == plugin)
    }

    /// Returns the migration to a CSI driver.
    pub fn of_driver(driver: &str) -> Option<Self> {
        Self::find(|line| line.driver == driver)
    }

    /// Returns the migration of a PersistentVolume with this spec.
    pub fn of_volume(spec: &PersistentVolumeSpec) -> Option<Self> {
        let sources = [
            (Self::AwsElasticBlockStore, spec.aws_elastic_block_store.is_some()),
            (Self::AzureDisk, spec.azure_disk.is_some()),
            (Self::AzureFile, spec.azure_file.is_some()),
            (Self::Cinder, spec.cinder.is_some()),
            (Self::GcePersistentDisk, spec.gce_persistent_disk.is_some()),
            (Self::PortworxVolume, spec.portworx_volume.is_some()),
            (Self::VsphereVolume, spec.vsphere_volume.is_some()),
        ];
        sources.into_iter().find_map(|(migration, is_source)| is_source.then_some(migration))
    }

    /// Returns the migration of a pod's own volume.
    pub fn of_inline(volume: &Volume) -> Option<Self> {
        let sources = [
            (Self::AwsElasticBlockStore, volume.aws_elastic_block_store.is_some()),
            (Self::AzureDisk, volume.azure_disk.is_some()),
            (Self::AzureFile, volume.azure_file.is_some()),
            (Self::Cinder, volume.cinder.is_some()),
            (Self::GcePersistentDisk, volume.gce_persistent_disk.is_some()),
            (Self::PortworxVolume, volume.portworx_volume.is_some()),
            (Self::VsphereVolume, volume.vsphere_volume.is_some()),
        ];
        sources.into_iter().find_map(|(migration, is_source)| is_source.then_some(migration))
    }

    /// The field of the source.
    pub fn source(self) -> &'static str {
        self.line().map_or("", |line| line.source)
    }

    /// The plugin's name.
    pub fn plugin(self) -> &'static str {
        self.line().map_or("", |line| line.plugin)
    }

    /// The CSI driver's name.
    pub fn driver(self) -> &'static str {
        self.line().map_or("", |line| line.driver)
    }

    /// The driver's topology key of zones; none for a driver without zones.
    pub(crate) fn zone_key(self) -> Option<&'static str> {
        self.line().and_then(|line| line.zone_key)
    }

    fn line(self) -> Option<&'static Line> {
        TABLE.iter().find(|line| line.migration == self)
    }

    fn find(is_wanted: impl Fn(&Line) -> bool) -> Option<Self> {
        TABLE.iter().find(|line| is_wanted(line)).map(|line| line.migration)
    }
}
