//! The snapshots of a group: a VolumeSnapshot and a VolumeSnapshotContent for each volume.
//!
//! A snapshot is owned by its group, and a finalizer keeps it while the group exists: the driver
//! deletes the snapshots of a group together.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Resource;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use volhost_cluster_client::quantity;

use super::failure::GroupError;
use super::{names, parameters, time_text};
use crate::caches::Caches;
use crate::finalizers::{self, FIELD_MANAGER};
use crate::snapshot::{GROUP_HANDLE, IN_GROUP, is_restored};
use crate::snapshots::{
    GroupContentSpec, SnapshotCaches, SnapshotInfo, VolumeGroupSnapshot, VolumeGroupSnapshotContent, VolumeSnapshot,
    VolumeSnapshotContent,
};

/// Makes and deletes the snapshots of groups.
pub(super) struct Members {
    client: Client,
    caches: Caches,
}

impl Members {
    /// Makes and deletes with this client.
    pub(super) fn new(client: Client, caches: Caches) -> Self {
        Self { client, caches }
    }

    /// Makes what is missing of the snapshots of this group, and shows their statuses.
    ///
    /// # Errors
    /// [`GroupError`].
    pub(super) async fn make(
        &self,
        known: &SnapshotCaches,
        group: &VolumeGroupSnapshot,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(), GroupError> {
        let (spec, status) = content.read()?;
        let handle = status.volume_group_snapshot_handle.as_deref().unwrap_or_default();
        for info in status.volume_snapshot_info_list.iter().flatten() {
            let uid = group.metadata.uid.as_deref().unwrap_or_default();
            let (name, content_name) = names::of_member(uid, &info.volume_handle);
            let namespace = group.metadata.namespace.as_deref().unwrap_or_default();
            let found = known.snapshot(namespace, &name);
            let volume = self.caches.volume_of_handle(&spec.driver, &info.volume_handle);
            let volume = volume.as_ref().and_then(|volume| volume.spec.as_ref());
            let snapshot = match found {
                Some(found) => found,
                None => Arc::new(self.make_snapshot(known, group, &name, volume).await?),
            };
            let member = match known.content(&content_name) {
                Some(found) => found,
                None => {
                    let object = member_content(spec, &content_name, handle, info, &snapshot, volume);
                    let made = self.apply::<VolumeSnapshotContent>(&content_name, &object).await?;
                    known.created_content(made.clone());
                    Arc::new(made)
                }
            };
            if member.read()?.1.snapshot_handle.is_none() {
                let shown = json!({
                    "snapshotHandle": info.snapshot_handle,
                    "readyToUse": info.ready_to_use,
                    "creationTime": info.creation_time,
                    "restoreSize": info.restore_size,
                    "volumeGroupSnapshotHandle": handle,
                });
                let patch = Patch::Merge(json!({ "metadata": { "uid": member.metadata.uid }, "status": shown }));
                let api = Api::<VolumeSnapshotContent>::all(self.client.clone());
                known.wrote_content(api.patch_status(&content_name, &parameters(), &patch).await?);
            }
            let (_, shown) = snapshot.read()?;
            if shown.ready_to_use != Some(info.ready_to_use) || shown.bound_volume_snapshot_content_name.is_none() {
                let patch = json!({
                    "metadata": { "uid": snapshot.metadata.uid },
                    "status": snapshot_status(group, &content_name, info),
                });
                let api = Api::<VolumeSnapshot>::namespaced(self.client.clone(), namespace);
                known.wrote_snapshot(api.patch_status(&name, &parameters(), &Patch::Merge(patch)).await?);
            }
        }
        Ok(())
    }

    /// As if it had been taken of the claim alone.
    async fn make_snapshot(
        &self,
        known: &SnapshotCaches,
        group: &VolumeGroupSnapshot,
        name: &str,
        volume: Option<&PersistentVolumeSpec>,
    ) -> Result<VolumeSnapshot, GroupError> {
        let claim = volume.and_then(|volume| volume.claim_ref.as_ref()?.name.as_deref());
        let object = json!({
            "apiVersion": VolumeSnapshot::api_version(&()),
            "kind": VolumeSnapshot::kind(&()),
            "metadata": {
                "name": name,
                "finalizers": [IN_GROUP],
                "ownerReferences": group.owner_ref(&()).into_iter().collect::<Vec<_>>(),
            },
            "spec": { "source": { "persistentVolumeClaimName": claim.unwrap_or_default() } },
        });
        let namespace = group.metadata.namespace.as_deref().unwrap_or_default();
        let api = Api::<VolumeSnapshot>::namespaced(self.client.clone(), namespace);
        let made = api.patch(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object)).await?;
        known.created_snapshot(made.clone());
        Ok(made)
    }

    /// Deletes the snapshots of a group. Returns whether all are gone. Their contents stay if the
    /// group's does.
    ///
    /// # Errors
    /// [`GroupError`]: a volume is being made of one, for instance.
    pub(super) async fn delete(
        &self,
        known: &SnapshotCaches,
        group: &VolumeGroupSnapshot,
        deletes: bool,
    ) -> Result<bool, GroupError> {
        let uid = group.metadata.uid.as_deref();
        let is_member = |snapshot: &VolumeSnapshot| {
            let mut owners = snapshot.metadata.owner_references.iter().flatten();
            owners.any(|owner| Some(owner.uid.as_str()) == uid)
        };
        let members = known.snapshots(is_member);
        // None is deleted while one is needed: a group goes as a whole.
        if let Some(restored) = members.iter().find(|member| is_restored(&self.caches, member)) {
            return Err(GroupError::Restored(restored.metadata.name.clone().unwrap_or_default()));
        }
        for member in &members {
            if deletes && let Some(content) = known.content(&crate::snapshot::content_name(member)) {
                let is_of_member = content.read()?.0.volume_snapshot_ref.uid == member.metadata.uid;
                if is_of_member && content.metadata.deletion_timestamp.is_none() {
                    self.remove(&Api::<VolumeSnapshotContent>::all(self.client.clone()), &*content).await?;
                }
            }
            let namespace = member.metadata.namespace.as_deref().unwrap_or_default();
            let api = Api::<VolumeSnapshot>::namespaced(self.client.clone(), namespace);
            if member.metadata.deletion_timestamp.is_none() {
                self.remove(&api, &**member).await?;
            }
            let patch = finalizers::patch(&member.metadata, &[IN_GROUP], &[]);
            // The deletion has changed the version.
            let patch = without_version(patch);
            match api
                .patch(member.metadata.name.as_deref().unwrap_or_default(), &parameters(), &Patch::Merge(patch))
                .await
            {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(members.is_empty())
    }

    /// Deletes this object, and not a later one of its name.
    async fn remove<K>(&self, api: &Api<K>, object: &K) -> Result<(), GroupError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let meta = object.meta();
        let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: None };
        let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(meta.name.as_deref().unwrap_or_default(), &delete).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn apply<K>(&self, name: &str, object: &Value) -> Result<K, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        Api::<K>::all(self.client.clone()).patch(name, &parameters, &Patch::Apply(object)).await
    }
}

fn member_content(
    spec: &GroupContentSpec,
    name: &str,
    group: &str,
    info: &SnapshotInfo,
    snapshot: &VolumeSnapshot,
    volume: Option<&PersistentVolumeSpec>,
) -> Value {
    let mut object = json!({
        "apiVersion": VolumeSnapshotContent::api_version(&()),
        "kind": VolumeSnapshotContent::kind(&()),
        "metadata": { "name": name, "annotations": { GROUP_HANDLE: group } },
        "spec": {
            "driver": spec.driver,
            "deletionPolicy": spec.deletion_policy,
            "source": { "volumeHandle": info.volume_handle },
            "volumeSnapshotRef": snapshot.object_ref(&()),
        },
    });
    let mode = volume.and_then(|volume| volume.volume_mode.as_deref());
    if let (Some(mode), Some(spec)) = (mode, object.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert("sourceVolumeMode".to_owned(), json!(mode));
    }
    object
}

fn without_version(mut patch: Value) -> Value {
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    patch
}

fn snapshot_status(group: &VolumeGroupSnapshot, content: &str, info: &SnapshotInfo) -> Value {
    let taken = info.creation_time.and_then(|time| jiff::Timestamp::from_nanosecond(time.into()).ok());
    let size = info.restore_size.and_then(|size| u64::try_from(size).ok());
    json!({
        "boundVolumeSnapshotContentName": content,
        "creationTime": taken.map(time_text),
        "readyToUse": info.ready_to_use,
        "restoreSize": size.map(quantity::of_bytes),
        "volumeGroupSnapshotName": group.metadata.name,
        "error": null,
    })
}
