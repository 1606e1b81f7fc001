//! The parts directly inside a pattern or an expression: the one place that a walk over the algebra
//! takes their shape from. The one thing to know before changing it: a pattern that is left out
//! here is passed over by every walk.

use crate::algebra::Pattern;
use crate::algebra::expression::{Aggregate, Expression};

/// Defines the parts, borrowed or borrowed mutably.
macro_rules! parts {
    ($parts:ident, $children:ident, $iter:ident $(, $mut:tt)?) => {
        impl Pattern {
            /// The patterns and the expressions directly inside.
            pub(crate) fn $parts(
                &$($mut)? self,
            ) -> (Vec<&$($mut)? Pattern>, Vec<&$($mut)? Expression>) {
                let mut expressions = Vec::new();
                let patterns = match self {
                    Pattern::Bgp(_) | Pattern::Path { .. } | Pattern::Values { .. } => Vec::new(),
                    Pattern::Join(members) | Pattern::Union(members) => members.$iter().collect(),
                    Pattern::LeftJoin { left, right, filter } => {
                        expressions.extend(filter);
                        vec![&$($mut)? **left, &$($mut)? **right]
                    }
                    Pattern::Minus { left, right } => vec![&$($mut)? **left, &$($mut)? **right],
                    Pattern::Filter { inner, condition: expression }
                    | Pattern::Extend { inner, expression, .. } => {
                        expressions.push(expression);
                        vec![&$($mut)? **inner]
                    }
                    Pattern::Group { inner, aggregates, .. } => {
                        expressions.extend(aggregates.$iter().filter_map(|(_, one)| match one {
                            Aggregate::CountSolutions { .. } => None,
                            Aggregate::Of { expression, .. } => Some(expression),
                        }));
                        vec![&$($mut)? **inner]
                    }
                    Pattern::OrderBy { inner, keys } => {
                        expressions.extend(keys.$iter().map(|key| &$($mut)? key.expression));
                        vec![&$($mut)? **inner]
                    }
                    Pattern::Graph { inner, .. }
                    | Pattern::Service { inner, .. }
                    | Pattern::Project { inner, .. }
                    | Pattern::Slice { inner, .. }
                    | Pattern::Distinct(inner)
                    | Pattern::Reduced(inner) => vec![&$($mut)? **inner],
                };
                (patterns, expressions)
            }
        }

        impl Expression {
            /// The expressions directly inside; the pattern of EXISTS has others.
            pub fn $children(&$($mut)? self) -> Vec<&$($mut)? Expression> {
                use Expression as E;
                match self {
                    E::Constant(_) | E::Variable(_) | E::Bound(_) | E::Exists(_) => Vec::new(),
                    E::Or(list) | E::And(list) | E::Coalesce(list) | E::Call(_, list) => {
                        list.$iter().collect()
                    }
                    E::Not(a) | E::UnaryPlus(a) | E::UnaryMinus(a) => vec![&$($mut)? **a],
                    E::Compare(_, a, b) | E::SameTerm(a, b) | E::Arithmetic(_, a, b) => {
                        vec![&$($mut)? **a, &$($mut)? **b]
                    }
                    E::In(a, list) => [&$($mut)? **a].into_iter().chain(list).collect(),
                    E::If(a, b, c) => vec![&$($mut)? **a, &$($mut)? **b, &$($mut)? **c],
                }
            }
        }
    };
}

parts!(parts, children, iter);
parts!(parts_mut, children_mut, iter_mut, mut);

impl Pattern {
    /// The patterns directly inside, and those of EXISTS in its expressions.
    pub(crate) fn inner_patterns(&self) -> Vec<&Pattern> {
        let (mut patterns, mut expressions) = self.parts();
        while let Some(expression) = expressions.pop() {
            match expression {
                Expression::Exists(pattern) => patterns.push(pattern),
                other => expressions.extend(other.children()),
            }
        }
        patterns
    }

    /// Whether it is a SERVICE, or one is anywhere inside.
    pub(crate) fn has_service(&self) -> bool {
        let mut patterns = vec![self];
        while let Some(pattern) = patterns.pop() {
            if matches!(pattern, Pattern::Service { .. }) {
                return true;
            }
            patterns.extend(pattern.inner_patterns());
        }
        false
    }
}
