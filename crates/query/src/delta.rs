//! Delta evaluation of a standing query: the rows of its cores are kept from one execution to the next, over the windows
//! as they slide. At each close rows leave with their statements, and new ones are found from what has come alone, which
//! the plans of the variants begin with; what lies above the cores is evaluated over the kept rows as it would be over
//! any others.
//!
//! The one thing to know before changing it: nothing here may decide an answer. Where a window did not merely slide, or a
//! stored graph has changed in what a core reads, the rows are made anew. `query/tests/it/delta.rs` compares the answers
//! with those of a whole evaluation at every close (EX-1).

mod cores;
mod rows;

use crate::estimate::Cardinality;
use crate::execution::Guard;
use crate::local::LocalTerms;
use crate::logical::Position;
use crate::parameters::Given;
use crate::prepared::Prepared;
use crate::sources::Graphs;
use crate::table::Table;
use crate::{Answer, Execution, GraphView, QueryError, SnapshotView};
use cores::{Core, Splitter, obstacle};
use rows::{Looks, Rows};
use somersault_model::{EventTime, Sn, TermId};
use somersault_store::{PastWindow, WindowVersion};
use std::sync::Arc;
use std::time::Instant;

/// A query with more constants is not split: each part would have them all.
const MOST_CONSTANTS: usize = 1 << 12;

/// A query taken apart into cores, whose rows are kept, and what lies above them; for one combination of its parameters'
/// values, and one dataset.
pub struct Maintained {
    ids: Vec<TermId>,
    cores: Vec<Core>,
    above: Prepared,
}

/// The kept rows of a query, as of one of its executions.
pub struct KeptRows {
    close: EventTime,
    sn: Sn,
    constants: Vec<TermId>,
    /// As they were. Their terms may go before the next execution: what is kept is compared, and decoded only once rows that
    /// have left are dropped.
    windows: Vec<PastWindow>,
    rows: Vec<Rows>,
}

/// How an execution came to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the kept rows, and what has come and gone since.
    Delta,
    /// All rows were made anew, and are kept.
    Anew,
}

impl KeptRows {
    /// Whether an execution for this close, on this view, comes before the one that the rows are of.
    pub fn is_ahead_of(&self, close: EventTime, view: &SnapshotView) -> bool {
        close < self.close || view.snapshot().sn() < self.sn
    }

    /// Memory of the rows, roughly.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(Rows::bytes).sum()
    }

    /// How many rows are kept.
    pub fn len(&self) -> usize {
        self.rows.iter().map(|rows| rows.table.rows).sum()
    }

    /// Forgets a row of a core that is still right, for the test of the comparison.
    #[doc(hidden)]
    pub fn lose_a_row(&mut self) {
        if let Some(rows) = self.rows.iter_mut().find(|rows| rows.table.rows > 0) {
            rows.remove(&[0]);
        }
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Maintained {
    /// Takes a query apart, for parameters with these ids, over a view with the dataset that it will always have.
    ///
    /// # Errors
    /// Why its rows cannot be kept, as what follows "because".
    pub fn new(
        prepared: &Prepared,
        ids: &[TermId],
        view: &dyn GraphView,
    ) -> Result<Maintained, &'static str> {
        let inner = prepared.inner();
        if inner.cohort.is_some() {
            return Err("it is evaluated together with others of its shape");
        }
        if inner.compiled.constants.terms.len() > MOST_CONSTANTS {
            return Err("it has very many constants");
        }
        if let Some(obstacle) = obstacle(&inner.compiled.root) {
            return Err(obstacle);
        }
        let constants = constants(prepared, ids, view);
        let mut splitter = Splitter {
            prepared,
            dataset: view.dataset(),
            constants: &constants,
            cores: Vec::new(),
        };
        let root = splitter.split(&inner.compiled.root);
        let cores = splitter.cores;
        if cores.is_empty() {
            return Err(
                "no pattern outside OPTIONAL, MINUS, EXISTS, paths and GRAPH with a variable reads a window",
            );
        }
        Ok(Maintained {
            ids: ids.to_vec(),
            cores,
            above: prepared.with_root(inner.query.form.clone(), root),
        })
    }

    /// The values of the parameters that it was taken apart for.
    pub fn ids(&self) -> &[TermId] {
        &self.ids
    }

    /// The answer of an execution, from the rows that are kept or with rows made anew. What is kept afterwards is what this
    /// execution read; nothing, if it fails.
    ///
    /// # Errors
    /// As [`Prepared::execute`]; [`QueryError::Memory`] also where the kept rows alone are too many, of which an
    /// evaluation that keeps none may need few at a time.
    pub fn execute(
        &self,
        kept: &mut Option<KeptRows>,
        view: &mut SnapshotView,
        execution: &Execution,
    ) -> Result<(Answer, Way), QueryError> {
        let mut execution = execution.clone();
        if execution.deadline.is_none() {
            // All parts together have the time of one.
            let started = execution.started.unwrap_or_else(Instant::now);
            execution.deadline = Some(started + execution.limits.query_time);
        }
        let constants = constants(&self.above, &self.ids, view);
        let (rows, way) = match kept
            .take()
            .and_then(|kept| self.slid(kept, &constants, view))
        {
            Some((earlier, fresh)) => {
                view.set_fresh(Some(fresh));
                (
                    self.advance(earlier, &constants, view, &execution)?,
                    Way::Delta,
                )
            }
            None => {
                view.set_fresh(None);
                (self.anew(&constants, view, &execution)?, Way::Anew)
            }
        };
        view.set_fresh(None);
        let mut now = KeptRows {
            close: execution.close,
            sn: view.snapshot().sn(),
            constants,
            windows: view.windows().iter().map(|it| it.past()).collect(),
            rows,
        };
        let tables: Vec<Table> = (now.rows.iter_mut())
            .map(|rows| std::mem::take(&mut rows.table))
            .collect();
        let answer =
            self.above
                .execute_over(&tables, Given::of_ids(&self.ids), view, &execution)?;
        if !view.is_valid() {
            return Err(QueryError::PinExpired);
        }
        for (rows, table) in now.rows.iter_mut().zip(tables) {
            rows.table = table;
        }
        *kept = Some(now);
        Ok((answer, way))
    }

    /// The kept rows with what has come to each window, if the windows have merely slid since and nothing else that a core
    /// reads has changed.
    fn slid(
        &self,
        kept: KeptRows,
        constants: &[TermId],
        view: &SnapshotView,
    ) -> Option<(KeptRows, Vec<Arc<WindowVersion>>)> {
        let windows = view.windows();
        let is_later = kept.sn <= view.snapshot().sn();
        if !is_later || kept.constants != constants || kept.windows.len() != windows.len() {
            return None;
        }
        if self.cores.iter().any(|core| {
            let parts = core.patterns().iter().zip(&core.reads);
            let mut stored = parts.flat_map(|(pattern, reads)| {
                let predicate = match pattern.predicate {
                    Position::Constant(constant) => Some(constants[constant.index()]),
                    Position::Variable(_) => None,
                };
                reads.stored.iter().map(move |graph| (*graph, predicate))
            });
            stored.any(|(graph, predicate)| view.snapshot().changed_at(graph, predicate) > kept.sn)
        }) {
            return None;
        }
        let pairs = windows.iter().zip(&kept.windows);
        let fresh: Option<Vec<_>> = pairs
            .map(|(now, before)| now.since(before).map(Arc::new))
            .collect();
        Some((kept, fresh?))
    }

    /// All rows of all cores.
    fn anew(
        &self,
        constants: &[TermId],
        view: &SnapshotView,
        execution: &Execution,
    ) -> Result<Vec<Rows>, QueryError> {
        let mut all: Vec<Rows> = Vec::with_capacity(self.cores.len());
        for core in &self.cores {
            let table = core
                .whole
                .table(Given::of_ids(&self.ids), view, execution)?;
            let looks = Looks {
                core,
                constants,
                view,
            };
            all.push(Rows::of(looks, table));
            fit(&all, execution)?;
        }
        Ok(all)
    }

    /// The rows of all cores, from those that were kept.
    fn advance(
        &self,
        mut kept: KeptRows,
        constants: &[TermId],
        view: &SnapshotView,
        execution: &Execution,
    ) -> Result<Vec<Rows>, QueryError> {
        let graphs = Graphs::new(view);
        for (at, core) in self.cores.iter().enumerate() {
            let looks = Looks {
                core,
                constants,
                view,
            };
            kept.rows[at].expire(looks);
            for pattern in 0..core.patterns().len() {
                let came = core.reads[pattern].windows.iter().any(|window| {
                    let fresh = view.fresh_of(*window);
                    fresh.is_some_and(|fresh| !fresh.is_empty())
                });
                // Most patterns have nothing new, and asking for it costs less than finding that out by a plan.
                if !came || Cardinality::of(&graphs, constants, &core.fresh(pattern)).triples == 0.0
                {
                    continue;
                }
                let found = core.variant(pattern);
                let found = found.table(Given::of_ids(&self.ids), view, execution)?;
                if found.rows > 0 {
                    kept.rows[at].add(looks, pattern, found, &kept.windows);
                    fit(&kept.rows, execution)?;
                }
            }
        }
        Ok(kept.rows)
    }
}

/// The ids of a query's constants, with these for its parameters.
fn constants(prepared: &Prepared, ids: &[TermId], view: &dyn GraphView) -> Vec<TermId> {
    let mut local = LocalTerms::default();
    prepared.constants(
        Given::of_ids(ids),
        view.dictionary(),
        &mut local,
        Vec::new(),
    )
}

/// Whether kept rows leave an execution half of the memory that it may use.
fn fit(rows: &[Rows], execution: &Execution) -> Result<(), QueryError> {
    let bytes: usize = rows.iter().map(Rows::bytes).sum();
    Guard::start(execution).fits(2 * bytes)
}
