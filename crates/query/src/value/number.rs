//! Numbers for arithmetic over many rows: small, copied, and without 128-bit divisions. A decimal
//! is a mantissa of 64 bits and a scale. Anything that does not fit is [`Computed::Wider`] and is
//! left to [`Value`]'s arithmetic, which has the whole range and is the twin of this one.

use crate::value::term_value::Value;
use oxsdatatypes::Decimal;
use somersault_lang::Arithmetic;
use somersault_model::TermId;
use somersault_model::inline::{self, Numeric};
use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

/// Digits after the point of `xsd:decimal`, as in [`Decimal`].
const MOST_DIGITS: u8 = 18;
/// Doubles represent integers up to this exactly (2^53).
const EXACT: u64 = 1 << 53;

/// A number: as narrow as SPARQL's promotion of types leaves it (SPARQL 1.1, section 17.3).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Integer(i64),
    Decimal(Small),
    Float(f32),
    Double(f64),
}

/// `mantissa` / 10^`scale`, `scale` at most [`MOST_DIGITS`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Small {
    mantissa: i64,
    scale: u8,
}

/// The result of arithmetic on numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Computed {
    Number(Number),
    /// An error: an operand is unbound.
    Error,
    /// The operation must be computed on values.
    Wider,
}

impl Number {
    /// The number that an id holds inline.
    #[inline]
    pub(crate) fn of_inline(id: TermId) -> Option<Number> {
        Some(match inline::numeric(id)? {
            Numeric::Integer(value) => Number::Integer(value),
            Numeric::Decimal(inline::Decimal { mantissa, scale }) => {
                Number::Decimal(Small { mantissa, scale })
            }
            Numeric::Float(value) => Number::Float(value),
            Numeric::Double(value) => Number::Double(value),
        })
    }

    /// The number of a value; `None` for non-numbers, and for decimals, which may have more digits.
    pub(crate) fn of_value(value: &Value) -> Option<Number> {
        Some(match value {
            Value::Integer(value) => Number::Integer((*value).into()),
            Value::Float(value) => Number::Float((*value).into()),
            Value::Double(value) => Number::Double((*value).into()),
            _ => return None,
        })
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Number::Integer(value) => Value::Integer(value.into()),
            Number::Decimal(value) => Value::Decimal(value.into()),
            Number::Float(value) => Value::Float(value.into()),
            Number::Double(value) => Value::Double(value.into()),
        }
    }

    /// As [`arithmetic`](crate::value::term_value::arithmetic).
    #[inline]
    pub(crate) fn arithmetic(self, op: Arithmetic, other: Number) -> Computed {
        use Number::{Decimal, Double, Float, Integer};
        let number = match (self, other) {
            (Integer(a), Integer(b)) => return integers(op, a, b),
            (Double(a), b) => Double(floating(op, a, b.to_f64())),
            (a, Double(b)) => Double(floating(op, a.to_f64(), b)),
            (Float(a), b) => Float(floating(op, a, b.to_f32())),
            (a, Float(b)) => Float(floating(op, a.to_f32(), b)),
            (Decimal(a), Decimal(b)) => return a.arithmetic(op, b),
            (Integer(a), Decimal(b)) => return Small::whole(a).arithmetic(op, b),
            (Decimal(a), Integer(b)) => return a.arithmetic(op, Small::whole(b)),
        };
        Computed::Number(number)
    }

    /// As [`Value::compare`].
    #[inline]
    pub(crate) fn compare(self, other: Number) -> Option<Ordering> {
        use Number::{Decimal, Double, Float, Integer};
        match (self, other) {
            (Integer(a), Integer(b)) => Some(a.cmp(&b)),
            // Identical values are equal, NaN too.
            (Double(a), Double(b)) if a.to_bits() == b.to_bits() => Some(Ordering::Equal),
            (Float(a), Float(b)) if a.to_bits() == b.to_bits() => Some(Ordering::Equal),
            (Double(a), b) => a.partial_cmp(&b.to_f64()),
            (a, Double(b)) => a.to_f64().partial_cmp(&b),
            (Float(a), b) => a.partial_cmp(&b.to_f32()),
            (a, Float(b)) => a.to_f32().partial_cmp(&b),
            (Decimal(a), Decimal(b)) => Some(a.compare(b)),
            (Integer(a), Decimal(b)) => Some(Small::whole(a).compare(b)),
            (Decimal(a), Integer(b)) => Some(a.compare(Small::whole(b))),
        }
    }

    /// Whether the number is the float or double NaN.
    #[inline]
    pub(crate) fn is_nan(self) -> bool {
        match self {
            Number::Float(value) => value.is_nan(),
            Number::Double(value) => value.is_nan(),
            Number::Integer(_) | Number::Decimal(_) => false,
        }
    }

    #[inline]
    fn to_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Decimal(value) => value.to_f64(),
            Number::Float(value) => value.into(),
            Number::Double(value) => value,
        }
    }

    /// The number promoted to float; doubles are never promoted to float.
    #[inline]
    fn to_f32(self) -> f32 {
        match self {
            Number::Integer(value) => value as f32,
            Number::Float(value) => value,
            Number::Decimal(_) | Number::Double(_) => self.to_f64() as f32,
        }
    }
}

fn integers(op: Arithmetic, a: i64, b: i64) -> Computed {
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide => return Computed::Wider,
    };
    result.map_or(Computed::Wider, |value| {
        Computed::Number(Number::Integer(value))
    })
}

/// Arithmetic on floats or doubles; no operation fails.
#[inline]
fn floating<F>(op: Arithmetic, a: F, b: F) -> F
where
    F: Add<Output = F> + Sub<Output = F> + Mul<Output = F> + Div<Output = F>,
{
    match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
    }
}

impl Small {
    fn whole(mantissa: i64) -> Small {
        Small { mantissa, scale: 0 }
    }

    #[inline]
    fn arithmetic(self, op: Arithmetic, other: Small) -> Computed {
        let (a, b) = (self, other);
        let scale = a.scale.max(b.scale);
        // 64 bits, and at most 18 digits more, are less than 10^37 each: neither their sum nor
        // their product overflows.
        match op {
            Arithmetic::Add => Small::of(a.scaled_to(scale) + b.scaled_to(scale), scale),
            Arithmetic::Subtract => Small::of(a.scaled_to(scale) - b.scaled_to(scale), scale),
            Arithmetic::Multiply => {
                let product = i128::from(a.mantissa) * i128::from(b.mantissa);
                Small::of(product, a.scale + b.scale)
            }
            Arithmetic::Divide => Computed::Wider,
        }
    }

    /// The decimal with `scale` digits after the point, if a decimal can have that many.
    #[inline]
    fn of(mut mantissa: i128, mut scale: u8) -> Computed {
        while scale > MOST_DIGITS {
            if mantissa % 10 != 0 {
                return Computed::Wider;
            }
            mantissa /= 10;
            scale -= 1;
        }
        match i64::try_from(mantissa) {
            Ok(mantissa) => Computed::Number(Number::Decimal(Small { mantissa, scale })),
            Err(_) => Computed::Wider,
        }
    }

    #[inline]
    fn scaled_to(self, scale: u8) -> i128 {
        i128::from(self.mantissa) * i128::from(POWERS[usize::from(scale - self.scale)])
    }

    #[inline]
    fn compare(self, other: Small) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.scaled_to(scale).cmp(&other.scaled_to(scale))
    }

    /// The nearest double where all digits fit into it; for longer numbers the result of
    /// [`Decimal`].
    #[inline]
    fn to_f64(self) -> f64 {
        let Small {
            mut mantissa,
            mut scale,
        } = self;
        if mantissa.unsigned_abs() > EXACT {
            while scale > 0 && mantissa % 10 == 0 {
                mantissa /= 10;
                scale -= 1;
            }
        }
        mantissa as f64 / POWERS[usize::from(scale)] as f64
    }
}

impl From<Small> for Decimal {
    fn from(small: Small) -> Decimal {
        Decimal::new(i128::from(small.mantissa), u32::from(small.scale))
            .expect("64 bits with at most 18 digits after the point fit in xsd:decimal")
    }
}

const POWERS: [i64; MOST_DIGITS as usize + 1] = {
    let mut powers = [1; MOST_DIGITS as usize + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::term_value::arithmetic;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = Number> {
        let mantissa = prop_oneof![
            any::<i64>(),
            -2_000i64..2_000,
            (-100i64..100).prop_map(|part| part * 1_000_000_000),
            Just(1 << 53),
            Just((1 << 53) + 1),
        ];
        let double = prop_oneof![any::<f64>(), Just(0.0), Just(-0.0), -10.0..10.0];
        prop_oneof![
            mantissa.clone().prop_map(Number::Integer),
            (mantissa, 0..=MOST_DIGITS)
                .prop_map(|(mantissa, scale)| Number::Decimal(Small { mantissa, scale })),
            any::<f32>().prop_map(Number::Float),
            double.prop_map(Number::Double),
        ]
    }

    fn op() -> impl Strategy<Value = Arithmetic> {
        use Arithmetic::{Add, Divide, Multiply, Subtract};
        prop::sample::select(vec![Add, Subtract, Multiply, Divide])
    }

    /// Whether two values are the same; all NaNs are, whatever their bits.
    fn is_same(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Double(a), Value::Double(b)) if a.is_nan() => b.is_nan(),
            (Value::Float(a), Value::Float(b)) if a.is_nan() => b.is_nan(),
            _ => a.same(b),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn arithmetic_is_that_of_values((a, op, b) in (number(), op(), number())) {
            let of_values = arithmetic(op, &a.into_value(), &b.into_value());
            match a.arithmetic(op, b) {
                Computed::Number(number) => {
                    let number = number.into_value();
                    let same = of_values.as_ref().is_some_and(|value| is_same(value, &number));
                    prop_assert!(same, "{number:?}, and of values {of_values:?}");
                }
                Computed::Error => prop_assert!(of_values.is_none(), "{of_values:?}"),
                Computed::Wider => {}
            }
        }

        #[test]
        fn comparisons_are_those_of_values((a, b) in (number(), number())) {
            prop_assert_eq!(a.compare(b), a.into_value().compare(&b.into_value()));
            prop_assert_eq!(a.compare(a), a.into_value().compare(&a.into_value()));
        }
    }

    #[test]
    fn results_that_do_not_fit_are_left_to_values() {
        let decimal = |mantissa, scale| Number::Decimal(Small { mantissa, scale });
        let times = |a: Number, b: Number| a.arithmetic(Arithmetic::Multiply, b);
        assert!(matches!(
            times(decimal(3, 10), decimal(7, 9)),
            Computed::Wider
        ));
        assert!(matches!(
            times(Number::Integer(i64::MAX), Number::Integer(2)),
            Computed::Wider
        ));
        assert!(matches!(
            times(decimal(30, 10), decimal(7, 9)),
            Computed::Number(_)
        ));
        assert!(matches!(
            times(decimal(i64::MAX, 0), decimal(7, 0)),
            Computed::Wider
        ));
    }
}
