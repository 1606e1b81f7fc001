//! The content of a window at a firing: language.md, *What a window holds, and when*.

use super::{Due, Plant, Query, Twin};
use crate::algebra::Content;
use crate::model::{Dialect, Extent, QueryModel, Statement, Triple, WindowModel};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Twin {
    /// The content of each window at a firing, of the complete statements.
    pub(super) fn contents(&self, query: &Query, due: &Due, complete_from_ms: i64) -> Vec<Content> {
        let windows = query.model.windows.iter().zip(&query.since);
        let contents: Vec<Content> = windows
            .map(|(window, since)| {
                let mut inside = match window.extent {
                    Extent::Statements { count, step } => {
                        self.last(window, (count, step), &query.model, due)
                    }
                    _ => self.within(window, *since, &query.model, due),
                };
                inside.retain(|statement| statement.at_ms >= complete_from_ms);
                self.as_a_set(&inside)
            })
            .collect();
        match self.plant {
            Some(Plant::Leak) => {
                let all: BTreeMap<_, _> = contents.iter().flatten().copied().collect();
                vec![all.into_iter().collect(); contents.len()]
            }
            _ => contents,
        }
    }

    /// The statements in a span of time.
    fn within(
        &self,
        window: &WindowModel,
        since_ms: i64,
        model: &QueryModel,
        due: &Due,
    ) -> Vec<Statement> {
        let (from_ms, to_ms) = window.span(model.origin_ms, due.close_ms, since_ms);
        let late_at = &self.streams[&window.stream].late_at;
        let (from_ms, to_ms) = match self.plant {
            Some(Plant::OneSize) => (to_ms - model.windows[0].range_ms, to_ms),
            Some(Plant::OpenOnTheLeft) => (from_ms + 1, to_ms),
            Some(Plant::ClosedOnTheRight) => (from_ms, to_ms + 1),
            Some(Plant::AllFromTheBeginning) if window.extent == Extent::All => (i64::MIN, to_ms),
            Some(Plant::LateWipes) if late_at.iter().any(|at| (from_ms..to_ms).contains(at)) => {
                (to_ms, to_ms)
            }
            _ => (from_ms, to_ms),
        };
        let mut taken = Arc::clone(&due.taken[&window.stream]);
        if self.plant == Some(Plant::DuplicateLost) {
            taken = Arc::new(without_repeats(&taken, window.range_ms));
        }
        (taken.iter())
            .filter(|statement| (from_ms..to_ms).contains(&statement.at_ms))
            .copied()
            .collect()
    }

    /// The last statements up to a close by number: of several within a batch, to the one that the
    /// firing is for.
    fn last(
        &self,
        window: &WindowModel,
        (count, step): (usize, usize),
        model: &QueryModel,
        due: &Due,
    ) -> Vec<Statement> {
        let batch_ms = self.streams[&window.stream].model.batch_ms;
        let end_ms = due.close_ms.div_euclid(batch_ms) * batch_ms;
        let mut numbered: Vec<Statement> = (due.taken[&window.stream].iter())
            .filter(|statement| statement.at_ms < end_ms)
            .copied()
            .collect();
        // Within a batch in the order of arrival.
        numbered.sort_by_key(|statement| statement.at_ms.div_euclid(batch_ms));
        if self.plant == Some(Plant::RepeatsUncounted) {
            let mut known = BTreeSet::new();
            numbered.retain(|statement| known.insert(statement.triple));
        }
        let earlier = numbered
            .iter()
            .filter(|statement| statement.at_ms < end_ms - batch_ms);
        let closed_earlier = earlier.count() / step;
        let closed = numbered.len() / step;
        let says_when = model.every_ms.is_none() && end_ms == due.close_ms;
        let shown = match says_when && self.plant != Some(Plant::WholeBatches) {
            true => closed.min(closed_earlier + 1 + due.ordinal as usize),
            false => closed,
        };
        let to = shown * step;
        numbered[to.saturating_sub(count)..to].to_vec()
    }

    fn as_a_set(&self, inside: &[Statement]) -> Content {
        let all = inside
            .iter()
            .map(|statement| (statement.triple, statement.at_ms));
        if self.plant == Some(Plant::Bag) {
            return all.collect();
        }
        let mut newest = BTreeMap::new();
        for (triple, at_ms) in all {
            let known = newest.entry(triple).or_insert(at_ms);
            *known = match self.plant {
                Some(Plant::OldestTimestamp) => at_ms.min(*known),
                _ => at_ms.max(*known),
            };
        }
        newest.into_iter().collect()
    }
}

/// The statements without an earlier remaining one of the same triple within the span.
fn without_repeats(statements: &[Statement], span_ms: i64) -> Vec<Statement> {
    let mut ordered = statements.to_vec();
    ordered.sort_by_key(|statement| statement.at_ms);
    let mut left: BTreeMap<Triple, i64> = BTreeMap::new();
    ordered.retain(|statement| {
        let known = left.get(&statement.triple);
        let is_left = known.is_none_or(|at_ms| statement.at_ms - at_ms >= span_ms);
        if is_left {
            left.insert(statement.triple, statement.at_ms);
        }
        is_left
    });
    ordered
}

impl WindowModel {
    /// The span that the window shows at a close of its query: that of its own latest close by
    /// then, `from ≤ event time < to`; for ALL, everything since `since_ms`.
    pub(super) fn span(&self, origin_ms: i64, close_ms: i64, since_ms: i64) -> (i64, i64) {
        let own_ms = origin_ms + (close_ms - origin_ms).div_euclid(self.step_ms) * self.step_ms;
        let to_ms = own_ms - self.until_ms;
        match self.extent {
            Extent::All => (since_ms, to_ms),
            _ => (to_ms - self.range_ms, to_ms),
        }
    }

    /// Whether a dialect has it.
    fn is_said_in(&self, dialect: Dialect) -> bool {
        match self.extent {
            Extent::Sliding => true,
            Extent::Past => dialect == Dialect::RspQl,
            Extent::Now | Extent::EachBatch | Extent::All => dialect == Dialect::CqelsQl,
            Extent::Statements { step, .. } => step == 1 || dialect != Dialect::CqelsQl,
        }
    }
}

impl QueryModel {
    /// Whether a dialect can say it: C-SPARQL windows a stream once, the others have no window in
    /// the default graph.
    pub fn can_be_said_in(&self, dialect: Dialect) -> bool {
        if !self.windows.iter().all(|window| window.is_said_in(dialect)) {
            return false;
        }
        match dialect {
            Dialect::CSparql => {
                let streams: BTreeSet<usize> = self.windows.iter().map(|w| w.stream).collect();
                streams.len() == self.windows.len()
            }
            _ => self.windows.iter().all(|window| !window.in_default),
        }
    }
}
