//! Lexical forms of the numeric types of XML Schema 1.1. The one thing to know before changing it:
//! a literal whose form is not in its type's space is not a number, and its effective boolean value
//! is false (SPARQL 1.1, section 17.2.2). Rust's own parsers accept more than XML Schema does.

use crate::value::exact::Exact;
use crate::value::term_value::Value;
use oxsdatatypes::{Decimal, Double, Float, Integer};

/// The datatypes derived from `xsd:integer`, with their least and greatest values; `None` where a
/// side is open (XML Schema 1.1 part 2, sections 3.4.13 to 3.4.25).
fn integer_range(datatype: &str) -> Option<(Option<i128>, Option<i128>)> {
    let closed = |least: i128, most: i128| (Some(least), Some(most));
    Some(match datatype {
        "integer" => (None, None),
        "long" => closed(i64::MIN.into(), i64::MAX.into()),
        "int" => closed(i32::MIN.into(), i32::MAX.into()),
        "short" => closed(i16::MIN.into(), i16::MAX.into()),
        "byte" => closed(i8::MIN.into(), i8::MAX.into()),
        "unsignedLong" => closed(0, u64::MAX.into()),
        "unsignedInt" => closed(0, u32::MAX.into()),
        "unsignedShort" => closed(0, u16::MAX.into()),
        "unsignedByte" => closed(0, u8::MAX.into()),
        "nonNegativeInteger" => (Some(0), None),
        "positiveInteger" => (Some(1), None),
        "nonPositiveInteger" => (None, Some(0)),
        "negativeInteger" => (None, Some(-1)),
        _ => return None,
    })
}

/// The value of an integer of this datatype; `None` outside the datatype's range.
pub(crate) fn integer(text: &str, datatype: &str) -> Option<Value> {
    let (least, most) = integer_range(datatype)?;
    let value = match text.parse::<Integer>() {
        Ok(value) => Value::Integer(value),
        Err(_) => Exact::parse(text, true)?.into_value()?,
    };
    let is_inside = match &value {
        Value::Integer(value) => inside(i64::from(*value).into(), least, most),
        Value::Wide(value) => match value.to_i128() {
            Some(value) => inside(value, least, most),
            None if value.is_negative() => least.is_none(),
            None => most.is_none(),
        },
        _ => false,
    };
    is_inside.then_some(value)
}

fn inside(value: i128, least: Option<i128>, most: Option<i128>) -> bool {
    least.is_none_or(|least| least <= value) && most.is_none_or(|most| value <= most)
}

/// The value of an `xsd:decimal`.
pub(crate) fn decimal(text: &str) -> Option<Value> {
    match text.parse::<Decimal>() {
        Ok(value) => Some(Value::Decimal(value)),
        Err(_) => Exact::parse(text, false)?.into_value(),
    }
}

/// The value of an `xsd:double`.
pub(crate) fn double(text: &str) -> Option<Double> {
    is_floating(text).then(|| text.parse().ok())?
}

/// The value of an `xsd:float`.
pub(crate) fn float(text: &str) -> Option<Float> {
    is_floating(text).then(|| text.parse().ok())?
}

/// Whether a text that Rust parses as a number uses only the words of XML Schema: Rust also accepts
/// `Infinity`, `inf` and `nan`.
fn is_floating(text: &str) -> bool {
    matches!(text, "INF" | "+INF" | "-INF" | "NaN")
        || (text.bytes()).all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// Casts a double to a string (F&O 3.1, section 19.1.2.2): as digits where it is near 1, and
/// otherwise in XML Schema's canonical form. `display` spells the same value without an exponent,
/// in the fewest digits, and `scientific` with one, as Rust does.
pub(crate) fn floating_text(value: f64, display: &str, scientific: &str) -> String {
    let magnitude = value.abs();
    if !value.is_finite() || value == 0.0 || (1e-6..1e6).contains(&magnitude) {
        return display.to_owned();
    }
    match scientific.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => scientific.to_owned(),
    }
}
