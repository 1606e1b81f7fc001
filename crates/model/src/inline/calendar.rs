//! Inline dates and times: years 0001 to 4459, fractions of at most three digits, offsets of whole
//! minutes up to fourteen hours. Kept as UTC so that ids of one kind order as their times do.

use crate::civil::{DAY_MS, civil_from_days, days_from_civil, days_in_month};
use crate::{EventTime, Tag, TermId};

const OFFSET_BITS: u32 = 11;
const OFFSET_MAX: i16 = 14 * 60;
/// Days from 0001-01-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_162;
const DATE_TIME_LIMIT_MS: i64 = 1 << 47;
const DATE_LIMIT_DAYS: i64 = 1 << 22;

/// The value of an inline `xsd:dateTime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime {
    /// The instant, where a dateTime without offset counts as UTC.
    pub utc: EventTime,
    /// Minutes ahead of UTC; `None` where the spelling has no offset.
    pub offset_minutes: Option<i16>,
    fraction_digits: u8,
    zulu: bool,
}

/// The value of an inline `xsd:date`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalendarDate {
    /// Days since 1970-01-01, as spelled (not shifted by the offset).
    pub days: i64,
    /// Minutes ahead of UTC; `None` where the spelling has no offset.
    pub offset_minutes: Option<i16>,
    zulu: bool,
}

/// The value of an inline `xsd:dateTime`; `None` for every other id.
pub fn date_time(id: TermId) -> Option<DateTime> {
    if id.tag() != Tag::DateTime {
        return None;
    }
    let bits = id.payload();
    let (offset_minutes, zulu) = decode_offset(bits)?;
    Some(DateTime {
        utc: EventTime((bits >> 13) as i64 - EPOCH_DAYS * DAY_MS),
        offset_minutes,
        fraction_digits: (bits >> OFFSET_BITS & 3) as u8,
        zulu,
    })
}

/// The value of an inline `xsd:date`; `None` for every other id.
pub fn date(id: TermId) -> Option<CalendarDate> {
    if id.tag() != Tag::Date {
        return None;
    }
    let (offset_minutes, zulu) = decode_offset(id.payload())?;
    Some(CalendarDate {
        days: (id.payload() >> OFFSET_BITS) as i64 - EPOCH_DAYS,
        offset_minutes,
        zulu,
    })
}

pub(super) fn encode_date_time(text: &str) -> Option<TermId> {
    let mut reader = Reader(text.as_bytes());
    let days = reader.date()?;
    reader.byte(b'T')?;
    let hour = reader.two_digits(23)?;
    reader.byte(b':')?;
    let minute = reader.two_digits(59)?;
    reader.byte(b':')?;
    let second = reader.two_digits(59)?;
    let (ms, fraction_digits) = reader.fraction()?;
    let (offset, code) = reader.offset()?;
    let local = days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms;
    let utc = local - i64::from(offset) * 60_000 + EPOCH_DAYS * DAY_MS;
    (0..DATE_TIME_LIMIT_MS).contains(&utc).then(|| {
        let bits = ((utc as u64) << 2 | u64::from(fraction_digits)) << OFFSET_BITS | code;
        TermId::from_payload(Tag::DateTime, bits)
    })
}

pub(super) fn encode_date(text: &str) -> Option<TermId> {
    let mut reader = Reader(text.as_bytes());
    let days = reader.date()? + EPOCH_DAYS;
    let (_, code) = reader.offset()?;
    (0..DATE_LIMIT_DAYS)
        .contains(&days)
        .then(|| TermId::from_payload(Tag::Date, (days as u64) << OFFSET_BITS | code))
}

/// Offset codes: 0 none, 1 `Z`, else minutes + 842.
fn decode_offset(bits: u64) -> Option<(Option<i16>, bool)> {
    match (bits & ((1 << OFFSET_BITS) - 1)) as i16 {
        0 => Some((None, false)),
        1 => Some((Some(0), true)),
        code if code <= 2 * OFFSET_MAX + 2 => Some((Some(code - OFFSET_MAX - 2), false)),
        _ => None,
    }
}

fn write_offset(offset: Option<i16>, zulu: bool, out: &mut String) {
    use std::fmt::Write;
    match offset {
        None => {}
        Some(_) if zulu => out.push('Z'),
        Some(minutes) => {
            let sign = if minutes < 0 { '-' } else { '+' };
            let minutes = minutes.unsigned_abs();
            // Writing to a String never fails.
            let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
    }
}

fn write_date(days: i64, out: &mut String) {
    use std::fmt::Write;
    let (year, month, day) = civil_from_days(days);
    let _ = write!(out, "{year:04}-{month:02}-{day:02}");
}

impl DateTime {
    pub(super) fn write(self, out: &mut String) {
        use std::fmt::Write;
        let local = self.utc.0 + i64::from(self.offset_minutes.unwrap_or(0)) * 60_000;
        write_date(local.div_euclid(DAY_MS), out);
        let ms = local.rem_euclid(DAY_MS);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        let _ = write!(out, "T{hour:02}:{minute:02}:{second:02}");
        let digits = usize::from(self.fraction_digits);
        if digits > 0 {
            let fraction = ms % 1000 / 10i64.pow(3 - u32::from(self.fraction_digits));
            let _ = write!(out, ".{fraction:0digits$}");
        }
        write_offset(self.offset_minutes, self.zulu, out);
    }
}

impl CalendarDate {
    pub(super) fn write(self, out: &mut String) {
        write_date(self.days, out);
        write_offset(self.offset_minutes, self.zulu, out);
    }
}

/// Reads a lexical form from the left. Every method returns `None` where the text does not match.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self, expected: u8) -> Option<()> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        (first == expected).then_some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        head.iter().try_fold(0, |value, byte| {
            byte.is_ascii_digit()
                .then(|| value * 10 + i64::from(byte - b'0'))
        })
    }

    fn two_digits(&mut self, max: i64) -> Option<i64> {
        self.digits(2).filter(|value| *value <= max)
    }

    fn date(&mut self) -> Option<i64> {
        let year = self.digits(4)?;
        self.byte(b'-')?;
        let month = self.digits(2).filter(|month| (1..=12).contains(month))?;
        self.byte(b'-')?;
        let day = self.digits(2)?;
        (year >= 1 && day >= 1 && day <= days_in_month(year, month))
            .then(|| days_from_civil(year, month, day))
    }

    /// Up to three digits of a second as milliseconds, and their number.
    fn fraction(&mut self) -> Option<(i64, u8)> {
        if self.0.first() != Some(&b'.') {
            return Some((0, 0));
        }
        let count = self.0[1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if !(1..=3).contains(&count) {
            return None;
        }
        self.byte(b'.')?;
        let value = self.digits(count)?;
        Some((value * 10i64.pow(3 - count as u32), count as u8))
    }

    /// The rest of the text as an offset: minutes, and its code.
    fn offset(&mut self) -> Option<(i16, u64)> {
        let (&sign, _) = match self.0.split_first() {
            None => return Some((0, 0)),
            Some(parts) => parts,
        };
        self.0 = &self.0[1..];
        if sign == b'Z' {
            return self.0.is_empty().then_some((0, 1));
        }
        let hours = self.two_digits(14)?;
        self.byte(b':')?;
        let minutes = (hours * 60 + self.two_digits(59)?) as i16;
        let minutes = match sign {
            b'+' => minutes,
            // "-00:00" would come back as "+00:00".
            b'-' if minutes > 0 => -minutes,
            _ => return None,
        };
        (self.0.is_empty() && minutes.abs() <= OFFSET_MAX)
            .then(|| (minutes, (minutes + OFFSET_MAX + 2) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_do_not_exist_are_left_to_the_dictionary() {
        for text in [
            "2010-02-29T00:00:00Z",
            "2010-13-01T00:00:00Z",
            "2010-02-01T24:00:00Z",
            "2010-02-01T00:00:60Z",
            "2010-02-01T00:00:00.1234Z",
            "2010-02-01T00:00:00-00:00",
            "2010-02-01T00:00:00+14:01",
            "9999-01-01T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "2010-02-01T00:00:00z",
            "2010-02-01 00:00:00",
            "2010-02-01T00:00:00.Z",
            "",
        ] {
            assert_eq!(encode_date_time(text), None, "{text}");
        }
        assert_eq!(encode_date("2010-2-1"), None);
    }

    #[test]
    fn a_date_time_has_its_instant() {
        let id = encode_date_time("2010-02-01T02:30:00.5+02:00").expect("fits");
        let value = date_time(id).expect("a dateTime");
        assert_eq!(value.utc, EventTime(1_264_984_200_500));
        assert_eq!(value.offset_minutes, Some(120));
    }
}
