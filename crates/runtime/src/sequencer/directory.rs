//! The directory of streams: from IRIs to what every thread may know of a stream. Pushers look
//! streams up here without a lock; only the sequencer writes.

use arc_swap::ArcSwap;
use somersault_model::{Millis, StreamUid};
use somersault_stream::StreamClock;
use std::collections::BTreeMap;
use std::sync::Arc;

type Clocks = BTreeMap<Arc<str>, Arc<StreamClock>>;

/// The published directory.
#[derive(Default)]
pub(crate) struct Directory(ArcSwap<Clocks>);

impl Directory {
    /// The clock of a stream. A stream that was just created may not be listed yet: a caller that
    /// finds none asks the sequencer.
    pub(crate) fn find(&self, iri: &str) -> Option<Arc<StreamClock>> {
        self.0.load().get(iri).cloned()
    }

    /// The number of streams.
    pub(super) fn len(&self) -> usize {
        self.0.load().len()
    }

    /// The ARRIVAL TIME streams whose time is more than `by` ahead of the clock, and by how much: a
    /// clock has been set back.
    pub(crate) fn ahead_of_clock(&self, now_ms: i64, by: Millis) -> Vec<(String, Millis)> {
        let clocks = self.0.load();
        let ahead = clocks.iter().filter_map(|(iri, clock)| {
            let ahead = clock.ahead_of_clock(now_ms)?;
            (ahead > by).then(|| (iri.to_string(), ahead))
        });
        ahead.collect()
    }
}

/// The sequencer's own copy of the directory. It is published with each command, and after a replay
/// of many commands once for all of them.
#[derive(Default)]
pub(super) struct DirectoryWriter {
    clocks: Clocks,
    has_changed: bool,
}

impl DirectoryWriter {
    pub(super) fn stream_created(&mut self, clock: Arc<StreamClock>) {
        let iri = clock.declaration().iri.as_str().into();
        self.clocks.insert(iri, clock);
        self.has_changed = true;
    }

    /// A stream was dropped. After a reset its IRI may lead to another life of it.
    pub(super) fn stream_dropped(&mut self, iri: &str, uid: StreamUid) {
        if self.clocks.get(iri).is_some_and(|clock| clock.uid() == uid) {
            self.clocks.remove(iri);
            self.has_changed = true;
        }
    }

    /// Publishes the directory, if it has changed.
    pub(super) fn publish(&mut self, directory: &Directory) {
        if std::mem::take(&mut self.has_changed) {
            directory.0.store(Arc::new(self.clocks.clone()));
        }
    }
}
