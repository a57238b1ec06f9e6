//! Kubernetes objects as volhost reads them: checked on the way in, kept in one store, and resolved
//! to the volumes that pods use.
//!
//! ```text
//!  text --parse--> objects --+--> Changes --> ObjectStore --> populate --> desired pods
//!                (checked)   |                     |
//!                            '-- problems          '--> payload: what volumes of config maps,
//!                                                       secrets, tokens and bundles show
//! ```
//!
//! | module | its job |
//! |---|---|
//! | [`mod@parse`] | text to checked objects |
//! | [`pod`], [`claim`], ... | one kind of object each |
//! | [`store`], [`binding`] | all objects of all sources, and which claim has which volume |
//! | [`populate`] | pods and objects to resolved volumes |
//! | `migrated` | volumes of former in-tree sources, as their CSI drivers get them |
//! | [`payload`] | the objects that volumes show, for plugins' calls |
#![forbid(unsafe_code)]

pub mod binding;
pub mod changes;
pub mod claim;
pub mod csi_driver;
pub mod environment;
mod ephemeral;
pub mod error;
mod field_names;
pub mod immutable;
pub mod key;
mod keyed;
mod limits;
mod migrated;
mod nearest;
mod nested_mounts;
pub mod object;
pub mod parse;
pub mod payload;
pub mod persistent_volume;
pub mod pod;
mod pod_resources;
mod pod_volume;
pub mod populate;
pub mod references;
mod retained_bindings;
mod selinux;
pub mod snapshot;
pub mod storage_class;
pub mod store;
mod sub_path;
mod tree;
mod trust_bundle;
mod unknown_fields;
pub mod volume_attachment;
mod volume_mounts;
mod volume_uses;
mod written_source;

#[cfg(test)]
pub(crate) mod tests;

pub use changes::{Changes, Problem, ProblemKind};
pub use claim::{ClaimObject, DataSource};
pub use error::ManifestError;
pub use key::{DEFAULT_NAMESPACE, Kind, ObjectKey, Origin, derived_uid};
pub use migrated::CsiVolumeName;
pub use object::{Object, ObjectContent};
pub use parse::{Parsed, parse, parse_quietly};
pub use persistent_volume::PersistentVolumeObject;
pub use pod::PodObject;
pub use pod_volume::{DeviceUse, MountUse, PodVolume, VolumeUse};
pub use retained_bindings::{RetainedBindings, RetainedBindingsError};
pub use storage_class::StorageClassObject;
pub use store::{ObjectSource, ObjectStore, StoreEffects};
pub use unknown_fields::UnknownFieldNotice;
pub use volume_attachment::VolumeAttachmentObject;
pub use written_source::WrittenSource;
