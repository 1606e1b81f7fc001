//! The predicates of each vertex: each distinct set of predicates is kept once (a characteristic
//! set, which planners use too), and each vertex has the number of its set.

use super::edges::Edges;
use super::vertices::{Numbering, Vertices};
use crate::memory::Array;
use rustc_hash::FxHashMap;
use somersault_model::TermId;

pub(crate) struct Sets {
    vertices: Vertices,
    set_of: SetNumbers,
    /// The start of each set, and the end of the last.
    starts: Box<[u32]>,
    predicates: Box<[TermId]>,
    /// The number of vertices with each set.
    counts: Box<[u64]>,
}

/// The number of a vertex's set, as narrow as the number of sets allows.
enum SetNumbers {
    Bytes(Array<u8>),
    Shorts(Array<u16>),
    Words(Array<u32>),
}

impl Sets {
    /// The predicates of a vertex, ascending.
    pub(crate) fn of(&self, vertex: TermId) -> &[TermId] {
        match self.vertices.place(vertex) {
            Some(place) => self.set(self.set_of.at(place)),
            None => &[],
        }
    }

    /// All sets, and the number of vertices with each.
    pub(crate) fn counts(&self) -> impl ExactSizeIterator<Item = (&[TermId], u64)> {
        (self.counts.iter().enumerate()).map(|(set, count)| (self.set(set), *count))
    }

    pub(crate) fn vertices(&self) -> &Vertices {
        &self.vertices
    }

    fn set(&self, set: usize) -> &[TermId] {
        &self.predicates[self.starts[set] as usize..self.starts[set + 1] as usize]
    }

    /// Size in memory besides this value itself.
    pub(crate) fn bytes(&self) -> usize {
        let numbers = match &self.set_of {
            SetNumbers::Bytes(array) => array.bytes(),
            SetNumbers::Shorts(array) => array.bytes(),
            SetNumbers::Words(array) => array.bytes(),
        };
        self.vertices.bytes()
            + numbers
            + size_of_val(&*self.starts)
            + size_of_val(&*self.predicates)
            + size_of_val(&*self.counts)
    }

    /// The sets of all vertices of these edges; predicates ascend.
    pub(crate) fn build(edges: &[(TermId, &Edges)], numbering: Numbering, owned: bool) -> Sets {
        let lists: Vec<&Vertices> = edges.iter().map(|(_, edges)| edges.vertices()).collect();
        let vertices = Vertices::union(&lists, numbering, owned);
        // Sets grow one predicate at a time, as paths in a tree: `nodes[n]` is its parent and last
        // predicate, and a vertex is at the node of the predicates that it has so far.
        let mut nodes: Vec<(u32, u32)> = vec![(0, u32::MAX)];
        let mut at = Array::<u32>::zeroed(vertices.len());
        let mut step: FxHashMap<u32, u32> = FxHashMap::default();
        for (number, list) in lists.into_iter().enumerate() {
            step.clear();
            let mut recent = (u32::MAX, 0);
            vertices.places_of(list, |place| {
                let node = at[place];
                if node != recent.0 {
                    let next = *step.entry(node).or_insert_with(|| {
                        nodes.push((node, number as u32));
                        (nodes.len() - 1) as u32
                    });
                    recent = (node, next);
                }
                at[place] = recent.1;
            });
        }
        Sets::of_nodes(edges, vertices, &nodes, at)
    }

    /// Numbers the nodes at which vertices ended up.
    fn of_nodes(
        edges: &[(TermId, &Edges)],
        vertices: Vertices,
        nodes: &[(u32, u32)],
        mut at: Array<u32>,
    ) -> Sets {
        let mut uses = vec![0u64; nodes.len()];
        for node in at.iter() {
            uses[*node as usize] += 1;
        }
        let mut numbers = vec![0u32; nodes.len()];
        let mut starts = vec![0u32];
        let (mut predicates, mut counts) = (Vec::new(), Vec::new());
        for (node, uses) in uses.into_iter().enumerate().filter(|(_, uses)| *uses > 0) {
            numbers[node] = counts.len() as u32;
            counts.push(uses);
            let begin = predicates.len();
            let mut on_path = node;
            while on_path != 0 {
                let (parent, predicate) = nodes[on_path];
                predicates.push(edges[predicate as usize].0);
                on_path = parent as usize;
            }
            predicates[begin..].reverse();
            let end = u32::try_from(predicates.len());
            starts.push(end.expect("the distinct sets of predicates are fewer than 2^32 long"));
        }
        for node in at.iter_mut() {
            *node = numbers[*node as usize];
        }
        Sets {
            vertices,
            set_of: SetNumbers::of(at, counts.len()),
            starts: starts.into(),
            predicates: predicates.into(),
            counts: counts.into(),
        }
    }
}

impl SetNumbers {
    fn of(numbers: Array<u32>, sets: usize) -> SetNumbers {
        if sets <= 1 << 8 {
            let mut bytes = Array::with_capacity(numbers.len());
            numbers.iter().for_each(|number| bytes.push(*number as u8));
            SetNumbers::Bytes(bytes.finish())
        } else if sets <= 1 << 16 {
            let mut shorts = Array::with_capacity(numbers.len());
            numbers
                .iter()
                .for_each(|number| shorts.push(*number as u16));
            SetNumbers::Shorts(shorts.finish())
        } else {
            SetNumbers::Words(numbers.finish())
        }
    }

    #[inline]
    fn at(&self, place: usize) -> usize {
        match self {
            SetNumbers::Bytes(array) => array[place].into(),
            SetNumbers::Shorts(array) => array[place].into(),
            SetNumbers::Words(array) => array[place] as usize,
        }
    }
}
