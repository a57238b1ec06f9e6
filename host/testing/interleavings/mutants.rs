//! The mutants: each breaks one of the types, and its test has to find that.

/// One mutant.
pub(crate) struct Mutant {
    /// The module that it becomes.
    pub(crate) name: &'static str,
    /// The module that it is a copy of.
    pub(crate) module: &'static str,
    /// Code that the source has exactly once.
    pub(crate) place: &'static str,
    /// What the mutant has instead.
    pub(crate) broken: &'static str,
}

/// Every mutant.
pub(crate) const MUTANTS: &[Mutant] = &[
    // Other threads count between the two readings, and more files are changed than visited.
    Mutant {
        name: "progress_reading_changes_last",
        module: "walk_progress",
        place: "let changed = self.changed.load(Ordering::Acquire);
        OwnershipProgress { visited: self.visited.load(Ordering::Relaxed), changed }",
        broken: "let visited = self.visited.load(Ordering::Relaxed);
        OwnershipProgress { visited, changed: self.changed.load(Ordering::Acquire) }",
    },
    // Threads that wait are not woken at the end.
    Mutant {
        name: "queue_ending_silently",
        module: "work_queue",
        place: "shared.ended = true;
                self.wake.notify_all();",
        broken: "shared.ended = true;",
    },
    // A thread that found work still counts as waiting, so others end while it works.
    Mutant { name: "queue_miscounting_threads", module: "work_queue", place: "shared.waiting -= 1;", broken: "" },
    // A thread that waits is not woken for a job.
    Mutant {
        name: "pool_pushing_silently",
        module: "worker_pool",
        place: "drop(state);
            self.shared.wake.notify_one();
            return Ok(());",
        broken: "return Ok(());",
    },
    // The workers of a dropped pool never end.
    Mutant {
        name: "pool_closing_silently",
        module: "worker_pool",
        place: "self.shared.lock().closed = true;
        self.shared.wake.notify_all();",
        broken: "self.shared.lock().closed = true;",
    },
];
