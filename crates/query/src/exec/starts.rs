//! The inputs that are cut into morsels: a table, or a list of the store that a plan starts from.
//! Such a list is not first copied into a table, which one thread would do while the others wait:
//! each part is read in place. An execution that releases its view between parts copies the ids.

use crate::algebra::error::QueryError;
use crate::algebra::logical::{GraphPosition, Position, QuadPattern};
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::exec::operators::{Scan, StepKind};
use crate::exec::run::{Runner, StepFigures};
use crate::exec::step::Step;
use crate::view::sources;
use somersault_lang::VarId;
use somersault_model::{Direction, TermId};
use std::ops::Range;
use std::time::Instant;

/// Rows that can be taken in parts.
pub(crate) enum Start<'t> {
    Table(&'t Table),
    /// The values of one variable only.
    List(VarId, &'t [TermId]),
}

impl Start<'_> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Start::Table(table) => table.rows,
            Start::List(_, ids) => ids.len(),
        }
    }

    /// The bytes of the ids, as [`Table::bytes`] counts them.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Start::Table(table) => table.bytes(),
            Start::List(_, ids) => ids.len() * (8 + 4),
        }
    }

    /// A copy of some rows.
    pub(crate) fn part(&self, rows: Range<usize>, workspace: &mut Workspace) -> Table {
        match self {
            Start::Table(table) => table.part(rows, workspace),
            Start::List(variable, ids) => {
                let mut column = workspace.ids();
                column.extend_from_slice(&ids[rows]);
                Table::of_column(*variable, column, workspace)
            }
        }
    }

    /// An empty table with the same columns.
    pub(crate) fn empty(&self) -> Table {
        match self {
            Start::Table(table) => Table::empty_like(table),
            Start::List(..) => Table::default(),
        }
    }
}

/// The end of a pattern from which a list is read, the list's direction, and its variable.
fn list_of(pattern: &QuadPattern) -> Option<(Position, Direction, VarId)> {
    if matches!(pattern.graph, GraphPosition::Named(Position::Variable(_))) {
        return None;
    }
    match (pattern.subject, pattern.object) {
        (from @ Position::Constant(_), Position::Variable(to)) => Some((from, Direction::Out, to)),
        (Position::Variable(to), from @ Position::Constant(_)) => Some((from, Direction::In, to)),
        _ => None,
    }
}

impl Runner<'_, '_> {
    /// Runs steps of which the first reads one long list, from the one empty solution; `None` if
    /// the steps do not have this form.
    pub(crate) fn run_from_list(
        &mut self,
        steps: &[Step],
        table: &Table,
    ) -> Result<Option<Table>, QueryError> {
        let Some((step, rest)) = steps.split_first() else {
            return Ok(None);
        };
        let StepKind::Scan(Scan(pattern)) = &step.kind else {
            return Ok(None);
        };
        let from_nothing = table.rows == 1 && !table.is_numbered_or_wide();
        let looks_long = step.estimate >= self.limiter.morsel_rows() as f64;
        if !(from_nothing && looks_long && step.exists.is_empty()) {
            return Ok(None);
        }
        let constants = &self.evaluation.constants;
        let id = |position: Position| match position {
            Position::Constant(constant) => Some(constants[constant.index()]),
            Position::Variable(_) => None,
        };
        let Some((from, direction, variable)) = list_of(pattern) else {
            return Ok(None);
        };
        let (Some(vertex), Some(predicate)) = (id(from), id(pattern.predicate)) else {
            return Ok(None);
        };
        if !step.keep.contains(variable) {
            return Ok(None);
        }
        let started = Instant::now();
        let reads = (self.graphs).reads(pattern.graph, |constant| constants[constant.index()]);
        let mut lists = self.workspace.lists();
        let copy;
        let found = match self.graphs.lasting_view() {
            Some(view) => {
                sources::neighbours(view, &reads, vertex, predicate, direction, &mut lists)
            }
            None => {
                let view = self.graphs.view();
                let list =
                    sources::neighbours(view, &reads, vertex, predicate, direction, &mut lists);
                copy = list.to_vec();
                &copy
            }
        };
        let all = if self.cuts(rest, found.len(), usize::MAX) {
            self.limiter.count_rows(found.len());
            if let Some(actual) = self.actual.get_mut(step.number) {
                *actual += StepFigures {
                    runs: 1,
                    rows: found.len() as u64,
                    time: started.elapsed(),
                };
            }
            let start = Start::List(variable, found);
            self.run_in_parts(rest, &start, usize::MAX).map(Some)
        } else {
            Ok(None)
        };
        self.workspace.give_lists(lists);
        all
    }
}
