//! One piece of work at a time under one name: who comes later waits, and may share the result.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use volhost_model::images::{ImageError, PullWatch};

/// How often a thread that waits looks whether its result is still wanted.
const LOOK: Duration = Duration::from_millis(200);

/// The names under which something is being done, each with whether it has succeeded.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    names: Mutex<BTreeMap<String, Arc<AtomicBool>>>,
    ended: Condvar,
}

/// The right to work under a name, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    all: &'a InFlight,
    name: String,
    own: Arc<AtomicBool>,
    shared: bool,
}

impl InFlight {
    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Arc<AtomicBool>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread works under the name.
    ///
    /// # Errors
    /// [`ImageError::Cancelled`].
    pub(crate) fn turn(&self, name: &str, watch: &dyn PullWatch) -> Result<Turn<'_>, ImageError> {
        let mut names = self.names();
        let mut other = None;
        while let Some(current) = names.get(name) {
            if watch.is_cancelled() {
                return Err(ImageError::Cancelled);
            }
            other = Some(Arc::clone(current));
            names = self.ended.wait_timeout(names, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        let own = Arc::<AtomicBool>::default();
        names.insert(name.to_owned(), Arc::clone(&own));
        let shared = other.is_some_and(|other| other.load(Ordering::Acquire));
        Ok(Turn { all: self, name: name.to_owned(), own, shared })
    }
}

impl Turn<'_> {
    /// Whether another thread did the work while this one waited.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Ends the turn: the work is done.
    pub(crate) fn succeed(self) {
        self.own.store(true, Ordering::Release);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.all.names().remove(&self.name);
        self.all.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Wanted;

    impl PullWatch for Wanted {
        fn progress(&self, _: String) {}
        fn is_cancelled(&self) -> bool {
            false
        }
    }

    struct Unwanted;

    impl PullWatch for Unwanted {
        fn progress(&self, _: String) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }

    #[test]
    fn who_waits_shares_success_and_not_failure() {
        let all = InFlight::default();
        for succeeds in [true, false] {
            let first = all.turn("a", &Wanted).unwrap();
            assert!(!first.is_shared());
            assert!(!all.turn("b", &Wanted).unwrap().is_shared(), "another name does not wait");
            assert!(matches!(all.turn("a", &Unwanted), Err(ImageError::Cancelled)));
            let (sender, receiver) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    sender.send(()).unwrap();
                    assert_eq!(all.turn("a", &Wanted).unwrap().is_shared(), succeeds);
                });
                receiver.recv().unwrap();
                // It waits, or comes later: until it has looked once.
                while Arc::strong_count(&first.own) < 3 {
                    std::thread::yield_now();
                }
                if succeeds { first.succeed() } else { drop(first) }
            });
            assert!(all.names().is_empty());
        }
    }
}
