//! A CONSTRUCT over one small document at a time, many times: how plain JSON and CSV become
//! statements.
//!
//! 1. [`DocumentQuery::new`] compiles the CONSTRUCT, and finds the predicates that it reads.
//! 2. The terms of a document get ids of one execution ([`DocumentGraph`]); no dictionary of the
//!    engine ever sees those that make no statement.
//! 3. [`DocumentQuery::construct`] evaluates it with the plan of the document before.
//!
//! The one thing to know before changing it: a document shares no term with the next one, so an
//! answer depends on its document alone.

mod graph;
mod query;

pub use graph::DocumentGraph;
pub use query::DocumentQuery;
