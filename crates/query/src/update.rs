//! Updates: evaluated on a snapshot through an overlay of their own writes, they come out as net
//! deletes and inserts of quads; whoever owns the log makes them happen (S14, S15).

use crate::{Execution, QueryError, SnapshotView};
use oxrdf::{NamedNode, Quad};
use somersault_lang::Update;

/// What an update does to the stored graphs, net: nothing is both deleted and inserted, nothing is
/// deleted that is not there, nothing is inserted that is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    /// The statements that go.
    pub deletes: Vec<Quad>,
    /// The statements that come.
    pub inserts: Vec<Quad>,
}

/// The dataset that the SPARQL protocol gives for the WHERE clauses of an update, instead of what
/// its text says (`using-graph-uri`, `using-named-graph-uri`).
#[derive(Debug, Clone, Default)]
pub struct Using {
    /// The graphs whose merge is the default graph.
    pub default: Vec<NamedNode>,
    /// The named graphs.
    pub named: Vec<NamedNode>,
}

/// Evaluates all operations of a request in order, each seeing the effects of those before it.
/// The view's dataset is that of the stored graphs; windows do not take part.
///
/// # Errors
/// A limit, a remote document that cannot be read, an operation that is refused; then the whole
/// request has no effect.
pub fn evaluate_update(
    _update: &Update,
    _using: Option<&Using>,
    _view: SnapshotView,
    _execution: &Execution,
) -> Result<Effects, QueryError> {
    unimplemented!()
}
