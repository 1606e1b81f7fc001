//! Terms as the comparison with Jena writes them: N-Triples on one line, numbers, dates and
//! durations in one spelling each, since either engine may keep or normalise the spelling of a
//! computed value.

use oxrdf::Term;
use oxsdatatypes::{DayTimeDuration, Duration, YearMonthDuration};
use std::str::FromStr;

pub(super) const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// A term as `Oracle.java` writes it.
pub(super) fn written(term: &Term) -> String {
    match term {
        Term::NamedNode(node) => node.to_string(),
        Term::BlankNode(_) => "_:b".to_owned(),
        Term::Triple(_) => "<<>>".to_owned(),
        Term::Literal(literal) => {
            let form = escaped(literal.value());
            match literal.language() {
                Some(language) => format!("\"{form}\"@{language}"),
                None => format!("\"{form}\"^^{}", literal.datatype()),
            }
        }
    }
}

fn escaped(form: &str) -> String {
    let mut text = String::with_capacity(form.len());
    for character in form.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
    text
}

/// A written term in the spelling that it is compared in. Quotients are compared in twelve digits:
/// how many digits a division of decimals gives is left open (F&O 3.1, section 4.2.4).
pub(super) fn comparable(written: &str, is_quotient: bool) -> String {
    if let Some((head, language)) = written.rsplit_once("\"@") {
        return format!("{head}\"@{}", language.to_ascii_lowercase());
    }
    let typed = written
        .strip_suffix('>')
        .and_then(|term| term.strip_prefix('"'))
        .and_then(|term| term.rsplit_once(&format!("\"^^<{XSD}")));
    let Some((form, datatype)) = typed else {
        return written.to_owned();
    };
    let form = spelling(form, datatype, is_quotient).unwrap_or_else(|| form.to_owned());
    format!("\"{form}\"^^<{XSD}{datatype}>")
}

/// The one spelling of a value; `None` if the value has only one anyway.
fn spelling(form: &str, datatype: &str, is_quotient: bool) -> Option<String> {
    match datatype {
        "boolean" => Some(form.replace('1', "true").replace('0', "false")),
        "float" => numeric(form).then(|| form.parse::<f32>().ok().map(|n| format!("{n:e}")))?,
        "double" if is_quotient => {
            numeric(form).then(|| form.parse::<f64>().ok().map(|n| format!("{n:.12e}")))?
        }
        "double" => numeric(form).then(|| form.parse::<f64>().ok().map(|n| format!("{n:e}")))?,
        "decimal" if is_quotient => {
            numeric(form).then(|| form.parse::<f64>().ok().map(|n| format!("{n:.12e}")))?
        }
        "decimal" => numeric(form).then(|| digits(form)),
        "dateTime" | "date" | "time" => Some(moment(form)),
        "duration" => written_again::<Duration>(form),
        "dayTimeDuration" => written_again::<DayTimeDuration>(form),
        "yearMonthDuration" => written_again::<YearMonthDuration>(form),
        _ => numeric(form).then(|| digits(form)),
    }
}

fn written_again<T: FromStr + ToString>(form: &str) -> Option<String> {
    Some(form.parse::<T>().ok()?.to_string())
}

fn numeric(form: &str) -> bool {
    form.bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && form.bytes().any(|byte| byte.is_ascii_digit())
}

/// The digits without leading and trailing zeros that do not change the value.
fn digits(form: &str) -> String {
    let (sign, form) = match form.strip_prefix('-') {
        Some(form) => ("-", form),
        None => ("", form.strip_prefix('+').unwrap_or(form)),
    };
    let (whole, part) = form.split_once('.').unwrap_or((form, ""));
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    match part {
        "" if whole == "0" => "0".to_owned(),
        "" => format!("{sign}{whole}"),
        part => format!("{sign}{whole}.{part}"),
    }
}

/// A date or time: UTC as `Z`, no zeros at the end of a fraction.
fn moment(form: &str) -> String {
    let utc = ["+00:00", "-00:00"]
        .iter()
        .find_map(|zone| form.strip_suffix(zone));
    let form = utc.map_or_else(|| form.to_owned(), |form| format!("{form}Z"));
    let Some((head, tail)) = form.split_once('.') else {
        return form;
    };
    let end = tail
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(tail.len());
    match tail[..end].trim_end_matches('0') {
        "" => format!("{head}{}", &tail[end..]),
        part => format!("{head}.{part}{}", &tail[end..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_each() {
        let of = |form: &str, datatype: &str| {
            let written = format!("\"{form}\"^^<{XSD}{datatype}>");
            let text = comparable(&written, false);
            text.trim_start_matches('"')
                .split('"')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(of("+01.50", "decimal"), "1.5");
        assert_eq!(of("-0.0", "decimal"), "0");
        assert_eq!(of("007", "int"), "7");
        assert_eq!(of("abc", "integer"), "abc");
        assert_eq!(of("1.0E6", "double"), of("1000000", "double"));
        assert_ne!(of("0.1", "double"), of("0.10000000000000002", "double"));
        assert_eq!(of("INF", "double"), "INF");
        assert_eq!(
            of("2020-01-01T00:00:00.500+00:00", "dateTime"),
            "2020-01-01T00:00:00.5Z"
        );
        assert_eq!(
            of("2020-01-01T00:00:00.000", "dateTime"),
            "2020-01-01T00:00:00"
        );
        assert_eq!(of("PT36H", "dayTimeDuration"), "P1DT12H");
        assert_eq!(of("1", "boolean"), "true");
        assert_eq!(comparable("\"a\"@EN", false), "\"a\"@en");
        assert_eq!(
            comparable("\"0x\"^^<http://x/t>", false),
            "\"0x\"^^<http://x/t>"
        );
    }
}
