//! Declared streams: their clocks, sources and batches, and the home that keeps their data.

pub(crate) mod adaptor;
pub(crate) mod ahead;
mod amendments;
mod batches;
pub(crate) mod clock;
mod closed;
pub(crate) mod home;
pub(crate) mod judge;
pub(crate) mod messages;
pub(crate) mod retention;
mod source_clocks;
mod sources;
pub(crate) mod statement_count;
pub(crate) mod stream;
mod taken;

use crate::protocol::refusal::Refusal;
use retention::Needs;
use somersault_model::StreamUid;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;
use stream::Stream;

/// The streams that exist.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_uid: BTreeMap<StreamUid, Stream>,
    by_iri: BTreeMap<String, StreamUid>,
    /// The uid of the newest stream.
    newest: u32,
    /// The streams whose clocks may not show what they hold.
    unpublished: Vec<StreamUid>,
    /// Whether a stream that is derived has been dropped since clocks were published.
    is_derived_dropped: bool,
}

/// The planner's knowledge of the needs of streams.
pub(crate) trait StreamNeeds {
    /// The batches of a stream that windows and firings still need.
    fn needs_of(&self, uid: StreamUid) -> Needs;

    /// Says what holds a stream's slices, and what helps.
    fn holder_of(&self, streams: &Streams, stream: &Stream) -> String;
}

impl Index<&StreamUid> for Streams {
    type Output = Stream;

    fn index(&self, uid: &StreamUid) -> &Stream {
        &self.by_uid[uid]
    }
}

impl Streams {
    pub(crate) fn get(&self, uid: StreamUid) -> Option<&Stream> {
        self.by_uid.get(&uid)
    }

    fn get_mut(&mut self, uid: StreamUid) -> Option<&mut Stream> {
        let stream = self.by_uid.get_mut(&uid)?;
        if self.unpublished.last() != Some(&uid) {
            self.unpublished.push(uid);
        }
        Some(stream)
    }

    pub(crate) fn uid_of(&self, iri: &str) -> Option<StreamUid> {
        self.by_iri.get(iri).copied()
    }

    pub(crate) fn find(&self, iri: &str) -> Option<&Stream> {
        self.by_uid.get(self.by_iri.get(iri)?)
    }

    /// All streams, by uid.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Stream> {
        self.by_uid.values()
    }

    /// All streams, by IRI.
    pub(crate) fn by_iri(&self) -> impl Iterator<Item = &Stream> {
        self.by_iri.values().filter_map(|uid| self.by_uid.get(uid))
    }

    /// The uid that the next stream gets.
    pub(crate) fn next_uid(&self) -> StreamUid {
        StreamUid(self.newest + 1)
    }

    /// The uid of the newest stream.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// The uids of streams go on after this one.
    pub(crate) fn set_newest(&mut self, newest: u32) {
        self.newest = newest;
    }

    fn insert(&mut self, stream: Stream) {
        let uid = stream.uid();
        self.newest = self.newest.max(uid.0);
        self.by_iri.insert(stream.iri().to_owned(), uid);
        self.unpublished.push(uid);
        self.by_uid.insert(uid, stream);
    }

    fn remove(&mut self, uid: StreamUid) -> Option<Stream> {
        let stream = self.by_uid.remove(&uid)?;
        self.by_iri.remove(stream.iri());
        self.is_derived_dropped |= stream.derived_by().is_some();
        Some(stream)
    }

    /// Notes that a query derives a stream from this one, or no longer does.
    pub(crate) fn set_feeds(&mut self, uid: StreamUid, derived: StreamUid, feeds: bool) {
        let Some(stream) = self.get_mut(uid) else {
            return;
        };
        match feeds {
            true => stream.feeds_mut().insert(derived),
            false => stream.feeds_mut().remove(&derived),
        };
    }

    /// A stream that this one feeds, directly or through others, and that has used up its BUDGET.
    fn full_below(&self, stream: &Stream, needs: &impl StreamNeeds) -> Option<(&Stream, u64)> {
        let mut seen = BTreeSet::new();
        let mut to_look_at: Vec<StreamUid> = stream.feeds().iter().copied().collect();
        while let Some(uid) = to_look_at.pop() {
            let Some(below) = self.get(uid).filter(|_| seen.insert(uid)) else {
                continue;
            };
            if let Some(held) = below.over_budget(0, needs.needs_of(uid)) {
                return Some((below, held));
            }
            to_look_at.extend(below.feeds());
        }
        None
    }

    /// Refuses this many more statements of a stream, if it has no room for them, or if a stream
    /// that it feeds has none.
    pub(crate) fn judge_budget(
        &self,
        stream: &Stream,
        statements: usize,
        needs: &impl StreamNeeds,
    ) -> Result<(), Refusal> {
        let held = stream.over_budget(statements, needs.needs_of(stream.uid()));
        if let Some(held_bytes) = held {
            return Err(Refusal::OverBudget {
                stream: stream.iri().to_owned(),
                held_bytes,
                budget_bytes: stream.declaration().budget_bytes,
                reason: needs.holder_of(self, stream),
            });
        }
        match self.refusal_below(stream, needs) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// The refusal of pushes to a stream, if one that it feeds is full.
    fn refusal_below(&self, stream: &Stream, needs: &impl StreamNeeds) -> Option<Refusal> {
        let (below, held_bytes) = self.full_below(stream, needs)?;
        Some(Refusal::OverBudget {
            stream: below.iri().to_owned(),
            held_bytes,
            budget_bytes: below.declaration().budget_bytes,
            reason: format!(
                "what is pushed to <{}> feeds it, and {}",
                stream.iri(),
                needs.holder_of(self, below)
            ),
        })
    }

    /// Shows on the clocks what the streams hold that have changed since the last time, or whose
    /// `needs` have.
    pub(crate) fn publish(
        &mut self,
        changed: impl IntoIterator<Item = StreamUid>,
        needs: &impl StreamNeeds,
    ) {
        let mut unpublished = std::mem::take(&mut self.unpublished);
        unpublished.extend(changed);
        unpublished.sort_unstable();
        unpublished.dedup();
        let mut is_changed_below = std::mem::take(&mut self.is_derived_dropped);
        for uid in unpublished.drain(..) {
            let Some(stream) = self.get(uid) else {
                continue;
            };
            let holder = || needs.holder_of(self, stream);
            is_changed_below |= stream.publish(needs.needs_of(uid), holder);
        }
        // Its memory serves the next record.
        self.unpublished = unpublished;
        if is_changed_below {
            for stream in self.values().filter(|stream| !stream.feeds().is_empty()) {
                let refusal = self.refusal_below(stream, needs);
                stream.clock().set_full_below(refusal);
            }
        }
    }
}
