//! Claims that are missing from all sources without a stated deletion: how long their volumes are
//! kept.
//!
//! ```text
//!            claim missing                      grace over                     no pod has the volume
//!  present ----------------> missing since T -------------------> gone (released by its reclaim policy)
//!     ^                          |
//!     '------ claim is back -----'
//! ```
//!
//! Only the time counts during which volhost saw that the claim was missing. The volume's record
//! has this time, as it was at the last reminder, so a restart does not restart the grace period.
//! The time during which volhost did not run, or could not read everything, does not count. After
//! either the claim must also be missing for [`SEEN_AGAIN`].

use jiff::Timestamp;

use crate::Time;
use crate::terms::Reclaim;

/// One second.
const SECOND: Time = 1_000_000;
/// How long a claim must be missing since the start, and since everything could be read again, in
/// microseconds: long enough to mount a folder of manifests or to finish a copy. A shorter grace
/// counts.
const SEEN_AGAIN: Time = 60 * SECOND;
/// With less time left than this, in microseconds, no further reminder is emitted.
const LAST_REMINDER: Time = 30 * SECOND;

/// What this run has seen of a missing claim.
#[derive(Debug, Default)]
pub(crate) struct MissingClaim {
    /// Since when this run sees that it is missing.
    seen: Option<Time>,
    /// Up to when its absence has been counted.
    counted: Option<Time>,
    /// When users are reminded next.
    remind_at: Option<Time>,
    /// When its volume is released.
    due: Option<Time>,
}

impl MissingClaim {
    /// The claim exists, or its state is unknown.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The claim is missing now. Adds the time since the last look to `missed`, the time for which
    /// it was seen missing. Returns when its volume is released.
    pub(crate) fn is_missing(&mut self, now: Time, missed: &mut Time, grace: Time) -> Time {
        let seen = *self.seen.get_or_insert(now);
        let counted = self.counted.replace(now).unwrap_or(now);
        *missed = missed.saturating_add(now.saturating_sub(counted));
        let left = grace.saturating_sub(*missed);
        let due = now.saturating_add(left).max(seen.saturating_add(grace.min(SEEN_AGAIN)));
        self.due = Some(due);
        due
    }

    /// Whether to emit a reminder now: at once, and each time half of the remaining time has
    /// passed.
    pub(crate) fn reminds(&mut self, now: Time, due: Time) -> bool {
        if self.remind_at.is_some_and(|at| at > now) {
            return false;
        }
        let left = due.saturating_sub(now);
        let next = if left > LAST_REMINDER { now.saturating_add(left / 2) } else { due };
        self.remind_at = Some(next);
        true
    }

    /// The grace is over: nothing is waited for any more.
    pub(crate) fn is_over(&mut self) {
        (self.due, self.remind_at) = (None, None);
    }

    /// The claim is judged again: until it is found missing again, there is nothing to wake for.
    pub(crate) fn begin_look(&mut self) {
        self.due = None;
    }

    /// When it has to be examined again without an event. A reminder is due only for a
    /// claim that the last look found missing.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let due = self.due?;
        Some(self.remind_at.map_or(due, |at| at.min(due)))
    }
}

/// The message about a missing claim.
pub(crate) fn message(volume: &str, claim: &str, reclaim: Reclaim, since: Time, due: Time, now: Time) -> String {
    let fate = match reclaim {
        Reclaim::Delete => "is deleted",
        Reclaim::Retain => "is released and kept in the storage",
    };
    format!(
        "missing since {}: no source has it, and its deletion was not requested; its volume {volume} {fate} at {} (in {}). Put the claim back to keep the volume, or delete it now with `volhost delete pvc {claim}`",
        utc(since),
        utc(due),
        span(due.saturating_sub(now)),
    )
}

/// A length of time with its two largest units.
fn span(time: Time) -> String {
    let seconds = time.div_ceil(SECOND);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{}s", seconds % 60),
        _ => format!("{hours}h{}m", minutes % 60),
    }
}

/// The time of day in UTC: `2026-11-22 14:51:01 UTC`.
fn utc(time: Time) -> String {
    let timestamp = i64::try_from(time / SECOND).ok().and_then(|second| Timestamp::from_second(second).ok());
    // Later than the year 9999 is no time that the clock shows.
    timestamp.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_the_calendar_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_359_061, "2026-11-22 14:51:01 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
        ] {
            assert_eq!(utc(seconds * SECOND), text);
        }
        assert_eq!([span(999), span(61 * SECOND), span(3_661 * SECOND)], ["1s", "1m1s", "1h1m"]);
    }

    #[test]
    fn users_are_reminded_at_once_and_at_each_half_of_what_is_left() {
        let (mut missing, hour) = (MissingClaim::default(), 3_600 * SECOND);
        let due = missing.is_missing(0, &mut 0, hour);
        let mut reminded = Vec::new();
        for now in (0..3_600).map(|second| second * SECOND) {
            if missing.reminds(now, due) {
                reminded.push(now / SECOND);
            }
        }
        assert_eq!(reminded, [0, 1_800, 2_700, 3_150, 3_375, 3_488, 3_544, 3_572]);
    }
}
