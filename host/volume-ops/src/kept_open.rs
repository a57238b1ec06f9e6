//! What is kept open for a pod while operations of it run.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use volhost_model::names::PodUid;

/// How many pods are remembered before those without operations are forgotten.
const FIRST_PURGE: usize = 64;

/// A value for each pod, shared by all that ask for it while one of them has it.
#[derive(Debug)]
pub(super) struct KeptOpen<T>(Mutex<Pods<T>>);

#[derive(Debug)]
struct Pods<T> {
    values: HashMap<PodUid, Weak<T>>,
    purge_at: usize,
}

/// Every change is complete at any moment, so a thread that panicked with the lock has broken
/// nothing.
pub(super) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Default for KeptOpen<T> {
    fn default() -> Self {
        Self(Mutex::new(Pods { values: HashMap::new(), purge_at: FIRST_PURGE }))
    }
}

impl<T: Default + Debug> KeptOpen<T> {
    /// Returns the pod's value: the one that another caller has, or a new one.
    pub(super) fn of(&self, pod: &PodUid) -> Arc<T> {
        let mut pods = lock(&self.0);
        if let Some(value) = pods.values.get(pod).and_then(Weak::upgrade) {
            return value;
        }
        if pods.values.len() >= pods.purge_at {
            pods.values.retain(|_, value| value.strong_count() > 0);
            pods.purge_at = FIRST_PURGE.max(pods.values.len() * 2);
        }
        let value = Arc::<T>::default();
        pods.values.insert(pod.clone(), Arc::downgrade(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shared_until_nobody_has_it() {
        let kept = KeptOpen::<Mutex<u32>>::default();
        let pod = PodUid::new("uid-1").unwrap();
        let first = kept.of(&pod);
        *lock(&first) = 7;
        assert_eq!(*lock(&kept.of(&pod)), 7);
        drop(first);
        assert_eq!(*lock(&kept.of(&pod)), 0);
    }

    #[test]
    fn pods_without_operations_are_forgotten() {
        let kept = KeptOpen::<u32>::default();
        let busy = kept.of(&PodUid::new("busy").unwrap());
        for number in 0..10 * FIRST_PURGE {
            kept.of(&PodUid::new(format!("uid-{number}")).unwrap());
        }
        assert!(lock(&kept.0).values.len() <= FIRST_PURGE);
        assert!(Arc::ptr_eq(&busy, &kept.of(&PodUid::new("busy").unwrap())));
    }
}
