//! The data that outlives a transaction: the snapshot that all read, what committed on it since,
//! and the owned windows of procedures.
//!
//! What committed lies in two layers, so that nothing is sorted again when a new snapshot comes. A
//! lane uses them so:
//!
//! 1. It runs transactions; all that commit write into the newer layer.
//! 2. It hands their effects to the log, and calls [`TransactionState::seal`]: what committed so
//!    far is the older layer, and the newer one is empty.
//! 3. When a snapshot has all that was sealed, it calls [`TransactionState::advance`]: the older
//!    layer goes. Snapshots that do not have it come by [`TransactionState::rebase`].
//!
//! The one thing to know before changing it: a snapshot may hold a part of what the layers say,
//! never less than the snapshot before it.

use crate::procedure::compiled::CompiledProcedure;
use crate::procedure::graphs::KeptCounts;
use crate::procedure::txn::Change;
use crate::view::graph_view::Dataset;
use crate::view::layered_view::Layers;
use somersault_dictionary::Dictionary;
use somersault_model::{QuadIds, TermId};
use somersault_store::Snapshot;
use std::sync::Arc;

/// The data that transactions read and write.
pub struct TransactionState {
    pub(crate) layers: Layers,
    /// The dataset of queries without a dataset clause.
    pub(crate) stored: Dataset,
    pub(crate) counts: KeptCounts,
    /// An empty journal: the memory of the one before.
    pub(crate) journal: Vec<Change>,
    /// The number of the next batch or window.
    next_graph: u32,
}

/// A procedure with the batches and owned windows that it reads.
pub struct Procedure {
    pub(crate) compiled: Arc<CompiledProcedure>,
    /// The marks of its batches and windows.
    pub(crate) graphs: Vec<TermId>,
}

impl Procedure {
    /// Its steps.
    pub fn compiled(&self) -> &Arc<CompiledProcedure> {
        &self.compiled
    }

    /// The mark of an owned window, by its number.
    pub(crate) fn window(&self, number: usize) -> TermId {
        self.graphs[self.compiled.window(number)]
    }
}

impl TransactionState {
    /// Transactions over a snapshot, on which nothing has committed yet.
    pub fn new(base: Snapshot) -> TransactionState {
        TransactionState {
            layers: Layers::new(base),
            stored: Dataset::stored(),
            counts: KeptCounts::default(),
            journal: Vec::new(),
            next_graph: 0,
        }
    }

    /// The snapshot below all that committed since.
    pub fn base(&self) -> &Snapshot {
        self.layers.base()
    }

    /// The dictionary of all ids.
    pub fn dictionary(&self) -> &Dictionary {
        self.layers.base().store().dictionary()
    }

    /// The approximate bytes of what committed since the snapshot, and of the windows.
    pub fn memory_bytes(&self) -> usize {
        self.layers.bytes()
    }

    /// Whether something committed that is not sealed.
    pub fn has_unsealed(&self) -> bool {
        self.layers.has_unsealed()
    }

    /// Whether the snapshot has all that committed.
    pub fn is_settled(&self) -> bool {
        self.layers.is_settled()
    }

    /// Makes what committed so far the older layer. Returns false, and does nothing, while there is
    /// an older layer already.
    pub fn seal(&mut self) -> bool {
        self.layers.seal()
    }

    /// Goes to a newer snapshot, which may lack what was sealed.
    pub fn rebase(&mut self, base: Snapshot) {
        self.layers.rebase(base);
    }

    /// Goes to a snapshot that has all that was sealed.
    pub fn advance(&mut self, base: Snapshot) {
        self.layers.advance(base);
    }

    /// Gives a procedure its batches and windows, all of them empty.
    pub fn install(&mut self, compiled: Arc<CompiledProcedure>) -> Procedure {
        let graphs = compiled.kept().iter().map(|_| {
            let number = self.next_graph;
            self.next_graph += 1;
            TermId::kept_graph(number)
        });
        Procedure {
            graphs: graphs.collect(),
            compiled,
        }
    }

    /// Puts another text in a procedure's place. An owned window stays as it is if its clause is
    /// the same, and is empty otherwise.
    pub fn replace(&mut self, old: Procedure, compiled: Arc<CompiledProcedure>) -> Procedure {
        let mut new = self.install(compiled);
        let mut left = Vec::new();
        for (graph, mark) in old.compiled.kept().iter().zip(&old.graphs) {
            let clause = old.compiled.clause(graph);
            let place = new.compiled.kept().iter().position(|other| other == graph);
            let place = place.filter(|_| clause.is_some() && new.compiled.clause(graph) == clause);
            match place {
                Some(place) => new.graphs[place] = *mark,
                None => left.push(*mark),
            }
        }
        left.into_iter().for_each(|mark| self.clear(mark));
        new
    }

    /// Forgets a procedure and what its windows show.
    pub fn remove(&mut self, procedure: Procedure) {
        procedure.graphs.iter().for_each(|mark| self.clear(*mark));
    }

    /// The statements that an owned window shows, in no order.
    pub fn window(&self, procedure: &Procedure, number: usize) -> Vec<QuadIds> {
        self.layers.kept.statements(procedure.window(number))
    }

    fn clear(&mut self, mark: TermId) {
        self.counts.clear(&mut self.layers.kept, mark);
    }
}
