//! Incremental evaluation of a continuous query. The rows of its cores are retained between
//! executions while the windows slide. At each close, rows whose statements expired are removed,
//! and the plans of the variants find new rows, starting from the arrived statements. The plan
//! above the cores reads the retained rows like any other table.
//!
//! Where rows are grouped directly, their groups are retained too, and the plan above reads the
//! groups.
//!
//! The one thing to know before changing it: incremental evaluation must never change an answer.
//! Where a window did more than slide, or a stored graph changed in a part that a core reads, the
//! rows are rebuilt. `query/tests/it/delta.rs` compares the answers with those of a whole
//! evaluation at every close (EX-1).

mod cores;
mod folds;
mod groups;
mod memory;
mod rows;
mod states;
mod stored;

pub use stored::{StoredDelta, StoredDifference};

use crate::algebra::error::QueryError;
use crate::algebra::logical::Position;
use crate::context::answer::Answer;
use crate::context::cells::Cells;
use crate::context::execution::Execution;
use crate::context::group_answer::GroupAnswer;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::eval::evaluate::Evaluation;
use crate::plan::estimate::Cardinality;
use crate::prepared::Prepared;
use crate::prepared::execute::{Invocation, Run};
use crate::prepared::parameters::Arguments;
use crate::view::graph_view::GraphView;
use crate::view::local_terms::LocalTerms;
use crate::view::snapshot_view::SnapshotView;
use crate::view::sources::Graphs;
use cores::{Core, Splitter, obstacle};
use folds::Fold;
use groups::RetainedGroups;
use rows::{CoreRows, RowLookup};
use somersault_model::{EventTime, Sn, TermId};
use somersault_store::{PastWindow, WindowVersion};
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Instant;

/// A query with more constants is not split: each part would have them all.
const MOST_CONSTANTS: usize = 1 << 12;

/// A query split into cores, whose rows are retained, and the plan above them; for one combination
/// of its parameters' values or for all queries of a shape
/// ([`Grouped::maintained`](crate::Grouped::maintained)), and one dataset.
pub struct IncrementalQuery {
    /// The values of its parameters. A query group has none, since its cells come with each
    /// execution.
    ids: Vec<TermId>,
    cores: Vec<Core>,
    folds: Vec<Fold>,
    grouping: Grouping,
    above: Prepared,
}

/// The evaluation of GROUP BY and DISTINCT over retained rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// The query has none.
    None,
    /// Their groups are retained, and only groups that gain or lose rows are updated.
    Retained,
    /// Some are rebuilt from all retained rows at each close, for this reason.
    Rebuilt(&'static str),
}

/// The retained rows of a query, as of one of its executions.
pub struct RetainedRows {
    close: EventTime,
    sn: Sn,
    constants: Vec<TermId>,
    /// For a query group: the [`Cells::changes`] these rows were built for.
    cells: u64,
    /// The windows at the previous close. Their terms may be reclaimed meanwhile: compare ids only,
    /// and decode nothing until expired rows are removed.
    windows: Vec<PastWindow>,
    rows: Vec<CoreRows>,
    groups: Vec<RetainedGroups>,
}

/// The mode in which an execution made its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// From the retained rows, and the statements that arrived and expired since.
    Incremental,
    /// From rows that were all rebuilt, and are now retained.
    Rebuilt,
}

impl RetainedRows {
    /// Whether an execution for this close, on this view, precedes the one that made the rows.
    pub fn is_ahead_of(&self, close: EventTime, view: &SnapshotView) -> bool {
        close < self.close || view.snapshot().sn() < self.sn
    }

    /// Memory of the rows and their groups, roughly.
    pub fn bytes(&self) -> usize {
        let rows: usize = self.rows.iter().map(CoreRows::bytes).sum();
        rows + self.groups.iter().map(RetainedGroups::bytes).sum::<usize>()
    }

    /// The number of rows that are retained.
    pub fn len(&self) -> usize {
        self.rows.iter().map(|rows| rows.table.rows).sum()
    }

    /// Removes a valid row of a core, to test that the comparison notices.
    #[doc(hidden)]
    pub fn lose_a_row(&mut self, of: &IncrementalQuery) {
        if let Some(core) = self.rows.iter().position(|rows| rows.table.rows > 0) {
            self.remove(&of.folds, core, &[0]);
        }
    }

    /// Removes rows from a core, and subtracts them from their groups.
    fn remove(&mut self, folds: &[Fold], core: usize, leaving: &[u32]) {
        let rows = &mut self.rows[core];
        let mut folds = folds.iter().zip(&mut self.groups);
        if let Some((fold, groups)) = folds.find(|(fold, _)| fold.cores.contains(&core)) {
            groups.take(fold, rows, leaving);
        }
        rows.remove(leaving);
    }

    /// Inputs for the plan above the cores: each core's rows (lent), or its groups where it is
    /// grouped.
    fn tables(
        &mut self,
        folds: &[Fold],
        e: &mut Evaluation<'_>,
        limiter: &mut Limiter<'_>,
    ) -> Result<Vec<Table>, QueryError> {
        let mut tables: Vec<Table> = self.rows.iter().map(|_| Table::default()).collect();
        for (fold, groups) in folds.iter().zip(&mut self.groups) {
            if groups.are_sparse() {
                *groups = RetainedGroups::new(fold);
                fold.cores
                    .iter()
                    .for_each(|core| self.rows[*core].ungroup());
            }
            for core in &fold.cores {
                groups.add(fold, &mut self.rows[*core], e, limiter)?;
            }
            tables[fold.cores[0]] = groups.table(fold, &self.rows, e, limiter)?;
        }
        limiter.check_memory(2 * self.bytes())?;
        for (core, rows) in self.rows.iter_mut().enumerate() {
            if !is_grouped(folds, core) {
                tables[core] = std::mem::take(&mut rows.table);
            }
        }
        Ok(tables)
    }

    /// Takes back the rows that were lent.
    fn take_back(&mut self, folds: &[Fold], tables: Vec<Table>) {
        for (core, table) in tables.into_iter().enumerate() {
            if !is_grouped(folds, core) {
                self.rows[core].table = table;
            }
        }
    }

    /// Releases memory that a burst of rows left behind.
    fn shrink(&mut self) {
        self.rows.iter_mut().for_each(CoreRows::shrink);
        self.groups.iter_mut().for_each(RetainedGroups::shrink);
    }

    /// Whether no row is retained.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl IncrementalQuery {
    /// Splits a query, for parameters with these ids. The view must have the dataset that all
    /// executions will have.
    ///
    /// # Errors
    /// Why its rows cannot be retained, phrased to follow "because".
    pub fn new(
        prepared: &Prepared,
        ids: &[TermId],
        view: &dyn GraphView,
    ) -> Result<IncrementalQuery, &'static str> {
        let inner = prepared.inner();
        if inner.compiled.constants.terms.len() > MOST_CONSTANTS {
            return Err("it has too many constants");
        }
        if let Some(obstacle) = obstacle(&inner.compiled.root) {
            return Err(obstacle);
        }
        let constants = constants(prepared, Arguments::Ids(ids), view);
        let mut splitter = Splitter {
            prepared,
            dataset: view.dataset(),
            constants: &constants,
            cores: Vec::new(),
            folds: Vec::new(),
            unfolded: None,
        };
        let root = splitter.split(&inner.compiled.root);
        let Splitter {
            cores,
            folds,
            unfolded,
            ..
        } = splitter;
        if cores.is_empty() {
            return Err(
                "no pattern outside OPTIONAL, MINUS, EXISTS, paths and GRAPH with a variable reads a window",
            );
        }
        Ok(IncrementalQuery {
            ids: ids.to_vec(),
            cores,
            grouping: match unfolded {
                Some(why) => Grouping::Rebuilt(why),
                None if folds.is_empty() => Grouping::None,
                None => Grouping::Retained,
            },
            folds,
            above: prepared.with_root(root),
        })
    }

    /// The evaluation of its groupings.
    pub fn grouping(&self) -> Grouping {
        self.grouping
    }

    /// The answer of an execution, from retained or rebuilt rows. Afterwards `kept` holds the rows
    /// of this execution, or nothing if it failed.
    ///
    /// # Errors
    /// As [`Prepared::run`]; [`QueryError::Memory`] also where the retained rows alone take too
    /// much memory; an evaluation that retains none may need few rows at a time.
    pub fn run(
        &self,
        kept: &mut Option<RetainedRows>,
        view: &mut SnapshotView,
        execution: &Execution,
    ) -> Result<(Answer, Mode), QueryError> {
        let arguments = Arguments::Ids(&self.ids);
        self.evaluate(arguments, kept, view, execution, |run, table, workspace| {
            run.answer(&self.above, table, workspace)
        })
    }

    /// The answers of a query group, as [`IncrementalQuery::run`]. The cells are those of the
    /// earlier executions, with members added and removed since.
    ///
    /// # Errors
    /// As [`IncrementalQuery::run`].
    pub fn run_cells(
        &self,
        cells: &Cells,
        kept: &mut Option<RetainedRows>,
        view: &mut SnapshotView,
        execution: &Execution,
    ) -> Result<(GroupAnswer, Mode), QueryError> {
        let arguments = Arguments::Cells(cells);
        self.evaluate(arguments, kept, view, execution, |run, table, workspace| {
            run.split(&self.above, table, cells, workspace)
        })
    }

    fn evaluate<T>(
        &self,
        arguments: Arguments<'_>,
        kept: &mut Option<RetainedRows>,
        view: &mut SnapshotView,
        execution: &Execution,
        answer: impl FnOnce(Run<'_>, Table, &mut Workspace) -> Result<T, QueryError>,
    ) -> Result<(T, Mode), QueryError> {
        let mut execution = execution.clone();
        if execution.deadline.is_none() {
            // All parts together have the time of one.
            let started = execution.started.unwrap_or_else(Instant::now);
            execution.deadline = Some(started + execution.limits.query_time);
        }
        let constants = constants(&self.above, arguments, view);
        let slid = kept
            .take()
            .and_then(|kept| self.slid(kept, (&constants, arguments), view));
        let of = (constants, arguments);
        let (mut now, way) = match slid {
            Some((earlier, fresh)) => {
                view.set_fresh(Some(fresh));
                (
                    self.advance(earlier, of, view, &execution)?,
                    Mode::Incremental,
                )
            }
            None => {
                view.set_fresh(None);
                (self.rebuild(of, view, &execution)?, Mode::Rebuilt)
            }
        };
        view.set_fresh(None);
        let tables = OnceCell::new();
        let invocation = Invocation::of(arguments, view, &execution);
        let answer = self.above.evaluate_over(
            invocation,
            |run| {
                let made = now.tables(&self.folds, &mut run.evaluation, &mut run.limiter)?;
                run.evaluation.maintained = tables.get_or_init(|| made);
                Ok(())
            },
            answer,
        )?;
        now.take_back(&self.folds, tables.into_inner().unwrap_or_default());
        now.shrink();
        *kept = Some(now);
        Ok((answer, way))
    }

    /// The retained rows and the arrived statements of each window, if the windows only slid and
    /// nothing else that a core reads has changed.
    fn slid(
        &self,
        kept: RetainedRows,
        (constants, arguments): (&[TermId], Arguments<'_>),
        view: &SnapshotView,
    ) -> Option<(RetainedRows, Vec<Arc<WindowVersion>>)> {
        let windows = view.windows();
        let is_later = kept.sn <= view.snapshot().sn();
        let is_of_the_same = kept.constants == constants && kept.cells == changes(arguments);
        if !is_later || !is_of_the_same || kept.windows.len() != windows.len() {
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
        let fresh: Option<Vec<_>> = pairs.map(|(now, before)| now.since(before)).collect();
        Some((kept, fresh?))
    }

    /// Evaluates the cores from nothing: all rows of all cores.
    fn rebuild(
        &self,
        (constants, arguments): (Vec<TermId>, Arguments<'_>),
        view: &SnapshotView,
        execution: &Execution,
    ) -> Result<RetainedRows, QueryError> {
        let mut all: Vec<CoreRows> = Vec::with_capacity(self.cores.len());
        for core in &self.cores {
            let table = (core.whole).table(Invocation::of(arguments, view, execution))?;
            let looks = RowLookup {
                core,
                constants: &constants,
                view,
            };
            all.push(CoreRows::of(looks, table));
            let bytes: usize = all.iter().map(CoreRows::bytes).sum();
            fit(bytes, execution)?;
        }
        Ok(RetainedRows {
            close: execution.close,
            sn: view.snapshot().sn(),
            constants,
            cells: changes(arguments),
            windows: pasts(view),
            rows: all,
            groups: self.folds.iter().map(RetainedGroups::new).collect(),
        })
    }

    /// The rows of all cores, updated from the retained ones.
    fn advance(
        &self,
        mut kept: RetainedRows,
        (constants, arguments): (Vec<TermId>, Arguments<'_>),
        view: &SnapshotView,
        execution: &Execution,
    ) -> Result<RetainedRows, QueryError> {
        let graphs = Graphs::new(view);
        for (at, core) in self.cores.iter().enumerate() {
            let looks = RowLookup {
                core,
                constants: &constants,
                view,
            };
            let gone = kept.rows[at].expired(looks);
            if !gone.is_empty() {
                kept.remove(&self.folds, at, &gone);
            }
            for pattern in 0..core.patterns().len() {
                let came = core.reads[pattern].windows.iter().any(|window| {
                    let fresh = view.fresh_of(*window);
                    fresh.is_some_and(|fresh| !fresh.is_empty())
                });
                // Most patterns have no new statement, and this check costs less than running a
                // plan.
                if !came
                    || Cardinality::of(&graphs, &constants, &core.fresh(pattern)).triples == 0.0
                {
                    continue;
                }
                let found = core.variant(pattern);
                let found = found.table(Invocation::of(arguments, view, execution))?;
                if found.rows > 0 {
                    kept.rows[at].add(looks, pattern, found, &kept.windows);
                    fit(kept.bytes(), execution)?;
                }
            }
        }
        Ok(RetainedRows {
            close: execution.close,
            sn: view.snapshot().sn(),
            constants,
            windows: pasts(view),
            ..kept
        })
    }
}

/// The ids of a query's constants, with these for its parameters.
fn constants(prepared: &Prepared, arguments: Arguments<'_>, view: &dyn GraphView) -> Vec<TermId> {
    let mut local = LocalTerms::default();
    prepared.constants(arguments, view.dictionary(), &mut local, Vec::new())
}

/// A number that changes whenever the cells change.
fn changes(arguments: Arguments<'_>) -> u64 {
    arguments.cells().map_or(0, Cells::changes)
}

fn pasts(view: &SnapshotView) -> Vec<PastWindow> {
    view.windows().iter().map(|window| window.past()).collect()
}

/// Whether the rows of a core are grouped, so that the plan above reads the groups instead.
fn is_grouped(folds: &[Fold], core: usize) -> bool {
    folds.iter().any(|fold| fold.cores.contains(&core))
}

/// Checks that retained state leaves an execution half of its memory limit.
fn fit(bytes: usize, execution: &Execution) -> Result<(), QueryError> {
    Limiter::start(execution).check_memory(2 * bytes)
}
