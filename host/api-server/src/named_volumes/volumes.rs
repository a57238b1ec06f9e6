//! Named volumes as objects of the node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::Mutex;
use tonic::Status;
use volhost_api::pb;
use volhost_core::WaitFailure;
use volhost_model::view::{ClaimView, EventKind, PodView};
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::manifest_text::FieldValidation;
use volhost_node::event_loop::requests::{PodSelector, RequestError};
use volhost_objects::{Kind, ObjectKey, derived_uid};

use super::names::{NAMESPACE, NamedVolumeNameError, VolumeName};
use super::options::{CREATED, Labels, ProvisionOptions, VolumeOptions, claim};
use crate::status::refused;

/// How long `create` waits for the storage. Podman cuts a call after 5 s; a volume that takes
/// longer is bound later, and its first mount waits for it.
const CREATE_WAIT: Duration = Duration::from_secs(4);
/// The volume's name in a user's pod.
const VOLUME: &str = "volume";

/// Why a call for a named volume failed.
#[derive(Debug, Error)]
pub(super) enum VolumesError {
    /// The node refused.
    #[error("{0}")]
    Node(#[from] RequestError),
    /// The id is not valid.
    #[error("{0}")]
    Id(#[from] NamedVolumeNameError),
    /// There is no such volume.
    #[error("there is no volume {0}; `volhost volume ls` lists them")]
    Unknown(String),
    /// There is one already.
    #[error("volume {0} exists already")]
    Exists(String),
    /// It has users.
    #[error("volume {name} is in use by {users}; it stays until the last of them is unmounted")]
    InUse { name: String, users: String },
    /// Its storage could not be created.
    #[error("volume {name} was not created: {why}")]
    NotCreated { name: String, why: String },
    /// It did not reach the state that was waited for.
    #[error("volume {name} is not {goal} for {id}: {why}")]
    NotReached { name: String, goal: &'static str, id: String, why: String },
    /// The class by which it was made is gone.
    #[error(
        "the StorageClass of volume {0} is gone, so that no copy can be made as it was; create a volume with `-o plugin`"
    )]
    NoClass(String),
    /// It is a folder of the host, or in memory.
    #[error("volume {0} is a folder of the host or a memory: no driver makes it larger or copies it")]
    Local(String),
    /// It would shrink.
    #[error("volume {name} has {has} bytes, and cannot shrink to {wanted}")]
    Shrink { name: String, has: u64, wanted: u64 },
}

impl From<VolumesError> for Status {
    fn from(error: VolumesError) -> Self {
        let text = error.to_string();
        match error {
            VolumesError::Node(error) => refused(&error),
            VolumesError::Id(_) | VolumesError::Shrink { .. } => Self::invalid_argument(text),
            VolumesError::Unknown(_) => Self::not_found(text),
            VolumesError::Exists(_) => Self::already_exists(text),
            VolumesError::InUse { .. }
            | VolumesError::NotCreated { .. }
            | VolumesError::Local(_)
            | VolumesError::NoClass(_) => Self::failed_precondition(text),
            VolumesError::NotReached { .. } => Self::deadline_exceeded(text),
        }
    }
}

/// The node's named volumes.
#[derive(Debug)]
pub(super) struct Volumes {
    node: NodeHandle,
    /// Checking the objects and changing them is one step: a volume that gets a user is not
    /// removed. Nothing waits for storage while this is locked.
    changes: Mutex<()>,
}

impl Volumes {
    pub(super) fn new(node: NodeHandle) -> Self {
        Self { node, changes: Mutex::new(()) }
    }

    /// Creates a volume, and waits a few seconds for its storage.
    ///
    /// # Errors
    /// [`VolumesError::Exists`]; [`VolumesError::NotCreated`] has the driver's words, and nothing
    /// is left of the volume.
    pub(super) async fn create(&self, volume: &VolumeName, options: &VolumeOptions) -> Result<(), VolumesError> {
        let mut changes = self.node.changes();
        let before = self.node.events(0).await?.last().map_or(0, |event| event.sequence);
        {
            let _locked = self.changes.lock().await;
            if self.claim(volume).await?.is_some() {
                return Err(VolumesError::Exists(volume.as_str().to_owned()));
            }
            let manifest = self.manifest(volume, options).await?;
            self.node.add_objects(manifest, FieldValidation::Strict).await?;
        }
        // What is copied may have been unmounted a moment ago, and be detached only now.
        let is_copy = matches!(options, VolumeOptions::Copy { .. });
        let bound = async {
            loop {
                if self.claim(volume).await?.is_none_or(|claim| claim.phase == "Bound") {
                    return Ok(None);
                }
                if let Some(why) = self.warning(volume, before).await?.filter(|_| !is_copy) {
                    return Ok::<_, RequestError>(Some(why));
                }
                // A receiver that lags looks again, as after a change.
                let _ = changes.recv().await;
            }
        };
        let why = match tokio::time::timeout(CREATE_WAIT, bound).await {
            Ok(ended) => ended?,
            Err(_) if is_copy => self.warning(volume, before).await?,
            Err(_) => None,
        };
        let Some(why) = why else { return Ok(()) };
        self.remove(volume).await?;
        Err(VolumesError::NotCreated { name: volume.as_str().to_owned(), why })
    }

    /// Returns the manifest of a new volume's objects.
    async fn manifest(&self, volume: &VolumeName, options: &VolumeOptions) -> Result<String, VolumesError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let labels = Labels::from([(CREATED.to_owned(), now.as_secs().to_string())]);
        let uid = new_uid(volume, now);
        let (of, size) = match options {
            VolumeOptions::Provisioned(options) => return Ok(options.manifest(volume, &uid, &labels, None)),
            VolumeOptions::Local(local) => return Ok(local.manifest(volume, &labels)),
            VolumeOptions::Copy { of, size } => (VolumeName::new(of)?, *size),
        };
        let has = self.require(&of).await?;
        if has.volume == of.persistent_volume() {
            return Err(VolumesError::Local(of.as_str().to_owned()));
        }
        let size = size.unwrap_or_else(|| has.capacity.max(has.requested));
        let options = self.class(&of).await?.and_then(|class| ProvisionOptions::of_class(&class, size));
        let options = options.ok_or_else(|| VolumesError::NoClass(of.as_str().to_owned()))?;
        Ok(options.manifest(volume, &uid, &labels, Some(&of)))
    }

    /// Returns the StorageClass of a volume, if it is there.
    async fn class(&self, volume: &VolumeName) -> Result<Option<Value>, RequestError> {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": volume.class() },
            "provisioner": "any",
        });
        self.present(&class).await
    }

    /// Returns an object as it is now, if it is there.
    async fn present(&self, object: &Value) -> Result<Option<Value>, RequestError> {
        let compared = self.node.compare_objects(object.to_string(), FieldValidation::Strict).await?;
        let present = compared.objects.into_iter().find_map(|object| object.present);
        Ok(present.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Returns the last warning of a claim after this event.
    async fn warning(&self, volume: &VolumeName, after: u64) -> Result<Option<String>, RequestError> {
        let object = format!("claim {NAMESPACE}/{}", volume.claim());
        let events = self.node.events(after).await?.into_iter().rev();
        let mut warnings = events.filter(|event| event.object == object && event.kind == EventKind::Warning);
        Ok(warnings.next().map(|event| event.message))
    }

    /// Returns the volumes, by name.
    ///
    /// # Errors
    /// [`VolumesError::Node`].
    pub(super) async fn list(&self) -> Result<Vec<pb::NamedVolume>, VolumesError> {
        let listed = self.node.claims().await?;
        let pods = self.node.snapshot().await?.pods;
        let mut volumes = Vec::new();
        for claim in listed.claims {
            let Some(volume) = VolumeName::of_claim(&claim.namespace, &claim.name) else { continue };
            let made = listed.volumes.iter().find(|one| !claim.volume.is_empty() && one.name == claim.volume);
            let mut users = Vec::new();
            for pod in users_of(&volume, &pods) {
                let path = self.path(&pod.uid).await.unwrap_or_default();
                users.push(pb::NamedVolumeUser { id: volume.user(&pod.namespace, &pod.name), path });
            }
            let created = claim.labels.get(CREATED).and_then(|seconds| seconds.parse::<u64>().ok());
            let created_us = created.unwrap_or_default().saturating_mul(1_000_000);
            volumes.push(pb::NamedVolume {
                name: volume.as_str().to_owned(),
                phase: claim.phase,
                reason: claim.reason,
                requested_bytes: claim.requested,
                capacity_bytes: claim.capacity,
                provisioner: made.map(|made| made.provisioner.clone()).unwrap_or_default(),
                persistent_volume: claim.volume,
                users,
                created_us,
            });
        }
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// Mounts a volume for a user. Returns the path.
    ///
    /// # Errors
    /// [`VolumesError::NotReached`] if it is not mounted in time; the user is removed then, unless
    /// it had the volume before.
    pub(super) async fn mount(&self, volume: &VolumeName, id: &str, timeout: Duration) -> Result<String, VolumesError> {
        let pod = volume.pod(id)?;
        let selector = PodSelector::Name { namespace: NAMESPACE.to_owned(), name: pod.clone() };
        let is_new = {
            let _locked = self.changes.lock().await;
            self.require(volume).await?;
            let is_new = !self.node.snapshot().await?.pods.iter().any(|one| is_pod(one, &pod));
            self.node.add_objects(user(volume, &pod), FieldValidation::Strict).await?;
            is_new
        };
        if let Err(failure) = self.node.wait_mounted(selector.clone(), timeout).await? {
            if is_new {
                self.forget(&selector).await?;
            }
            let (name, id, why) = (volume.as_str().to_owned(), id.to_owned(), words(&failure));
            return Err(VolumesError::NotReached { name, goal: "mounted", id, why });
        }
        let mounted = self.node.mounted_volumes(selector, false).await?;
        let path = mounted.into_iter().find(|one| one.outer_name == VOLUME).map(|one| one.path);
        path.ok_or_else(|| VolumesError::Unknown(volume.as_str().to_owned()))
    }

    /// Removes a user, and waits until the user's mount is gone.
    ///
    /// # Errors
    /// [`VolumesError::NotReached`] if it is not unmounted in time: volhost goes on trying.
    pub(super) async fn unmount(&self, volume: &VolumeName, id: &str, timeout: Duration) -> Result<(), VolumesError> {
        let selector = PodSelector::Name { namespace: NAMESPACE.to_owned(), name: volume.pod(id)? };
        self.forget(&selector).await?;
        self.node.wait_unmounted(selector, timeout).await?.map_err(|failure| VolumesError::NotReached {
            name: volume.as_str().to_owned(),
            goal: "unmounted",
            id: id.to_owned(),
            why: words(&failure),
        })
    }

    /// Deletes a volume and its data.
    ///
    /// # Errors
    /// [`VolumesError::InUse`] names the users.
    pub(super) async fn remove(&self, volume: &VolumeName) -> Result<(), VolumesError> {
        let _locked = self.changes.lock().await;
        let claim = self.require(volume).await?;
        let pods = self.node.snapshot().await?.pods;
        let users: Vec<String> = users_of(volume, &pods).map(|pod| volume.user(&pod.namespace, &pod.name)).collect();
        if !users.is_empty() {
            return Err(VolumesError::InUse { name: volume.as_str().to_owned(), users: users.join(", ") });
        }
        self.node.remove_object(ObjectKey::new(Kind::PersistentVolumeClaim, NAMESPACE, claim.name)).await?;
        let class = ObjectKey::new(Kind::StorageClass, "", volume.class());
        let folder = ObjectKey::new(Kind::PersistentVolume, "", volume.persistent_volume());
        for object in [class, folder] {
            match self.node.remove_object(object).await {
                // It has one of the two, which another program may have removed.
                Ok(_) | Err(RequestError::UnknownObject(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Lets a volume grow.
    ///
    /// # Errors
    /// [`VolumesError::Shrink`], [`VolumesError::Local`].
    pub(super) async fn resize(&self, volume: &VolumeName, size: u64) -> Result<(), VolumesError> {
        let _locked = self.changes.lock().await;
        let has = self.require(volume).await?;
        if has.volume == volume.persistent_volume() {
            return Err(VolumesError::Local(volume.as_str().to_owned()));
        }
        let bytes = has.capacity.max(has.requested);
        if size < bytes {
            return Err(VolumesError::Shrink { name: volume.as_str().to_owned(), has: bytes, wanted: size });
        }
        // With another uid it were the claim of another volume, and this one would be deleted.
        let present = self.present(&claim(volume, None, &has.labels, size)).await?;
        let present = present.ok_or_else(|| VolumesError::Unknown(volume.as_str().to_owned()))?;
        let uid = present.pointer("/metadata/uid").and_then(Value::as_str);
        self.node.add_objects(claim(volume, uid, &has.labels, size).to_string(), FieldValidation::Strict).await?;
        Ok(())
    }

    async fn claim(&self, volume: &VolumeName) -> Result<Option<ClaimView>, RequestError> {
        let claims = self.node.claims().await?.claims;
        Ok(claims.into_iter().find(|claim| claim.namespace == NAMESPACE && claim.name == volume.claim()))
    }

    async fn require(&self, volume: &VolumeName) -> Result<ClaimView, VolumesError> {
        self.claim(volume).await?.ok_or_else(|| VolumesError::Unknown(volume.as_str().to_owned()))
    }

    async fn path(&self, pod: &str) -> Option<String> {
        let mounted = self.node.mounted_volumes(PodSelector::Uid(pod.to_owned()), false).await.ok()?;
        mounted.into_iter().find(|one| one.outer_name == VOLUME).map(|one| one.path)
    }

    /// Removes the pod of a user, if it exists.
    async fn forget(&self, pod: &PodSelector) -> Result<(), RequestError> {
        match self.node.remove_pod(pod.clone()).await {
            Ok(()) | Err(RequestError::UnknownPod(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the pods that have a volume, or want it.
fn users_of<'a>(volume: &'a VolumeName, pods: &'a [PodView]) -> impl Iterator<Item = &'a PodView> {
    let claim = format!("{NAMESPACE}/{}", volume.claim());
    let prefix = format!("{}.", volume.claim());
    pods.iter().filter(move |pod| {
        // A volume that is not resolved yet has no claim in its view; the pod's name has it.
        let is_user = pod.namespace == NAMESPACE && pod.name.strip_prefix(&prefix).is_some_and(|id| !id.contains('.'));
        is_user || pod.volumes.iter().any(|one| one.claim == claim)
    })
}

fn is_pod(pod: &PodView, name: &str) -> bool {
    pod.namespace == NAMESPACE && pod.name == name
}

/// Returns the manifest of a user's pod.
fn user(volume: &VolumeName, pod: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": pod, "namespace": NAMESPACE },
        "spec": {
            "containers": [{
                "name": "user",
                "image": "none",
                "volumeMounts": [{ "name": VOLUME, "mountPath": "/volume" }],
            }],
            "volumes": [{ "name": VOLUME, "persistentVolumeClaim": { "claimName": volume.claim() } }],
        },
    })
    .to_string()
}

/// Why a wait failed: the failure of the volume, or the reason why none was tried.
fn words(failure: &WaitFailure) -> String {
    let volumes = failure.volumes.iter().map(|volume| match &volume.failure {
        Some(failure) => failure.to_string(),
        None if volume.reason.is_empty() => volume.step.clone(),
        None => volume.reason.clone(),
    });
    let words: Vec<String> = volumes.filter(|words| !words.is_empty()).collect();
    if words.is_empty() { "the time is over".to_owned() } else { words.join("; ") }
}

/// A uid that no other claim has had, those of an earlier volume of this name included: a volume
/// that was removed is deleted, and does not come back with its name.
fn new_uid(volume: &VolumeName, now: Duration) -> String {
    // No object has such a name.
    let name = format!("{} {}", volume.claim(), now.as_nanos());
    derived_uid(&ObjectKey::new(Kind::PersistentVolumeClaim, NAMESPACE, name))
}
