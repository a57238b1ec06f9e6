//! Names of the folders with a published set: `..2026_11_21_06_01_57.123456789`, in UTC, as the
//! kubelet's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

/// The form of a stamp up to its last part: `d` is a digit, the rest is literal.
const SHAPE: &[u8] = b"..dddd_dd_dd_dd_dd_dd.";
const DAY_SECONDS: u64 = 86_400;

/// The stamp of a moment since 1970.
pub fn stamp_of(moment: Duration) -> OsString {
    let (days, seconds) = (moment.as_secs() / DAY_SECONDS, moment.as_secs() % DAY_SECONDS);
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let part = moment.subsec_nanos();
    format!("..{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}_{second:02}.{part:09}").into()
}

/// The stamp of now. Two of them differ as long as the clock moves on.
pub(crate) fn stamp_now() -> OsString {
    stamp_of(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// Returns whether the protocol could have made this name.
pub(crate) fn is_stamp(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
    match bytes.split_at_checked(SHAPE.len()) {
        Some((head, tail)) => {
            head.iter().zip(SHAPE).all(fits) && !tail.is_empty() && tail.iter().all(u8::is_ascii_digit)
        }
        None => false,
    }
}

/// Year, month and day of a number of days since 1970, counted year by year: a few dozen steps.
fn date_of(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = if days_of_year(year) == 366 { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn days_of_year(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_names_the_moment_in_utc() {
        let of = |seconds, nanos| stamp_of(Duration::new(seconds, nanos)).into_string().unwrap();
        assert_eq!(of(0, 0), "..1970_01_01_00_00_00.000000000");
        assert_eq!(of(951_827_696, 5), "..2000_02_29_12_34_56.000000005");
        assert_eq!(of(1_735_689_599, 999_999_999), "..2024_12_31_23_59_59.999999999");
        assert_eq!(of(4_107_542_400, 1), "..2100_03_01_00_00_00.000000001");
    }

    #[test]
    fn only_stamps_are_taken_for_stamps() {
        for stamp in [stamp_now(), "..2016_06_27_00_00_00.1".into(), "..2016_06_27_00_00_00.1234567890123".into()] {
            assert!(is_stamp(&stamp), "{stamp:?}");
        }
        for other in [
            "..data",
            "..data_tmp",
            "..",
            "2016_06_27_00_00_00.1",
            ".2016_06_27_00_00_00.1",
            "..2016_06_27_00_00_00",
            "..2016_06_27_00_00_00.",
            "..2016_06_27_00_00_00.x",
            "..2016-06-27-00-00-00.1",
            "..2016_06_27_00_00_0.1",
        ] {
            assert!(!is_stamp(other.as_ref()), "{other}");
        }
    }
}
