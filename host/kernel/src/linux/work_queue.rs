//! Distributes work over threads: each has a stack of its own, and gives work away when another
//! thread has none. No thread returns before all have run out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The work that a fixed number of threads share.
pub(super) struct WorkQueue<T> {
    /// Threads that wait for work, to be read without the lock.
    waiting: AtomicUsize,
    shared: Mutex<WorkQueueState<T>>,
    wake: Condvar,
}

struct WorkQueueState<T> {
    jobs: Vec<T>,
    /// Threads that take part.
    workers: usize,
    /// Threads that wait for work.
    waiting: usize,
    ended: bool,
}

impl<T> WorkQueue<T> {
    /// Creates a queue for so many threads. Each calls [`WorkQueue::next`] until that returns none.
    pub(super) fn new(workers: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            shared: Mutex::new(WorkQueueState { jobs: Vec::new(), workers, waiting: 0, ended: false }),
            wake: Condvar::new(),
        }
    }

    /// Returns whether a thread waits for work. It may have found some by now.
    pub(super) fn is_short_of_work(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Gives the older half of a thread's work away if another has none. The last job is kept.
    pub(super) fn share(&self, jobs: &mut Vec<T>) {
        if jobs.len() < 2 || !self.is_short_of_work() {
            return;
        }
        let given = jobs.len() / 2;
        self.lock().jobs.extend(jobs.drain(..given));
        self.wake.notify_all();
    }

    /// Gives one job to any thread.
    pub(super) fn give(&self, job: T) {
        self.lock().jobs.push(job);
        self.wake.notify_one();
    }

    /// Returns the thread's next job: the newest of its own, or one of another thread, for which it
    /// may wait. None once all threads have run out.
    pub(super) fn next(&self, own: &mut Vec<T>) -> Option<T> {
        self.share(own);
        own.pop().or_else(|| self.wait())
    }

    fn wait(&self) -> Option<T> {
        let mut shared = self.lock();
        if let Some(job) = shared.jobs.pop() {
            return Some(job);
        }
        shared.waiting += 1;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        loop {
            if shared.waiting == shared.workers {
                shared.ended = true;
                self.wake.notify_all();
            }
            if shared.ended {
                return None;
            }
            shared = self.wake.wait(shared).unwrap_or_else(PoisonError::into_inner);
            if let Some(job) = shared.jobs.pop() {
                shared.waiting -= 1;
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return Some(job);
            }
        }
    }

    /// Does without one of the threads, which could not be started.
    pub(super) fn remove_worker(&self) {
        self.lock().workers -= 1;
    }

    /// Drops the work that is in the queue, and lets each thread end after its own.
    pub(super) fn end(&self) {
        let mut shared = self.lock();
        shared.jobs.clear();
        shared.ended = true;
        self.wake.notify_all();
    }

    /// Ends the queue if the thread that has the returned guard panics: the others would wait for
    /// it forever, and the panic for them.
    pub(super) fn end_on_panic(&self) -> EndOnPanic<'_, T> {
        EndOnPanic(self)
    }

    fn lock(&self) -> MutexGuard<'_, WorkQueueState<T>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`WorkQueue::end_on_panic`].
pub(super) struct EndOnPanic<'a, T>(&'a WorkQueue<T>);

impl<T> Drop for EndOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
