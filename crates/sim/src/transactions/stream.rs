//! A stream of the serial twin: its messages from the first on, and the numbers that were taken.

use oxrdf::{BlankNode, GraphName, NamedOrBlankNode, Quad, Term};
use somersault_lang::{CreateStream, StreamSource};
use somersault_lines::TimestampPath;
use somersault_model::{EventTime, QuadIds, StreamUid};
use somersault_txn::Round;
use std::collections::{BTreeMap, BTreeSet};

/// A message of a stream.
#[derive(Debug, Clone)]
pub struct TwinMessage {
    /// Its event time.
    pub at: EventTime,
    /// Its statements.
    pub statements: Vec<QuadIds>,
    /// Of a message that was emitted, the round.
    pub round: Option<Round>,
}

/// What became of a pushed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushOutcome {
    /// It was taken.
    Taken,
    /// Its number was taken before.
    Repeated,
    /// It was refused, for this reason; its number is free.
    Refused(String),
}

/// A stream.
#[derive(Debug)]
pub(super) struct TwinStream {
    pub(super) uid: StreamUid,
    pub(super) is_interior: bool,
    timestamp: Option<TimestampPath>,
    taken: BTreeMap<String, BTreeSet<u64>>,
    /// No later message is before it.
    pub(super) through: EventTime,
    /// Its messages; that of place n has index n − 1.
    pub(super) messages: Vec<TwinMessage>,
}

impl TwinStream {
    pub(super) fn new(created: &CreateStream, uid: StreamUid) -> TwinStream {
        TwinStream {
            uid,
            is_interior: created.source == StreamSource::Interior,
            timestamp: created.timestamp.clone().and_then(TimestampPath::new),
            taken: BTreeMap::new(),
            through: EventTime::MIN,
            messages: Vec::new(),
        }
    }

    /// Takes the number of a message, and tells its event time; or what becomes of it otherwise.
    pub(super) fn admit(
        &mut self,
        source: &str,
        seq: u64,
        statements: &[Quad],
    ) -> Result<EventTime, PushOutcome> {
        let refused = |reason: String| Err(PushOutcome::Refused(reason));
        if self.is_interior {
            return refused("the stream is filled by EMIT alone; push into another one".to_owned());
        }
        if (self.taken.get(source)).is_some_and(|taken| taken.contains(&seq)) {
            return Err(PushOutcome::Repeated);
        }
        if statements.is_empty() {
            return refused("the message is empty; send statements with it".to_owned());
        }
        let at = match &self.timestamp {
            Some(path) => path.event_time(statements).map_err(PushOutcome::Refused)?,
            None => self.through,
        };
        if at < self.through {
            let through = self.through.0;
            return refused(format!(
                "the message is of {} ms, and the stream is complete through {through} ms",
                at.0
            ));
        }
        self.taken.entry(source.to_owned()).or_default().insert(seq);
        self.through = at;
        Ok(at)
    }
}

/// The statements with blank nodes of the message's own.
pub(super) fn own_blank_nodes(quad: &Quad, message: u64) -> Quad {
    let own = |node: &BlankNode| BlankNode::new_unchecked(format!("m{message}.{}", node.as_str()));
    let subject = |subject: &NamedOrBlankNode| match subject {
        NamedOrBlankNode::BlankNode(node) => own(node).into(),
        named => named.clone(),
    };
    Quad {
        subject: subject(&quad.subject),
        predicate: quad.predicate.clone(),
        object: match &quad.object {
            Term::BlankNode(node) => own(node).into(),
            other => other.clone(),
        },
        graph_name: match &quad.graph_name {
            GraphName::BlankNode(node) => own(node).into(),
            other => other.clone(),
        },
    }
}
