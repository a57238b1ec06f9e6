//! Times, sizes and texts in human-readable form.

use std::time::{SystemTime, UNIX_EPOCH};

pub(super) use volhost_explain::times::{age, short, until};
use volhost_model::visible::visible_line;

/// Microseconds since the Unix epoch.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// A time as Kubernetes' MicroTime is written, with six digits of the second: such texts sort as the
/// times do, which those without their last zeros do not. None for 0, which is an unknown time.
pub(super) fn rfc3339(micros: u64) -> Option<String> {
    let micros = i64::try_from(micros).ok().filter(|micros| *micros > 0)?;
    Some(format!("{:.6}", jiff::Timestamp::from_microsecond(micros).ok()?))
}

/// A duration in milliseconds, and in seconds from ten on: `0.84ms`, `123ms`, `12.3s`. Empty if it
/// has not ended.
pub(super) fn took(since_us: u64, ready_at_us: Option<u64>) -> String {
    let Some(micros) = ready_at_us.map(|ready| ready.saturating_sub(since_us)) else {
        return String::new();
    };
    match micros {
        0..10_000 => format!("{}.{:02}ms", micros / 1000, micros % 1000 / 10),
        10_000..10_000_000 => format!("{}ms", micros / 1000),
        _ => format!("{}.{}s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

/// A number of bytes: `512`, `2.0Ki`, `12Gi`. Two digits are enough to show how full a volume is.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut tenths, mut unit) = (u128::from(bytes) * 10, "");
    for next in UNITS {
        if tenths < 10_240 {
            break;
        }
        (tenths, unit) = (tenths / 1024, next);
    }
    match tenths {
        _ if unit.is_empty() => bytes.to_string(),
        0..100 => format!("{}.{}{unit}", tenths / 10, tenths % 10),
        _ => format!("{}{unit}", tenths / 10),
    }
}

/// The text on one line, without control characters and invisible ones.
pub(super) fn printable(text: &str) -> String {
    visible_line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sort_as_their_texts_do() {
        assert_eq!(rfc3339(0), None);
        let texts =
            [1_700_000_000_000_000, 1_700_000_000_450_000, 1_700_000_000_500_000].map(|time| rfc3339(time).unwrap());
        assert_eq!(texts[0], "2023-11-14T22:13:20.000000Z");
        assert!(texts.is_sorted(), "{texts:?}");
    }

    #[test]
    fn what_took_under_ten_milliseconds_is_shown_in_hundredths() {
        for (micros, shown) in [
            (7, "0.00ms"),
            (842, "0.84ms"),
            (9_999, "9.99ms"),
            (12_345, "12ms"),
            (9_999_999, "9999ms"),
            (12_345_678, "12.3s"),
        ] {
            assert_eq!(took(1, Some(1 + micros)), shown);
        }
        assert_eq!(took(1, None), "");
    }

    #[test]
    fn sizes_have_two_or_three_digits() {
        for (bytes, shown) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0Ki"),
            (4_096_000, "3.9Mi"),
            (64 << 20, "64Mi"),
            (1 << 40, "1.0Ti"),
            (u64::MAX, "15Ei"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }
}
