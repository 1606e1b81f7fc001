//! Messages for consumers, and what records of transactions bring to interior streams.
//!
//! Before changing anything here: consumers are set while a record is applied, live and in recovery
//! alike, so they must follow from the records so far (S6).

use super::Coordinator;
use crate::output::Output;
use crate::protocol::transactions::RecordedTransactions;
use crate::streams::adaptor::Interner;
use crate::streams::messages::{Consumers, KeptMessage};
use oxrdf::Quad;
use somersault_log::{TxnEntry, TxnItem, TxnMessage, TxnOutcome, TxnRecord};
use somersault_model::{Intern, Place, QuadIds, StreamUid};
use std::collections::BTreeMap;

impl Coordinator {
    /// Sets the consumers of a stream's messages, or that it has none, and lets go of the messages
    /// that none needs. The first consumer begins with the next message.
    pub fn set_consumers(&mut self, stream: StreamUid, consumers: Option<Consumers>) {
        self.home.set_consumers(stream, consumers);
        self.publish_clocks();
    }

    /// The place of a stream's newest message, which is the number of its messages; `None` for an
    /// unknown stream.
    pub fn newest_message(&self, stream: StreamUid) -> Option<Place> {
        Some(self.home.streams().get(stream)?.newest_message())
    }

    /// The messages that consumers of a stream need, ascending: where a driver begins after a
    /// restore.
    pub fn kept_messages(&self, stream: StreamUid) -> impl Iterator<Item = &KeptMessage> {
        let stream = self.home.streams().get(stream).into_iter();
        stream.flat_map(|stream| stream.kept_messages())
    }

    /// Takes what transactions have emitted into interior streams and what these are complete
    /// through, and lets go of the messages that no consumer needs any more.
    pub(super) fn take_emitted(
        &mut self,
        transactions: &RecordedTransactions,
        intern: &dyn Intern,
        out: &mut Vec<Output>,
    ) {
        match transactions {
            RecordedTransactions::Terms(record) => {
                let ids = |interner: &Interner<'_>, quad: &Quad| interner.quad(quad.as_ref());
                self.take_emitted_in(record, intern, ids, out);
            }
            RecordedTransactions::Numbered(numbered) => {
                let ids = |interner: &Interner<'_>, quad: &QuadIds| interner.mentioned(*quad);
                self.take_emitted_in(&numbered.record, intern, ids, out);
            }
        }
    }

    fn take_emitted_in<Q>(
        &mut self,
        record: &TxnRecord<Q>,
        intern: &dyn Intern,
        ids: impl Fn(&Interner<'_>, &Q) -> QuadIds + Copy,
        out: &mut Vec<Output>,
    ) {
        let mut moved = Vec::new();
        // One lease for all messages of a stream.
        let mut interners: BTreeMap<StreamUid, Option<Interner<'_>>> = BTreeMap::new();
        for item in &record.items {
            match item {
                TxnItem::Entry(TxnEntry { outcome, .. }) => {
                    for message in emitted(outcome) {
                        let interner = interners
                            .entry(message.stream)
                            .or_insert_with_key(|uid| self.home.interner(*uid, intern));
                        if let Some(interner) = interner {
                            self.home.emit(message, interner, ids);
                        }
                    }
                }
                // The driver applies the entries that these became when they ran again.
                TxnItem::Triggered(_) => {}
                TxnItem::Advance(times) => {
                    for (stream, through) in times {
                        if (self.home).complete(*stream, *through, record.received_ms) {
                            moved.push(*stream);
                        }
                    }
                }
            }
        }
        for stream in interners.into_keys() {
            let messages = self.home.take_untold(stream);
            if !messages.is_empty() {
                out.push(Output::Emitted { stream, messages });
            }
        }
        self.on_streams_moved(&moved, out);
        for (stream, below) in &record.released {
            self.home.release(*stream, *below);
        }
    }
}

/// The messages of a transaction that committed.
fn emitted<Q>(outcome: &TxnOutcome<Q>) -> &[TxnMessage<Q>] {
    match outcome {
        TxnOutcome::Committed { emitted, .. } => emitted,
        TxnOutcome::Aborted { .. } | TxnOutcome::Rerun => &[],
    }
}
