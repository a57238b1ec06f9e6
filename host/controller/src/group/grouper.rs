//! Groups to contents and snapshots, and the end of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::{DeleteParams, Patch, PostParams, Preconditions};
use kube::{Api, Client, Resource as _};
use serde_json::{Map, Value, json};
use tracing::{info, warn};
use volhost_cluster_client::{Events, shortened};

use super::failure::GroupError;
use super::members::Members;
use super::names::{self, BEING_CREATED, BEING_DELETED, BOUND, CONTENT_BOUND, IS_DEFAULT, YES};
use super::plan::{self, GroupStep};
use super::select::selects;
use super::{Next, STEPS, failed_status, parameters};
use crate::caches::Caches;
use crate::driver::Driver;
use crate::finalizers::{self, FIELD_MANAGER};
use crate::key::ObjectKey;
use crate::secrets::{self, PREFIX};
use crate::snapshots::{
    GroupCaches, GroupContentSpec, VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent,
};

/// Parameters with the reserved prefix that there are.
const KNOWN_PARAMETERS: [&str; 4] = [
    "group-snapshotter-secret-name",
    "group-snapshotter-secret-namespace",
    "group-snapshotter-get-secret-name",
    "group-snapshotter-get-secret-namespace",
];

/// Binds groups and contents, and keeps the snapshots of groups.
pub(crate) struct Grouper {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    events: Events,
    members: Members,
}

impl Grouper {
    /// A grouper.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches, events: Events) -> Self {
        let members = Members::new(client.clone(), caches.clone());
        Self { client, driver, caches, events, members }
    }

    /// Works on a group. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, key: &ObjectKey) -> bool {
        for _ in 0..STEPS {
            let Some(known) = self.caches.groups() else { return true };
            let found = known.group(key.namespace(), key.name());
            let Some(group) = found.filter(|found| found.metadata.uid.as_deref() == Some(key.uid())) else {
                return true;
            };
            match self.step(&known, key, &group).await {
                Ok(Next::Done) => return true,
                Ok(Next::Later) => return false,
                Ok(Next::Again) => {}
                Err(error) => {
                    self.failed(&known, key, &group, &error).await;
                    return false;
                }
            }
        }
        false
    }

    async fn step(
        &self,
        known: &GroupCaches,
        key: &ObjectKey,
        group: &VolumeGroupSnapshot,
    ) -> Result<Next, GroupError> {
        let content = known.content(&plan::content_name(group));
        if !self.is_ours(known, group, content.as_deref()) {
            return Ok(Next::Done);
        }
        match plan::of_group(group, content.as_deref())? {
            GroupStep::Nothing => Ok(Next::Done),
            GroupStep::Finalizer => {
                self.patch(known, key, &finalizers::patch(&group.metadata, &[], &[BOUND])).await?;
                Ok(Next::Again)
            }
            GroupStep::Content { selector } => self.take(known, key, group, &selector).await,
            GroupStep::Binding => {
                let content = content.ok_or(GroupError::NoContent)?;
                let mut patch = finalizers::patch(&content.metadata, &[], &[CONTENT_BOUND]);
                if let Some(patch) = patch.as_object_mut() {
                    patch.insert("spec".to_owned(), json!({ "volumeGroupSnapshotRef": { "uid": key.uid() } }));
                }
                self.patch_content(known, &content.metadata, &patch).await?;
                Ok(Next::Again)
            }
            GroupStep::Members => self.report(known, key, group, content.as_deref()).await,
            GroupStep::End { deletes } => self.end(known, key, group, content.as_deref(), deletes).await,
            GroupStep::Release => self.release(known, key, group).await,
        }
    }

    /// Whether the group is this driver's, by its content or its class. A group without a class is
    /// that of the only driver with a default class, which each driver's controller decides alike.
    fn is_ours(
        &self,
        known: &GroupCaches,
        group: &VolumeGroupSnapshot,
        content: Option<&VolumeGroupSnapshotContent>,
    ) -> bool {
        let by_content = content.and_then(|content| content.spec.get().ok()).map(|spec| spec.driver.clone());
        let spec = group.spec.get().ok();
        let class = spec.and_then(|spec| known.class(spec.volume_group_snapshot_class_name.as_deref()?));
        let is_unnamed = spec.is_some_and(|spec| spec.volume_group_snapshot_class_name.is_none());
        let by_default = || {
            let ours = |class: &Arc<VolumeGroupSnapshotClass>| class.driver() == self.driver.name();
            is_unnamed && known.classes().iter().any(|class| is_default(class) && ours(class))
        };
        // What is deleted and bound to nothing waits for the program that gave it its finalizer.
        let is_deleted = group.metadata.deletion_timestamp.is_some();
        match by_content.or_else(|| class.map(|class| class.driver().to_owned())) {
            Some(driver) => driver == self.driver.name(),
            None => by_default() || (is_deleted && finalizers::has(&group.metadata, BOUND)),
        }
    }

    /// Makes the content of a group that is to be taken of claims.
    async fn take(
        &self,
        known: &GroupCaches,
        key: &ObjectKey,
        group: &VolumeGroupSnapshot,
        selector: &LabelSelector,
    ) -> Result<Next, GroupError> {
        let (spec, _) = group.read()?;
        let class = self.class(known, spec.volume_group_snapshot_class_name.as_deref())?;
        let parameters = class.parameters()?;
        let is_unknown = |key: &&String| key.strip_prefix(PREFIX).is_some_and(|name| !KNOWN_PARAMETERS.contains(&name));
        if let Some(unknown) = parameters.keys().find(is_unknown) {
            return Err(GroupError::Parameter(unknown.clone()));
        }
        let volume_handles = self.volumes(key, selector)?;
        let name = names::content(key.uid());
        let secret = secrets::of_group(parameters, &name, (key.namespace(), key.name()))?;
        // Every attempt begins with a call whose outcome is not known.
        let mut annotations = BTreeMap::from([(BEING_CREATED.to_owned(), YES.to_owned())]);
        if let Some((name, namespace)) = secret.and_then(|secret| secret.name.zip(secret.namespace)) {
            annotations.insert(names::SECRET_NAME.to_owned(), name);
            annotations.insert(names::SECRET_NAMESPACE.to_owned(), namespace);
        }
        let mut content = GroupContentSpec {
            volume_group_snapshot_ref: group.object_ref(&()),
            driver: class.driver().to_owned(),
            deletion_policy: class.deletion_policy().to_owned(),
            volume_group_snapshot_class_name: class.metadata.name.clone(),
            ..GroupContentSpec::default()
        };
        content.source.volume_handles = Some(volume_handles);
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(annotations),
            finalizers: Some(vec![CONTENT_BOUND.to_owned()]),
            ..ObjectMeta::default()
        };
        let content = VolumeGroupSnapshotContent::new(metadata, content);
        let post = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let made = Api::<VolumeGroupSnapshotContent>::all(self.client.clone()).create(&post, &content).await?;
        known.created_content(made);
        info!(group = %key, content = name, "a group of snapshots is to be taken");
        let note = format!("Waiting for a group snapshot {key} to be created by the CSI driver.");
        self.events.normal(&group.object_ref(&()), "CreatingGroupSnapshot", &note);
        Ok(Next::Again)
    }

    fn class(&self, known: &GroupCaches, named: Option<&str>) -> Result<Arc<VolumeGroupSnapshotClass>, GroupError> {
        if let Some(name) = named {
            return known.class(name).ok_or_else(|| GroupError::NoClass(name.to_owned()));
        }
        let mut defaults = known.classes();
        defaults.retain(|class| class.driver() == self.driver.name() && is_default(class));
        match &defaults[..] {
            [only] => Ok(Arc::clone(only)),
            found => Err(GroupError::NoDefaultClass(found.len())),
        }
    }

    /// The driver's names for the volumes of the selected claims. All of them are in the group, or
    /// there is none: a part of a group is of no use.
    fn volumes(&self, key: &ObjectKey, selector: &LabelSelector) -> Result<Vec<String>, GroupError> {
        let is_selected = |claim: &PersistentVolumeClaim| {
            claim.metadata.namespace.as_deref() == Some(key.namespace())
                && claim.metadata.deletion_timestamp.is_none()
                && selects(selector, claim.metadata.labels.as_ref())
        };
        let mut handles = Vec::new();
        for claim in self.caches.claims(is_selected) {
            let not = |reason: String| {
                let claim = claim.metadata.name.clone().unwrap_or_default();
                GroupError::Claim { claim, reason }
            };
            if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
                return Err(not("is selected and is not bound yet".to_owned()));
            }
            let volume = self.caches.volume_of(&claim, self.driver.name());
            let csi = volume.and_then(|volume| volume.spec.clone()?.csi);
            let csi =
                csi.ok_or_else(|| not(format!("is selected and has no volume of the driver {}", self.driver.name())))?;
            handles.push(csi.volume_handle);
        }
        handles.sort();
        if handles.is_empty() { Err(GroupError::NoClaim) } else { Ok(handles) }
    }

    /// Makes the snapshots of a group that was taken, and its status that of its content. Those of a
    /// group that was there before are its user's to make, as with upstream.
    async fn report(
        &self,
        known: &GroupCaches,
        key: &ObjectKey,
        group: &VolumeGroupSnapshot,
        content: Option<&VolumeGroupSnapshotContent>,
    ) -> Result<Next, GroupError> {
        let content = content.ok_or(GroupError::NoContent)?;
        let ((spec, has), (_, made)) = (group.read()?, content.read()?);
        if spec.source.selector.is_some() && made.volume_group_snapshot_handle.is_some() {
            let Some(snapshots) = self.caches.snapshots() else { return Ok(Next::Later) };
            self.members.make(&snapshots, group, content).await?;
        }
        let mut patch = Map::new();
        if has.bound_volume_group_snapshot_content_name.as_deref().is_none_or(str::is_empty) {
            patch.insert("boundVolumeGroupSnapshotContentName".to_owned(), json!(content.metadata.name));
        }
        if has.creation_time.is_none() && made.creation_time.is_some() {
            patch.insert("creationTime".to_owned(), json!(made.creation_time));
        }
        let is_ready = made.ready_to_use.unwrap_or_default();
        if has.ready_to_use != Some(is_ready) {
            patch.insert("readyToUse".to_owned(), json!(is_ready));
        }
        let error = made.error.as_ref().filter(|_| !is_ready);
        if has.error.as_ref() != error {
            patch.insert("error".to_owned(), json!(error));
        }
        if patch.is_empty() {
            return Ok(Next::Done);
        }
        let becomes_ready = patch.get("readyToUse") == Some(&Value::Bool(true));
        self.patch_status(known, key, &Value::Object(patch)).await?;
        if becomes_ready {
            info!(group = %key, content = content.metadata.name, "a group of snapshots is ready");
            let note = format!("Group snapshot {key} is ready to use.");
            self.events.normal(&group.object_ref(&()), "GroupSnapshotReady", &note);
        }
        Ok(Next::Again)
    }

    /// Deletes the snapshots of a deleted group, and then its content if that goes with it.
    async fn end(
        &self,
        known: &GroupCaches,
        key: &ObjectKey,
        group: &VolumeGroupSnapshot,
        content: Option<&VolumeGroupSnapshotContent>,
        deletes: bool,
    ) -> Result<Next, GroupError> {
        let Some(content) = content else { return Ok(Next::Again) };
        let Some(snapshots) = self.caches.snapshots() else { return Ok(Next::Later) };
        if !self.members.delete(&snapshots, group, deletes).await? {
            // The end of each leads here again.
            return Ok(Next::Later);
        }
        if !content.has_annotation(BEING_DELETED) {
            let patch = json!({ "metadata": { "uid": content.metadata.uid, "annotations": { BEING_DELETED: YES } } });
            self.patch_content(known, &content.metadata, &patch).await?;
        }
        if !deletes {
            return self.release(known, key, group).await;
        }
        if content.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        let preconditions = Preconditions { uid: content.metadata.uid.clone(), resource_version: None };
        let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = content.metadata.name.as_deref().unwrap_or_default();
        match Api::<VolumeGroupSnapshotContent>::all(self.client.clone()).delete(name, &delete).await {
            // The end of the content is the next event.
            Ok(answer) => {
                answer.map_left(|content| known.wrote_content(content));
                Ok(Next::Done)
            }
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(Next::Done),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(
        &self,
        known: &GroupCaches,
        key: &ObjectKey,
        group: &VolumeGroupSnapshot,
    ) -> Result<Next, GroupError> {
        self.patch(known, key, &finalizers::patch(&group.metadata, &[BOUND], &[])).await?;
        info!(group = %key, "a group of snapshots is released");
        Ok(Next::Done)
    }

    async fn failed(&self, known: &GroupCaches, key: &ObjectKey, group: &VolumeGroupSnapshot, error: &GroupError) {
        let text = error.to_string();
        let text = shortened(&text);
        warn!(group = %key, "a group of snapshots waits: {text}");
        let Some(reason) = error.reason() else { return };
        self.events.warning(&group.object_ref(&()), reason, text);
        if group.metadata.deletion_timestamp.is_some() {
            return;
        }
        let shown = group.status.get().ok().and_then(|status| status.error.as_ref());
        let Some(patch) = failed_status(shown, text).filter(|_| error.is_in_status()) else { return };
        if let Err(unsaid) = self.patch_status(known, key, &patch).await {
            warn!(group = %key, "the error is not in the group's status: {unsaid}");
        }
    }

    async fn patch(&self, known: &GroupCaches, key: &ObjectKey, patch: &Value) -> Result<(), kube::Error> {
        let api = Api::<VolumeGroupSnapshot>::namespaced(self.client.clone(), key.namespace());
        match api.patch(key.name(), &parameters(), &Patch::Merge(patch)).await {
            Ok(written) => known.wrote_group(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn patch_status(&self, known: &GroupCaches, key: &ObjectKey, status: &Value) -> Result<(), kube::Error> {
        let api = Api::<VolumeGroupSnapshot>::namespaced(self.client.clone(), key.namespace());
        let patch = json!({ "metadata": { "uid": key.uid() }, "status": status });
        known.wrote_group(api.patch_status(key.name(), &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }

    async fn patch_content(&self, known: &GroupCaches, meta: &ObjectMeta, patch: &Value) -> Result<(), kube::Error> {
        let name = meta.name.as_deref().unwrap_or_default();
        let api = Api::<VolumeGroupSnapshotContent>::all(self.client.clone());
        known.wrote_content(api.patch(name, &parameters(), &Patch::Merge(patch)).await?);
        Ok(())
    }
}

fn is_default(class: &VolumeGroupSnapshotClass) -> bool {
    class.metadata.annotations.as_ref().and_then(|all| all.get(IS_DEFAULT)).is_some_and(|value| value == "true")
}
