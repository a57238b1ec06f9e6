//! What an earlier run kept of the objects that were added by request. Blocks on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use volhost_kernel::{Directory, ErrorKind, is_temporary};
use volhost_model::names::PodUid;

use super::file_name::{self, FileName};
use super::{BINDINGS, COMPLETE, FOLDER, FileChange, KeepError, KeptFiles, MARKER, MAX_OBJECT_BYTES, Place};
use crate::engine::manifest_text::REQUEST;
use volhost_objects::{HeldBindings, Kind, Object, ObjectKey};

/// A pod whose file cannot be read.
#[derive(Debug, Clone)]
pub(in crate::engine) struct DamagedPod {
    /// Why, in words, with the file.
    pub(in crate::engine) why: String,
    /// Its files.
    pub(super) files: Vec<OsString>,
}

/// What an earlier run kept.
#[derive(Debug, Default)]
pub(in crate::engine) struct Kept {
    /// What can be read.
    pub(in crate::engine) objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Pods whose files cannot be read: they exist.
    pub(in crate::engine) damaged: BTreeMap<PodUid, DamagedPod>,
    /// The stems of other objects that were there and are not known: damaged ones, and secrets.
    pub(in crate::engine) lost: BTreeSet<String>,
    /// What is wrong: a path and why.
    pub(in crate::engine) problems: Vec<(String, String)>,
    /// A pod may be missing of which not even the uid is known.
    pub(in crate::engine) may_miss_pods: bool,
    /// A claim may be missing of which not even the stem is known.
    pub(in crate::engine) may_miss_claims: bool,
    /// Pods were added by request before the machine restarted, and clients have not added all of them again.
    pub(in crate::engine) pods_are_unknown: bool,
    /// The marker is there.
    pub(in crate::engine) has_marker: bool,
    /// The bindings that the objects do not say.
    pub(in crate::engine) bindings: HeldBindings,
    /// The kept objects include every pod that was added by request.
    is_complete: bool,
    /// The pods of which there are two.
    doubled: BTreeSet<ObjectKey>,
}

/// An object, and the content of its file.
type Found = (Arc<Object>, Vec<u8>);

impl KeptFiles {
    /// What an earlier run kept.
    pub(in crate::engine) fn read(&self) -> Kept {
        let mut kept = Kept::default();
        let marker = self.kernel.read_file(&self.root, OsStr::new(MARKER), MAX_OBJECT_BYTES);
        // One that cannot be read is there.
        kept.has_marker = !matches!(marker, Ok(None));
        let bindings = self.kernel.read_file(&self.root, OsStr::new(BINDINGS), MAX_OBJECT_BYTES);
        let bindings = bindings.map_err(|error| error.to_string());
        match bindings
            .and_then(|bytes| bytes.map_or_else(|| Ok(HeldBindings::default()), |bytes| HeldBindings::read(&bytes)))
        {
            Ok(held) => kept.bindings = held,
            Err(why) => {
                let why = format!(
                    "{why}; a claim that has grown beyond its volume may not be bound: give it status.phase Bound"
                );
                kept.problems.push((BINDINGS.to_owned(), why));
            }
        }
        self.read_place(Place::State, &mut kept);
        kept.pods_are_unknown = kept.has_marker && !kept.is_complete;
        if self.provisions {
            self.read_place(Place::Disk, &mut kept);
        }
        kept
    }

    fn read_place(&self, place: Place, kept: &mut Kept) {
        let Some((above, path)) = self.path(place) else { return };
        let listed = self.kernel.walk(above, &path).and_then(|folder| Ok((self.kernel.names(&folder)?, folder)));
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
                let _ = self.kernel.remove_file(&folder, &name);
                continue;
            }
            if place == Place::State && name == COMPLETE {
                kept.is_complete = true;
                continue;
            }
            match self.read_object(&folder, &name) {
                Ok(Some((object, bytes))) => self.take(place, object, bytes, kept),
                Ok(None) => kept.lost.extend(FileName::read(&name).map(|name| name.stem.to_owned())),
                Err(why) => kept.damaged(&path, &name, &why),
            }
        }
    }

    /// The object in a file, and the file's content; none for a secret, whose content is on no disk.
    fn read_object(&self, folder: &Directory, name: &OsStr) -> Result<Option<Found>, String> {
        if FileName::read(name).is_some_and(|name| name.is_secret) {
            return Ok(None);
        }
        let bytes = self.kernel.read_file(folder, name, MAX_OBJECT_BYTES).map_err(|error| error.to_string())?;
        let bytes = bytes.unwrap_or_default();
        let text = std::str::from_utf8(&bytes).map_err(|error| error.to_string())?;
        let parsed = volhost_objects::parse(REQUEST, text).map_err(|error| error.to_string())?;
        let object = parsed.objects.into_iter().next().ok_or_else(|| "there is no object in it".to_owned())?;
        if name != file_name::of(&object.key, &object.uid) {
            return Err(format!("it holds {}, which is kept in another file", object.key));
        }
        Ok(Some((object, bytes)))
    }

    /// Takes an object. One that an earlier run kept until the machine restarts, since it made no volumes, is moved to the disk
    /// where it replaces an older copy.
    fn take(&self, place: Place, object: Arc<Object>, bytes: Vec<u8>, kept: &mut Kept) {
        if place == self.place(object.key.kind) {
            return kept.take(object);
        }
        // What was moved is read there.
        if let Err(error) = self.move_to_its_place(place, &object, bytes) {
            let why = format!(
                "{} cannot be moved to the disk, and a restart of the machine removes it: {error}; add it again",
                object.key
            );
            kept.problems.push((FOLDER.to_owned(), why));
            kept.take(object);
        }
    }

    fn move_to_its_place(&self, from: Place, object: &Object, bytes: Vec<u8>) -> Result<(), KeepError> {
        let name = file_name::of(&object.key, &object.uid);
        let to = FileChange { place: self.place(object.key.kind), name: name.clone(), content: Some(bytes) };
        self.change(vec![to, FileChange { place: from, name, content: None }]).map(drop)
    }
}

impl Kept {
    fn take(&mut self, object: Arc<Object>) {
        if self.doubled.contains(&object.key) {
            return self.protect(&object);
        }
        match self.objects.get(&object.key) {
            // A pod that was replaced by one with another uid when the daemon died: which of them is wanted is not known.
            Some(twin) if object.key.kind == Kind::Pod && twin.uid != object.uid => {
                let twin = twin.clone();
                self.objects.remove(&object.key);
                self.doubled.insert(object.key.clone());
                self.protect(&twin);
                self.protect(&object);
            }
            // An object that could not be moved to the disk, which has an older copy.
            Some(_) => {}
            None => drop(self.objects.insert(object.key.clone(), object)),
        }
    }

    /// Takes note that a pod exists of which no more is known.
    fn protect(&mut self, pod: &Object) {
        let why = format!("{} is kept with two uids; add it again", pod.key);
        let files = vec![file_name::of(&pod.key, &pod.uid)];
        self.problems.push((FOLDER.to_owned(), why.clone()));
        if let Ok(uid) = PodUid::new(pod.uid.clone()) {
            self.damaged.insert(uid, DamagedPod { why, files });
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

    /// A node whose tmpfs goes when the machine restarts.
    struct Machine {
        kernel: Arc<dyn Kernel>,
        boots: u32,
    }

    impl Machine {
        fn new() -> Self {
            Self { kernel: Arc::new(InMemoryKernel::new()), boots: 0 }
        }

        fn files(&self, provisions: bool) -> KeptFiles {
            let root = self.kernel.open_directory(Path::new("/")).unwrap();
            let state = self.kernel.make_dirs(&root, Path::new(&format!("state-{}", self.boots)), 0o700).unwrap();
            KeptFiles { kernel: self.kernel.clone(), root: Arc::new(root), state: Arc::new(state), provisions }
        }
    }

    fn object(text: &str) -> Arc<Object> {
        volhost_objects::parse(REQUEST, text).unwrap().objects.remove(0)
    }

    fn keep(files: &KeptFiles, text: &str) {
        files.change(files.keep(&object(text), text)).unwrap();
    }

    #[test]
    fn pods_are_unknown_after_a_restart_of_the_machine_until_clients_have_spoken() {
        let mut machine = Machine::new();
        let files = machine.files(false);
        assert!(!files.read().pods_are_unknown);
        files.change(vec![files.complete(), files.mark(true)]).unwrap();
        keep(&files, &POD.replace("UID", "one"));
        assert!(!machine.files(false).read().pods_are_unknown, "the daemon was restarted");
        machine.boots += 1;
        let files = machine.files(false);
        assert!(files.read().pods_are_unknown);
        keep(&files, &POD.replace("UID", "one"));
        let kept = machine.files(false).read();
        assert!(kept.pods_are_unknown && kept.objects.len() == 1, "{kept:?}");
        files.change(vec![files.complete()]).unwrap();
        assert!(!machine.files(false).read().pods_are_unknown);
    }

    #[test]
    fn a_claim_that_was_kept_before_volumes_were_made_is_kept_once_and_for_good() {
        let mut machine = Machine::new();
        let request = |kept: &Kept| match &kept.objects.values().next().unwrap().content {
            volhost_objects::Content::Claim(claim) => claim.request,
            other => panic!("{other:?}"),
        };
        keep(&machine.files(true), &CLAIM.replace("SIZE", "1"));
        keep(&machine.files(false), &CLAIM.replace("SIZE", "2"));
        let files = machine.files(true);
        let kept = files.read();
        assert_eq!((kept.objects.len(), request(&kept), kept.problems.len()), (1, 2, 0), "{kept:?}");
        assert!(machine.files(false).read().objects.is_empty(), "it was moved");
        keep(&files, &CLAIM.replace("SIZE", "3"));
        machine.boots += 1;
        let files = machine.files(true);
        assert_eq!(request(&files.read()), 3);
        keep(&machine.files(false), &CLAIM.replace("SIZE", "4"));
        let claim = object(&CLAIM.replace("SIZE", "4"));
        files.change(files.forget(&claim.key, &claim.uid)).unwrap();
        let kept = files.read();
        assert!(kept.objects.is_empty() && kept.lost.is_empty(), "{kept:?}");
    }

    #[test]
    fn bindings_that_the_objects_do_not_say_outlive_the_machine() {
        let mut machine = Machine::new();
        let held = HeldBindings::read(br#"{"pv": "default/data"}"#).unwrap();
        let files = machine.files(false);
        files.change(vec![files.bindings(&held)]).unwrap();
        machine.boots += 1;
        let files = machine.files(false);
        assert_eq!(files.read().bindings, held);
        files.change(vec![FileChange { content: Some(b"{".to_vec()), ..files.bindings(&held) }]).unwrap();
        let kept = files.read();
        assert_eq!((kept.bindings, kept.problems.len()), (HeldBindings::default(), 1));
        files.change(vec![files.bindings(&HeldBindings::default())]).unwrap();
        assert!(files.read().problems.is_empty());
    }

    #[test]
    fn only_pods_with_different_uids_exclude_each_other() {
        let machine = Machine::new();
        let files = machine.files(true);
        for uid in ["one", "two", "three"] {
            keep(&files, &POD.replace("UID", uid));
        }
        let kept = files.read();
        assert!(kept.objects.is_empty() && kept.damaged.len() == 3, "{kept:?}");
    }

    #[test]
    fn a_damaged_object_is_lost_by_its_name_and_no_other_is() {
        let machine = Machine::new();
        let files = machine.files(true);
        let claim = object(&CLAIM.replace("SIZE", "1"));
        let FileChange { place, name, .. } = files.keep(&claim, "").remove(0);
        files.change(vec![FileChange { place, name, content: Some(b"{".to_vec()) }]).unwrap();
        let kept = files.read();
        assert_eq!(kept.lost, BTreeSet::from([claim.key.file_stem()]));
        assert!(!kept.may_miss_claims && !kept.may_miss_pods);
        // A pod in a file of another kind is no form that anything writes.
        files.change(vec![FileChange { place, name: claim_name(&claim), content: Some(POD.into()) }]).unwrap();
        assert!(files.read().objects.is_empty());
    }

    fn claim_name(claim: &Object) -> OsString {
        file_name::of(&claim.key, &claim.uid)
    }
}
