//! When pods that wait for what they name are reported.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use volhost_objects::ObjectKey;

/// A pod that waits this long for what it names gets an event. An API server answers in less.
const LONG_WAIT: Duration = Duration::from_secs(5);
/// How long after an event it may get another. What it waits for changes with each object that is
/// read: an API server that cannot keep up must not get an event for each of them.
const REPORT_AGAIN: Duration = Duration::from_secs(60);

/// The pods that wait, each with the time at which it is to be reported.
#[derive(Debug, Default)]
pub(crate) struct WaitingPods(BTreeMap<ObjectKey, Instant>);

impl WaitingPods {
    /// Forgets pods that wait no more.
    pub(crate) fn retain(&mut self, waits: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|key, _| waits(key));
    }

    /// Whether this pod, which waits, is to be reported now.
    pub(crate) fn is_due(&mut self, pod: &ObjectKey, now: Instant) -> bool {
        let due = self.0.entry(pod.clone()).or_insert(now + LONG_WAIT);
        let is_due = *due <= now;
        if is_due {
            *due = now + REPORT_AGAIN;
        }
        is_due
    }

    /// When the next one is to be reported.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use volhost_objects::Kind;

    use super::*;

    #[test]
    fn a_pod_that_waits_is_reported_after_a_while_and_then_seldom() {
        let (mut waiting, pod, begun) =
            (WaitingPods::default(), ObjectKey::new(Kind::Pod, "default", "web"), Instant::now());
        assert!(!waiting.is_due(&pod, begun));
        assert_eq!(waiting.next(), Some(begun + LONG_WAIT));
        assert!(waiting.is_due(&pod, begun + LONG_WAIT));
        assert!(!waiting.is_due(&pod, begun + LONG_WAIT * 2));
        assert_eq!(waiting.next(), Some(begun + LONG_WAIT + REPORT_AGAIN));
        assert!(waiting.is_due(&pod, begun + LONG_WAIT + REPORT_AGAIN));

        waiting.retain(|_| false);
        assert_eq!(waiting.next(), None);
        assert!(!waiting.is_due(&pod, begun + LONG_WAIT + REPORT_AGAIN), "it waits anew");
    }
}
