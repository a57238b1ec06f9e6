//! Changes of the files of objects. Blocks on the disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError};

use super::file_name;
use crate::provision;
use volhost_objects::{Kind, Object, ObjectKey, RetainedBindings};
use volhost_volume_ops::layout::KEPT_OBJECTS;
use volhost_volume_ops::volume_ops::VolumeOps;

/// The file below the root folder that says that pods were added by request.
pub(super) const MARKER: &str = "pods-by-request";
/// The file below the root folder with the bindings that the objects do not determine.
pub(super) const BINDINGS: &str = "bindings.json";
/// The file beside the objects that says that they include every pod that was added by request.
pub(super) const COMPLETE: &str = "complete";
/// The content of the marker, for a person who opens it.
const MARKER_TEXT: &[u8] =
    b"Pods were added over the API. After the machine restarts, volhost removes nothing of pods that no source names\nbefore a client calls SourcesReady (`volhost apply --complete`).\n";
/// More than the API server stores of an object.
pub(super) const MAX_OBJECT_BYTES: usize = 4 << 20;
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The folder of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFolder {
    /// The state folder, gone after a reboot.
    State,
    /// Beside the records of made volumes.
    Disk,
    /// The root folder.
    Root,
}

/// A file and its new content; none: the file is to be removed.
#[derive(Debug)]
pub(crate) struct FileChange {
    pub(super) place: FileFolder,
    pub(super) name: OsString,
    pub(super) content: Option<Vec<u8>>,
}

/// Files that could not be changed.
#[derive(Debug, Error)]
pub(crate) enum ObjectFileError {
    /// Nothing was changed.
    #[error("{0}")]
    Change(#[source] KernelError),
    /// Files that were changed before could not be changed back.
    #[error("{cause}; and taking back what was written before failed too: {undo}")]
    Undo {
        /// The first failure.
        #[source]
        cause: KernelError,
        /// The failure of changing files back.
        undo: Box<KernelError>,
    },
}

impl ObjectFileError {
    /// Whether the disk is full.
    pub(in crate::event_loop) fn is_full(&self) -> bool {
        let (Self::Change(cause) | Self::Undo { cause, .. }) = self;
        cause.kind() == ErrorKind::NoSpace
    }
}

/// The files of objects that were added by request.
#[derive(Debug, Clone)]
pub(crate) struct ObjectFiles {
    pub(super) kernel: Arc<dyn Kernel>,
    pub(super) root: Arc<Directory>,
    pub(super) state: Arc<Directory>,
    /// Claims and related objects survive a reboot.
    pub(super) provisions: bool,
}

impl ObjectFiles {
    /// Creates the files of this node. With `provisions`, claims and related objects survive a
    /// reboot.
    pub(crate) fn new(volume_ops: &VolumeOps, provisions: bool) -> Self {
        let (kernel, root) = (volume_ops.kernel().clone(), volume_ops.root().clone());
        Self { kernel, root, state: volume_ops.state().clone(), provisions }
    }

    /// Returns the files that store an object: the one that is written, and older ones that are
    /// removed. `document` is the object as JSON.
    pub(in crate::event_loop) fn keep(&self, object: &Object, document: &str) -> Vec<FileChange> {
        // The content of a secret is never on disk, only its name.
        let content = if object.key.kind == Kind::Secret { Vec::new() } else { document.as_bytes().to_vec() };
        let (place, name) = (self.place(object.key.kind), file_name::of(&object.key, &object.uid));
        let kept = FileChange { place, name: name.clone(), content: Some(content) };
        // A file of an earlier run in the state folder is older. A file on the disk stays, because
        // a file in the state folder does not survive a reboot.
        let older = (place == FileFolder::Disk).then_some(FileChange { place: FileFolder::State, name, content: None });
        std::iter::once(kept).chain(older).collect()
    }

    /// Returns the removal of the files that store an object, wherever an earlier run stored it.
    pub(in crate::event_loop) fn forget(&self, key: &ObjectKey, uid: &str) -> Vec<FileChange> {
        let name = file_name::of(key, uid);
        let places =
            if belongs_to_claims(key.kind) { &[FileFolder::Disk, FileFolder::State][..] } else { &[FileFolder::State] };
        places.iter().map(|place| FileChange { place: *place, name: name.clone(), content: None }).collect()
    }

    /// Reads the file that stores an object, wherever it is; none if there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub(in crate::event_loop) fn read(&self, key: &ObjectKey, uid: &str) -> Result<Option<Vec<u8>>, KernelError> {
        let name = file_name::of(key, uid);
        for place in [self.place(key.kind), FileFolder::State] {
            let read = self.folder(place, false);
            match read.and_then(|folder| self.kernel.read_file(&folder, &name, MAX_OBJECT_BYTES)) {
                Ok(Some(bytes)) => return Ok(Some(bytes)),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    pub(super) fn place(&self, kind: Kind) -> FileFolder {
        if self.goes_with_the_machine(kind) { FileFolder::State } else { FileFolder::Disk }
    }

    /// Whether objects of this kind are gone after a restart of the machine.
    pub(in crate::event_loop) fn goes_with_the_machine(&self, kind: Kind) -> bool {
        !(self.provisions && belongs_to_claims(kind))
    }

    /// Returns the removal of the files of a pod that cannot be read, except those in `kept`.
    pub(in crate::event_loop) fn forget_damaged(&self, files: &[OsString], kept: &[FileChange]) -> Vec<FileChange> {
        let others = files.iter().filter(|name| !kept.iter().any(|change| change.name == **name));
        others.map(|name| FileChange { place: FileFolder::State, name: name.clone(), content: None }).collect()
    }

    /// Returns the creation or removal of the marker that pods were added by request.
    pub(in crate::event_loop) fn mark(&self, there: bool) -> FileChange {
        FileChange { place: FileFolder::Root, name: MARKER.into(), content: there.then(|| MARKER_TEXT.to_vec()) }
    }

    /// Returns the file that says that every pod that was added by request has a file. It is
    /// written before the marker, while no client is awaited, and when every client has called
    /// `SourcesReady`.
    pub(in crate::event_loop) fn complete(&self) -> FileChange {
        FileChange { place: FileFolder::State, name: COMPLETE.into(), content: Some(Vec::new()) }
    }

    /// Returns the file of these bindings.
    pub(in crate::event_loop) fn bindings(&self, held: &RetainedBindings) -> FileChange {
        FileChange { place: FileFolder::Root, name: BINDINGS.into(), content: held.write() }
    }

    /// Changes files, in this order. Returns the changes that undo it.
    ///
    /// # Guarantees
    /// All or nothing, unless the process dies in between: then each file has its old or its new
    /// content.
    ///
    /// # Errors
    /// [`ObjectFileError`].
    pub(in crate::event_loop) fn change(&self, changes: Vec<FileChange>) -> Result<Vec<FileChange>, ObjectFileError> {
        let mut undo = Vec::with_capacity(changes.len());
        for change in changes {
            match self.change_one(change) {
                Ok(before) => undo.push(before),
                Err(cause) => {
                    let undone = undo.into_iter().rev().try_for_each(|change| self.change_one(change).map(drop));
                    return Err(match undone {
                        Ok(()) => ObjectFileError::Change(cause),
                        Err(undo) => ObjectFileError::Undo { cause, undo: Box::new(undo) },
                    });
                }
            }
        }
        undo.reverse();
        Ok(undo)
    }

    /// Changes one file. Returns the change that undoes it.
    fn change_one(&self, change: FileChange) -> Result<FileChange, KernelError> {
        let FileChange { place, name, content } = change;
        let folder = match self.folder(place, content.is_some()) {
            Ok(folder) => folder,
            // The file to remove does not exist.
            Err(error) if content.is_none() && error.kind() == ErrorKind::NotFound => {
                return Ok(FileChange { place, name, content: None });
            }
            Err(error) => return Err(error),
        };
        // A file that cannot be read is no loss.
        let before = self.kernel.read_file(&folder, &name, MAX_OBJECT_BYTES).unwrap_or_default();
        match content {
            Some(bytes) => self.kernel.write_atomic(&folder, &name, &bytes, FILE_MODE, place.durability())?,
            None => self.kernel.remove_file(&folder, &name)?,
        }
        Ok(FileChange { place, name, content: before })
    }

    /// Opens the folder of a place. With `make`, creates it if it is missing.
    fn folder(&self, place: FileFolder, make: bool) -> Result<Directory, KernelError> {
        match self.path(place) {
            None => Ok(Directory::clone(&self.root)),
            Some((above, path)) if make => self.kernel.make_dirs(above, &path, FOLDER_MODE),
            Some((above, path)) => self.kernel.walk(above, &path),
        }
    }

    /// Returns the folder of a place; none: the root folder itself.
    pub(super) fn path(&self, place: FileFolder) -> Option<(&Directory, PathBuf)> {
        match place {
            FileFolder::State => Some((&self.state, PathBuf::from(KEPT_OBJECTS))),
            FileFolder::Disk => Some((&self.root, Path::new(provision::FOLDER).join(provision::OBJECTS))),
            FileFolder::Root => None,
        }
    }
}

/// Whether objects of this kind take part in making volumes for claims.
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

/// The result of changing files: the changes that undo it.
pub(crate) type FilesWritten = Result<Vec<FileChange>, ObjectFileError>;

impl FileFolder {
    const fn durability(self) -> Durability {
        match self {
            Self::State => Durability::Process,
            Self::Disk | Self::Root => Durability::Machine,
        }
    }
}
