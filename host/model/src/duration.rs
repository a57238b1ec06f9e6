//! Durations as people write them: `2m3s`, `500ms`, `1h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

/// A duration written as numbers with units: `h`, `m`, `s`, `ms`; `0` needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HumanDuration(pub Duration);

/// The text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}; write numbers with units h, m, s or ms: `2m3s`, `500ms`")]
pub struct ParseDurationError(&'static str);

impl FromStr for HumanDuration {
    type Err = ParseDurationError;
    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        const TOO_LONG: ParseDurationError = ParseDurationError("the duration is too long");
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if text.is_empty() {
            return Err(ParseDurationError("the duration is empty"));
        }
        let mut total = Duration::ZERO;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            if number.is_empty() {
                return Err(ParseDurationError("a unit without a number"));
            }
            let number: u64 = number.parse().map_err(|_| TOO_LONG)?;
            let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, next) = after.split_at(letters);
            let part = match unit {
                "h" => number.checked_mul(3600).map(Duration::from_secs),
                "m" => number.checked_mul(60).map(Duration::from_secs),
                "s" => Some(Duration::from_secs(number)),
                "ms" => Some(Duration::from_millis(number)),
                "" => return Err(ParseDurationError("a number without a unit")),
                _ => return Err(ParseDurationError("an unknown unit")),
            };
            total = part.and_then(|part| total.checked_add(part)).ok_or(TOO_LONG)?;
            rest = next;
        }
        // The API's range, in milliseconds.
        if u64::try_from(total.as_millis()).is_err() {
            return Err(TOO_LONG);
        }
        Ok(Self(total))
    }
}

impl TryFrom<String> for HumanDuration {
    type Error = ParseDurationError;
    fn try_from(text: String) -> Result<Self, ParseDurationError> {
        text.parse()
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let parts = [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (u64::from(self.0.subsec_millis()), "ms"),
        ];
        let mut empty = true;
        for (number, unit) in parts {
            if number > 0 {
                write!(f, "{number}{unit}")?;
                empty = false;
            }
        }
        if empty { f.write_str("0") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_people_do() {
        for (text, milliseconds) in
            [("2m3s", 123_000), ("500ms", 500), ("1h", 3_600_000), ("1h1ms", 3_600_001), ("0", 0)]
        {
            let duration: HumanDuration = text.parse().unwrap();
            assert_eq!(duration.0, Duration::from_millis(milliseconds), "{text}");
            assert_eq!(duration.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_an_example() {
        for bad in ["", "90", "s", "2x", "-1s", "1.5s", "2m 3s", "99999999999999999999s", "18446744073709551615h"] {
            let error = bad.parse::<HumanDuration>().unwrap_err().to_string();
            assert!(error.contains("`2m3s`"), "{bad}: {error}");
        }
    }
}
