//! The files of objects that were added by request, so that a restart does not mistake their pods
//! for deleted. Blocks on the disk.
//!
//! ```text
//! ROOT/state/objects/STEM.pod.UID.json   a pod, until the machine restarts; the file's name protects it even if the content is damaged
//! ROOT/state/objects/STEM.json           an object of another kind
//! ROOT/state/objects/STEM.secret         empty: a secret of this name was added, and its content is in memory only
//! ROOT/state/objects/complete            every pod that was added by request has a file here; gone after a reboot
//! ROOT/provisioned/objects/STEM.json     claims, volumes and classes where volumes are made for claims; survives a reboot
//! ROOT/pods-by-request                   exists while pods have files; survives a reboot
//! ROOT/bindings.json                     bindings that the objects do not determine; survives a reboot
//! ```
//!
//! `STEM` is a digest of the object's key ([`volhost_objects::ObjectKey::file_stem`]).
//!
//! A marker without `complete` means that the machine restarted and that clients may not have added
//! all their pods again. Such a start waits for `SourcesReady`, even if other files exist: one
//! object that was added again says nothing of the others.

mod file_name;
mod files;
mod reading;

pub(crate) use files::ObjectFiles;
pub(super) use files::{FileChange, FilesWritten, ObjectFileError};
pub(super) use reading::DamagedPod;
pub(crate) use reading::StoredObjects;
