//! The operation table (rule R3): the operations that run, by key, and the keys that failed.
//!
//! A key is a volume and a [`Scope`]: the whole volume, or one pod's use of it. Of matching keys
//! only one runs. A failed key waits before the *same* operation is tried again; another operation
//! on it begins at once and wipes the wait.
//!
//! Unlike the kubelet's list, a mount of a shared volume that fails after its device was mounted
//! delays only its own pod: the key that runs and the key that waits may differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use volhost_model::Failure;
use volhost_model::names::{PluginName, UniqueVolumeName};

use crate::command::{Operation, OperationKind, OperationName};
use crate::event::{OperationId, Time};
use crate::identity::{ById, PodId, VolumeId};
use crate::keys::{Scope, wait};

/// An operation that was started and has not ended.
#[derive(Debug, Clone)]
pub(crate) struct InFlightOperation {
    /// The operation.
    pub(crate) operation: Operation,
    /// Its volume.
    pub(crate) volume: VolumeId,
    /// Its pod; none for operations on the volume alone.
    pub(crate) pod: Option<PodId>,
    /// The scope of its key.
    pub(crate) scope: Scope,
    /// When it began.
    pub(crate) since: Time,
    /// The step at which it hangs, once it has passed its deadline.
    pub(crate) overdue: Option<String>,
}

impl InFlightOperation {
    /// It changes the size of what is mounted, and unmounts nothing.
    pub(crate) const fn is_expansion(&self) -> bool {
        matches!(self.operation.kind, OperationKind::Expand { .. })
    }
}

/// A key that failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FailedKey {
    /// The operation that failed.
    pub(crate) name: OperationName,
    /// The plugin that was asked.
    pub(crate) plugin: PluginName,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// The failures there were when it was last tried before its wait was over; 0 if it never was.
    pub(crate) retried_early_at: u32,
    /// When it last failed.
    pub(crate) failed_at: Time,
    /// When it may be tried again.
    pub(crate) retry_at: Time,
    /// How it failed.
    pub(crate) failure: Failure,
}

#[derive(Debug, Clone, Default)]
struct VolumeOperations {
    running: Vec<OperationId>,
    failed: BTreeMap<Scope, FailedKey>,
}

/// The table.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingOperations {
    running: BTreeMap<OperationId, InFlightOperation>,
    volumes: ById<UniqueVolumeName, VolumeOperations>,
    retries: BTreeSet<(Time, VolumeId, Scope)>,
    last_id: OperationId,
}

impl PendingOperations {
    /// A name for a new operation.
    pub(crate) fn next_id(&mut self) -> OperationId {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    /// Whether an operation with a matching key runs.
    pub(crate) fn is_taken(&self, volume: &VolumeId, scope: &Scope) -> bool {
        self.running_on(volume).any(|running| running.scope.matches(scope))
    }

    /// Whether `name` failed for the pod or for the volume and its wait is not over.
    pub(crate) fn is_waiting(&self, volume: &VolumeId, pod: Option<&PodId>, name: OperationName, now: Time) -> bool {
        self.failures_for(volume, pod).any(|failed| failed.name == name && failed.retry_at > now)
    }

    /// The failures that concern `pod`'s use of the volume: its own first, then the volume's.
    pub(crate) fn failures_for(&self, volume: &VolumeId, pod: Option<&PodId>) -> impl Iterator<Item = &FailedKey> {
        let failed = self.volumes.get(volume).map(|of| &of.failed);
        let own = pod.and_then(|pod| failed?.get(&Scope::Pod(pod.clone())));
        own.into_iter().chain(failed.and_then(|failed| failed.get(&Scope::Volume)))
    }

    /// Operations that run on the volume.
    pub(crate) fn running_on(&self, volume: &VolumeId) -> impl Iterator<Item = &InFlightOperation> {
        self.volumes.get(volume).into_iter().flat_map(|of| &of.running).filter_map(|id| self.running.get(id))
    }

    /// The operation, while it runs.
    pub(crate) fn running(&self, id: OperationId) -> Option<&InFlightOperation> {
        self.running.get(&id)
    }

    /// Every operation that runs.
    pub(crate) fn all_running(&self) -> impl Iterator<Item = (&OperationId, &InFlightOperation)> {
        self.running.iter()
    }

    /// Every failed key, in an order of no meaning.
    pub(crate) fn all_failed(&self) -> impl Iterator<Item = (&VolumeId, &Scope, &FailedKey)> {
        self.volumes
            .iter()
            .flat_map(|(volume, of)| of.failed.iter().map(move |(scope, failed)| (volume, scope, failed)))
    }

    /// Every failed key, by volume.
    pub(crate) fn failed_in_order(&self) -> Vec<(&VolumeId, &Scope, &FailedKey)> {
        let mut failed: Vec<_> = self.all_failed().collect();
        failed.sort_by_key(|(volume, ..)| *volume);
        failed
    }

    /// Whether the operation that failed on the key runs again.
    pub(crate) fn is_retried(&self, volume: &VolumeId, scope: &Scope, failed: &FailedKey) -> bool {
        self.running_on(volume).any(|running| {
            running.operation.kind.name() == failed.name
                && scope.pod().is_none_or(|pod| running.pod.as_ref() == Some(pod))
        })
    }

    /// Takes the key. An earlier failure of another operation on its pod's key, or the volume's, is
    /// wiped.
    pub(crate) fn start(&mut self, started: InFlightOperation) {
        let (id, volume, name) = (started.operation.id, &started.volume, started.operation.kind.name());
        let failing = Scope::of(started.pod.clone());
        let failed = self.volumes.get(volume).and_then(|of| of.failed.get(&failing));
        if failed.is_some_and(|failed| failed.name != name) {
            self.clear(volume, &failing);
        }
        if let Some(of) = self.volumes.entry(volume, VolumeOperations::default) {
            of.running.push(id);
        }
        self.running.insert(id, started);
    }

    /// Gives the key back; nothing when no such operation runs.
    pub(crate) fn finish(&mut self, id: OperationId) -> Option<InFlightOperation> {
        let running = self.running.remove(&id)?;
        if let Some(of) = self.volumes.get_mut(&running.volume) {
            of.running.retain(|other| *other != id);
        }
        self.forget_if_idle(&running.volume);
        Some(running)
    }

    /// Notes that a running operation has passed its deadline; its operation, when it runs.
    pub(crate) fn overdue(&mut self, id: OperationId, message: String) -> Option<&InFlightOperation> {
        let running = self.running.get_mut(&id)?;
        running.overdue = Some(message);
        Some(running)
    }

    /// The operation failed: the key waits, twice as long as before if the same operation failed
    /// before.
    pub(crate) fn fail(&mut self, ended: &InFlightOperation, scope: Scope, failure: Failure, now: Time) {
        let (volume, name) = (&ended.volume, ended.operation.kind.name());
        let before = self.clear(volume, &scope).filter(|failed| failed.name == name);
        let (failures, retried_early_at) = before.map_or((0, 0), |failed| (failed.failures, failed.retried_early_at));
        let failures = failures.saturating_add(1);
        let retry_at = now.saturating_add(wait(volume.name(), &scope, failures));
        self.retries.insert((retry_at, volume.clone(), scope.clone()));
        let plugin = ended.operation.plugin.clone();
        let failed = FailedKey { name, plugin, failures, retried_early_at, failed_at: now, retry_at, failure };
        if let Some(of) = self.volumes.entry(volume, VolumeOperations::default) {
            of.failed.insert(scope, failed);
        }
    }

    /// The operation succeeded: what it waited for, alone or with others, is made good.
    pub(crate) fn succeed(&mut self, ended: &InFlightOperation) {
        let (volume, name) = (&ended.volume, ended.operation.kind.name());
        for scope in [Scope::of(ended.pod.clone()), Scope::Volume] {
            let failed = self.volumes.get(volume).and_then(|of| of.failed.get(&scope));
            if failed.is_some_and(|failed| failed.name == name) {
                self.clear(volume, &scope);
            }
        }
        self.forget_if_idle(volume);
    }

    /// Forgets failures of operations that are not needed any more.
    pub(crate) fn keep_only(&mut self, volume: &VolumeId, needed: &[(Scope, OperationName)]) {
        let Some(of) = self.volumes.get(volume) else {
            return;
        };
        let stale: Vec<Scope> = of
            .failed
            .iter()
            .filter(|(scope, failed)| {
                // While an operation runs again, its earlier failures count.
                !of.running
                    .iter()
                    .filter_map(|id| self.running.get(id))
                    .any(|running| running.operation.kind.name() == failed.name)
                    && !needed.iter().any(|(needed, name)| needed == *scope && *name == failed.name)
            })
            .map(|(scope, _)| scope.clone())
            .collect();
        for scope in stale {
            self.clear(volume, &scope);
        }
        self.forget_if_idle(volume);
    }

    /// Lets every failed key of the plugin be tried at once, as if for the first time. Answers the
    /// volumes.
    pub(crate) fn reset_plugin(&mut self, plugin: &PluginName, now: Time) -> Vec<VolumeId> {
        let mut volumes = Vec::new();
        for (volume, of) in self.volumes.iter_mut() {
            for (scope, failed) in of.failed.iter_mut().filter(|(_, failed)| failed.plugin == *plugin) {
                self.retries.remove(&(failed.retry_at, volume.clone(), scope.clone()));
                failed.failures = 0;
                failed.retried_early_at = 0;
                failed.retry_at = now;
                volumes.push(volume.clone());
            }
        }
        volumes
    }

    /// Lets the volume's failed keys be tried at once; their failures count on. A key is tried
    /// early again only after twice as many failures, so that a cause which comes and goes does not
    /// keep it from waiting longer and longer. Returns whether there was one.
    pub(crate) fn retry_early(&mut self, volume: &VolumeId, now: Time) -> bool {
        let Some(of) = self.volumes.get_mut(volume) else { return false };
        let mut any = false;
        for (scope, failed) in &mut of.failed {
            if failed.retry_at <= now || failed.failures < failed.retried_early_at.saturating_mul(2) {
                continue;
            }
            self.retries.remove(&(failed.retry_at, volume.clone(), scope.clone()));
            failed.retried_early_at = failed.failures;
            failed.retry_at = now;
            any = true;
        }
        any
    }

    /// Lets the pod's failed key of the volume be tried at once, as if for the first time. Says
    /// whether there is one.
    pub(crate) fn reset(&mut self, volume: &VolumeId, pod: &PodId, now: Time) -> bool {
        let scope = Scope::Pod(pod.clone());
        let Some(failed) = self.volumes.get_mut(volume).and_then(|of| of.failed.get_mut(&scope)) else {
            return false;
        };
        self.retries.remove(&(failed.retry_at, volume.clone(), scope));
        failed.failures = 0;
        failed.retry_at = now;
        true
    }

    /// Lets the volume's own failed key be tried at once, as if for the first time.
    pub(crate) fn reset_volume(&mut self, volume: &VolumeId, now: Time) {
        if let Some(failed) = self.volumes.get_mut(volume).and_then(|of| of.failed.get_mut(&Scope::Volume)) {
            self.retries.remove(&(failed.retry_at, volume.clone(), Scope::Volume));
            failed.failures = 0;
            failed.retry_at = now;
        }
    }

    /// The time of the next retry.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.retries.first().map(|(at, _, _)| *at)
    }

    /// Takes out one retry that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<VolumeId> {
        if self.next_retry()? > now {
            return None;
        }
        self.retries.pop_first().map(|(_, volume, _)| volume)
    }

    /// Returns the operation that began last.
    pub(crate) const fn last_id(&self) -> OperationId {
        self.last_id
    }

    /// Whether the failed key is still to be tried again at its time.
    pub(crate) fn is_queued(&self, volume: &VolumeId, scope: &Scope, failed: &FailedKey) -> bool {
        self.retries.contains(&(failed.retry_at, volume.clone(), scope.clone()))
    }

    /// Puts the table of an image back: operations in the order in which they began.
    pub(crate) fn restore(
        last_id: OperationId,
        running: impl IntoIterator<Item = InFlightOperation>,
        failed: impl IntoIterator<Item = (VolumeId, Scope, FailedKey, bool)>,
    ) -> Self {
        let mut table = Self { last_id, ..Self::default() };
        for started in running {
            let id = started.operation.id;
            if let Some(of) = table.volumes.entry(&started.volume, VolumeOperations::default) {
                of.running.push(id);
            }
            table.running.insert(id, started);
        }
        for (volume, scope, failed, is_queued) in failed {
            if is_queued {
                table.retries.insert((failed.retry_at, volume.clone(), scope.clone()));
            }
            if let Some(of) = table.volumes.entry(&volume, VolumeOperations::default) {
                of.failed.insert(scope, failed);
            }
        }
        table
    }

    fn clear(&mut self, volume: &VolumeId, scope: &Scope) -> Option<FailedKey> {
        let failed = self.volumes.get_mut(volume)?.failed.remove(scope)?;
        self.retries.remove(&(failed.retry_at, volume.clone(), scope.clone()));
        Some(failed)
    }

    fn forget_if_idle(&mut self, volume: &VolumeId) {
        if self.volumes.get(volume).is_some_and(|of| of.running.is_empty() && of.failed.is_empty()) {
            self.volumes.remove(volume);
        }
    }
}
