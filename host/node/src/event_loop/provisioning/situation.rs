//! The state of claims, as the provisioner needs it.
#![deny(clippy::disallowed_methods)]

use std::cell::OnceCell;
use std::collections::BTreeSet;

use volhost_core::Core;
use volhost_objects::binding::Unbound;
use volhost_objects::populate::{PodPlacement, placement};
use volhost_objects::{Kind, ObjectContent, ObjectKey};
use volhost_provisioner::{ClaimState, Phase, ProvisionRecord};

use crate::event_loop::sources::Sources;

/// The objects and volumes that the state of a claim depends on.
pub(super) struct ClaimContext<'a> {
    core: &'a Core,
    sources: &'a Sources,
    /// Every source has been read since the start.
    is_complete: bool,
    /// The names of the volumes that the node has or is to have.
    on_node: OnceCell<BTreeSet<String>>,
}

impl<'a> ClaimContext<'a> {
    /// Creates the situation of one run of the provisioner.
    pub(super) const fn new(core: &'a Core, sources: &'a Sources, is_complete: bool) -> Self {
        Self { core, sources, is_complete, on_node: OnceCell::new() }
    }

    /// Returns the state of the claim of a made volume.
    pub(super) fn claim(&self, record: &ProvisionRecord) -> ClaimState {
        match self.claim_in_sources(record) {
            wants @ ClaimState::Wants { .. } if self.is_complete || !matches!(record.phase, Phase::Released(_)) => {
                wants
            }
            state if self.is_complete => state,
            _ => ClaimState::Unread,
        }
    }

    /// Returns the state of the claim according to what has been read.
    fn claim_in_sources(&self, record: &ProvisionRecord) -> ClaimState {
        let store = self.sources.store();
        let claim = &record.claim;
        let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name);
        let Some(object) = store.get(&key) else {
            let wanted = store.users_of(&key).filter_map(|pod| store.pod(pod));
            let mut wanted = wanted.map(|pod| placement(pod, self.sources.node()) == PodPlacement::Runs);
            let in_use = self.is_on_node(record) || wanted.any(|runs| runs);
            // A stated deletion counts, even if other files cannot be read.
            if record.deletion_stated {
                return ClaimState::Gone { in_use };
            }
            if self.sources.may_miss_claim(&key) || self.is_retained(record) {
                return ClaimState::Unknown;
            }
            return ClaimState::Missing { in_use };
        };
        let ObjectContent::Claim(found) = &object.content else { return ClaimState::Unknown };
        let other = match store.volume_of_claim(&key) {
            Some(Ok(volume)) => volume.name.as_str() != record.name,
            // It names another volume, or a volume that another claim has.
            Some(Err(Unbound::MissingVolume(name))) => *name != record.name,
            _ => false,
        };
        if found.uid == claim.uid && found.deleted {
            return ClaimState::Gone { in_use: self.is_on_node(record) };
        }
        if found.uid != claim.uid || other {
            return ClaimState::Missing { in_use: self.is_on_node(record) };
        }
        let may_grow = store.storage_classes().any(|class| class.name == record.terms.class && class.may_grow);
        ClaimState::Wants { bytes: found.request, may_grow }
    }

    /// Whether the claim was in a manifest and was not deleted, and no manifest was read since the
    /// start.
    pub(super) fn is_retained(&self, record: &ProvisionRecord) -> bool {
        record.in_manifest && !record.deletion_stated && !self.sources.has_seen_manifests()
    }

    /// Whether the volume is mounted, staged or attached here, or may be, or is to be.
    fn is_on_node(&self, record: &ProvisionRecord) -> bool {
        let names = self.on_node.get_or_init(|| {
            let pods = self.core.pods().into_iter().flat_map(|pod| pod.volumes);
            pods.chain(self.core.unused_volumes()).map(|volume| volume.spec_name).collect()
        });
        names.contains(&record.name)
    }
}
