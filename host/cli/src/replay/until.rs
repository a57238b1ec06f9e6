//! Where a replay stops: a step's number, or a time.

/// The last step that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// This one.
    Step(u64),
    /// The last one up to this time, in microseconds since the Unix epoch.
    Time(u64),
}

impl Until {
    /// Reads a number or a time.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            return Ok(Self::Step(number));
        }
        let time: jiff::Timestamp =
            text.parse().map_err(|error| format!("it is no step and no time as in 2026-01-31T12:00:00Z: {error}"))?;
        u64::try_from(time.as_microsecond()).map(Self::Time).map_err(|_| "it is before 1970".to_owned())
    }

    /// Whether it is before this step.
    pub(super) const fn is_before(&self, step: u64, at: u64) -> bool {
        match self {
            Self::Step(last) => *last < step,
            Self::Time(last) => *last < at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_or_a_time_is_read() {
        assert_eq!(Until::parse("12"), Ok(Until::Step(12)));
        assert_eq!(Until::parse("1970-01-01T00:00:01.5Z"), Ok(Until::Time(1_500_000)));
        assert_eq!(Until::parse("1970-01-01T01:00:01+01:00"), Ok(Until::Time(1_000_000)));
        assert!(Until::parse("yesterday").unwrap_err().contains("no step and no time"));
        assert!(Until::parse("1969-01-01T00:00:00Z").unwrap_err().contains("before 1970"));
        assert!(Until::Step(3).is_before(4, 0) && !Until::Step(3).is_before(3, u64::MAX));
        assert!(Until::Time(3).is_before(0, 4) && !Until::Time(3).is_before(9, 3));
    }
}
