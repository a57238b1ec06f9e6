//! The same work on many items, on every processor: a start looks through thousands of folders and
//! files, and nothing else runs meanwhile.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::kept_open::lock;

/// Items that a thread takes at once.
const BATCH: usize = 16;
/// More threads than this only wait for the kernel's locks.
const MAX_THREADS: usize = 8;

/// Returns the results of `work` in the order of the items. The caller's thread takes part, and does
/// all of it when no other can be started. A panic of `work` is the caller's.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(MAX_THREADS).min(items.len().div_ceil(BATCH)).max(1);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len().div_ceil(BATCH)));
    let run = || {
        loop {
            let batch = next.fetch_add(1, Ordering::Relaxed);
            let Some(items) = items.chunks(BATCH).nth(batch) else { break };
            let results: Vec<R> = items.iter().map(&work).collect();
            lock(&done).push((batch, results));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without another thread, this one does its part.
            let _ = thread::Builder::new().name("volhost-start".to_owned()).spawn_scoped(scope, run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(batch, _)| *batch);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, 10 * BATCH + 3] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
            assert_eq!(map(&items, |item| item * 2), doubled);
        }
    }
}
