//! What `spareval` takes, as opaque values: the caller passes `&*value` on without naming `spargebra`.
//!
//! Everything that would make two runs differ is rewritten on the way (S6): `NOW()` becomes a constant,
//! `RAND`, `UUID`, `STRUUID` and `BNODE` become custom functions under [`KEYED_FUNCTIONS`], which the caller
//! registers with `QueryEvaluator::with_custom_function` and keys by (query, close, row).

use crate::expression::Expression;
use crate::query::Query;
use somersault_model::EventTime;
use std::ops::Deref;
use std::sync::Arc;

/// The IRIs that replace `RAND`, `UUID`, `STRUUID` and `BNODE`, in this order. The last takes no or one argument.
pub const KEYED_FUNCTIONS: [&str; 4] =
    ["urn:somersault:rand", "urn:somersault:uuid", "urn:somersault:struuid", "urn:somersault:bnode"];

/// A query for `QueryEvaluator::prepare(&query)`, without a dataset clause.
#[derive(Debug, Clone)]
pub struct SparevalQuery(pub(crate) Arc<spargebra::Query>);

impl Deref for SparevalQuery {
    type Target = spargebra::Query;

    fn deref(&self) -> &spargebra::Query {
        &self.0
    }
}

/// An expression for `QueryEvaluator::evaluate_expression(&expression, bindings)`.
#[derive(Debug, Clone)]
pub struct SparevalExpression(pub(crate) sparopt::algebra::Expression);

impl Deref for SparevalExpression {
    type Target = sparopt::algebra::Expression;

    fn deref(&self) -> &sparopt::algebra::Expression {
        &self.0
    }
}

impl Query {
    /// The query for `spareval`: no dataset clause (the view resolves it), `NOW()` = `now`, keyed functions renamed.
    #[must_use]
    pub fn for_spareval(&self, now: EventTime) -> SparevalQuery {
        let _ = now;
        unimplemented!()
    }
}

impl Expression {
    /// The expression for `spareval`, to be evaluated on one row; `names[v]` is the name under which the value
    /// of variable `v` is given. `None` if it holds EXISTS, which needs the data.
    #[must_use]
    pub fn for_spareval(&self, names: &[String], now: EventTime) -> Option<SparevalExpression> {
        let _ = (names, now);
        unimplemented!()
    }
}
