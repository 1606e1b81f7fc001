//! The order of numbers by their exact values, whatever their types. The one thing to know before
//! changing it: it is total, which `<` is not. `<` promotes to float or double, which rounds: two
//! integers may equal a double and not each other, and the least of the three would depend on the
//! order of comparisons (S6).

use crate::value::exact::Exact;
use crate::value::exact_sum;
use crate::value::running_sum::{ONE, units_of};
use crate::value::term_value::Value;
use std::cmp::Ordering;

/// Every integer and decimal of the narrow types is smaller (2^68).
const BEYOND: f64 = (1u128 << 68) as f64;

/// Compares two numbers; `None` if either is not a number.
#[inline]
pub(crate) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    use Value::{Decimal, Double, Float, Integer, Wide};
    match (a, b) {
        (Integer(a), Integer(b)) => Some(a.cmp(b)),
        (Decimal(a), Decimal(b)) => Some(a.cmp(b)),
        (Integer(_), Decimal(_)) | (Decimal(_), Integer(_)) => Some(units(a)?.cmp(&units(b)?)),
        (Wide(_), _) | (_, Wide(_)) => wide(a, b),
        // Every float is a double.
        (Double(_) | Float(_), Double(_) | Float(_)) => floating(a)?.partial_cmp(&floating(b)?),
        (Double(_) | Float(_), _) => against(b, floating(a)?).map(Ordering::reverse),
        (_, Double(_) | Float(_)) => against(a, floating(b)?),
        _ => None,
    }
}

/// Compares two numbers, one of which is wide.
fn wide(a: &Value, b: &Value) -> Option<Ordering> {
    match (Exact::of(a), Exact::of(b)) {
        (Some(a), Some(b)) => Some(a.compare(&b)),
        (Some(a), None) => wide_against(&a, floating(b)?),
        (None, Some(b)) => wide_against(&b, floating(a)?).map(Ordering::reverse),
        (None, None) => None,
    }
}

fn wide_against(exact: &Exact, double: f64) -> Option<Ordering> {
    match Exact::of_double(double, false) {
        Some(double) => Some(exact.compare(&double)),
        None => 0.0.partial_cmp(&double),
    }
}

fn floating(value: &Value) -> Option<f64> {
    value.as_double().map(f64::from)
}

/// An integer or a decimal, in units.
fn units(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(value) => Some(i128::from(i64::from(*value)) * ONE),
        Value::Decimal(value) => Some(units_of(*value)),
        _ => None,
    }
}

/// Compares an integer or a decimal with a double.
fn against(exact: &Value, double: f64) -> Option<Ordering> {
    let (is_negative, whole, part) = match exact {
        // The most frequent case, and it needs no division.
        Value::Integer(value) => {
            let value = i64::from(*value);
            (value < 0, u128::from(value.unsigned_abs()), 0)
        }
        _ => {
            let (units, one) = (units(exact)?, ONE as u128);
            let magnitude = units.unsigned_abs();
            (units < 0, magnitude / one, magnitude % one)
        }
    };
    if double.is_nan() {
        return None;
    }
    Some(match (is_negative, double < 0.0) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => magnitudes((whole, part), double),
        (true, true) => magnitudes((whole, part), -double).reverse(),
    })
}

/// Compares a number, split into its parts before and behind the point, the latter in units, with a
/// double that is not negative.
fn magnitudes((whole, part): (u128, u128), double: f64) -> Ordering {
    if double >= BEYOND {
        return Ordering::Less;
    }
    // The fraction of a double is a double, too.
    (whole.cmp(&(double.trunc() as u128))).then_with(|| parts(part, double.fract()))
}

/// Compares fractions: units, and a double below 1.
fn parts(units: u128, double: f64) -> Ordering {
    let (mantissa, exponent) = exact_sum::split(double);
    // Compares units / 10^18 with mantissa / 2^places, both multiplied by both denominators.
    let places = exponent.unsigned_abs();
    let right = u128::from(mantissa) * ONE as u128;
    if units == 0 || places > units.leading_zeros() {
        // The right side has 113 bits at most.
        return units.cmp(&0).then(0u128.cmp(&right));
    }
    (units << places).cmp(&right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxsdatatypes::Decimal;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn integer(value: i64) -> Value {
        Value::Integer(value.into())
    }

    fn decimal(text: &str) -> Value {
        Value::Decimal(text.parse().expect("a decimal"))
    }

    fn double(value: f64) -> Value {
        Value::Double(value.into())
    }

    fn float(value: f32) -> Value {
        Value::Float(value.into())
    }

    /// Lines in ascending order; the values of a line are equal.
    fn ladder() -> Vec<Vec<Value>> {
        vec![
            vec![double(f64::NEG_INFINITY), float(f32::NEG_INFINITY)],
            vec![double(-(2f64.powi(68)))],
            vec![Value::Decimal(Decimal::MIN)],
            vec![double(i64::MIN as f64), integer(i64::MIN)],
            vec![integer(-9_007_199_254_740_993)],
            vec![integer(-9_007_199_254_740_992), double(-(2f64.powi(53)))],
            vec![double(-0.1)],
            vec![decimal("-0.1")],
            vec![decimal("-0.000000000000000001")],
            vec![double(-5e-324)],
            vec![integer(0), decimal("0.0"), double(-0.0), float(0.0)],
            vec![double(5e-324)],
            vec![double(2f64.powi(-114))],
            vec![float(2f32.powi(-68)), double(2f64.powi(-68))],
            vec![decimal("0.000000000000000001")],
            vec![double(1e-18)],
            vec![
                decimal("0.000003814697265625"),
                double(2f64.powi(-18)),
                float(2f32.powi(-18)),
            ],
            vec![decimal("0.1")],
            vec![double(0.1)],
            vec![float(0.1)],
            vec![decimal("0.5"), double(0.5), float(0.5)],
            vec![decimal("16777216"), float(16_777_216.0)],
            vec![decimal("16777216.000000000000000001")],
            vec![decimal("16777217"), integer(16_777_217)],
            vec![integer(9_007_199_254_740_992), double(2f64.powi(53))],
            vec![decimal("9007199254740992.000000000000000001")],
            vec![
                integer(9_007_199_254_740_993),
                decimal("9007199254740993.0"),
            ],
            vec![integer(i64::MAX)],
            vec![
                double(2f64.powi(63)),
                decimal("9223372036854775808"),
                float(2f32.powi(63)),
            ],
            vec![Value::Decimal(Decimal::MAX)],
            vec![double(2f64.powi(68))],
            vec![double(f64::INFINITY), float(f32::INFINITY)],
        ]
    }

    #[test]
    fn numbers_are_ordered_by_their_exact_values() {
        let all = ladder();
        for (at, equal) in all.iter().enumerate() {
            for (beside, others) in all.iter().enumerate() {
                for (a, b) in equal
                    .iter()
                    .flat_map(|a| others.iter().map(move |b| (a, b)))
                {
                    assert_eq!(order(a, b), Some(at.cmp(&beside)), "{a:?} {b:?}");
                }
            }
        }
        assert_eq!(order(&double(f64::NAN), &integer(1)), None);
        assert_eq!(order(&integer(1), &float(f32::NAN)), None);
        assert_eq!(order(&integer(1), &Value::from(true)), None);
    }

    /// Numbers of all types, many of them close to each other.
    fn number() -> impl Strategy<Value = Value> {
        let near = |power: i32| (-3i64..4).prop_map(move |n| 2i64.pow(power as u32) + n);
        let whole = prop_oneof![-3i64..4, near(24), near(53), near(62), any::<i64>()].boxed();
        let units = prop_oneof![
            (whole.clone(), -3i128..4).prop_map(|(whole, more)| i128::from(whole) * ONE + more),
            -3i128..4,
            any::<i128>(),
        ];
        let doubles = prop_oneof![
            3 => (whole.clone(), -2i64..3).prop_map(|(whole, steps)| {
                let near = whole as f64;
                f64::from_bits((near.to_bits() as i64).saturating_add(steps) as u64)
            }),
            2 => units.clone().prop_map(|units| units as f64 / 1e18),
            2 => any::<f64>(),
            1 => select(vec![0.0, -0.0, 5e-324, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
        ];
        prop_oneof![
            whole.prop_map(integer),
            units.prop_map(|units| Value::Decimal(Decimal::from_be_bytes(units.to_be_bytes()))),
            doubles.clone().prop_map(double),
            doubles.prop_map(|value| float(value as f32)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8192) })]

        /// Values that are not numbers are in the order too.
        #[test]
        fn the_order_of_values_is_total((a, b, c) in (number(), number(), number())) {
            prop_assert_eq!(a.order(&a), Ordering::Equal);
            prop_assert_eq!(a.order(&b), b.order(&a).reverse());
            let mut sorted = [&a, &b, &c];
            // If three values formed a cycle, neighbours would be in order but the ends would not.
            sorted.sort_by(|a, b| a.order(b));
            let [least, middle, most] = sorted;
            prop_assert!(least.order(middle).is_le() && middle.order(most).is_le());
            let (lower, upper) = (least.order(middle), middle.order(most));
            prop_assert_eq!(least.order(most), lower.min(upper), "{:?}", sorted);
        }

        /// Rounding may make different numbers equal, but never reverses their order. (Decimals are
        /// rounded twice on their way.)
        #[test]
        fn promotion_only_loses((a, b) in (number(), number())) {
            let is_decimal = |value: &Value| matches!(value, Value::Decimal(_));
            if !is_decimal(&a)
                && !is_decimal(&b)
                && let (Some(exact), Some(promoted)) = (order(&a, &b), a.compare(&b))
            {
                prop_assert!(promoted == Ordering::Equal || promoted == exact, "{:?} {:?}", exact, promoted);
            }
        }

        /// A decimal lies between the neighbours of the double that its digits parse to.
        #[test]
        fn a_decimal_is_next_to_its_double(units in prop_oneof![any::<i128>(), -1000i128..1000, -ONE..ONE]) {
            let decimal = Decimal::from_be_bytes(units.to_be_bytes());
            let nearest: f64 = decimal.to_string().parse().expect("digits");
            let decimal = Value::Decimal(decimal);
            prop_assert_eq!(order(&double(nearest.next_down()), &decimal), Some(Ordering::Less));
            prop_assert_eq!(order(&decimal, &double(nearest.next_up())), Some(Ordering::Less));
        }
    }
}
