//! Samples: how many edges the vertices of one pattern have in another one. Statistics of single
//! predicates cannot tell whether vertices with one edge also have another; a few dozen vertices
//! spread over the list can. The vertices are at fixed places, so that equal data gives equal
//! plans, and their number depends on the expected cost of the query.

use crate::algebra::logical::{Position, QuadPattern};
use crate::plan::join_graph::{JoinGraph, PartKind, Sample, SearchState};
use crate::plan::planner::Planner;
use crate::plan::unplaced::{Orderable, Unplaced};
use crate::view::graph_view::{GraphView, Source};
use crate::view::sources::{self, Lists};
use somersault_lang::VarId;
use somersault_model::{Direction, TermId, TripleIds};

/// The number of nanoseconds that a look at one vertex takes.
const LOOK: f64 = 100.0;
/// Sampling takes at most this share of what the query is expected to take.
const SHARE: f64 = 0.1;
/// Most looks for one plan: 100 µs or so.
const MOST_LOOKS: f64 = 1000.0;
/// Vertices per pair of patterns: fewer say nothing, more say nothing new.
const FEWEST: usize = 8;
const MOST: usize = 64;
/// With more parts there are too many pairs.
const MOST_PARTS: usize = 16;
/// Two lists with at most this total length are compared as a whole, which takes a few
/// microseconds.
const LONGEST_COMPARED: f64 = 2048.0;
/// A list of two windows or graphs is merged by copying. Longer lists than this are not sampled.
const LONGEST_COPIED: usize = 4096;

/// One pattern that can be sampled.
pub(crate) struct SampledPattern {
    pub(crate) part: usize,
    pub(crate) subject: Result<TermId, VarId>,
    pub(crate) predicate: TermId,
    pub(crate) object: Result<TermId, VarId>,
    pub(crate) sources: Vec<Source>,
    triples: f64,
    pub(crate) subjects: f64,
    pub(crate) objects: f64,
}

impl SampledPattern {
    /// The direction in which edges lead away from a variable, if it is one of the ends.
    pub(crate) fn away_from(&self, variable: VarId) -> Option<Direction> {
        match (&self.subject, &self.object) {
            (Err(s), Err(o)) if s == o => None,
            (Err(s), _) if *s == variable => Some(Direction::Out),
            (_, Err(o)) if *o == variable => Some(Direction::In),
            _ => None,
        }
    }

    /// The end that an edge in this direction reaches.
    fn far_end(&self, away: Direction) -> Result<TermId, VarId> {
        match away {
            Direction::Out => self.object,
            Direction::In => self.subject,
        }
    }

    /// The number of its edges that lead away from a vertex.
    fn edges_of(&self, view: &dyn GraphView, vertex: TermId, away: Direction) -> f64 {
        let Ok(end) = self.far_end(away) else {
            let (sources, predicate) = (&self.sources, self.predicate);
            return sources::neighbour_estimate(view, sources, vertex, predicate, away) as f64;
        };
        let triple = match away {
            Direction::Out => TripleIds::new(vertex, self.predicate, end),
            Direction::In => TripleIds::new(end, self.predicate, vertex),
        };
        f64::from(u8::from(sources::contains(view, &self.sources, triple)))
    }

    fn vertices(&self, away: Direction) -> f64 {
        match away {
            Direction::Out => self.subjects,
            Direction::In => self.objects,
        }
    }
}

impl JoinGraph<'_> {
    /// The number of vertices to sample for a query with this expected cost; `always`: whatever it
    /// costs.
    pub(crate) fn looks(&self, expected: f64, always: bool) -> usize {
        let affordable = if always {
            MOST_LOOKS
        } else {
            expected * SHARE / LOOK
        };
        let looks = affordable.min(MOST_LOOKS) as usize;
        if (2..=MOST_PARTS).contains(&self.list.len()) && looks >= 2 * FEWEST {
            looks
        } else {
            0
        }
    }
}

impl Planner<'_> {
    /// Samples what the patterns have in common, if this many looks are enough for all their pairs.
    /// Returns whether it did.
    pub(crate) fn sample(
        &self,
        sampled: &[SampledPattern],
        parts: &mut JoinGraph<'_>,
        start: &SearchState,
        looks: usize,
    ) -> bool {
        let mut pairs = Vec::new();
        for from in sampled {
            for to in sampled {
                if from.part == to.part {
                    continue;
                }
                for (at, variable) in parts.variables.iter().enumerate() {
                    // A variable that is bound from outside has other vertices than the list.
                    if start.bound[at].values == 0.0
                        && let (Some(there), Some(here)) =
                            (from.away_from(*variable), to.away_from(*variable))
                    {
                        pairs.push((from, there, to, here, at));
                    }
                }
            }
        }
        // For every pair, both degrees may be asked for.
        let each = (looks / 2 / pairs.len().max(1)).min(MOST);
        if pairs.is_empty() || each < FEWEST {
            return false;
        }
        parts.samples.resize_with(parts.list.len(), Vec::new);
        for (from, there, to, here, variable) in pairs {
            if self.is_over_time() {
                break;
            }
            let Some((fanout, hit)) = self.look(from, there, to, here, each) else {
                continue;
            };
            parts.samples[to.part].push(Sample {
                from: from.part,
                variable,
                fanout,
                hit,
                vertices: from.vertices(there),
            });
        }
        true
    }

    /// The patterns that can be sampled.
    pub(crate) fn sampled(
        &self,
        left: &Unplaced<'_>,
        parts: &JoinGraph<'_>,
    ) -> Vec<SampledPattern> {
        let id = |position| match position {
            Position::Constant(c) => {
                Ok(self.constants[crate::algebra::expression::ConstantId::index(c)])
            }
            Position::Variable(v) => Err(v),
        };
        let one = |(part, core): (usize, &Option<Orderable<'_>>)| {
            let Some(Orderable::Pattern(pattern, _)) = core else {
                return None;
            };
            let QuadPattern {
                subject,
                predicate: Position::Constant(predicate),
                object,
                graph,
            } = pattern
            else {
                return None;
            };
            let PartKind::Pattern(known) = &parts.list[part].kind else {
                return None;
            };
            if graph.variable().is_some() || known.cardinality.triples == 0.0 {
                return None;
            }
            let view = self.graphs.view();
            let predicate = self.constants[predicate.index()];
            let mut sources = self
                .graphs
                .sources_of(*graph, |c| self.constants[c.index()]);
            sources.retain(|s| view.predicate_statistics(*s, predicate).statements > 0);
            Some(SampledPattern {
                part,
                subject: id(*subject),
                predicate,
                object: id(*object),
                sources,
                triples: known.cardinality.triples,
                subjects: known.cardinality.subjects,
                objects: known.cardinality.objects,
            })
        };
        left.core.iter().enumerate().filter_map(one).collect()
    }

    /// Short lists are compared as a whole: what few of their vertices have in common would seldom
    /// be in a sample. Only how many edges those have is sampled. `weighed_by` is the pattern whose
    /// vertices `all` are, where they count once for each of its rows.
    fn compare(
        &self,
        all: &[TermId],
        weighed_by: Option<(&SampledPattern, Direction)>,
        (to, here): (&SampledPattern, Direction),
        count: usize,
    ) -> Option<(f64, f64)> {
        let view = self.graphs.view();
        let source = *to.sources.first()?;
        let mut list = Vec::new();
        let theirs = match to.far_end(here) {
            Ok(end) => view.neighbours(source, end, to.predicate, here.reverse(), &mut list),
            Err(_) => view.vertices_with(source, to.predicate, here, &mut list),
        };
        let mut rest = theirs;
        let mut common = Vec::new();
        for vertex in all {
            let passed = rest.iter().take_while(|other| *other < vertex).count();
            rest = &rest[passed..];
            if rest.first() == Some(vertex) {
                common.push(*vertex);
            }
        }
        let looked = count.min(common.len());
        let degree = |of: &SampledPattern, away| {
            let source = of.sources[0];
            let degrees = (0..looked).map(|at| {
                let vertex = common[(2 * at + 1) * common.len() / (2 * looked)];
                view.neighbour_estimate(source, vertex, of.predicate, away) as f64
            });
            degrees.sum::<f64>() / looked.max(1) as f64
        };
        let (rows, each) = match weighed_by {
            Some((from, there)) => (from.triples, degree(from, there)),
            None => (all.len() as f64, 1.0),
        };
        let fanout = to.far_end(here).map_or_else(|_| degree(to, here), |_| 1.0);
        let hit = (common.len() as f64 * each / rows.max(1.0)).min(1.0);
        (rows > 0.0).then(|| ((hit * fanout).max(0.5 / rows.max(1.0)), hit))
    }

    /// Looks at some vertices of `from` in `to`: edges there per row of `from`, and the share of
    /// the rows that have any.
    fn look(
        &self,
        from: &SampledPattern,
        there: Direction,
        to: &SampledPattern,
        here: Direction,
        count: usize,
    ) -> Option<(f64, f64)> {
        let view = self.graphs.view();
        let vertices = from.vertices(there);
        if from.sources.len() > 1 && vertices > LONGEST_COPIED as f64 {
            return None;
        }
        let mut lists = Lists::default();
        let all: &[TermId] = match from.far_end(there) {
            Ok(end) => sources::neighbours(
                view,
                &from.sources,
                end,
                from.predicate,
                there.reverse(),
                &mut lists,
            ),
            Err(_) => {
                sources::vertices_with(view, &from.sources, from.predicate, there, &mut lists)
            }
        };
        // A vertex counts once for each row that has it.
        let weighs = from.far_end(there).is_err() && from.triples > 1.1 * vertices;
        if all.len() as f64 + to.vertices(here) <= LONGEST_COMPARED
            && from.sources.len() == 1
            && to.sources.len() == 1
        {
            return self.compare(all, weighs.then_some((from, there)), (to, here), count);
        }
        let count = count.min(all.len());
        let (mut rows, mut edges, mut hits) = (0.0, 0.0, 0.0);
        for at in 0..count {
            let vertex = all[(2 * at + 1) * all.len() / (2 * count)];
            let weight = match weighs {
                true => from.edges_of(view, vertex, there),
                false => 1.0,
            };
            let found = to.edges_of(view, vertex, here);
            rows += weight;
            edges += weight * found;
            hits += if found > 0.0 { weight } else { 0.0 };
        }
        (rows > 0.0).then(|| {
            // Zero seen edges do not mean that there are none.
            let least = 0.5 / rows.max(1.0);
            ((edges / rows).max(least), hits / rows)
        })
    }
}
