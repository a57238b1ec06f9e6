//! The manifest folder as a source of pods and the objects they refer to. It needs no cluster.
//!
//! ```text
//!  folder --list, read--> text --parse--> objects --+--> Changes --> ObjectStore --> populate
//!    ^                                   (checked)  |
//!    '-- inotify: watch                             '-- problems, by file
//! ```
//!
//! A file's life, as [`folder::ManifestFolder`] sees it. "Keeps" is rule R2: what is not known to be gone stays.
//!
//! ```text
//!            read, parsed                 cannot be read or parsed, is empty, or is being written
//!  (new) ------------------> good <-----------------------------------------> bad: keeps its last objects, or none if
//!    |                         |                                                |   it was never good; reported
//!    '--- not parsed ----------+--> bad                                         |
//!                              |                                                |
//!                              '------------ no longer in the folder -----------'--> its objects are gone
//! ```
//!
//! Only the folder itself is read: sub-folders are not followed, nor are files whose name begins with `.` or that an editor left
//! behind. Links to files are followed, so a mounted Kubernetes ConfigMap works as a folder.

pub mod binding;
pub mod changes;
pub mod claim;
pub mod csi_driver;
pub mod environment;
mod ephemeral;
pub mod error;
pub mod folder;
mod grace;
mod held_bindings;
pub mod immutable;
mod inotify;
mod keyed;
mod limits;
mod listing;
mod nested_mounts;
pub mod object;
pub mod parse;
pub mod persistent_volume;
pub mod pod;
mod pod_resources;
pub mod references;
mod selinux;
pub mod snapshot;
pub mod storage_class;
pub mod store;
mod tree;
mod unknown_fields;
pub mod volume_attachment;
pub(crate) mod volume_mounts;
pub mod volume_uses;
pub mod watch;

#[cfg(test)]
pub(crate) mod tests;

pub use changes::{Changes, Problem};
pub use claim::{ClaimObject, DataSource};
pub use error::ManifestError;
pub use folder::ManifestFolder;
pub use held_bindings::HeldBindings;
pub use object::{Content, Kind, Object, ObjectKey, Origin, derived_uid};
pub use parse::{DEFAULT_NAMESPACE, Parsed, parse};
pub use persistent_volume::PersistentVolumeObject;
pub use pod::{PodObject, PodVolume};
pub use storage_class::StorageClassObject;
pub use store::{Applied, ObjectStore, Source};
pub use volume_attachment::VolumeAttachmentObject;
pub use volume_uses::{MountUse, VolumeUse};
pub use watch::watch;
