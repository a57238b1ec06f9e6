//! Reads the objects that an earlier run stored. Blocks on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::str::Utf8Error;
use std::sync::Arc;

use thiserror::Error;
use volhost_kernel::{Directory, ErrorKind, KernelError, is_temporary};
use volhost_model::names::PodUid;

use super::file_name::{self, FileName};
use super::files::{
    BINDINGS, COMPLETE, FileChange, FileFolder, MARKER, MAX_OBJECT_BYTES, ObjectFileError, ObjectFiles,
};
use crate::event_loop::manifest_text::REQUEST;
use volhost_objects::{Kind, ManifestError, Object, ObjectKey, RetainedBindings, RetainedBindingsError};
use volhost_volume_ops::layout::KEPT_OBJECTS;
use volhost_volume_ops::parallel;

/// A pod whose file cannot be read.
#[derive(Debug, Clone)]
pub(in crate::event_loop) struct DamagedPod {
    /// The file, and why it cannot be read.
    pub(in crate::event_loop) why: String,
    /// Its files.
    pub(in crate::event_loop) files: Vec<OsString>,
}

/// The objects that an earlier run stored.
#[derive(Debug, Default)]
pub(crate) struct StoredObjects {
    /// The objects that can be read.
    pub(in crate::event_loop) objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Pods whose files cannot be read: they exist.
    pub(in crate::event_loop) damaged: BTreeMap<PodUid, DamagedPod>,
    /// The file stems of other objects that existed and are unknown: damaged ones, and secrets.
    pub(in crate::event_loop) lost: BTreeSet<String>,
    /// Paths that cannot be read, and why.
    pub(in crate::event_loop) problems: Vec<(String, String)>,
    /// A pod may be missing whose uid is unknown.
    pub(in crate::event_loop) may_miss_pods: bool,
    /// A claim may be missing whose file stem is unknown.
    pub(in crate::event_loop) may_miss_claims: bool,
    /// Pods were added by request before the machine restarted, and clients have not added all of
    /// them again.
    pub(in crate::event_loop) pods_are_unknown: bool,
    /// The marker exists.
    pub(in crate::event_loop) has_marker: bool,
    /// The bindings that the objects do not determine.
    pub(in crate::event_loop) bindings: RetainedBindings,
    /// The stored objects include every pod that was added by request.
    is_complete: bool,
    /// The pods that are stored with two uids.
    doubled: BTreeSet<ObjectKey>,
}

/// A file whose object cannot be read.
#[derive(Debug, Error)]
enum UnreadableFile {
    /// The file itself cannot be read.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Its content is no text.
    #[error(transparent)]
    Text(#[from] Utf8Error),
    /// Its content is no valid object.
    #[error(transparent)]
    Object(#[from] ManifestError),
    /// It is empty.
    #[error("there is no object in it")]
    Empty,
    /// Its object belongs into another file.
    #[error("it contains {0}, which is kept in another file")]
    OtherObject(ObjectKey),
}

/// Bindings that cannot be read.
#[derive(Debug, Error)]
enum UnreadableBindings {
    /// The file cannot be read.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Its content is invalid.
    #[error(transparent)]
    Content(#[from] RetainedBindingsError),
}

/// An object, and the content of its file.
type ReadObject = (Arc<Object>, Vec<u8>);

/// Reads files into [`StoredObjects`].
struct ObjectReader<'a> {
    files: &'a ObjectFiles,
}

impl ObjectReader<'_> {
    fn read(&self) -> StoredObjects {
        let mut stored = StoredObjects::default();
        let marker = self.files.kernel.read_file(&self.files.root, OsStr::new(MARKER), MAX_OBJECT_BYTES);
        // A marker that cannot be read exists.
        stored.has_marker = !matches!(marker, Ok(None));
        match self.read_bindings() {
            Ok(bindings) => stored.bindings = bindings,
            Err(why) => {
                let why = format!(
                    "{why}; a claim that has grown beyond its volume may not be bound: give it status.phase Bound"
                );
                stored.problems.push((BINDINGS.to_owned(), why));
            }
        }
        self.read_place(FileFolder::State, &mut stored);
        stored.pods_are_unknown = stored.has_marker && !stored.is_complete;
        if self.files.provisions {
            self.read_place(FileFolder::Disk, &mut stored);
        }
        stored
    }

    fn read_bindings(&self) -> Result<RetainedBindings, UnreadableBindings> {
        let bytes = self.files.kernel.read_file(&self.files.root, OsStr::new(BINDINGS), MAX_OBJECT_BYTES)?;
        Ok(bytes.map(|bytes| RetainedBindings::read(&bytes)).transpose()?.unwrap_or_default())
    }

    fn read_place(&self, place: FileFolder, stored: &mut StoredObjects) {
        let Some((above, path)) = self.files.path(place) else { return };
        let (folder, names) = match self.files.kernel.list(above, &path) {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                stored.problems.push((path.display().to_string(), error.to_string()));
                stored.may_miss_pods |= place == FileFolder::State;
                stored.may_miss_claims = true;
                return;
            }
        };
        let (leftovers, names): (Vec<OsString>, Vec<OsString>) = names.into_iter().partition(|name| is_temporary(name));
        // Of a process that died in the middle of a write.
        for name in leftovers {
            let _ = self.files.kernel.remove_file(&folder, &name);
        }
        let (complete, names): (Vec<OsString>, Vec<OsString>) =
            names.into_iter().partition(|name| place == FileFolder::State && name == COMPLETE);
        stored.is_complete |= !complete.is_empty();
        let read = parallel::map(&names, |name| self.read_object(&folder, name));
        for (name, read) in names.iter().zip(read) {
            match read {
                Ok(Some((object, bytes))) => self.take(place, object, bytes, stored),
                Ok(None) => stored.lost.extend(FileName::read(name).map(|name| name.stem.to_owned())),
                Err(why) => stored.damaged(&path, name, &why.to_string()),
            }
        }
    }

    /// Reads the object in a file. Also returns the file's content. None for a secret, whose
    /// content is on no disk.
    fn read_object(&self, folder: &Directory, name: &OsStr) -> Result<Option<ReadObject>, UnreadableFile> {
        if FileName::read(name).is_some_and(|name| name.is_secret) {
            return Ok(None);
        }
        let bytes = self.files.kernel.read_file(folder, name, MAX_OBJECT_BYTES)?.unwrap_or_default();
        let parsed = volhost_objects::parse_quietly(REQUEST, std::str::from_utf8(&bytes)?)?;
        let object = parsed.objects.into_iter().next().ok_or(UnreadableFile::Empty)?;
        if name != file_name::of(&object.key, &object.uid) {
            return Err(UnreadableFile::OtherObject(object.key.clone()));
        }
        Ok(Some((object, bytes)))
    }

    /// Adds an object. If an earlier run made no volumes and stored it in the state folder, it is
    /// moved to the disk, where it replaces an older copy.
    fn take(&self, place: FileFolder, object: Arc<Object>, bytes: Vec<u8>, stored: &mut StoredObjects) {
        if place == self.files.place(object.key.kind) {
            return stored.take(object);
        }
        // A file that was moved is read again in its new place.
        if let Err(error) = self.move_to_its_place(place, &object, bytes) {
            let why = format!(
                "{} cannot be moved to the disk, and a restart of the machine removes it: {error}; add it again",
                object.key
            );
            stored.problems.push((KEPT_OBJECTS.to_owned(), why));
            stored.take(object);
        }
    }

    fn move_to_its_place(&self, from: FileFolder, object: &Object, bytes: Vec<u8>) -> Result<(), ObjectFileError> {
        let name = file_name::of(&object.key, &object.uid);
        let to = FileChange { place: self.files.place(object.key.kind), name: name.clone(), content: Some(bytes) };
        self.files.change(vec![to, FileChange { place: from, name, content: None }]).map(drop)
    }
}

impl StoredObjects {
    /// Reads the objects that an earlier run stored.
    pub(crate) fn read(files: &ObjectFiles) -> Self {
        ObjectReader { files }.read()
    }

    fn take(&mut self, object: Arc<Object>) {
        if self.doubled.contains(&object.key) {
            return self.protect(&object);
        }
        match self.objects.get(&object.key) {
            // The process died while a pod was being replaced by a pod with another uid: it is
            // unknown which of them is wanted.
            Some(twin) if object.key.kind == Kind::Pod && twin.uid != object.uid => {
                let twin = twin.clone();
                self.objects.remove(&object.key);
                self.doubled.insert(object.key.clone());
                self.protect(&twin);
                self.protect(&object);
            }
            // The object could not be moved to the disk, which has an older copy.
            Some(_) => {}
            None => drop(self.objects.insert(object.key.clone(), object)),
        }
    }

    /// Notes that a pod exists whose object is unknown.
    fn protect(&mut self, pod: &Object) {
        let why = format!("{} is kept with two uids; add it again", pod.key);
        let files = vec![file_name::of(&pod.key, &pod.uid)];
        self.problems.push((KEPT_OBJECTS.to_owned(), why.clone()));
        if let Ok(uid) = PodUid::new(pod.uid.clone()) {
            self.damaged.insert(uid, DamagedPod { why, files });
        }
    }

    fn damaged(&mut self, folder: &Path, name: &OsStr, why: &str) {
        let path = folder.join(name).display().to_string();
        match FileName::read(name) {
            Some(FileName { uid: Some(uid), .. }) => {
                let why = format!(
                    "its object, which was added by request, cannot be read from {path}: {why}. Its mounted volumes stay mounted; add the pod again (volhost apply), or remove it (volhost delete pod)"
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

#[cfg(test)]
mod tests {
    use volhost_kernel::Kernel;
    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    const POD: &str =
        "{apiVersion: v1, kind: Pod, metadata: {name: a, uid: UID}, spec: {containers: [{name: c, image: i}]}}";
    const CLAIM: &str = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 'SIZE'}}}}";

    /// A node whose tmpfs is gone after a reboot.
    struct Machine {
        kernel: Arc<dyn Kernel>,
        boots: u32,
    }

    impl Machine {
        fn new() -> Self {
            Self { kernel: Arc::new(InMemoryKernel::new()), boots: 0 }
        }

        fn files(&self, provisions: bool) -> ObjectFiles {
            let root = self.kernel.open_directory(Path::new("/")).unwrap();
            let state = self.kernel.make_dirs(&root, Path::new(&format!("state-{}", self.boots)), 0o700).unwrap();
            ObjectFiles { kernel: self.kernel.clone(), root: Arc::new(root), state: Arc::new(state), provisions }
        }
    }

    fn object(text: &str) -> Arc<Object> {
        volhost_objects::parse(REQUEST, text).unwrap().objects.remove(0)
    }

    fn keep(files: &ObjectFiles, text: &str) {
        files.change(files.keep(&object(text), text)).unwrap();
    }

    #[test]
    fn pods_are_unknown_after_a_reboot_until_clients_are_ready() {
        let mut machine = Machine::new();
        let files = machine.files(false);
        assert!(!StoredObjects::read(&files).pods_are_unknown);
        files.change(vec![files.complete(), files.mark(true)]).unwrap();
        keep(&files, &POD.replace("UID", "one"));
        assert!(!StoredObjects::read(&machine.files(false)).pods_are_unknown, "only the process was restarted");
        machine.boots += 1;
        let files = machine.files(false);
        assert!(StoredObjects::read(&files).pods_are_unknown);
        keep(&files, &POD.replace("UID", "one"));
        let kept = StoredObjects::read(&machine.files(false));
        assert!(kept.pods_are_unknown && kept.objects.len() == 1, "{kept:?}");
        files.change(vec![files.complete()]).unwrap();
        assert!(!StoredObjects::read(&machine.files(false)).pods_are_unknown);
    }

    #[test]
    fn a_claim_that_was_stored_before_volumes_were_made_moves_to_the_disk_once() {
        let mut machine = Machine::new();
        let request = |kept: &StoredObjects| match &kept.objects.values().next().unwrap().content {
            volhost_objects::ObjectContent::Claim(claim) => claim.request,
            other => panic!("{other:?}"),
        };
        keep(&machine.files(true), &CLAIM.replace("SIZE", "1"));
        keep(&machine.files(false), &CLAIM.replace("SIZE", "2"));
        let files = machine.files(true);
        let kept = StoredObjects::read(&files);
        assert_eq!((kept.objects.len(), request(&kept), kept.problems.len()), (1, 2, 0), "{kept:?}");
        assert!(StoredObjects::read(&machine.files(false)).objects.is_empty(), "it was moved");
        keep(&files, &CLAIM.replace("SIZE", "3"));
        machine.boots += 1;
        let files = machine.files(true);
        assert_eq!(request(&StoredObjects::read(&files)), 3);
        keep(&machine.files(false), &CLAIM.replace("SIZE", "4"));
        let claim = object(&CLAIM.replace("SIZE", "4"));
        files.change(files.forget(&claim.key, &claim.uid)).unwrap();
        let kept = StoredObjects::read(&files);
        assert!(kept.objects.is_empty() && kept.lost.is_empty(), "{kept:?}");
    }

    #[test]
    fn bindings_that_the_objects_do_not_determine_survive_a_reboot() {
        let mut machine = Machine::new();
        let held = RetainedBindings::read(br#"{"pv": "default/data"}"#).unwrap();
        let files = machine.files(false);
        files.change(vec![files.bindings(&held)]).unwrap();
        machine.boots += 1;
        let files = machine.files(false);
        assert_eq!(StoredObjects::read(&files).bindings, held);
        files.change(vec![FileChange { content: Some(b"{".to_vec()), ..files.bindings(&held) }]).unwrap();
        let kept = StoredObjects::read(&files);
        assert_eq!((kept.bindings, kept.problems.len()), (RetainedBindings::default(), 1));
        files.change(vec![files.bindings(&RetainedBindings::default())]).unwrap();
        assert!(StoredObjects::read(&files).problems.is_empty());
    }

    #[test]
    fn only_pods_with_different_uids_exclude_each_other() {
        let machine = Machine::new();
        let files = machine.files(true);
        for uid in ["one", "two", "three"] {
            keep(&files, &POD.replace("UID", uid));
        }
        let kept = StoredObjects::read(&files);
        assert!(kept.objects.is_empty() && kept.damaged.len() == 3, "{kept:?}");
    }

    #[test]
    fn a_damaged_object_is_lost_by_its_name_and_no_other_is() {
        let machine = Machine::new();
        let files = machine.files(true);
        let claim = object(&CLAIM.replace("SIZE", "1"));
        let FileChange { place, name, .. } = files.keep(&claim, "").remove(0);
        files.change(vec![FileChange { place, name, content: Some(b"{".to_vec()) }]).unwrap();
        let kept = StoredObjects::read(&files);
        assert_eq!(kept.lost, BTreeSet::from([claim.key.file_stem()]));
        assert!(!kept.may_miss_claims && !kept.may_miss_pods);
        // A pod in a file of another kind is no form that anything writes.
        files.change(vec![FileChange { place, name: claim_name(&claim), content: Some(POD.into()) }]).unwrap();
        assert!(StoredObjects::read(&files).objects.is_empty());
    }

    fn claim_name(claim: &Object) -> OsString {
        file_name::of(&claim.key, &claim.uid)
    }
}
