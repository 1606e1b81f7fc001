//! Event times in headers (milliseconds since the Unix epoch, or an RFC 3339 date-time), and
//! durations in JSON.

use std::time::Duration;

/// Returns a duration in whole microseconds, for JSON.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Parses `2023-11-14T22:13:20.5+01:00` into milliseconds since the Unix epoch. Digits after the
/// milliseconds are refused: event times are in milliseconds, and truncating would reorder them.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits.iter().try_fold(0_i64, |value, digit| {
            digit
                .is_ascii_digit()
                .then(|| value * 10 + i64::from(digit - b'0'))
        })
    };
    let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|byte| any.contains(byte));
    let separators = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    if !separators {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let valid = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let mut at = 19;
    let mut millis = 0;
    if is(at, b".") {
        let digits = bytes[at + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if !(1..=3).contains(&digits) {
            return None;
        }
        millis = number(at + 1, at + 1 + digits)? * [100, 10, 1][digits - 1];
        at += 1 + digits;
    }
    let offset_minutes = match bytes.get(at..)? {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let minutes = days_from_epoch(year, month, day) * 1440 + hour * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1000 + millis)
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 in the proleptic Gregorian calendar, for years from 0 on. Years
/// count from 1 March, so that a leap day is the last day of its year.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days_before_month = (153 * month + 2) / 5;
    // 1970-01-01 is day 719,468 of this count.
    year * 365 + leap_days + days_before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14t23:13:20.5+01:00", 1_700_000_000_500),
            ("2000-02-29T00:00:00.001Z", 951_782_400_001),
            ("1969-12-31T23:59:59.999Z", -1),
            ("0000-03-01T00:00:00Z", -62_162_035_200_000),
            ("2026-11-21 08:00:00-00:30", 1_795_249_800_000),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_rfc3339(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_instant_are_refused() {
        for text in [
            "",
            "2023",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:60:00Z",
            "2023-11-14T22:13:20.0001Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20+1:00",
            "+023-11-14T22:13:20Z",
            "2023-11-14T22:13:20Zx",
            "1700000000000",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
