//! Follows a path from a column of vertices, and finds the vertices that it connects, in one graph.

use crate::algebra::error::QueryError;
use crate::algebra::expression::ConstantId;
use crate::algebra::logical::Path;
use crate::context::limiter::Limiter;
use crate::context::workspace::Workspace;
use crate::exec::column_scan;
use crate::exec::explore::Explorer;
use crate::view::graph_view::Source;
use crate::view::sources::{self, Graphs, Lists};
use rustc_hash::FxHashMap;
use somersault_model::{Direction, TermId};

/// Vertices that are followed at once, and ends that are made between two limit checks.
const VERTICES_AT_ONCE: usize = 1 << 10;
const ENDS_PER_CHECK: usize = 1 << 14;

/// Which vertex (by its place in a column) leads to which end.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) places: Vec<u32>,
    pub(super) ids: Vec<TermId>,
}

/// Follows paths in one graph.
pub(super) struct Walker<'w, 'g> {
    graphs: &'w Graphs<'g>,
    constants: &'w [TermId],
    sources: &'w [Source],
    pub(super) limiter: &'w mut Limiter<'g>,
    workspace: &'w mut Workspace,
    /// The walk that last came by a vertex; walks are numbered, so that nothing need be forgotten.
    seen: FxHashMap<TermId, u32>,
    walks: u32,
}

impl<'w, 'g> Walker<'w, 'g> {
    pub(super) fn new(explorer: &'w mut Explorer<'_, 'g>, sources: &'w [Source]) -> Self {
        Self {
            graphs: explorer.graphs,
            constants: explorer.constants,
            sources,
            limiter: &mut *explorer.limiter,
            workspace: &mut *explorer.workspace,
            seen: FxHashMap::default(),
            walks: 0,
        }
    }

    /// Appends everything that the path leads to from each vertex, with the graph's edges as they
    /// are (`Out`) or backwards; repeats count.
    pub(super) fn lead(
        &mut self,
        path: &Path,
        direction: Direction,
        vertices: &[TermId],
        into: &mut Ends,
    ) -> Result<(), QueryError> {
        match path {
            Path::Predicate(predicate) => {
                self.along(self.constants[predicate.index()], direction, vertices, into)
            }
            Path::Inverse(path) => self.lead(path, direction.reverse(), vertices, into),
            Path::Sequence(parts) => match direction {
                Direction::Out => self.sequence(parts.iter(), direction, vertices, into),
                Direction::In => self.sequence(parts.iter().rev(), direction, vertices, into),
            },
            Path::Alternative(parts) => parts
                .iter()
                .try_for_each(|part| self.lead(part, direction, vertices, into)),
            Path::ZeroOrMore(_) | Path::OneOrMore(_) => {
                self.closures(path, direction, vertices, into)
            }
            Path::ZeroOrOne(path) => self.zero_or_one(path, direction, vertices, into),
            Path::Negated(excluded) => self.negated(excluded, direction, vertices, into),
        }
    }

    fn along(
        &mut self,
        predicate: TermId,
        direction: Direction,
        vertices: &[TermId],
        into: &mut Ends,
    ) -> Result<(), QueryError> {
        let mut at = 0;
        while at < vertices.len() {
            let to = (at + VERTICES_AT_ONCE).min(vertices.len());
            at += column_scan::expand(
                self.graphs.view(),
                self.sources,
                (predicate, direction),
                &vertices[at..to],
                at as u32,
                into.ids.len() + ENDS_PER_CHECK,
                (&mut into.places, &mut into.ids),
                self.workspace,
            );
            self.limiter.tick()?;
            self.limiter.check_memory(into.ids.len() * 12)?;
        }
        Ok(())
    }

    fn sequence<'p>(
        &mut self,
        parts: impl Iterator<Item = &'p Path>,
        direction: Direction,
        vertices: &[TermId],
        into: &mut Ends,
    ) -> Result<(), QueryError> {
        let mut so_far = Ends {
            places: (0..vertices.len() as u32).collect(),
            ids: vertices.to_vec(),
        };
        for part in parts {
            let mut next = Ends::default();
            self.lead(part, direction, &so_far.ids, &mut next)?;
            for place in &mut next.places {
                *place = so_far.places[*place as usize];
            }
            so_far = next;
        }
        into.places.append(&mut so_far.places);
        into.ids.append(&mut so_far.ids);
        Ok(())
    }

    /// Each vertex itself, and what one step leads to; each once.
    fn zero_or_one(
        &mut self,
        path: &Path,
        direction: Direction,
        vertices: &[TermId],
        into: &mut Ends,
    ) -> Result<(), QueryError> {
        let mut ends = Ends {
            places: (0..vertices.len() as u32).collect(),
            ids: vertices.to_vec(),
        };
        self.lead(path, direction, vertices, &mut ends)?;
        let mut pairs: Vec<(u32, TermId)> = ends.places.into_iter().zip(ends.ids).collect();
        pairs.sort_unstable();
        pairs.dedup();
        into.places.extend(pairs.iter().map(|(place, _)| *place));
        into.ids.extend(pairs.iter().map(|(_, id)| *id));
        Ok(())
    }

    /// One solution for each edge, whichever ends are known, as a triple pattern and a FILTER on
    /// its predicate give: SPARQL 1.1, section 18.4, does not say how often two vertices count
    /// between which there are several edges (w3c/sparql-query, issue 395).
    fn negated(
        &mut self,
        excluded: &[ConstantId],
        direction: Direction,
        vertices: &[TermId],
        into: &mut Ends,
    ) -> Result<(), QueryError> {
        let view = self.graphs.view();
        let mut predicates = Vec::new();
        for (place, vertex) in vertices.iter().enumerate() {
            sources::predicates_of(view, self.sources, *vertex, direction, &mut predicates);
            for predicate in &predicates {
                if !self.excludes(excluded, *predicate) {
                    let before = into.places.len();
                    self.along(*predicate, direction, &[*vertex], into)?;
                    into.places[before..].fill(place as u32);
                }
            }
        }
        Ok(())
    }

    fn excludes(&self, excluded: &[ConstantId], predicate: TermId) -> bool {
        excluded
            .iter()
            .any(|other| self.constants[other.index()] == predicate)
    }

    /// The vertices that a closure reaches; from a repeated vertex it is followed once.
    fn closures(
        &mut self,
        path: &Path,
        direction: Direction,
        vertices: &[TermId],
        into: &mut Ends,
    ) -> Result<(), QueryError> {
        let mut starts = vertices.to_vec();
        starts.sort_unstable();
        starts.dedup();
        let mut ends: Vec<TermId> = Vec::new();
        let mut borders = vec![0];
        for start in &starts {
            self.close(path, direction, *start, None, &mut ends)?;
            borders.push(ends.len());
            self.limiter
                .check_memory((ends.len() + into.ids.len()) * 12)?;
        }
        for (place, vertex) in vertices.iter().enumerate() {
            if let Ok(at) = starts.binary_search(vertex) {
                let reached = &ends[borders[at]..borders[at + 1]];
                into.ids.extend_from_slice(reached);
                into.places.resize(into.ids.len(), place as u32);
                self.limiter.tick()?;
                self.limiter
                    .check_memory((ends.len() + into.ids.len()) * 12)?;
            }
        }
        Ok(())
    }

    /// Appends what a closure leads to from one vertex, each end once, level by level; with a
    /// target, it stops where that is reached. Whether it was.
    pub(super) fn close(
        &mut self,
        path: &Path,
        direction: Direction,
        start: TermId,
        target: Option<TermId>,
        into: &mut Vec<TermId>,
    ) -> Result<bool, QueryError> {
        let (step, mut frontier) = match path {
            Path::ZeroOrMore(step) => (
                step,
                Ends {
                    places: vec![0],
                    ids: vec![start],
                },
            ),
            Path::OneOrMore(step) => {
                let mut first = Ends::default();
                self.lead(step, direction, &[start], &mut first)?;
                (step, first)
            }
            _ => unreachable!("only closures are closed"),
        };
        let nested = step.has_closure();
        self.walks += 1;
        let walk = self.walks;
        let mut levels_from = into.len();
        loop {
            for id in frontier.ids.drain(..) {
                if self.seen.insert(id, walk) != Some(walk) {
                    into.push(id);
                    if target == Some(id) {
                        return Ok(true);
                    }
                }
            }
            frontier.places.clear();
            self.limiter
                .check_memory(self.seen.len() * 32 + into.len() * 8)?;
            if levels_from == into.len() {
                return Ok(false);
            }
            let level = levels_from..into.len();
            levels_from = into.len();
            // A step that holds closures itself has walks of its own, which must not be mixed up
            // with this one.
            let seen = nested.then(|| std::mem::take(&mut self.seen));
            self.lead(step, direction, &into[level], &mut frontier)?;
            if let Some(seen) = seen {
                self.seen = seen;
            }
        }
    }

    /// All pairs that the path connects: subjects, and as many objects.
    pub(super) fn pairs(&mut self, path: &Path) -> Result<(Vec<TermId>, Vec<TermId>), QueryError> {
        let (mut subjects, mut objects) = (Vec::new(), Vec::new());
        match path {
            Path::Predicate(predicate) => {
                self.edges(
                    self.constants[predicate.index()],
                    &mut subjects,
                    &mut objects,
                )?;
            }
            Path::Negated(excluded) => {
                let mut predicates = Vec::new();
                sources::predicates(self.graphs.view(), self.sources, &mut predicates);
                for predicate in predicates {
                    if !self.excludes(excluded, predicate) {
                        self.edges(predicate, &mut subjects, &mut objects)?;
                    }
                }
            }
            Path::Inverse(path) => {
                let (s, o) = self.pairs(path)?;
                return Ok((o, s));
            }
            Path::Alternative(parts) => {
                for part in parts {
                    let (mut s, mut o) = self.pairs(part)?;
                    subjects.append(&mut s);
                    objects.append(&mut o);
                }
            }
            Path::Sequence(parts) => {
                if let Some((first, rest)) = parts.split_first() {
                    let (s, o) = self.pairs(first)?;
                    let mut ends = Ends::default();
                    self.sequence(rest.iter(), Direction::Out, &o, &mut ends)?;
                    subjects.extend(ends.places.iter().map(|at| s[*at as usize]));
                    objects = ends.ids;
                }
            }
            Path::ZeroOrMore(_) | Path::ZeroOrOne(_) => {
                let starts = self.vertices()?;
                return self.pairs_from(path, &starts);
            }
            Path::OneOrMore(inner) => {
                let (mut starts, _) = self.pairs(inner)?;
                starts.sort_unstable();
                starts.dedup();
                return self.pairs_from(path, &starts);
            }
        }
        Ok((subjects, objects))
    }

    fn pairs_from(
        &mut self,
        path: &Path,
        starts: &[TermId],
    ) -> Result<(Vec<TermId>, Vec<TermId>), QueryError> {
        let mut ends = Ends::default();
        self.lead(path, Direction::Out, starts, &mut ends)?;
        let subjects = ends.places.iter().map(|at| starts[*at as usize]);
        Ok((subjects.collect(), ends.ids))
    }

    fn edges(
        &mut self,
        predicate: TermId,
        subjects: &mut Vec<TermId>,
        objects: &mut Vec<TermId>,
    ) -> Result<(), QueryError> {
        let limiter = &mut *self.limiter;
        let (view, ends) = (self.graphs.view(), (subjects, objects));
        column_scan::edges(view, self.sources, predicate, usize::MAX, ends, |edges| {
            limiter.check_interrupt()?;
            limiter.check_memory(edges * 16)
        })
    }

    /// Whether a term is a subject or object of the graph.
    pub(super) fn is_vertex(&self, term: TermId) -> bool {
        let mut list = Vec::new();
        [Direction::Out, Direction::In]
            .into_iter()
            .any(|direction| {
                sources::predicates_of(
                    self.graphs.view(),
                    self.sources,
                    term,
                    direction,
                    &mut list,
                );
                !list.is_empty()
            })
    }

    /// Every subject and object of the graph.
    fn vertices(&mut self) -> Result<Vec<TermId>, QueryError> {
        let (view, reads) = (self.graphs.view(), self.sources);
        let (mut predicates, mut all) = (Vec::new(), Vec::new());
        let mut lists = Lists::default();
        sources::predicates(view, reads, &mut predicates);
        // Most vertices have several predicates: repeats go as often as there may be that many.
        let mut distinct = 0;
        for predicate in predicates {
            for direction in [Direction::Out, Direction::In] {
                self.limiter.check_interrupt()?;
                let next = sources::vertices_at_most(view, reads, predicate, direction);
                self.limiter.check_memory((all.len() + 2 * next) * 8)?;
                let lists = &mut lists;
                let found = sources::vertices_with(view, reads, predicate, direction, lists);
                all.extend_from_slice(found);
                if all.len() > 2 * distinct {
                    all.sort_unstable();
                    all.dedup();
                    distinct = all.len();
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}
