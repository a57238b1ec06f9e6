//! The objects of all sources, and what their changes mean for the world.
//!
//! Objects that were added by request are kept beside the records, so that a restart does not take their pods for gone. Only kinds
//! without secrets are taken by request: records hold none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tracing::{info, warn};
use volhost_core::{Attaching, DesiredPod};
use volhost_kernel::{Directory, Durability, ErrorKind, KernelError};
use volhost_model::names::{PluginName, PodUid};
use volhost_model::view::EventKind;

use super::manifest_text::{Manifest, Objects, REQUEST};
use super::operation::Workshop;
use super::requests::{AddedPod, RequestError};
use crate::manifest::{self, Applied, Changes, Kind, Object, ObjectKey, ObjectStore, Source};
use crate::objects::SharedObjects;
use crate::plugins::{PluginRegistry, QuestionKey};
use crate::populate::attachments::{AttachmentReport, attachments_of};
use crate::populate::{NodeIdentity, PodStanding, SelinuxCensus, asks_for_labels, resolve, selinux_census, standing};
use crate::provision;

/// The folder of objects that were added by request, below the state folder.
pub(super) const FOLDER: &str = "objects";
/// An object as the API server stores it at the most, and then some.
const MAX_OBJECT_BYTES: usize = 4 << 20;

/// What a change of objects means for the world.
#[derive(Debug, Default)]
pub struct Effects {
    /// Pods that are known to be gone.
    pub gone: Vec<PodUid>,
    /// Pods as they are wanted now.
    pub desired: Vec<DesiredPod>,
    /// Pods whose volumes' content may have changed.
    pub source_changed: Vec<PodUid>,
    /// What VolumeAttachments say now, if that may have changed.
    pub attachments: Option<AttachmentReport>,
    /// What users are told: kind, reason, object, message.
    pub notices: Vec<(EventKind, &'static str, String, String)>,
}

/// The objects of all sources.
#[derive(Debug)]
pub struct Sources {
    store: ObjectStore,
    /// What operations read of it.
    shared: Arc<SharedObjects>,
    node: NodeIdentity,
    catalog: Arc<PluginRegistry>,
    workshop: Arc<Workshop>,
    /// Every manifest was read once.
    complete: bool,
    /// Who attaches volumes.
    attaching: Attaching,
    /// It was told that labels are asked for, and that this node has none.
    told_of_labels: bool,
    /// Pods that were told to be another node's, so that it is said once.
    elsewhere: BTreeSet<ObjectKey>,
    /// Volumes are made here for claims.
    provisions: bool,
    /// Objects that were added by request could not be read: what is not known may be among them.
    misses_objects: bool,
    /// A manifest was there, since the start.
    has_seen_manifests: bool,
    /// Who is to be resolved again when a plugin has answered what a volume is.
    waiting: HashMap<QuestionKey, BTreeSet<Waiting>>,
}

/// What waits for the answer of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    /// A pod's volumes.
    Pod(ObjectKey),
    /// What VolumeAttachments say.
    Attachments,
}

impl Sources {
    /// Sources that have said nothing yet.
    pub fn new(
        workshop: Arc<Workshop>,
        catalog: Arc<PluginRegistry>,
        node: NodeIdentity,
        shared: Arc<SharedObjects>,
        attaching: Attaching,
    ) -> Self {
        let (store, elsewhere) = (ObjectStore::new(), BTreeSet::new());
        Self {
            store,
            shared,
            node,
            catalog,
            workshop,
            complete: false,
            attaching,
            told_of_labels: false,
            elsewhere,
            provisions: false,
            misses_objects: false,
            has_seen_manifests: false,
            waiting: HashMap::new(),
        }
    }

    /// Whether an object that is not known may be one that was added by request and cannot be read (rule R2).
    pub fn misses_objects(&self) -> bool {
        self.misses_objects
    }

    /// Whether any manifest was there since the start. Without one, nothing tells that what stood in one is gone: the folder's mount may be
    /// missing (rule R2).
    pub fn has_seen_manifests(&self) -> bool {
        self.has_seen_manifests
    }

    /// The same, where volumes are made for claims.
    #[must_use]
    pub fn provisioning(self) -> Self {
        Self { provisions: true, ..self }
    }

    /// Takes note that no source will say more than it has: what is not known does not exist.
    pub fn set_complete(&mut self) {
        self.complete = true;
        self.shared.set_complete(true);
    }

    /// Takes note of where drivers say that this node is. What a driver has said that is not there now holds still: the node has not moved.
    pub fn node_is_in(&mut self, topology: BTreeMap<String, String>) {
        for (key, value) in topology {
            self.node.topology.insert(key, value);
        }
    }

    /// Whether an object names this pod.
    pub fn knows(&self, uid: &PodUid) -> bool {
        self.store.pod_with_uid(uid.as_str()).is_some()
    }

    /// How the SELinux labels that pods ask for fit together.
    pub fn selinux_census(&self) -> SelinuxCensus {
        selinux_census(&self.store, self.catalog.as_ref(), &self.node)
    }

    /// The uid of the pod of this name.
    pub fn uid_of(&self, namespace: &str, name: &str) -> Option<PodUid> {
        let pod = self.store.pod(&ObjectKey::new(Kind::Pod, namespace, name))?;
        Some(pod.pod.uid.clone())
    }

    /// Takes what the manifest folder has brought.
    pub fn apply_manifests(&mut self, mut changes: Changes) -> Effects {
        for notice in &changes.notices {
            info!("{notice}");
        }
        let refused = self.refuse_changes_of_immutable(&mut changes);
        let removed: Vec<ObjectKey> = changes.removed.iter().map(|object| object.key.clone()).collect();
        let mut touched = removed.clone();
        touched.extend(changes.upserted.iter().map(|object| object.key.clone()));
        self.has_seen_manifests |= !changes.upserted.is_empty();
        let mut applied = self.store.apply(Source::Manifest, changes.upserted, removed);
        for key in &touched {
            self.shared.keep(key, self.store.get(key).map(Arc::as_ref));
        }
        if changes.complete && !self.complete {
            self.complete = true;
            applied.attachments_changed = true;
        }
        if self.shared.set_complete(changes.complete) {
            // What was missing until now, and could have been in a file that nobody could read, is known to be missing.
            applied.source_changed.extend(self.store.pods().map(|(key, _)| key.clone()));
        }
        let mut effects = self.effects(applied);
        for problem in changes.problems {
            for message in problem.messages {
                effects.notices.push((
                    EventKind::Warning,
                    "InvalidManifest",
                    format!("file {}", problem.file),
                    message,
                ));
            }
        }
        effects.notices.extend(refused);
        for file in changes.cleared {
            effects.notices.push((
                EventKind::Normal,
                "ManifestMended",
                format!("file {file}"),
                "it is read without error again".to_owned(),
            ));
        }
        effects
    }

    /// Leaves out what would change an object that cannot change, and says so. One that was removed before can be made anew.
    fn refuse_changes_of_immutable(&self, changes: &mut Changes) -> Vec<(EventKind, &'static str, String, String)> {
        let mut refused = Vec::new();
        changes.upserted.retain(|new| {
            let old = self.store.get(&new.key);
            let why = old.and_then(|old| manifest::immutable::refused(old, new));
            let kept = why.is_none();
            let file = format!("file {}", new.origin.file);
            refused.extend(why.map(|why| (EventKind::Warning, "InvalidManifest", file, why)));
            kept
        });
        refused
    }

    /// Adds or replaces the objects of a request. All or nothing.
    ///
    /// # Errors
    /// [`RequestError::Invalid`], [`RequestError::Conflict`]; nothing was changed.
    pub fn add(&mut self, manifest: Manifest) -> Result<(Vec<AddedPod>, Effects), RequestError> {
        let Objects { objects, documents } = manifest.read.map_err(RequestError::Invalid)?;
        for object in &objects {
            if !by_request(object.key.kind) {
                return Err(RequestError::Invalid(format!(
                    "{}: {} cannot be added by request; put its manifest into the manifest folder",
                    object.origin, object.key
                )));
            }
            self.store.check(Source::Api, object).map_err(|conflict| RequestError::Conflict(conflict.to_string()))?;
        }
        if objects.is_empty() {
            return Err(RequestError::Invalid(format!("{REQUEST}: there is no object in it")));
        }
        for (key, text) in documents {
            self.keep(&key, &text)
                .map_err(|error| RequestError::Invalid(format!("{key} cannot be kept for the next start: {error}")))?;
        }
        let pods = objects.iter().filter_map(|object| object.pod());
        let added = pods.map(|pod| AddedPod { uid: pod.pod.uid.clone(), full_name: pod.pod.full_name() }).collect();
        let applied = self.store.apply(Source::Api, objects, []);
        Ok((added, self.effects(applied)))
    }

    /// Takes the PersistentVolumes of volumes that were made for claims, and forgets those that are gone.
    pub fn provide(&mut self, volumes: Vec<Arc<Object>>, gone: Vec<ObjectKey>) -> Effects {
        let applied = self.store.apply(Source::Host, volumes, gone);
        self.effects(applied)
    }

    /// Takes note of why claims have no volume made; none when nothing is new.
    pub fn set_notes(&mut self, notes: BTreeMap<ObjectKey, String>) -> Option<Effects> {
        let changed = self.store.set_notes(notes);
        if changed.is_empty() {
            return None;
        }
        let resolve = changed.iter().flat_map(|claim| self.store.users_of(claim)).cloned().collect();
        Some(self.effects(Applied { resolve, ..Applied::default() }))
    }

    /// All objects.
    pub fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// This node.
    pub fn node(&self) -> &NodeIdentity {
        &self.node
    }

    /// Forgets a claim, a PersistentVolume or a StorageClass that was added by request.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when a manifest file has it, [`RequestError::UnknownObject`] when nobody has.
    pub fn remove_object(&mut self, key: &ObjectKey) -> Result<Effects, RequestError> {
        match self.store.source(key) {
            Some(Source::Api) => {}
            Some(Source::Manifest) => {
                let origin = self.store.get(key).map(|object| object.origin.to_string()).unwrap_or_default();
                return Err(RequestError::Conflict(format!("{key} comes from the manifest {origin}; remove it there")));
            }
            Some(Source::Host) => return Err(RequestError::Conflict(format!("{key} was made for a claim"))),
            None => return Err(RequestError::UnknownObject(key.to_string())),
        }
        self.drop_kept(key).map_err(|error| RequestError::Failed(format!("{key} cannot be removed: {error}")))?;
        let applied = self.store.apply(Source::Api, Vec::new(), [key.clone()]);
        Ok(self.effects(applied))
    }

    /// Forgets a pod that was added by request.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when the pod comes from a manifest file, [`RequestError::UnknownPod`] when it is gone already.
    pub fn remove_pod(&mut self, uid: &PodUid) -> Result<Effects, RequestError> {
        let unknown = || RequestError::UnknownPod(uid.to_string());
        let key = self.store.pod_with_uid(uid.as_str()).cloned().ok_or_else(unknown)?;
        if self.store.source(&key) != Some(Source::Api) {
            let origin = self.store.get(&key).map(|object| object.origin.to_string()).unwrap_or_default();
            return Err(RequestError::Conflict(format!("{key} comes from the manifest {origin}; remove it there")));
        }
        if let Err(error) = self.drop_kept(&key) {
            warn!(pod = %key, %error, "the pod's object could not be removed; a restart would bring it back");
        }
        let applied = self.store.apply(Source::Api, Vec::new(), [key]);
        Ok(self.effects(applied))
    }

    /// Takes over the objects that an earlier run was given by request.
    pub fn restore(&mut self) -> Effects {
        let mut notices = Vec::new();
        let objects = match self.kept(&mut notices) {
            Ok(objects) => objects,
            Err(error) => {
                notices.push((EventKind::Warning, "RecoveryProblem", format!("path {FOLDER}"), error.to_string()));
                Vec::new()
            }
        };
        self.misses_objects = !notices.is_empty();
        let applied = self.store.apply(Source::Api, objects, []);
        let mut effects = self.effects(applied);
        effects.notices.append(&mut notices);
        effects
    }

    /// Every pod as it is wanted now: which plugin serves what may have changed.
    pub fn resolve_all(&mut self) -> Effects {
        let pods = self.store.pods().map(|(key, _)| key.clone()).collect();
        self.effects(Applied { resolve: pods, attachments_changed: true, ..Applied::default() })
    }

    /// Resolves again what waits for the answers to these questions.
    pub fn resolve_waiting(&mut self, questions: impl IntoIterator<Item = QuestionKey>) -> Effects {
        let waiting: BTreeSet<Waiting> =
            questions.into_iter().filter_map(|key| self.waiting.remove(&key)).flatten().collect();
        let mut applied = Applied::default();
        for one in waiting {
            match one {
                Waiting::Pod(key) => drop(applied.resolve.insert(key)),
                Waiting::Attachments => applied.attachments_changed = true,
            }
        }
        self.effects(applied)
    }

    /// Takes note that what was resolved just now waits for the questions that came up.
    fn note_waiting(&mut self, who: &Waiting) {
        for key in self.catalog.take_awaited() {
            self.waiting.entry(key).or_default().insert(who.clone());
        }
    }

    fn effects(&mut self, applied: Applied) -> Effects {
        // What figures ask for waits for nothing.
        drop(self.catalog.take_awaited());
        let mut effects = Effects { gone: applied.gone, ..Effects::default() };
        if applied.attachments_changed {
            let host_attaches = |plugin: &PluginName| self.attaching.by_host(plugin);
            let (store, catalog) = (&self.store, self.catalog.as_ref());
            // A VolumeAttachment that no file has could be in one that nobody has read (rule R2).
            let report = attachments_of(&self.node.name, store, catalog, host_attaches, self.complete);
            effects.attachments = Some(report);
            self.note_waiting(&Waiting::Attachments);
        }
        for uid in &effects.gone {
            self.shared.forget_pod(uid);
        }
        for key in applied.resolve {
            let Some(pod) = self.store.pod(&key) else { continue };
            match standing(pod, &self.node) {
                PodStanding::Runs => {
                    self.elsewhere.remove(&key);
                    if self.node.container_file_label.is_none() && !self.told_of_labels && asks_for_labels(pod) {
                        self.told_of_labels = true;
                        let message = "its containers have seLinuxOptions, and this node's kernel has no SELinux: volumes are mounted without labels; this is said once".to_owned();
                        let object = format!("pod {}", key.full_name());
                        effects.notices.push((EventKind::Normal, "NoSELinux", object, message));
                    }
                    effects.desired.push(resolve(pod, &self.store, self.catalog.as_ref(), &self.node));
                    self.note_waiting(&Waiting::Pod(key.clone()));
                }
                PodStanding::Finished => effects.gone.push(pod.pod.uid.clone()),
                PodStanding::OtherNode { node } => {
                    // It may have been this node's before.
                    effects.gone.push(pod.pod.uid.clone());
                    if self.elsewhere.insert(key.clone()) {
                        let message = format!(
                            "spec.nodeName is {node:?} and this node is {:?}: its volumes are not mounted here",
                            self.node.name
                        );
                        effects.notices.push((
                            EventKind::Normal,
                            "OtherNode",
                            format!("pod {}", key.full_name()),
                            message,
                        ));
                    }
                }
            }
        }
        for key in applied.source_changed {
            if let Some(pod) = self.store.pod(&key) {
                effects.source_changed.push(pod.pod.uid.clone());
            }
        }
        for conflict in applied.conflicts {
            effects.notices.push((EventKind::Warning, "ConflictingManifest", "file".to_owned(), conflict.to_string()));
        }
        effects
    }

    /// Where objects of this kind are kept: pods go with the machine, claims stay as long as their volumes where these are made here.
    fn kept_in(&self, kind: Kind) -> (&Directory, PathBuf, Durability) {
        if self.provisions && kind != Kind::Pod {
            return (&self.workshop.root, Path::new(provision::FOLDER).join(provision::OBJECTS), Durability::Machine);
        }
        (self.workshop.records.state(), PathBuf::from(FOLDER), Durability::Process)
    }

    fn keep(&self, key: &ObjectKey, text: &str) -> Result<(), KernelError> {
        let kernel = &self.workshop.kernel;
        let (above, folder, durability) = self.kept_in(key.kind);
        let folder = kernel.make_dirs(above, &folder, 0o700)?;
        kernel.write_atomic(&folder, &file_name(key), text.as_bytes(), 0o600, durability)
    }

    fn drop_kept(&self, key: &ObjectKey) -> Result<(), KernelError> {
        let kernel = &self.workshop.kernel;
        let (above, folder, _) = self.kept_in(key.kind);
        kernel.walk(above, &folder).and_then(|folder| kernel.remove_file(&folder, &file_name(key)))
    }

    /// What an earlier run kept, of all kinds.
    fn kept(
        &self,
        notices: &mut Vec<(EventKind, &'static str, String, String)>,
    ) -> Result<Vec<Arc<Object>>, KernelError> {
        let mut objects = Vec::new();
        let mut folders = vec![self.kept_in(Kind::Pod)];
        if self.provisions {
            folders.push(self.kept_in(Kind::PersistentVolumeClaim));
        }
        for (above, folder, _) in folders {
            match self.workshop.kernel.walk(above, &folder) {
                Ok(opened) => objects.extend(self.kept_below(&opened, &folder, notices)?),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(objects)
    }

    fn kept_below(
        &self,
        folder: &Directory,
        path: &Path,
        notices: &mut Vec<(EventKind, &'static str, String, String)>,
    ) -> Result<Vec<Arc<Object>>, KernelError> {
        let mut objects = Vec::new();
        for name in self.workshop.kernel.names(folder)? {
            match self.kept_object(folder, &name) {
                Ok(parsed) => objects.extend(parsed),
                Err(error) => {
                    notices.push((
                        EventKind::Warning,
                        "RecoveryProblem",
                        format!("path {}", path.join(&name).display()),
                        error,
                    ));
                }
            }
        }
        Ok(objects)
    }

    fn kept_object(&self, folder: &Directory, name: &OsStr) -> Result<Vec<Arc<Object>>, String> {
        let bytes =
            self.workshop.kernel.read_file(folder, name, MAX_OBJECT_BYTES).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes.unwrap_or_default()).map_err(|error| error.to_string())?;
        let parsed = manifest::parse(REQUEST, &text).map_err(|error| error.to_string())?;
        Ok(parsed.objects)
    }
}

/// The kinds that can be added by request: those that hold no secrets.
fn by_request(kind: Kind) -> bool {
    matches!(kind, Kind::Pod | Kind::PersistentVolume | Kind::PersistentVolumeClaim | Kind::StorageClass)
}

fn file_name(key: &ObjectKey) -> OsString {
    let digest = Sha256::digest(key.to_string());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    OsString::from(format!("{hex}.json"))
}
