//! Readers that take the content of a shard out of the store, list by list, and the markers since
//! which they read. Readers share one SN for as long as they like and hold nothing up: they renew
//! their pins between portions.
//!
//! A copy of the store outside it is kept up to date so, at SNs c that ascend:
//!
//! 1. Ask for a marker before any work of an SN after c is handed to the shards, and pin c.
//! 2. When c is stable, ask for a second marker, and wait until it is set. All changes up to c are
//!    in lists before it.
//! 3. For each shard, read at c what changed between the marker of step 1 of the copy before and
//!    this second marker, or all lists if the reader says that it gives them.
//! 4. Keep the marker of step 1 for the next copy, and drop the other two. All changes after c are
//!    in lists from it on; what changed between it and c is read twice.
#![allow(unsafe_code)]

use crate::half_edges::ListKey;
use crate::lists::{Key, ListKind};
use crate::shard::{ChangeList, EdgeWalk, ListHold, PinnedGeneration, Shard};
use somersault_model::{ShardId, Sn, TermId};
use std::sync::Arc;

/// A point in the work of all shards, from which on their changes are listed until it is dropped.
pub struct Marker {
    holds: Vec<ListHold>,
    stable: Sn,
}

impl Marker {
    pub(crate) fn new(shards: &[Arc<Shard>], stable: Sn) -> Marker {
        Marker {
            holds: shards.iter().map(ListHold::ask).collect(),
            stable,
        }
    }

    /// The SN after which changes are listed: the newest that a shard had applied when its writer
    /// set the marker. `None` until the writers of all shards have set it.
    pub fn after(&self) -> Option<Sn> {
        let set = self.holds.iter().map(ListHold::set_after);
        set.collect::<Option<Vec<u64>>>()?.into_iter().max().map(Sn)
    }

    /// The SN that was stable when the marker was asked for.
    pub fn stable(&self) -> Sn {
        self.stable
    }

    /// The keys of the lists of edges of a shard that changed between this marker and a later one,
    /// ascending; `None` if that is not known.
    pub(crate) fn changed_keys(
        &self,
        until: &Marker,
        shard: ShardId,
        at: &PinnedGeneration,
    ) -> Option<Vec<ListKey>> {
        let shard = usize::from(shard.0);
        let lists = self.holds[shard].until(&until.holds[shard])?;
        let mut keys = Vec::new();
        for list in &lists {
            keys.extend(edge_keys(list, at)?);
        }
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }
}

/// The keys of the lists of edges among changed cells, if these are of the pinned generation.
fn edge_keys(list: &ChangeList, at: &PinnedGeneration) -> Option<Vec<ListKey>> {
    let cells = list.cells(at.get().number)?;
    // SAFETY: the cells are of the pinned generation.
    let keys = cells.iter().map(|cell| unsafe { cell.as_ref() }.key());
    let edges = keys.filter(|key| key.kind() == ListKind::Adjacency);
    let plain = |key: Key| ListKey {
        direction: key.direction,
        graph: key.graph,
        predicate: key.predicate,
        vertex: key.vertex,
    };
    Some(edges.map(plain).collect())
}

/// Reads lists of edges of one shard at one SN, in the order of their keys.
pub struct ListReader {
    at: PinnedGeneration,
    source: ListSource,
}

enum ListSource {
    All(EdgeWalk),
    /// These keys, from a place on.
    Changed(Vec<ListKey>, usize),
}

impl ListReader {
    pub(crate) fn of_all(at: PinnedGeneration) -> ListReader {
        let source = ListSource::All(EdgeWalk::new());
        ListReader { at, source }
    }

    pub(crate) fn of_keys(at: PinnedGeneration, keys: Vec<ListKey>) -> ListReader {
        let source = ListSource::Changed(keys, 0);
        ListReader { at, source }
    }

    /// Whether it gives all lists of the shard that have members. If not, it gives those that
    /// changed, of which some may be empty.
    pub fn is_whole(&self) -> bool {
        matches!(self.source, ListSource::All(_))
    }

    /// The SN that is read.
    pub fn sn(&self) -> Sn {
        Sn(self.at.sn())
    }

    /// Calls `visit` with some of the next lists, at most `most`, in ascending order of keys;
    /// members ascend. Renews the pin after that. Returns whether there may be more.
    pub fn portion(&mut self, most: usize, visit: &mut dyn FnMut(ListKey, &[TermId])) -> bool {
        match &mut self.source {
            ListSource::All(walk) => walk.portion(&mut self.at, most, visit),
            ListSource::Changed(keys, next) => {
                let mut scratch = Vec::new();
                for key in keys.iter().skip(*next).take(most) {
                    let of = Key::adjacency(key.graph, key.vertex, key.predicate, key.direction);
                    scratch.clear();
                    // SAFETY: the generation is pinned.
                    let ids = unsafe { self.at.get().read(self.at.sn(), of, &mut scratch) };
                    visit(*key, ids);
                }
                *next = next.saturating_add(most).min(keys.len());
                self.at.renew();
                *next < keys.len()
            }
        }
    }
}
