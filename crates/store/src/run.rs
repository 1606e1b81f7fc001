//! A run: an immutable, sorted, compact adjacency of a set of triples, in both directions, by
//! predicate and by vertex, each triple with its newest batch. All columns, no pointers: a slice
//! holds one, and a window is made of some.

use crate::PredicateStatistics;
use somersault_model::{BatchNumber, Direction, TermId, TripleIds};

/// A set of triples of one or several batches.
#[derive(Debug, Default)]
pub struct Run {
    out: Side,
    into: Side,
}

/// One direction. For the i-th predicate its vertices are `vertices[vertex_starts[i]..]`, for the
/// j-th of all vertices its neighbours are `neighbours[neighbour_starts[j]..]`, each up to the next
/// start.
#[derive(Debug, Default)]
struct Side {
    predicates: Box<[TermId]>,
    vertex_starts: Box<[u32]>,
    vertices: Box<[TermId]>,
    neighbour_starts: Box<[u32]>,
    neighbours: Box<[TermId]>,
    newest: Box<[BatchNumber]>,
    /// The same edges by vertex alone: every vertex once, and its predicates.
    all_vertices: Box<[TermId]>,
    predicate_starts: Box<[u32]>,
    vertex_predicates: Box<[TermId]>,
}

/// An edge of one side; ordered as the columns are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    predicate: TermId,
    vertex: TermId,
    neighbour: TermId,
    newest: BatchNumber,
}

impl Run {
    /// The run of these triples, each with a batch; of repeats the newest batch stays.
    pub(crate) fn new(triples: impl Iterator<Item = (TripleIds, BatchNumber)>) -> Run {
        let mut out: Vec<Row> = triples
            .map(|(triple, newest)| Row {
                predicate: triple.predicate,
                vertex: triple.subject,
                neighbour: triple.object,
                newest,
            })
            .collect();
        out.sort_unstable();
        keep_newest(&mut out);
        let turned = |row: &Row| Row {
            vertex: row.neighbour,
            neighbour: row.vertex,
            ..*row
        };
        let mut into: Vec<Row> = out.iter().map(turned).collect();
        into.sort_unstable();
        Run {
            out: Side::new(&out),
            into: Side::new(&into),
        }
    }

    /// One run of what several runs hold, without the triples whose newest batch is before `from`.
    pub(crate) fn merge(runs: &[&Run], from: BatchNumber) -> Run {
        let side = |of: fn(&Run) -> &Side| {
            let total = runs.iter().map(|run| run.len()).sum();
            let mut rows = Vec::with_capacity(total);
            for run in runs {
                rows.extend(of(run).rows().filter(|row| row.newest >= from));
            }
            // Ascending stretches, one per run: the stable sort merges them.
            rows.sort();
            keep_newest(&mut rows);
            Side::new(&rows)
        };
        Run {
            out: side(|run| &run.out),
            into: side(|run| &run.into),
        }
    }

    fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Out => &self.out,
            Direction::In => &self.into,
        }
    }

    /// How many triples it holds.
    pub fn len(&self) -> usize {
        self.out.neighbours.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Snapshot::neighbours`](crate::Snapshot::neighbours), always borrowed.
    #[inline]
    pub fn neighbours(&self, vertex: TermId, predicate: TermId, direction: Direction) -> &[TermId] {
        self.side(direction).neighbours(vertex, predicate)
    }

    /// Whether it holds the triple.
    pub fn contains(&self, triple: TripleIds) -> bool {
        self.find(triple).is_some()
    }

    /// The predicates of the edges from or to a vertex, ascending.
    pub fn predicates_of(&self, vertex: TermId, direction: Direction) -> &[TermId] {
        let side = self.side(direction);
        match side.all_vertices.binary_search(&vertex) {
            Ok(at) => &side.vertex_predicates[range(&side.predicate_starts, at)],
            Err(_) => &[],
        }
    }

    /// All vertices that have such an edge, ascending.
    pub fn vertices_with(&self, predicate: TermId, direction: Direction) -> &[TermId] {
        let side = self.side(direction);
        match side.predicates.binary_search(&predicate) {
            Ok(at) => &side.vertices[range(&side.vertex_starts, at)],
            Err(_) => &[],
        }
    }

    /// All predicates, ascending.
    pub fn predicates(&self) -> &[TermId] {
        &self.out.predicates
    }

    /// Exact numbers for one predicate.
    pub fn predicate_statistics(&self, predicate: TermId) -> PredicateStatistics {
        let Ok(at) = self.out.predicates.binary_search(&predicate) else {
            return PredicateStatistics::default();
        };
        // Both sides have the same predicates.
        let subjects = range(&self.out.vertex_starts, at);
        let objects = range(&self.into.vertex_starts, at);
        let starts = &self.out.neighbour_starts;
        PredicateStatistics {
            statements: u64::from(starts[subjects.end] - starts[subjects.start]),
            subjects: subjects.len() as u64,
            objects: objects.len() as u64,
        }
    }

    /// The newest batch that holds the triple.
    pub fn newest_batch_of(&self, triple: TripleIds) -> Option<BatchNumber> {
        self.find(triple).map(|at| self.out.newest[at])
    }

    /// The number of a triple in the order of [`Run::triples`].
    pub(crate) fn find(&self, triple: TripleIds) -> Option<usize> {
        let range = self.out.range(triple.subject, triple.predicate)?;
        let start = range.start;
        let found = self.out.neighbours[range].binary_search(&triple.object);
        found.ok().map(|at| start + at)
    }

    /// All triples by predicate, subject and object.
    pub fn triples(&self) -> impl Iterator<Item = TripleIds> + '_ {
        (self.out.rows()).map(|row| TripleIds::new(row.vertex, row.predicate, row.neighbour))
    }

    /// Size in memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Run>() + self.out.bytes() + self.into.bytes()
    }
}

impl Side {
    /// The columns of rows that ascend and do not repeat.
    fn new(rows: &[Row]) -> Side {
        assert!(
            u32::try_from(rows.len()).is_ok(),
            "a run has fewer than 2^32 triples"
        );
        let (mut predicates, mut vertex_starts) = (Vec::new(), Vec::new());
        let (mut vertices, mut neighbour_starts) = (Vec::new(), Vec::new());
        let mut pairs = Vec::new();
        let mut start = 0;
        for of_predicate in rows.chunk_by(|a, b| a.predicate == b.predicate) {
            let predicate = of_predicate[0].predicate;
            predicates.push(predicate);
            vertex_starts.push(vertices.len() as u32);
            for of_vertex in of_predicate.chunk_by(|a, b| a.vertex == b.vertex) {
                vertices.push(of_vertex[0].vertex);
                neighbour_starts.push(start);
                pairs.push((of_vertex[0].vertex, predicate));
                start += of_vertex.len() as u32;
            }
        }
        vertex_starts.push(vertices.len() as u32);
        neighbour_starts.push(start);
        // One ascending stretch per predicate.
        pairs.sort();
        let (mut all_vertices, mut predicate_starts) = (Vec::new(), Vec::new());
        let mut start = 0;
        for of_vertex in pairs.chunk_by(|a, b| a.0 == b.0) {
            all_vertices.push(of_vertex[0].0);
            predicate_starts.push(start);
            start += of_vertex.len() as u32;
        }
        predicate_starts.push(start);
        Side {
            predicates: predicates.into(),
            vertex_starts: vertex_starts.into(),
            vertices: vertices.into(),
            neighbour_starts: neighbour_starts.into(),
            neighbours: rows.iter().map(|row| row.neighbour).collect(),
            newest: rows.iter().map(|row| row.newest).collect(),
            all_vertices: all_vertices.into(),
            predicate_starts: predicate_starts.into(),
            vertex_predicates: pairs.iter().map(|pair| pair.1).collect(),
        }
    }

    fn range(&self, vertex: TermId, predicate: TermId) -> Option<std::ops::Range<usize>> {
        let at = self.predicates.binary_search(&predicate).ok()?;
        let vertices = range(&self.vertex_starts, at);
        let start = vertices.start;
        let at = self.vertices[vertices].binary_search(&vertex).ok()?;
        Some(range(&self.neighbour_starts, start + at))
    }

    fn neighbours(&self, vertex: TermId, predicate: TermId) -> &[TermId] {
        match self.range(vertex, predicate) {
            Some(range) => &self.neighbours[range],
            None => &[],
        }
    }

    fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.predicates
            .iter()
            .enumerate()
            .flat_map(move |(at, predicate)| {
                range(&self.vertex_starts, at).flat_map(move |vertex_at| {
                    range(&self.neighbour_starts, vertex_at).map(move |at| Row {
                        predicate: *predicate,
                        vertex: self.vertices[vertex_at],
                        neighbour: self.neighbours[at],
                        newest: self.newest[at],
                    })
                })
            })
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.predicates)
            + size_of_val(&*self.vertex_starts)
            + size_of_val(&*self.vertices)
            + size_of_val(&*self.neighbour_starts)
            + size_of_val(&*self.neighbours)
            + size_of_val(&*self.newest)
            + size_of_val(&*self.all_vertices)
            + size_of_val(&*self.predicate_starts)
            + size_of_val(&*self.vertex_predicates)
    }
}

fn range(starts: &[u32], at: usize) -> std::ops::Range<usize> {
    starts[at] as usize..starts[at + 1] as usize
}

/// Of neighbouring rows with the same triple, which ascend by batch, keeps the newest.
fn keep_newest(rows: &mut Vec<Row>) {
    rows.dedup_by(|later, kept| {
        let same = (later.predicate, later.vertex, later.neighbour)
            == (kept.predicate, kept.vertex, kept.neighbour);
        if same {
            kept.newest = kept.newest.max(later.newest);
        }
        same
    });
}
