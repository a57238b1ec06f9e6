//! Which PersistentVolume a claim has. In a cluster a controller decides this and writes it down;
//! here the manifests say it, or the same rules decide.
//!
//! 1. A claim with `status.phase` is taken at its word.
//! 2. A claim with `spec.volumeName` has that volume, unless the volume is kept for another claim
//!    or another claim has it. Of two claims, the one that has it keeps it; else the one the
//!    volume's `claimRef` names; else the first by namespace and name. The volume has to fit, by
//!    the rules of Kubernetes' volume controller: size, storage class, access modes and volume
//!    mode. A claim that has the volume already may ask for more than its capacity: that is how a
//!    claim grows. This binding survives restarts and reboots ([`RetainedBindings`]).
//! 3. Another claim keeps the volume it has while that still fits; else it gets a volume whose
//!    `claimRef` names it, or the smallest free one that fits (storage class, access modes, volume
//!    mode, selector, size), of equal ones the first by name.
//!
//! Decisions by rule 3 are not stored: after a restart they are made anew, from the same objects
//! the same way. Name the volume in the claim where that is not enough.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;
use volhost_model::spec::VolumeMode;

use super::claim::ClaimObject;
use super::key::{Kind, ObjectKey};
use super::persistent_volume::{ClaimReference, PersistentVolumeObject, SINGLE_POD_MODE};
use super::retained_bindings::RetainedBindings;

/// Why a claim has no volume. Begins with the kubelet's words where it has some.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unbound {
    /// Its status says so.
    #[error("PVC is not bound: its status.phase is {0}")]
    Phase(String),
    /// Its status says `Bound`, and it names no volume.
    #[error("PVC has empty pvc.Spec.VolumeName although its status.phase is Bound")]
    NoVolumeName,
    /// The volume it names is not known.
    #[error(
        "failed to fetch PV {0}: there is no PersistentVolume of that name; add its manifest or correct spec.volumeName"
    )]
    MissingVolume(String),
    /// The volume is kept for another claim.
    #[error("PVC is not bound: spec.claimRef of PersistentVolume {volume} names claim {other}")]
    OtherClaim {
        /// The volume.
        volume: String,
        /// The claim it is kept for.
        other: String,
    },
    /// The volume is kept for a claim of this name that has been deleted since.
    #[error("PV {volume} does not point to claim.UID: its spec.claimRef.uid is {wanted}, the claim's uid is {have}")]
    OtherUid {
        /// The volume.
        volume: String,
        /// The uid in the reference.
        wanted: String,
        /// The claim's uid.
        have: String,
    },
    /// Another claim has the volume.
    #[error("PVC is not bound: PersistentVolume {volume} is bound to claim {other}; one volume serves one claim")]
    Taken {
        /// The volume.
        volume: String,
        /// The claim that has it.
        other: String,
    },
    /// The volume it names does not fit.
    #[error("PVC is not bound: cannot bind to requested volume {volume}: {mismatch}")]
    Mismatch {
        /// The volume.
        volume: String,
        /// The rule that the two break.
        mismatch: Mismatch,
    },
    /// No volume fits.
    #[error(
        "PVC is not bound: no free PersistentVolume has storage class {class:?}, access modes {modes}, at least {bytes} bytes{selector}; add one, or name one in spec.volumeName"
    )]
    NoMatch {
        /// The storage class it asks for.
        class: String,
        /// The access modes it asks for.
        modes: String,
        /// The size it asks for.
        bytes: u64,
        /// Words on its selector, if it has one.
        selector: &'static str,
    },
}

/// Why a claim and the volume that it names do not fit. Begins with the words of Kubernetes' volume
/// controller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// The volume is being deleted, or a claim that is gone had it.
    #[error("the volume is marked for deletion, or its status.phase is Released or Failed; name another volume")]
    Unavailable,
    /// The claim asks for more bytes.
    #[error(
        "requested PV is too small: the claim asks for {request} bytes, and spec.capacity.storage of the volume is {capacity}; correct one of the two, or, if the claim had the volume before and was edited while volhost did not run, give it status.phase Bound"
    )]
    Size {
        /// The size that the claim asks for, in bytes.
        request: u64,
        /// The volume's size, in bytes.
        capacity: u64,
    },
    /// The two are of different storage classes.
    #[error(
        "storageClassName does not match: the claim's is {claim:?}, the volume's is {volume:?}; give both the same"
    )]
    Class {
        /// The claim's class; empty for none.
        claim: String,
        /// The volume's class; empty for none.
        volume: String,
    },
    /// One is a file system, the other a device.
    #[error("incompatible volumeMode: the claim's is {claim:?}, the volume's is {volume:?}; give both the same")]
    VolumeMode {
        /// The claim's mode.
        claim: VolumeMode,
        /// The volume's mode.
        volume: VolumeMode,
    },
    /// The volume lacks an access mode that the claim asks for.
    #[error(
        "incompatible accessMode: the claim asks for {mode}, and spec.accessModes of the volume is [{offered}]; correct one of the two"
    )]
    AccessMode {
        /// The mode that the volume lacks.
        mode: String,
        /// The volume's modes.
        offered: String,
    },
}

/// Who has what.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    by_claim: BTreeMap<ObjectKey, Result<String, Unbound>>,
    by_volume: BTreeMap<String, ObjectKey>,
    retained: RetainedBindings,
}

/// The PersistentVolumes by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Arc<PersistentVolumeObject>>;

impl Bindings {
    /// The name of the claim's PersistentVolume, or why it has none; none when the claim is not
    /// known.
    pub fn of_claim(&self, claim: &ObjectKey) -> Option<&Result<String, Unbound>> {
        self.by_claim.get(claim)
    }

    /// The claim that has this PersistentVolume.
    pub fn of_volume(&self, volume: &str) -> Option<&ObjectKey> {
        self.by_volume.get(volume)
    }

    /// The bindings that could not be decided again from the objects alone.
    pub(super) fn retained(&self) -> &RetainedBindings {
        &self.retained
    }

    /// Restores the bindings of an earlier run.
    pub(super) fn restore(&mut self, retained: RetainedBindings) {
        self.retained = retained;
    }

    /// Every claim, in order.
    pub(super) fn claims(&self) -> impl Iterator<Item = (&ObjectKey, &Result<String, Unbound>)> {
        self.by_claim.iter()
    }

    /// Decides for all claims at once. `self` is what was decided before.
    pub(super) fn decide(&self, claims: &[&Arc<ClaimObject>], volumes: &Volumes<'_>) -> Self {
        let mut next = Self::default();
        let (named, unnamed): (Vec<_>, Vec<_>) =
            claims.iter().copied().partition(|claim| !claim.volume_name.is_empty());
        self.decide_named(named.clone(), volumes, &mut next);
        self.decide_unnamed(unnamed, volumes, &mut next);
        next.retained = self.still_retained(&named, volumes, &next);
        next
    }

    fn still_retained(&self, named: &[&Arc<ClaimObject>], volumes: &Volumes<'_>, next: &Self) -> RetainedBindings {
        let mut retained = RetainedBindings::default();
        for claim in named.iter().filter(|claim| next.by_volume.get(&claim.volume_name) == Some(&key(claim))) {
            let volume = volumes.get(claim.volume_name.as_str());
            if volume.is_some_and(|volume| mismatch(volume, claim, false).is_some()) {
                retained.insert(claim.volume_name.clone(), key(claim));
            }
        }
        // A claim or volume that was not read since the start may come yet. A claim that went is
        // another one when it comes back.
        for (volume, claim) in self.retained.iter() {
            let is_unread = match next.by_claim.contains_key(claim) {
                true => !volumes.contains_key(volume.as_str()),
                false => !self.by_claim.contains_key(claim),
            };
            if is_unread {
                retained.insert(volume.clone(), claim.clone());
            }
        }
        retained
    }

    fn decide_named(&self, mut claims: Vec<&Arc<ClaimObject>>, volumes: &Volumes<'_>, next: &mut Self) {
        let is_named = |claim: &ClaimObject| {
            volumes.get(claim.volume_name.as_str()).is_some_and(|volume| is_for(volume.claim.as_ref(), claim))
        };
        let had_volume = |claim: &ClaimObject| {
            let (volume, claim) = (&claim.volume_name, key(claim));
            self.by_volume.get(volume) == Some(&claim) || self.retained.has(volume, &claim)
        };
        claims.sort_by_cached_key(|claim| (!had_volume(claim), !is_named(claim), key(claim)));
        for claim in claims {
            let decided = next.judge_named(claim, volumes, had_volume(claim));
            next.set(claim, decided);
        }
    }

    /// `had_volume`: the claim had the volume before.
    fn judge_named(&self, claim: &ClaimObject, volumes: &Volumes<'_>, had_volume: bool) -> Result<String, Unbound> {
        if let Some(phase) = claim.phase.as_ref().filter(|phase| *phase != "Bound") {
            return Err(Unbound::Phase(phase.clone()));
        }
        let name = claim.volume_name.clone();
        let Some(volume) = volumes.get(name.as_str()) else { return Err(Unbound::MissingVolume(name)) };
        if let Some(reference) = &volume.claim {
            check_reference(reference, claim, &name)?;
        }
        if let Some(mismatch) = mismatch(volume, claim, had_volume) {
            return Err(Unbound::Mismatch { volume: name, mismatch });
        }
        match self.by_volume.get(&name) {
            Some(other) => Err(Unbound::Taken { volume: name, other: other.full_name() }),
            None => Ok(name),
        }
    }

    fn decide_unnamed(&self, mut claims: Vec<&Arc<ClaimObject>>, volumes: &Volumes<'_>, next: &mut Self) {
        claims.sort_by_cached_key(|claim| key(claim));
        claims.retain(|claim| match claim.phase.as_deref() {
            None => true,
            Some("Bound") => {
                next.set(claim, Err(Unbound::NoVolumeName));
                false
            }
            Some(phase) => {
                next.set(claim, Err(Unbound::Phase(phase.to_owned())));
                false
            }
        });
        claims.retain(|claim| match self.by_claim.get(&key(claim)) {
            Some(Ok(had)) if next.may_have(claim, had, volumes) => {
                next.set(claim, Ok(had.clone()));
                false
            }
            _ => true,
        });
        let mut free: BTreeMap<&str, BTreeSet<(u64, &str)>> = BTreeMap::new();
        let mut kept: BTreeMap<(&str, &str), BTreeSet<(u64, &str)>> = BTreeMap::new();
        for (name, volume) in volumes.iter().filter(|(name, _)| !next.by_volume.contains_key(**name)) {
            let entry = (volume.capacity.unwrap_or(0), *name);
            match &volume.claim {
                Some(reference) => kept.entry((&reference.namespace, &reference.name)).or_default().insert(entry),
                None => free.entry(&volume.storage_class).or_default().insert(entry),
            };
        }
        for claim in claims {
            let fits = |name: &str| next.may_have(claim, name, volumes);
            let own = kept.get(&(claim.namespace.as_str(), claim.name.as_str())).into_iter().flatten();
            let class = free.get(claim.storage_class.as_str());
            let others = class.into_iter().flat_map(|class| class.range((claim.request, "")..));
            let found = own.chain(others).copied().find(|(_, name)| fits(name));
            if let (Some(taken), Some(class)) = (&found, free.get_mut(claim.storage_class.as_str())) {
                class.remove(taken);
            }
            let decided = found.map(|(_, name)| name.to_owned()).ok_or_else(|| no_match(claim));
            next.set(claim, decided);
        }
    }

    /// Whether a claim that names no volume may have this one.
    fn may_have(&self, claim: &ClaimObject, name: &str, volumes: &Volumes<'_>) -> bool {
        let Some(volume) = volumes.get(name) else { return false };
        !self.by_volume.contains_key(name)
            && volume.available
            && volume.claim.as_ref().is_none_or(|reference| check_reference(reference, claim, name).is_ok())
            && volume.volume_mode == claim.volume_mode
            && (made_for(volume, claim)
                || volume.storage_class == claim.storage_class && volume.capacity.unwrap_or(0) >= claim.request)
            && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
            && claim.selects(&volume.labels)
    }

    fn set(&mut self, claim: &ClaimObject, decided: Result<String, Unbound>) {
        if let Ok(volume) = &decided {
            self.by_volume.insert(volume.clone(), key(claim));
        }
        self.by_claim.insert(key(claim), decided);
    }
}

fn key(claim: &ClaimObject) -> ObjectKey {
    ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name)
}

fn is_for(reference: Option<&ClaimReference>, claim: &ClaimObject) -> bool {
    reference.is_some_and(|reference| reference.namespace == claim.namespace && reference.name == claim.name)
}

/// Whether the volume was made for the claim, by any class.
fn made_for(volume: &PersistentVolumeObject, claim: &ClaimObject) -> bool {
    volume.provisioned && is_for(volume.claim.as_ref(), claim)
}

/// The first binding rule that a claim and the volume that it names break. `had_volume`: the claim
/// had the volume before.
fn mismatch(volume: &PersistentVolumeObject, claim: &ClaimObject, had_volume: bool) -> Option<Mismatch> {
    // A claim for one pod alone never shares its volume, even if its status says Bound.
    let is_bound = claim.phase.as_deref() == Some("Bound");
    let lacks = |mode: &&String| !volume.access_modes.contains(mode) && (!is_bound || *mode == SINGLE_POD_MODE);
    let lacking = claim.access_modes.iter().find(lacks);
    let access_mode = || {
        let offered = volume.access_modes.join(", ");
        lacking.map(|mode| Mismatch::AccessMode { mode: mode.clone(), offered })
    };
    if is_bound {
        return access_mode();
    }
    if !volume.available && volume.claim.is_none() && !had_volume {
        return Some(Mismatch::Unavailable);
    }
    let made = made_for(volume, claim);
    // A reference gets the claim's uid when the two are bound; a claim that is bound may grow.
    let referred = volume.claim.as_ref().and_then(|reference| reference.uid.as_ref());
    let may_grow = made || had_volume || (claim.uid_given && referred == Some(&claim.uid));
    let capacity = volume.capacity.unwrap_or(0);
    if !may_grow && capacity < claim.request {
        return Some(Mismatch::Size { request: claim.request, capacity });
    }
    if !made && volume.storage_class != claim.storage_class {
        let (claim, volume) = (claim.storage_class.clone(), volume.storage_class.clone());
        return Some(Mismatch::Class { claim, volume });
    }
    if volume.volume_mode != claim.volume_mode {
        return Some(Mismatch::VolumeMode { claim: claim.volume_mode, volume: volume.volume_mode });
    }
    access_mode()
}

fn check_reference(reference: &ClaimReference, claim: &ClaimObject, volume: &str) -> Result<(), Unbound> {
    if !is_for(Some(reference), claim) {
        let other = format!("{}/{}", reference.namespace, reference.name);
        return Err(Unbound::OtherClaim { volume: volume.to_owned(), other });
    }
    match &reference.uid {
        // A derived uid is of our making: no reference can know it.
        Some(wanted) if claim.uid_given && *wanted != claim.uid => {
            Err(Unbound::OtherUid { volume: volume.to_owned(), wanted: wanted.clone(), have: claim.uid.clone() })
        }
        _ => Ok(()),
    }
}

fn no_match(claim: &ClaimObject) -> Unbound {
    Unbound::NoMatch {
        class: claim.storage_class.clone(),
        modes: format!("[{}]", claim.access_modes.join(", ")),
        bytes: claim.request,
        selector: if claim.selector.is_some() { ", and the labels of spec.selector" } else { "" },
    }
}
