//! Counts what the threads of a walk have done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::ownership::OwnershipProgress;

/// The counters of one walk.
pub(super) struct WalkProgress {
    visited: AtomicU64,
    changed: AtomicU64,
    stopped: AtomicBool,
    /// Files between two reports.
    interval: u64,
}

impl WalkProgress {
    /// Creates counters at 0, of which a report is due every `interval` files.
    pub(super) fn new(interval: u64) -> Self {
        let (visited, changed) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { visited, changed, stopped: AtomicBool::new(false), interval }
    }

    /// Counts a file. Returns the progress if a report is due.
    ///
    /// A report never has more changed than visited files, whatever other threads count meanwhile.
    pub(super) fn count(&self, changed: bool) -> Option<OwnershipProgress> {
        let visited = self.visited.fetch_add(1, Ordering::Relaxed) + 1;
        if changed {
            // Releases the count of the visit before it.
            self.changed.fetch_add(1, Ordering::Release);
        }
        visited.is_multiple_of(self.interval).then(|| self.now())
    }

    /// Returns the counts.
    pub(super) fn now(&self) -> OwnershipProgress {
        // In this order: each change that is seen was counted as a visit before.
        let changed = self.changed.load(Ordering::Acquire);
        OwnershipProgress { visited: self.visited.load(Ordering::Relaxed), changed }
    }

    /// Ends the walk early: each thread stops at its next file or folder.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether the walk ends early.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
