//! The queue of a walk's work: every job is done once, and no thread returns before all are done.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;

use crate::{check, check_fails};

const THREADS: usize = 3;
/// A folder has two folders in it, to this depth.
const DEPTH: usize = 2;
const FOLDERS: usize = (1 << (DEPTH + 1)) - 1;

macro_rules! walking {
    ($module:ident) => {
        || {
            let queue = Arc::new(crate::copied::$module::WorkQueue::new(THREADS));
            let done = Arc::new(AtomicUsize::new(0));
            let work = |queue: &crate::copied::$module::WorkQueue<usize>, done: &AtomicUsize, mut own: Vec<usize>| {
                while let Some(depth) = queue.next(&mut own) {
                    if depth > 0 {
                        own.extend([depth - 1, depth - 1]);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
                assert_eq!(done.load(Ordering::SeqCst), FOLDERS, "a thread returned while others work");
            };
            let threads: Vec<_> = (1..THREADS)
                .map(|_| {
                    let (queue, done) = (Arc::clone(&queue), Arc::clone(&done));
                    thread::spawn(move || work(&queue, &done, Vec::new()))
                })
                .collect();
            work(&queue, &done, vec![DEPTH]);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    };
}

#[test]
fn every_job_is_done_once_and_no_thread_returns_before() {
    check(walking!(work_queue));
}

#[test]
fn an_end_that_wakes_no_thread_is_found() {
    check_fails(walking!(queue_ending_silently));
}

#[test]
fn a_thread_that_counts_as_waiting_while_it_works_is_found() {
    check_fails(walking!(queue_miscounting_threads));
}

/// Walks until one thread stops the walk, or ends the queue as one that panics does.
fn ending_early(end: fn(&crate::copied::work_queue::WorkQueue<usize>, &AtomicBool)) {
    let queue = Arc::new(crate::copied::work_queue::WorkQueue::new(THREADS));
    let (done, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (queue, done, stopped) = (Arc::clone(&queue), Arc::clone(&done), Arc::clone(&stopped));
            thread::spawn(move || {
                let mut own = if number == 0 { vec![DEPTH; 2] } else { Vec::new() };
                while let Some(depth) = queue.next(&mut own) {
                    if stopped.load(Ordering::SeqCst) {
                        own.clear();
                        continue;
                    }
                    own.extend(vec![depth.saturating_sub(1); usize::from(depth > 0) * 2]);
                    if done.fetch_add(1, Ordering::SeqCst) == 1 {
                        end(&queue, &stopped);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_walk_that_is_stopped_ends_on_every_thread() {
    check(|| ending_early(|_, stopped| stopped.store(true, Ordering::SeqCst)));
}

#[test]
fn a_queue_that_is_ended_ends_every_thread() {
    check(|| ending_early(|queue, _| queue.end()));
}

#[test]
fn the_others_end_without_a_thread_that_could_not_be_started() {
    check(|| {
        let queue = Arc::new(crate::copied::work_queue::WorkQueue::new(THREADS));
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || while queue.next(&mut Vec::new()).is_some() {})
        };
        queue.remove_worker();
        let mut own = vec![DEPTH, DEPTH];
        while queue.next(&mut own).is_some() {}
        other.join().unwrap();
    });
}
