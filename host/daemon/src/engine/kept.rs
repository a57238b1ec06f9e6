//! The files of objects that were added by request, so that a restart does not take their pods for gone. Blocks on the disk.
//!
//! ```text
//! ROOT/state/objects/STEM.pod.UID.json   a pod, until the machine restarts; the name protects it even if the file is damaged
//! ROOT/state/objects/STEM.json           an object of another kind
//! ROOT/state/objects/STEM.secret         empty: a secret of this name was added, and its content is in memory only
//! ROOT/state/objects/complete            every pod that was added by request is kept here; goes with the machine
//! ROOT/provisioned/objects/STEM.json     claims, volumes and classes where volumes are made for claims; outlives the machine
//! ROOT/pods-by-request                   there while pods are kept; outlives the machine
//! ```
//!
//! `STEM` is a digest of the object's key ([`ObjectKey::file_stem`]).
//!
//! A marker without `complete` means that the machine restarted and that clients may not have added all their pods again.
//! A start that finds this waits for `SourcesReady`, whatever else is kept: one object that was added again says nothing of
//! the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use volhost_kernel::{Directory, Durability, ErrorKind, KernelError, is_temporary};
use volhost_model::names::PodUid;

use super::manifest_text::REQUEST;
use super::operation::Workshop;
use crate::manifest::{self, Kind, Object, ObjectKey};
use crate::provision;

/// The folder of objects that were added by request, below the state folder.
pub(super) const FOLDER: &str = "objects";
/// The file below the root folder that says that pods were added by request.
const MARKER: &str = "pods-by-request";
/// The file beside the kept objects that says that they include every pod that was added by request.
const COMPLETE: &str = "complete";
/// What the marker says to people.
const MARKER_TEXT: &[u8] =
    b"Pods were added over the API. After the machine restarts, volhost removes nothing of pods that no source names\nbefore a client calls SourcesReady (`volhost apply --complete`).\n";
/// An object as the API server stores it at the most, and then some.
const MAX_OBJECT_BYTES: usize = 4 << 20;
/// The longest uid that is part of a file's name, in bytes: the name, with the stem and what a write adds, has 255 at most.
const MAX_UID_BYTES: usize = 200;
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

/// A pod whose file cannot be read.
#[derive(Debug, Clone)]
pub(super) struct DamagedPod {
    /// Why, in words, with the file.
    pub(super) why: String,
    /// Its files.
    files: Vec<OsString>,
}

/// What an earlier run kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// What can be read.
    pub(super) objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Pods whose files cannot be read: they exist.
    pub(super) damaged: BTreeMap<PodUid, DamagedPod>,
    /// The stems of other objects that were there and are not known: damaged ones, and secrets.
    pub(super) lost: BTreeSet<String>,
    /// What is wrong: a path and why.
    pub(super) problems: Vec<(String, String)>,
    /// A pod may be missing of which not even the uid is known.
    pub(super) may_miss_pods: bool,
    /// A claim may be missing.
    pub(super) may_miss_claims: bool,
    /// Pods were added by request before the machine restarted, and clients have not added all of them again.
    pub(super) pods_are_unknown: bool,
    /// The kept objects include every pod that was added by request.
    is_complete: bool,
    /// The marker is there.
    pub(super) has_marker: bool,
}

/// The files.
#[derive(Debug, Clone)]
pub(super) struct KeptFiles {
    workshop: Arc<Workshop>,
    provisions: bool,
}

impl KeptFiles {
    /// The files of this node. With `provisions`, claims and what belongs to them outlive the machine.
    pub(super) const fn new(workshop: Arc<Workshop>, provisions: bool) -> Self {
        Self { workshop, provisions }
    }

    /// The file that keeps an object. `document` is the object as JSON.
    pub(super) fn keep(&self, object: &Object, document: &str) -> FileChange {
        // A secret is never on disk: only that there was one of this name.
        let content = if object.key.kind == Kind::Secret { Vec::new() } else { document.as_bytes().to_vec() };
        FileChange { content: Some(content), ..self.forget(&object.key, &object.uid) }
    }

    /// The removal of the file that keeps an object.
    pub(super) fn forget(&self, key: &ObjectKey, uid: &str) -> FileChange {
        let stem = key.file_stem();
        let name = match key.kind {
            Kind::Pod => format!("{stem}.pod.{}.json", if uid.len() > MAX_UID_BYTES { "" } else { uid }),
            Kind::Secret => format!("{stem}.secret"),
            _ => format!("{stem}.json"),
        };
        let place = if self.goes_with_the_machine(key.kind) { Place::State } else { Place::Disk };
        FileChange { place, name: name.into(), content: None }
    }

    /// Whether objects of this kind are gone after a restart of the machine.
    pub(super) fn goes_with_the_machine(&self, kind: Kind) -> bool {
        let of_claims = matches!(
            kind,
            Kind::PersistentVolume
                | Kind::PersistentVolumeClaim
                | Kind::StorageClass
                | Kind::VolumeSnapshot
                | Kind::VolumeSnapshotContent
        );
        !(self.provisions && of_claims)
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
        let kernel = &self.workshop.kernel;
        let FileChange { place, name, content } = change;
        let folder = self.folder(place)?;
        // What cannot be read is no loss.
        let before = kernel.read_file(&folder, &name, MAX_OBJECT_BYTES).unwrap_or_default();
        match content {
            Some(bytes) => kernel.write_atomic(&folder, &name, &bytes, FILE_MODE, place.durability())?,
            None => kernel.remove_file(&folder, &name)?,
        }
        Ok(FileChange { place, name, content: before })
    }

    fn folder(&self, place: Place) -> Result<Directory, KernelError> {
        let kernel = &self.workshop.kernel;
        match self.path(place) {
            None => kernel.try_clone(&self.workshop.root),
            Some((above, path)) => kernel.make_dirs(above, &path, FOLDER_MODE),
        }
    }

    /// The folder of a place; none: the root folder itself.
    fn path(&self, place: Place) -> Option<(&Directory, PathBuf)> {
        match place {
            Place::State => Some((self.workshop.records.state(), PathBuf::from(FOLDER))),
            Place::Disk => Some((&self.workshop.root, Path::new(provision::FOLDER).join(provision::OBJECTS))),
            Place::Root => None,
        }
    }

    /// What an earlier run kept.
    pub(super) fn read(&self) -> Kept {
        let mut kept = Kept::default();
        let marker = self.workshop.kernel.read_file(&self.workshop.root, OsStr::new(MARKER), MAX_OBJECT_BYTES);
        // One that cannot be read is there.
        kept.has_marker = !matches!(marker, Ok(None));
        self.read_place(Place::State, &mut kept);
        kept.pods_are_unknown = kept.has_marker && !kept.is_complete;
        if self.provisions {
            self.read_place(Place::Disk, &mut kept);
        }
        kept
    }

    fn read_place(&self, place: Place, kept: &mut Kept) {
        let Some((above, path)) = self.path(place) else { return };
        let kernel = &self.workshop.kernel;
        let listed = kernel.walk(above, &path).and_then(|folder| Ok((kernel.names(&folder)?, folder)));
        let (names, folder) = match listed {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                kept.problems.push((path.display().to_string(), error.to_string()));
                kept.may_miss_pods |= place == Place::State;
                kept.may_miss_claims = true;
                return;
            }
        };
        for name in names {
            // What a death in the middle of a write left.
            if is_temporary(&name) {
                let _ = kernel.remove_file(&folder, &name);
                continue;
            }
            if place == Place::State && name == COMPLETE {
                kept.is_complete = true;
                continue;
            }
            match self.read_object(&folder, &name) {
                Ok(object) => kept.take(object, &name),
                Err(why) => kept.damaged(&path, &name, &why),
            }
        }
    }

    /// The object in a file; none for a secret, whose content is on no disk.
    fn read_object(&self, folder: &Directory, name: &OsStr) -> Result<Option<Arc<Object>>, String> {
        if FileName::read(name).is_some_and(|name| name.is_secret) {
            return Ok(None);
        }
        let bytes =
            self.workshop.kernel.read_file(folder, name, MAX_OBJECT_BYTES).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes.unwrap_or_default()).map_err(|error| error.to_string())?;
        let parsed = manifest::parse(REQUEST, &text).map_err(|error| error.to_string())?;
        let object = parsed.objects.into_iter().next().ok_or_else(|| "there is no object in it".to_owned())?;
        match FileName::read(name) {
            Some(named) if named.stem == object.key.file_stem() => Ok(Some(object)),
            _ => Err(format!("it holds {}, which is kept in another file", object.key)),
        }
    }
}

impl Kept {
    fn take(&mut self, object: Option<Arc<Object>>, name: &OsStr) {
        let Some(object) = object else {
            self.lost.extend(FileName::read(name).map(|name| name.stem.to_owned()));
            return;
        };
        // A pod that was replaced by one with another uid when the daemon died: nobody knows which of them is wanted.
        let Some(twin) = self.objects.remove(&object.key) else {
            self.objects.insert(object.key.clone(), object);
            return;
        };
        for pod in [twin, object] {
            let why = format!("{} is kept with two uids; add it again", pod.key);
            let files = vec![OsString::from(format!("{}.pod.{}.json", pod.key.file_stem(), pod.uid))];
            self.problems.push((FOLDER.to_owned(), why.clone()));
            if let Ok(uid) = PodUid::new(pod.uid.clone()) {
                self.damaged.insert(uid, DamagedPod { why, files });
            }
        }
    }

    fn damaged(&mut self, folder: &Path, name: &OsStr, why: &str) {
        let path = folder.join(name).display().to_string();
        match FileName::read(name) {
            Some(FileName { uid: Some(uid), .. }) => {
                let why = format!(
                    "its object, which was added by request, cannot be read from {path}: {why}. What is mounted stays; add the pod again (volhost apply), or remove it (volhost delete pod)"
                );
                self.problems.push((path, why.clone()));
                self.damaged
                    .entry(uid)
                    .or_insert_with(|| DamagedPod { why, files: Vec::new() })
                    .files
                    .push(name.to_owned());
            }
            Some(FileName { stem, is_pod: false, .. }) => {
                self.lost.insert(stem.to_owned());
                self.may_miss_claims = true;
                self.problems.push((path, format!("{why}; add the object again")));
            }
            _ => {
                self.may_miss_pods = true;
                self.may_miss_claims = true;
                let hint = "nothing of pods that no source names is unmounted while it is there";
                self.problems.push((path, format!("{why}; {hint}: remove the file")));
            }
        }
    }
}

impl Place {
    const fn durability(self) -> Durability {
        match self {
            Self::State => Durability::Process,
            Self::Disk | Self::Root => Durability::Machine,
        }
    }
}

/// What a file's name says of the object in it.
#[derive(Debug, PartialEq, Eq)]
struct FileName<'a> {
    stem: &'a str,
    is_pod: bool,
    is_secret: bool,
    /// A pod's uid, unless it is too long.
    uid: Option<PodUid>,
}

impl<'a> FileName<'a> {
    fn read(name: &'a OsStr) -> Option<Self> {
        let (stem, rest) = name.to_str()?.split_once('.')?;
        let of = |is_pod, is_secret, uid| Some(Self { stem, is_pod, is_secret, uid });
        match rest.strip_prefix("pod.").and_then(|rest| rest.strip_suffix(".json")) {
            Some(uid) => of(true, false, PodUid::new(uid).ok()),
            None if rest == "json" => of(false, false, None),
            None if rest == "secret" => of(false, true, None),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_whose_it_is() {
        let read = |name: &'static str| FileName::read(OsStr::new(name));
        let pod = read("0a.pod.uid.with.dots.json").unwrap();
        assert_eq!((pod.stem, pod.is_pod, pod.uid), ("0a", true, PodUid::new("uid.with.dots").ok()));
        assert_eq!(read("0a.pod..json").unwrap().uid, None);
        assert!(read("0a.secret").unwrap().is_secret);
        assert!(!read("0a.json").unwrap().is_pod);
        for other in ["0a", "0a.txt", "json", ".json.new"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
