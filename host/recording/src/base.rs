//! The state before the oldest step that is kept: a machine of its own, which takes the steps that
//! leave the memory. So the loop never has to copy a state.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volhost_core::Core;

use crate::recorder::Segment;

/// The base of a recorder.
#[derive(Debug)]
pub(crate) struct Base {
    /// Locked while steps are taken: never by the loop.
    machine: Mutex<BaseMachine>,
    /// Segments that left and were not taken yet, oldest first. Locked for a moment.
    left: Mutex<VecDeque<Arc<Segment>>>,
    /// A thread takes what left.
    is_claimed: AtomicBool,
}

/// The machine of a base.
#[derive(Debug)]
pub(crate) struct BaseMachine {
    /// The machine.
    pub(crate) core: Core,
    /// The number of the step that it takes next.
    pub(crate) next: u64,
}

impl Base {
    /// Creates a base before the first step.
    pub(crate) fn new(core: Core) -> Self {
        Self {
            machine: Mutex::new(BaseMachine { core, next: 0 }),
            left: Mutex::default(),
            is_claimed: AtomicBool::new(false),
        }
    }

    /// Adds a segment that has left the memory.
    pub(crate) fn push(&self, segment: Arc<Segment>) {
        lock(&self.left).push_back(segment);
    }

    /// Whether the caller is to have [`Base::advance`] called on some thread: no other does, until
    /// [`Base::release`].
    pub(crate) fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// Lets another caller claim the work.
    pub(crate) fn release(&self) {
        self.is_claimed.store(false, Ordering::Release);
    }

    /// Takes the steps that have left.
    pub(crate) fn advance(&self) {
        // One segment at a time, so that others may have the lock in between.
        while lock(&self.machine).take_one(&self.left) {}
    }

    /// Returns the machine after all steps that have left.
    pub(crate) fn machine(&self) -> MutexGuard<'_, BaseMachine> {
        let mut machine = lock(&self.machine);
        while machine.take_one(&self.left) {}
        machine
    }
}

impl BaseMachine {
    fn take_one(&mut self, left: &Mutex<VecDeque<Arc<Segment>>>) -> bool {
        let Some(segment) = lock(left).pop_front() else { return false };
        for step in &segment.steps {
            drop(self.core.step(step.at, step.event.clone()));
            self.next = step.number.saturating_add(1);
        }
        true
    }
}

/// What a mutex guards here is complete whenever it is unlocked, even by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
