//! The files of objects that were added by request, so that a restart does not take their pods for gone. Blocks on the disk.
//!
//! ```text
//! ROOT/state/objects/STEM.pod.UID.json   a pod, until the machine restarts; the name protects it even if the file is damaged
//! ROOT/state/objects/STEM.json           an object of another kind
//! ROOT/state/objects/STEM.secret         empty: a secret of this name was added, and its content is in memory only
//! ROOT/state/objects/complete            every pod that was added by request is kept here; goes with the machine
//! ROOT/provisioned/objects/STEM.json     claims, volumes and classes where volumes are made for claims; outlives the machine
//! ROOT/pods-by-request                   there while pods are kept; outlives the machine
//! ROOT/bindings.json                     bindings that the objects do not say; outlives the machine
//! ```
//!
//! `STEM` is a digest of the object's key ([`ObjectKey::file_stem`]).
//!
//! A marker without `complete` means that the machine restarted and that clients may not have added all their pods again.
//! A start that finds this waits for `SourcesReady`, whatever else is kept: one object that was added again says nothing of
//! the others.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError};

use crate::provision;
use volhost_objects::{HeldBindings, Kind, Object, ObjectKey};
use volhost_volume_ops::volume_ops::VolumeOps;

mod file_name;
mod reading;

pub(super) use reading::{DamagedPod, Kept};

/// The folder of objects that were added by request, below the state folder.
use volhost_volume_ops::layout::KEPT_OBJECTS as FOLDER;
/// The file below the root folder that says that pods were added by request.
const MARKER: &str = "pods-by-request";
/// The file below the root folder with the bindings that the objects do not say.
const BINDINGS: &str = "bindings.json";
/// The file beside the kept objects that says that they include every pod that was added by request.
const COMPLETE: &str = "complete";
/// What the marker says to people.
const MARKER_TEXT: &[u8] =
    b"Pods were added over the API. After the machine restarts, volhost removes nothing of pods that no source names\nbefore a client calls SourcesReady (`volhost apply --complete`).\n";
/// An object as the API server stores it at the most, and then some.
const MAX_OBJECT_BYTES: usize = 4 << 20;
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Where a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Gone with the machine.
    State,
    /// Beside the records of made volumes.
    Disk,
    /// The root folder.
    Root,
}

/// One file, and what it is to hold; none: it is to go.
#[derive(Debug)]
pub(super) struct FileChange {
    place: Place,
    name: OsString,
    content: Option<Vec<u8>>,
}

/// Why files could not be changed.
#[derive(Debug, Error)]
pub(super) enum KeepError {
    /// Nothing was changed.
    #[error("{0}")]
    Change(#[source] KernelError),
    /// And what was changed before could not be changed back.
    #[error("{cause}; and taking back what was written before failed too: {undo}")]
    Undo {
        /// What failed first.
        #[source]
        cause: KernelError,
        /// What failed then.
        undo: Box<KernelError>,
    },
}

impl KeepError {
    /// Whether the disk is full.
    pub(super) fn is_full(&self) -> bool {
        let (Self::Change(cause) | Self::Undo { cause, .. }) = self;
        cause.kind() == ErrorKind::NoSpace
    }
}

/// The files.
#[derive(Debug, Clone)]
pub(super) struct KeptFiles {
    kernel: Arc<dyn Kernel>,
    root: Arc<Directory>,
    state: Arc<Directory>,
    provisions: bool,
}

impl KeptFiles {
    /// The files of this node. With `provisions`, claims and what belongs to them outlive the machine.
    pub(super) fn new(volume_ops: &VolumeOps, provisions: bool) -> Self {
        let (kernel, root) = (volume_ops.kernel().clone(), volume_ops.root().clone());
        Self { kernel, root, state: volume_ops.state().clone(), provisions }
    }

    /// The files that keep an object: the one that is written, and what is removed for it. `document` is the object as JSON.
    pub(super) fn keep(&self, object: &Object, document: &str) -> Vec<FileChange> {
        // A secret is never on disk: only that there was one of this name.
        let content = if object.key.kind == Kind::Secret { Vec::new() } else { document.as_bytes().to_vec() };
        let (place, name) = (self.place(object.key.kind), file_name::of(&object.key, &object.uid));
        let kept = FileChange { place, name: name.clone(), content: Some(content) };
        // What an earlier run kept there is older. On the disk it stays: what is kept here goes with the machine.
        let older = (place == Place::Disk).then_some(FileChange { place: Place::State, name, content: None });
        std::iter::once(kept).chain(older).collect()
    }

    /// The removal of the files that keep an object, wherever an earlier run may have kept it.
    pub(super) fn forget(&self, key: &ObjectKey, uid: &str) -> Vec<FileChange> {
        let name = file_name::of(key, uid);
        let places = if belongs_to_claims(key.kind) { &[Place::Disk, Place::State][..] } else { &[Place::State] };
        places.iter().map(|place| FileChange { place: *place, name: name.clone(), content: None }).collect()
    }

    fn place(&self, kind: Kind) -> Place {
        if self.goes_with_the_machine(kind) { Place::State } else { Place::Disk }
    }

    /// Whether objects of this kind are gone after a restart of the machine.
    pub(super) fn goes_with_the_machine(&self, kind: Kind) -> bool {
        !(self.provisions && belongs_to_claims(kind))
    }

    /// The removal of the files of a pod that cannot be read, but for the one that `kept` has.
    pub(super) fn forget_damaged(&self, pod: &DamagedPod, kept: &[FileChange]) -> Vec<FileChange> {
        let others = pod.files.iter().filter(|name| !kept.iter().any(|change| change.name == **name));
        others.map(|name| FileChange { place: Place::State, name: name.clone(), content: None }).collect()
    }

    /// The mark that pods were added by request, set or removed.
    pub(super) fn mark(&self, there: bool) -> FileChange {
        FileChange { place: Place::Root, name: MARKER.into(), content: there.then(|| MARKER_TEXT.to_vec()) }
    }

    /// The note that every pod that was added by request is kept. To be written before the marker, while no client is awaited,
    /// and when every client has spoken.
    pub(super) fn complete(&self) -> FileChange {
        FileChange { place: Place::State, name: COMPLETE.into(), content: Some(Vec::new()) }
    }

    /// The file of these bindings.
    pub(super) fn bindings(&self, held: &HeldBindings) -> FileChange {
        FileChange { place: Place::Root, name: BINDINGS.into(), content: held.write() }
    }

    /// Changes files, in this order. Answers what takes that back.
    ///
    /// # Guarantees
    /// All or nothing, unless the daemon dies in between: then a file is as it was, or as it was to be.
    ///
    /// # Errors
    /// [`KeepError`].
    pub(super) fn change(&self, changes: Vec<FileChange>) -> Result<Vec<FileChange>, KeepError> {
        let mut undo = Vec::with_capacity(changes.len());
        for change in changes {
            match self.change_one(change) {
                Ok(before) => undo.push(before),
                Err(cause) => {
                    let undone = undo.into_iter().rev().try_for_each(|change| self.change_one(change).map(drop));
                    return Err(match undone {
                        Ok(()) => KeepError::Change(cause),
                        Err(undo) => KeepError::Undo { cause, undo: Box::new(undo) },
                    });
                }
            }
        }
        undo.reverse();
        Ok(undo)
    }

    /// Changes one file. Answers what takes that back.
    fn change_one(&self, change: FileChange) -> Result<FileChange, KernelError> {
        let FileChange { place, name, content } = change;
        let folder = match self.folder(place, content.is_some()) {
            Ok(folder) => folder,
            // What is to go is not there.
            Err(error) if content.is_none() && error.kind() == ErrorKind::NotFound => {
                return Ok(FileChange { place, name, content: None });
            }
            Err(error) => return Err(error),
        };
        // What cannot be read is no loss.
        let before = self.kernel.read_file(&folder, &name, MAX_OBJECT_BYTES).unwrap_or_default();
        match content {
            Some(bytes) => self.kernel.write_atomic(&folder, &name, &bytes, FILE_MODE, place.durability())?,
            None => self.kernel.remove_file(&folder, &name)?,
        }
        Ok(FileChange { place, name, content: before })
    }

    /// The folder of a place, made if it is missing and is to be.
    fn folder(&self, place: Place, make: bool) -> Result<Directory, KernelError> {
        match self.path(place) {
            None => self.kernel.try_clone(&self.root),
            Some((above, path)) if make => self.kernel.make_dirs(above, &path, FOLDER_MODE),
            Some((above, path)) => self.kernel.walk(above, &path),
        }
    }

    /// The folder of a place; none: the root folder itself.
    fn path(&self, place: Place) -> Option<(&Directory, PathBuf)> {
        match place {
            Place::State => Some((&self.state, PathBuf::from(FOLDER))),
            Place::Disk => Some((&self.root, Path::new(provision::FOLDER).join(provision::OBJECTS))),
            Place::Root => None,
        }
    }
}

/// Whether volumes are made for claims by objects of this kind, or from them.
fn belongs_to_claims(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::PersistentVolume
            | Kind::PersistentVolumeClaim
            | Kind::StorageClass
            | Kind::VolumeSnapshot
            | Kind::VolumeSnapshotContent
    )
}

impl Place {
    const fn durability(self) -> Durability {
        match self {
            Self::State => Durability::Process,
            Self::Disk | Self::Root => Durability::Machine,
        }
    }
}
