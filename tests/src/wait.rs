//! Waiting for a state that emits no event: the contents of a folder, the mount table.

use std::time::{Duration, Instant};

/// How long a test waits for anything. Only a failing test waits this long: the tests run side by
/// side, and an idle machine needs milliseconds for what a busy one needs tens of seconds for.
pub const TIMEOUT: Duration = Duration::from_secs(180);
/// The pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until the condition is true. Returns false if it is not after [`TIMEOUT`].
///
/// Await only states that last: a short one can be missed between two checks.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if begun.elapsed() > TIMEOUT {
            return false;
        }
        std::thread::park_timeout(PAUSE);
    }
}
