//! Per-plugin worker pool: the threads that run one plugin's operations.
//!
//! ```text
//!  push ──> queue ──> worker ──> worker waits for the next job ──> ends after a while without one
//!             │
//!             └── no worker took a job for PRESSURE although some wait: every worker is blocked,
//!                 so there are twice as many from now on, up to the pool's maximum
//! ```
//!
//! Quick operations, however many, are best served by as many threads as there are processors;
//! operations that hang on their storage need a thread each. Which of the two it is shows only in
//! time.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long jobs may wait without any being taken before there are more workers. Some hundred times
/// what a quick operation takes.
const PRESSURE: Duration = Duration::from_millis(5);
/// How long a worker waits for a job before it ends.
const IDLE: Duration = Duration::from_secs(30);

/// Something to run on a thread that may block.
pub type BlockingJob = Box<dyn FnOnce() + Send>;

/// One plugin's threads. Dropping it lets its workers end once the queue is empty; what runs goes
/// on.
#[derive(Debug)]
pub struct WorkerPool {
    shared: Arc<PoolShared>,
    /// Workers that are started without need shown: one a processor.
    eager: usize,
}

#[derive(Default)]
struct PoolShared {
    state: Mutex<PoolState>,
    wake: Condvar,
}

impl std::fmt::Debug for PoolShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolShared").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<BlockingJob>,
    workers: usize,
    /// Workers at the most. More may run for a while when it was lowered: each ends after its job.
    max_workers: usize,
    /// Workers that wait for a job.
    idle: usize,
    /// Those of them that have been woken for one. May count too few, which wakes one more than is
    /// needed.
    woken: usize,
    /// When a job was last taken, or the first of the queue came.
    last_taken: Option<Instant>,
    closed: bool,
}

impl WorkerPool {
    /// Creates a pool of at most `max_workers` threads; it has none yet.
    pub fn new(max_workers: usize) -> Self {
        Self::with(thread::available_parallelism().map_or(1, usize::from), max_workers)
    }

    /// Creates a pool of at most `max_workers` threads that starts one for each job until it has
    /// them all: for jobs that may hang, and whose latency does not matter.
    pub fn eager(max_workers: usize) -> Self {
        Self::with(max_workers, max_workers)
    }

    fn with(eager: usize, max_workers: usize) -> Self {
        let shared = Arc::<PoolShared>::default();
        shared.lock().max_workers = max_workers.max(1);
        Self { shared, eager: eager.max(1) }
    }

    /// Bounds the pool by another number of threads from now on. Threads beyond it end after the
    /// job that they run.
    pub fn resize(&self, max_workers: usize) {
        let mut state = self.shared.lock();
        let max_workers = max_workers.max(1);
        if std::mem::replace(&mut state.max_workers, max_workers) > max_workers {
            drop(state);
            self.shared.wake.notify_all();
        }
    }

    /// Runs the job on one of the pool's threads, in the order of pushing.
    ///
    /// # Errors
    /// The job, when the pool has no thread and the system gives none.
    pub fn push(&self, job: BlockingJob) -> Result<(), (BlockingJob, io::Error)> {
        let mut state = self.shared.lock();
        if state.queue.is_empty() {
            state.last_taken = Some(Instant::now());
        }
        state.queue.push_back(job);
        if state.idle > state.woken {
            state.woken += 1;
            drop(state);
            self.shared.wake.notify_one();
            return Ok(());
        }
        if state.workers >= self.eager.min(state.max_workers) {
            return Ok(());
        }
        match self.shared.start_worker(&mut state) {
            Ok(()) => Ok(()),
            Err(_) if state.workers > 0 => Ok(()),
            Err(error) => match state.queue.pop_back() {
                Some(job) => Err((job, error)),
                None => Ok(()),
            },
        }
    }

    /// When [`WorkerPool::scale_up`] is to be called next; none while nothing waits, or when there
    /// can be no more workers.
    pub fn next_scale_up(&self) -> Option<Instant> {
        let state = self.shared.lock();
        if state.queue.is_empty() || state.workers >= state.max_workers {
            return None;
        }
        state.last_taken.map(|taken| taken + PRESSURE)
    }

    /// Doubles the workers if every one of them has been blocked for 5 ms.
    pub fn scale_up(&self, now: Instant) {
        let mut state = self.shared.lock();
        let due = state.last_taken.is_some_and(|taken| now >= taken + PRESSURE);
        if state.queue.is_empty() || !due {
            return;
        }
        state.last_taken = Some(now);
        let more = state.workers.max(1).min(state.max_workers.saturating_sub(state.workers)).min(state.queue.len());
        for _ in 0..more {
            if self.shared.start_worker(&mut state).is_err() {
                // No thread to be had now; the next scale_up tries again.
                break;
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl PoolShared {
    /// Every change of the state is complete at any moment, so a thread that panicked with the lock
    /// has broken nothing.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_worker(self: &Arc<Self>, state: &mut PoolState) -> io::Result<()> {
        let shared = Arc::clone(self);
        thread::Builder::new().name("volhost-op".to_owned()).spawn(move || shared.work())?;
        state.workers += 1;
        Ok(())
    }

    fn work(self: Arc<Self>) {
        let worker = Worker(&self);
        while let Some(job) = worker.0.next_job() {
            job();
        }
    }

    fn next_job(&self) -> Option<BlockingJob> {
        let mut state = self.lock();
        let until = Instant::now() + IDLE;
        loop {
            if state.workers > state.max_workers {
                return None;
            }
            if let Some(job) = state.queue.pop_front() {
                state.last_taken = Some(Instant::now());
                return Some(job);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return None;
            }
            state.idle += 1;
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
            state.woken = state.woken.saturating_sub(1);
        }
    }
}

/// Counts a worker off when it ends, also if a job of its unwinds, and has another take over what
/// came meanwhile.
struct Worker<'a>(&'a Arc<PoolShared>);

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.workers = state.workers.saturating_sub(1);
        if state.queue.is_empty() {
            return;
        }
        if state.workers < state.max_workers {
            // Without a thread to be had, the next push or scale_up starts one.
            let _ = self.0.start_worker(&mut state);
        } else {
            // The job that this one was woken for is another's.
            self.0.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A job that says that it runs, and runs until it is released.
    fn blocked(running: &mpsc::Sender<u32>, name: u32) -> (BlockingJob, mpsc::Sender<()>) {
        let (release, released) = mpsc::channel::<()>();
        let running = running.clone();
        let job = move || {
            running.send(name).unwrap();
            let _ = released.recv();
        };
        (Box::new(job), release)
    }

    #[test]
    fn many_quick_jobs_need_no_more_threads_than_there_are_processors() {
        let pool = WorkerPool::new(64);
        let (done, ends) = mpsc::channel();
        for _ in 0..1000 {
            let done = done.clone();
            assert!(pool.push(Box::new(move || done.send(()).unwrap())).is_ok());
        }
        assert_eq!(ends.iter().take(1000).count(), 1000);
        assert!(pool.shared.lock().workers <= pool.eager);
    }

    #[test]
    fn a_new_maximum_applies_to_a_busy_pool() {
        let pool = WorkerPool::eager(1);
        let (running, runs) = mpsc::channel();
        let mut releases = Vec::new();
        for name in 0..6 {
            let (job, release) = blocked(&running, name);
            assert!(pool.push(job).is_ok());
            releases.push(release);
        }
        assert_eq!(runs.recv(), Ok(0));
        assert!(pool.next_scale_up().is_none(), "one thread is all it may have");
        pool.resize(3);
        while let Some(due) = pool.next_scale_up() {
            pool.scale_up(due);
        }
        let mut seen: Vec<u32> = runs.iter().take(2).collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2], "two more run at once");
        pool.resize(1);
        for name in 0..3 {
            drop(releases.remove(0));
            assert!(name == 2 || runs.try_recv().is_err(), "none but the last of the three takes another job");
        }
        assert_eq!(runs.recv(), Ok(3));
        drop(releases);
        assert_eq!(runs.iter().take(2).count(), 2);
    }

    #[test]
    fn jobs_that_hang_get_more_workers_up_to_the_maximum() {
        let pool = WorkerPool::new(5);
        let (running, runs) = mpsc::channel();
        let mut releases = Vec::new();
        for name in 0..7 {
            let (job, release) = blocked(&running, name);
            assert!(pool.push(job).is_ok());
            releases.push(release);
        }
        while let Some(due) = pool.next_scale_up() {
            pool.scale_up(due);
        }
        let mut seen: Vec<u32> = runs.iter().take(5).collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4], "the first five run, and no sixth");
        assert_eq!(pool.shared.lock().workers, 5);
        drop(releases);
        assert_eq!(runs.iter().take(2).count(), 2, "the others run once there is a thread");
    }

    #[test]
    fn a_pool_whose_jobs_are_taken_does_not_scale_up() {
        let pool = WorkerPool::new(64);
        let (running, runs) = mpsc::channel();
        let (job, release) = blocked(&running, 0);
        assert!(pool.push(job).is_ok());
        runs.recv().unwrap();
        assert!(pool.next_scale_up().is_none());
        drop(release);
    }

    #[test]
    fn a_job_that_unwinds_takes_its_thread_and_nothing_else() {
        let pool = WorkerPool::new(1);
        let (done, ends) = mpsc::channel();
        let unwinds: BlockingJob = Box::new(|| std::panic::resume_unwind(Box::new("a fault")));
        assert!(pool.push(unwinds).is_ok());
        for _ in 0..3 {
            let done = done.clone();
            assert!(pool.push(Box::new(move || done.send(()).unwrap())).is_ok());
        }
        assert_eq!(ends.iter().take(3).count(), 3);
    }
}
