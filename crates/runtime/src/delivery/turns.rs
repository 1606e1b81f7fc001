//! Firings that wait to be handed out, in turns: those of one query in order, the queries one after
//! the other. So a query with thousands of them delays each other query by one firing at a time.

use rustc_hash::FxHashMap;
use somersault_model::QueryUid;
use somersault_stream::Firing;
use std::collections::VecDeque;
use std::time::Instant;

/// A firing whose SN is stable, and which waits for its turn.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) firing: Firing,
    /// When the last record that it needed was acknowledged; `None` during recovery.
    pub(crate) acknowledged: Option<Instant>,
    /// When it was released.
    pub(crate) at: Instant,
}

/// The queues of all queries.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    of: FxHashMap<QueryUid, VecDeque<Released>>,
    /// The queries that have waiting firings, the next one first.
    turn: VecDeque<QueryUid>,
}

impl Turns {
    pub(crate) fn push(&mut self, released: Released) {
        let query = released.firing.query;
        let of_query = self.of.entry(query).or_default();
        if of_query.is_empty() {
            self.turn.push_back(query);
        }
        of_query.push_back(released);
    }

    pub(crate) fn pop(&mut self) -> Option<Released> {
        let query = self.turn.pop_front()?;
        let of_query = self.of.get_mut(&query)?;
        let released = of_query.pop_front();
        match of_query.is_empty() {
            true => drop(self.of.remove(&query)),
            false => self.turn.push_back(query),
        }
        released
    }

    /// All waiting firings.
    pub(crate) fn firings(&self) -> impl Iterator<Item = &Firing> {
        let queues = self.of.values();
        queues.flat_map(|queue| queue.iter().map(|released| &released.firing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::{EventTime, Sn};

    #[test]
    fn queries_take_turns() {
        let mut turns = Turns::default();
        let mut push = |query, ordinal| {
            turns.push(Released {
                firing: Firing {
                    query: QueryUid(query),
                    members: 0,
                    close: EventTime(7),
                    ordinal,
                    revision: 0,
                    repeated: false,
                    sn: Sn(1),
                    windows: [].into(),
                    changed: None,
                    complete_from: None,
                },
                acknowledged: None,
                at: Instant::now(),
            });
        };
        (0..3).for_each(|ordinal| push(1, ordinal));
        push(2, 0);
        push(3, 0);
        let order: Vec<(u64, u32)> = std::iter::from_fn(|| turns.pop())
            .map(|released| (released.firing.query.0, released.firing.ordinal))
            .collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2)]);
    }
}
