//! How transactions lie in a segment.
//!
//! Before changing anything here: statements are lists of numbers in which what equals the
//! statement before is left out, across all entries of a record. Encoder and decoder go through
//! them in the same order: entry by entry, changes before messages.

use super::decode::TermList;
use super::encode::{EncodeError, TermTable};
use super::{WireQuad, WireTerm};
use crate::record::{
    TxnCall, TxnChange, TxnConsumed, TxnEntry, TxnItem, TxnMessage, TxnOrigin, TxnOutcome,
    TxnPlaces, TxnRecord, TxnRound,
};
use hashbrown::HashTable;
use oxrdf::{Quad, Term};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use somersault_model::{EventTime, Place, ProcedureUid, QuadIds, StreamUid, TermId};
use std::collections::hash_map::Entry;

/// The transactions of a record, in a form that a log can write.
pub trait TxnBody {
    /// The form that is written.
    fn form(&self) -> TxnForm<'_>;
}

/// The forms of transactions that a log can write. Both have the same bytes.
#[derive(Clone, Copy, Debug)]
pub enum TxnForm<'t> {
    /// With statements of terms.
    Terms(&'t TxnRecord),
    /// With statements of ids, and the terms of all these ids.
    Ids(&'t TxnRecord<QuadIds>, &'t StatementTerms),
}

/// The terms of the statements that transactions change and emit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementTerms {
    /// Each once.
    terms: Vec<Term>,
    /// For each statement the places of graph, subject, predicate and object in `terms`.
    quads: Vec<[u32; 4]>,
}

/// The place of the default graph, which has no term.
const NO_TERM: u32 = u32::MAX;

impl StatementTerms {
    /// The terms of a record's statements. `term` returns that of an id; it is asked once for each.
    pub fn of(record: &TxnRecord<QuadIds>, term: impl Fn(TermId) -> Term) -> StatementTerms {
        let mut terms = Vec::new();
        let mut places = FxHashMap::default();
        let mut place = |id: TermId| match places.entry(id) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                terms.push(term(id));
                *free.insert(terms.len() as u32 - 1)
            }
        };
        let quads = record.statements().map(|quad| {
            let graph = match quad.graph {
                TermId::DEFAULT_GRAPH => NO_TERM,
                name => place(name),
            };
            let ends = [quad.subject, quad.predicate, quad.object];
            let [subject, predicate, object] = ends.map(&mut place);
            [graph, subject, predicate, object]
        });
        let quads = quads.collect();
        StatementTerms { terms, quads }
    }
}

impl TxnBody for TxnRecord {
    fn form(&self) -> TxnForm<'_> {
        TxnForm::Terms(self)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireTxn<'a> {
    received_ms: i64,
    #[serde(borrow)]
    terms: Vec<WireTerm<'a>>,
    #[serde(borrow)]
    items: Vec<WireItem<'a>>,
    released: Vec<(u32, u64)>,
}

#[derive(Serialize, Deserialize)]
enum WireItem<'a> {
    Entry(
        #[serde(borrow)] WireOrigin<'a>,
        #[serde(borrow)] WireOutcome<'a>,
    ),
    Advance(Vec<(u32, i64)>),
    Triggered(u64),
}

#[derive(Serialize, Deserialize)]
enum WireOrigin<'a> {
    Batch(u64, Vec<WireConsumed>),
    CallRound(u64, Vec<WireConsumed>),
    Call {
        procedure: u32,
        number: u64,
        #[serde(borrow)]
        key: Option<(&'a str, u64)>,
        /// The time less that of the event before.
        later_by: i64,
        arguments: Vec<u32>,
    },
    Update,
}

#[derive(Serialize, Deserialize)]
struct WireConsumed {
    procedure: u32,
    stream: u32,
    places: WirePlaces,
}

#[derive(Serialize, Deserialize)]
enum WirePlaces {
    Run(u64, u64),
    /// Each less the one before, modulo 2^64.
    List(Vec<u64>),
}

#[derive(Serialize, Deserialize)]
enum WireOutcome<'a> {
    Committed {
        changes: Vec<u32>,
        emitted: Vec<WireEmission>,
        answer: &'a [u8],
    },
    Aborted {
        procedure: u32,
        reason: &'a str,
    },
    Rerun,
}

#[derive(Serialize, Deserialize)]
struct WireEmission {
    stream: u32,
    place: u64,
    /// The time less that of the event before.
    later_by: i64,
    statements: Vec<u32>,
}

const GRAPH: u32 = 1;
const SUBJECT: u32 = 2;
const PREDICATE: u32 = 4;
const OBJECT: u32 = 8;
const DELETES: u32 = 16;
const ALL: u32 = 31;

/// What numbers are relative to: the statement, the time and the greatest term before.
struct Before {
    quad: WireQuad,
    at: i64,
    /// One more than the greatest index that a statement has named.
    next: u32,
}

impl Before {
    fn new(received_ms: i64) -> Before {
        Before {
            quad: WireQuad {
                subject: 0,
                predicate: 0,
                object: 0,
                graph: 0,
            },
            at: received_ms,
            next: 0,
        }
    }

    /// The number for an index: 0 for the next one, else the index plus 1.
    fn number(&mut self, index: u32) -> u32 {
        if index == self.next {
            self.next += 1;
            return 0;
        }
        self.next = self.next.max(index + 1);
        index + 1
    }

    fn index(&mut self, number: u32) -> Option<u32> {
        let index = number.checked_sub(1).unwrap_or(self.next);
        self.next = self.next.max(index.checked_add(1)?);
        Some(index)
    }

    fn later_by(&mut self, at: EventTime) -> i64 {
        at.0.wrapping_sub(std::mem::replace(&mut self.at, at.0))
    }

    fn time(&mut self, later_by: i64) -> EventTime {
        self.at = self.at.wrapping_add(later_by);
        EventTime(self.at)
    }

    fn put(&mut self, quad: WireQuad, deletes: bool, out: &mut Vec<u32>) {
        let at = out.len();
        out.push(if deletes { DELETES } else { 0 });
        let before = std::mem::replace(&mut self.quad, quad);
        if quad.graph != before.graph {
            out[at] |= GRAPH;
            let graph = quad.graph.checked_sub(1);
            out.push(graph.map_or(0, |index| self.number(index) + 1));
        }
        let parts = [
            (SUBJECT, quad.subject, before.subject),
            (PREDICATE, quad.predicate, before.predicate),
            (OBJECT, quad.object, before.object),
        ];
        for (part, index, before) in parts {
            if index != before {
                out[at] |= part;
                out.push(self.number(index));
            }
        }
    }

    /// The next statement of a list, and whether it is deleted.
    fn take(
        &mut self,
        numbers: &mut impl Iterator<Item = u32>,
    ) -> Option<Result<(WireQuad, bool), &'static str>> {
        let parts = numbers.next()?;
        Some(self.statement(parts, numbers).ok_or(NO_STATEMENT))
    }

    fn statement(
        &mut self,
        parts: u32,
        numbers: &mut impl Iterator<Item = u32>,
    ) -> Option<(WireQuad, bool)> {
        if parts > ALL {
            return None;
        }
        let mut quad = self.quad;
        if parts & GRAPH != 0 {
            quad.graph = match numbers.next()?.checked_sub(1) {
                None => 0,
                Some(number) => self.index(number)?.checked_add(1)?,
            };
        }
        for (part, index) in [
            (SUBJECT, &mut quad.subject),
            (PREDICATE, &mut quad.predicate),
            (OBJECT, &mut quad.object),
        ] {
            if parts & part != 0 {
                *index = self.index(numbers.next()?)?;
            }
        }
        self.quad = quad;
        Some((quad, parts & DELETES != 0))
    }
}

const NO_STATEMENT: &str = "it has a statement of a transaction that is not whole";

/// A record of transactions as it is written.
pub(super) fn encoded<'a>(
    form: TxnForm<'a>,
    index: &mut HashTable<u32>,
) -> Result<WireTxn<'a>, EncodeError> {
    match form {
        TxnForm::Terms(record) => encoded_with(record, index, TermTable::quad),
        TxnForm::Ids(record, known) => {
            let mut quads = known.quads.iter();
            // The number of each term in the record, once it is named.
            let mut numbers = vec![None; known.terms.len()];
            encoded_with(record, index, |terms, _| {
                let mut number = |place: u32| -> Result<u32, EncodeError> {
                    let at = place as usize;
                    if let Some(number) = numbers[at] {
                        return Ok(number);
                    }
                    let number = terms.term(known.terms[at].as_ref(), 0)?;
                    numbers[at] = Some(number);
                    Ok(number)
                };
                let [graph, subject, predicate, object] =
                    *quads.next().expect("each statement has its places");
                // In the order of the other form, so that the terms lie in the same one.
                let graph = match graph {
                    NO_TERM => 0,
                    name => number(name)?.saturating_add(1),
                };
                Ok(WireQuad {
                    subject: number(subject)?,
                    predicate: number(predicate)?,
                    object: number(object)?,
                    graph,
                })
            })
        }
    }
}

fn encoded_with<'a, 'i, Q>(
    record: &'a TxnRecord<Q>,
    index: &'i mut HashTable<u32>,
    mut quad: impl FnMut(&mut TermTable<'a, 'i>, &'a Q) -> Result<WireQuad, EncodeError>,
) -> Result<WireTxn<'a>, EncodeError> {
    let mut terms = TermTable::new(index, record.items.len() * 4);
    let mut before = Before::new(record.received_ms);
    let mut items = Vec::with_capacity(record.items.len());
    for item in &record.items {
        items.push(match item {
            TxnItem::Advance(to) => {
                WireItem::Advance(to.iter().map(|(stream, at)| (stream.0, at.0)).collect())
            }
            TxnItem::Triggered(count) => WireItem::Triggered(*count),
            TxnItem::Entry(entry) => {
                let origin = origin(&entry.origin, &mut terms, &mut before)?;
                let outcome = outcome(&entry.outcome, &mut terms, &mut before, &mut quad)?;
                WireItem::Entry(origin, outcome)
            }
        });
    }
    let released = record.released.iter();
    Ok(WireTxn {
        received_ms: record.received_ms,
        terms: terms.into_list(),
        items,
        released: released
            .map(|(stream, below)| (stream.0, below.0))
            .collect(),
    })
}

fn origin<'a>(
    origin: &'a TxnOrigin,
    terms: &mut TermTable<'a, '_>,
    before: &mut Before,
) -> Result<WireOrigin<'a>, EncodeError> {
    Ok(match origin {
        TxnOrigin::Update => WireOrigin::Update,
        TxnOrigin::Round { round, consumed } => {
            let consumed = consumed.iter().map(|of| WireConsumed {
                procedure: of.procedure.0,
                stream: of.stream.0,
                places: match &of.places {
                    TxnPlaces::Run { first, count } => WirePlaces::Run(first.0, *count),
                    TxnPlaces::List(places) => WirePlaces::List(differences(places)),
                },
            });
            match round {
                TxnRound::Batch(number) => WireOrigin::Batch(*number, consumed.collect()),
                TxnRound::Call(number) => WireOrigin::CallRound(*number, consumed.collect()),
            }
        }
        TxnOrigin::Call(call) => WireOrigin::Call {
            procedure: call.procedure.0,
            number: call.number,
            key: call
                .key
                .as_ref()
                .map(|(source, number)| (source.as_str(), *number)),
            later_by: before.later_by(call.received),
            arguments: (call.arguments.iter())
                .map(|argument| terms.term(argument.as_ref(), 0))
                .collect::<Result<_, _>>()?,
        },
    })
}

fn differences(places: &[Place]) -> Vec<u64> {
    let before = [0].into_iter().chain(places.iter().map(|place| place.0));
    let pairs = places.iter().zip(before);
    pairs
        .map(|(place, before)| place.0.wrapping_sub(before))
        .collect()
}

fn outcome<'a, 'i, Q>(
    outcome: &'a TxnOutcome<Q>,
    terms: &mut TermTable<'a, 'i>,
    before: &mut Before,
    quad: &mut impl FnMut(&mut TermTable<'a, 'i>, &'a Q) -> Result<WireQuad, EncodeError>,
) -> Result<WireOutcome<'a>, EncodeError> {
    let (changes, emitted, answer) = match outcome {
        TxnOutcome::Committed {
            changes,
            emitted,
            answer,
        } => (changes, emitted, answer),
        TxnOutcome::Aborted { procedure, reason } => {
            return Ok(WireOutcome::Aborted {
                procedure: procedure.0,
                reason,
            });
        }
        TxnOutcome::Rerun => return Ok(WireOutcome::Rerun),
    };
    let mut numbers = Vec::with_capacity(changes.len() * 3);
    for change in changes {
        before.put(quad(terms, &change.quad)?, !change.inserts, &mut numbers);
    }
    let mut messages = Vec::with_capacity(emitted.len());
    for message in emitted {
        let mut statements = Vec::with_capacity(message.statements.len() * 3);
        let later_by = before.later_by(message.at);
        for statement in &message.statements {
            before.put(quad(terms, statement)?, false, &mut statements);
        }
        messages.push(WireEmission {
            stream: message.stream.0,
            place: message.place.0,
            later_by,
            statements,
        });
    }
    Ok(WireOutcome::Committed {
        changes: numbers,
        emitted: messages,
        answer,
    })
}

/// The record that was written so.
pub(super) fn decoded(wire: WireTxn<'_>) -> Result<TxnRecord, &'static str> {
    let terms = TermList::new(&wire.terms)?;
    let mut before = Before::new(wire.received_ms);
    let items = wire.items.into_iter().map(|item| {
        Ok(match item {
            WireItem::Advance(to) => {
                let to = to.into_iter();
                TxnItem::Advance(
                    to.map(|(uid, at)| (StreamUid(uid), EventTime(at)))
                        .collect(),
                )
            }
            WireItem::Triggered(count) => TxnItem::Triggered(count),
            WireItem::Entry(origin, outcome) => TxnItem::Entry(TxnEntry {
                origin: decoded_origin(origin, &terms, &mut before)?,
                outcome: decoded_outcome(outcome, &terms, &mut before)?,
            }),
        })
    });
    let items = items.collect::<Result<_, &'static str>>()?;
    let released = wire.released.into_iter();
    Ok(TxnRecord {
        received_ms: wire.received_ms,
        items,
        released: released
            .map(|(uid, below)| (StreamUid(uid), Place(below)))
            .collect(),
    })
}

fn decoded_origin(
    wire: WireOrigin<'_>,
    terms: &TermList,
    before: &mut Before,
) -> Result<TxnOrigin, &'static str> {
    Ok(match wire {
        WireOrigin::Batch(number, wire) => TxnOrigin::Round {
            round: TxnRound::Batch(number),
            consumed: consumed(wire),
        },
        WireOrigin::CallRound(number, wire) => TxnOrigin::Round {
            round: TxnRound::Call(number),
            consumed: consumed(wire),
        },
        WireOrigin::Call {
            procedure,
            number,
            key,
            later_by,
            arguments,
        } => TxnOrigin::Call(TxnCall {
            procedure: ProcedureUid(procedure),
            number,
            key: key.map(|(source, number)| (source.to_owned(), number)),
            received: before.time(later_by),
            arguments: (arguments.into_iter())
                .map(|index| terms.get(index).cloned())
                .collect::<Result<_, _>>()?,
        }),
        WireOrigin::Update => TxnOrigin::Update,
    })
}

fn consumed(wire: Vec<WireConsumed>) -> Vec<TxnConsumed> {
    let wire = wire.into_iter().map(|of| TxnConsumed {
        procedure: ProcedureUid(of.procedure),
        stream: StreamUid(of.stream),
        places: match of.places {
            WirePlaces::Run(first, count) => TxnPlaces::Run {
                first: Place(first),
                count,
            },
            WirePlaces::List(differences) => {
                let sum = |before: &mut u64, difference: u64| {
                    *before = before.wrapping_add(difference);
                    Some(Place(*before))
                };
                TxnPlaces::List(differences.into_iter().scan(0, sum).collect())
            }
        },
    });
    wire.collect()
}

fn decoded_outcome(
    wire: WireOutcome<'_>,
    terms: &TermList,
    before: &mut Before,
) -> Result<TxnOutcome, &'static str> {
    let (changes, emitted, answer) = match wire {
        WireOutcome::Committed {
            changes,
            emitted,
            answer,
        } => (changes, emitted, answer),
        WireOutcome::Aborted { procedure, reason } => {
            return Ok(TxnOutcome::Aborted {
                procedure: ProcedureUid(procedure),
                reason: reason.to_owned(),
            });
        }
        WireOutcome::Rerun => return Ok(TxnOutcome::Rerun),
    };
    let changes = statements(changes, terms, before)?;
    let changes = changes.into_iter().map(|(quad, deletes)| TxnChange {
        quad,
        inserts: !deletes,
    });
    let changes = changes.collect();
    let emitted = emitted.into_iter().map(|message| {
        let at = before.time(message.later_by);
        let quads = statements(message.statements, terms, before)?;
        if quads.iter().any(|(_, deletes)| *deletes) {
            return Err("it has a message that deletes");
        }
        Ok(TxnMessage {
            stream: StreamUid(message.stream),
            place: Place(message.place),
            at,
            statements: quads.into_iter().map(|(quad, _)| quad).collect(),
        })
    });
    Ok(TxnOutcome::Committed {
        changes,
        emitted: emitted.collect::<Result<_, _>>()?,
        answer: answer.to_vec(),
    })
}

/// The statements of a list, each with whether it is deleted.
fn statements(
    numbers: Vec<u32>,
    terms: &TermList,
    before: &mut Before,
) -> Result<Vec<(Quad, bool)>, &'static str> {
    let mut numbers = numbers.into_iter();
    let mut quads = Vec::new();
    while let Some(statement) = before.take(&mut numbers) {
        let (quad, deletes) = statement?;
        quads.push((terms.quad(quad)?, deletes));
    }
    Ok(quads)
}
