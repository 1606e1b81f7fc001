//! The messages that consumers and owned windows need, by stream and place.
//!
//! Before changing anything here: the core says which are needed. The terms of a message are known
//! as long as it is here.

use somersault_dictionary::TermPin;
use somersault_model::{Lease, Place, QuadIds, StreamUid, TermId};
use somersault_stream::KeptMessage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A message: its statements, in the default graph.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) statements: Arc<[QuadIds]>,
    /// What keeps the terms of a pushed message.
    _lease: Option<Lease>,
    /// What keeps the terms of an emitted one.
    pub(super) terms: Option<Arc<TermPin>>,
}

impl Message {
    /// A message that a client has sent, or one of a restart.
    pub(super) fn of(message: KeptMessage) -> Message {
        let triples = message.statements.iter();
        Message {
            statements: triples
                .map(|triple| triple.in_graph(TermId::DEFAULT_GRAPH))
                .collect(),
            _lease: message.lease,
            terms: None,
        }
    }

    /// A message that a transaction has emitted.
    pub(super) fn emitted(statements: Vec<QuadIds>, terms: Option<Arc<TermPin>>) -> Message {
        Message {
            statements: statements.into(),
            _lease: None,
            terms,
        }
    }
}

/// Messages by stream and place.
#[derive(Default)]
pub(super) struct Messages(BTreeMap<StreamUid, BTreeMap<Place, Message>>);

impl Messages {
    pub(super) fn insert(&mut self, stream: StreamUid, place: Place, message: Message) {
        self.0.entry(stream).or_default().insert(place, message);
    }

    /// The statements of a message.
    pub(super) fn get(&self, stream: StreamUid, place: Place) -> Option<&[QuadIds]> {
        let message = self.0.get(&stream)?.get(&place)?;
        Some(&message.statements)
    }

    /// Lets go of the messages of a stream below a place.
    pub(super) fn release(&mut self, stream: StreamUid, below: Place) {
        if let Some(messages) = self.0.get_mut(&stream) {
            *messages = messages.split_off(&below);
            if messages.is_empty() {
                self.0.remove(&stream);
            }
        }
    }
}
