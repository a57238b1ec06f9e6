//! Contents: what the driver takes, finds and deletes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, SecretReference};
use kube::api::Patch;
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use tracing::{info, warn};
use volhost_cluster_client::{Events, shortened};
use volhost_proto::csi::{
    CreateSnapshotRequest, DeleteSnapshotRequest, GetSnapshotRequest, ListSnapshotsRequest, Snapshot,
};

use super::binder::parameters;
use super::content_plan::{Wanted, wanted};
use super::failure::{ClassError, ContentError, is_conflict};
use super::names::{self, BEING_CREATED, CONTENT_BOUND, YES};
use super::{STEPS, class, status};
use crate::caches::Caches;
use crate::driver::{Can, Driver};
use crate::finalizers;
use crate::key::ObjectKey;
use crate::secrets;
use crate::snapshots::{SnapshotCaches, VolumeSnapshotContent};

/// Takes, finds and deletes the driver's snapshots.
pub(crate) struct Snapshotter {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    events: Events,
    metadata: bool,
}

/// What follows a step.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Nothing until something changes.
    Done,
    /// The next step, from what was written.
    Again,
    /// The same after a while: the driver is not ready.
    Later,
}

/// What is done for a content, for the words about a failure.
#[derive(Debug, Clone, Copy)]
enum Attempt {
    Creation,
    Check,
    Deletion,
    Write,
}

impl Attempt {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Creation => Self::Creation,
            Wanted::Check { .. } => Self::Check,
            Wanted::Deletion { .. } => Self::Deletion,
            _ => Self::Write,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Creation => "SnapshotCreationFailed",
            Self::Check => "SnapshotContentCheckandUpdateFailed",
            Self::Deletion => "SnapshotDeleteError",
            Self::Write => "SnapshotContentUpdateFailed",
        }
    }

    fn beginning(self) -> &'static str {
        match self {
            Self::Creation => "Failed to create snapshot",
            Self::Check => "Failed to check and update snapshot content",
            Self::Deletion => "Failed to delete snapshot",
            Self::Write => "Failed to update snapshot content",
        }
    }
}

/// The key of the snapshot that a content is for, where that can be read.
pub(crate) fn snapshot_of(content: &VolumeSnapshotContent) -> Option<ObjectKey> {
    let to = &content.spec.get().ok()?.volume_snapshot_ref;
    Some(ObjectKey::new(to.namespace.as_deref(), to.name.as_deref(), to.uid.as_deref()))
}

impl Snapshotter {
    /// A snapshotter. `metadata`: the driver is passed the names of the snapshot and its content.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches, events: Events, metadata: bool) -> Self {
        Self { client, driver, caches, events, metadata }
    }

    /// Works on a content. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, name: &str) -> bool {
        for _ in 0..STEPS {
            let Some(known) = self.caches.snapshots() else { return true };
            let Some(content) = known.content(name) else { return true };
            let is_grouped =
                |handle: &str| self.caches.groups().is_some_and(|groups| groups.has(self.driver.name(), handle));
            let wanted = match wanted(self.driver.name(), &content, has_snapshot(&known, &content), is_grouped) {
                Ok(wanted) => wanted,
                Err(error) => {
                    // Only a change helps.
                    warn!(content = name, "a content is not used: {error}");
                    self.events.warning(&content.object_ref(&()), "ContentValidationError", &error.to_string());
                    return true;
                }
            };
            match self.step(&known, &content, &wanted).await {
                Ok(Next::Done) => return true,
                Ok(Next::Later) => return false,
                Ok(Next::Again) => {}
                Err(error) => {
                    self.failed(&known, &content, Attempt::of(&wanted), &error).await;
                    return false;
                }
            }
        }
        false
    }

    async fn step(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
        wanted: &Wanted,
    ) -> Result<Next, ContentError> {
        let name = content.metadata.name.as_deref().unwrap_or_default();
        match wanted {
            Wanted::Nothing => Ok(Next::Done),
            Wanted::Finalizer => {
                self.patch(known, content, &finalizers::patch(&content.metadata, &[], &[CONTENT_BOUND])).await?;
                Ok(Next::Again)
            }
            Wanted::NoAnnotation => {
                self.annotate(known, content, Value::Null).await?;
                Ok(Next::Done)
            }
            Wanted::Creation => self.create(known, content).await,
            Wanted::Check { handle } => {
                let found = self.find(known, content, handle).await?;
                self.show(known, content, &found).await
            }
            Wanted::Deletion { handle } => {
                let request =
                    DeleteSnapshotRequest { snapshot_id: handle.clone(), secrets: self.secrets(content).await? };
                let answer = self.driver.client().delete_snapshot(self.driver.request(request)).await;
                answer.map_err(ContentError::call("DeleteSnapshot"))?;
                info!(content = name, "a snapshot is deleted");
                self.release(known, content).await
            }
            Wanted::Release => self.release(known, content).await,
        }
    }

    /// Asks the driver for the snapshot. It returns the same one each time.
    async fn create(&self, known: &SnapshotCaches, content: &VolumeSnapshotContent) -> Result<Next, ContentError> {
        let request = self.request(known, content).await?;
        let is_known = content.read()?.1.snapshot_handle.is_some();
        let is_marked = content.has_annotation(BEING_CREATED);
        if !is_known && !is_marked {
            self.annotate(known, content, json!(YES)).await?;
        }
        let answer = self.driver.client().create_snapshot(self.driver.request(request)).await;
        let answer = answer.map_err(ContentError::call("CreateSnapshot"));
        let taken = match answer {
            Ok(answer) => answer.into_inner().snapshot.filter(|snapshot| !snapshot.snapshot_id.is_empty()),
            Err(error) => {
                // No snapshot was taken or will be: unless an earlier call has taken it.
                if error.is_final() && !is_known {
                    self.annotate(known, content, Value::Null).await?;
                }
                return Err(error);
            }
        };
        let taken = taken.ok_or(ContentError::NoSnapshot("CreateSnapshot"))?;
        let next = self.show(known, content, &taken).await?;
        if !is_known {
            info!(content = content.metadata.name, handle = taken.snapshot_id, "a snapshot is taken");
        }
        if !is_known || is_marked {
            self.annotate(known, content, Value::Null).await?;
        }
        Ok(next)
    }

    async fn request(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
    ) -> Result<CreateSnapshotRequest, ContentError> {
        let (spec, _) = content.read()?;
        let named = spec.volume_snapshot_class_name.as_deref().unwrap_or_default();
        let mut parameters = match known.class(named) {
            Some(class) => class::parameters(&class)?,
            // What the driver may have taken is found by its name, and then deleted.
            None if content.metadata.deletion_timestamp.is_some() => HashMap::new(),
            None => return Err(ClassError::Gone(named.to_owned()).into()),
        };
        let to = &spec.volume_snapshot_ref;
        if self.metadata {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            for (key, value) in [
                ("csi.storage.k8s.io/volumesnapshot/name", text(&to.name)),
                ("csi.storage.k8s.io/volumesnapshot/namespace", text(&to.namespace)),
                ("csi.storage.k8s.io/volumesnapshotcontent/name", text(&content.metadata.name)),
            ] {
                parameters.insert(key.to_owned(), value);
            }
        }
        Ok(CreateSnapshotRequest {
            source_volume_id: spec.source.volume_handle.clone().unwrap_or_default(),
            name: names::of_driver(to.uid.as_deref().unwrap_or_default()),
            secrets: self.secrets(content).await?,
            parameters,
        })
    }

    /// Finds the snapshot of a content that the user made.
    async fn find(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
        handle: &str,
    ) -> Result<Snapshot, ContentError> {
        let (gets, lists) = (self.driver.can(Can::GetSnapshot), self.driver.can(Can::ListSnapshots));
        if !gets && !lists {
            // The driver cannot say.
            return Ok(Snapshot { snapshot_id: handle.to_owned(), ready_to_use: true, ..Snapshot::default() });
        }
        let secrets = self.list_secrets(known, content).await?;
        let snapshot_id = handle.to_owned();
        let found = if gets {
            let request = self.driver.request(GetSnapshotRequest { snapshot_id, secrets });
            let answer = self.driver.client().get_snapshot(request).await;
            answer.map_err(ContentError::call("GetSnapshot"))?.into_inner().snapshot
        } else {
            let request = ListSnapshotsRequest { snapshot_id, secrets, ..ListSnapshotsRequest::default() };
            let answer = self.driver.client().list_snapshots(self.driver.request(request)).await;
            let answer = answer.map_err(ContentError::call("ListSnapshots"))?.into_inner();
            answer.entries.into_iter().next().and_then(|entry| entry.snapshot)
        };
        let call = if gets { "GetSnapshot" } else { "ListSnapshots" };
        let found = found.ok_or(ContentError::NoSnapshot(call))?;
        // A driver may know it by more than one handle: it is deleted by that of the content.
        Ok(Snapshot { snapshot_id: handle.to_owned(), ..found })
    }

    /// Shows the driver's answer in the content's status.
    async fn show(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
        snapshot: &Snapshot,
    ) -> Result<Next, ContentError> {
        let (_, has) = content.read()?;
        if let Some(patch) = status::of_content(has, snapshot, jiff::Timestamp::now()) {
            self.patch_status(known, content, &patch).await?;
        }
        let is_deleted = content.metadata.deletion_timestamp.is_some();
        Ok(if snapshot.ready_to_use || is_deleted { Next::Again } else { Next::Later })
    }

    async fn release(&self, known: &SnapshotCaches, content: &VolumeSnapshotContent) -> Result<Next, ContentError> {
        self.patch(known, content, &finalizers::patch(&content.metadata, &[CONTENT_BOUND], &[])).await?;
        Ok(Next::Done)
    }

    /// The Secret that the content names.
    async fn secrets(&self, content: &VolumeSnapshotContent) -> Result<HashMap<String, String>, ContentError> {
        let annotation = |key| content.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let named = given(annotation(names::SECRET_NAME)).zip(given(annotation(names::SECRET_NAMESPACE)));
        let named = named.map(|(name, namespace)| SecretReference { name: Some(name), namespace: Some(namespace) });
        Ok(secrets::read(&self.client, named.as_ref()).await?)
    }

    /// The Secret for questions that the content's class names.
    async fn list_secrets(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
    ) -> Result<HashMap<String, String>, ContentError> {
        let (spec, _) = content.read()?;
        let Some(named) = &spec.volume_snapshot_class_name else { return Ok(HashMap::new()) };
        let class = known.class(named).ok_or_else(|| ClassError::Gone(named.clone()))?;
        let parameters: &BTreeMap<_, _> = class.parameters()?;
        let name = content.metadata.name.as_deref().unwrap_or_default();
        let secret = secrets::of_snapshot(secrets::SNAPSHOTTER_LIST, parameters, name, None)?;
        Ok(secrets::read(&self.client, secret.as_ref()).await?)
    }

    async fn failed(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
        attempt: Attempt,
        error: &ContentError,
    ) {
        let name = content.metadata.name.as_deref().unwrap_or_default();
        let text = format!("{}: {error}", attempt.beginning());
        let text = shortened(&text);
        warn!(content = name, "{text}");
        if matches!(error, ContentError::Write(error) if is_conflict(error)) {
            return;
        }
        self.events.warning(&content.object_ref(&()), attempt.reason(), text);
        let Ok((spec, has)) = content.read() else { return };
        // Users see events of their namespace alone.
        if spec.volume_snapshot_ref.uid.as_ref().is_some_and(|uid| !uid.is_empty()) {
            let snapshot = ObjectReference {
                api_version: Some("snapshot.storage.k8s.io/v1".to_owned()),
                kind: Some("VolumeSnapshot".to_owned()),
                ..spec.volume_snapshot_ref.clone()
            };
            self.events.warning(&snapshot, attempt.reason(), text);
        }
        if !matches!(attempt, Attempt::Creation | Attempt::Check) || matches!(error, ContentError::Write(_)) {
            return;
        }
        let Some(patch) = status::failed(has.error.as_ref(), text, jiff::Timestamp::now()) else { return };
        if let Err(unsaid) = self.patch_status(known, content, &patch).await {
            warn!(content = name, "the error is not in the content's status: {unsaid}");
        }
    }

    /// Sets the annotation of a call whose outcome is not known, or removes it.
    async fn annotate(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
        value: Value,
    ) -> Result<(), ContentError> {
        let patch = json!({ "metadata": { "uid": content.metadata.uid, "annotations": { BEING_CREATED: value } } });
        Ok(self.patch(known, content, &patch).await?)
    }

    async fn patch(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
        patch: &Value,
    ) -> Result<(), kube::Error> {
        let api = Api::<VolumeSnapshotContent>::all(self.client.clone());
        let name = content.metadata.name.as_deref().unwrap_or_default();
        match api.patch(name, &parameters(), &Patch::Merge(patch)).await {
            Ok(written) => known.wrote_content(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn patch_status(
        &self,
        known: &SnapshotCaches,
        content: &VolumeSnapshotContent,
        status: &Value,
    ) -> Result<(), kube::Error> {
        let api = Api::<VolumeSnapshotContent>::all(self.client.clone());
        let patch = json!({ "metadata": { "uid": content.metadata.uid }, "status": status });
        let name = content.metadata.name.as_deref().unwrap_or_default();
        known.wrote_content(api.patch_status(name, &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }
}

/// Whether the snapshot that the content is bound to exists.
fn has_snapshot(known: &SnapshotCaches, content: &VolumeSnapshotContent) -> bool {
    let Some(key) = snapshot_of(content) else { return true };
    let found = known.snapshot(key.namespace(), key.name());
    found.is_some_and(|found| found.metadata.uid.as_deref() == Some(key.uid()))
}
