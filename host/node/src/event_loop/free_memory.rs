//! Memory that the allocator keeps after a burst of operations.
//!
//! Operations of many volumes run on several threads, and what they allocate lies between what
//! stays: after ten thousand mounts a third of the heap was free, and none of it the machine's.
#![deny(clippy::disallowed_methods)]

use volhost_kernel::release_free_memory;

/// Operations after which free memory is given back, once none runs. Fewer leave less than a
/// megabyte.
const BURST: u32 = 1_000;

/// Counts the operations that ended since free memory was given back.
#[derive(Debug, Default)]
pub(super) struct FreeMemory {
    ended: u32,
}

impl FreeMemory {
    /// Notes operations that have ended.
    pub(super) const fn ended(&mut self, operations: u32) {
        self.ended = self.ended.saturating_add(operations);
    }

    /// Gives free memory back after a burst, when no operation runs any more. On another thread: it
    /// takes some milliseconds.
    pub(super) fn release_after_burst(&mut self, running: usize) {
        if self.is_due(running) {
            tokio::task::spawn_blocking(release_free_memory);
        }
    }

    const fn is_due(&mut self, running: usize) -> bool {
        let is_due = running == 0 && self.ended >= BURST;
        if is_due {
            self.ended = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_after_a_burst() {
        let mut memory = FreeMemory::default();
        memory.ended(BURST - 1);
        assert!(!memory.is_due(0), "too few");
        memory.ended(1);
        assert!(!memory.is_due(1), "some run");
        assert!(memory.is_due(0) && !memory.is_due(0));
    }
}
