//! Columns of a grouped SELECT that are read by name: by a later column, and by HAVING.
//!
//! A later column may read an earlier one (SPARQL 1.1 Query, §16.1.2 and §18.2.4.4), but
//! `spargebra` refuses that where rows are grouped. Such a variable is written as an IRI before
//! `spargebra` reads the text, and turned back into the variable in the algebra. HAVING sees no
//! column in the specification (§18.2.4.2); here it does, as in Jena and RDF4J (ADR 25).

use crate::sparql::rewrite::{Rewrite, rewrite};
use crate::token::Token;
use oxrdf::Variable;
use spargebra::algebra::{Expression, GraphPattern};

/// The IRIs that stand for columns in one text.
pub(crate) struct ColumnIris<'t> {
    source: &'t str,
    tokens: &'t [Token],
    /// Their common beginning, which occurs nowhere in the text.
    start: String,
}

impl<'t> ColumnIris<'t> {
    pub(crate) fn new(source: &'t str, tokens: &'t [Token]) -> Self {
        let mut start = "urn:somersault:column:".to_owned();
        while source.contains(&start) {
            start.push(':');
        }
        ColumnIris {
            source,
            tokens,
            start,
        }
    }

    /// The spelling of the variable that is this token.
    pub(crate) fn spelling(&self, token: usize) -> String {
        format!("<{}{token}>", self.start)
    }

    /// Turns the IRIs of a pattern into the variables that they stand for.
    pub(crate) fn restore(&self, pattern: &mut GraphPattern) {
        struct Restore<'r, 't>(&'r ColumnIris<'t>);
        impl Rewrite for Restore<'_, '_> {
            const ENTERS_SERVICES: bool = true;

            fn expression(&mut self, expression: &mut Expression) {
                if let Expression::NamedNode(iri) = expression
                    && let Some(variable) = self.0.variable(iri.as_str())
                {
                    *expression = Expression::Variable(variable);
                }
            }
        }
        rewrite(pattern, &mut Restore(self));
    }

    fn variable(&self, iri: &str) -> Option<Variable> {
        let token: usize = iri.strip_prefix(&self.start)?.parse().ok()?;
        let name = self.tokens.get(token)?.text(self.source).get(1..)?;
        Some(Variable::new_unchecked(name))
    }
}

/// Lets HAVING read columns: where its condition reads one, it is looked at after the column has
/// its value. No other condition changes its place.
pub(crate) fn let_having_read_columns(pattern: &mut GraphPattern) {
    struct Raise;
    impl Rewrite for Raise {
        const ENTERS_SERVICES: bool = true;

        fn pattern(&mut self, pattern: &mut GraphPattern) {
            let GraphPattern::Extend {
                inner, variable, ..
            } = pattern
            else {
                return;
            };
            if let Some(expr) = take_having(inner, variable) {
                let inner = Box::new(std::mem::take(pattern));
                *pattern = GraphPattern::Filter { expr, inner };
            }
        }
    }
    rewrite(pattern, &mut Raise);
}

/// Takes the condition of HAVING out of a chain of columns, if it reads a variable.
fn take_having(pattern: &mut GraphPattern, column: &Variable) -> Option<Expression> {
    match pattern {
        GraphPattern::Extend { inner, .. } => take_having(inner, column),
        // VALUES behind the query is joined after HAVING.
        GraphPattern::Join { left, right } if matches!(**right, GraphPattern::Values { .. }) => {
            take_having(left, column)
        }
        GraphPattern::Filter { expr, inner } if is_grouped(inner) && reads(expr, column) => {
            let condition = expr.clone();
            *pattern = std::mem::take(inner);
            Some(condition)
        }
        _ => None,
    }
}

fn is_grouped(pattern: &GraphPattern) -> bool {
    match pattern {
        GraphPattern::Extend { inner, .. } => is_grouped(inner),
        GraphPattern::Group { .. } => true,
        _ => false,
    }
}

/// Whether an expression reads a variable. The pattern of EXISTS has variables of its own.
fn reads(expression: &Expression, variable: &Variable) -> bool {
    use Expression as E;
    let read = |part: &Expression| reads(part, variable);
    match expression {
        E::NamedNode(_) | E::Literal(_) | E::Exists(_) => false,
        E::Variable(name) | E::Bound(name) => name == variable,
        E::Or(a, b)
        | E::And(a, b)
        | E::Equal(a, b)
        | E::SameTerm(a, b)
        | E::Greater(a, b)
        | E::GreaterOrEqual(a, b)
        | E::Less(a, b)
        | E::LessOrEqual(a, b)
        | E::Add(a, b)
        | E::Subtract(a, b)
        | E::Multiply(a, b)
        | E::Divide(a, b) => read(a) || read(b),
        E::UnaryPlus(a) | E::UnaryMinus(a) | E::Not(a) => read(a),
        E::If(a, b, c) => read(a) || read(b) || read(c),
        E::In(a, list) => read(a) || list.iter().any(read),
        E::Coalesce(list) | E::FunctionCall(_, list) => list.iter().any(read),
    }
}
