//! The counters of a walk.

use shuttle::sync::Arc;
use shuttle::thread;

use crate::{check, check_fails};

const THREADS: u64 = 3;
const FILES: u64 = 2;
const INTERVAL: u64 = 2;

macro_rules! counting {
    ($module:ident) => {
        || {
            let progress = Arc::new(crate::copied::$module::WalkProgress::new(INTERVAL));
            let work = |progress: Arc<crate::copied::$module::WalkProgress>| {
                let reports = (0..FILES).filter_map(|_| progress.count(true));
                reports.inspect(|report| assert!(report.changed <= report.visited, "{report:?}")).count()
            };
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let progress = Arc::clone(&progress);
                    thread::spawn(move || work(progress))
                })
                .collect();
            let reports: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(reports as u64, THREADS * FILES / INTERVAL, "each interval is reported once");
            let end = progress.now();
            assert_eq!((end.visited, end.changed), (THREADS * FILES, THREADS * FILES));
        }
    };
}

#[test]
fn a_report_never_has_more_changed_than_visited_files() {
    check(counting!(walk_progress));
}

#[test]
fn reading_the_changes_last_is_found() {
    check_fails(counting!(progress_reading_changes_last));
}
