//! Volumes of Kubernetes' former in-tree plugins as volumes of the CSI drivers that replaced them.
//!
//! ```text
//!  PersistentVolume: gcePersistentDisk --to_csi----> PersistentVolume: csi, pd.csi.storage.gke.io
//!  a pod's volume:   awsElasticBlockStore --inline_to_csi--> PersistentVolume: csi, ebs.csi.aws.com
//!  StorageClass:     kubernetes.io/azure-disk --class_to_csi--> StorageClass: disk.csi.azure.com
//!  PersistentVolume: csi, of a class above --from_csi--> PersistentVolume: azureDisk
//! ```
//!
//! Kubernetes serves these sources by their drivers alone, on every node and in every controller.
//! Objects keep the source that they were written with, and each program translates what it reads.
//! The names, parameters and volume handles here are those of Kubernetes' `k8s.io/csi-translation-lib`
//! (v0.36), so that a volume has one name for all programs of a cluster.
//!
//! # Guarantees
//! - Pure: no I/O, no clock, no state. The argument is not changed.
//! - A translated volume has the handle that Kubernetes gives it, or there is an error: a value that
//!   would become part of a handle and change its meaning is refused.
//!
//! | module | its job |
//! |---|---|
//! | [`Migration`] | the table: source, plugin, driver, topology |
//! | `volume` | a PersistentVolume's or a pod's source to CSI |
//! | `written_back` | CSI to a PersistentVolume's source |
//! | `class` | the parameters of StorageClasses |
//! | `topology` | node affinity and labels |
//! | `values` | what a field may contain |
//! | `removed` | sources that Kubernetes removed without a translation |
#![forbid(unsafe_code)]

mod class;
mod error;
mod migration;
mod removed;
mod topology;
mod values;
mod volume;
mod written_back;

#[cfg(test)]
mod tests;

pub use class::class_to_csi;
pub use error::TranslationError;
pub use migration::{MIGRATED_TO_ANNOTATION, Migration};
pub use removed::removed;
pub use volume::{AZURE_RESOURCE_GROUP_ANNOTATION, PORTWORX_ANNOTATIONS, inline_to_csi, to_csi};
pub use written_back::from_csi;
