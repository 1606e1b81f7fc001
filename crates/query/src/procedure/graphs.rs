//! Batches and owned windows as graphs: sets of statements with the number of messages that hold
//! each.
//!
//! The one thing to know before changing it: two messages of a window may hold one statement. It
//! leaves with the last of them.

use crate::view::layer::Layer;
use rustc_hash::FxHashMap;
use somersault_model::{QuadIds, TermId};
use std::collections::hash_map::Entry;

/// How many messages hold each statement, where several do.
#[derive(Debug, Default)]
pub(crate) struct KeptCounts {
    /// Only counts from two on: most statements are in one message.
    counts: FxHashMap<QuadIds, u32>,
}

impl KeptCounts {
    /// A message that holds the statement enters.
    pub(crate) fn enter(&mut self, graphs: &mut Layer, quad: QuadIds) {
        if graphs.holds(quad) == Some(true) {
            *self.counts.entry(quad).or_insert(1) += 1;
        } else {
            graphs.set(quad, Some(true));
        }
    }

    /// A message that holds the statement leaves.
    pub(crate) fn leave(&mut self, graphs: &mut Layer, quad: QuadIds) {
        match self.counts.entry(quad) {
            Entry::Occupied(mut count) if *count.get() > 2 => *count.get_mut() -= 1,
            Entry::Occupied(count) => _ = count.remove(),
            Entry::Vacant(_) => _ = graphs.set(quad, None),
        }
    }

    /// Empties a graph.
    pub(crate) fn clear(&mut self, graphs: &mut Layer, graph: TermId) {
        for (quad, _) in graphs.take_graph(graph) {
            if !self.counts.is_empty() {
                self.counts.remove(&quad);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use somersault_model::TripleIds;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_statement_leaves_with_the_last_message_that_holds_it(
            steps in prop::collection::vec((0u64..6, any::<bool>()), 0..80),
        ) {
            let graph = TermId::kept_graph(3);
            let quad = |object: u64| {
                let id = TermId::from_raw;
                TripleIds::new(id(10), id(11), id(100 + object)).in_graph(graph)
            };
            let (mut layer, mut counts) = (Layer::default(), KeptCounts::default());
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            for (object, enters) in steps {
                let count = model.entry(object).or_default();
                if enters {
                    counts.enter(&mut layer, quad(object));
                    *count += 1;
                } else if *count > 0 {
                    counts.leave(&mut layer, quad(object));
                    *count -= 1;
                }
                for (object, count) in &model {
                    prop_assert_eq!(layer.holds(quad(*object)) == Some(true), *count > 0);
                }
            }
            counts.clear(&mut layer, graph);
            prop_assert!(layer.is_empty() && counts.counts.is_empty());
        }
    }
}
