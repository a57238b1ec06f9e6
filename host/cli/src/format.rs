//! Times, sizes and texts in human-readable form.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// The time between two moments, as kubectl's AGE: `5s`, `3m20s`, `2h`, `4d`.
pub(super) fn age(since_us: u64, now_us: u64) -> String {
    if since_us == 0 {
        return String::new();
    }
    let seconds = now_us.saturating_sub(since_us) / 1_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: u64, unit: &str, rest: u64, small: &str| {
        if rest == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{rest}{small}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
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

/// The time until a moment: `now`, `350ms`, `1m2s`. Empty without one.
pub(super) fn until(at_us: Option<u64>, now_us: u64) -> String {
    match at_us.map(|at| at.saturating_sub(now_us)) {
        None => String::new(),
        Some(0..1_000) => "now".to_owned(),
        Some(micros) => short(Duration::from_micros(micros)),
    }
}

/// A duration with at most two units: `350ms`, `4s`, `1m2s`.
pub(super) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.subsec_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
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
    fn ages_are_written_as_kubectl_writes_them() {
        let second = 1_000_000;
        for (seconds, shown) in [
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (1800, "30m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (200_000, "2d7h"),
            (900_000, "10d"),
        ] {
            assert_eq!(age(second, second + seconds * second), shown);
        }
        assert_eq!(age(0, second), "");
        assert_eq!(age(2 * second, second), "0s", "clocks may differ");
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

    #[test]
    fn the_next_try_is_shown_from_now() {
        assert_eq!(until(None, 5), "");
        assert_eq!(until(Some(5), 9), "now");
        assert_eq!(until(Some(350_005), 5), "350ms");
        assert_eq!(until(Some(62_000_005), 5), "1m2s");
        assert_eq!(short(Duration::from_secs(120)), "2m");
    }
}
