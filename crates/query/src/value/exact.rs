//! Integers of more than 64 bits, and decimals that do not fit 128 bits with eighteen digits after
//! the point. The one thing to know before changing it: a number that fits the narrow types is
//! never kept as one of these ([`Exact::into_value`]), so that equal values have one form.

use crate::value::running_sum::units_of;
use crate::value::term_value::Value;
use num_bigint::{BigInt, Sign};
use oxsdatatypes::Decimal;
use somersault_lang::Arithmetic;
use std::cmp::Ordering;
use std::fmt;

/// The most digits that a number has before its point, and the most behind it (docs/language.md).
/// Reading digits takes time by the square of their number.
const MOST_DIGITS: usize = 1000;

/// The fewest digits behind the point to which a quotient is computed, as in [`Decimal`].
const QUOTIENT_DIGITS: u32 = 18;

/// `mantissa` / 10^`scale`; the scale of an integer is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exact {
    mantissa: BigInt,
    scale: u32,
    is_integer: bool,
}

fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

impl Exact {
    /// An `xsd:integer`.
    pub(crate) fn integer(value: impl Into<BigInt>) -> Exact {
        Exact {
            mantissa: value.into(),
            scale: 0,
            is_integer: true,
        }
    }

    /// An `xsd:decimal` of units of 10^-18.
    pub(crate) fn decimal(units: impl Into<BigInt>) -> Exact {
        Exact {
            mantissa: units.into(),
            scale: QUOTIENT_DIGITS,
            is_integer: false,
        }
    }

    /// An integer or a decimal; `None` for everything else.
    pub(crate) fn of(value: &Value) -> Option<Exact> {
        match value {
            Value::Integer(value) => Some(Exact::integer(i64::from(*value))),
            Value::Decimal(value) => Some(Exact::decimal(units_of(*value))),
            Value::Wide(value) => Some((**value).clone()),
            _ => None,
        }
    }

    /// The exact value of a finite double; as an integer, without its fraction.
    pub(crate) fn of_double(value: f64, is_integer: bool) -> Option<Exact> {
        let value = if is_integer { value.trunc() } else { value };
        if !value.is_finite() {
            return None;
        }
        let (mantissa, exponent) = super::exact_sum::split(value);
        let mantissa = match value < 0.0 {
            true => -BigInt::from(mantissa),
            false => BigInt::from(mantissa),
        };
        // m / 2^n = m * 5^n / 10^n.
        let (mantissa, scale) = match u32::try_from(exponent) {
            Ok(exponent) => (mantissa << exponent, 0),
            Err(_) => {
                let halves = exponent.unsigned_abs();
                (mantissa * BigInt::from(5).pow(halves), halves)
            }
        };
        let exact = Exact {
            mantissa,
            scale,
            is_integer: false,
        };
        let mut exact = exact.reduced();
        exact.is_integer = is_integer;
        Some(exact)
    }

    /// The value of a lexical form of `xsd:integer` or `xsd:decimal`; `None` for any other text and
    /// for too many digits.
    pub(crate) fn parse(text: &str, is_integer: bool) -> Option<Exact> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, part) = match digits.split_once('.') {
            Some(_) if is_integer => return None,
            Some(parts) => parts,
            None => (digits, ""),
        };
        let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits.bytes().any(|byte| byte.is_ascii_digit())
            || !are_digits(whole)
            || !are_digits(part)
            || whole.len() > MOST_DIGITS
            || part.len() > MOST_DIGITS
        {
            return None;
        }
        let magnitude = BigInt::parse_bytes(format!("0{whole}{part}").as_bytes(), 10)?;
        Some(Exact {
            mantissa: if text.starts_with('-') {
                -magnitude
            } else {
                magnitude
            },
            scale: part.len() as u32,
            is_integer,
        })
    }

    /// Removes the trailing zeros of the fraction.
    fn reduced(mut self) -> Exact {
        let ten = BigInt::from(10);
        while self.scale > 0 && (&self.mantissa % &ten).sign() == Sign::NoSign {
            self.mantissa /= &ten;
            self.scale -= 1;
        }
        self
    }

    /// The value in the narrowest type that holds it; `None` if it has too many digits.
    pub(crate) fn into_value(self) -> Option<Value> {
        let exact = self.reduced();
        if exact.is_integer {
            if let Ok(value) = i64::try_from(&exact.mantissa) {
                return Some(Value::Integer(value.into()));
            }
        } else if exact.scale <= QUOTIENT_DIGITS {
            let units = &exact.mantissa * power_of_ten(QUOTIENT_DIGITS - exact.scale);
            if let Ok(units) = i128::try_from(units) {
                return Some(Value::Decimal(Decimal::from_be_bytes(units.to_be_bytes())));
            }
        }
        let (digits, scale) = (exact.magnitude().len(), exact.scale as usize);
        let fits = scale <= MOST_DIGITS && digits.saturating_sub(scale) <= MOST_DIGITS;
        fits.then(|| Value::Wide(Box::new(exact)))
    }

    fn magnitude(&self) -> String {
        self.mantissa.magnitude().to_string()
    }

    /// Whether the number is an `xsd:integer`, and not an `xsd:decimal`.
    pub(crate) fn is_integer(&self) -> bool {
        self.is_integer
    }

    /// Whether the number is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.mantissa.sign() == Sign::Minus
    }

    /// The approximate bytes of its digits.
    pub(crate) fn bytes(&self) -> usize {
        (self.mantissa.bits() / 8) as usize + 8
    }

    /// The value if it is a whole number that fits 128 bits.
    pub(crate) fn to_i128(&self) -> Option<i128> {
        (self.scale == 0).then(|| i128::try_from(&self.mantissa).ok())?
    }

    fn scaled_to(&self, scale: u32) -> BigInt {
        &self.mantissa * power_of_ten(scale - self.scale)
    }

    /// Adds, keeping what kind of number the sum is.
    pub(crate) fn plus(&self, other: &Exact) -> Exact {
        let scale = self.scale.max(other.scale);
        Exact {
            mantissa: self.scaled_to(scale) + other.scaled_to(scale),
            scale,
            is_integer: self.is_integer && other.is_integer,
        }
    }

    /// The number with the opposite sign.
    pub(crate) fn negated(&self) -> Exact {
        Exact {
            mantissa: -&self.mantissa,
            ..self.clone()
        }
    }

    /// The number without its sign.
    pub(crate) fn absolute(&self) -> Exact {
        if self.is_negative() {
            self.negated()
        } else {
            self.clone()
        }
    }

    /// The greatest integer below or at the number plus `halves` / 2, as a number of the same type
    /// (fn:floor, fn:round).
    pub(crate) fn floor_of_plus(&self, halves: i32) -> Exact {
        let one = power_of_ten(self.scale);
        let (dividend, divisor) = (&self.mantissa * 2 + &one * halves, one * 2);
        let mut quotient = &dividend / &divisor;
        if &quotient * &divisor > dividend {
            quotient -= 1;
        }
        Exact {
            mantissa: quotient,
            scale: 0,
            is_integer: self.is_integer,
        }
    }

    /// The nearest number of units of 10^-18, if 128 bits hold it.
    pub(crate) fn nearest_units(&self) -> Option<i128> {
        let scaled = Exact {
            mantissa: &self.mantissa * power_of_ten(QUOTIENT_DIGITS),
            ..self.clone()
        };
        i128::try_from(scaled.floor_of_plus(1).mantissa).ok()
    }

    /// The number without its fraction, as an `xsd:integer`.
    pub(crate) fn truncated(&self) -> Exact {
        Exact::integer(&self.mantissa / power_of_ten(self.scale))
    }

    /// The same number as an `xsd:decimal`.
    pub(crate) fn as_decimal(&self) -> Exact {
        Exact {
            is_integer: false,
            ..self.clone()
        }
    }

    /// `self op other` (F&O 3.1, section 4.2). A quotient has eighteen digits after its point, or
    /// the scale of the longer operand if that is more.
    pub(crate) fn arithmetic(&self, op: Arithmetic, other: &Exact) -> Option<Value> {
        let result = match op {
            Arithmetic::Add => self.plus(other),
            Arithmetic::Subtract => self.plus(&other.negated()),
            Arithmetic::Multiply => Exact {
                mantissa: &self.mantissa * &other.mantissa,
                scale: self.scale + other.scale,
                is_integer: self.is_integer && other.is_integer,
            },
            Arithmetic::Divide => {
                if other.mantissa.sign() == Sign::NoSign {
                    return None;
                }
                let scale = self.scale.max(other.scale).max(QUOTIENT_DIGITS);
                Exact {
                    mantissa: self.scaled_to(scale) * power_of_ten(other.scale) / &other.mantissa,
                    scale,
                    is_integer: false,
                }
            }
        };
        result.into_value()
    }

    /// The nearest double.
    pub(crate) fn to_f64(&self) -> f64 {
        let number = format!("{}e-{}", self.mantissa, self.scale);
        number
            .parse()
            .expect("digits with an exponent are a number")
    }

    /// The nearest float.
    pub(crate) fn to_f32(&self) -> f32 {
        let number = format!("{}e-{}", self.mantissa, self.scale);
        number
            .parse()
            .expect("digits with an exponent are a number")
    }
}

impl Exact {
    /// The order of the values, whatever their types.
    pub(crate) fn compare(&self, other: &Exact) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.scaled_to(scale).cmp(&other.scaled_to(scale))
    }
}

impl fmt::Display for Exact {
    /// The canonical form (XML Schema 1.1 part 2, sections 3.3.3 and 3.4.13).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (digits, scale) = (self.magnitude(), self.scale as usize);
        let sign = if self.is_negative() { "-" } else { "" };
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{part}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::term_value::arithmetic;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = Value> {
        let integer = prop_oneof![-9i64..9, any::<i64>(), any::<i32>().prop_map(i64::from)];
        let units = prop_oneof![-9i128..9, any::<i128>(), any::<i64>().prop_map(i128::from)];
        prop_oneof![
            integer.prop_map(|n| Value::Integer(n.into())),
            units.prop_map(|n| Value::Decimal(Decimal::from_be_bytes(n.to_be_bytes()))),
        ]
    }

    fn op() -> impl Strategy<Value = Arithmetic> {
        use Arithmetic::{Add, Divide, Multiply, Subtract};
        prop::sample::select(vec![Add, Subtract, Multiply, Divide])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

        /// The narrow types and these agree wherever the narrow ones have a result.
        #[test]
        fn narrow_arithmetic_is_exact_arithmetic((a, op, b) in (number(), op(), number())) {
            let (left, right) = (Exact::of(&a).expect("exact"), Exact::of(&b).expect("exact"));
            let text = |value: Option<Value>| value.map(|value| value.into_term().to_string());
            prop_assert_eq!(text(arithmetic(op, &a, &b)), text(left.arithmetic(op, &right)));
            prop_assert_eq!(Some(left.compare(&right)), a.compare(&b));
        }

        /// A parsed text equals the number it was written from.
        #[test]
        fn digits_come_back(units in any::<i128>(), shift in 0u32..40, is_integer in any::<bool>()) {
            let scale = if is_integer { 0 } else { shift };
            let exact = Exact { mantissa: BigInt::from(units) << 40, scale, is_integer };
            let again = Exact::parse(&exact.to_string(), is_integer).expect("digits");
            prop_assert_eq!(exact.compare(&again), Ordering::Equal);
            prop_assert_eq!(exact.reduced(), again);
        }

        /// A double has the value of its mantissa and exponent.
        #[test]
        fn doubles_are_exact(value in any::<f64>()) {
            match Exact::of_double(value, false) {
                Some(exact) => prop_assert_eq!(exact.to_f64(), value),
                None => prop_assert!(!value.is_finite()),
            }
        }
    }
}
