//! Claims to volumes, as external-provisioner does.
//!
//! ```text
//!  claim with our name, unbound --> check --> journal --> CreateVolume --> PersistentVolume --> bound
//!        ^                           |                     |      |
//!        '--- event, a longer wait --+---------------------'      '-- final error: leave the journal
//! ```
//!
//! # Guarantees
//! - A volume has the name of its claim's UID: repeated calls, also by another replica, make one.
//! - After a call whose outcome is unknown, the claim is worked on until the outcome is known, also
//!   after the claim was deleted, and by the next leader, too.

mod attributes;
mod clone;
mod delete;
mod failure;
mod request;
mod source;
mod topology;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _};
use serde_json::json;
use tracing::{info, warn};
use volhost_proto::csi::{DeleteVolumeRequest, TopologyRequirement};

pub(crate) use attributes::{AttributesError, attributes};
pub(crate) use delete::Deleter;
use failure::ProvisionError;
pub(crate) use request::ProvisionOptions;
pub(crate) use topology::segments;

use crate::caches::Caches;
use crate::capacity::Place;
use crate::data_source::{self, SourceKind};
use crate::driver::{CallOutcome, Can, Driver, outcome};
use crate::finalizers::{self, FIELD_MANAGER};
use crate::journal::{Entries, Journal, essence};
use crate::key::ObjectKey;
use crate::migrated;
use crate::queue::WorkQueue;
use crate::secrets;
use volhost_cluster_client::Events;
use volhost_csi_translation::{Migration, class_to_csi};

const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A claim whose volume may exist without a PersistentVolume.
#[derive(Debug, Clone)]
struct Begun {
    claim: Arc<PersistentVolumeClaim>,
    /// A repeated call must ask for the same.
    topology: Option<TopologyRequirement>,
}

/// Makes and deletes volumes.
pub(crate) struct Provisioner {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
    journal: Journal,
    events: Events,
    options: ProvisionOptions,
    capacities: Arc<WorkQueue<Place>>,
    begun: Mutex<BTreeMap<String, Begun>>,
    /// Claims whose PersistentVolume was written and may not be in the cache yet.
    written: Mutex<HashSet<String>>,
}

/// What happens to a claim after a failure.
enum After {
    /// No volume was or will be made: the journal may forget it.
    Nothing,
    /// As before the attempt.
    Unchanged,
    /// The scheduler is to choose another node.
    Reschedule,
}

impl Provisioner {
    /// A provisioner. `capacities`: where the driver is asked again for its capacity.
    pub(crate) fn new(
        client: Client,
        driver: Arc<Driver>,
        caches: Caches,
        journal: Journal,
        events: Events,
        options: ProvisionOptions,
        capacities: Arc<WorkQueue<Place>>,
    ) -> Self {
        let (begun, written) = (Mutex::default(), Mutex::default());
        Self { client, driver, caches, journal, events, options, capacities, begun, written }
    }

    /// Continues what an earlier leader began. Returns the claims.
    pub(crate) fn resume(&self, entries: &Entries) -> Vec<ObjectKey> {
        let resumed = entries.claims().map(|claim| {
            let begun = Begun { claim: Arc::new(claim.clone()), topology: None };
            let key = ObjectKey::of(claim);
            self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(key.uid().to_owned(), begun);
            key
        });
        let resumed: Vec<_> = resumed.collect();
        if !resumed.is_empty() {
            info!(claims = resumed.len(), "creations of an earlier leader are continued");
        }
        resumed
    }

    fn begun(&self, uid: &str) -> Option<Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// Works on a claim. Returns whether nothing is left to do.
    pub(crate) async fn work(&self, key: &ObjectKey) -> bool {
        let found = self.caches.claim(key.namespace(), key.name());
        let live = found.filter(|claim| claim.metadata.uid.as_deref() == Some(key.uid()));
        let begun = self.begun(key.uid());
        if let Some(live) = &live {
            if let Err(error) = clone::release(&self.client, &self.caches, live).await {
                warn!(claim = %key, "the finalizer of clones cannot be removed: {error}");
                return false;
            }
        } else {
            self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(key.uid());
        }
        let is_bound = live.as_ref().is_some_and(|claim| {
            claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).is_some_and(|name| !name.is_empty())
        });
        if is_bound || self.has_volume(key.uid()) {
            self.forget(key.uid()).await;
            return true;
        }
        // After a call whose outcome is unknown, what was asked for stays what it was.
        let claim = match (live, &begun) {
            (Some(live), _) if self.is_wanted(&live) => live,
            (_, Some(begun)) => Arc::clone(&begun.claim),
            _ => return true,
        };
        self.provision(key, &claim, begun).await
    }

    /// Whether the claim has its PersistentVolume.
    fn has_volume(&self, uid: &str) -> bool {
        let is_known = self.caches.volume(&format!("pvc-{uid}")).is_some();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known { written.remove(uid) | true } else { written.contains(uid) }
    }

    /// Whether the claim waits for a volume of this driver.
    fn is_wanted(&self, claim: &PersistentVolumeClaim) -> bool {
        let annotation = |key| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let provisioner = annotation(PROVISIONER).or_else(|| annotation(OLD_PROVISIONER));
        let driver = self.driver.name();
        let is_ours = provisioner.is_some_and(|by| by == driver || migrated::is_migrated_to(driver, &claim.metadata));
        if !is_ours || claim.metadata.deletion_timestamp.is_some() {
            return false;
        }
        let waits = self
            .class_of(claim)
            .is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
        !waits || annotation(SELECTED_NODE).is_some_and(|node| !node.is_empty())
    }

    fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<Arc<StorageClass>> {
        self.caches.class(claim.spec.as_ref()?.storage_class_name.as_deref()?)
    }

    async fn forget(&self, uid: &str) {
        let known = self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(uid).is_some();
        if known {
            self.journal.end(uid).await;
        }
    }

    async fn provision(&self, key: &ObjectKey, claim: &PersistentVolumeClaim, begun: Option<Begun>) -> bool {
        let object = claim.object_ref(&());
        if data_source::is_for_populator(claim) {
            self.events.normal(&object, "Provisioning", "Assuming an external populator will provision the volume");
            return true;
        }
        let class = match self.class_of(claim) {
            // Another provisioner's since the annotation was written.
            Some(class) if !migrated::provisions(self.driver.name(), &class.provisioner) => return true,
            Some(class) => class,
            None => {
                let name = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
                self.failed(key, &object, &ProvisionError::NoClass(name));
                return false;
            }
        };
        let note = format!("External provisioner is provisioning volume for claim \"{key}\"");
        self.events.normal(&object, "Provisioning", &note);
        let node = claim.metadata.annotations.as_ref().and_then(|all| all.get(SELECTED_NODE));
        match self.create(key, claim, &class, node.map(String::as_str), begun).await {
            Ok(volume) => {
                info!(claim = %key, volume, "a volume is provisioned");
                self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(key.uid().to_owned());
                self.forget(key.uid()).await;
                self.events.normal(
                    &object,
                    "ProvisioningSucceeded",
                    &format!("Successfully provisioned volume {volume}"),
                );
                true
            }
            Err((after, error)) => {
                self.failed(key, &object, &error);
                if !matches!(after, After::Unchanged) {
                    self.forget(key.uid()).await;
                }
                matches!(after, After::Reschedule) && self.reschedule(key, claim).await
            }
        }
    }

    fn failed(&self, key: &ObjectKey, object: &ObjectReference, error: &ProvisionError) {
        warn!(claim = %key, "no volume is provisioned: {error}");
        self.events.warning(object, "ProvisioningFailed", &error.to_string());
    }

    /// Makes the volume and writes the PersistentVolume. Returns its name.
    async fn create(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        node: Option<&str>,
        begun: Option<Begun>,
    ) -> Result<String, (After, ProvisionError)> {
        // Whether a volume may exist is decided by the call before.
        let unchanged = |error: ProvisionError| (After::Unchanged, error);
        let (driver, distinguishes) = (self.driver.name(), self.driver.can(Can::SingleNodeMultiWriter));
        // The in-tree plugin whose class this is, if it is one's.
        let plugin = Migration::of_plugin(&class.provisioner);
        let translated = plugin.map(|_| class_to_csi(class)).transpose();
        let translated = translated.map_err(|error| unchanged(ProvisionError::Class(error)))?;
        let class = translated.as_ref().unwrap_or(class);
        let source = data_source::of(claim);
        let needed = match source {
            Some((SourceKind::Claim, _)) => Some((Can::CloneVolume, "cloning")),
            Some((SourceKind::Snapshot, _)) => Some((Can::CreateDeleteSnapshot, "snapshots")),
            _ => None,
        };
        for (can, what) in [Some((Can::CreateDeleteVolume, "dynamic provisioning")), needed].into_iter().flatten() {
            if !self.driver.can(can) {
                return Err(unchanged(ProvisionError::Incapable(what)));
            }
        }
        let mut prepared = request::prepare(driver, distinguishes, &self.options, claim, class).map_err(unchanged)?;
        if let Some(name) = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref())
            && !name.is_empty()
        {
            if !self.driver.can(Can::ModifyVolume) {
                return Err(unchanged(ProvisionError::Incapable("VolumeAttributesClasses")));
            }
            let parameters = attributes(&self.caches, driver, name).map_err(|error| unchanged(error.into()))?;
            prepared.request.mutable_parameters = parameters.into_iter().collect();
        }
        prepared.request.volume_content_source = match source {
            Some((SourceKind::Claim, from)) => {
                let found = source::volume_of_claim(&self.caches, driver, claim, &from.name);
                let found = found.map_err(|error| unchanged(error.into()))?;
                clone::protect(&self.client, &self.caches, key.namespace(), &from.name)
                    .await
                    .map_err(|error| unchanged(ProvisionError::Write(error)))?;
                Some(found)
            }
            Some((SourceKind::Snapshot, from)) => Some(
                source::snapshot(&self.caches, driver, claim, &from.name).map_err(|error| unchanged(error.into()))?,
            ),
            _ => None,
        };
        prepared.request.accessibility_requirements = match begun.as_ref().and_then(|begun| begun.topology.clone()) {
            Some(topology) => Some(topology),
            None if self.driver.has_topology() => self.topology(key, class, node).map_err(|error| {
                let after = if matches!(error, topology::TopologyError::NoNode(_)) && begun.is_none() {
                    After::Reschedule
                } else {
                    After::Unchanged
                };
                (after, error.into())
            })?,
            None => None,
        };
        let secrets = secrets::read(&self.client, prepared.provisioner_secret.as_ref()).await;
        prepared.request.secrets = secrets.map_err(|error| unchanged(error.into()))?;
        if begun.as_ref().is_none_or(|begun| begun.topology != prepared.request.accessibility_requirements) {
            self.begin(key, claim, class, &prepared, begun.is_none()).await.map_err(|error| unchanged(error.into()))?;
        }
        let call = self.driver.request(prepared.request.clone());
        let answer = self.driver.client().create_volume(call).await.map_err(|status| {
            if outcome(&status) == CallOutcome::Exhausted {
                // The scheduler is to know it before it chooses again.
                let asked = prepared.request.accessibility_requirements.as_ref();
                let first = asked.and_then(|asked| asked.preferred.first());
                let reachable: Vec<_> =
                    first.map(|one| one.segments.clone().into_iter().collect()).into_iter().collect();
                self.capacities.add_known(|place| place.has(&reachable));
            }
            let after = match outcome(&status) {
                CallOutcome::Unknown => After::Unchanged,
                CallOutcome::Exhausted if self.driver.has_topology() && node.is_some() => After::Reschedule,
                CallOutcome::Exhausted | CallOutcome::Final => After::Nothing,
            };
            let class = class.metadata.name.clone().unwrap_or_default();
            (after, ProvisionError::Call { class, source: Box::new(status) })
        })?;
        let volume = answer.into_inner().volume.filter(|volume| !volume.volume_id.is_empty());
        let volume = volume.ok_or((After::Unchanged, ProvisionError::NoVolume))?;
        let finalizers = if self.driver.can(Can::PublishUnpublishVolume) {
            vec![finalizers::of_attachments(driver)]
        } else {
            Vec::new()
        };
        let (name, secrets) = (prepared.request.name.clone(), prepared.request.secrets.clone());
        let volume_id = volume.volume_id.clone();
        let made = match prepared.problem(&volume) {
            Some(reason) => Err(reason),
            None => {
                let object = prepared.persistent_volume(claim, class, volume, self.driver.has_topology(), finalizers);
                request::of_plugin(object, plugin)
            }
        };
        let object = match made {
            Ok(object) => object,
            Err(reason) => {
                let call = self.driver.request(DeleteVolumeRequest { volume_id, secrets });
                let cleanup = self.driver.client().delete_volume(call).await.err().map(Box::new);
                let after = if cleanup.is_none() { After::Nothing } else { After::Unchanged };
                return Err((after, ProvisionError::Wrong { reason, cleanup }));
            }
        };
        let post = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match Api::<PersistentVolume>::all(self.client.clone()).create(&post, &object).await {
            Ok(_) => Ok(name),
            // An earlier answer was lost, or an earlier leader wrote it.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(name),
            Err(error) => Err((After::Unchanged, ProvisionError::Write(error))),
        }
    }

    fn topology(
        &self,
        key: &ObjectKey,
        class: &StorageClass,
        node: Option<&str>,
    ) -> Result<Option<TopologyRequirement>, topology::TopologyError> {
        let wanted = topology::Wanted {
            driver: self.driver.name(),
            claim: key.name(),
            node,
            allowed: class.allowed_topologies.as_deref().unwrap_or_default(),
            strict: self.options.strict_topology,
        };
        topology::requirement(&self.caches, &wanted)
    }

    /// Records that the volume may exist from now on.
    async fn begin(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        prepared: &request::Prepared,
        is_new: bool,
    ) -> Result<(), crate::journal::JournalError> {
        let parameters = class.parameters.clone().unwrap_or_default();
        let is_used = |annotation: &str| {
            [SELECTED_NODE, PROVISIONER, OLD_PROVISIONER].contains(&annotation)
                || parameters.values().any(|value| value.contains(&format!("'{annotation}'")))
        };
        let claim = essence(claim, is_used);
        if is_new {
            self.journal.begin(claim.clone()).await?;
        }
        let begun = Begun { claim: Arc::new(claim), topology: prepared.request.accessibility_requirements.clone() };
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(key.uid().to_owned(), begun);
        Ok(())
    }

    /// Asks the scheduler for another node. Returns whether it was asked.
    async fn reschedule(&self, key: &ObjectKey, claim: &PersistentVolumeClaim) -> bool {
        let api = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), key.namespace());
        let patch = json!({ "metadata": {
            "uid": key.uid(), "resourceVersion": claim.metadata.resource_version, "annotations": { SELECTED_NODE: null },
        } });
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch(key.name(), &parameters, &Patch::Merge(patch)).await {
            Ok(written) => {
                self.caches.wrote_claim(written);
                true
            }
            Err(error) => {
                warn!(claim = %key, "the scheduler cannot be asked for another node: {error}");
                false
            }
        }
    }
}
