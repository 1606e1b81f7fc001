//! Literals whose value is in the id (S7). The one rule: a literal is encoded only if decoding
//! gives back its exact lexical form and datatype, so that `sameTerm` stays id equality; every
//! other spelling goes to the dictionary. The bit layouts are as durable as the ids themselves.
//!
//! | tag | payload (60 bits) |
//! |---|---|
//! | Integer | value + 2^59; spelled without `+`, leading zeros or `-0` |
//! | DerivedInteger | type 4, value + 2^55; in the type's range |
//! | Decimal, Double, Float | sign, form, scale, exponent, mantissa of the spelling (number.rs) |
//! | Boolean | 0 `false`, 1 `true`, 2 `0`, 3 `1` |
//! | DateTime | UTC ms since year 1: 47 bits, digits of the fraction 2, offset code 11 |
//! | Date | UTC-less day since year 1: 22 bits, offset code 11 |
//! | ShortString | 7 bytes from the left, length 4 |

mod calendar;
mod number;

pub use calendar::{CalendarDate, DateTime, date, date_time};
pub use number::{Decimal, Numeric, numeric};

use crate::{Tag, TermId};
use number::Spelled;
use oxrdf::vocab::xsd;
use oxrdf::{Literal, LiteralRef, NamedNodeRef};
use std::fmt;

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
const INTEGER_BIAS: i64 = 1 << 59;
const DERIVED_BIAS: i64 = 1 << 55;

/// The types derived from `xsd:integer`, in the order of their 4-bit codes, with their ranges
/// (cut to what 56 bits hold). Append only.
const DERIVED: [(&str, NamedNodeRef<'static>, i64, i64); 12] = {
    const MAX: i64 = DERIVED_BIAS - 1;
    const MIN: i64 = -DERIVED_BIAS;
    [
        ("long", xsd::LONG, MIN, MAX),
        ("int", xsd::INT, i32::MIN as i64, i32::MAX as i64),
        ("short", xsd::SHORT, i16::MIN as i64, i16::MAX as i64),
        ("byte", xsd::BYTE, i8::MIN as i64, i8::MAX as i64),
        ("unsignedLong", xsd::UNSIGNED_LONG, 0, MAX),
        ("unsignedInt", xsd::UNSIGNED_INT, 0, u32::MAX as i64),
        ("unsignedShort", xsd::UNSIGNED_SHORT, 0, u16::MAX as i64),
        ("unsignedByte", xsd::UNSIGNED_BYTE, 0, u8::MAX as i64),
        ("nonNegativeInteger", xsd::NON_NEGATIVE_INTEGER, 0, MAX),
        ("positiveInteger", xsd::POSITIVE_INTEGER, 1, MAX),
        ("nonPositiveInteger", xsd::NON_POSITIVE_INTEGER, MIN, 0),
        ("negativeInteger", xsd::NEGATIVE_INTEGER, MIN, -1),
    ]
};

impl fmt::Debug for TermId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TermId::UNBOUND => f.write_str("unbound"),
            TermId::DEFAULT_GRAPH => f.write_str("default-graph"),
            id if id.is_in_dictionary() => write!(
                f,
                "{:?}:{:03x}:{}",
                id.tag(),
                id.virtual_shard().number(),
                id.sequence()
            ),
            id => match decode(id) {
                Some(literal) => write!(f, "{literal}"),
                None => write!(f, "{:?}:{}", id.tag(), id.payload()),
            },
        }
    }
}

/// The id of a literal that has an inline form, else `None`: it belongs in the dictionary.
pub fn encode(literal: LiteralRef<'_>) -> Option<TermId> {
    if literal.language().is_some() {
        return None;
    }
    let text = literal.value();
    let datatype = literal.datatype();
    let name = datatype.as_str().strip_prefix(XSD)?;
    match name {
        "string" => short_string(text),
        "integer" => integer(number::parse_integer(text)?),
        "decimal" => Some(Spelled::parse(text)?.plain()?.encode(Tag::Decimal)),
        "double" => Some(Spelled::parse(text)?.encode(Tag::Double)),
        "float" => Some(Spelled::parse(text)?.encode(Tag::Float)),
        "boolean" => {
            let code = ["false", "true", "0", "1"]
                .iter()
                .position(|&s| s == text)?;
            Some(TermId::from_payload(Tag::Boolean, code as u64))
        }
        "dateTime" => calendar::encode_date_time(text),
        "date" => calendar::encode_date(text),
        _ => {
            let code = DERIVED.iter().position(|(derived, ..)| *derived == name)?;
            let (_, _, min, max) = DERIVED[code];
            let value = number::parse_integer(text)?;
            (min..=max).contains(&value).then(|| {
                let value = (value + DERIVED_BIAS) as u64;
                TermId::from_payload(Tag::DerivedInteger, ((code as u64) << 56) | value)
            })
        }
    }
}

/// The literal of an inline id; `None` for ids of other kinds and for bits that [`encode`] never
/// makes.
pub fn decode(id: TermId) -> Option<Literal> {
    if !id.is_inline() {
        return None;
    }
    if id.tag() == Tag::ShortString {
        let mut bytes = [0; 7];
        return Some(Literal::new_simple_literal(short_str(id, &mut bytes)?));
    }
    let mut text = String::with_capacity(24);
    write_lexical(id, &mut text)?;
    Some(Literal::new_typed_literal(text, datatype(id)?))
}

/// The datatype of an inline id.
pub fn datatype(id: TermId) -> Option<NamedNodeRef<'static>> {
    Some(match id.tag() {
        Tag::Integer => xsd::INTEGER,
        Tag::Decimal => xsd::DECIMAL,
        Tag::Double => xsd::DOUBLE,
        Tag::Float => xsd::FLOAT,
        Tag::Boolean => xsd::BOOLEAN,
        Tag::DateTime => xsd::DATE_TIME,
        Tag::Date => xsd::DATE,
        Tag::ShortString => xsd::STRING,
        Tag::DerivedInteger => DERIVED.get((id.payload() >> 56) as usize)?.1,
        _ => return None,
    })
}

/// Appends the lexical form of an inline id to `out`; `None` (and nothing appended) for others.
pub fn write_lexical(id: TermId, out: &mut String) -> Option<()> {
    use std::fmt::Write;
    match id.tag() {
        Tag::Integer | Tag::DerivedInteger => {
            let value = integer_value(id)?;
            // Writing to a String never fails.
            let _ = write!(out, "{value}");
        }
        Tag::Decimal | Tag::Double | Tag::Float => Spelled::decode(id).write(out),
        Tag::Boolean => {
            out.push_str(["false", "true", "0", "1"].get(id.payload() as usize)?);
        }
        Tag::DateTime => date_time(id)?.write(out),
        Tag::Date => date(id)?.write(out),
        Tag::ShortString => {
            let mut bytes = [0; 7];
            out.push_str(short_str(id, &mut bytes)?);
        }
        _ => return None,
    }
    Some(())
}

/// The id of this `xsd:integer`, if it fits 60 bits.
pub fn integer(value: i64) -> Option<TermId> {
    (-INTEGER_BIAS..INTEGER_BIAS)
        .contains(&value)
        .then(|| TermId::from_payload(Tag::Integer, (value + INTEGER_BIAS) as u64))
}

/// The value of an inline `xsd:boolean`.
pub fn boolean(id: TermId) -> Option<bool> {
    (id.tag() == Tag::Boolean).then(|| id.payload() & 1 == 1)
}

/// The value of an inline integer, `xsd:integer` or derived.
pub fn integer_value(id: TermId) -> Option<i64> {
    match id.tag() {
        Tag::Integer => Some(id.payload() as i64 - INTEGER_BIAS),
        Tag::DerivedInteger => {
            DERIVED.get((id.payload() >> 56) as usize)?;
            Some((id.payload() & ((1 << 56) - 1)) as i64 - DERIVED_BIAS)
        }
        _ => None,
    }
}

/// The text of an inline `xsd:string`, written into `buffer`.
pub fn short_str(id: TermId, buffer: &mut [u8; 7]) -> Option<&str> {
    if id.tag() != Tag::ShortString {
        return None;
    }
    buffer.copy_from_slice(&(id.payload() << 4).to_be_bytes()[..7]);
    let length = (id.payload() & 0xf) as usize;
    std::str::from_utf8(buffer.get(..length)?).ok()
}

fn short_string(text: &str) -> Option<TermId> {
    if text.len() > 7 {
        return None;
    }
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    let payload = (u64::from_be_bytes(bytes) >> 4) | text.len() as u64;
    Some(TermId::from_payload(Tag::ShortString, payload))
}
