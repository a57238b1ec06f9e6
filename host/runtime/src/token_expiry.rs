//! When a service account token ends, as the token itself says (RFC 7519, `exp`).

use serde_json::Value;

const SECONDS_A_DAY: u64 = 24 * 60 * 60;
/// The last second of the year 9999: later ones have no RFC 3339 form.
const LAST: u64 = 253_402_300_799;

/// The end of a token as RFC 3339 in UTC; none for what is no token with an end.
pub(crate) fn expiry(token: &[u8]) -> Option<String> {
    let claims = std::str::from_utf8(token).ok()?.split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&base64_url(claims)?).ok()?;
    claims.get("exp")?.as_u64().filter(|seconds| *seconds <= LAST).map(rfc3339)
}

/// Base64url without padding, as tokens use it.
fn base64_url(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len()), 0_u32, 0_u32);
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).ok()?);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

/// Seconds since 1970 as a date and time of the Gregorian calendar.
fn rfc3339(seconds: u64) -> String {
    let (mut day, time) = (seconds / SECONDS_A_DAY, seconds % SECONDS_A_DAY);
    let mut year = 1970;
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", day + 1, time / 3600, time / 60 % 60, time % 60)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_contains_its_expiry() {
        // {"exp":1767323045,"sub":"a"}
        let token = b"eyJhbGciOiJub25lIn0.eyJleHAiOjE3NjczMjMwNDUsInN1YiI6ImEifQ.c2ln";
        assert_eq!(expiry(token).as_deref(), Some("2026-01-02T03:04:05Z"));
        for other in [&b"plain"[..], b"a.b.c", b"a.!!.c", b"a.e30.c", b"\xff.\xff"] {
            assert_eq!(expiry(other), None);
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
    }
}
