//! Cells of lists that begin with a later SN, made while that SN is not known yet.
#![allow(unsafe_code)]

use super::ApplyPass;
use crate::half_edges::Group;
use crate::lists::Key;

impl ApplyPass<'_> {
    /// Makes the cells that inserting these half edges will need and that do not exist: those of
    /// their lists, and those of the predicates of their vertices.
    pub(crate) fn prepare(&mut self, group: &Group) {
        let mut edges = std::mem::take(&mut self.state.edges);
        edges.clear();
        edges.extend_from_slice(&group.edges);
        edges.sort_unstable();
        let mut lists = self.lists_of(group, &edges);
        self.state.edges = edges;
        for at in 0..lists.len() {
            self.look_ahead(&mut lists[at..]);
            let list = &mut lists[at];
            let key = list.key;
            // SAFETY: this is the writer: nothing is freed while it works.
            let exists = unsafe { list.cell(&self.generation.segments) }.is_some();
            if exists || !key.is_adjacency() || !list.in_image.list(key.vertex).is_empty() {
                continue;
            }
            self.make_cell(key);
            let predicates = Key::predicates_of(key.graph, key.vertex, key.direction);
            let mut scratch = Vec::new();
            // SAFETY: as above.
            let exists = unsafe { self.generation.segments.find(predicates) }.is_some();
            if !exists && (self.generation.image.list(predicates, &mut scratch)).is_empty() {
                self.make_cell(predicates);
            }
        }
    }

    /// Makes the cell of a list that exists neither in a cell nor in the image.
    fn make_cell(&mut self, key: Key) {
        let cell = self.state.new_cell(key);
        self.insert(cell, key);
    }
}
