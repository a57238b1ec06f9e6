//! Snapshots to contents, and the end of both.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use tracing::{info, warn};
use volhost_cluster_client::{Events, shortened};

use super::failure::{ClassError, SnapshotError};
use super::names::{self, AS_SOURCE, BEING_CREATED, BEING_DELETED, BOUND, CONTENT_BOUND, YES};
use super::plan::{self, Owner, Wanted};
use super::{STEPS, claims, class, status};
use crate::caches::Caches;
use crate::driver::Driver;
use crate::finalizers::{self, FIELD_MANAGER};
use crate::key::ObjectKey;
use crate::secrets;
use crate::snapshots::{ContentSpec, SnapshotCaches, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};

/// Binds snapshots and contents.
pub(crate) struct Binder {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    events: Events,
}

/// What follows a step.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Nothing until something changes.
    Done,
    /// The next step, from what was written.
    Again,
}

impl Binder {
    /// A binder.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches, events: Events) -> Self {
        Self { client, driver, caches, events }
    }

    /// Works on a snapshot. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, key: &ObjectKey) -> bool {
        for _ in 0..STEPS {
            let Some(known) = self.caches.snapshots() else { return true };
            let found = known.snapshot(key.namespace(), key.name());
            let Some(snapshot) = found.filter(|found| found.metadata.uid.as_deref() == Some(key.uid())) else {
                return true;
            };
            match self.step(&known, key, &snapshot).await {
                Ok(Next::Done) => return true,
                Ok(Next::Again) => {}
                Err(error) => {
                    self.failed(&known, key, &snapshot, &error).await;
                    return false;
                }
            }
        }
        false
    }

    async fn step(
        &self,
        known: &SnapshotCaches,
        key: &ObjectKey,
        snapshot: &VolumeSnapshot,
    ) -> Result<Next, SnapshotError> {
        let name = plan::content_name(snapshot);
        let content = known.content(&name);
        match self.owner(known, snapshot, content.as_deref()) {
            Owner::Ours | Owner::Unknown => {}
            Owner::Other => return Ok(Next::Done),
        }
        match plan::wanted(snapshot, content.as_deref(), || claims::is_restored(&self.caches, snapshot))? {
            Wanted::Nothing => Ok(Next::Done),
            Wanted::Content { claim } => self.take(known, key, snapshot, &claim).await,
            Wanted::Binding => self.bind(known, key, snapshot, content.as_deref()).await,
            Wanted::Status { deletes } => self.report(known, key, snapshot, content.as_deref(), deletes).await,
            Wanted::ContentEnd { deletes } => self.end(known, content.as_deref(), deletes).await,
            Wanted::Release => {
                claims::release(&self.client, &self.caches, known, snapshot).await?;
                self.patch(known, key, &finalizers::patch(&snapshot.metadata, &[AS_SOURCE, BOUND], &[])).await?;
                info!(snapshot = %key, "a snapshot is released");
                Ok(Next::Done)
            }
        }
    }

    fn owner(
        &self,
        known: &SnapshotCaches,
        snapshot: &VolumeSnapshot,
        content: Option<&VolumeSnapshotContent>,
    ) -> Owner {
        let content = content.and_then(|content| content.spec.get().ok()).map(|spec| spec.driver.as_str());
        let spec = snapshot.spec.get().ok();
        let class = spec.and_then(|spec| known.class(spec.volume_snapshot_class_name.as_deref()?));
        let claim = snapshot.claim().and_then(|claim| self.claim(snapshot, claim));
        let volume = claim.and_then(|claim| self.volume(&claim));
        let csi = volume.as_ref().and_then(|volume| volume.spec.as_ref()?.csi.as_ref());
        let class = class.as_ref().map(|class| class.driver());
        plan::owner(self.driver.name(), snapshot, content, class, csi.map(|csi| csi.driver.as_str()))
    }

    fn claim(&self, snapshot: &VolumeSnapshot, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.caches.claim(snapshot.metadata.namespace.as_deref().unwrap_or_default(), name)
    }

    /// The volume of a claim, of whatever driver.
    fn volume(&self, claim: &PersistentVolumeClaim) -> Option<Arc<PersistentVolume>> {
        self.caches.volume(claim.spec.as_ref()?.volume_name.as_deref()?)
    }

    /// Makes the content of a snapshot that is to be taken of a claim.
    async fn take(
        &self,
        known: &SnapshotCaches,
        key: &ObjectKey,
        snapshot: &VolumeSnapshot,
        claim: &str,
    ) -> Result<Next, SnapshotError> {
        let (spec, _) = snapshot.read()?;
        let named = spec.volume_snapshot_class_name.as_deref();
        // First what every driver's controller says alike, while it is not known whose it is.
        let (claim, volume) = self.source(snapshot, claim)?;
        let class = class::of(known, named, self.driver.name())?;
        check_driver(&class, &claim, &volume)?;
        let name = names::content(key.uid());
        let content = self.content(key, snapshot, &name, &class, &volume)?;
        let missing = plan::missing_finalizers(snapshot, class.deletes());
        if !missing.is_empty() || named.is_none() {
            let mut patch = finalizers::patch(&snapshot.metadata, &[], &missing);
            if let (None, Some(patch)) = (named, patch.as_object_mut()) {
                patch.insert("spec".to_owned(), json!({ "volumeSnapshotClassName": class.metadata.name }));
            }
            self.patch(known, key, &patch).await?;
        }
        claims::protect(&self.client, &self.caches, &claim).await?;
        let post = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let made = Api::<VolumeSnapshotContent>::all(self.client.clone()).create(&post, &content).await?;
        known.created_content(made);
        info!(snapshot = %key, content = name, "a snapshot is to be taken");
        let note = format!("Waiting for a snapshot {key} to be created by the CSI driver.");
        self.events.normal(&snapshot.object_ref(&()), "CreatingSnapshot", &note);
        Ok(Next::Again)
    }

    /// The claim that a snapshot is taken of, and its volume.
    fn source(
        &self,
        snapshot: &VolumeSnapshot,
        name: &str,
    ) -> Result<(Arc<PersistentVolumeClaim>, Arc<PersistentVolume>), SnapshotError> {
        let not = |reason: String| SnapshotError::Claim { claim: name.to_owned(), reason };
        let claim = self.claim(snapshot, name).ok_or_else(|| not("is not found".to_owned()))?;
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(not("is being deleted".to_owned()));
        }
        if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
            return Err(not("is not yet bound to a PV, will not attempt to take a snapshot".to_owned()));
        }
        let volume = self.volume(&claim).ok_or_else(|| not("has no PersistentVolume".to_owned()))?;
        let spec = volume.spec.as_ref();
        let bound = spec.and_then(|spec| spec.claim_ref.as_ref()).and_then(|bound| bound.uid.as_ref());
        if bound.is_none() || bound != claim.metadata.uid.as_ref() {
            return Err(not("has a PersistentVolume that is bound to another claim".to_owned()));
        }
        Ok((claim, volume))
    }

    fn content(
        &self,
        key: &ObjectKey,
        snapshot: &VolumeSnapshot,
        name: &str,
        class: &VolumeSnapshotClass,
        volume: &PersistentVolume,
    ) -> Result<VolumeSnapshotContent, SnapshotError> {
        class::parameters(class)?;
        let parameters = class.parameters().map_err(ClassError::from)?;
        let author = Some((key.namespace(), key.name()));
        let secret = secrets::of_snapshot(secrets::SNAPSHOTTER, parameters, name, author).map_err(ClassError::from)?;
        // Every attempt begins with a call whose outcome is not known.
        let mut annotations = std::collections::BTreeMap::from([(BEING_CREATED.to_owned(), YES.to_owned())]);
        if let Some((name, namespace)) = secret.and_then(|secret| secret.name.zip(secret.namespace)) {
            annotations.insert(names::SECRET_NAME.to_owned(), name);
            annotations.insert(names::SECRET_NAMESPACE.to_owned(), namespace);
        }
        let spec = volume.spec.clone().unwrap_or_default();
        let mut content = ContentSpec {
            volume_snapshot_ref: snapshot.object_ref(&()),
            driver: class.driver().to_owned(),
            deletion_policy: class.deletion_policy().to_owned(),
            source_volume_mode: spec.volume_mode,
            volume_snapshot_class_name: class.metadata.name.clone(),
            ..ContentSpec::default()
        };
        content.source.volume_handle = spec.csi.map(|csi| csi.volume_handle);
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(annotations),
            finalizers: Some(vec![CONTENT_BOUND.to_owned()]),
            ..ObjectMeta::default()
        };
        Ok(VolumeSnapshotContent::new(metadata, content))
    }

    /// Writes the UID of the snapshot into a content that is for its name.
    async fn bind(
        &self,
        known: &SnapshotCaches,
        key: &ObjectKey,
        snapshot: &VolumeSnapshot,
        content: Option<&VolumeSnapshotContent>,
    ) -> Result<Next, SnapshotError> {
        let content = content.ok_or(SnapshotError::NoContent)?;
        let ((spec, _), (content_spec, _)) = (snapshot.read()?, content.read()?);
        self.protect(known, key, snapshot, content_spec.deletion_policy == crate::snapshots::DELETE).await?;
        let mut patch = finalizers::patch(&content.metadata, &[], &[CONTENT_BOUND]);
        let mut bound = json!({ "volumeSnapshotRef": { "uid": key.uid() } });
        if let (Some(class), None, Some(bound)) =
            (&spec.volume_snapshot_class_name, &content_spec.volume_snapshot_class_name, bound.as_object_mut())
        {
            bound.insert("volumeSnapshotClassName".to_owned(), json!(class));
        }
        if let Some(patch) = patch.as_object_mut() {
            patch.insert("spec".to_owned(), bound);
        }
        self.patch_content(known, &content.metadata, &patch).await?;
        info!(snapshot = %key, content = content.metadata.name, "a snapshot is bound");
        Ok(Next::Again)
    }

    /// Makes the snapshot's status that of its content.
    async fn report(
        &self,
        known: &SnapshotCaches,
        key: &ObjectKey,
        snapshot: &VolumeSnapshot,
        content: Option<&VolumeSnapshotContent>,
        deletes: bool,
    ) -> Result<Next, SnapshotError> {
        let content = content.ok_or(SnapshotError::NoContent)?;
        if self.protect(known, key, snapshot, deletes).await? {
            return Ok(Next::Again);
        }
        let ((_, has), (_, shown)) = (snapshot.read()?, content.read()?);
        let name = content.metadata.name.as_deref().unwrap_or_default();
        let Some((patch, progress)) = status::of_snapshot(has, name, shown) else {
            if snapshot.is_ready() {
                claims::release(&self.client, &self.caches, known, snapshot).await?;
            }
            return Ok(Next::Done);
        };
        self.patch_status(known, key, &patch).await?;
        let object = snapshot.object_ref(&());
        if progress.is_created {
            let note = format!("Snapshot {key} was successfully created by the CSI driver.");
            self.events.normal(&object, "SnapshotCreated", &note);
        }
        if progress.is_ready {
            info!(snapshot = %key, content = name, "a snapshot is ready");
            self.events.normal(&object, "SnapshotReady", &format!("Snapshot {key} is ready to use."));
        }
        Ok(Next::Again)
    }

    /// Adds the finalizers that the snapshot lacks. Returns whether it lacked any.
    async fn protect(
        &self,
        known: &SnapshotCaches,
        key: &ObjectKey,
        snapshot: &VolumeSnapshot,
        deletes: bool,
    ) -> Result<bool, kube::Error> {
        let missing = plan::missing_finalizers(snapshot, deletes);
        if !missing.is_empty() {
            self.patch(known, key, &finalizers::patch(&snapshot.metadata, &[], &missing)).await?;
        }
        Ok(!missing.is_empty())
    }

    /// Marks the content of a deleted snapshot, and deletes it if it goes with the snapshot.
    async fn end(
        &self,
        known: &SnapshotCaches,
        content: Option<&VolumeSnapshotContent>,
        deletes: bool,
    ) -> Result<Next, SnapshotError> {
        let Some(content) = content else { return Ok(Next::Again) };
        if !content.has_annotation(BEING_DELETED) {
            let patch = json!({ "metadata": { "uid": content.metadata.uid, "annotations": { BEING_DELETED: YES } } });
            self.patch_content(known, &content.metadata, &patch).await?;
        }
        if !deletes {
            return Ok(Next::Again);
        }
        let preconditions = Preconditions { uid: content.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = content.metadata.name.as_deref().unwrap_or_default();
        match Api::<VolumeSnapshotContent>::all(self.client.clone()).delete(name, &parameters).await {
            // The end of the content is the next event.
            Ok(answer) => {
                answer.map_left(|content| known.wrote_content(content));
                Ok(Next::Done)
            }
            // Gone, or another one of this name.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(Next::Done),
            Err(error) => Err(error.into()),
        }
    }

    async fn failed(&self, known: &SnapshotCaches, key: &ObjectKey, snapshot: &VolumeSnapshot, error: &SnapshotError) {
        let text = error.to_string();
        let text = shortened(&text);
        warn!(snapshot = %key, "a snapshot waits: {text}");
        let Some(reason) = error.reason() else { return };
        self.events.warning(&snapshot.object_ref(&()), reason, text);
        if !error.is_in_status() || snapshot.metadata.deletion_timestamp.is_some() {
            return;
        }
        let shown = snapshot.status.get().ok().and_then(|status| status.error.as_ref());
        let Some(patch) = status::failed(shown, text, jiff::Timestamp::now()) else { return };
        if let Err(unsaid) = self.patch_status(known, key, &patch).await {
            warn!(snapshot = %key, "the error is not in the snapshot's status: {unsaid}");
        }
    }

    async fn patch(&self, known: &SnapshotCaches, key: &ObjectKey, patch: &Value) -> Result<(), kube::Error> {
        let api = Api::<VolumeSnapshot>::namespaced(self.client.clone(), key.namespace());
        match api.patch(key.name(), &parameters(), &Patch::Merge(patch)).await {
            Ok(written) => known.wrote_snapshot(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn patch_status(&self, known: &SnapshotCaches, key: &ObjectKey, status: &Value) -> Result<(), kube::Error> {
        let api = Api::<VolumeSnapshot>::namespaced(self.client.clone(), key.namespace());
        let patch = json!({ "metadata": { "uid": key.uid() }, "status": status });
        known.wrote_snapshot(api.patch_status(key.name(), &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }

    async fn patch_content(&self, known: &SnapshotCaches, meta: &ObjectMeta, patch: &Value) -> Result<(), kube::Error> {
        let name = meta.name.as_deref().unwrap_or_default();
        let api = Api::<VolumeSnapshotContent>::all(self.client.clone());
        known.wrote_content(api.patch(name, &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }
}

/// Checks that the volume is one of the class's driver.
fn check_driver(
    class: &VolumeSnapshotClass,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), SnapshotError> {
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    let reason = match csi.map(|csi| csi.driver.as_str()) {
        Some(driver) if driver == class.driver() => return Ok(()),
        Some(driver) => {
            format!("has a volume of the driver {driver}; the snapshot's class is of the driver {}", class.driver())
        }
        None => "has a volume of no CSI driver".to_owned(),
    };
    Err(SnapshotError::Claim { claim: claim.metadata.name.clone().unwrap_or_default(), reason })
}

/// Of every patch.
pub(super) fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
