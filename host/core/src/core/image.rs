//! The machine's state as data: what a recording begins with.
//!
//! An image has names where the machine has numbers, and leaves out what follows from the rest:
//! the users of a volume, the mounts of a pod, deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use volhost_model::names::{OuterName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::{Pod, VolumeSpec};

use super::Core;
use crate::actual::{ActualState, ActualVolume, Mount};
use crate::attaching::AttachPolicy;
use crate::command::Operation;
use crate::desired::{DesiredState, PodEntry, Unresolved, VolumeEntry};
use crate::event::{DesiredVolume, OperationId, Time, WaiterId};
use crate::identity::{Names, PodId, VolumeId};
use crate::keys::Scope;
use crate::pending::{FailedKey, InFlightOperation, PendingOperations};
use crate::waiters::{WaitCondition, Waiter, Waiters};

/// The state of a [`Core`] at one moment.
///
/// # Guarantees
/// A machine that was made from the image of another answers every later event as the other does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoreImage {
    attaching: AttachPolicy,
    now: Time,
    pods: Vec<PodImage>,
    volumes: Vec<VolumeImage>,
    running: Vec<RunningImage>,
    failed: Vec<FailedImage>,
    last_operation: OperationId,
    waiters: Vec<WaiterImage>,
    reported_in_use: BTreeSet<UniqueVolumeName>,
    node_attachments: Option<BTreeMap<UniqueVolumeName, String>>,
    attach_failures: BTreeMap<UniqueVolumeName, String>,
    awaited: Vec<UniqueVolumeName>,
    waiting_for_place: Vec<UniqueVolumeName>,
    sources_synced: bool,
    draining: bool,
    armed: Option<Time>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct PodImage {
    uid: PodUid,
    entry: PodEntry,
    volumes: Vec<VolumeEntry>,
    unresolved: Vec<UnresolvedImage>,
    unready: Option<UniqueVolumeName>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct UnresolvedImage {
    outer_name: OuterName,
    reason: String,
    was: Option<UniqueVolumeName>,
    #[serde(with = "crate::shared::option")]
    spec: Option<Arc<VolumeSpec>>,
    claim: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct VolumeImage {
    name: UniqueVolumeName,
    volume: ActualVolume,
    mounts: Vec<MountImage>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct MountImage {
    of_pod: PodUid,
    mount: Mount,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunningImage {
    operation: Operation,
    of_pod: Option<PodUid>,
    key_of_pod: Option<PodUid>,
    since: Time,
    overdue: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FailedImage {
    volume: UniqueVolumeName,
    key_of_pod: Option<PodUid>,
    failed: FailedKey,
    is_queued: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct WaiterImage {
    id: WaiterId,
    uid: PodUid,
    condition: WaitCondition,
    deadline: Time,
}

impl CoreImage {
    /// The pods, as far as their objects are known.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, Option<&Pod>)> {
        self.pods.iter().map(|pod| (&pod.uid, pod.entry.pod.as_deref()))
    }

    /// The volumes that pods want.
    pub fn wanted(&self) -> impl Iterator<Item = &DesiredVolume> {
        self.pods.iter().flat_map(|pod| &pod.volumes).map(|wanted| &wanted.volume)
    }

    /// The volumes that are mounted, staged or attached, or may be, and the names of their folders.
    pub fn volumes(&self) -> impl Iterator<Item = (&UniqueVolumeName, &SpecName)> {
        self.volumes.iter().map(|volume| (&volume.name, &volume.volume.spec_name))
    }

    /// The operations that run.
    pub fn running(&self) -> impl Iterator<Item = &Operation> {
        self.running.iter().map(|running| &running.operation)
    }

    /// The callers that wait, each for a pod.
    pub fn waiters(&self) -> impl Iterator<Item = (WaiterId, &PodUid)> {
        self.waiters.iter().map(|waiter| (waiter.id, &waiter.uid))
    }
}

impl Core {
    /// Returns the machine's state. Takes time and room for every pod and volume.
    pub fn image(&self) -> CoreImage {
        let running = self.pending.all_running().map(|(_, running)| RunningImage {
            operation: running.operation.clone(),
            of_pod: running.pod.as_ref().map(name_of),
            key_of_pod: running.scope.pod().map(name_of),
            since: running.since,
            overdue: running.overdue.clone(),
        });
        let failed = self.pending.failed_in_order().into_iter().map(|(volume, scope, failed)| FailedImage {
            volume: volume.name().clone(),
            key_of_pod: scope.pod().map(name_of),
            failed: failed.clone(),
            is_queued: self.pending.is_queued(volume, scope, failed),
        });
        let waiters = self.waiters.all().map(|(id, waiter)| WaiterImage {
            id,
            uid: waiter.uid.name().clone(),
            condition: waiter.condition,
            deadline: waiter.deadline,
        });
        let names = |volumes: &BTreeSet<VolumeId>| volumes.iter().map(|volume| volume.name().clone()).collect();
        CoreImage {
            attaching: self.attaching.clone(),
            now: self.now,
            pods: self.desired.pods().map(|(uid, entry)| pod_image(uid, entry)).collect(),
            volumes: self.actual.volumes().map(|(name, volume)| volume_image(name, volume)).collect(),
            running: running.collect(),
            failed: failed.collect(),
            last_operation: self.pending.last_id(),
            waiters: waiters.collect(),
            reported_in_use: self.reported_in_use.clone(),
            node_attachments: self.node_attachments.clone(),
            attach_failures: self.attach_failures.clone(),
            awaited: names(&self.awaited),
            waiting_for_place: names(&self.waiting_for_place),
            sources_synced: self.sources_synced,
            draining: self.draining,
            armed: self.armed,
        }
    }

    /// Creates a machine in the state of the image.
    pub fn from_image(image: CoreImage) -> Self {
        let mut pods = Names::default();
        let mut volumes = Names::default();
        let mut desired = DesiredState::default();
        for PodImage { uid, mut entry, volumes: wanted, unresolved, unready } in image.pods {
            entry.volumes =
                wanted.into_iter().map(|one| (volumes.id(&one.volume.unique_name), Box::new(one))).collect();
            let unresolved = unresolved.into_iter().map(|UnresolvedImage { outer_name, reason, was, spec, claim }| {
                let was = was.map(|volume| volumes.id(&volume));
                (outer_name, Unresolved { reason, was, spec, claim })
            });
            entry.unresolved = unresolved.collect();
            entry.unready = unready.map(|volume| volumes.id(&volume));
            desired.restore(&pods.id(&uid), entry);
        }
        let mut actual = ActualState::default();
        for VolumeImage { name, mut volume, mounts } in image.volumes {
            let name = volumes.id(&name);
            let spec = volume.spec.take();
            actual.entry(&name, || volume);
            actual.set_spec(&name, spec);
            for MountImage { of_pod, mount } in mounts {
                actual.insert_mount(&name, &pods.id(&of_pod), mount);
            }
        }
        let running: Vec<_> = image.running.into_iter().map(|one| one.restored(&mut pods, &mut volumes)).collect();
        let failed = image.failed.into_iter().map(|FailedImage { volume, key_of_pod, failed, is_queued }| {
            let scope = Scope::of(key_of_pod.map(|pod| pods.id(&pod)));
            (volumes.id(&volume), scope, failed, is_queued)
        });
        let failed: Vec<_> = failed.collect();
        let mut waiters = Waiters::default();
        for WaiterImage { id, uid, condition, deadline } in image.waiters {
            waiters.insert(id, Waiter { uid: pods.id(&uid), condition, deadline });
        }
        Self {
            attaching: image.attaching,
            now: image.now,
            desired,
            actual,
            pending: PendingOperations::restore(image.last_operation, running, failed),
            waiters,
            reported_in_use: image.reported_in_use,
            node_attachments: image.node_attachments,
            attach_failures: image.attach_failures,
            awaited: image.awaited.iter().map(|volume| volumes.id(volume)).collect(),
            waiting_for_place: image.waiting_for_place.iter().map(|volume| volumes.id(volume)).collect(),
            sources_synced: image.sources_synced,
            draining: image.draining,
            armed: image.armed,
            pod_names: pods,
            volume_names: volumes,
        }
    }
}

impl RunningImage {
    fn restored(self, pods: &mut Names<PodUid>, volumes: &mut Names<UniqueVolumeName>) -> InFlightOperation {
        InFlightOperation {
            volume: volumes.id(&self.operation.volume),
            pod: self.of_pod.map(|pod| pods.id(&pod)),
            scope: Scope::of(self.key_of_pod.map(|pod| pods.id(&pod))),
            operation: self.operation,
            since: self.since,
            overdue: self.overdue,
        }
    }
}

fn name_of(pod: &PodId) -> PodUid {
    pod.name().clone()
}

fn pod_image(uid: &PodId, entry: &PodEntry) -> PodImage {
    let unresolved = entry.unresolved.iter().map(|(outer_name, one)| UnresolvedImage {
        outer_name: outer_name.clone(),
        reason: one.reason.clone(),
        was: one.was.as_ref().map(|volume| volume.name().clone()),
        spec: one.spec.clone(),
        claim: one.claim.clone(),
    });
    PodImage {
        uid: uid.name().clone(),
        volumes: entry.volumes.values().map(|wanted| VolumeEntry::clone(wanted)).collect(),
        unresolved: unresolved.collect(),
        unready: entry.unready.as_ref().map(|volume| volume.name().clone()),
        entry: entry.clone(),
    }
}

fn volume_image(name: &VolumeId, volume: &ActualVolume) -> VolumeImage {
    let mounts =
        volume.mounts.iter().map(|(pod, mount)| MountImage { of_pod: name_of(pod), mount: Mount::clone(mount) });
    VolumeImage { name: name.name().clone(), mounts: mounts.collect(), volume: volume.clone() }
}
