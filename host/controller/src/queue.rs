//! Which object is next. An object that failed is tried again after a delay that doubles.
//!
//! # Guarantees
//! - One worker at a time has an object.
//! - A queue that is stopped hands nothing out, and waits for what was handed out.
//! - An object that changes while a worker has it is handed out again.
//! - An object that failed is not handed out before its delay is over, unless what the user wants
//!   of it has changed: its fingerprint differs.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::QueueCounts;

/// The delay after the first failure: as upstream's sidecars.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay: as upstream's sidecars.
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// A queue of the keys of objects.
#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    state: Mutex<QueueState<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct QueueState<K> {
    ready: VecDeque<K>,
    /// The same as in `ready`.
    queued: HashSet<K>,
    running: HashSet<K>,
    /// Changed while a worker had them.
    again: HashSet<K>,
    failures: HashMap<K, u32>,
    delayed: BTreeSet<(Instant, K)>,
    fingerprints: HashMap<K, u64>,
    is_worked_on: bool,
    /// Attempts that have ended, and those of them that failed.
    ended: (u64, u64),
}

impl<K> Default for WorkQueue<K> {
    /// An empty queue.
    fn default() -> Self {
        let state = QueueState {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            failures: HashMap::new(),
            delayed: BTreeSet::new(),
            fingerprints: HashMap::new(),
            is_worked_on: false,
            ended: (0, 0),
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<K: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static> WorkQueue<K> {
    /// The object has changed. `fingerprint` covers what is wanted of it.
    pub(crate) fn changed(&self, key: K, fingerprint: u64) {
        let mut state = self.lock();
        let wanted = state.fingerprints.insert(key.clone(), fingerprint) != Some(fingerprint);
        if wanted && state.failures.remove(&key).is_some() {
            state.delayed.retain(|(_, delayed)| *delayed != key);
        }
        if !state.failures.contains_key(&key) {
            state.make_ready(key);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The object is to be tried now.
    pub(crate) fn add(&self, key: K) {
        self.lock().make_ready(key);
        self.changed.notify_one();
    }

    /// The object is to be tried at this time, too.
    pub(crate) fn add_at(&self, key: K, at: Instant) {
        self.lock().delayed.insert((at, key));
        self.changed.notify_one();
    }

    /// The objects of this queue that the predicate names are to be tried now.
    pub(crate) fn add_known(&self, predicate: impl Fn(&K) -> bool) {
        let mut state = self.lock();
        let found: Vec<K> = state.fingerprints.keys().filter(|key| predicate(key)).cloned().collect();
        found.into_iter().for_each(|key| state.make_ready(key));
        drop(state);
        self.changed.notify_one();
    }

    /// What the object waited for has happened: it is to be tried now, and its delays are short
    /// again.
    pub(crate) fn retry(&self, key: &K) {
        let mut state = self.lock();
        if state.failures.remove(key).is_some() {
            state.delayed.retain(|(_, delayed)| delayed != key);
        }
        if state.fingerprints.contains_key(key) {
            state.make_ready(key.clone());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// What objects that failed wait for may have happened: those that the predicate names are to be
    /// tried now.
    pub(crate) fn retry_failed(&self, predicate: impl Fn(&K) -> bool) {
        let failed: Vec<K> = self.lock().failures.keys().filter(|key| predicate(key)).cloned().collect();
        failed.iter().for_each(|key| self.retry(key));
    }

    /// The object is gone. Where the queue is worked on, it is handed out once more, so that what
    /// is known of it can be forgotten; a replica that waits for the Lease forgets it at once.
    pub(crate) fn gone(&self, key: K) {
        let mut state = self.lock();
        state.fingerprints.remove(&key);
        if state.is_worked_on {
            state.make_ready(key);
        } else if state.queued.remove(&key) {
            state.ready.retain(|queued| *queued != key);
        }
        drop(state);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self) -> K {
        loop {
            let delay = {
                let mut state = self.lock();
                let now = Instant::now();
                while let Some((at, key)) = state.delayed.first().cloned().filter(|(at, _)| *at <= now) {
                    state.delayed.remove(&(at, key.clone()));
                    state.make_ready(key);
                }
                if let Some(key) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.running.insert(key.clone());
                    return key;
                }
                state.delayed.first().map(|(at, _)| *at)
            };
            match delay {
                Some(at) => {
                    tokio::select! { () = self.changed.notified() => {}, () = tokio::time::sleep_until(at) => {} }
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Counts the objects.
    pub(crate) fn counts(&self) -> QueueCounts {
        let state = self.lock();
        let (attempts, failures) = state.ended;
        QueueCounts {
            waiting: state.ready.len(),
            running: state.running.len(),
            failing: state.failures.len(),
            attempts,
            failures,
        }
    }

    fn finish(&self, key: K, failed: bool) {
        let mut state = self.lock();
        state.ended.0 = state.ended.0.saturating_add(1);
        state.ended.1 = state.ended.1.saturating_add(failed.into());
        state.running.remove(&key);
        let again = state.again.remove(&key);
        if failed {
            let failures = state.failures.entry(key.clone()).or_default();
            let delay = delay(*failures);
            *failures = failures.saturating_add(1);
            state.delayed.insert((Instant::now() + delay, key));
        } else {
            state.failures.remove(&key);
            if again {
                state.make_ready(key);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Hands every key to `work`, as many at once as `workers`. `work` returns whether the object
    /// is done; if not, it is tried again. Returns once `stop` is cancelled and no worker has an
    /// object any more.
    pub(crate) async fn run<F, W>(self: Arc<Self>, workers: u16, stop: CancellationToken, work: F)
    where
        F: Fn(K) -> W,
        W: Future<Output = bool> + Send + 'static,
    {
        self.lock().is_worked_on = true;
        let permits = Arc::new(Semaphore::new(workers.into()));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let Some(key) = stop.run_until_cancelled(self.next()).await else { break };
            let (done, queue) = (work(key.clone()), Arc::clone(&self));
            tokio::spawn(async move {
                let done = done.await;
                queue.finish(key, !done);
                drop(permit);
            });
        }
        drop(permits.acquire_many(workers.into()).await);
    }
}

impl<K: Clone + Eq + Hash> QueueState<K> {
    fn make_ready(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }
}

fn delay(failures: u32) -> Duration {
    FIRST_DELAY.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        assert_eq!([0, 1, 2, 8, 9, 4000].map(|failures| delay(failures).as_secs()), [1, 2, 4, 256, 300, 300]);
    }

    #[tokio::test]
    async fn what_is_gone_waits_for_no_leader() {
        let queue = WorkQueue::default();
        queue.changed("a", 1);
        queue.changed("b", 1);
        queue.gone("a");
        queue.gone("unknown");
        assert_eq!(queue.next().await, "b");
        assert!(queue.lock().ready.is_empty());
        queue.finish("b", false);
        queue.lock().is_worked_on = true;
        queue.gone("b");
        assert_eq!(queue.next().await, "b");
    }

    #[tokio::test]
    async fn a_failed_object_waits_unless_what_is_wanted_changes() {
        let queue = WorkQueue::default();
        queue.changed("a", 1);
        queue.changed("a", 1);
        assert_eq!(queue.next().await, "a");
        queue.finish("a", true);
        queue.changed("a", 1);
        assert!(queue.lock().ready.is_empty());
        queue.changed("a", 2);
        assert_eq!(queue.next().await, "a");
        assert!(queue.lock().delayed.is_empty());
        // Changed while a worker has it.
        queue.changed("a", 2);
        assert!(queue.lock().ready.is_empty());
        queue.finish("a", false);
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test]
    async fn an_object_is_tried_at_its_times_too() {
        let queue = WorkQueue::default();
        let (now, later) = (Instant::now(), Instant::now() + LONGEST_DELAY);
        queue.add_at("a", now);
        queue.add_at("a", later);
        queue.add_at("a", later);
        assert_eq!(queue.next().await, "a");
        queue.finish("a", false);
        assert!(queue.lock().ready.is_empty());
        assert_eq!(queue.lock().delayed, BTreeSet::from([(later, "a")]));
    }

    #[tokio::test]
    async fn what_objects_wait_for_ends_the_delay_of_those_that_failed() {
        let queue = WorkQueue::default();
        for key in ["a", "b", "c"] {
            queue.changed(key, 1);
            assert_eq!(queue.next().await, key);
            queue.finish(key, key != "c");
        }
        queue.retry_failed(|key| *key != "b");
        assert_eq!(queue.next().await, "a");
        assert!(queue.lock().ready.is_empty());
        assert_eq!(queue.lock().delayed.len(), 1);
    }
}
