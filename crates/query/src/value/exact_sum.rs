//! Sums of doubles that are exact until they are rounded once, at the end (S6): a sum never depends
//! on the order in which rows arrive. A superaccumulator: a fixed-point number wide enough for
//! every double, in limbs of 32 bits that are kept in 64, so that carries are rare.

/// Lowest bit position: subnormal doubles end at 2^-1074.
const BIAS: i32 = 1074;
/// 1074 fraction bits, 1024 integer bits, and 64 bits so that 2^64 additions cannot overflow.
const LIMBS: usize = (1074 + 1024 + 64) / 32 + 2;
/// After this many additions a limb may be close to overflow, so carries are propagated.
const ADDITIONS_PER_CARRY: u32 = 1 << 30;

/// An exact sum of doubles.
#[derive(Clone)]
pub(crate) struct ExactSum {
    limbs: Box<[i64; LIMBS]>,
    pending: u32,
    /// The IEEE sum of all values that are not finite, once there was one.
    special: Option<f64>,
}

impl ExactSum {
    /// Heap bytes.
    pub(crate) const BYTES: usize = LIMBS * size_of::<i64>();

    /// The empty sum.
    pub(crate) fn new() -> ExactSum {
        ExactSum {
            limbs: Box::new([0; LIMBS]),
            pending: 0,
            special: None,
        }
    }

    /// Adds one value.
    pub(crate) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.special = Some(self.special.unwrap_or(0.0) + value);
            return;
        }
        let (mantissa, exponent) = split(value);
        let position = (exponent + BIAS) as usize;
        let (limb, shift) = (position / 32, position % 32);
        let shifted = u128::from(mantissa) << shift;
        let negative = value.is_sign_negative();
        for part in 0..3 {
            let digit = ((shifted >> (32 * part)) & 0xffff_ffff) as i64;
            if negative {
                self.limbs[limb + part] -= digit;
            } else {
                self.limbs[limb + part] += digit;
            }
        }
        self.pending += 1;
        if self.pending >= ADDITIONS_PER_CARRY {
            self.carry();
        }
    }

    /// Normalises every limb but the highest to 0..2^32.
    fn carry(&mut self) {
        let mut carry = 0i64;
        for limb in &mut self.limbs[..LIMBS - 1] {
            let sum = *limb + carry;
            *limb = sum & 0xffff_ffff;
            carry = sum >> 32;
        }
        self.limbs[LIMBS - 1] += carry;
        self.pending = 0;
    }

    /// The sum, rounded once to the nearest double, ties to even.
    pub(crate) fn value(mut self) -> f64 {
        if let Some(special) = self.special {
            return special;
        }
        self.carry();
        let negative = self.limbs[LIMBS - 1] < 0;
        if negative {
            for limb in self.limbs.iter_mut() {
                *limb = -*limb;
            }
            self.carry();
        }
        let magnitude = self.rounded_magnitude();
        if negative { -magnitude } else { magnitude }
    }

    fn rounded_magnitude(&self) -> f64 {
        let Some(top) = (0..LIMBS).rev().find(|at| self.limbs[*at] != 0) else {
            return 0.0;
        };
        let top_bit = top * 32 + (63 - self.limbs[top].leading_zeros() as usize);
        // The 53 bits that a double keeps start at `low`; below 2^-1074 there is nothing.
        let low = top_bit.saturating_sub(52);
        let mut mantissa = self.bits(low, 53);
        if low > 0 {
            let half = self.bits(low - 1, 1) == 1;
            let below = (0..low - 1).any(|bit| self.bits(bit, 1) == 1);
            if half && (below || mantissa & 1 == 1) {
                mantissa += 1;
            }
        }
        scale(mantissa, low as i32 - BIAS)
    }

    /// `count` (at most 53) bits from bit `from` on.
    fn bits(&self, from: usize, count: usize) -> u64 {
        let (limb, shift) = (from / 32, from % 32);
        let mut wide = 0u128;
        for part in 0..3 {
            if let Some(value) = self.limbs.get(limb + part) {
                wide |= (*value as u64 as u128) << (32 * part);
            }
        }
        ((wide >> shift) & ((1u128 << count) - 1)) as u64
    }
}

/// Splits the absolute value of a finite double into a mantissa of 53 bits, and the power of two
/// that it is multiplied by.
#[inline]
pub(crate) fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match ((bits >> 52) & 0x7ff) as i32 {
        0 => (fraction, -BIAS),
        biased => (fraction | (1 << 52), biased - 1075),
    }
}

/// `mantissa` (at most 2^53) times 2^`exponent`, exact or infinite.
fn scale(mantissa: u64, exponent: i32) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let top = 63 - mantissa.leading_zeros() as i32 + exponent;
    if top > 1023 {
        return f64::INFINITY;
    }
    if top < -1022 {
        // A subnormal: exponent is -1074 here, since nothing lies below it.
        return f64::from_bits(mantissa);
    }
    let shift = 52 - (63 - mantissa.leading_zeros() as i32);
    let fraction = if shift >= 0 {
        mantissa << shift
    } else {
        mantissa >> -shift
    };
    f64::from_bits((((top + 1023) as u64) << 52) | (fraction & ((1 << 52) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::new();
        for value in values {
            sum.add(*value);
        }
        sum.value()
    }

    #[test]
    fn an_exact_sum_keeps_what_plain_addition_loses() {
        assert_eq!(sum(&[1e308, 1.0, -1e308]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e308, 1e308]), f64::INFINITY);
        assert_eq!(sum(&[1e308, 1e308, -1e308]), 1e308);
        assert_eq!(
            sum(&[f64::MIN_POSITIVE / 4.0, 0.0]),
            f64::MIN_POSITIVE / 4.0
        );
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[-1.5, -2.25]), -3.75);
    }

    #[test]
    fn infinities_follow_ieee() {
        assert_eq!(sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[f64::NAN, 1.0]).is_nan());
    }

    proptest! {
        #[test]
        fn the_sum_of_a_single_value_is_that_value(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                prop_assert_eq!(sum(&[value]), value);
            }
        }

        #[test]
        fn two_values_are_rounded_as_ieee_does(a in any::<f64>(), b in any::<f64>()) {
            prop_assert_eq!(sum(&[a, b]), a + b);
        }

        #[test]
        fn order_does_not_matter(mut values in proptest::collection::vec(any::<f64>(), 0..20)) {
            let forwards = sum(&values);
            values.reverse();
            prop_assert_eq!(forwards.to_bits(), sum(&values).to_bits());
        }
    }
}
