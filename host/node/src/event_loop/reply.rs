//! Answers to callers.

use tokio::sync::oneshot;
use tokio::time::Instant;

use std::time::Duration;

/// Answers a caller. A caller that has gone away needs no answer.
pub(super) fn reply<T>(answer: oneshot::Sender<T>, value: T) {
    let _ = answer.send(value);
}

/// Returns the instant after this time from now.
pub(super) fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}
