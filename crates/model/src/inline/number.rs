//! Inline numbers. Decimals, doubles and floats are kept as they are spelled (sign, digits, where
//! the point is, exponent), from which both the spelling and the value follow exactly.
//!
//! Layout: sign 1 | form 1 | scale 4 | … . Form 0, plain (`31.25`): mantissa 54 bits. Form 1, with
//! `E` (`4.8E-4`): exponent + 64 in 7 bits, mantissa 47 bits. Scale = digits after the point, 0 =
//! no point.

use crate::{Tag, TermId};
use std::cmp::Ordering;

/// A number without its spelling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Numeric {
    /// `xsd:integer` or a type derived from it.
    Integer(i64),
    /// `xsd:decimal`.
    Decimal(Decimal),
    /// `xsd:float`.
    Float(f32),
    /// `xsd:double`.
    Double(f64),
}

/// An exact decimal: `mantissa` / 10^`scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    /// All digits, with the sign.
    pub mantissa: i64,
    /// The number of digits after the point; at most 15.
    pub scale: u8,
}

impl Decimal {
    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        // Both operands are exact (mantissa ≤ 2^53, 10^15 < 2^53): one correctly rounded division.
        self.mantissa as f64 / POWERS[usize::from(self.scale)]
    }

    fn scaled_to(self, scale: u8) -> i128 {
        i128::from(self.mantissa) * 10i128.pow(u32::from(scale - self.scale))
    }

    /// Compares by value.
    pub fn compare(self, other: Decimal) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.scaled_to(scale).cmp(&other.scaled_to(scale))
    }
}

impl From<Decimal> for oxsdatatypes::Decimal {
    fn from(decimal: Decimal) -> oxsdatatypes::Decimal {
        oxsdatatypes::Decimal::new(i128::from(decimal.mantissa), u32::from(decimal.scale))
            .expect("at most 16 digits, 15 of them after the point, fit in xsd:decimal")
    }
}

impl Numeric {
    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Numeric::Integer(value) => value as f64,
            Numeric::Decimal(value) => value.to_f64(),
            Numeric::Float(value) => f64::from(value),
            Numeric::Double(value) => value,
        }
    }

    /// Compares as SPARQL's operators do: exactly among integers and decimals, else as the wider
    /// of the two floating types. Inline numbers are never NaN, so there is always an order.
    pub fn compare(self, other: Numeric) -> Ordering {
        use Numeric::{Decimal as D, Double, Float, Integer};
        let whole = |mantissa| Decimal { mantissa, scale: 0 };
        let floats = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        match (self, other) {
            (Integer(a), Integer(b)) => a.cmp(&b),
            (D(a), D(b)) => a.compare(b),
            (Integer(a), D(b)) => whole(a).compare(b),
            (D(a), Integer(b)) => a.compare(whole(b)),
            (Double(_), _) | (_, Double(_)) => floats(self.to_f64(), other.to_f64()),
            (Float(_), _) | (_, Float(_)) => {
                floats(f64::from(self.to_f32()), f64::from(other.to_f32()))
            }
        }
    }

    fn to_f32(self) -> f32 {
        match self {
            Numeric::Integer(value) => value as f32,
            Numeric::Float(value) => value,
            // Digit by digit: rounding to double first could round twice.
            Numeric::Decimal(value) => format!("{}e-{}", value.mantissa, value.scale)
                .parse()
                .expect("digits with an exponent are a number"),
            Numeric::Double(value) => value as f32,
        }
    }
}

/// The value of an inline number; `None` for every other id.
#[inline]
pub fn numeric(id: TermId) -> Option<Numeric> {
    match id.tag() {
        Tag::Integer | Tag::DerivedInteger => super::integer_value(id).map(Numeric::Integer),
        Tag::Decimal => Some(Numeric::Decimal(Spelled::decode(id).decimal())),
        Tag::Double => Some(Numeric::Double(Spelled::decode(id).to_f64())),
        Tag::Float => Some(Numeric::Float(Spelled::decode(id).to_f32())),
        _ => None,
    }
}

/// Parses an integer that is spelled canonically: no `+`, no leading zero, no `-0`.
pub(super) fn parse_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical =
        digits.bytes().all(|b| b.is_ascii_digit()) && (!digits.starts_with('0') || text == "0");
    if canonical { text.parse().ok() } else { None }
}

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

const PLAIN_MANTISSA_BITS: u32 = 54;
const PLAIN_MAX: u64 = 1 << 53;
const SCIENTIFIC_MANTISSA_BITS: u32 = 47;
const EXPONENT_BIAS: i16 = 64;

/// A number as it is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spelled {
    negative: bool,
    mantissa: u64,
    scale: u8,
    exponent: Option<i8>,
}

impl Spelled {
    /// Reads `-?digits(.digits)?(E-?digits)?` without superfluous zeros before the point or in the
    /// exponent; everything else (`+1`, `01`, `.5`, `1.`, `1e3`, `INF`) is `None`.
    pub(super) fn parse(text: &str) -> Option<Spelled> {
        let (number, exponent) = match text.split_once('E') {
            Some((number, exponent)) => (number, Some(parse_integer(exponent)?)),
            None => (text, None),
        };
        let digits = number.strip_prefix('-').unwrap_or(number);
        let (whole, fraction) = match digits.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (digits, ""),
        };
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) || fraction.len() > 15 {
            return None;
        }
        let mut mantissa = 0u64;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() || mantissa > PLAIN_MAX {
                return None;
            }
            mantissa = mantissa * 10 + u64::from(byte - b'0');
        }
        let max = match exponent {
            None => PLAIN_MAX,
            Some(_) => (1 << SCIENTIFIC_MANTISSA_BITS) - 1,
        };
        let exponent = match exponent {
            None => None,
            // Within these bounds the value is one exact operation on doubles.
            Some(e) if (-22..=22).contains(&(e - fraction.len() as i64)) => Some(e as i8),
            Some(_) => return None,
        };
        (mantissa <= max).then_some(Spelled {
            negative: number.len() != digits.len(),
            mantissa,
            scale: fraction.len() as u8,
            exponent,
        })
    }

    /// This, if it is spelled without an exponent.
    pub(super) fn plain(self) -> Option<Spelled> {
        self.exponent.is_none().then_some(self)
    }

    pub(super) fn encode(self, tag: Tag) -> TermId {
        let head = (u64::from(self.negative) << 59) | (u64::from(self.scale) << 54);
        let rest = match self.exponent {
            None => self.mantissa,
            Some(exponent) => {
                let biased = (i16::from(exponent) + EXPONENT_BIAS) as u64;
                (1 << 58) | (biased << SCIENTIFIC_MANTISSA_BITS) | self.mantissa
            }
        };
        TermId::from_payload(tag, head | rest)
    }

    pub(super) fn decode(id: TermId) -> Spelled {
        let bits = id.payload();
        let scientific = bits >> 58 & 1 == 1;
        let width = if scientific {
            SCIENTIFIC_MANTISSA_BITS
        } else {
            PLAIN_MANTISSA_BITS
        };
        let exponent = ((bits >> SCIENTIFIC_MANTISSA_BITS & 0x7f) as i16 - EXPONENT_BIAS) as i8;
        Spelled {
            negative: bits >> 59 & 1 == 1,
            mantissa: bits & ((1 << width) - 1),
            scale: (bits >> 54 & 0xf) as u8,
            exponent: scientific.then_some(exponent),
        }
    }

    pub(super) fn write(self, out: &mut String) {
        use std::fmt::Write;
        let sign = if self.negative { "-" } else { "" };
        let unit = 10u64.pow(u32::from(self.scale));
        let (whole, fraction) = (self.mantissa / unit, self.mantissa % unit);
        // Writing to a String never fails.
        let _ = write!(out, "{sign}{whole}");
        if self.scale > 0 {
            let _ = write!(out, ".{fraction:0width$}", width = usize::from(self.scale));
        }
        if let Some(exponent) = self.exponent {
            let _ = write!(out, "E{exponent}");
        }
    }

    fn decimal(self) -> Decimal {
        let mantissa = self.mantissa as i64;
        Decimal {
            mantissa: if self.negative { -mantissa } else { mantissa },
            scale: self.scale,
        }
    }

    fn power(self) -> i16 {
        self.exponent.map_or(0, i16::from) - i16::from(self.scale)
    }

    fn to_f64(self) -> f64 {
        let mantissa = self.mantissa as f64;
        let power = self.power();
        // Ids from another process may hold any bits: clamp instead of indexing out of bounds.
        let factor = POWERS[usize::from(power.unsigned_abs()).min(22)];
        let value = if power < 0 {
            mantissa / factor
        } else {
            mantissa * factor
        };
        if self.negative { -value } else { value }
    }

    fn to_f32(self) -> f32 {
        let power = self.power();
        if self.mantissa <= 1 << 24 && power.unsigned_abs() <= 10 {
            let factor = POWERS[usize::from(power.unsigned_abs())] as f32;
            let mantissa = self.mantissa as f32;
            let value = if power < 0 {
                mantissa / factor
            } else {
                mantissa * factor
            };
            return if self.negative { -value } else { value };
        }
        let mut text = String::with_capacity(24);
        self.write(&mut text);
        text.parse().expect("a spelled number is a number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inline;
    use oxrdf::LiteralRef;
    use oxrdf::vocab::xsd;

    fn double(text: &str) -> Option<f64> {
        let id = inline::encode(LiteralRef::new_typed_literal(text, xsd::DOUBLE))?;
        match numeric(id) {
            Some(Numeric::Double(value)) => Some(value),
            other => panic!("{other:?} is not a double"),
        }
    }

    #[test]
    fn values_are_those_of_the_spelling() {
        for text in [
            "31.234567",
            "57.0",
            "54",
            "0",
            "-0.0",
            "0.000001",
            "-12.5",
            "9007199254740992",
            "4.8E-4",
            "1.0E22",
            "0.1",
            "123456.789012",
        ] {
            let expected: f64 = text.parse().expect("a number");
            assert_eq!(
                double(text).map(f64::to_bits),
                Some(expected.to_bits()),
                "{text}"
            );
        }
    }

    #[test]
    fn odd_spellings_are_left_to_the_dictionary() {
        for text in [
            "",
            "-",
            ".5",
            "1.",
            "+1",
            "01",
            "00",
            "1e3",
            "1E+3",
            "1E03",
            "INF",
            "NaN",
            "1.0E40",
            " 1",
            "1 ",
            "9007199254740993",
            "1.0000000000000000",
            "--1",
            "1.-5",
            "E1",
            "1E",
            "1E-0",
        ] {
            assert_eq!(double(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_compare_across_types() {
        let a = Numeric::Decimal(Decimal {
            mantissa: 15,
            scale: 1,
        });
        let b = Numeric::Integer(2);
        assert_eq!(a.compare(b), Ordering::Less);
        assert_eq!(a.compare(Numeric::Double(1.5)), Ordering::Equal);
        assert_eq!(b.compare(Numeric::Float(1.5)), Ordering::Greater);
        let c = Numeric::Decimal(Decimal {
            mantissa: 150,
            scale: 2,
        });
        assert_eq!(a.compare(c), Ordering::Equal);
    }
}
