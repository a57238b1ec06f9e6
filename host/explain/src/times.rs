//! Ages and times to wait, as people read them.

use std::time::Duration;

/// The time between two moments, as kubectl's AGE: `5s`, `3m20s`, `2h`, `4d`.
pub fn age(since_us: u64, now_us: u64) -> String {
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

/// The time until a moment: `now`, `350ms`, `1m2s`. Empty without one.
pub fn until(at_us: Option<u64>, now_us: u64) -> String {
    match at_us.map(|at| at.saturating_sub(now_us)) {
        None => String::new(),
        Some(0..1_000) => "now".to_owned(),
        Some(micros) => short(Duration::from_micros(micros)),
    }
}

/// A duration with at most two units: `350ms`, `4s`, `1m2s`.
pub fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.subsec_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_next_try_is_shown_from_now() {
        assert_eq!(until(None, 5), "");
        assert_eq!(until(Some(5), 9), "now");
        assert_eq!(until(Some(350_005), 5), "350ms");
        assert_eq!(until(Some(62_000_005), 5), "1m2s");
        assert_eq!(short(Duration::from_secs(120)), "2m");
    }
}
