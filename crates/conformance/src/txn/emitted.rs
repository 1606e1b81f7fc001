//! The messages of interior streams, as the log holds them after a run.

use somersault::disk::Disk;
use somersault_log::{
    Command, Log, LogError, Position, Record, TxnItem, TxnOrigin, TxnOutcome, TxnRound,
};
use somersault_suites::EmittedMessage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The committed messages of each interior stream, by place.
#[derive(Debug, Default)]
pub(super) struct EmittedInLog {
    /// The newest stream of a name.
    uids: BTreeMap<String, u32>,
    messages: BTreeMap<(u32, u64), EmittedMessage>,
    /// The last record that was read.
    through: Option<Position>,
    /// The number of transactions of which the log does not hold what they emitted.
    unlogged: u64,
    /// What speaks against the log, or against this reading of it.
    pub(super) faults: Vec<String>,
}

impl EmittedInLog {
    /// Reads the records that the log has since the last time, on a disk that no engine has open.
    ///
    /// # Errors
    /// The log cannot be read, or some of these records have been trimmed.
    pub(super) fn read(&mut self, disk: Arc<dyn Disk>) -> Result<(), LogError> {
        let after = self.through.unwrap_or(Position::START);
        let (_log, records) = Log::read_after(disk, Arc::default(), after)?;
        for record in records {
            let (position, record) = record?;
            self.through = Some(position);
            match record {
                Record::Command(command) => {
                    if let (Command::CreateStream { iri, .. }, Some(uid)) =
                        (&command.command, command.resolved.stream)
                    {
                        self.uids.insert(iri.clone(), uid.0);
                    }
                }
                Record::Txn(record) => record.items.into_iter().for_each(|item| self.note(item)),
                _ => {}
            }
        }
        Ok(())
    }

    fn note(&mut self, item: TxnItem) {
        let entry = match item {
            TxnItem::Entry(entry) => entry,
            TxnItem::Triggered(count) => {
                self.unlogged = self.unlogged.saturating_add(count);
                return;
            }
            TxnItem::Advance(_) => return,
        };
        let round = match entry.origin {
            TxnOrigin::Round { round, .. } => match round {
                TxnRound::Batch(number) | TxnRound::Call(number) => number,
            },
            TxnOrigin::Call(call) => call.number,
            TxnOrigin::Update => 0,
        };
        let emitted = match entry.outcome {
            TxnOutcome::Committed { emitted, .. } => emitted,
            TxnOutcome::Aborted { .. } => return,
            TxnOutcome::Rerun => {
                self.unlogged += 1;
                return;
            }
        };
        for message in emitted {
            let statements = message.statements.iter().map(|quad| {
                [
                    quad.subject.to_string(),
                    quad.predicate.to_string(),
                    quad.object.to_string(),
                ]
            });
            let mut statements: Vec<[String; 3]> = statements.collect();
            statements.sort();
            let found = EmittedMessage {
                place: message.place.0,
                round,
                at_ms: message.at.0,
                statements,
            };
            let key = (message.stream.0, message.place.0);
            if let Some(before) = self.messages.insert(key, found.clone())
                && before != found
            {
                let fault = format!("message {} was {before:?}, and is {found:?}", found.place);
                self.faults.push(fault);
            }
        }
    }

    /// Why the log does not hold all that was emitted, if it does not.
    pub(super) fn why_incomplete(&self) -> Option<String> {
        (self.unlogged > 0).then(|| {
            let count = self.unlogged;
            format!("the log does not hold what {count} transactions with RECOVERY WEAK emitted")
        })
    }

    /// The messages of a stream from first to last; none if it never was.
    pub(super) fn of(&self, stream: &str) -> Vec<EmittedMessage> {
        let Some(uid) = self.uids.get(stream) else {
            return Vec::new();
        };
        let messages = self.messages.range((*uid, 0)..=(*uid, u64::MAX));
        messages.map(|(_, message)| message.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_log::TxnEntry;

    #[test]
    fn a_transaction_whose_messages_are_not_logged_is_not_passed_over() {
        let mut emitted = EmittedInLog::default();
        let mut note = |outcome| {
            emitted.note(TxnItem::Entry(TxnEntry {
                origin: TxnOrigin::Update,
                outcome,
            }));
            emitted.why_incomplete()
        };
        let committed = TxnOutcome::Committed {
            changes: Vec::new(),
            emitted: Vec::new(),
            answer: Vec::new(),
        };
        assert_eq!(note(committed), None);
        let reason = note(TxnOutcome::Rerun).expect("its messages are unknown");
        assert!(reason.contains("1 transactions"), "{reason}");
    }
}
