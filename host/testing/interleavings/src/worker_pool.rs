//! The worker pool of a plugin's operations: every job runs once, and a dropped pool ends.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::mpsc;

use crate::{check, check_fails};

const JOBS: usize = 3;

macro_rules! pushing {
    ($module:ident, $max_workers:expr) => {
        || {
            let pool = crate::copied::$module::WorkerPool::eager($max_workers);
            let (done, ends) = mpsc::channel();
            let runs = Arc::new(AtomicUsize::new(0));
            for _ in 0..JOBS {
                let (done, runs) = (done.clone(), Arc::clone(&runs));
                let job = move || {
                    runs.fetch_add(1, Ordering::SeqCst);
                    done.send(()).unwrap();
                };
                assert!(pool.push(Box::new(job)).is_ok());
            }
            (0..JOBS).for_each(|_| ends.recv().unwrap());
            drop(pool);
            assert_eq!(runs.load(Ordering::SeqCst), JOBS, "each job runs once");
        }
    };
}

#[test]
fn every_job_runs_once_and_a_dropped_pool_ends() {
    check(pushing!(worker_pool, 1));
    check(pushing!(worker_pool, 2));
}

#[test]
fn jobs_of_a_pool_that_shrinks_run_too() {
    check(|| {
        let pool = crate::copied::worker_pool::WorkerPool::eager(2);
        let (done, ends) = mpsc::channel();
        for _ in 0..JOBS {
            let done = done.clone();
            assert!(pool.push(Box::new(move || done.send(()).unwrap())).is_ok());
        }
        pool.resize(1);
        (0..JOBS).for_each(|_| ends.recv().unwrap());
    });
}

#[test]
fn a_push_that_wakes_no_worker_is_found() {
    check_fails(pushing!(pool_pushing_silently, 1));
}

#[test]
fn an_end_that_wakes_no_worker_is_found() {
    check_fails(pushing!(pool_closing_silently, 2));
}
