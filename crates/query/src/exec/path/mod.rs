//! Property paths, followed along adjacency lists a column of vertices at a time (SPARQL 1.1,
//! section 18.4): sequences and alternatives keep repeats, closures yield each end once. Rows that
//! start from the same vertex share what it leads to, and where both ends are known it is the end
//! with fewer values that is started from.

mod walker;

use crate::algebra::error::QueryError;
use crate::algebra::logical::{GraphPosition, Path, PathPattern, Position};
use crate::context::table::Table;
use crate::exec::distinct_rows::by_number;
use crate::exec::explore::{End, Explorer, has_unbound};
use crate::view::graph_view::Source;
use somersault_model::{Direction, TermId};
use walker::{Ends, Walker};

/// Follows a path from every row.
pub(crate) fn follow(
    explorer: &mut Explorer<'_, '_>,
    pattern: &PathPattern,
    table: Table,
) -> Result<Table, QueryError> {
    let constants = explorer.constants;
    let subject = End::of(pattern.subject, &table, constants);
    let object = End::of(pattern.object, &table, constants);
    let mixed = |end: End<'_>| matches!(end, End::Column(column) if has_unbound(column));
    let fixed_graph = !matches!(pattern.graph, GraphPosition::Named(Position::Variable(_)));
    let mut found = Found::default();
    if fixed_graph && !mixed(subject) && !mixed(object) {
        let graphs = explorer.graphs;
        let reads = graphs.reads(pattern.graph, |c| constants[c.index()]);
        let rows: Vec<u32> = (0..table.rows as u32).collect();
        let ends = (subject, object);
        follow_rows(
            explorer,
            pattern,
            &reads,
            ends,
            &rows,
            TermId::UNBOUND,
            &mut found,
        )?;
    } else {
        for row in 0..table.rows {
            let ends = (known(subject.at(row)), known(object.at(row)));
            follow_row(explorer, pattern, ends, row, &table, &mut found)?;
        }
    }
    explorer
        .limiter
        .check_memory(found.rows.len() * 32 + table.bytes())?;
    let (subject, object) = (pattern.subject.variable(), pattern.object.variable());
    let graph = pattern.graph.variable();
    let columns = [
        (subject, found.subjects),
        (object, found.objects),
        (graph, found.graphs),
    ];
    let columns = (columns.into_iter()).filter_map(|(variable, ids)| Some((variable?, ids)));
    Ok(explorer.extended(table, found.rows, columns))
}

/// The end that a cell is.
fn known<'t>(id: TermId) -> End<'t> {
    if id.is_unbound() {
        End::Free
    } else {
        End::Constant(id)
    }
}

/// Follows the path from one row, in whatever graphs it may be.
fn follow_row(
    explorer: &mut Explorer<'_, '_>,
    pattern: &PathPattern,
    ends: (End<'_>, End<'_>),
    row: usize,
    table: &Table,
    found: &mut Found,
) -> Result<(), QueryError> {
    let (graphs, constants) = (explorer.graphs, explorer.constants);
    let rows = [row as u32];
    let mut read = |sources: &[Source], name: TermId| {
        let ends = (ends.0, ends.1);
        follow_rows(explorer, pattern, sources, ends, &rows, name, found)
    };
    match pattern.graph {
        GraphPosition::Named(name @ Position::Variable(_)) => {
            graphs.each_named(End::of(name, table, constants).at(row), read)
        }
        graph => {
            let sources = graphs.reads(graph, |c| constants[c.index()]);
            read(&sources, TermId::UNBOUND)
        }
    }
}

/// Follows the path in one graph from some rows, in each of which the same ends are known.
fn follow_rows(
    explorer: &mut Explorer<'_, '_>,
    pattern: &PathPattern,
    sources: &[Source],
    (subject, object): (End<'_>, End<'_>),
    rows: &[u32],
    graph: TermId,
    found: &mut Found,
) -> Result<(), QueryError> {
    let mut walker = Walker::new(explorer, sources);
    // Between two variables a path of no step leads from vertices of the graph only, also where
    // something else has bound them already; from a constant it always leads.
    let from_vertices = pattern.subject.variable().is_some()
        && pattern.object.variable().is_some()
        && pattern.path.is_nullable();
    let (start, other, direction) = match (subject, object) {
        (End::Free, End::Free) => return all_pairs(&mut walker, pattern, rows, graph, found),
        (End::Free, object) => (object, End::Free, Direction::In),
        (subject, End::Free) => (subject, End::Free, Direction::Out),
        // From the end with fewer values.
        (subject, object) => {
            if distinct(object, rows) < distinct(subject, rows) {
                (object, subject, Direction::In)
            } else {
                (subject, object, Direction::Out)
            }
        }
    };
    let mut starts: Vec<TermId> = rows.iter().map(|row| start.at(*row as usize)).collect();
    starts.sort_unstable();
    starts.dedup();
    if from_vertices {
        starts.retain(|vertex| walker.is_vertex(*vertex));
    }
    let walk = Walk {
        path: &pattern.path,
        direction,
        start,
        other,
        rows,
        graph,
    };
    let closure = matches!(pattern.path, Path::ZeroOrMore(_) | Path::OneOrMore(_));
    match walk.is_check() && closure && starts.len() == rows.len() {
        true => walk.to_targets(&mut walker, &starts, found),
        false => walk.all_starts(&mut walker, &starts, found),
    }
}

/// A walk in one direction, from the start of each row.
struct Walk<'p, 't> {
    path: &'p Path,
    direction: Direction,
    start: End<'t>,
    other: End<'t>,
    rows: &'p [u32],
    graph: TermId,
}

impl Walk<'_, '_> {
    /// Whether the other ends are known too.
    fn is_check(&self) -> bool {
        !matches!(self.other, End::Free)
    }

    fn found(&self, row: u32, start: TermId, end: TermId, found: &mut Found) {
        match self.direction {
            Direction::Out => found.push(row, start, end, self.graph),
            Direction::In => found.push(row, end, start, self.graph),
        }
    }

    /// For rows of which none shares its start with another: each walk ends where its target is
    /// reached.
    fn to_targets(
        &self,
        walker: &mut Walker<'_, '_>,
        starts: &[TermId],
        found: &mut Found,
    ) -> Result<(), QueryError> {
        let mut reached = Vec::new();
        for row in self.rows {
            let (from, to) = (self.start.at(*row as usize), self.other.at(*row as usize));
            if starts.binary_search(&from).is_err() {
                continue;
            }
            reached.clear();
            if walker.close(self.path, self.direction, from, Some(to), &mut reached)? {
                self.found(*row, from, to, found);
            }
        }
        Ok(())
    }

    /// Walks from each start once, for all rows that have it.
    fn all_starts(
        &self,
        walker: &mut Walker<'_, '_>,
        starts: &[TermId],
        found: &mut Found,
    ) -> Result<(), QueryError> {
        let mut ends = Ends::default();
        walker.lead(self.path, self.direction, starts, &mut ends)?;
        let (borders, order) = by_number(&ends.places, starts.len());
        let mut reached: Vec<TermId> = order.iter().map(|at| ends.ids[*at as usize]).collect();
        if self.is_check() {
            for at in 0..starts.len() {
                reached[borders[at] as usize..borders[at + 1] as usize].sort_unstable();
            }
        }
        for row in self.rows {
            let from = self.start.at(*row as usize);
            let Ok(at) = starts.binary_search(&from) else {
                continue;
            };
            let mut list = &reached[borders[at] as usize..borders[at + 1] as usize];
            if self.is_check() {
                let to = self.other.at(*row as usize);
                let first = list.partition_point(|id| *id < to);
                let count = list[first..].partition_point(|id| *id == to);
                list = &list[first..first + count];
            }
            for end in list {
                self.found(*row, from, *end, found);
            }
            walker.limiter.tick()?;
            let held = (found.rows.len() + reached.len()) * 32;
            walker.limiter.check_memory(held)?;
        }
        Ok(())
    }
}

/// All pairs of vertices that a path connects, for every row.
fn all_pairs(
    walker: &mut Walker<'_, '_>,
    pattern: &PathPattern,
    rows: &[u32],
    graph: TermId,
    found: &mut Found,
) -> Result<(), QueryError> {
    let same = pattern.subject == pattern.object;
    let (subjects, objects) = walker.pairs(&pattern.path)?;
    for row in rows {
        for (s, o) in subjects.iter().zip(&objects) {
            if !same || s == o {
                found.push(*row, *s, *o, graph);
            }
        }
        walker.limiter.check_memory(found.rows.len() * 32)?;
        walker.limiter.check_interrupt()?;
    }
    Ok(())
}

/// The number of values that an end has in some rows.
fn distinct(end: End<'_>, rows: &[u32]) -> usize {
    match end {
        End::Column(column) => {
            let mut ids: Vec<TermId> = rows.iter().map(|row| column[*row as usize]).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.len()
        }
        End::Constant(_) => 1,
        End::Free => usize::MAX,
    }
}

#[derive(Default)]
struct Found {
    rows: Vec<u32>,
    subjects: Vec<TermId>,
    objects: Vec<TermId>,
    graphs: Vec<TermId>,
}

impl Found {
    fn push(&mut self, row: u32, s: TermId, o: TermId, graph: TermId) {
        self.rows.push(row);
        self.subjects.push(s);
        self.objects.push(o);
        self.graphs.push(graph);
    }
}
