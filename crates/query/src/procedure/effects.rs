//! What an update leaves, as quads for a record of its own in the log (S14, S15).
//!
//! The one thing to know before changing it: a graph that is cleared by its name is counted in the
//! snapshot, so nothing may be laid over that.

use crate::algebra::error::QueryError;
use crate::context::execution::Execution;
use crate::procedure::state::TransactionState;
use crate::procedure::txn::{NetEffects, UpdateKey};
use crate::update::Using;
use oxrdf::{GraphName, Quad, Term};
use somersault_dictionary::Dictionary;
use somersault_lang::Update;
use somersault_model::{Lease, QuadIds, TermId};
use somersault_store::Snapshot;

/// The effects of an update on the stored graphs: first whole graphs are cleared, then statements
/// of other graphs are deleted, then statements are inserted. Apart from cleared graphs they are
/// net: no statement is both deleted and inserted, none is deleted that does not exist, and none is
/// inserted that another graph holds already.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    /// The graphs of which all statements go.
    pub clears: Vec<GraphName>,
    /// The number of statements that they have.
    pub cleared: u64,
    /// The number of them that are among `inserts`, and so neither deleted nor inserted.
    pub kept: u64,
    /// The statements that go.
    pub deletes: Vec<Quad>,
    /// The statements that come.
    pub inserts: Vec<Quad>,
}

impl Effects {
    /// The effects of a transaction that ran on this snapshot alone, with nothing laid over it.
    pub fn of(net: &NetEffects, snapshot: &Snapshot) -> Effects {
        let dictionary = snapshot.store().dictionary();
        let counts = net.clears.iter().map(|it| snapshot.statement_count(*it));
        let is_cleared = |quad: &QuadIds| net.clears.binary_search(&quad.graph).is_ok();
        let kept = match net.clears.is_empty() {
            true => 0,
            false => {
                let inserts = net.inserts.iter();
                let kept = inserts.filter(|quad| is_cleared(quad) && snapshot.contains(**quad));
                kept.count() as u64
            }
        };
        let quads = |ids: &[QuadIds]| ids.iter().map(|quad| decode(*quad, dictionary)).collect();
        let clears = net.clears.iter();
        Effects {
            cleared: counts.sum(),
            kept,
            clears: clears.map(|it| graph_name(*it, dictionary)).collect(),
            deletes: quads(&net.deletes),
            inserts: quads(&net.inserts),
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.clears.is_empty() && self.deletes.is_empty() && self.inserts.is_empty()
    }

    /// The number of statements that hold now and did not before.
    pub fn inserted(&self) -> u64 {
        self.inserts.len() as u64 - self.kept
    }

    /// The number of statements that held before and no longer do.
    pub fn deleted(&self) -> u64 {
        self.deletes.len() as u64 + self.cleared - self.kept
    }
}

/// Evaluates an update on a snapshot. The terms that its values mention are held by `lease`.
///
/// # Errors
/// As [`Txn::update`](crate::Txn::update); the whole request has no effect then.
pub fn evaluate_update(
    update: &Update,
    using: Option<&Using>,
    snapshot: Snapshot,
    (execution, key): (&Execution, UpdateKey),
    lease: Lease,
) -> Result<Effects, QueryError> {
    let mut state = TransactionState::new(snapshot);
    let mut txn = state.begin(execution.clone(), lease);
    txn.enter_update(key, execution.now);
    txn.update(update, using)?;
    let net = txn.commit();
    Ok(Effects::of(&net, state.base()))
}

/// A statement of ids that the dictionary knows.
///
/// # Panics
/// If the dictionary does not know one of them, or a term cannot stand where it stands.
pub fn decode(quad: QuadIds, dictionary: &Dictionary) -> Quad {
    let known = "the terms of effects and messages are known while they are written";
    let term = |id: TermId| dictionary.decode(id).expect(known);
    Quad {
        subject: match term(quad.subject) {
            Term::NamedNode(name) => name.into(),
            Term::BlankNode(node) => node.into(),
            other => unreachable!("a statement has such a term in this place: {other}"),
        },
        predicate: match term(quad.predicate) {
            Term::NamedNode(name) => name,
            other => unreachable!("a statement has such a term in this place: {other}"),
        },
        object: term(quad.object),
        graph_name: graph_name(quad.graph, dictionary),
    }
}

fn graph_name(graph: TermId, dictionary: &Dictionary) -> GraphName {
    if graph == TermId::DEFAULT_GRAPH {
        return GraphName::DefaultGraph;
    }
    match dictionary.decode(graph) {
        Some(Term::NamedNode(name)) => name.into(),
        Some(Term::BlankNode(node)) => node.into(),
        other => unreachable!("a graph has such a name: {other:?}"),
    }
}
