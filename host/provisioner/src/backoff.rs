//! When something that failed is tried again.

use crate::Time;

/// After the first failure, in microseconds.
const FIRST: Time = 500_000;
/// The longest, in microseconds.
const LONGEST: Time = 122_000_000;

/// How long to wait after so many failures in a row.
#[must_use]
pub fn delay(failures: u32) -> Time {
    let doublings = failures.saturating_sub(1).min(16);
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_longest() {
        assert_eq!([1, 2, 3].map(delay), [500_000, 1_000_000, 2_000_000]);
        assert_eq!(delay(1_000), LONGEST);
    }
}
