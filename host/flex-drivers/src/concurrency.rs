//! How many runs of a driver there may be at once.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Bounds how many runs of a driver there are at once.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Permission for one run, until it is dropped.
pub(crate) struct Permit<'a>(&'a ConcurrencyLimit);

impl ConcurrencyLimit {
    /// Creates a limit of so many runs at once.
    pub(crate) fn new(runs: usize) -> Self {
        Self { free: Mutex::new(runs), freed: Condvar::new() }
    }

    /// Waits for a permit, at most so long.
    pub(crate) fn acquire(&self, at_most: Duration) -> Option<Permit<'_>> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, _) =
            self.freed.wait_timeout_while(free, at_most, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_waits_until_there_are_fewer_than_the_limit() {
        let limit = ConcurrencyLimit::new(2);
        let first = limit.acquire(Duration::ZERO).unwrap();
        let _second = limit.acquire(Duration::ZERO).unwrap();
        assert!(limit.acquire(Duration::ZERO).is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| limit.acquire(Duration::from_secs(60)).is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
    }
}
