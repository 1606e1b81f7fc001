//! Entries of the core of transactions as the log holds them, and back.
//!
//! Before changing anything here: the core must get from the log what it was given live, or a
//! restart ends in another state (S6).

use somersault_log::{
    TxnCall, TxnChange, TxnConsumed, TxnEntry, TxnItem, TxnMessage, TxnOrigin, TxnOutcome,
    TxnPlaces, TxnRound,
};
use somersault_txn as txn;

const RUNS_AGAIN: &str = "a transaction that runs again has no outcome yet";

/// An entry with what it changes and the statements of its messages, which the core does not know.
pub(crate) fn logged<Q>(
    entry: &txn::Entry,
    changes: Vec<TxnChange<Q>>,
    messages: Vec<Vec<Q>>,
) -> TxnEntry<Q> {
    let origin = match &entry.origin {
        txn::Origin::Round { round, consumed } => TxnOrigin::Round {
            round: match round {
                txn::Round::Batch(number) => TxnRound::Batch(*number),
                txn::Round::Call(number) => TxnRound::Call(*number),
            },
            consumed: consumed.iter().map(logged_batch).collect(),
        },
        txn::Origin::Call {
            procedure,
            number,
            key,
            received,
        } => TxnOrigin::Call(TxnCall {
            procedure: *procedure,
            number: *number,
            key: key.clone().map(|key| (key.source, key.number)),
            received: *received,
            arguments: Vec::new(),
        }),
    };
    let outcome = match &entry.outcome {
        txn::Outcome::Committed { emitted, answer } => TxnOutcome::Committed {
            changes,
            emitted: (emitted.iter().zip(messages))
                .map(|(message, statements)| TxnMessage {
                    stream: message.stream,
                    place: message.place,
                    at: message.at,
                    statements,
                })
                .collect(),
            answer: answer.clone(),
        },
        txn::Outcome::Aborted { procedure, reason } => TxnOutcome::Aborted {
            procedure: *procedure,
            reason: reason.clone(),
        },
    };
    TxnEntry { origin, outcome }
}

fn logged_batch(of: &txn::Consumed) -> TxnConsumed {
    TxnConsumed {
        procedure: of.procedure,
        stream: of.stream,
        places: match &of.places {
            txn::Places::Run { first, count } => TxnPlaces::Run {
                first: *first,
                count: *count,
            },
            txn::Places::List(places) => TxnPlaces::List(places.clone()),
        },
    }
}

/// What led to a logged transaction; `None` for what the core does not know of.
pub(crate) fn origin(of: &TxnOrigin) -> Option<txn::Origin> {
    Some(match of {
        TxnOrigin::Update => return None,
        TxnOrigin::Round { round, consumed } => txn::Origin::Round {
            round: match round {
                TxnRound::Batch(number) => txn::Round::Batch(*number),
                TxnRound::Call(number) => txn::Round::Call(*number),
            },
            consumed: consumed.iter().map(batch).collect(),
        },
        TxnOrigin::Call(call) => txn::Origin::Call {
            procedure: call.procedure,
            number: call.number,
            key: call
                .key
                .clone()
                .map(|(source, number)| txn::Key { source, number }),
            received: call.received,
        },
    })
}

/// What the log holds of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InLog {
    /// All of it.
    Whole,
    /// What led to it: recovery runs it again.
    Origin,
    /// That it ran next. What led to it follows from the entries before it, and recovery runs it
    /// again.
    Count,
}

/// Items as the log holds them.
pub(crate) fn in_log<Q: Clone>(items: &[(TxnItem<Q>, InLog)]) -> Vec<TxnItem<Q>> {
    let mut logged: Vec<TxnItem<Q>> = Vec::new();
    for (item, in_log) in items {
        match (item, in_log) {
            (TxnItem::Entry(entry), InLog::Origin) => logged.push(TxnItem::Entry(TxnEntry {
                origin: entry.origin.clone(),
                outcome: TxnOutcome::Rerun,
            })),
            (TxnItem::Entry(_), InLog::Count) => match logged.last_mut() {
                Some(TxnItem::Triggered(count)) => *count += 1,
                _ => logged.push(TxnItem::Triggered(1)),
            },
            (item, _) => logged.push(item.clone()),
        }
    }
    logged
}

/// What an item of the log tells the core; `None` if nothing.
///
/// # Errors
/// Recovery runs it again: its outcome is not in the log.
pub(crate) fn event(item: &TxnItem) -> Result<Option<txn::Event>, &'static str> {
    let entry = match item {
        TxnItem::Advance(times) => return Ok(Some(txn::Event::Advance(times.clone()))),
        TxnItem::Triggered(_) => return Err(RUNS_AGAIN),
        TxnItem::Entry(entry) => entry,
    };
    let Some(origin) = origin(&entry.origin) else {
        return Ok(None);
    };
    let outcome = match &entry.outcome {
        TxnOutcome::Committed {
            emitted, answer, ..
        } => txn::Outcome::Committed {
            emitted: (emitted.iter())
                .map(|message| txn::Emitted {
                    stream: message.stream,
                    place: message.place,
                    at: message.at,
                })
                .collect(),
            answer: answer.clone(),
        },
        TxnOutcome::Aborted { procedure, reason } => txn::Outcome::Aborted {
            procedure: *procedure,
            reason: reason.clone(),
        },
        TxnOutcome::Rerun => return Err(RUNS_AGAIN),
    };
    Ok(Some(txn::Event::Entry(txn::Entry { origin, outcome })))
}

fn batch(of: &TxnConsumed) -> txn::Consumed {
    txn::Consumed {
        procedure: of.procedure,
        stream: of.stream,
        places: match &of.places {
            TxnPlaces::Run { first, count } => txn::Places::Run {
                first: *first,
                count: *count,
            },
            TxnPlaces::List(places) => txn::Places::List(places.clone()),
        },
    }
}
