//! Signs of life of the event loop, for a service manager that restarts a program that hangs.
//!
//! The loop's own thread sends them, after a turn: no other thread can keep a loop alive that
//! hangs.
#![deny(clippy::disallowed_methods)]

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// How many signs of life are sent in the time after which the loop counts as hung. systemd
/// recommends two; with one more a turn that takes long costs nothing.
const SIGNS: u32 = 3;

/// What a service manager asks for.
pub struct Watchdog {
    every: Duration,
    notify: Box<dyn FnMut() + Send>,
}

impl Watchdog {
    /// A service manager that counts the loop as hung after `timeout` without a sign of life.
    /// `notify` sends one; it runs on the loop's thread and must not block.
    #[must_use]
    pub fn new(timeout: Duration, notify: impl FnMut() + Send + 'static) -> Self {
        Self { every: timeout / SIGNS, notify: Box::new(notify) }
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watchdog").field("every", &self.every).finish_non_exhaustive()
    }
}

/// Sends signs of life, if a service manager wants them.
#[derive(Debug)]
pub(super) struct SignsOfLife {
    watchdog: Option<Watchdog>,
    next: Instant,
}

impl SignsOfLife {
    /// The first one is due at once.
    pub(super) fn new(watchdog: Option<Watchdog>, now: Instant) -> Self {
        Self { watchdog, next: now }
    }

    /// Returns when the loop has to turn, although nothing else happens.
    pub(super) fn next(&self) -> Option<Instant> {
        self.watchdog.as_ref().map(|_| self.next)
    }

    /// Notes that the loop has finished a turn, and sends a sign of life if one is due.
    pub(super) fn turned(&mut self) {
        let Some(watchdog) = &mut self.watchdog else { return };
        let now = Instant::now();
        if now >= self.next {
            (watchdog.notify)();
            self.next = now + watchdog.every;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_sign_of_life_is_sent_after_a_turn_and_not_more_often_than_asked_for() {
        let sent = Arc::new(AtomicU32::new(0));
        let counter = sent.clone();
        let watchdog = Watchdog::new(Duration::from_secs(3600), move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let begun = Instant::now();
        let mut signs = SignsOfLife::new(Some(watchdog), begun);
        assert_eq!((signs.next(), sent.load(Ordering::Relaxed)), (Some(begun), 0), "nothing without a turn");
        for _ in 0..100 {
            signs.turned();
        }
        assert_eq!(sent.load(Ordering::Relaxed), 1, "many turns, and one sign");
        let next = signs.next().unwrap();
        assert!(next >= begun + Duration::from_secs(1200), "a third of the timeout later");
        signs.next = begun;
        assert_eq!(sent.load(Ordering::Relaxed), 1, "due, and no turn");
        signs.turned();
        assert_eq!(sent.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn without_a_service_manager_the_loop_does_not_wake_for_it() {
        let mut signs = SignsOfLife::new(None, Instant::now());
        assert_eq!(signs.next(), None);
        signs.turned();
        assert_eq!(signs.next(), None);
    }
}
