//! Event times: milliseconds since the Unix epoch, RFC 3339 dates for people, and spans.
//!
//! The one thing to know before changing it: `NOW()` has the text of [`EventTime`], so that text is
//! a valid `xsd:dateTime` for every time.

use crate::civil::{DAY_MS, civil_from_days, days_from_civil, days_in_month};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, given by the source or by arrival. The default is the epoch.
///
/// As text it is an RFC 3339 date in UTC, with a fraction where there are milliseconds. Such dates
/// are read too, with any offset.
///
/// ```
/// use somersault_model::EventTime;
/// let time: EventTime = "2023-11-14T23:13:20.5+01:00".parse().unwrap();
/// assert_eq!(time, EventTime(1_700_000_000_500));
/// assert_eq!(time.to_string(), "2023-11-14T22:13:20.5Z");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EventTime(pub i64);

impl EventTime {
    /// Before every event time.
    pub const MIN: EventTime = EventTime(i64::MIN);
    /// After every event time.
    pub const MAX: EventTime = EventTime(i64::MAX);

    /// This much later; saturates at the ends of time.
    ///
    /// ```
    /// use somersault_model::{EventTime, Millis};
    /// assert_eq!(EventTime(1_000).plus(Millis(500)), EventTime(1_500));
    /// ```
    #[must_use]
    pub const fn plus(self, span: Millis) -> EventTime {
        EventTime(self.0.saturating_add(span.0))
    }

    /// This much earlier; saturates at the ends of time.
    ///
    /// ```
    /// use somersault_model::{EventTime, Millis};
    /// assert_eq!(EventTime(1_000).minus(Millis(500)), EventTime(500));
    /// ```
    #[must_use]
    pub const fn minus(self, span: Millis) -> EventTime {
        EventTime(self.0.saturating_sub(span.0))
    }
}

/// From milliseconds since the Unix epoch.
impl From<i64> for EventTime {
    fn from(millis: i64) -> EventTime {
        EventTime(millis)
    }
}

/// To the millisecond, rounded down.
///
/// ```
/// use somersault_model::EventTime;
/// use std::time::{Duration, UNIX_EPOCH};
/// let time = UNIX_EPOCH + Duration::from_micros(1_999);
/// assert_eq!(EventTime::from(time), EventTime(1));
/// ```
impl From<SystemTime> for EventTime {
    fn from(time: SystemTime) -> EventTime {
        let saturated = |millis: u128| i64::try_from(millis).unwrap_or(i64::MAX);
        EventTime(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => saturated(after.as_millis()),
            Err(before) => -saturated(before.duration().as_nanos().div_ceil(1_000_000)),
        })
    }
}

/// Fails for times that the machine's clock cannot show.
///
/// ```
/// use somersault_model::EventTime;
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
/// let time = SystemTime::try_from(EventTime(1_500));
/// assert_eq!(time, Ok(UNIX_EPOCH + Duration::from_millis(1_500)));
/// ```
impl TryFrom<EventTime> for SystemTime {
    type Error = EventTime;

    fn try_from(time: EventTime) -> Result<SystemTime, EventTime> {
        let span = Duration::from_millis(time.0.unsigned_abs());
        let time_of = match time.0 < 0 {
            true => UNIX_EPOCH.checked_sub(span),
            false => UNIX_EPOCH.checked_add(span),
        };
        time_of.ok_or(time)
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.div_euclid(DAY_MS), self.0.rem_euclid(DAY_MS));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        let sign = if year < 0 { "-" } else { "" };
        let year = year.unsigned_abs();
        write!(
            f,
            "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        match ms % 1_000 {
            0 => {}
            tenths if tenths % 100 == 0 => write!(f, ".{}", tenths / 100)?,
            hundredths if hundredths % 10 == 0 => write!(f, ".{:02}", hundredths / 10)?,
            millis => write!(f, ".{millis:03}")?,
        }
        f.write_str("Z")
    }
}

/// A span of time in milliseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// A text is not an RFC 3339 date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseEventTimeError(String);

impl fmt::Display for ParseEventTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not an RFC 3339 date with at most three digits after the seconds, \
             such as 2023-11-14T22:13:20.5Z",
            self.0
        )
    }
}

impl std::error::Error for ParseEventTimeError {}

/// From an RFC 3339 date. Digits after the milliseconds are refused: event times are in
/// milliseconds, and truncating would reorder them.
impl FromStr for EventTime {
    type Err = ParseEventTimeError;

    fn from_str(text: &str) -> Result<EventTime, ParseEventTimeError> {
        parse(text.as_bytes()).ok_or_else(|| ParseEventTimeError(text.to_owned()))
    }
}

fn parse(bytes: &[u8]) -> Option<EventTime> {
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
        && (1..=days_in_month(year, month)).contains(&day)
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
    let minutes = days_from_civil(year, month, day) * 1440 + hour * 60 + minute - offset_minutes;
    Some(EventTime((minutes * 60 + second) * 1000 + millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<i64> {
        text.parse().ok().map(|time: EventTime| time.0)
    }

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
            assert_eq!(parsed(text), Some(expected), "{text}");
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
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_read_back_from_its_text() {
        let first = -62_167_219_200_000; // 0000-01-01
        let last = 253_402_300_799_999; // 9999-12-31
        for ms in (first..=last).step_by(40_123_456_789) {
            assert_eq!(parsed(&EventTime(ms).to_string()), Some(ms));
        }
        assert_eq!(EventTime(last).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(EventTime(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(EventTime(10).to_string(), "1970-01-01T00:00:00.01Z");
        assert!(EventTime::MIN.to_string().starts_with("-292275055-05-16"));
        assert!(EventTime::MAX.to_string().starts_with("292278994-08-17"));
    }

    #[test]
    fn times_of_the_clock_round_down_on_both_sides_of_the_epoch() {
        let micros = Duration::from_micros;
        assert_eq!(EventTime::from(UNIX_EPOCH + micros(999)), EventTime(0));
        assert_eq!(EventTime::from(UNIX_EPOCH - micros(1)), EventTime(-1));
        assert_eq!(EventTime::from(UNIX_EPOCH - micros(1_000)), EventTime(-1));
        for ms in [-1_500, 0, 1_700_000_000_123] {
            let time = SystemTime::try_from(EventTime(ms)).expect("the clock can show it");
            assert_eq!(EventTime::from(time), EventTime(ms));
        }
    }
}
