//! A walk along an index vertex: the vertices of a predicate on all shards in order of their ids,
//! with their edges, from any place on. Each shard's part is what its image has, without what went
//! and with what came since; the parts are merged, since each vertex is on one shard.
#![allow(unsafe_code)]

use crate::columns::{Source, Sources};
use somersault_model::TermId;

/// So many vertices of an image are taken at a time.
const STRETCH: usize = 256;

pub(crate) struct Walk<'s, 'a> {
    sources: &'s Sources<'a>,
    parts: Vec<Part<'a>>,
    place: usize,
}

/// The part of one shard, at its next vertex.
struct Part<'a> {
    source: Source<'a>,
    came: Vec<TermId>,
    went: Vec<TermId>,
    next_came: usize,
    next_went: usize,
    /// The place in the image of the next vertex of it, and the ids from there on.
    place: usize,
    stretch: Vec<TermId>,
    in_stretch: usize,
}

impl<'s, 'a> Walk<'s, 'a> {
    pub(crate) fn new(sources: &'s Sources<'a>, from: usize) -> Walk<'s, 'a> {
        let mut parts: Vec<Part<'a>> = sources
            .parts()
            .map(|source| Part::new(sources, *source))
            .collect();
        // Bits of the highest id below which there are at most `from` vertices, from the top.
        let mut bound = 0u64;
        if from > 0 {
            for bit in (0..u64::BITS).rev() {
                let higher = bound | 1 << bit;
                let id = TermId::from_raw(higher);
                let below: usize = parts.iter().map(|part| part.below(id)).sum();
                if below <= from {
                    bound = higher;
                }
            }
            parts
                .iter_mut()
                .for_each(|part| part.skip_below(TermId::from_raw(bound)));
        }
        for part in &mut parts {
            part.settle();
        }
        Walk {
            sources,
            parts,
            place: from,
        }
    }

    /// Appends edges until at least `wanted` have come; the place to go on from.
    pub(crate) fn edges(
        mut self,
        wanted: usize,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) -> Option<usize> {
        let before = neighbours.len();
        let mut scratch = Vec::new();
        loop {
            let next = (self.parts.iter_mut())
                .filter_map(|part| Some((part.head()?, part)))
                .min_by_key(|(head, _)| *head);
            let (vertex, part) = next?;
            if neighbours.len() - before >= wanted {
                return Some(self.place);
            }
            let place = part.take(vertex);
            match (part.source.image(), place) {
                (Some(edges), Some(place)) if !part.source.has_cells() => {
                    neighbours.extend_from_slice(edges.list(place));
                }
                _ => {
                    let list = self.sources.read(&part.source, vertex, &mut scratch);
                    neighbours.extend_from_slice(list);
                }
            }
            vertices.resize(neighbours.len(), vertex);
            self.place += 1;
        }
    }
}

impl<'a> Part<'a> {
    fn new(sources: &Sources<'a>, source: Source<'a>) -> Part<'a> {
        let mut part = Part {
            source,
            came: Vec::new(),
            went: Vec::new(),
            next_came: 0,
            next_went: 0,
            place: 0,
            stretch: Vec::new(),
            in_stretch: 0,
        };
        if source.has_cells() {
            let (mut came, mut went) = (Vec::new(), Vec::new());
            // SAFETY: the snapshot that the sources are made from is a pin.
            let parts = unsafe {
                let key = sources.index_key();
                (source.generation()).index_parts(sources.sn(), key, &mut came, &mut went)
            };
            part.came.extend_from_slice(parts.came);
            part.went.extend_from_slice(parts.went);
        }
        part
    }

    /// How many vertices have lower ids.
    fn below(&self, id: TermId) -> usize {
        let image = (self.source.image()).map_or(0, |edges| edges.vertices().below(id));
        let of = |list: &[TermId]| list.partition_point(|other| *other < id);
        (image + of(&self.came)).saturating_sub(of(&self.went))
    }

    fn skip_below(&mut self, id: TermId) {
        self.place = (self.source.image()).map_or(0, |edges| edges.vertices().below(id));
        self.next_came = self.came.partition_point(|other| *other < id);
        self.next_went = self.went.partition_point(|other| *other < id);
    }

    /// The next vertex of the image that has not gone.
    #[inline]
    fn of_image(&self) -> Option<TermId> {
        self.stretch.get(self.in_stretch).copied()
    }

    /// Passes what went, and takes the next stretch at the end of one.
    fn settle(&mut self) {
        let Some(edges) = self.source.image() else {
            return;
        };
        loop {
            let Some(id) = self.of_image() else {
                self.stretch.clear();
                self.in_stretch = 0;
                let end = self.place + STRETCH;
                edges.vertices().write(self.place, end, &mut self.stretch);
                if self.stretch.is_empty() {
                    return;
                }
                continue;
            };
            if self.went.get(self.next_went) != Some(&id) {
                return;
            }
            self.next_went += 1;
            self.in_stretch += 1;
            self.place += 1;
        }
    }

    #[inline]
    fn head(&self) -> Option<TermId> {
        match (self.of_image(), self.came.get(self.next_came)) {
            (Some(old), Some(new)) => Some(old.min(*new)),
            (Some(old), None) => Some(old),
            (None, new) => new.copied(),
        }
    }

    /// Passes the next vertex; its place, if it is the image's.
    #[inline]
    fn take(&mut self, vertex: TermId) -> Option<usize> {
        if self.of_image() == Some(vertex) {
            let place = self.place;
            self.in_stretch += 1;
            self.place += 1;
            if self.in_stretch == self.stretch.len() || !self.went.is_empty() {
                self.settle();
            }
            return Some(place);
        }
        self.next_came += 1;
        None
    }
}
