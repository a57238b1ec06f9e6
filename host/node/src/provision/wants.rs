//! The claims for which a volume is to be made, and the reasons why others get none.

use std::collections::BTreeMap;

use volhost_provisioner::secret_names::TemplateValues;
use volhost_provisioner::{ClaimName, ClaimRequest, InitialContent, PendingClaim, Terms};

use volhost_objects::binding::Unbound;
use volhost_objects::claim::{ClaimObject, DataSource};
use volhost_objects::populate::{NodeIdentity, PodPlacement, placement};
use volhost_objects::snapshot::SNAPSHOT_GROUP;
use volhost_objects::{Kind, ObjectContent, ObjectKey, ObjectSource, ObjectStore, StorageClassObject};

/// The reason why no volume is made for a claim, for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimBlockedReason {
    /// It waits for a pod; there is no error.
    Waits(String),
    /// A person has to change an object.
    Wrong(String),
    /// An unread manifest may have the PersistentVolume that the claim is bound to.
    NotRead(String),
}

impl ClaimBlockedReason {
    /// Returns the text for users.
    #[must_use]
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Waits(text) | Self::Wrong(text) | Self::NotRead(text) => text,
        }
    }
}

/// The volumes that claims ask for.
#[derive(Debug, Default)]
pub(crate) struct PendingClaims {
    /// Volumes to make.
    pub(crate) wants: Vec<PendingClaim>,
    /// Claims that get none for now.
    pub(crate) not_asked: BTreeMap<ObjectKey, ClaimBlockedReason>,
}

impl PendingClaims {
    /// Leaves out the claims that `is_known` does not know, because these manifests could not be
    /// read since the start: the PersistentVolume of such a claim may be in them.
    pub(crate) fn leave_out_unknown(&mut self, unread: &[String], is_known: impl Fn(&ClaimName) -> bool) {
        let (known, unknown): (Vec<PendingClaim>, Vec<PendingClaim>) =
            std::mem::take(&mut self.wants).into_iter().partition(|want| is_known(&want.claim));
        self.wants = known;
        let why = format!(
            "no volume is made for it yet, because volhost could not read {} since it started, where its PersistentVolume may be; mend, fill or remove what cannot be read",
            if unread.is_empty() { "the manifest folder".to_owned() } else { unread.join(", ") }
        );
        for PendingClaim { claim, .. } in unknown {
            let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name);
            self.not_asked.insert(key, ClaimBlockedReason::NotRead(why.clone()));
        }
    }
}

/// Returns the volumes to make for the claims without one. `name_for` returns the name of a claim's
/// volume.
pub(crate) fn wants(
    store: &ObjectStore,
    node: &NodeIdentity,
    name_for: impl Fn(&ClaimName) -> String,
) -> PendingClaims {
    let mut asked = PendingClaims::default();
    for (key, claim) in store.claims() {
        let unbound = matches!(store.volume_of_claim(key), Some(Err(Unbound::NoMatch { .. })));
        if !unbound || claim.deleted || !claim.volume_name.is_empty() {
            continue;
        }
        let want = match class_of(store, claim) {
            Ok(Some(class)) => want(store, node, key, claim, class, &name_for),
            Ok(None) => continue,
            Err(why) => Err(why),
        };
        match want {
            Ok(want) => asked.wants.push(want),
            Err(why) => drop(asked.not_asked.insert(key.clone(), why)),
        }
    }
    asked
}

/// Returns the class by which a claim's volume is made; none when no volume is made for it.
fn class_of<'a>(
    store: &'a ObjectStore,
    claim: &ClaimObject,
) -> Result<Option<&'a StorageClassObject>, ClaimBlockedReason> {
    if claim.names_class && claim.storage_class.is_empty() {
        return Ok(None);
    }
    let mut classes = store.storage_classes();
    if !claim.names_class {
        // One of several, as with Kubernetes; the same after every start.
        return Ok(classes.find(|class| class.is_default));
    }
    classes.find(|class| class.name == claim.storage_class).map(Some).ok_or_else(|| {
        ClaimBlockedReason::Wrong(format!(
            "no free PersistentVolume fits, and there is no StorageClass {}; add its manifest, or correct spec.storageClassName",
            claim.storage_class
        ))
    })
}

fn want(
    store: &ObjectStore,
    node: &NodeIdentity,
    key: &ObjectKey,
    claim: &ClaimObject,
    class: &StorageClassObject,
    name_for: impl Fn(&ClaimName) -> String,
) -> Result<PendingClaim, ClaimBlockedReason> {
    let wrong = |field: &str, why: &str| ClaimBlockedReason::Wrong(format!("{}: {field}: {why}", claim.file));
    let Some(provisioner) = class.provisioner.clone() else {
        let why = format!("StorageClass {} makes no volumes, and no free PersistentVolume fits", class.name);
        return Err(ClaimBlockedReason::Wrong(why));
    };
    if claim.selector.is_some() {
        return Err(wrong(
            "spec.selector",
            "a volume that is made for the claim has no labels to select by; remove it",
        ));
    }
    if claim.access_modes.is_empty() {
        return Err(wrong("spec.accessModes", "is missing; say how the volume is to be used, as [ReadWriteOnce]"));
    }
    if claim.request == 0 {
        return Err(wrong("spec.resources.requests.storage", "is missing; say how large the volume is to be"));
    }
    if claim.limit.is_some_and(|limit| limit < claim.request) {
        return Err(wrong("spec.resources.limits.storage", "is less than spec.resources.requests.storage"));
    }
    let source = claim.data_source.as_ref().map(|source| source_of(store, claim, class, source)).transpose()?;
    if class.waits_for_pod && !is_used(store, node, key) {
        let why = format!("StorageClass {} waits for a pod of this node that uses the claim", class.name);
        return Err(ClaimBlockedReason::Waits(why));
    }
    let name = ClaimName { namespace: claim.namespace.clone(), name: claim.name.clone(), uid: claim.uid.clone() };
    let volume = name_for(&name);
    let here = TemplateValues {
        volume: &volume,
        namespace: &claim.namespace,
        claim: &claim.name,
        annotations: &claim.annotations,
    };
    let secrets = class.parameters.secrets(&here);
    let secrets = secrets
        .map_err(|error| ClaimBlockedReason::Wrong(format!("{}: StorageClass {}: {error}", class.file, class.name)))?;
    Ok(PendingClaim {
        claim: name,
        terms: Terms {
            class: class.name.clone(),
            provisioner,
            parameters: class.parameters.own.clone(),
            fs_type: class.parameters.fs_type.clone(),
            reclaim: class.reclaim,
            mount_options: class.mount_options.clone(),
            places: class.places.clone(),
            secrets,
        },
        wanted: ClaimRequest {
            bytes: claim.request,
            limit: claim.limit,
            as_device: claim.volume_mode == volhost_model::spec::VolumeMode::Block,
            access_modes: claim.access_modes.clone(),
            source,
        },
        in_manifest: store.source(key) == Some(ObjectSource::Manifest),
    })
}

/// Whether a pod that runs here uses the claim.
fn is_used(store: &ObjectStore, node: &NodeIdentity, claim: &ObjectKey) -> bool {
    let mut pods = store.users_of(claim).filter_map(|pod| store.pod(pod));
    pods.any(|pod| placement(pod, node) == PodPlacement::Runs)
}

/// Returns the initial content of the volume.
fn source_of(
    store: &ObjectStore,
    claim: &ClaimObject,
    class: &StorageClassObject,
    source: &DataSource,
) -> Result<InitialContent, ClaimBlockedReason> {
    const FIELD: &str = "spec.dataSource";
    let wrong = |why: String| ClaimBlockedReason::Wrong(format!("{}: {FIELD}: {why}", claim.file));
    let waits = |why: String| ClaimBlockedReason::Waits(format!("{}: {FIELD}: {why}", claim.file));
    if source.namespace.as_ref().is_some_and(|namespace| *namespace != claim.namespace) {
        return Err(wrong("it lies in another namespace, which is not allowed here".to_owned()));
    }
    match (source.group.as_str(), source.kind.as_str()) {
        ("", "PersistentVolumeClaim") => {
            let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &source.name);
            let Some(ObjectContent::Claim(other)) = store.get(&key).map(|object| &object.content) else {
                return Err(waits(format!("there is no {key} yet")));
            };
            let Some(Ok(volume)) = store.volume_of_claim(&key) else {
                return Err(waits(format!("{key} has no volume yet")));
            };
            if other.volume_mode != claim.volume_mode {
                return Err(wrong(format!("{key} has another spec.volumeMode")));
            }
            if volume.capacity.unwrap_or_default() > claim.request {
                return Err(wrong(format!(
                    "{key} has {} bytes, and the copy asks for {}; a copy is as large or larger",
                    volume.capacity.unwrap_or_default(),
                    claim.request
                )));
            }
            let field = |name: &str| volume.source.fields_of("csi")?.get(name)?.as_str();
            match (field("driver"), field("volumeHandle")) {
                (Some(driver), Some(handle)) if Some(driver) == class.provisioner.as_deref() => {
                    Ok(InitialContent::Volume(handle.to_owned()))
                }
                _ => Err(wrong(format!(
                    "the volume of {key} is not one of {}",
                    class.provisioner.as_deref().unwrap_or("")
                ))),
            }
        }
        (SNAPSHOT_GROUP, "VolumeSnapshot") => {
            let key = ObjectKey::new(Kind::VolumeSnapshot, &claim.namespace, &source.name);
            let Some(ObjectContent::VolumeSnapshot(snapshot)) = store.get(&key).map(|object| &object.content) else {
                return Err(waits(format!("there is no {key} yet")));
            };
            let Some(content) = &snapshot.content else {
                return Err(wrong(format!(
                    "{key} is of a claim, and volhost makes no snapshots: name a VolumeSnapshotContent in its spec.source.volumeSnapshotContentName"
                )));
            };
            let key = ObjectKey::new(Kind::VolumeSnapshotContent, "", content);
            let Some(ObjectContent::VolumeSnapshotContent(content)) = store.get(&key).map(|object| &object.content)
            else {
                return Err(waits(format!("there is no {key} yet")));
            };
            if Some(content.driver.as_str()) != class.provisioner.as_deref() {
                return Err(wrong(format!("{key} is a snapshot of {}, and no other driver knows it", content.driver)));
            }
            let handle = content.handle.clone();
            handle
                .map(InitialContent::Snapshot)
                .ok_or_else(|| waits(format!("{key} has no spec.source.snapshotHandle")))
        }
        (group, kind) => Err(wrong(format!(
            "{kind} of the API group {group:?} is not known here; there are PersistentVolumeClaim, and VolumeSnapshot of {SNAPSHOT_GROUP}"
        ))),
    }
}
