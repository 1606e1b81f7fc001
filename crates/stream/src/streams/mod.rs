//! Declared streams: their sources, times and batches.

pub(crate) mod adaptor;
pub(crate) mod ahead;
pub(crate) mod clock;
pub(crate) mod judge;
pub(crate) mod numbered;
mod source_clocks;
mod sources;
pub(crate) mod stream;
mod taken;

use crate::protocol::refusal::Refusal;
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
    unpublished: BTreeSet<StreamUid>,
    /// Whether a stream that is derived has been dropped since clocks were published.
    is_derived_dropped: bool,
}

impl Index<&StreamUid> for Streams {
    type Output = Stream;

    fn index(&self, uid: &StreamUid) -> &Stream {
        &self.by_uid[uid]
    }
}

impl Streams {
    pub(crate) fn get(&self, uid: &StreamUid) -> Option<&Stream> {
        self.by_uid.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &StreamUid) -> Option<&mut Stream> {
        let stream = self.by_uid.get_mut(uid)?;
        self.unpublished.insert(*uid);
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

    pub(crate) fn insert(&mut self, stream: Stream) {
        let uid = stream.uid;
        self.newest = self.newest.max(uid.0);
        self.by_iri.insert(stream.iri().to_owned(), uid);
        self.by_uid.insert(uid, stream);
        self.unpublished.insert(uid);
    }

    pub(crate) fn remove(&mut self, uid: StreamUid) -> Option<Stream> {
        let stream = self.by_uid.remove(&uid)?;
        self.by_iri.remove(stream.iri());
        self.unpublished.remove(&uid);
        self.is_derived_dropped |= stream.derived_by.is_some();
        Some(stream)
    }

    /// A stream that this one feeds, directly or through others, and that has used up its BUDGET.
    pub(crate) fn full_below(&self, stream: &Stream) -> Option<(&Stream, u64)> {
        let mut seen = BTreeSet::new();
        let mut to_look_at: Vec<StreamUid> = stream.feeds.iter().copied().collect();
        while let Some(uid) = to_look_at.pop() {
            let Some(below) = self.get(&uid).filter(|_| seen.insert(uid)) else {
                continue;
            };
            if let Some(held) = below.over_budget(0) {
                return Some((below, held));
            }
            to_look_at.extend(&below.feeds);
        }
        None
    }

    /// Shows on the clocks what the streams hold that have changed since the last time.
    /// `holder_of` says what holds a stream's slices, for refusals.
    pub(crate) fn publish(
        &mut self,
        holder_of: impl Fn(&Streams, &Stream) -> String,
        full_below: impl Fn(&Streams, &Stream) -> Option<Refusal>,
    ) {
        let mut is_changed_below = std::mem::take(&mut self.is_derived_dropped);
        for uid in std::mem::take(&mut self.unpublished) {
            let Some(stream) = self.by_uid.get(&uid) else {
                continue;
            };
            is_changed_below |= stream.publish(|| holder_of(self, stream));
        }
        if is_changed_below {
            for stream in self.values().filter(|stream| !stream.feeds.is_empty()) {
                stream.clock().set_full_below(full_below(self, stream));
            }
        }
    }
}
