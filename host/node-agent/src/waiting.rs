//! When pods that wait for what they name are reported.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use volhost_objects::ObjectKey;

use crate::plan::WaitingPod;

/// A pod that waits this long for what it names gets an event. An API server that has little to do
/// answers in far less; one that does not keep up with new pods must not get an event for each of them.
const LONG_WAIT: Duration = Duration::from_secs(15);
/// The same for a pod that the daemon has, whose volumes wait for nothing but changes: all pods of a
/// node wait so when its agent starts again.
const LONG_WAIT_OF_HELD: Duration = Duration::from_secs(600);
/// How long after an event it may get another. What it waits for changes with each object that is
/// read: an API server that cannot keep up must not get an event for each of them.
const REPORT_AGAIN: Duration = Duration::from_secs(60);

/// The pods that wait, and whether the daemon has them, each with the time at which it is to be
/// reported.
#[derive(Debug, Default)]
pub(crate) struct WaitingPods(BTreeMap<(ObjectKey, bool), Instant>);

impl WaitingPods {
    /// Takes note of the pods that wait now. Returns those that are to be reported.
    pub(crate) fn due<'a>(&mut self, waiting: &'a [WaitingPod], now: Instant) -> Vec<&'a WaitingPod> {
        let pods: BTreeSet<_> = waiting.iter().map(|pod| (&pod.key, pod.is_held)).collect();
        self.0.retain(|(key, is_held), _| pods.contains(&(key, *is_held)));
        waiting.iter().filter(|pod| self.is_due(pod, now)).collect()
    }

    fn is_due(&mut self, pod: &WaitingPod, now: Instant) -> bool {
        let long = if pod.is_held { LONG_WAIT_OF_HELD } else { LONG_WAIT };
        let due = self.0.entry((pod.key.clone(), pod.is_held)).or_insert(now + long);
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

    fn waiting(is_held: bool) -> [WaitingPod; 1] {
        let key = ObjectKey::new(Kind::Pod, "default", "web");
        [WaitingPod { unread: vec![key.clone()], key, is_held }]
    }

    #[test]
    fn a_pod_that_waits_is_reported_after_a_while_and_then_seldom() {
        let (mut pods, begun) = (WaitingPods::default(), Instant::now());
        let web = waiting(false);
        assert_eq!(pods.due(&web, begun), [&web[0]; 0]);
        assert_eq!(pods.next(), Some(begun + LONG_WAIT));
        assert_eq!(pods.due(&web, begun + LONG_WAIT), [&web[0]]);
        assert_eq!(pods.due(&web, begun + LONG_WAIT * 2), [&web[0]; 0]);
        assert_eq!(pods.next(), Some(begun + LONG_WAIT + REPORT_AGAIN));
        assert_eq!(pods.due(&web, begun + LONG_WAIT + REPORT_AGAIN), [&web[0]]);

        assert_eq!(pods.due(&[], begun), [&web[0]; 0]);
        assert_eq!(pods.next(), None);
        assert_eq!(pods.due(&web, begun + LONG_WAIT + REPORT_AGAIN), [&web[0]; 0], "it waits anew");
    }

    #[test]
    fn a_pod_that_the_daemon_has_already_is_reported_much_later() {
        let (mut pods, begun) = (WaitingPods::default(), Instant::now());
        let web = waiting(true);
        for wait in [Duration::ZERO, LONG_WAIT, LONG_WAIT + REPORT_AGAIN] {
            assert_eq!(pods.due(&web, begun + wait), [&web[0]; 0]);
        }
        assert_eq!(pods.due(&web, begun + LONG_WAIT_OF_HELD), [&web[0]]);

        let another = waiting(false);
        let begun = begun + LONG_WAIT_OF_HELD;
        assert_eq!(pods.due(&another, begun), [&web[0]; 0], "of the same name");
        assert_eq!(pods.due(&another, begun + LONG_WAIT), [&another[0]]);
    }
}
