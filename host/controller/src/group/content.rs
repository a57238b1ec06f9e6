//! Contents of groups: what the driver takes, finds and deletes.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::SecretReference;
use kube::api::Patch;
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use tracing::{info, warn};
use volhost_cluster_client::{Events, shortened};
use volhost_proto::csi::{
    CreateVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotRequest, Snapshot,
    VolumeGroupSnapshot as DriverGroup,
};

use super::failure::GroupError;
use super::names::{self, BEING_CREATED, CONTENT_BOUND, YES};
use super::plan::{ContentStep, of_content};
use super::{Next, STEPS, failed_status, parameters, time_text};
use crate::caches::Caches;
use crate::driver::Driver;
use crate::finalizers;
use crate::key::ObjectKey;
use crate::secrets::{self, PREFIX};
use crate::snapshots::{GroupCaches, SnapshotInfo, VolumeGroupSnapshotContent};

/// Takes, finds and deletes the driver's groups.
pub(crate) struct GroupSnapshotter {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    events: Events,
}

/// The key of the group that a content is for, where that can be read.
pub(crate) fn group_of(content: &VolumeGroupSnapshotContent) -> Option<ObjectKey> {
    let to = &content.spec.get().ok()?.volume_group_snapshot_ref;
    Some(ObjectKey::new(to.namespace.as_deref(), to.name.as_deref(), to.uid.as_deref()))
}

impl GroupSnapshotter {
    /// A snapshotter.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches, events: Events) -> Self {
        Self { client, driver, caches, events }
    }

    /// Works on a content. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, name: &str) -> bool {
        for _ in 0..STEPS {
            let Some(known) = self.caches.groups() else { return true };
            let Some(content) = known.content(name) else { return true };
            let has_group = group_of(&content).is_none_or(|key| {
                let found = known.group(key.namespace(), key.name());
                found.is_some_and(|found| found.metadata.uid.as_deref() == Some(key.uid()))
            });
            let step = match of_content(self.driver.name(), &content, has_group) {
                Ok(step) => step,
                Err(error) => {
                    // Only a change helps.
                    warn!(content = name, "a content of a group is not used: {error}");
                    let reason = "GroupContentValidationError";
                    self.events.warning(&content.object_ref(&()), reason, &error.to_string());
                    return true;
                }
            };
            match self.step(&known, &content, step).await {
                Ok(Next::Done) => return true,
                Ok(Next::Later) => return false,
                Ok(Next::Again) => {}
                Err(error) => {
                    self.failed(&known, &content, &error).await;
                    return false;
                }
            }
        }
        false
    }

    async fn step(
        &self,
        known: &GroupCaches,
        content: &VolumeGroupSnapshotContent,
        step: ContentStep,
    ) -> Result<Next, GroupError> {
        match step {
            ContentStep::Nothing => Ok(Next::Done),
            ContentStep::Finalizer => {
                self.patch(known, content, &finalizers::patch(&content.metadata, &[], &[CONTENT_BOUND])).await?;
                Ok(Next::Again)
            }
            ContentStep::NoAnnotation => {
                self.annotate(known, content, Value::Null).await?;
                Ok(Next::Done)
            }
            ContentStep::Creation => self.create(known, content).await,
            ContentStep::Check { handle, snapshots } => {
                let request = GetVolumeGroupSnapshotRequest {
                    group_snapshot_id: handle,
                    snapshot_ids: snapshots,
                    secrets: self.secrets(content).await?,
                };
                let call = "GetVolumeGroupSnapshot";
                let answer = self.driver.group_client().get_volume_group_snapshot(self.driver.request(request)).await;
                let found = answer.map_err(GroupError::call(call))?.into_inner().group_snapshot;
                self.show(known, content, call, found).await
            }
            ContentStep::Deletion { handle, snapshots } => {
                let request = DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id: handle,
                    snapshot_ids: snapshots,
                    secrets: self.secrets(content).await?,
                };
                let answer =
                    self.driver.group_client().delete_volume_group_snapshot(self.driver.request(request)).await;
                answer.map_err(GroupError::call("DeleteVolumeGroupSnapshot"))?;
                info!(content = content.metadata.name, "a group of snapshots is deleted");
                self.release(known, content).await
            }
            ContentStep::Release => self.release(known, content).await,
        }
    }

    /// Asks the driver for the group. It returns the same one each time.
    async fn create(&self, known: &GroupCaches, content: &VolumeGroupSnapshotContent) -> Result<Next, GroupError> {
        let (spec, status) = content.read()?;
        let named = spec.volume_group_snapshot_class_name.as_deref().unwrap_or_default();
        let parameters = match known.class(named) {
            Some(class) => class.parameters()?.clone(),
            // What the driver may have taken is found by its name, and then deleted.
            None if content.metadata.deletion_timestamp.is_some() => Default::default(),
            None => return Err(GroupError::NoClass(named.to_owned())),
        };
        let request = CreateVolumeGroupSnapshotRequest {
            name: names::of_driver(spec.volume_group_snapshot_ref.uid.as_deref().unwrap_or_default()),
            source_volume_ids: spec.source.volume_handles.clone().unwrap_or_default(),
            secrets: self.secrets(content).await?,
            parameters: parameters.into_iter().filter(|(key, _)| !key.starts_with(PREFIX)).collect(),
        };
        let is_known = status.volume_group_snapshot_handle.is_some();
        let is_marked = content.has_annotation(BEING_CREATED);
        if !is_known && !is_marked {
            self.annotate(known, content, json!(YES)).await?;
        }
        let call = "CreateVolumeGroupSnapshot";
        let answer = self.driver.group_client().create_volume_group_snapshot(self.driver.request(request)).await;
        let taken = match answer.map_err(GroupError::call(call)) {
            Ok(answer) => answer.into_inner().group_snapshot,
            Err(error) => {
                // No group was taken or will be: unless an earlier call has taken it.
                if error.is_final() && !is_known {
                    self.annotate(known, content, Value::Null).await?;
                }
                return Err(error);
            }
        };
        let next = self.show(known, content, call, taken).await?;
        if !is_known {
            info!(content = content.metadata.name, "a group of snapshots is taken");
        }
        self.annotate(known, content, Value::Null).await?;
        Ok(next)
    }

    /// Shows the driver's answer in the content's status.
    async fn show(
        &self,
        known: &GroupCaches,
        content: &VolumeGroupSnapshotContent,
        call: &'static str,
        group: Option<DriverGroup>,
    ) -> Result<Next, GroupError> {
        let wrong = |reason: String| GroupError::Answer { call, reason };
        let group = group.filter(|group| !group.group_snapshot_id.is_empty());
        let group = group.ok_or_else(|| wrong("without a group".to_owned()))?;
        let (spec, _) = content.read()?;
        let volumes = spec.source.volume_handles.iter().flatten();
        let has_snapshot = |volume: &&String| {
            group.snapshots.iter().any(|one| one.source_volume_id == **volume && !one.snapshot_id.is_empty())
        };
        if let Some(lacking) = volumes.into_iter().find(|volume| !has_snapshot(volume)) {
            return Err(wrong(format!("without a snapshot of the volume {lacking}")));
        }
        let is_ready = group.ready_to_use && group.snapshots.iter().all(|snapshot| snapshot.ready_to_use);
        let taken = group.creation_time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok());
        let status = json!({
            "volumeGroupSnapshotHandle": group.group_snapshot_id,
            "creationTime": time_text(taken.unwrap_or_else(jiff::Timestamp::now)),
            "readyToUse": is_ready,
            "volumeSnapshotInfoList": group.snapshots.iter().map(info_of).collect::<Vec<_>>(),
            "error": null,
        });
        self.patch_status(known, content, &status).await?;
        let is_deleted = content.metadata.deletion_timestamp.is_some();
        Ok(if is_ready || is_deleted { Next::Again } else { Next::Later })
    }

    async fn release(&self, known: &GroupCaches, content: &VolumeGroupSnapshotContent) -> Result<Next, GroupError> {
        self.patch(known, content, &finalizers::patch(&content.metadata, &[CONTENT_BOUND], &[])).await?;
        Ok(Next::Done)
    }

    /// The Secret that the content names.
    async fn secrets(&self, content: &VolumeGroupSnapshotContent) -> Result<HashMap<String, String>, GroupError> {
        let annotation = |key| content.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let named = annotation(names::SECRET_NAME).zip(annotation(names::SECRET_NAMESPACE));
        let named = named.map(|(name, namespace)| SecretReference { name: Some(name), namespace: Some(namespace) });
        Ok(secrets::read(&self.client, named.as_ref()).await?)
    }

    async fn failed(&self, known: &GroupCaches, content: &VolumeGroupSnapshotContent, error: &GroupError) {
        let name = content.metadata.name.as_deref().unwrap_or_default();
        let text = error.to_string();
        let text = shortened(&text);
        warn!(content = name, "a content of a group waits: {text}");
        let Some(reason) = error.reason() else { return };
        self.events.warning(&content.object_ref(&()), reason, text);
        let shown = content.status.get().ok().and_then(|status| status.error.as_ref());
        let Some(patch) = failed_status(shown, text).filter(|_| error.is_in_status()) else { return };
        if let Err(unsaid) = self.patch_status(known, content, &patch).await {
            warn!(content = name, "the error is not in the content's status: {unsaid}");
        }
    }

    /// Sets the annotation of a call whose outcome is not known, or removes it.
    async fn annotate(
        &self,
        known: &GroupCaches,
        content: &VolumeGroupSnapshotContent,
        value: Value,
    ) -> Result<(), GroupError> {
        let patch = json!({ "metadata": { "uid": content.metadata.uid, "annotations": { BEING_CREATED: value } } });
        Ok(self.patch(known, content, &patch).await?)
    }

    async fn patch(
        &self,
        known: &GroupCaches,
        content: &VolumeGroupSnapshotContent,
        patch: &Value,
    ) -> Result<(), kube::Error> {
        let api = Api::<VolumeGroupSnapshotContent>::all(self.client.clone());
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
        known: &GroupCaches,
        content: &VolumeGroupSnapshotContent,
        status: &Value,
    ) -> Result<(), kube::Error> {
        let api = Api::<VolumeGroupSnapshotContent>::all(self.client.clone());
        let patch = json!({ "metadata": { "uid": content.metadata.uid }, "status": status });
        let name = content.metadata.name.as_deref().unwrap_or_default();
        known.wrote_content(api.patch_status(name, &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }
}

/// A snapshot of a group as the status has it.
fn info_of(snapshot: &Snapshot) -> SnapshotInfo {
    let taken = snapshot.creation_time.and_then(|time| {
        let seconds = time.seconds.checked_mul(1_000_000_000)?;
        seconds.checked_add(time.nanos.into())
    });
    SnapshotInfo {
        volume_handle: snapshot.source_volume_id.clone(),
        snapshot_handle: snapshot.snapshot_id.clone(),
        creation_time: taken,
        ready_to_use: snapshot.ready_to_use,
        restore_size: (snapshot.size_bytes > 0).then_some(snapshot.size_bytes),
    }
}
