//! Property paths, followed along adjacency lists (SPARQL 1.1, section 18.4): sequences and
//! alternatives keep repeats, closures yield each end once.

use crate::QueryError;
use crate::Source;
use crate::execution::Guard;
use crate::explore::Explorer;
use crate::logical::{GraphPosition, Path, PathPattern, Position};
use crate::sources::{self, Graphs};
use crate::table::Table;
use crate::varset::VarSet;
use rustc_hash::FxHashSet;
use somersault_model::{Direction, TermId};

/// Follows a path in one graph.
struct Walker<'w, 'g> {
    graphs: &'w Graphs<'g>,
    constants: &'w [TermId],
    sources: Vec<Source>,
}

impl Walker<'_, '_> {
    /// Everything that the path reaches from a vertex, with the graph's edges as they are (`Out`) or
    /// backwards; repeats count.
    fn reach(
        &self,
        path: &Path,
        from: TermId,
        direction: Direction,
        guard: &mut Guard<'_>,
        into: &mut Vec<TermId>,
    ) -> Result<(), QueryError> {
        guard.tick()?;
        match path {
            Path::Predicate(predicate) => {
                let predicate = self.constants[predicate.index()];
                self.along(from, predicate, direction, into);
            }
            Path::Inverse(path) => self.reach(path, from, direction.reverse(), guard, into)?,
            Path::Sequence(parts) => {
                let mut ends = vec![from];
                let mut step = |part: &Path| -> Result<(), QueryError> {
                    let mut next = Vec::new();
                    for end in &ends {
                        self.reach(part, *end, direction, guard, &mut next)?;
                        guard.fits(next.len() * 8)?;
                    }
                    ends = next;
                    Ok(())
                };
                match direction {
                    Direction::Out => parts.iter().try_for_each(&mut step)?,
                    Direction::In => parts.iter().rev().try_for_each(&mut step)?,
                }
                into.extend(ends);
            }
            Path::Alternative(parts) => {
                for part in parts {
                    self.reach(part, from, direction, guard, into)?;
                }
            }
            Path::ZeroOrMore(path) => self.close(path, vec![from], direction, guard, into)?,
            Path::OneOrMore(path) => {
                let mut first = Vec::new();
                self.reach(path, from, direction, guard, &mut first)?;
                self.close(path, first, direction, guard, into)?;
            }
            Path::ZeroOrOne(path) => {
                let mut ends = vec![from];
                self.reach(path, from, direction, guard, &mut ends)?;
                ends.sort_unstable();
                ends.dedup();
                into.extend(ends);
            }
            Path::Negated(excluded) => {
                let mut predicates = Vec::new();
                let view = self.graphs.view;
                sources::predicates_of(view, &self.sources, from, direction, &mut predicates);
                for predicate in predicates {
                    if !self.excludes(excluded, predicate) {
                        self.along(from, predicate, direction, into);
                    }
                }
            }
        }
        Ok(())
    }

    fn excludes(&self, excluded: &[crate::expression::ConstantId], predicate: TermId) -> bool {
        excluded
            .iter()
            .any(|other| self.constants[other.index()] == predicate)
    }

    fn along(&self, from: TermId, predicate: TermId, direction: Direction, into: &mut Vec<TermId>) {
        let (mut list, mut merged) = (Vec::new(), Vec::new());
        into.extend_from_slice(sources::neighbours(
            self.graphs.view,
            &self.sources,
            from,
            predicate,
            direction,
            &mut list,
            &mut merged,
        ));
    }

    /// What is reached from `first` by any number of steps, `first` itself included; each once.
    fn close(
        &self,
        path: &Path,
        first: Vec<TermId>,
        direction: Direction,
        guard: &mut Guard<'_>,
        into: &mut Vec<TermId>,
    ) -> Result<(), QueryError> {
        let mut seen = FxHashSet::default();
        let mut waiting: Vec<TermId> = Vec::new();
        let mut next = first;
        loop {
            for id in next.drain(..) {
                if seen.insert(id) {
                    waiting.push(id);
                    into.push(id);
                }
            }
            guard.fits(seen.len() * 32)?;
            let Some(from) = waiting.pop() else { break };
            self.reach(path, from, direction, guard, &mut next)?;
        }
        Ok(())
    }

    /// All pairs that the path connects.
    fn pairs(
        &self,
        path: &Path,
        guard: &mut Guard<'_>,
    ) -> Result<Vec<(TermId, TermId)>, QueryError> {
        let view = self.graphs.view;
        let mut found = Vec::new();
        match path {
            Path::Predicate(predicate) => {
                self.edges(self.constants[predicate.index()], guard, &mut found)?;
            }
            Path::Negated(excluded) => {
                let mut predicates = Vec::new();
                sources::predicates(view, &self.sources, &mut predicates);
                for predicate in predicates {
                    if !self.excludes(excluded, predicate) {
                        self.edges(predicate, guard, &mut found)?;
                    }
                }
            }
            Path::Inverse(path) => {
                found = self.pairs(path, guard)?;
                found.iter_mut().for_each(|(s, o)| std::mem::swap(s, o));
            }
            Path::Alternative(parts) => {
                for part in parts {
                    found.extend(self.pairs(part, guard)?);
                }
            }
            Path::Sequence(parts) => {
                let Some((first, rest)) = parts.split_first() else {
                    return Ok(found);
                };
                found = self.pairs(first, guard)?;
                for part in rest {
                    let mut next = Vec::new();
                    for (s, middle) in found {
                        let mut ends = Vec::new();
                        self.reach(part, middle, Direction::Out, guard, &mut ends)?;
                        next.extend(ends.into_iter().map(|o| (s, o)));
                        guard.fits(next.len() * 16)?;
                    }
                    found = next;
                }
            }
            Path::ZeroOrMore(_) | Path::ZeroOrOne(_) => {
                for vertex in self.vertices() {
                    let mut ends = Vec::new();
                    self.reach(path, vertex, Direction::Out, guard, &mut ends)?;
                    found.extend(ends.into_iter().map(|o| (vertex, o)));
                    guard.fits(found.len() * 16)?;
                }
            }
            Path::OneOrMore(inner) => {
                let mut starts: Vec<TermId> = self
                    .pairs(inner, guard)?
                    .into_iter()
                    .map(|(s, _)| s)
                    .collect();
                starts.sort_unstable();
                starts.dedup();
                for start in starts {
                    let mut ends = Vec::new();
                    self.reach(path, start, Direction::Out, guard, &mut ends)?;
                    found.extend(ends.into_iter().map(|o| (start, o)));
                    guard.fits(found.len() * 16)?;
                }
            }
        }
        Ok(found)
    }

    fn edges(
        &self,
        predicate: TermId,
        guard: &mut Guard<'_>,
        into: &mut Vec<(TermId, TermId)>,
    ) -> Result<(), QueryError> {
        let mut subjects = Vec::new();
        let view = self.graphs.view;
        sources::vertices_with(
            view,
            &self.sources,
            predicate,
            Direction::Out,
            &mut subjects,
        );
        for subject in subjects {
            guard.tick()?;
            let mut objects = Vec::new();
            self.along(subject, predicate, Direction::Out, &mut objects);
            into.extend(objects.into_iter().map(|object| (subject, object)));
        }
        guard.fits(into.len() * 16)
    }

    /// Whether a term is a subject or object of the graph.
    fn is_vertex(&self, term: TermId) -> bool {
        let mut list = Vec::new();
        [Direction::Out, Direction::In]
            .into_iter()
            .any(|direction| {
                sources::predicates_of(self.graphs.view, &self.sources, term, direction, &mut list);
                !list.is_empty()
            })
    }

    /// Every subject and object of the graph.
    fn vertices(&self) -> Vec<TermId> {
        let view = self.graphs.view;
        let (mut predicates, mut some, mut all) = (Vec::new(), Vec::new(), Vec::new());
        sources::predicates(view, &self.sources, &mut predicates);
        for predicate in predicates {
            for direction in [Direction::Out, Direction::In] {
                sources::vertices_with(view, &self.sources, predicate, direction, &mut some);
                all.extend_from_slice(&some);
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Follows a path from every row.
pub(crate) fn follow(
    explorer: &mut Explorer<'_, '_>,
    pattern: &PathPattern,
    keep: &VarSet,
    table: Table,
) -> Result<Table, QueryError> {
    let Explorer {
        graphs,
        constants,
        guard,
        workspace,
    } = explorer;
    let value = |position: Position, row: usize| match position {
        Position::Constant(constant) => constants[constant.index()],
        Position::Variable(variable) => table.get(variable, row),
    };
    let mut found = Found::default();
    for row in 0..table.rows {
        guard.tick()?;
        let (s, o) = (value(pattern.subject, row), value(pattern.object, row));
        let graph = match pattern.graph {
            GraphPosition::Named(name) => Some(value(name, row)),
            GraphPosition::Default | GraphPosition::Current => None,
        };
        let candidates: Vec<(TermId, Vec<Source>)> = match graph {
            None => {
                let sources = graphs.sources_of(pattern.graph, |c| constants[c.index()]);
                vec![(TermId::UNBOUND, sources)]
            }
            Some(name) if !name.is_unbound() => graphs
                .source_of(name)
                .map(|source| (name, vec![source]))
                .into_iter()
                .collect(),
            Some(_) => graphs
                .named()
                .iter()
                .map(|(name, source)| (*name, source.to_vec()))
                .collect(),
        };
        for (name, sources) in candidates {
            let walker = Walker {
                graphs,
                constants,
                sources,
            };
            let variables =
                pattern.subject.variable().is_some() && pattern.object.variable().is_some();
            let known = if s.is_unbound() { o } else { s };
            // Between two variables a path of no step leads from vertices of the graph only, also
            // where something else has bound them already; from a constant it always leads.
            if variables
                && !known.is_unbound()
                && pattern.path.is_nullable()
                && !walker.is_vertex(known)
            {
                continue;
            }
            let pairs = connected(&walker, &pattern.path, s, o, guard)?;
            for (s, o) in pairs {
                if pattern.subject != pattern.object || s == o {
                    found.push(row, s, o, name);
                }
            }
            guard.fits(found.rows.len() * 32 + table.bytes())?;
        }
    }
    let (subject, object) = (pattern.subject.variable(), pattern.object.variable());
    let graph = pattern.graph.variable();
    let mut table = table.gather(&found.rows, keep, workspace);
    let columns = [
        (subject, found.subjects),
        (object, found.objects),
        (graph, found.graphs),
    ];
    for (variable, column) in columns {
        if let Some(variable) = variable {
            table.set_kept(variable, column, keep, workspace);
        }
    }
    Ok(table)
}

/// The pairs that a path connects, with what is known of its ends.
fn connected(
    walker: &Walker<'_, '_>,
    path: &Path,
    s: TermId,
    o: TermId,
    guard: &mut Guard<'_>,
) -> Result<Vec<(TermId, TermId)>, QueryError> {
    let mut ends = Vec::new();
    Ok(match (s.is_unbound(), o.is_unbound()) {
        (true, true) => walker.pairs(path, guard)?,
        (true, false) => {
            walker.reach(path, o, Direction::In, guard, &mut ends)?;
            ends.into_iter().map(|s| (s, o)).collect()
        }
        (false, open) => {
            walker.reach(path, s, Direction::Out, guard, &mut ends)?;
            ends.into_iter()
                .filter(|end| open || *end == o)
                .map(|end| (s, end))
                .collect()
        }
    })
}

#[derive(Default)]
struct Found {
    rows: Vec<u32>,
    subjects: Vec<TermId>,
    objects: Vec<TermId>,
    graphs: Vec<TermId>,
}

impl Found {
    fn push(&mut self, row: usize, s: TermId, o: TermId, graph: TermId) {
        self.rows.push(row as u32);
        self.subjects.push(s);
        self.objects.push(o);
        self.graphs.push(graph);
    }
}
