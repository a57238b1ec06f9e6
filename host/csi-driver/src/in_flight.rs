//! One call a volume: what is being worked on now.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::refusal::{Refusal, Result};

/// How many calls run now.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningCalls(tokio::sync::watch::Sender<usize>);

/// A call that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct OneRunning(RunningCalls);

impl RunningCalls {
    /// One more runs.
    pub(crate) fn begin(&self) -> OneRunning {
        self.0.send_modify(|running| *running += 1);
        OneRunning(self.clone())
    }

    /// Waits until none runs.
    pub(crate) async fn none(&self) {
        // It fails only without a sender, and there is one here.
        let _ = self.0.subscribe().wait_for(|running| *running == 0).await;
    }
}

impl Drop for OneRunning {
    fn drop(&mut self) {
        self.0.0.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// The things that calls work on now.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashSet<String>>>);

/// Keeps other calls from these things until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    all: InFlight,
    things: Vec<String>,
}

impl InFlight {
    /// Claims all of these things, or none.
    ///
    /// # Errors
    /// [`Refusal::Pending`] naming one that is worked on.
    pub(crate) fn claim(&self, things: impl IntoIterator<Item = String>) -> Result<InFlightGuard> {
        let mut claim = InFlightGuard { all: self.clone(), things: Vec::new() };
        for thing in things {
            if !self.set(|set| set.insert(thing.clone())) {
                return Err(Refusal::Pending(thing));
            }
            claim.things.push(thing);
        }
        Ok(claim)
    }

    fn set<T>(&self, with: impl FnOnce(&mut HashSet<String>) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let things = std::mem::take(&mut self.things);
        self.all.set(|set| set.retain(|thing| !things.contains(thing)));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn a_thing_is_claimed_by_one_and_given_back_whatever_happens() {
        let all = InFlight::default();
        let first = all.claim(["volume a".to_owned()]).unwrap();
        let refused = all.claim(["target t".to_owned(), "volume a".to_owned()]).unwrap_err();
        assert!(matches!(&refused, Refusal::Pending(thing) if thing == "volume a"), "{refused}");
        drop(first);
        drop(all.claim(["volume a".to_owned(), "target t".to_owned()]).unwrap());
        all.claim(["target t".to_owned()]).unwrap();
    }
}
