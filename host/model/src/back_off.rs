//! When something that failed is tried again.

use std::time::Duration;

/// The wait before the next attempt: the first wait after the first failure, twice as long after
/// each further one, up to the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// The wait after the first failure, in microseconds.
    first: u64,
    /// The longest wait, in microseconds.
    longest: u64,
}

impl BackOff {
    /// 500 ms, doubling to 2 min 2 s: the kubelet's figures. The first wait is short enough for a
    /// driver that is just starting. The longest is a little more than the two minutes after which
    /// the kubelet gives up waiting for a pod's volumes, so that no attempt falls just before that
    /// deadline.
    pub const KUBELET: Self = Self::new(500_000, 122_000_000);

    /// Returns a back-off with these waits, in microseconds.
    pub const fn new(first: u64, longest: u64) -> Self {
        Self { first, longest }
    }

    /// Returns the wait after this many failures in a row, in microseconds. No failure counts as
    /// one.
    pub const fn micros(self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(1);
        // More doublings than a u64 has bits would not change the result.
        let factor = if doublings < u64::BITS { 1 << doublings } else { u64::MAX };
        let wait = self.first.saturating_mul(factor);
        if wait < self.longest { wait } else { self.longest }
    }

    /// Returns the wait after this many failures in a row. No failure counts as one.
    pub const fn wait(self, failures: u32) -> Duration {
        Duration::from_micros(self.micros(failures))
    }

    /// Returns the longest wait, in microseconds.
    pub const fn longest_micros(self) -> u64 {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_half_a_second_to_two_minutes_and_two_seconds() {
        let seconds: Vec<f64> = (1..=10).map(|failures| BackOff::KUBELET.wait(failures).as_secs_f64()).collect();
        assert_eq!(seconds, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0]);
    }

    #[test]
    fn any_count_of_failures_has_a_wait() {
        assert_eq!(BackOff::KUBELET.micros(0), 500_000);
        for failures in [64, 65, 66, u32::MAX] {
            assert_eq!(BackOff::KUBELET.micros(failures), 122_000_000, "{failures}");
        }
    }
}
