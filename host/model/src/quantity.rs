//! Kubernetes quantities (`64Mi`, `1.5G`, `1e3`, `500m`) as whole bytes.

use thiserror::Error;

/// Why a quantity was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// It is not a number with a known suffix.
    #[error(
        "{0:?} is not a quantity: write a number with an optional suffix (m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei), such as 64Mi"
    )]
    Malformed(String),
    /// It is below zero.
    #[error("{0:?} is negative")]
    Negative(String),
    /// It is over 2^64-1.
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// Reads a quantity, rounding up to a whole byte as Kubernetes does.
///
/// # Errors
/// [`QuantityError`] says what is wrong with the text.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let whole = parse_scaled(text, 1)?;
    u64::try_from(whole).map_err(|_| QuantityError::TooLarge(text.chars().take(64).collect()))
}

/// Reads a quantity in thousandths, rounding up: `1500` for `1.5`, as processors are counted.
///
/// # Errors
/// [`QuantityError`] says what is wrong with the text.
pub fn parse_thousandths(text: &str) -> Result<u128, QuantityError> {
    parse_scaled(text, 1_000)
}

/// Reads a quantity times `scale`, rounding up.
fn parse_scaled(text: &str, scale: u128) -> Result<u128, QuantityError> {
    let malformed = || QuantityError::Malformed(text.chars().take(64).collect());
    let unsigned = match text.as_bytes().first() {
        Some(b'-') => return Err(QuantityError::Negative(text.chars().take(64).collect())),
        Some(b'+') => text.get(1..).unwrap_or_default(),
        _ => text,
    };
    let digits_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    // The value is `digits * multiplier / divisor`, in whole numbers all the way.
    let (multiplier, mut divisor): (u128, u128) = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E']).and_then(|p| p.parse().ok()).ok_or_else(malformed)?;
            let power_of_ten =
                10_u128.checked_pow(power.unsigned_abs()).ok_or_else(|| QuantityError::TooLarge(text.to_owned()))?;
            if power < 0 { (1, power_of_ten) } else { (power_of_ten, 1) }
        }
    };
    let too_large = || QuantityError::TooLarge(text.chars().take(64).collect());
    let mut digits: u128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u128::from(digit.to_digit(10).ok_or_else(malformed)?);
        digits = digits.checked_mul(10).and_then(|d| d.checked_add(digit)).ok_or_else(too_large)?;
    }
    for _ in fraction.chars() {
        divisor = divisor.checked_mul(10).ok_or_else(too_large)?;
    }
    let scaled = digits.checked_mul(multiplier).and_then(|value| value.checked_mul(scale)).ok_or_else(too_large)?;
    Ok(scaled.div_ceil(divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_kubernetes_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("64Mi", 64 << 20),
            ("1.5Gi", 3 << 29),
            ("500m", 1),
            ("1500m", 2),
            ("1e3", 1000),
            ("1E3", 1000),
            ("10k", 10_000),
            ("+1Ki", 1024),
            (".5Ki", 512),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn processors_are_counted_in_thousandths() {
        for (text, thousandths) in [("1", 1000), ("250m", 250), ("1.5", 1500), ("100u", 1), ("0", 0), ("2k", 2_000_000)]
        {
            assert_eq!(parse_thousandths(text), Ok(thousandths), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_text() {
        for text in ["", "Mi", "64MB", "1.2.3", "64 Mi", "1e", "0x10", "١"] {
            assert!(matches!(parse_bytes(text), Err(QuantityError::Malformed(_))), "{text:?}");
        }
        assert!(matches!(parse_bytes("-1"), Err(QuantityError::Negative(_))));
        assert!(matches!(parse_bytes("16Ei"), Err(QuantityError::TooLarge(_))));
        assert!(matches!(parse_bytes(&"9".repeat(100)), Err(QuantityError::TooLarge(_))));
        assert!(matches!(parse_bytes("1e99"), Err(QuantityError::TooLarge(_))));
    }
}
