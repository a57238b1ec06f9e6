//! The callers that wait for a pod's volumes, by pod and by deadline.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::event::{Time, WaiterId};
use crate::identity::PodId;

/// The condition that a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WaitCondition {
    /// Every volume the pod uses is mounted.
    Mounted,
    /// Nothing of the pod is mounted any more, or may be.
    Unmounted,
}

/// A waiting caller.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    /// The pod.
    pub(crate) uid: PodId,
    /// The condition it waits for.
    pub(crate) condition: WaitCondition,
    /// When it gives up.
    pub(crate) deadline: Time,
}

/// The waiting callers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiters {
    all: BTreeMap<WaiterId, Waiter>,
    by_pod: BTreeMap<PodId, BTreeSet<WaiterId>>,
    deadlines: BTreeSet<(Time, WaiterId)>,
}

impl Waiters {
    /// Adds a waiter. An earlier one of the same id is forgotten.
    pub(crate) fn insert(&mut self, id: WaiterId, waiter: Waiter) {
        self.remove(id);
        self.by_pod.entry(waiter.uid.clone()).or_default().insert(id);
        self.deadlines.insert((waiter.deadline, id));
        self.all.insert(id, waiter);
    }

    /// Forgets a waiter.
    pub(crate) fn remove(&mut self, id: WaiterId) {
        let Some(waiter) = self.all.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(waiter.deadline, id));
        if let Some(of_pod) = self.by_pod.get_mut(&waiter.uid) {
            of_pod.remove(&id);
            if of_pod.is_empty() {
                self.by_pod.remove(&waiter.uid);
            }
        }
    }

    /// Every waiter, by id.
    pub(crate) fn all(&self) -> impl Iterator<Item = (WaiterId, &Waiter)> {
        self.all.iter().map(|(id, waiter)| (*id, waiter))
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The callers that wait for the pod.
    pub(crate) fn of_pod(&self, uid: &PodId) -> Vec<(WaiterId, WaitCondition)> {
        let ids = self.by_pod.get(uid).into_iter().flatten();
        ids.filter_map(|id| self.all.get(id).map(|waiter| (*id, waiter.condition))).collect()
    }

    /// Removes one whose deadline has passed.
    pub(crate) fn pop_expired(&mut self, now: Time) -> Option<(WaiterId, PodId, WaitCondition)> {
        let (deadline, id) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        let (uid, condition) = self.all.get(&id).map(|waiter| (waiter.uid.clone(), waiter.condition))?;
        self.remove(id);
        Some((id, uid, condition))
    }
}
