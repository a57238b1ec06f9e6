//! What the daemon has refused: not tried again before it changes, or some time is over.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use volhost_objects::{Kind, ObjectKey};

/// After this time the daemon is asked again: its disk may have been full.
const AGAIN: Duration = Duration::from_secs(30);

/// The objects that the daemon did not add or remove.
#[derive(Debug, Default)]
pub(crate) struct Refusals(BTreeMap<ObjectKey, Refusal>);

#[derive(Debug)]
struct Refusal {
    version: String,
    again: Instant,
}

impl Refusals {
    /// Notes that this version of an object was refused now.
    pub(crate) fn add(&mut self, key: &ObjectKey, version: &str, now: Instant) {
        self.0.insert(key.clone(), Refusal { version: version.to_owned(), again: now + AGAIN });
    }

    /// Notes that the daemon has done what it was asked for.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// Forgets the objects that neither the cluster nor the daemon has any more.
    pub(crate) fn retain(&mut self, exists: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|key, _| exists(key));
    }

    /// Whether asking for this version again would be too early.
    pub(crate) fn is_too_early(&self, key: &ObjectKey, version: &str, now: Instant) -> bool {
        self.0.get(key).is_some_and(|refusal| refusal.version == version && now < refusal.again)
    }

    /// Whether a pod is among them.
    pub(crate) fn has_pod(&self) -> bool {
        self.0.keys().any(|key| key.kind == Kind::Pod)
    }

    /// When the next is tried again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().map(|refusal| refusal.again).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_tried_again_when_it_changes_or_its_time_is_over() {
        let (key, now) = (ObjectKey::new(Kind::Pod, "default", "web"), Instant::now());
        let mut refusals = Refusals::default();
        assert!(!refusals.is_too_early(&key, "1", now) && refusals.next().is_none());
        refusals.add(&key, "1", now);
        assert!(refusals.is_too_early(&key, "1", now) && refusals.has_pod());
        assert!(!refusals.is_too_early(&key, "2", now), "another version may be taken");
        assert_eq!(refusals.next(), Some(now + AGAIN));
        assert!(!refusals.is_too_early(&key, "1", now + AGAIN));
        refusals.retain(|_| true);
        assert!(refusals.has_pod());
        refusals.retain(|_| false);
        assert!(!refusals.has_pod());
    }
}
