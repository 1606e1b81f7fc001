//! Rewriting of `spargebra` algebra: the walk, and the functions whose values would differ between
//! two runs (S6), which are replaced before `spareval` gets the algebra.

use oxrdf::{Literal, NamedNode};
use spargebra::algebra::{
    AggregateExpression, Expression, Function, GraphPattern, OrderExpression,
};

/// The IRIs that replace `RAND`, `UUID`, `STRUUID` and `BNODE`, in this order. The last takes no or
/// one argument.
pub const KEYED_FUNCTIONS: [&str; 4] = [
    "urn:somersault:rand",
    "urn:somersault:uuid",
    "urn:somersault:struuid",
    "urn:somersault:bnode",
];

/// A change of patterns and expressions. Each is changed after those inside it.
pub(crate) trait Rewrite {
    /// Whether the patterns that a remote service evaluates are changed too.
    const ENTERS_SERVICES: bool;

    /// Changes a pattern.
    fn pattern(&mut self, _pattern: &mut GraphPattern) {}

    /// Changes an expression.
    fn expression(&mut self, _expression: &mut Expression) {}
}

/// Applies a function to every expression of a pattern, inner ones first. The expressions of a
/// remote service stay as they are.
pub(crate) fn each_expression(
    pattern: &mut GraphPattern,
    change: &mut impl FnMut(&mut Expression),
) {
    struct Each<'c, F>(&'c mut F);
    impl<F: FnMut(&mut Expression)> Rewrite for Each<'_, F> {
        const ENTERS_SERVICES: bool = false;

        fn expression(&mut self, expression: &mut Expression) {
            (self.0)(expression);
        }
    }
    rewrite(pattern, &mut Each(change));
}

/// Applies a change to a pattern and all that is in it.
pub(crate) fn rewrite<R: Rewrite>(pattern: &mut GraphPattern, change: &mut R) {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Path { .. } | GraphPattern::Values { .. } => {}
        GraphPattern::Join { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => {
            rewrite(left, change);
            rewrite(right, change);
        }
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } => {
            rewrite(left, change);
            rewrite(right, change);
            if let Some(expression) = expression {
                rewrite_in(expression, change);
            }
        }
        GraphPattern::Filter { expr, inner } => {
            rewrite_in(expr, change);
            rewrite(inner, change);
        }
        GraphPattern::Extend {
            inner, expression, ..
        } => {
            rewrite_in(expression, change);
            rewrite(inner, change);
        }
        GraphPattern::OrderBy { inner, expression } => {
            for key in expression {
                match key {
                    OrderExpression::Asc(expression) | OrderExpression::Desc(expression) => {
                        rewrite_in(expression, change)
                    }
                }
            }
            rewrite(inner, change);
        }
        GraphPattern::Group {
            inner, aggregates, ..
        } => {
            for (_, aggregate) in aggregates {
                if let AggregateExpression::FunctionCall { expr, .. } = aggregate {
                    rewrite_in(expr, change);
                }
            }
            rewrite(inner, change);
        }
        GraphPattern::Graph { inner, .. }
        | GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => rewrite(inner, change),
        GraphPattern::Service { inner, .. } => {
            if R::ENTERS_SERVICES {
                rewrite(inner, change);
            }
        }
    }
    change.pattern(pattern);
}

fn rewrite_in<R: Rewrite>(expression: &mut Expression, change: &mut R) {
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
            rewrite_in(a, change);
            rewrite_in(b, change);
        }
        Expression::UnaryPlus(a) | Expression::UnaryMinus(a) | Expression::Not(a) => {
            rewrite_in(a, change)
        }
        Expression::Exists(pattern) => rewrite(pattern, change),
        Expression::If(a, b, c) => {
            for part in [a, b, c] {
                rewrite_in(part, change);
            }
        }
        Expression::In(a, list) => {
            rewrite_in(a, change);
            for member in list {
                rewrite_in(member, change);
            }
        }
        Expression::Coalesce(list) | Expression::FunctionCall(_, list) => {
            for member in list {
                rewrite_in(member, change);
            }
        }
    }
    change.expression(expression);
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
