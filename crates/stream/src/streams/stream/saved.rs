//! A stream as a checkpoint holds it.
//!
//! Before changing anything here: what follows from the declaration, from the sources or from the
//! held batches is derived again (ADR 40). The SN of a checkpoint is stable once the
//! checkpoint is whole, so the stream's stable time is then the time that was cut.

use super::{NewDerived, NewStream, Progress, Stream, StreamTotals};
use crate::saved::streams::{
    BatchKind, SavedDerived, SavedMessages, SavedSource, SavedStream, SavedTotals, ShownBatches,
    StreamRecord,
};
use crate::saved::{CoreRecord, RestoreError, contradiction, portions};
use crate::streams::batches::Batch;
use crate::streams::messages::{KeptMessage, Messages};
use crate::streams::retention::Retention;
use crate::streams::sources::Sources;
use crate::streams::statement_count::StatementCount;
use somersault_lang::CreateStream;
use somersault_model::{BatchNumber, Intern, Lease, Millis};
use std::sync::Arc;

impl From<StreamTotals> for SavedTotals {
    fn from(totals: StreamTotals) -> SavedTotals {
        let StreamTotals {
            statements,
            late,
            amended,
            batches,
        } = totals;
        SavedTotals {
            statements,
            late,
            amended,
            batches,
        }
    }
}

impl From<SavedTotals> for StreamTotals {
    fn from(totals: SavedTotals) -> StreamTotals {
        let SavedTotals {
            statements,
            late,
            amended,
            batches,
        } = totals;
        StreamTotals {
            statements,
            late,
            amended,
            batches,
        }
    }
}

impl Stream {
    /// The stream as a checkpoint holds it, with its sources and its open batches.
    pub(in crate::streams) fn save(&self, out: &mut Vec<CoreRecord>) {
        let uid = self.uid();
        let derived = self.derived_by.map(|by| SavedDerived {
            by,
            name: self.clock.derived_by().unwrap_or_default().to_owned(),
            batch: self.interval(),
            within: self.within,
        });
        let saved = SavedStream {
            uid,
            text: self.declaration().text.clone(),
            namespace: self.namespace.clone(),
            derived,
            pushes: self.sources.pushes(),
            watermark: self.watermark(),
            begin: self.progress.begin,
            moved_ms: self.progress.moved_ms,
            planned: self.progress.planned,
            amended_from: self.progress.amended_from,
            heartbeat: self.clock.heartbeat(),
            retained_from: self.retention.from(),
            numbered: self.numbered.closed(),
            totals: self.totals.into(),
        };
        let mut add = |record| out.push(CoreRecord::Stream(record));
        add(StreamRecord::Stream(Box::new(saved)));
        let sources = portions(self.sources.save(&self.clock));
        sources.for_each(|part| add(StreamRecord::Sources(uid, part)));
        portions(self.retention.held()).for_each(|part| add(StreamRecord::Held(uid, part)));
        let numbered = portions(self.numbered.batches());
        numbered.for_each(|part| add(StreamRecord::Numbered(uid, part)));
        self.messages.save(uid, self.sources.pushes(), out);
        for (number, batch) in self.open.iter() {
            batch.save((uid, number, BatchKind::Open), out);
        }
    }

    /// The batches before the first that no SN has shown.
    pub(in crate::streams) fn shown(&self) -> Option<ShownBatches> {
        let (planned, interval) = (self.progress.planned?, self.interval());
        Some(ShownBatches {
            stream: self.uid(),
            interval,
            end: BatchNumber::of(planned, interval),
        })
    }

    /// The leases on the terms of statements in open batches and in kept messages.
    pub(in crate::streams) fn leases(&self) -> impl Iterator<Item = &Lease> {
        let open = self.open.iter().filter_map(|(_, batch)| batch.lease());
        open.chain(self.messages.kept().filter_map(|it| it.lease.as_ref()))
    }

    /// A saved stream without sources and batches, which follow. `declaration` is that of its text.
    pub(in crate::streams) fn restore(
        saved: SavedStream,
        declaration: CreateStream,
        ahead: Option<Millis>,
        intern: &dyn Intern,
    ) -> Stream {
        let derived = saved.derived.as_ref().map(|derived| NewDerived {
            by: (derived.by, derived.name.as_str()),
            within: derived.within,
        });
        let new = NewStream {
            uid: saved.uid,
            declaration: Arc::new(declaration),
            namespace: saved.namespace,
            derived,
        };
        let fresh = Stream::new(new, ahead, intern);
        if let Some(watermark) = saved.watermark {
            fresh.clock.set_watermark(watermark);
        }
        if let Some((time, received_ms)) = saved.heartbeat {
            fresh.clock.set_heartbeat(time, received_ms);
        }
        Stream {
            sources: Sources::restore(saved.pushes),
            progress: Progress {
                begin: saved.begin,
                moved_ms: saved.moved_ms,
                planned: saved.planned,
                stable: saved.planned,
                amended_from: saved.amended_from,
            },
            numbered: StatementCount::restore(saved.numbered),
            retention: Retention::restore(saved.retained_from),
            totals: saved.totals.into(),
            messages: Messages::restore(saved.pushes),
            ..fresh
        }
    }

    /// Adds saved sources, after those with lower numbers.
    pub(in crate::streams) fn add_sources(
        &mut self,
        saved: Vec<SavedSource>,
    ) -> Result<(), RestoreError> {
        self.sources.add_saved(&self.clock, saved)
    }

    /// Takes what a checkpoint says of the stream's messages.
    pub(in crate::streams) fn take_saved_messages(&mut self, saved: SavedMessages) {
        self.messages.take_saved(saved);
    }

    /// Adds a saved message that consumers need, behind those before it.
    pub(in crate::streams) fn add_kept(
        &mut self,
        message: KeptMessage,
    ) -> Result<(), RestoreError> {
        let place = message.place;
        if message.statements.is_empty() || !self.messages.may_follow(place) {
            let iri = self.iri();
            return contradiction(format!("message {} of <{iri}> is out of place", place.0));
        }
        self.messages.keep(message);
        Ok(())
    }

    /// Adds the saved numbers of statements that batches hold.
    pub(in crate::streams) fn add_held(&mut self, batches: Vec<(BatchNumber, u64)>) {
        for (batch, count) in batches {
            self.retention.hold_more(batch, count);
        }
    }

    /// Adds saved closed batches, each with the number of its first statement.
    pub(in crate::streams) fn add_numbered(&mut self, batches: Vec<(BatchNumber, u64)>) {
        self.numbered.add_saved(batches);
    }

    /// The open batch of this number, for its saved statements.
    pub(in crate::streams) fn open_batch(&mut self, number: BatchNumber) -> &mut Batch {
        self.open.entry(number)
    }
}
