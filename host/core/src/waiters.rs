//! Callers that wait for a pod's volumes. Each is answered once: when its wish is met, when it cannot be met any more, or at its
//! deadline, and then with the cause for every volume that is not as wished.

use std::collections::{BTreeMap, BTreeSet};

use volhost_model::names::PodUid;

use crate::command::{Command, WaitFailure};
use crate::core::{Core, Turn};
use crate::event::{Time, WaiterId};

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Every volume the pod uses is mounted.
    Mounted,
    /// Nothing of the pod is mounted any more, or may be.
    Unmounted,
}

#[derive(Debug)]
struct Waiter {
    uid: PodUid,
    wish: Wish,
    deadline: Time,
}

/// Those who wait, by pod and by deadline.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    all: BTreeMap<WaiterId, Waiter>,
    by_pod: BTreeMap<PodUid, BTreeSet<WaiterId>>,
    deadlines: BTreeSet<(Time, WaiterId)>,
}

impl Waiters {
    /// Takes a waiter in. One of the same name that waits already is forgotten.
    fn insert(&mut self, id: WaiterId, waiter: Waiter) {
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

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn of_pod(&self, uid: &PodUid) -> Vec<(WaiterId, Wish)> {
        let ids = self.by_pod.get(uid).into_iter().flatten();
        ids.filter_map(|id| self.all.get(id).map(|waiter| (*id, waiter.wish))).collect()
    }

    fn pop_expired(&mut self, now: Time) -> Option<(WaiterId, PodUid, Wish)> {
        let (deadline, id) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        let (uid, wish) = self.all.get(&id).map(|waiter| (waiter.uid.clone(), waiter.wish))?;
        self.remove(id);
        Some((id, uid, wish))
    }
}

impl Core {
    pub(crate) fn wait_mounted(&mut self, id: WaiterId, uid: PodUid, deadline: Time, turn: &mut Turn) {
        turn.touched.insert(uid.clone());
        self.waiters.insert(id, Waiter { uid, wish: Wish::Mounted, deadline });
    }

    pub(crate) fn wait_unmounted(&mut self, id: WaiterId, uid: PodUid, deadline: Time, turn: &mut Turn) {
        turn.touched.insert(uid.clone());
        self.waiters.insert(id, Waiter { uid, wish: Wish::Unmounted, deadline });
    }

    /// Answers those whose wish is met, or cannot be met any more.
    pub(crate) fn answer_waiters_of(&mut self, uid: &PodUid, turn: &mut Turn) {
        for (waiter, wish) in self.waiters.of_pod(uid) {
            let result = match wish {
                Wish::Mounted if self.is_ready(uid) => Ok(()),
                Wish::Mounted if !self.is_desired(uid) => Err(self.wait_failure(uid, wish, false)),
                Wish::Unmounted if !self.actual.has_mounts_of(uid) => Ok(()),
                _ => continue,
            };
            self.waiters.remove(waiter);
            turn.commands.push(Command::Answer { waiter, result });
        }
    }

    /// Answers those whose deadline has passed.
    pub(crate) fn answer_overdue_waiters(&mut self, turn: &mut Turn) {
        while let Some((waiter, uid, wish)) = self.waiters.pop_expired(self.now) {
            let result = Err(self.wait_failure(&uid, wish, true));
            turn.commands.push(Command::Answer { waiter, result });
        }
    }

    fn wait_failure(&self, uid: &PodUid, wish: Wish, timed_out: bool) -> WaitFailure {
        let unknown_pod = wish == Wish::Mounted && !self.draining && !self.is_desired(uid);
        WaitFailure { pod: self.pod_name(uid), timed_out, unknown_pod, volumes: self.standings(uid, wish) }
    }
}
