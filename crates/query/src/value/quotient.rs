//! Division of decimals (F&O 3.1, section 4.2.4): exact to the last of the eighteen digits that a
//! decimal has after its point; further digits are truncated.

use crate::value::running_sum::{ONE, units_of};
use num_bigint::BigInt;
use oxsdatatypes::Decimal;

/// `dividend` / `divisor`; `None` for a divisor of zero, and where the quotient has too many
/// digits.
pub(crate) fn quotient(dividend: Decimal, divisor: Decimal) -> Option<Decimal> {
    let (dividend, divisor) = (units_of(dividend), units_of(divisor));
    if divisor == 0 {
        return None;
    }
    let units = match dividend.checked_mul(ONE) {
        Some(scaled) => scaled.checked_div(divisor)?,
        None => i128::try_from(BigInt::from(dividend) * ONE / divisor).ok()?,
    };
    Some(Decimal::from_be_bytes(units.to_be_bytes()))
}
