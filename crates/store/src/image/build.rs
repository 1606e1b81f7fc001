//! Building an image: the state of a generation and a load on top of it, predicate by predicate.
//! The load is split by predicate once per direction. Each predicate is then sorted, freed of
//! repeats and merged with the older edges; several threads do this at a time. Predicates with a
//! handful of statements stay in cells, where they cost what they hold.

use super::Image;
use super::assembly::{Assembly, Label, LabelEdges};
use super::edges::{Edges, EdgesBuilder};
use super::frozen::{Frozen, FrozenCell};
use super::vertices::Numbering;
use crate::half_edges::{Group, HalfEdge};
use crate::lists::ListKind;
use crate::memory::Array;
use rustc_hash::FxHashMap;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, Placement, QuadIds, ShardId, TermId};
use somersault_pool::in_parallel;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of vertices of an image that are taken at a time.
const STRETCH: usize = 1 << 12;

/// The inputs of an image. Only the shard's writer builds: nothing changes meanwhile.
pub(crate) struct Build<'a> {
    pub(crate) shard: ShardId,
    pub(crate) placement: Placement,
    /// The state below the load.
    pub(crate) old: Frozen<'a>,
    /// Graphs whose old statements are left out.
    pub(crate) clears: &'a [TermId],
    pub(crate) loads: &'a [Arc<[QuadIds]>],
    pub(crate) threads: usize,
    /// Predicates with fewer edges in a graph stay in cells.
    pub(crate) smallest: usize,
}

/// An image, and the half edges that are not in it.
pub(crate) struct Built {
    pub(crate) image: Image,
    pub(crate) rest: Vec<Group>,
}

/// A stretch of a load, with the number of each statement's label.
struct Labelled<'a> {
    quads: &'a [QuadIds],
    numbers: FxHashMap<Label, u32>,
    of_quads: Array<u32>,
    /// One more than the highest sequence of a subject or object.
    room: u64,
}

/// The half edges of one direction of such a stretch, by label.
struct LabelledEdges<'a> {
    numbers: &'a FxHashMap<Label, u32>,
    /// Where the edges of each label begin, and the end of the last.
    starts: Vec<usize>,
    /// Vertex and neighbour, in the order in which they sort.
    pairs: Array<u128>,
}

/// The lists of cells of one direction, by label; vertices ascend.
type Cells<'a> = BTreeMap<Label, Vec<(TermId, FrozenCell<'a>)>>;

/// One predicate to be built.
struct Job<'a> {
    label: Label,
    old: Option<&'a Arc<Edges>>,
    cells: &'a [(TermId, FrozenCell<'a>)],
    load: Vec<&'a [u128]>,
}

impl<'a> Labelled<'a> {
    fn new(quads: &'a [QuadIds]) -> Labelled<'a> {
        let mut numbers: FxHashMap<Label, u32> = FxHashMap::default();
        let mut of_quads = Array::with_capacity(quads.len());
        let mut highest = 0;
        for quad in quads {
            let next = numbers.len() as u32;
            let number = *(numbers.entry((quad.graph, quad.predicate))).or_insert(next);
            of_quads.push(number);
            // Both ends: the instances of a class are numbered too.
            for end in [quad.subject, quad.object] {
                highest = highest.max(room_for(end));
            }
        }
        Labelled {
            quads,
            numbers,
            of_quads,
            room: highest,
        }
    }
}

impl LabelledEdges<'_> {
    /// The edges of a label.
    fn of(&self, label: &Label) -> &[u128] {
        match self.numbers.get(label) {
            Some(number) => {
                let number = *number as usize;
                &self.pairs[self.starts[number]..self.starts[number + 1]]
            }
            None => &[],
        }
    }
}

impl Build<'_> {
    pub(crate) fn run(&self) -> Built {
        let mut rest = Vec::new();
        let mut room = self.old.image().room;
        let labelled = in_parallel(self.threads, &self.stretches(), |quads| {
            Labelled::new(quads)
        });
        let sides = [Direction::Out, Direction::In].map(|direction| {
            let (edges, needed) = self.direction(direction, &labelled, &mut rest);
            room = room.max(needed);
            edges
        });
        let assembly = Assembly::new(self.shard, self.placement, room, sides);
        let older = Some(self.old.image());
        let indexes = in_parallel(self.threads, assembly.parts(), |part| {
            assembly.index(part, older)
        });
        let image = assembly.finish(indexes);
        Built { image, rest }
    }

    /// Whether the old statements of a graph stay.
    fn keeps(&self, graph: TermId) -> bool {
        !self.clears.contains(&graph)
    }

    /// The edges of one direction, and one more than the highest sequence that was met. Those of
    /// small predicates go to `rest`.
    fn direction(
        &self,
        direction: Direction,
        labelled: &[Labelled<'_>],
        rest: &mut Vec<Group>,
    ) -> (LabelEdges, u64) {
        let parts = in_parallel(self.threads, labelled, |stretch| {
            self.part(direction, stretch)
        });
        let cells = self.cells(direction);
        let highest = |cells: &Vec<(TermId, FrozenCell<'_>)>| {
            cells.iter().map(|(vertex, _)| room_for(*vertex)).max()
        };
        let room = (labelled.iter().map(|stretch| stretch.room))
            .chain(cells.values().filter_map(highest))
            .chain([self.old.image().room])
            .max()
            .unwrap_or(0);
        let mut jobs = self.jobs(direction, &parts, &cells, rest);
        // The largest first, so that no thread is left alone with it at the end.
        jobs.sort_by_cached_key(|job| (std::cmp::Reverse(job.size()), job.label));
        let numbering = Numbering::new(self.shard, self.placement, room);
        let built = in_parallel(self.threads, &jobs, |job| {
            self.job(job, direction, numbering)
        });
        let built = jobs.iter().map(|job| job.label).zip(built);
        let edges = built.filter_map(|(label, edges)| Some((label, edges?)));
        (edges.collect(), room)
    }

    /// The predicates to build; small ones go to `rest`.
    fn jobs<'a>(
        &'a self,
        direction: Direction,
        parts: &'a [LabelledEdges<'a>],
        cells: &'a Cells<'a>,
        rest: &mut Vec<Group>,
    ) -> Vec<Job<'a>> {
        let mut labels: Vec<Label> = cells.keys().copied().collect();
        labels.extend(parts.iter().flat_map(|part| part.numbers.keys()));
        let of_image = self.old.image().labels(direction);
        labels.extend(of_image.filter(|(graph, _)| self.keeps(*graph)));
        labels.sort_unstable();
        labels.dedup();
        let mut jobs = Vec::new();
        for label in labels {
            let held = self.old.image().held(label.0, label.1, direction);
            let held = held.filter(|_| self.keeps(label.0));
            let load: Vec<&[u128]> = (parts.iter())
                .map(|part| part.of(&label))
                .filter(|pairs| !pairs.is_empty())
                .collect();
            let job = Job {
                label,
                old: held.map(|held| &held.edges),
                cells: cells.get(&label).map_or(&[], |cells| &cells[..]),
                load,
            };
            if job.old.is_none() && job.size() < self.smallest {
                job.leave(direction, rest);
            } else {
                jobs.push(job);
            }
        }
        jobs
    }

    fn job(&self, job: &Job<'_>, direction: Direction, numbering: Numbering) -> Option<Arc<Edges>> {
        if job.load.is_empty() && job.cells.is_empty() {
            return job.old.map(Arc::clone);
        }
        let mut load = Array::<u128>::with_capacity(job.load.iter().map(|pairs| pairs.len()).sum());
        job.load.iter().for_each(|pairs| load.extend(pairs));
        load.sort_unstable();
        let mut builder = EdgesBuilder::with_capacity(job.size());
        let (mut left, mut list) = (&load[..], Vec::new());
        job.for_each_old(|vertex, ids| {
            let below = left.partition_point(|pair| vertex_of(*pair) < vertex);
            append(&mut builder, &left[..below]);
            left = &left[below..];
            let same = left.iter().take_while(|pair| vertex_of(**pair) == vertex);
            let same = same.count();
            if same == 0 {
                builder.list(vertex, ids);
            } else {
                list.clear();
                list.extend(left[..same].iter().map(|pair| neighbour_of(*pair)));
                list.dedup();
                builder.union(vertex, ids, &list);
                left = &left[same..];
            }
        });
        append(&mut builder, left);
        let edges = builder.finish(numbering, direction, job.label.1, self.placement);
        edges.map(Arc::new)
    }

    /// The cells with lists of one direction.
    fn cells(&self, direction: Direction) -> Cells<'_> {
        let mut cells: Cells<'_> = BTreeMap::new();
        self.old.for_each_cell(|key, cell| {
            let is_list = key.kind() == ListKind::Adjacency && key.direction == direction;
            if is_list && self.keeps(key.graph) {
                let label = cells.entry((key.graph, key.predicate)).or_default();
                label.push((key.vertex, cell));
            }
        });
        for cells in cells.values_mut() {
            cells.sort_unstable_by_key(|(vertex, _)| *vertex);
        }
        cells
    }

    /// The loads in about as many stretches as there are threads.
    fn stretches(&self) -> Vec<&[QuadIds]> {
        let total: usize = self.loads.iter().map(|load| load.len()).sum();
        let share = total.div_ceil(self.threads.max(1)).max(1);
        let loads = self.loads.iter();
        loads.flat_map(|load| load.chunks(share)).collect()
    }

    fn part<'a>(&self, direction: Direction, stretch: &'a Labelled<'_>) -> LabelledEdges<'a> {
        let mut starts = vec![0; stretch.numbers.len() + 1];
        let halves = || {
            let quads = stretch.of_quads.iter().zip(stretch.quads);
            quads.filter_map(|(number, quad)| Some((*number as usize, self.half(direction, quad)?)))
        };
        for (number, _) in halves() {
            starts[number + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut pairs = Array::<u128>::zeroed(starts[starts.len() - 1]);
        for (number, (vertex, neighbour)) in halves() {
            pairs[next[number]] = u128::from(vertex.raw()) << 64 | u128::from(neighbour.raw());
            next[number] += 1;
        }
        LabelledEdges {
            numbers: &stretch.numbers,
            starts,
            pairs,
        }
    }

    /// The half of a statement that belongs to this shard, if there is one.
    #[inline]
    fn half(&self, direction: Direction, quad: &QuadIds) -> Option<(TermId, TermId)> {
        let (vertex, neighbour) = match direction {
            Direction::Out => (quad.subject, quad.object),
            Direction::In => (quad.object, quad.subject),
        };
        let spread = direction == Direction::In && quad.predicate == rdf_type();
        let owner = if spread { neighbour } else { vertex };
        (self.placement.owner(owner) == self.shard).then_some((vertex, neighbour))
    }
}

impl Job<'_> {
    /// The number of edges, at most.
    fn size(&self) -> usize {
        let load: usize = self.load.iter().map(|pairs| pairs.len()).sum();
        let cells = self.cells.iter().map(|(_, cell)| cell.len());
        load + cells.sum::<usize>() + self.old.map_or(0, |old| old.len())
    }

    /// Calls `visit` with each vertex that has neighbours below the load, ascending.
    fn for_each_old(&self, mut visit: impl FnMut(TermId, &[TermId])) {
        let mut scratch = Vec::new();
        let mut cells = self.cells.iter().peekable();
        let mut of_cell =
            |cell: &FrozenCell<'_>, vertex, visit: &mut dyn FnMut(TermId, &[TermId])| {
                scratch.clear();
                let ids = cell.ids(&mut scratch);
                if !ids.is_empty() {
                    visit(vertex, ids);
                }
            };
        let mut vertices = Vec::with_capacity(STRETCH);
        if let Some(old) = self.old {
            let all = old.vertices();
            for from in (0..all.len()).step_by(STRETCH) {
                vertices.clear();
                all.write(from, from + STRETCH, &mut vertices);
                for (place, vertex) in (from..).zip(&vertices) {
                    while let Some((other, cell)) = cells.next_if(|(other, _)| other < vertex) {
                        of_cell(cell, *other, &mut visit);
                    }
                    match cells.next_if(|(other, _)| other == vertex) {
                        Some((_, cell)) => of_cell(cell, *vertex, &mut visit),
                        None => visit(*vertex, old.list(place)),
                    }
                }
            }
        }
        for (vertex, cell) in cells {
            of_cell(cell, *vertex, &mut visit);
        }
    }

    /// Leaves the edges to cells.
    fn leave(&self, direction: Direction, rest: &mut Vec<Group>) {
        let (graph, predicate) = self.label;
        let mut edges = Vec::with_capacity(self.size());
        let mut add = |vertex, neighbour| {
            edges.push(HalfEdge {
                vertex,
                predicate,
                neighbour,
            });
        };
        for pair in self.load.iter().flat_map(|pairs| pairs.iter()) {
            add(vertex_of(*pair), neighbour_of(*pair));
        }
        self.for_each_old(|vertex, ids| ids.iter().for_each(|id| add(vertex, *id)));
        match rest.last_mut() {
            Some(group) if (group.graph, group.direction) == (graph, direction) => {
                group.edges.append(&mut edges);
            }
            _ => rest.push(Group {
                graph,
                direction,
                edges,
            }),
        }
    }
}

/// One more than the sequence of a term that is numbered. Transient terms are not numbered: a graph
/// has few of them, and their sequences would inflate the room.
pub(crate) fn room_for(id: TermId) -> u64 {
    match id.is_in_dictionary() && !id.is_transient() {
        true => id.sequence() + 1,
        false => 0,
    }
}

fn vertex_of(pair: u128) -> TermId {
    TermId::from_raw((pair >> 64) as u64)
}

fn neighbour_of(pair: u128) -> TermId {
    TermId::from_raw(pair as u64)
}

/// Appends sorted pairs, without repeats.
fn append(builder: &mut EdgesBuilder, pairs: &[u128]) {
    let mut last = None;
    for pair in pairs {
        if last == Some(*pair) {
            continue;
        }
        if last.map(vertex_of) != Some(vertex_of(*pair)) {
            builder.vertex(vertex_of(*pair));
        }
        builder.neighbour(neighbour_of(*pair));
        last = Some(*pair);
    }
}
