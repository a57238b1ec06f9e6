//! Tests of the types that threads share, under many schedules of those threads: a walk's queue of
//! work and its counters, and the worker pool of a plugin's operations.
//!
//! The build script copies the sources and replaces the standard library's locks, atomics and
//! threads by shuttle's, which runs a test again and again and decides each time which thread goes
//! on. It finds deadlocks as well as failed assertions. The mutants in `mutants.rs` prove that the
//! tests can fail.
#![cfg(test)]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The copies, mutants included.
#[allow(dead_code, unreachable_pub, clippy::all, reason = "linted where they are written, and not all is used here")]
mod copied {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

mod walk_progress;
mod work_queue;
mod worker_pool;

/// Random schedules of each test. They find each mutant within a hundred.
const SCHEDULES: usize = 1_000;
/// Schedules of each test that shuttle enumerates, depth first.
const ENUMERATED: usize = 1_000;

/// Runs the test under random schedules, and under the first of an enumeration of all.
fn check(test: impl Fn() + Copy + Send + Sync + 'static) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_dfs(test, Some(ENUMERATED));
}

/// Checks that the test fails under some schedule.
fn check_fails(test: impl Fn() + Copy + Send + Sync + 'static) {
    assert!(catch_unwind(AssertUnwindSafe(|| check(test))).is_err(), "no schedule finds what is broken");
}
