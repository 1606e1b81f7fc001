//! Running sums, from which values can be taken back. The one thing to know before changing it: a
//! sum is exact until it is rounded once, at its end. So it depends neither on the order of its
//! values (S6), nor on values that were added and taken back.

use crate::value::exact::Exact;
use crate::value::exact_sum::ExactSum;
use crate::value::quotient::quotient;
use crate::value::term_value::Value;
use num_bigint::BigInt;
use oxsdatatypes::{Decimal, Double, Float, Integer};
use somersault_lang::Arithmetic;

/// The units in an integer of 1.
pub(crate) const ONE: i128 = 10i128.pow(18);

/// Integers and decimals are added in numbers wider than theirs: whether a sum overflows does not
/// depend on the order of addition. Once a float or double is among the values everything goes
/// through the exact accumulator.
#[derive(Default)]
pub(crate) struct Sum {
    integers: i128,
    decimals: Option<WideSum>,
    wide: Option<Box<ExactTotal>>,
    inexact: Option<Inexact>,
    count: i64,
}

/// A sum of numbers that do not fit the narrow types.
struct ExactTotal {
    sum: Exact,
    integers: i64,
    decimals: i64,
}

impl ExactTotal {
    fn count(&mut self, value: &Exact, by: i64) {
        let count = if value.is_integer() {
            &mut self.integers
        } else {
            &mut self.decimals
        };
        *count += by;
    }
}

/// A sum of decimals in units of 10^-18, as [`Decimal`] counts: its low 128 bits, and the number of
/// times they wrapped.
#[derive(Default, Clone)]
struct WideSum {
    low: i128,
    wraps: i64,
    count: i64,
}

/// A sum of floats and doubles.
struct Inexact {
    sum: ExactSum,
    floats: i64,
    doubles: i64,
}

impl WideSum {
    fn add(&mut self, units: i128) {
        let (low, wrapped) = self.low.overflowing_add(units);
        self.low = low;
        if wrapped {
            self.wraps += if units < 0 { -1 } else { 1 };
        }
        self.count += 1;
    }

    fn take(&mut self, units: i128) {
        let (low, wrapped) = self.low.overflowing_sub(units);
        self.low = low;
        if wrapped {
            self.wraps += if units < 0 { 1 } else { -1 };
        }
        self.count -= 1;
    }

    /// The sum, whatever its size.
    fn exact(&self) -> Exact {
        Exact::decimal(BigInt::from(self.low) + (BigInt::from(self.wraps) << 128))
    }

    /// `None` if the sum does not fit a decimal of 128 bits.
    fn value(&self) -> Option<Decimal> {
        (self.wraps == 0).then(|| Decimal::from_be_bytes(self.low.to_be_bytes()))
    }
}

impl Sum {
    #[inline]
    pub(crate) fn add_integer(&mut self, value: i64) {
        self.integers += i128::from(value);
        self.count += 1;
    }

    /// `None` if the value is not a number.
    pub(crate) fn add(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Integer(value) => {
                self.add_integer((*value).into());
                return Some(());
            }
            Value::Decimal(value) => self.decimals.get_or_insert_default().add(units_of(*value)),
            Value::Wide(value) => {
                let wide = self.wide.get_or_insert_with(|| {
                    Box::new(ExactTotal {
                        sum: Exact::integer(0),
                        integers: 0,
                        decimals: 0,
                    })
                });
                wide.sum = wide.sum.plus(value);
                wide.count(value, 1);
            }
            Value::Float(value) => {
                let inexact = self.inexact.get_or_insert_with(Inexact::new);
                inexact.sum.add(f64::from(Double::from(*value)));
                inexact.floats += 1;
            }
            Value::Double(value) => {
                let inexact = self.inexact.get_or_insert_with(Inexact::new);
                inexact.sum.add(f64::from(*value));
                inexact.doubles += 1;
            }
            _ => return None,
        }
        self.count += 1;
        Some(())
    }

    /// Takes back a value that was added once. Returns whether that was possible: a value that is
    /// not finite leaves no trace of the others.
    #[must_use]
    pub(crate) fn take(&mut self, value: &Value) -> bool {
        match value {
            Value::Integer(value) => self.integers -= i128::from(i64::from(*value)),
            Value::Decimal(value) => {
                let Some(decimals) = &mut self.decimals else {
                    return false;
                };
                decimals.take(units_of(*value));
                // The type of a sum depends on the types of its values.
                if decimals.count == 0 {
                    self.decimals = None;
                }
            }
            Value::Wide(value) => {
                let Some(wide) = &mut self.wide else {
                    return false;
                };
                wide.sum = wide.sum.plus(&value.negated());
                wide.count(value, -1);
                if wide.integers + wide.decimals == 0 {
                    self.wide = None;
                }
            }
            Value::Float(_) | Value::Double(_) => {
                let Some(inexact) = &mut self.inexact else {
                    return false;
                };
                if !inexact.take(value) {
                    return false;
                }
                if inexact.floats + inexact.doubles == 0 {
                    self.inexact = None;
                }
            }
            _ => return false,
        }
        self.count -= 1;
        true
    }

    /// The unrounded sum: an integer unless there was a decimal; `None` if it has too many digits.
    fn exact(&self) -> Option<Value> {
        if self.wide.is_none() {
            match &self.decimals {
                None => {
                    if let Ok(sum) = i64::try_from(self.integers) {
                        return Some(Value::Integer(sum.into()));
                    }
                }
                Some(decimals) => {
                    let mut sum = decimals.clone();
                    if let Some(units) = self.integers.checked_mul(ONE) {
                        sum.add(units);
                        if let Some(sum) = sum.value() {
                            return Some(Value::Decimal(sum));
                        }
                    }
                }
            }
        }
        let mut sum = Exact::integer(self.integers);
        if let Some(decimals) = &self.decimals {
            sum = sum.plus(&decimals.exact());
        }
        if let Some(wide) = &self.wide {
            sum = sum.plus(&wide.sum);
            sum = match wide.decimals {
                0 if self.decimals.is_none() => sum.truncated(),
                _ => sum.as_decimal(),
            };
        }
        sum.into_value()
    }

    /// `None` if the sum has too many digits.
    pub(crate) fn value(&self) -> Option<Value> {
        let exact = self.exact()?;
        let Some(inexact) = &self.inexact else {
            return Some(exact);
        };
        let mut sum = inexact.sum.clone();
        sum.add(f64::from(exact.as_double()?));
        let sum = sum.value();
        Some(match inexact.doubles {
            0 => Value::Float(Float::from(sum as f32)),
            _ => Value::Double(Double::from(sum)),
        })
    }

    /// The average of the values added; 0 if there are none.
    pub(crate) fn average(&self) -> Option<Value> {
        let count = Integer::from(self.count);
        if self.count == 0 {
            return Some(Value::Integer(count));
        }
        Some(match self.value()? {
            Value::Integer(sum) => Value::Decimal(quotient(sum.into(), count.into())?),
            Value::Decimal(sum) => Value::Decimal(quotient(sum, count.into())?),
            Value::Wide(sum) => sum.arithmetic(Arithmetic::Divide, &Exact::integer(self.count))?,
            Value::Float(sum) => Value::Float(sum / Float::from(count)),
            Value::Double(sum) => Value::Double(sum / Double::from(count)),
            _ => return None,
        })
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let wide = self.wide.as_ref().map_or(0, |wide| wide.sum.bytes());
        wide + self.inexact.as_ref().map_or(0, |_| ExactSum::BYTES)
    }
}

impl Inexact {
    fn new() -> Inexact {
        Inexact {
            sum: ExactSum::new(),
            floats: 0,
            doubles: 0,
        }
    }

    fn take(&mut self, value: &Value) -> bool {
        let (number, count) = match value {
            Value::Float(value) => (f64::from(Double::from(*value)), &mut self.floats),
            Value::Double(value) => (f64::from(*value), &mut self.doubles),
            _ => return false,
        };
        if !number.is_finite() {
            return false;
        }
        self.sum.add(-number);
        *count -= 1;
        true
    }
}

/// A decimal in units.
pub(crate) fn units_of(value: Decimal) -> i128 {
    i128::from_be_bytes(value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[Value]) -> Option<Sum> {
        let mut sum = Sum::default();
        values.iter().try_for_each(|value| sum.add(value))?;
        Some(sum)
    }

    fn text(value: Option<Value>) -> Option<String> {
        Some(value?.into_term().to_string())
    }

    fn sum(values: &[Value]) -> Option<String> {
        text(of(values)?.value())
    }

    #[test]
    fn a_sum_overflows_by_its_end_and_not_on_its_way() {
        let integer = |n: i64| Value::Integer(n.into());
        let half = Value::Decimal("0.5".parse().expect("a decimal"));
        let most = Value::Decimal(Decimal::MAX);
        let least = Value::Decimal(Decimal::MIN);
        let max = integer(i64::MAX);
        let of_type = |text, name| {
            Some(format!(
                "\"{text}\"^^<http://www.w3.org/2001/XMLSchema#{name}>"
            ))
        };
        // A sum that exceeds the narrow types is wide, and neither rounded nor lost.
        assert_eq!(
            sum(&[max.clone(), integer(1)]),
            of_type("9223372036854775808", "integer")
        );
        let back = sum(&[max.clone(), integer(1), integer(-1)]);
        assert_eq!(back, sum(&[integer(i64::MAX)]));
        assert_eq!(back, sum(&[integer(-1), integer(1), max.clone()]));
        let typed = |text| of_type(text, "decimal");
        assert_eq!(
            sum(&[most.clone(), half.clone()]),
            typed("170141183460469231732.187303715884105727")
        );
        assert_eq!(
            sum(&[
                least.clone(),
                Value::Decimal("-0.5".parse().expect("a decimal"))
            ]),
            typed("-170141183460469231732.187303715884105728")
        );
        let all = [most, half.clone(), least, integer(1)];
        // The least decimal is one unit further from 0 than the greatest.
        assert_eq!(sum(&all), typed("1.499999999999999999"));
        assert_eq!(sum(&[half, max]), typed("9223372036854775807.5"));
    }

    fn number() -> impl Strategy<Value = Value> {
        let integer = prop_oneof![-9i64..9, Just(i64::MAX), Just(i64::MIN)];
        let units = prop_oneof![-9i128..9, any::<i128>(), Just(i128::MAX), Just(i128::MIN)];
        prop_oneof![
            integer.prop_map(|n| Value::Integer(n.into())),
            units.prop_map(|n| Value::Decimal(Decimal::from_be_bytes(n.to_be_bytes()))),
            any::<f32>().prop_map(|n| Value::Float(n.into())),
            any::<f64>().prop_map(|n| Value::Double(n.into())),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2048) })]

        /// A value that was added and taken back leaves no trace, neither in the sum nor in its
        /// type.
        #[test]
        fn subtracting_a_value_undoes_adding_it(
            numbers in proptest::collection::vec((number(), any::<bool>()), 0..12),
        ) {
            let all: Vec<Value> = numbers.iter().map(|(value, _)| value.clone()).collect();
            let stay: Vec<Value> = (numbers.iter().filter(|(_, stays)| *stays))
                .map(|(value, _)| value.clone())
                .collect();
            let mut sum = of(&all).expect("numbers");
            let mut leave = numbers.iter().filter(|(_, stays)| !*stays);
            let could = leave.all(|(value, _)| sum.take(value));
            let is_finite = |value: &Value| {
                value.as_double().is_some_and(|number| f64::from(number).is_finite())
            };
            prop_assert!(could || !all.iter().all(is_finite));
            if could {
                let twin = of(&stay).expect("numbers");
                prop_assert_eq!(text(sum.value()), text(twin.value()));
                prop_assert_eq!(text(sum.average()), text(twin.average()));
            }
        }
    }
}
