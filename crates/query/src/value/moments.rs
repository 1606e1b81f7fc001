//! Dates, times and durations: arithmetic, parts, zones, and the order of durations (F&O 3.1,
//! sections 8 to 10; SPARQL 1.2 takes them over as SEP-0002 proposed). The one thing to know before
//! changing it: a month has no length in seconds, so that some durations cannot be compared.

use crate::value::exact::Exact;
use crate::value::quotient::quotient;
use crate::value::running_sum::{ONE, units_of};
use crate::value::term_value::Value;
use num_bigint::BigInt;
use oxsdatatypes::{
    DayTimeDuration, Decimal, Duration, Integer, TimezoneOffset, YearMonthDuration,
};
use somersault_lang::{Arithmetic, Function};
use std::cmp::Ordering;

/// `a op b` where at least one operand is a date, a time or a duration; `None` is an error.
pub(crate) fn arithmetic(op: Arithmetic, a: &Value, b: &Value) -> Option<Value> {
    match op {
        Arithmetic::Add => sum(a, b).or_else(|| sum(b, a)),
        Arithmetic::Subtract => difference(a, b),
        Arithmetic::Multiply => product(a, b).or_else(|| product(b, a)),
        Arithmetic::Divide => ratio(a, b),
    }
}

/// F&O 8.4 (durations) and 9.7 (dates and times).
fn sum(a: &Value, b: &Value) -> Option<Value> {
    use Value as V;
    Some(match (a, b) {
        (V::YearMonthDuration(a), V::YearMonthDuration(b)) => {
            V::YearMonthDuration(a.checked_add(*b)?)
        }
        (V::DayTimeDuration(a), V::DayTimeDuration(b)) => V::DayTimeDuration(a.checked_add(*b)?),
        (V::DateTime(a), b) => V::DateTime(a.checked_add_duration(duration(b)?)?),
        (V::Date(a), b) => V::Date(a.checked_add_duration(duration(b)?)?),
        (V::Time(a), b) => V::Time(a.checked_add_day_time_duration(day_time(b)?)?),
        (a, b) => V::Duration(duration(a)?.checked_add(duration(b)?)?),
    })
}

fn difference(a: &Value, b: &Value) -> Option<Value> {
    use Value as V;
    Some(match (a, b) {
        (V::YearMonthDuration(a), V::YearMonthDuration(b)) => {
            V::YearMonthDuration(a.checked_sub(*b)?)
        }
        (V::DayTimeDuration(a), V::DayTimeDuration(b)) => V::DayTimeDuration(a.checked_sub(*b)?),
        (V::DateTime(a), V::DateTime(b)) => V::DayTimeDuration(a.checked_sub(*b)?),
        (V::Date(a), V::Date(b)) => V::DayTimeDuration(a.checked_sub(*b)?),
        (V::Time(a), V::Time(b)) => V::DayTimeDuration(a.checked_sub(*b)?),
        (V::DateTime(a), b) => V::DateTime(a.checked_sub_duration(duration(b)?)?),
        (V::Date(a), b) => V::Date(a.checked_sub_duration(duration(b)?)?),
        (V::Time(a), b) => V::Time(a.checked_sub_day_time_duration(day_time(b)?)?),
        (a, b) => V::Duration(duration(a)?.checked_sub(duration(b)?)?),
    })
}

/// A duration times a number (F&O 8.4.3, 8.4.8).
fn product(a: &Value, factor: &Value) -> Option<Value> {
    let factor = BigInt::from(units_of(decimal(factor)?));
    Some(match a {
        Value::YearMonthDuration(a) => {
            Value::YearMonthDuration(months(nearest(factor * month_count(*a), ONE.into()))?)
        }
        Value::DayTimeDuration(a) => {
            let units = factor * units_of(a.as_seconds()) / ONE;
            Value::DayTimeDuration(seconds(units)?)
        }
        _ => return None,
    })
}

/// A duration divided by a number or by another duration (F&O 8.4.4, 8.4.5, 8.4.9, 8.4.10).
fn ratio(a: &Value, b: &Value) -> Option<Value> {
    Some(match (a, b) {
        (Value::YearMonthDuration(a), Value::YearMonthDuration(b)) => {
            let months = |value: &YearMonthDuration| Decimal::from(month_count(*value));
            Value::Decimal(quotient(months(a), months(b))?)
        }
        (Value::DayTimeDuration(a), Value::DayTimeDuration(b)) => {
            Value::Decimal(quotient(a.as_seconds(), b.as_seconds())?)
        }
        (Value::YearMonthDuration(a), b) => {
            let divisor = units_of(decimal(b)?);
            if divisor == 0 {
                return None;
            }
            let dividend = BigInt::from(month_count(*a)) * ONE;
            Value::YearMonthDuration(months(nearest(dividend, divisor.into()))?)
        }
        (Value::DayTimeDuration(a), b) => {
            let seconds = quotient(a.as_seconds(), decimal(b)?)?;
            Value::DayTimeDuration(DayTimeDuration::new(seconds))
        }
        _ => return None,
    })
}

/// The integer nearest to a quotient; of two equally near, the greater (fn:round).
fn nearest(dividend: BigInt, divisor: BigInt) -> BigInt {
    let (dividend, divisor) = match divisor < BigInt::ZERO {
        true => (-dividend, -divisor),
        false => (dividend, divisor),
    };
    let (dividend, divisor) = (dividend * 2 + &divisor, divisor * 2);
    let quotient = &dividend / &divisor;
    match &quotient * &divisor > dividend {
        true => quotient - 1,
        false => quotient,
    }
}

fn month_count(duration: YearMonthDuration) -> i64 {
    duration.years() * 12 + duration.months()
}

/// A duration without its days and seconds (F&O 3.1, section 19.1.4).
pub(crate) fn year_month_part(duration: Duration) -> YearMonthDuration {
    YearMonthDuration::new(duration.years() * 12 + duration.months())
}

/// A duration without its months (F&O 3.1, section 19.1.4).
pub(crate) fn day_time_part(duration: Duration) -> DayTimeDuration {
    let units = days_and_seconds(duration);
    DayTimeDuration::new(Decimal::from_be_bytes(units.to_be_bytes()))
}

/// A duration without its months, in units of 10^-18 seconds.
fn days_and_seconds(duration: Duration) -> i128 {
    let days = i128::from(duration.days());
    let hours = days * 24 + i128::from(duration.hours());
    let minutes = hours * 60 + i128::from(duration.minutes());
    minutes * 60 * ONE + units_of(duration.seconds())
}

fn months(months: BigInt) -> Option<YearMonthDuration> {
    Some(YearMonthDuration::new(i64::try_from(months).ok()?))
}

/// A duration of `units` units of 10^-18 seconds.
fn seconds(units: BigInt) -> Option<DayTimeDuration> {
    let units = i128::try_from(units).ok()?;
    Some(DayTimeDuration::new(Decimal::from_be_bytes(
        units.to_be_bytes(),
    )))
}

/// A number as a decimal.
fn decimal(value: &Value) -> Option<Decimal> {
    match value {
        Value::Integer(value) => Some((*value).into()),
        Value::Decimal(value) => Some(*value),
        Value::Float(_) | Value::Double(_) => {
            let units = Exact::of_double(value.as_double()?.into(), false)?.nearest_units();
            Some(Decimal::from_be_bytes(units?.to_be_bytes()))
        }
        _ => None,
    }
}

/// A duration of any of the three types.
pub(crate) fn duration(value: &Value) -> Option<Duration> {
    match value {
        Value::Duration(value) => Some(*value),
        Value::YearMonthDuration(value) => Some((*value).into()),
        Value::DayTimeDuration(value) => Some((*value).into()),
        _ => None,
    }
}

/// A duration without months.
fn day_time(value: &Value) -> Option<DayTimeDuration> {
    DayTimeDuration::try_from(duration(value)?).ok()
}

/// The duration with the opposite sign.
pub(crate) fn negated(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Duration(value) => Value::Duration(value.checked_neg()?),
        Value::YearMonthDuration(value) => Value::YearMonthDuration(value.checked_neg()?),
        Value::DayTimeDuration(value) => Value::DayTimeDuration(value.checked_neg()?),
        _ => return None,
    })
}

/// The order of two durations (F&O 8.2 for those of one kind, XML Schema 1.1 part 2, section
/// 3.3.6.2 for others); `None` where it depends on the length of their months.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::YearMonthDuration(a), Value::YearMonthDuration(b)) => Some(a.cmp(b)),
        (Value::DayTimeDuration(a), Value::DayTimeDuration(b)) => Some(a.cmp(b)),
        _ => duration(a)?.partial_cmp(&duration(b)?),
    }
}

/// Seconds in the mean month of the Gregorian calendar.
const MONTH_SECONDS: i128 = 2_629_746;

/// A total order of durations that extends [`compare`]: by the mean length of their months.
pub(crate) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    let key = |value: &Value| {
        let duration = duration(value)?;
        let months = i128::from(duration.years()) * 12 + i128::from(duration.months());
        let units = days_and_seconds(duration);
        let whole = months * MONTH_SECONDS + units.div_euclid(ONE);
        Some((whole, units.rem_euclid(ONE), months))
    };
    Some(key(a)?.cmp(&key(b)?))
}

/// YEAR, MONTH, DAY, HOURS, MINUTES, SECONDS, TIMEZONE, TZ (SPARQL 1.1, section 17.4.5), also of
/// dates and times.
pub(crate) fn part(function: &Function, value: &Value) -> Option<Value> {
    use Function as F;
    use Value as V;
    let part: Integer = match (function, value) {
        (F::Year, V::DateTime(time)) => time.year().into(),
        (F::Year, V::Date(date)) => date.year().into(),
        (F::Month, V::DateTime(time)) => time.month().into(),
        (F::Month, V::Date(date)) => date.month().into(),
        (F::Day, V::DateTime(time)) => time.day().into(),
        (F::Day, V::Date(date)) => date.day().into(),
        (F::Hours, V::DateTime(time)) => time.hour().into(),
        (F::Hours, V::Time(time)) => time.hour().into(),
        (F::Minutes, V::DateTime(time)) => time.minute().into(),
        (F::Minutes, V::Time(time)) => time.minute().into(),
        (F::Seconds, V::DateTime(time)) => return Some(V::Decimal(time.second())),
        (F::Seconds, V::Time(time)) => return Some(V::Decimal(time.second())),
        (F::Timezone, _) => return Some(V::DayTimeDuration(offset(value)??.into())),
        (F::Tz, _) => {
            let offset = offset(value)?;
            return Some(V::String(
                offset.map_or_else(String::new, |offset| offset.to_string()),
            ));
        }
        _ => return None,
    };
    Some(V::Integer(part))
}

/// The zone of a date or a time, if it has one; `None` for any other value.
fn offset(value: &Value) -> Option<Option<TimezoneOffset>> {
    Some(match value {
        Value::DateTime(time) => time.timezone_offset(),
        Value::Date(date) => date.timezone_offset(),
        Value::Time(time) => time.timezone_offset(),
        _ => return None,
    })
}

/// A date or time in another zone (F&O 9.6); `None` for any other value.
pub(crate) fn in_zone(value: &Value, zone: TimezoneOffset) -> Option<Value> {
    let zone = Some(zone);
    Some(match value {
        Value::DateTime(time) => Value::DateTime(time.adjust(zone)?),
        Value::Date(date) => Value::Date(date.adjust(zone)?),
        Value::Time(time) => Value::Time(time.adjust(zone)?),
        _ => return None,
    })
}

/// ADJUST (SPARQL 1.2): a zone is a duration without months of whole minutes, up to fourteen hours.
pub(crate) fn adjusted(value: &Value, zone: &Value) -> Option<Value> {
    in_zone(value, TimezoneOffset::try_from(day_time(zone)?).ok()?)
}
