//! Durations as texts: `10s`, `500ms`, ISO 8601's `PT0.5S`. All are whole milliseconds.

use somersault_model::Millis;

/// Why a duration was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DurationFault {
    /// The unit is not one of ms, s, m, h, d.
    Unit,
    /// It is not a whole number of milliseconds, or too large to count.
    Value,
}

/// `10s`, `500ms`, `1m`, `2h`, `1d`, or an ISO 8601 duration.
pub(crate) fn parse(text: &str) -> Result<Millis, DurationFault> {
    if text.starts_with(['P', 'p']) {
        return parse_iso(text).ok_or(DurationFault::Value);
    }
    let digits = text.len()
        - text
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
            .len();
    let (number, unit) = text.split_at(digits);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(DurationFault::Unit),
    };
    let number: i64 = number.parse().map_err(|_| DurationFault::Value)?;
    number
        .checked_mul(scale)
        .map(Millis)
        .ok_or(DurationFault::Value)
}

/// `P[nD][T[nH][nM][n[.f]S]]` or `PnW`; `None` if the text is no such duration or no whole number
/// of milliseconds. Years and months are no fixed span and are not taken.
pub(crate) fn parse_iso(text: &str) -> Option<Millis> {
    let upper = text.to_ascii_uppercase();
    let body = upper.strip_prefix('P')?;
    let (date, time) = match body.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (body, ""),
    };
    if body.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    let date = take_field(date, 'W', 604_800_000, &mut total)?;
    let date = take_field(date, 'D', 86_400_000, &mut total)?;
    let time = take_field(time, 'H', 3_600_000, &mut total)?;
    let time = take_field(time, 'M', 60_000, &mut total)?;
    let time = take_seconds(time, &mut total)?;
    (date.is_empty() && time.is_empty()).then_some(Millis(total))
}

/// Takes `n` and the unit from the front, if they are there; `None` on a number that is too large.
fn take_field<'t>(text: &'t str, unit: char, scale: i64, total: &mut i64) -> Option<&'t str> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match text[digits..].strip_prefix(unit) {
        Some(rest) if digits > 0 => {
            let number: i64 = text[..digits].parse().ok()?;
            *total = total.checked_add(number.checked_mul(scale)?)?;
            Some(rest)
        }
        _ => Some(text),
    }
}

fn take_seconds<'t>(text: &'t str, total: &mut i64) -> Option<&'t str> {
    let Some((whole, fraction_and_rest)) = text.split_once('.') else {
        return take_field(text, 'S', 1_000, total);
    };
    let (fraction, rest) = fraction_and_rest.split_once('S')?;
    if whole.is_empty()
        || fraction.is_empty()
        || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let significant = fraction.trim_end_matches('0');
    if significant.len() > 3 {
        return None;
    }
    let millis: i64 = format!("{significant:0<3}").parse().ok()?;
    *total = total.checked_add(
        whole
            .parse::<i64>()
            .ok()?
            .checked_mul(1_000)?
            .checked_add(millis)?,
    )?;
    Some(rest)
}

/// The duration as a reader would write it: the largest unit that divides it.
pub(crate) fn spell(span: Millis) -> String {
    for (scale, unit) in [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ] {
        if span.0 != 0 && span.0 % scale == 0 {
            return format!("{}{unit}", span.0 / scale);
        }
    }
    format!("{}ms", span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("1m", 60_000),
            ("2H", 7_200_000),
            ("1d", 86_400_000),
            ("PT0.5S", 500),
            ("PT10S", 10_000),
            ("P1D", 86_400_000),
            ("P1DT1H1M1.001S", 90_061_001),
            ("P2W", 1_209_600_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Millis(millis)), "{text}");
        }
        for text in [
            "10",
            "10x",
            "1.5s",
            "P",
            "PT",
            "P1",
            "PT1",
            "P1M",
            "PT0.0005S",
            "PT.5S",
            "99999999999999999d",
            "s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(spell(Millis(90_000)), "90s");
        assert_eq!(spell(Millis(120_000)), "2m");
        assert_eq!(spell(Millis(0)), "0ms");
    }
}
