//! The share of the rows that a condition keeps, and its cost: estimated from the number of values
//! of its variables, and otherwise from usual figures.

use crate::algebra::expression::Expr;
use somersault_lang::{Comparison, Function, VarId};

/// The share where nothing is known.
const UNKNOWN: f64 = 0.5;
/// The share of an inequality.
const RANGE: f64 = 1.0 / 3.0;
/// The share of a search in strings.
const SEARCH: f64 = 0.1;

/// The share of the rows that a condition leaves; `values` says how many values a variable has.
pub(crate) fn share(condition: &Expr, values: &dyn Fn(VarId) -> f64) -> f64 {
    let share = match condition {
        Expr::And(list) => list.iter().map(|e| share(e, values)).product(),
        Expr::Or(list) => {
            let none: f64 = list.iter().map(|e| 1.0 - share(e, values)).product();
            1.0 - none
        }
        Expr::Not(inner) => 1.0 - share(inner, values),
        Expr::Compare(Comparison::Equal, a, b) | Expr::SameTerm(a, b) => equal(a, b, values),
        Expr::Compare(..) => RANGE,
        Expr::In(a, list) => list.iter().map(|b| equal(a, b, values)).sum::<f64>(),
        Expr::Matches(..) => SEARCH,
        Expr::Call(Function::Contains | Function::StrStarts | Function::StrEnds, _)
        | Expr::Call(Function::Regex, _) => SEARCH,
        _ => UNKNOWN,
    };
    share.clamp(1e-9, 1.0)
}

/// Two expressions are equal as often as the one with more values has each of them.
fn equal(a: &Expr, b: &Expr, values: &dyn Fn(VarId) -> f64) -> f64 {
    let one = |e: &Expr| match e {
        Expr::Variable(v) => values(*v),
        Expr::Constant(_) => 1.0,
        // A computed value tells its variables apart less well.
        _ => e.variables().iter().map(values).fold(1.0, f64::max).sqrt(),
    };
    match (a, b) {
        (Expr::Constant(_), Expr::Constant(_)) => UNKNOWN,
        _ => 1.0 / one(a).max(one(b)).max(1.0),
    }
}

/// Nanoseconds that an expression takes for a row.
pub(crate) fn nanos(expr: &Expr) -> f64 {
    let own = match expr {
        Expr::Constant(_) | Expr::Variable(_) => 5.0,
        Expr::Bound(_) | Expr::Not(_) | Expr::And(_) | Expr::Or(_) => 5.0,
        Expr::Compare(..) | Expr::SameTerm(..) | Expr::In(..) => 25.0,
        Expr::Exists(_) => 200.0,
        Expr::Matches(..) | Expr::Call(..) => 200.0,
        _ => 25.0,
    };
    let inner: f64 = expr.children().map(nanos).sum();
    own + inner
}
