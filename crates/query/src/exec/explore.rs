//! Exploration: extends the rows of a table by a pattern. The usual shapes (a constant predicate,
//! ends that are known in every row or in none) are read by the column: as a check, along an edge,
//! from an index vertex, or as a whole. All others are read row by row (`row_scan`).

use crate::algebra::error::QueryError;
use crate::algebra::logical::{GraphPosition, Position, QuadPattern};
use crate::algebra::varset::VarSet;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::exec::column_scan;
use crate::exec::row_scan;
use crate::view::sources::{self, Graphs};
use somersault_lang::VarId;
use somersault_model::{Direction, TermId, TripleIds};
use somersault_store::Ends;

/// Rows produced between limit checks.
pub(crate) const ROWS_PER_CHECK: usize = 1 << 14;
/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 1 << 12;

/// Everything that reading a pattern needs, except the rows.
pub(crate) struct Explorer<'e, 'a> {
    pub(crate) graphs: &'e Graphs<'a>,
    pub(crate) constants: &'e [TermId],
    pub(crate) limiter: &'e mut Limiter<'a>,
    pub(crate) workspace: &'e mut Workspace,
    /// The columns that something still needs afterwards.
    pub(crate) keep: &'e VarSet,
    /// More rows than that need not come out.
    pub(crate) wanted: usize,
    /// Whether one is enough of the rows that are made from one row and have the same kept columns.
    pub(crate) once: bool,
}

impl Explorer<'_, '_> {
    /// Whether the values of a variable that is bound here matter to nothing that follows.
    pub(crate) fn is_dead(&self, variable: VarId) -> bool {
        self.once && !self.keep.contains(variable)
    }

    /// The rows made: each is a row of the table, by its number in `parents`, with its value of
    /// each new column.
    pub(crate) fn extended(
        &mut self,
        table: Table,
        parents: Vec<u32>,
        columns: impl IntoIterator<Item = (VarId, Vec<TermId>)>,
    ) -> Table {
        let mut table = table.gather(&parents, self.keep, self.workspace);
        self.workspace.give_rows(parents);
        for (variable, column) in columns {
            table.set_kept(variable, column, self.keep, self.workspace);
        }
        table
    }
}

/// One end of a pattern: a constant, a column, or free (a variable without a column).
#[derive(Clone, Copy)]
pub(crate) enum End<'t> {
    Constant(TermId),
    Column(&'t [TermId]),
    Free,
}

impl<'t> End<'t> {
    pub(crate) fn of(position: Position, table: &'t Table, constants: &[TermId]) -> End<'t> {
        match position {
            Position::Constant(constant) => End::Constant(constants[constant.0 as usize]),
            Position::Variable(variable) => match table.column(variable) {
                Some(column) => End::Column(column),
                None => End::Free,
            },
        }
    }

    /// The value in a row; unbound where the end is free there.
    #[inline]
    pub(crate) fn at(&self, row: usize) -> TermId {
        match self {
            End::Constant(id) => *id,
            End::Column(column) => column[row],
            End::Free => TermId::UNBOUND,
        }
    }

    /// Whether some row leaves it open.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            End::Constant(_) => false,
            End::Column(column) => has_unbound(column),
            End::Free => true,
        }
    }

    /// Some of its rows, as the view reads them; `None` where it is free.
    fn part(&self, from: usize, to: usize) -> Option<Ends<'t>> {
        match self {
            End::Constant(id) => Some(Ends::One(*id)),
            End::Column(column) => Some(Ends::Column(&column[from..to])),
            End::Free => None,
        }
    }
}

/// Whether some row of a column has no value.
pub(crate) fn has_unbound(column: &[TermId]) -> bool {
    // No early exit inside a part, so that the compiler can compare several ids at once.
    let any = |ids: &[TermId]| ids.iter().fold(false, |found, id| found | id.is_unbound());
    column.chunks(256).any(any)
}

/// Reads a pattern for every row, until the wanted number of rows has been made.
pub(crate) fn scan(
    explorer: &mut Explorer<'_, '_>,
    pattern: &QuadPattern,
    table: Table,
) -> Result<Table, QueryError> {
    let constants = explorer.constants;
    let predicate = match pattern.predicate {
        Position::Constant(constant) => constants[constant.index()],
        Position::Variable(_) => {
            return match asks_for_all(explorer, pattern, &table) {
                Some(variables) => all(explorer, pattern.graph, variables, table),
                None => row_scan::scan(explorer, pattern, table),
            };
        }
    };
    if matches!(pattern.graph, GraphPosition::Named(Position::Variable(_)))
        || pattern.subject == pattern.object
    {
        return row_scan::scan(explorer, pattern, table);
    }
    let graphs = explorer.graphs;
    let reads = graphs.reads(pattern.graph, |c| constants[c.index()]);
    let edge = Edge {
        sources: &reads,
        predicate,
    };
    let subject = End::of(pattern.subject, &table, constants);
    let object = End::of(pattern.object, &table, constants);
    match (subject, object, pattern.subject, pattern.object) {
        (End::Free, End::Free, Position::Variable(s), Position::Variable(o))
            if explorer.is_dead(s) || explorer.is_dead(o) =>
        {
            let end = if explorer.keep.contains(o) {
                (o, Direction::In)
            } else {
                (s, Direction::Out)
            };
            edge.one_end(explorer, end, table)
        }
        (End::Free, End::Free, Position::Variable(s), Position::Variable(o)) => {
            edge.all(explorer, (s, o), table)
        }
        (from, End::Free, _, Position::Variable(to)) if !from.is_open() => {
            edge.along(explorer, (pattern.subject, Direction::Out, to), table)
        }
        (End::Free, from, Position::Variable(to), _) if !from.is_open() => {
            edge.along(explorer, (pattern.object, Direction::In, to), table)
        }
        (one, other, _, _) if !one.is_open() && !other.is_open() => {
            edge.check(explorer, (pattern.subject, pattern.object), table)
        }
        _ => row_scan::scan(explorer, pattern, table),
    }
}

/// The variables of a pattern that asks for all that some graphs hold, for one row that knows
/// nothing of it.
fn asks_for_all(
    explorer: &Explorer<'_, '_>,
    pattern: &QuadPattern,
    table: &Table,
) -> Option<[VarId; 3]> {
    let [s, p, o] =
        [pattern.subject, pattern.predicate, pattern.object].map(|position| position.variable());
    let variables = [s?, p?, o?];
    let [s, p, o] = variables;
    // Where an end is not kept, one row may be enough; where rows are limited, not all are needed.
    let is_new = |variable: VarId| table.column(variable).is_none() && !explorer.is_dead(variable);
    let all =
        table.rows == 1 && explorer.wanted == usize::MAX && pattern.graph.variable().is_none();
    (all && s != p && p != o && s != o && variables.into_iter().all(is_new)).then_some(variables)
}

/// All that the graphs hold, for one row: a predicate at a time.
fn all(
    explorer: &mut Explorer<'_, '_>,
    graph: GraphPosition,
    variables: [VarId; 3],
    table: Table,
) -> Result<Table, QueryError> {
    let (graphs, constants) = (explorer.graphs, explorer.constants);
    let reads = graphs.reads(graph, |c| constants[c.index()]);
    let mut ids = [(); 3].map(|()| explorer.workspace.ids());
    let [subjects, predicates, objects] = &mut ids;
    let mut all = Vec::new();
    sources::predicates(graphs.view(), &reads, &mut all);
    for predicate in all {
        let limiter = &mut *explorer.limiter;
        column_scan::edges(
            graphs.view(),
            &reads,
            predicate,
            usize::MAX,
            (subjects, objects),
            |edges| limiter.check_growth(&table, edges, 3),
        )?;
        predicates.resize(subjects.len(), predicate);
    }
    let mut parents = explorer.workspace.rows();
    parents.resize(subjects.len(), 0);
    Ok(explorer.extended(table, parents, variables.into_iter().zip(ids)))
}

/// The edges that a pattern with a constant predicate reads.
struct Edge<'s> {
    sources: &'s [crate::view::graph_view::Source],
    predicate: TermId,
}

impl Edge<'_> {
    /// Follows the edges from an end that every row knows to one that none does.
    fn along(
        &self,
        explorer: &mut Explorer<'_, '_>,
        (from, direction, to): (Position, Direction, VarId),
        table: Table,
    ) -> Result<Table, QueryError> {
        let is_dead = explorer.is_dead(to);
        let from = End::of(from, &table, explorer.constants);
        if let (End::Constant(vertex), 1) = (from, table.rows) {
            let mut ids = self.neighbours(explorer, vertex, direction);
            if is_dead {
                ids.truncate(1);
            }
            explorer.limiter.check_growth(&table, ids.len(), 1)?;
            let (keep, workspace) = (explorer.keep, &mut *explorer.workspace);
            let mut table = table.repeated(ids.len(), keep, workspace);
            table.set_kept(to, ids, keep, workspace);
            return Ok(table);
        }
        let mut parents = explorer.workspace.rows();
        let mut ids = explorer.workspace.ids();
        match from {
            End::Column(column) => {
                let key = (self.predicate, direction);
                let made = (&mut parents, &mut ids);
                self.expand(explorer, key, column, is_dead, &table, made)?;
            }
            from => {
                let mut list = self.neighbours(explorer, from.at(0), direction);
                if is_dead {
                    list.truncate(1);
                }
                repeat(explorer, &list, &table, &mut parents, &mut ids)?;
                explorer.workspace.give_ids(list);
            }
        }
        Ok(explorer.extended(table, parents, [(to, ids)]))
    }

    /// Appends the neighbours of a column's vertices, until there are enough rows; with `is_dead`
    /// only which vertices have a neighbour.
    #[allow(clippy::too_many_arguments, reason = "the parts of one hot loop")]
    fn expand(
        &self,
        explorer: &mut Explorer<'_, '_>,
        key: (TermId, Direction),
        column: &[TermId],
        is_dead: bool,
        table: &Table,
        (parents, ids): (&mut Vec<u32>, &mut Vec<TermId>),
    ) -> Result<(), QueryError> {
        let mut row = 0;
        while row < column.len() && parents.len() < explorer.wanted {
            let to = (row + ROWS_AT_ONCE).min(column.len());
            row += column_scan::expand(
                explorer.graphs.view(),
                self.sources,
                key,
                &column[row..to],
                row as u32,
                (ids.len() + ROWS_PER_CHECK).min(explorer.wanted),
                (parents, ids),
                explorer.workspace,
            );
            if is_dead {
                parents.dedup();
                ids.clear();
            }
            explorer.limiter.check_growth(table, parents.len(), 1)?;
        }
        Ok(())
    }

    /// The list of one vertex.
    fn neighbours(
        &self,
        explorer: &mut Explorer<'_, '_>,
        vertex: TermId,
        direction: Direction,
    ) -> Vec<TermId> {
        let mut lists = explorer.workspace.lists();
        let mut all = explorer.workspace.ids();
        let (view, predicate) = (explorer.graphs.view(), self.predicate);
        let found =
            sources::neighbours(view, self.sources, vertex, predicate, direction, &mut lists);
        all.extend_from_slice(found);
        explorer.workspace.give_lists(lists);
        all
    }

    /// Keeps the rows whose two ends an edge connects.
    fn check(
        &self,
        explorer: &mut Explorer<'_, '_>,
        (subject, object): (Position, Position),
        table: Table,
    ) -> Result<Table, QueryError> {
        let mut parents = explorer.workspace.rows();
        let subject = End::of(subject, &table, explorer.constants);
        let object = End::of(object, &table, explorer.constants);
        let view = explorer.graphs.view();
        if let (End::Constant(s), End::Constant(o)) = (subject, object) {
            if !sources::contains(view, self.sources, TripleIds::new(s, self.predicate, o)) {
                explorer.workspace.give_rows(parents);
                return Ok(Table::empty_like(&table));
            }
            parents.extend(0..table.rows as u32);
        } else {
            let mut row = 0;
            while row < table.rows && parents.len() < explorer.wanted {
                let to = (row + ROWS_AT_ONCE).min(table.rows);
                if let (Some(s), Some(o)) = (subject.part(row, to), object.part(row, to)) {
                    let first = row as u32;
                    column_scan::connected(
                        view,
                        self.sources,
                        self.predicate,
                        s,
                        o,
                        first,
                        &mut parents,
                    );
                }
                row = to;
                explorer.limiter.check_growth(&table, parents.len(), 0)?;
            }
        }
        Ok(explorer.extended(table, parents, []))
    }

    /// The vertices that have edges, for every row, where their other ends do not matter.
    fn one_end(
        &self,
        explorer: &mut Explorer<'_, '_>,
        (variable, direction): (VarId, Direction),
        table: Table,
    ) -> Result<Table, QueryError> {
        let view = explorer.graphs.view();
        let count = sources::vertices_at_most(view, self.sources, self.predicate, direction);
        explorer.limiter.tick()?;
        explorer.limiter.check_memory(table.bytes() + count * 8)?;
        let mut lists = explorer.workspace.lists();
        let (reads, predicate) = (self.sources, self.predicate);
        let mut all = sources::vertices_with(view, reads, predicate, direction, &mut lists);
        if !explorer.keep.contains(variable) {
            all = &all[..all.len().min(1)];
        }
        let (mut parents, mut ids) = (explorer.workspace.rows(), explorer.workspace.ids());
        repeat(explorer, all, &table, &mut parents, &mut ids)?;
        explorer.workspace.give_lists(lists);
        Ok(explorer.extended(table, parents, [(variable, ids)]))
    }

    /// Every edge, for every row.
    fn all(
        &self,
        explorer: &mut Explorer<'_, '_>,
        (subject, object): (VarId, VarId),
        table: Table,
    ) -> Result<Table, QueryError> {
        let view = explorer.graphs.view();
        let (mut subjects, mut objects) = (explorer.workspace.ids(), explorer.workspace.ids());
        if table.rows > 0 {
            let limiter = &mut *explorer.limiter;
            column_scan::edges(
                view,
                self.sources,
                self.predicate,
                explorer.wanted,
                (&mut subjects, &mut objects),
                |edges| limiter.check_growth(&table, edges, 2),
            )?;
        }
        if table.rows == 1 {
            subjects.truncate(explorer.wanted);
            objects.truncate(explorer.wanted);
        }
        let mut parents = explorer.workspace.rows();
        if table.rows == 1 {
            parents.resize(subjects.len(), 0);
        } else {
            let (mut all_subjects, mut all_objects) =
                (explorer.workspace.ids(), explorer.workspace.ids());
            repeat(explorer, &subjects, &table, &mut parents, &mut all_subjects)?;
            for row in 0..table.rows {
                if all_objects.len() >= all_subjects.len() {
                    break;
                }
                all_objects.extend_from_slice(&objects);
                explorer
                    .limiter
                    .check_growth(&table, row.max(all_objects.len()), 2)?;
            }
            all_objects.truncate(all_subjects.len());
            explorer
                .workspace
                .give_ids(std::mem::replace(&mut subjects, all_subjects));
            explorer
                .workspace
                .give_ids(std::mem::replace(&mut objects, all_objects));
        }
        Ok(explorer.extended(table, parents, [(subject, subjects), (object, objects)]))
    }
}

/// The same list for every row, until there are enough rows.
fn repeat(
    explorer: &mut Explorer<'_, '_>,
    list: &[TermId],
    table: &Table,
    parents: &mut Vec<u32>,
    ids: &mut Vec<TermId>,
) -> Result<(), QueryError> {
    if list.is_empty() {
        return Ok(());
    }
    for row in 0..table.rows {
        ids.extend_from_slice(list);
        parents.resize(ids.len(), row as u32);
        if ids.len() >= explorer.wanted {
            break;
        }
        explorer.limiter.tick()?;
        if row % 64 == 0 || list.len() > ROWS_PER_CHECK {
            explorer.limiter.check_growth(table, ids.len(), 2)?;
        }
    }
    Ok(())
}
