//! SIGINT and SIGTERM: the run unwinds, so that what it has started is ended, and the machine's
//! limits are as they were.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

use volhost_tests::interruptions::interruptions;

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What the run unwinds with.
#[derive(Debug)]
pub(crate) struct Interrupted;

/// Notes signals from now on. They do not end this process any more.
pub(crate) fn note_signals() {
    let signals = interruptions();
    std::thread::spawn(move || {
        if signals.recv().is_ok() {
            println!("       a signal: what was started is ended");
            IS_INTERRUPTED.store(true, Ordering::Relaxed);
        }
    });
}

/// Whether a signal has come.
pub(crate) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// Unwinds, if a signal has come.
pub(crate) fn check() {
    if is_interrupted() {
        resume_unwind(Box::new(Interrupted));
    }
}

/// Waits until the condition is true, or a signal comes. Returns false if it is not in the time that
/// tests wait.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    volhost_tests::wait::eventually(|| {
        check();
        condition()
    })
}
