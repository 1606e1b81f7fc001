//! Queries for `spareval`, the oracle of the tests, as opaque values: the caller passes `&*value`
//! on without naming `spargebra`.
//!
//! Everything that would make two runs differ is rewritten on the way (S6): `NOW()` becomes a
//! constant, `RAND`, `UUID`, `STRUUID` and `BNODE` become custom functions named by
//! [`KEYED_FUNCTIONS`], which the caller registers with `QueryEvaluator::with_custom_function` and
//! keys by (query, close, row).

use crate::algebra::query::Query;
use crate::sparql::rewrite;
use oxrdf::{Literal, vocab::xsd};
use somersault_model::EventTime;
use spargebra::algebra as al;
use std::ops::Deref;
use std::sync::Arc;

pub use crate::sparql::rewrite::KEYED_FUNCTIONS;

/// The IRI of `f:timestamp`, which the caller registers with the event times that it knows.
pub const TIMESTAMP_FUNCTION: &str = crate::sparql::timestamp::F_TIMESTAMP;

/// A query for `QueryEvaluator::prepare(&query)`, without a dataset clause.
#[derive(Debug, Clone)]
pub struct SparevalQuery(Arc<spargebra::Query>);

impl Deref for SparevalQuery {
    type Target = spargebra::Query;

    fn deref(&self) -> &spargebra::Query {
        &self.0
    }
}

/// The value of `NOW()` at a time: the xsd:dateTime in UTC.
#[must_use]
pub fn now_literal(now: EventTime) -> Literal {
    Literal::new_typed_literal(now.to_string(), xsd::DATE_TIME)
}

impl Query {
    /// The query for `spareval`: no dataset clause (the view resolves it), `NOW()` = `now`, keyed
    /// functions renamed. For a query without `NOW()` this only clones an `Arc`.
    ///
    /// # Panics
    /// If the query is one [without its pattern](Query::without_pattern).
    #[must_use]
    pub fn for_spareval(&self, now: EventTime) -> SparevalQuery {
        let algebra = self.algebra.as_ref();
        let algebra = algebra.expect("the pattern of the query was kept");
        if !self.reads_now {
            return SparevalQuery(Arc::clone(algebra));
        }
        let now = now_literal(now);
        let mut query = (**algebra).clone();
        rewrite::each_expression(pattern_mut(&mut query), &mut |e| {
            rewrite::replace_now(e, &now)
        });
        SparevalQuery(Arc::new(query))
    }

    /// Whether the query calls `NOW()`.
    #[must_use]
    pub fn reads_now(&self) -> bool {
        self.reads_now
    }
}

/// The pattern of a query of any form.
pub(crate) fn pattern_mut(query: &mut spargebra::Query) -> &mut al::GraphPattern {
    match query {
        spargebra::Query::Select { pattern, .. }
        | spargebra::Query::Construct { pattern, .. }
        | spargebra::Query::Describe { pattern, .. }
        | spargebra::Query::Ask { pattern, .. } => pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_a_date() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (817_500, "1970-01-01T00:13:37.5Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(now_literal(EventTime(millis)).value(), expected);
        }
        let _ = (now_literal(EventTime::MIN), now_literal(EventTime::MAX));
    }
}
