//! Kubernetes quantities (`64Mi`, `1.5G`, `2e3`, `500m`) as whole bytes.

use std::fmt;

use crate::error::Error;
use crate::quote::quoted;

/// An error for a text that is not a usable quantity. It contains the text, in quotes.
///
/// ```
/// use volhost_plugin_sdk::quantity::{QuantityError, parse_bytes};
///
/// assert!(matches!(parse_bytes("64MB"), Err(QuantityError::Malformed(_))));
/// assert!(matches!(parse_bytes("-1"), Err(QuantityError::Negative(_))));
/// assert!(matches!(parse_bytes("16Ei"), Err(QuantityError::TooLarge(_))));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuantityError {
    /// Not a number with a known suffix.
    Malformed(String),
    /// Below zero.
    Negative(String),
    /// More bytes than 2^64-1.
    TooLarge(String),
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(text) => write!(
                f,
                "{text} is not a quantity: write a number with one of the suffixes Ki, Mi, Gi, Ti, Pi, Ei (powers of \
                 1024), k, M, G, T, P, E (of 1000), or none, such as 64Mi"
            ),
            Self::Negative(text) => write!(f, "{text} is negative; write 0 or more"),
            Self::TooLarge(text) => {
                write!(f, "{text} is more than 16Ei, the most that can be counted")
            }
        }
    }
}

impl std::error::Error for QuantityError {}

impl From<QuantityError> for Error {
    fn from(error: QuantityError) -> Self {
        Self::InvalidArgument(error.to_string())
    }
}

/// A size in whole bytes, read and shown as Kubernetes writes quantities.
///
/// ```
/// use volhost_plugin_sdk::Bytes;
///
/// let size: Bytes = "1.5Gi".parse()?;
/// assert_eq!(size.count(), 3 << 29);
/// assert_eq!(size.to_string(), "1536Mi");
/// assert_eq!(Bytes::new(1000).to_string(), "1000");
/// # Ok::<(), volhost_plugin_sdk::quantity::QuantityError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// So many bytes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// How many.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [(u32, &str); 6] = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
        let whole = |(shift, _): &&(u32, &str)| self.0 != 0 && self.0.trailing_zeros() >= *shift;
        match SUFFIXES.iter().find(whole) {
            Some((shift, suffix)) => write!(f, "{}{suffix}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl std::str::FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_bytes(text).map(Self)
    }
}

/// Reads a quantity, rounding up to a whole byte as Kubernetes does.
///
/// # Errors
/// [`QuantityError`] with the reason.
///
/// ```
/// use volhost_plugin_sdk::quantity::parse_bytes;
/// assert_eq!(parse_bytes("1.5Ki"), Ok(1536));
/// ```
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let malformed = || QuantityError::Malformed(quoted(text));
    let too_large = || QuantityError::TooLarge(quoted(text));

    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at_checked(end).ok_or_else(malformed)?;
    let scale = Scale::of_suffix(suffix).ok_or_else(malformed)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(malformed());
    }
    if negative {
        return Err(QuantityError::Negative(quoted(text)));
    }

    // Trailing zeros of a fraction do not matter, and fewer digits overflow later.
    let fraction = fraction.trim_end_matches('0');
    let digits = whole
        .bytes()
        .chain(fraction.bytes())
        .try_fold(0_u128, |value, digit| value.checked_mul(10)?.checked_add(u128::from(digit - b'0')));
    let digits = digits.ok_or_else(too_large)?;
    let fraction_digits = i32::try_from(fraction.len()).map_err(|_| too_large())?;
    scale.apply(digits, fraction_digits).ok_or_else(too_large)
}

/// The factor of a suffix: `2^binary * 10^decimal`.
struct Scale {
    binary: u32,
    decimal: i32,
}

impl Scale {
    fn of_suffix(suffix: &str) -> Option<Self> {
        let (binary, decimal) = match suffix {
            "" => (0, 0),
            "Ki" => (10, 0),
            "Mi" => (20, 0),
            "Gi" => (30, 0),
            "Ti" => (40, 0),
            "Pi" => (50, 0),
            "Ei" => (60, 0),
            "n" => (0, -9),
            "u" => (0, -6),
            "m" => (0, -3),
            "k" => (0, 3),
            "M" => (0, 6),
            "G" => (0, 9),
            "T" => (0, 12),
            "P" => (0, 15),
            "E" => (0, 18),
            exponent => (0, exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
        };
        Some(Self { binary, decimal })
    }

    /// `digits / 10^fraction_digits` scaled and rounded up; none if it does not fit.
    fn apply(&self, digits: u128, fraction_digits: i32) -> Option<u64> {
        let value = digits.checked_mul(1 << self.binary)?;
        let power = self.decimal.checked_sub(fraction_digits)?;
        let value = match 10_u128.checked_pow(power.unsigned_abs()) {
            Some(factor) if power >= 0 => value.checked_mul(factor)?,
            Some(divisor) => value.div_ceil(divisor),
            // Zero stays zero however large the power; a tiny amount is rounded up to one byte.
            None if value == 0 => 0,
            None if power < 0 => 1,
            None => return None,
        };
        u64::try_from(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_kubernetes_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("0Gi", 0),
            ("64Mi", 64 << 20),
            ("1.5Gi", 3 << 29),
            ("1.50000000000000000000000000000000000000000Gi", 3 << 29),
            ("500m", 1),
            ("1500m", 2),
            ("2e3", 2000),
            ("2E3", 2000),
            ("25e-1", 3),
            ("1e-99", 1),
            ("0e99", 0),
            ("10k", 10_000),
            ("+1Ki", 1024),
            (".5Ki", 512),
            ("5.", 5),
            ("1E", 1_000_000_000_000_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "-", "Mi", "64MB", "64mi", "1.2.3", "64 Mi", " 64", "1e", "1e1.5", "0x10", "١", ".", "-Mi"] {
            assert!(matches!(parse_bytes(text), Err(QuantityError::Malformed(_))), "{text:?}");
        }
        for text in ["-1", "-64Mi"] {
            assert!(matches!(parse_bytes(text), Err(QuantityError::Negative(_))), "{text:?}");
        }
        for text in ["16Ei", "1e99", "1e2147483647", &"9".repeat(100)] {
            assert!(matches!(parse_bytes(text), Err(QuantityError::TooLarge(_))), "{text:?}");
        }
    }

    #[test]
    fn an_error_has_the_shortened_text_and_the_way_out() {
        let error = parse_bytes(&"x".repeat(10_000)).unwrap_err().to_string();
        assert!(error.len() < 400 && error.contains("64Mi"), "{error}");
    }
}
