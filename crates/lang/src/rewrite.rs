//! Rewriting of `spargebra` algebra before `spareval` gets it: what would differ between two runs goes (S6).

use crate::spareval::KEYED_FUNCTIONS;
use oxrdf::{Literal, NamedNode};
use spargebra::algebra::{
    AggregateExpression, Expression, Function, GraphPattern, OrderExpression,
};

/// Applies a function to every expression of a pattern, inner ones first.
pub(crate) fn each_expression(
    pattern: &mut GraphPattern,
    change: &mut impl FnMut(&mut Expression),
) {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Path { .. } | GraphPattern::Values { .. } => {}
        GraphPattern::Join { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => {
            each_expression(left, change);
            each_expression(right, change);
        }
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } => {
            each_expression(left, change);
            each_expression(right, change);
            if let Some(expression) = expression {
                each_in(expression, change);
            }
        }
        GraphPattern::Filter { expr, inner } => {
            each_in(expr, change);
            each_expression(inner, change);
        }
        GraphPattern::Extend {
            inner, expression, ..
        } => {
            each_in(expression, change);
            each_expression(inner, change);
        }
        GraphPattern::OrderBy { inner, expression } => {
            for key in expression {
                match key {
                    OrderExpression::Asc(expression) | OrderExpression::Desc(expression) => {
                        each_in(expression, change)
                    }
                }
            }
            each_expression(inner, change);
        }
        GraphPattern::Group {
            inner, aggregates, ..
        } => {
            for (_, aggregate) in aggregates {
                if let AggregateExpression::FunctionCall { expr, .. } = aggregate {
                    each_in(expr, change);
                }
            }
            each_expression(inner, change);
        }
        GraphPattern::Graph { inner, .. }
        | GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => each_expression(inner, change),
        // What a remote service evaluates is its own affair.
        GraphPattern::Service { .. } => {}
    }
}

fn each_in(expression: &mut Expression, change: &mut impl FnMut(&mut Expression)) {
    match expression {
        Expression::NamedNode(_)
        | Expression::Literal(_)
        | Expression::Variable(_)
        | Expression::Bound(_) => {}
        Expression::Or(a, b)
        | Expression::And(a, b)
        | Expression::Equal(a, b)
        | Expression::SameTerm(a, b)
        | Expression::Greater(a, b)
        | Expression::GreaterOrEqual(a, b)
        | Expression::Less(a, b)
        | Expression::LessOrEqual(a, b)
        | Expression::Add(a, b)
        | Expression::Subtract(a, b)
        | Expression::Multiply(a, b)
        | Expression::Divide(a, b) => {
            each_in(a, change);
            each_in(b, change);
        }
        Expression::UnaryPlus(a) | Expression::UnaryMinus(a) | Expression::Not(a) => {
            each_in(a, change)
        }
        Expression::Exists(pattern) => each_expression(pattern, change),
        Expression::If(a, b, c) => {
            for part in [a, b, c] {
                each_in(part, change);
            }
        }
        Expression::In(a, list) => {
            each_in(a, change);
            for member in list {
                each_in(member, change);
            }
        }
        Expression::Coalesce(list) | Expression::FunctionCall(_, list) => {
            for member in list {
                each_in(member, change);
            }
        }
    }
    change(expression);
}

/// `RAND`, `UUID`, `STRUUID` and `BNODE` become the keyed functions.
pub(crate) fn key_functions(expression: &mut Expression) {
    if let Expression::FunctionCall(function, _) = expression {
        let index = match function {
            Function::Rand => 0,
            Function::Uuid => 1,
            Function::StrUuid => 2,
            Function::BNode => 3,
            _ => return,
        };
        *function = Function::Custom(NamedNode::new_unchecked(KEYED_FUNCTIONS[index]));
    }
}

pub(crate) fn is_now(expression: &Expression) -> bool {
    matches!(expression, Expression::FunctionCall(Function::Now, _))
}

/// `NOW()` becomes a constant.
pub(crate) fn replace_now(expression: &mut Expression, now: &Literal) {
    if is_now(expression) {
        *expression = Expression::Literal(now.clone());
    }
}
