//! Transactions of a record: with terms, as the log returns them, or with ids for this run, as
//! those that run hand them over.
//!
//! Before changing anything here: ids stay in memory. What the log writes of either form is the
//! same.

use oxrdf::Term;
use somersault_log::{StatementTerms, TxnBody, TxnEntry, TxnForm, TxnItem, TxnOutcome, TxnRecord};
use somersault_model::{QuadIds, TermId};

/// The transactions of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedTransactions {
    /// With statements of terms.
    Terms(TxnRecord),
    /// With statements of ids; the log never returns these.
    Numbered(NumberedTransactions),
}

/// Transactions whose statements are ids.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedTransactions {
    pub(crate) record: TxnRecord<QuadIds>,
    /// `None` for a log that keeps nothing.
    terms: Option<StatementTerms>,
}

impl NumberedTransactions {
    /// Transactions for a log that keeps nothing.
    pub fn unwritten(record: TxnRecord<QuadIds>) -> NumberedTransactions {
        NumberedTransactions {
            record,
            terms: None,
        }
    }

    /// Transactions that a log can write. `term` returns the term of an id; it is asked once for
    /// each.
    pub fn written(
        record: TxnRecord<QuadIds>,
        term: impl Fn(TermId) -> Term,
    ) -> NumberedTransactions {
        NumberedTransactions {
            terms: Some(StatementTerms::of(&record, term)),
            record,
        }
    }
}

impl RecordedTransactions {
    /// When the record was made, in milliseconds since the Unix epoch.
    pub fn received_ms(&self) -> i64 {
        match self {
            RecordedTransactions::Terms(record) => record.received_ms,
            RecordedTransactions::Numbered(numbered) => numbered.record.received_ms,
        }
    }

    /// The statements that it holds: changed ones, and those of emitted messages.
    pub fn statements(&self) -> usize {
        match self {
            RecordedTransactions::Terms(record) => statements_of(record),
            RecordedTransactions::Numbered(numbered) => statements_of(&numbered.record),
        }
    }
}

fn statements_of<Q>(record: &TxnRecord<Q>) -> usize {
    let of_item = |item: &TxnItem<Q>| match item {
        TxnItem::Entry(TxnEntry {
            outcome: TxnOutcome::Committed {
                changes, emitted, ..
            },
            ..
        }) => changes.len() + emitted.iter().map(|it| it.statements.len()).sum::<usize>(),
        _ => 0,
    };
    record.items.iter().map(of_item).sum()
}

impl TxnBody for RecordedTransactions {
    fn form(&self) -> TxnForm<'_> {
        match self {
            RecordedTransactions::Terms(record) => TxnForm::Terms(record),
            RecordedTransactions::Numbered(numbered) => TxnForm::Ids(
                &numbered.record,
                (numbered.terms.as_ref())
                    .expect("only for a log that keeps nothing are there no terms"),
            ),
        }
    }
}

impl From<TxnRecord> for RecordedTransactions {
    fn from(record: TxnRecord) -> RecordedTransactions {
        RecordedTransactions::Terms(record)
    }
}
