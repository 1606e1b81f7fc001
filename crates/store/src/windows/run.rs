//! A run: an immutable, sorted, compact adjacency of a set of triples, in both directions, by
//! predicate and by vertex, each triple with its newest batch. It consists of columns and has no
//! pointers: a slice holds one run, and a window one or several.

use crate::statistics::PredicateStatistics;
use crate::windows::edge_columns::EdgeColumns;
use crate::windows::slice_rows::{OutRow, SliceRows};
use somersault_model::{BatchNumber, Direction, TermId, TripleIds};

/// A set of triples of one or several batches.
#[derive(Debug, Default)]
pub struct Run {
    out: EdgeColumns,
    into: EdgeColumns,
}

impl Run {
    /// The run of these triples, all of one batch, and the number of each of them in the order of
    /// [`Run::triples`]: repeats share one.
    pub(crate) fn of_batch(
        batch: BatchNumber,
        triples: impl Iterator<Item = TripleIds> + Clone,
    ) -> (Run, Vec<u32>) {
        let mut rows = SliceRows::default();
        rows.add_triples(triples);
        Run::of_rows(batch, rows)
    }

    /// As [`Run::of_batch`], for the triples of these rows.
    pub(crate) fn of_rows(batch: BatchNumber, rows: SliceRows) -> (Run, Vec<u32>) {
        let (rows, mut turned) = rows.into_sorted();
        let mut places = vec![0; rows.len()];
        let mut out = EdgeColumns::with_capacity(rows.len(), rows.len());
        let repeats = |a: &OutRow, b: &OutRow| (a.0, a.1, a.2) == (b.0, b.1, b.2);
        for (place, same) in (0..).zip(rows.chunk_by(repeats)) {
            let (predicate, subject, object, _) = same[0];
            for (.., at) in same {
                places[*at as usize] = place;
            }
            out.push(predicate, subject, object);
        }
        turned.dedup();
        let mut into = EdgeColumns::with_capacity(turned.len(), turned.len());
        for (predicate, object, subject) in turned {
            into.push(predicate, object, subject);
        }
        let run = Run {
            out: out.finish_batch(batch),
            into: into.finish_batch(batch),
        };
        (run, places)
    }

    /// Merges several runs into one, without the triples whose newest batch is before `from`.
    pub(crate) fn merge(runs: &[&Run], from: BatchNumber) -> Run {
        let side = |of: fn(&Run) -> &EdgeColumns| {
            let sides: Vec<&EdgeColumns> = runs.iter().map(|run| of(run)).collect();
            EdgeColumns::merge(&sides, from)
        };
        Run {
            out: side(|run| &run.out),
            into: side(|run| &run.into),
        }
    }

    fn side(&self, direction: Direction) -> &EdgeColumns {
        match direction {
            Direction::Out => &self.out,
            Direction::In => &self.into,
        }
    }

    /// The number of triples.
    pub fn len(&self) -> usize {
        self.out.neighbours.len()
    }

    /// Whether the run is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Snapshot::neighbours`](crate::Snapshot::neighbours), always borrowed.
    #[inline]
    pub fn neighbours(&self, vertex: TermId, predicate: TermId, direction: Direction) -> &[TermId] {
        self.side(direction).neighbours(vertex, predicate)
    }

    /// Whether the run holds the triple.
    pub fn contains(&self, triple: TripleIds) -> bool {
        self.find(triple).is_some()
    }

    /// The predicates of the edges from or to a vertex, ascending.
    pub fn predicates_of(&self, vertex: TermId, direction: Direction) -> &[TermId] {
        self.side(direction).predicates_of(vertex)
    }

    /// All vertices that have such an edge, ascending.
    pub fn vertices_with(&self, predicate: TermId, direction: Direction) -> &[TermId] {
        self.side(direction).vertices_with(predicate)
    }

    /// As [`Run::vertices_with`], each with its neighbours.
    pub(crate) fn lists_of(
        &self,
        predicate: TermId,
        direction: Direction,
    ) -> impl Iterator<Item = (TermId, &[TermId])> + Clone {
        self.side(direction).lists_of(predicate)
    }

    /// All predicates, ascending.
    pub fn predicates(&self) -> &[TermId] {
        &self.out.predicates
    }

    /// Makes the indexes that reads have used in an earlier run.
    pub(crate) fn prepare_as(&self, before: &Run) {
        self.out.prepare_as(&before.out);
        self.into.prepare_as(&before.into);
    }

    /// Exact numbers for one predicate.
    pub fn predicate_statistics(&self, predicate: TermId) -> PredicateStatistics {
        let Ok(at) = self.out.predicates.binary_search(&predicate) else {
            return PredicateStatistics::default();
        };
        // Both sides have the same predicates.
        let subjects = self.out.vertex_range(at);
        PredicateStatistics {
            statements: self.out.edge_count(&subjects) as u64,
            subjects: subjects.len() as u64,
            objects: self.into.vertex_range(at).len() as u64,
        }
    }

    /// The newest batch that holds the triple.
    pub fn newest_batch_of(&self, triple: TripleIds) -> Option<BatchNumber> {
        self.find(triple).map(|at| self.out.newest(at))
    }

    /// The number of a triple in the order of [`Run::triples`].
    pub(crate) fn find(&self, triple: TripleIds) -> Option<usize> {
        let range = self.out.find(triple.subject, triple.predicate)?;
        let start = range.start;
        let found = self.out.neighbours[range].binary_search(&triple.object);
        found.ok().map(|at| start + at)
    }

    /// All triples by predicate, subject and object.
    pub fn triples(&self) -> impl Iterator<Item = TripleIds> + '_ {
        let edges = self.out.edges_in_order();
        edges.map(|(predicate, subject, object)| TripleIds::new(subject, predicate, object))
    }

    /// The triple at a place in the order of [`Run::triples`].
    pub(crate) fn triple(&self, at: usize) -> TripleIds {
        let (predicate, subject, object) = self.out.edge(at);
        TripleIds::new(subject, predicate, object)
    }

    /// Size in memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Run>() + self.out.bytes() + self.into.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn triple((subject, predicate, object): (u64, u64, u64)) -> TripleIds {
        TripleIds::new(
            TermId::from_raw(1 << 60 | subject),
            TermId::from_raw(1 << 60 | predicate),
            TermId::from_raw(1 << 60 | object),
        )
    }

    /// All edges of a run in one direction: by predicate and vertex the neighbours.
    fn adjacency(run: &Run, direction: Direction) -> BTreeMap<(TermId, TermId), Vec<TermId>> {
        let mut all = BTreeMap::new();
        for predicate in run.predicates() {
            for vertex in run.vertices_with(*predicate, direction) {
                let ids = run.neighbours(*vertex, *predicate, direction).to_vec();
                assert!(run.predicates_of(*vertex, direction).contains(predicate));
                assert!(all.insert((*predicate, *vertex), ids).is_none());
            }
        }
        all
    }

    /// The dull twin: all rows of all runs, sorted.
    fn sorted(runs: &[&Run], from: BatchNumber) -> BTreeMap<TripleIds, BatchNumber> {
        let mut rows: Vec<(TripleIds, BatchNumber)> = (runs.iter())
            .flat_map(|run| run.triples().zip((0..).map(|at| run.out.newest(at))))
            .filter(|(_, newest)| *newest >= from)
            .collect();
        rows.sort_unstable();
        // The newest of repeats comes last, and stays.
        rows.into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        #[cfg_attr(miri, ignore = "minutes under miri")]
        fn merging_equals_sorting(
            batches in prop_oneof![0..7usize, 9..40usize].prop_flat_map(|count| prop::collection::vec(
                prop::collection::vec((0u64..9, 0u64..3, 0u64..9), 0..30), count)),
            first in 0usize..4,
            from in 0i64..12,
        ) {
            let slices: Vec<Run> = (batches.iter().zip(0..))
                .map(|(statements, batch)| {
                    let triples = statements.iter().copied().map(triple);
                    let (run, places) = Run::of_batch(BatchNumber(batch), triples.clone());
                    let numbered: Vec<TripleIds> = run.triples().collect();
                    assert!((0..run.len()).map(|at| run.triple(at)).eq(numbered.iter().copied()));
                    let placed = places.iter().map(|at| numbered[*at as usize]);
                    assert!(placed.eq(triples), "places lead back to the statements");
                    run
                })
                .collect();
            // As a window slides: the run merged before, and the slices since.
            let (old, fresh) = slices.split_at(first.min(slices.len()));
            let old = Run::merge(&old.iter().collect::<Vec<_>>(), BatchNumber(i64::MIN));
            let parts: Vec<&Run> = [&old].into_iter().chain(fresh).collect();
            let from = BatchNumber(from);
            let merged = Run::merge(&parts, from);

            let twin = sorted(&parts, from);
            prop_assert_eq!(merged.len(), twin.len());
            let mut out: BTreeMap<_, Vec<_>> = BTreeMap::new();
            let mut into: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
            for (triple, newest) in &twin {
                prop_assert_eq!(merged.newest_batch_of(*triple), Some(*newest));
                let (s, p, o) = (triple.subject, triple.predicate, triple.object);
                out.entry((p, s)).or_default().push(o);
                into.entry((p, o)).or_default().insert(s);
            }
            let into = into.into_iter().map(|(key, ids)| (key, ids.into_iter().collect())).collect();
            out.values_mut().for_each(|ids| ids.sort_unstable());
            prop_assert_eq!(adjacency(&merged, Direction::Out), out);
            prop_assert_eq!(adjacency(&merged, Direction::In), into);
        }
    }
}
