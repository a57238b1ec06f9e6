//! The cancellation of a running call. The daemon cancels a call when its result is no longer
//! wanted: the pod was deleted while its volume was set up.

use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends one call early.
///
/// # Guarantees
/// The call ends at its next host call, at the next tick of plugin code, or at the next report of a
/// walk over a volume's files. A system call or a request to a driver that already runs is not
/// interrupted: it keeps its own deadline.
#[derive(Debug, Default)]
pub struct Cancellation(AtomicBool);

impl Cancellation {
    /// Asks the call to end. Repeating it changes nothing.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the call is asked to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
