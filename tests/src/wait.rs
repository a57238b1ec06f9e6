//! Waiting for what is told by nobody: how a folder or the mount table looks.

use std::time::{Duration, Instant};

/// What a loaded machine is given. A test that is as it should be never waits so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Looks again and again until it is so; false when it is not after a minute.
pub fn eventually(mut so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if so() {
            return true;
        }
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::park_timeout(PAUSE);
    }
}
