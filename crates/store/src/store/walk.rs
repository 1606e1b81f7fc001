//! A walk along an index vertex: the vertices of a predicate on all shards in order of their ids,
//! with their edges. Each shard's part is its image, without the vertices removed since and with
//! those added since. The parts are merged, since each vertex is on one shard. The changes are read
//! once for the whole walk, so the walk calls back now and then, and its caller does not call again
//! for more.
#![allow(unsafe_code)]

use crate::pace::Pace;
use crate::store::columns::{ShardColumn, Sources};
use somersault_model::TermId;

/// The number of vertices of an image that are taken at a time.
const STRETCH: usize = 256;

pub(crate) struct Walk<'s, 'a> {
    sources: &'s Sources<'a>,
    parts: Vec<ShardWalk<'s, 'a>>,
}

/// The vertices added to and removed from a shard's image, if their lists had to be merged.
#[derive(Default)]
pub(crate) struct Lists {
    came: Vec<TermId>,
    went: Vec<TermId>,
}

/// The part of one shard, at its next vertex.
struct ShardWalk<'s, 'a> {
    source: ShardColumn<'a>,
    came: &'s [TermId],
    went: &'s [TermId],
    next_came: usize,
    next_went: usize,
    /// The place in the image of its next vertex, and the ids from there on.
    place: usize,
    stretch: Vec<TermId>,
    in_stretch: usize,
}

impl<'s, 'a> Walk<'s, 'a> {
    /// A walk from the first vertex on. It keeps what it cannot borrow in `lists`, one for each
    /// source.
    pub(crate) fn new(sources: &'s Sources<'a>, lists: &'s mut Vec<Lists>) -> Walk<'s, 'a> {
        lists.clear();
        lists.resize_with(sources.parts().count(), Lists::default);
        let parts = sources.parts().zip(lists);
        let parts = parts.map(|(source, lists)| ShardWalk::new(sources, *source, lists));
        Walk {
            sources,
            parts: parts.collect(),
        }
    }

    /// Appends edges for as long as the pace allows.
    pub(crate) fn edges(
        mut self,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        let mut scratch = Vec::new();
        loop {
            let next = (self.parts.iter_mut())
                .filter_map(|part| Some((part.head()?, part)))
                .min_by_key(|(head, _)| *head);
            let Some((vertex, part)) = next else {
                return;
            };
            if pace.ends(neighbours.len()) {
                return;
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
        }
    }
}

impl<'s, 'a: 's> ShardWalk<'s, 'a> {
    fn new(
        sources: &Sources<'a>,
        source: ShardColumn<'a>,
        lists: &'s mut Lists,
    ) -> ShardWalk<'s, 'a> {
        let (mut came, mut went): (&[TermId], &[TermId]) = (&[], &[]);
        if source.has_cells() {
            let key = sources.index_key();
            // SAFETY: the snapshot that the sources are made from is a pin throughout 'a.
            let parts = unsafe {
                (source.generation()).index_parts(
                    sources.sn(),
                    key,
                    &mut lists.came,
                    &mut lists.went,
                )
            };
            (came, went) = (parts.came, parts.went);
        }
        let mut part = ShardWalk {
            source,
            came,
            went,
            next_came: 0,
            next_went: 0,
            place: 0,
            stretch: Vec::new(),
            in_stretch: 0,
        };
        part.settle();
        part
    }

    /// The next vertex of the image that has not been removed.
    #[inline]
    fn of_image(&self) -> Option<TermId> {
        self.stretch.get(self.in_stretch).copied()
    }

    /// Skips removed vertices, and reads the next stretch at the end of one.
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

    /// Passes the next vertex. Returns its place, if it is one of the image's.
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
