//! Statements of pushes and messages that were parsed where they came in: as ids for this run, and
//! encoded for the log.
//!
//! Before changing anything here: the encoded bytes come from the statements' terms, and hold no
//! id. Ids only tell repeated terms apart while the bytes are made, and stay in memory.

use super::command::ParsedCommand;
use super::transactions::RecordedTransactions;
use oxrdf::{Quad, QuadRef, Term};
use somersault_log::{
    EncodedStatements, LogError, PushBody, PushForm, StatementEncoder, StreamStatement,
};
use somersault_model::{EventTime, Lease, QuadIds, TermId};

/// A record with the statements of a push and transactions in the form that this process has them
/// in, and with what the text of a command says.
pub type Record = somersault_log::Record<PushStatements, ParsedCommand, RecordedTransactions>;

/// When the input of a record was received; `None` for what follows from earlier records.
pub fn received_ms(record: &Record) -> Option<i64> {
    match record {
        Record::Push(push) => Some(push.received_ms),
        Record::Messages(record) => Some(record.received_ms),
        Record::Advance(advance) => Some(advance.received_ms),
        Record::Command(command) => Some(command.record().received_ms),
        Record::Load(load) => Some(load.received_ms),
        Record::Update(update) => Some(update.received_ms),
        Record::Derived(derived) => Some(derived.received_ms),
        Record::Txn(transactions) => Some(transactions.received_ms()),
        Record::Plan(_) | Record::Delivered(_) | Record::Subscription(_) => None,
    }
}

/// The statements of a push, in order of arrival.
#[derive(Clone, Debug, PartialEq)]
pub enum PushStatements {
    /// As terms, as the log returns them.
    Terms(Vec<StreamStatement>),
    /// Parsed and numbered; the log never returns these.
    Numbered(Numbered),
}

/// Statements as ids, and encoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbered {
    statements: Vec<NumberedStatement>,
    scoped: Vec<Term>,
    /// `None` for a log that keeps nothing.
    encoded: Option<EncodedStatements>,
    /// The lease that keeps the terms that only timing statements mention; `None` if there are
    /// none.
    lease: Option<Lease>,
}

/// A statement as ids. A query-local id stands for the term of `Numbered::scoped` at that index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedStatement {
    /// Its event time.
    pub at: EventTime,
    /// The statement.
    pub quad: QuadIds,
}

/// A statement, as terms or as ids.
#[derive(Clone, Copy, Debug)]
pub enum PushedQuad<'p> {
    /// As terms.
    Terms(&'p Quad),
    /// As ids.
    Ids(QuadIds),
}

impl PushStatements {
    /// The number of statements.
    pub fn len(&self) -> usize {
        match self {
            PushStatements::Terms(statements) => statements.len(),
            PushStatements::Numbered(numbered) => numbered.statements.len(),
        }
    }

    /// Whether there are no statements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The statements with their event times.
    pub fn iter(&self) -> impl Iterator<Item = (EventTime, PushedQuad<'_>)> {
        let (terms, numbered) = match self {
            PushStatements::Terms(statements) => (&statements[..], &[][..]),
            PushStatements::Numbered(numbered) => (&[][..], &numbered.statements[..]),
        };
        let terms = terms.iter().map(|s| (s.at, PushedQuad::Terms(&s.quad)));
        terms.chain(numbered.iter().map(|s| (s.at, PushedQuad::Ids(s.quad))))
    }

    /// The lease that keeps the terms of numbered timing statements.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            PushStatements::Terms(_) => None,
            PushStatements::Numbered(numbered) => numbered.lease.as_ref(),
        }
    }

    /// The terms that have no id yet, because their names depend on the push's position in the log:
    /// its blank nodes, and triple terms, which may hold some.
    pub fn scoped(&self) -> &[Term] {
        match self {
            PushStatements::Terms(_) => &[],
            PushStatements::Numbered(numbered) => &numbered.scoped,
        }
    }
}

impl PushStatements {
    /// Memory of the statements, estimated.
    pub fn bytes(&self) -> usize {
        match self {
            PushStatements::Terms(statements) => size_of_val(&statements[..]),
            PushStatements::Numbered(numbered) => numbered.bytes(),
        }
    }

    /// Gives all statements this event time.
    pub(crate) fn set_time(&mut self, at: EventTime) {
        match self {
            PushStatements::Terms(statements) => {
                statements
                    .iter_mut()
                    .for_each(|statement| statement.at = at);
            }
            PushStatements::Numbered(numbered) => numbered.set_time(at),
        }
    }

    /// The statements for which `keeps` says so; it has an entry for each.
    #[must_use]
    pub(crate) fn only(self, keeps: &[bool]) -> PushStatements {
        if keeps.iter().all(|keep| *keep) {
            return self;
        }
        let mut marks = keeps.iter().copied();
        let mut is_kept = || marks.next().unwrap_or_default();
        match self {
            PushStatements::Terms(mut statements) => {
                statements.retain(|_| is_kept());
                PushStatements::Terms(statements)
            }
            PushStatements::Numbered(mut numbered) => {
                numbered.statements.retain(|_| is_kept());
                let encoded = numbered.encoded.as_ref();
                numbered.encoded = encoded.map(|it| it.only(|index| keeps[index]));
                PushStatements::Numbered(numbered)
            }
        }
    }
}

impl PushBody for PushStatements {
    fn form(&self) -> PushForm<'_> {
        match self {
            PushStatements::Terms(statements) => PushForm::Terms(statements),
            PushStatements::Numbered(numbered) => PushForm::Encoded(
                (numbered.encoded.as_ref())
                    .expect("only for a log that keeps nothing is a push not encoded"),
            ),
        }
    }
}

impl From<Vec<StreamStatement>> for PushStatements {
    fn from(statements: Vec<StreamStatement>) -> PushStatements {
        PushStatements::Terms(statements)
    }
}

impl Numbered {
    /// Memory of the statements, estimated: text in `scoped` terms does not count.
    pub fn bytes(&self) -> usize {
        let encoded = self.encoded.as_ref();
        size_of_val(&self.statements[..])
            + size_of_val(&self.scoped[..])
            + encoded.map_or(0, EncodedStatements::byte_len)
    }

    /// The statements, in order of arrival.
    pub fn statements(&self) -> &[NumberedStatement] {
        &self.statements
    }

    /// Gives all statements this event time.
    pub fn set_time(&mut self, at: EventTime) {
        for statement in &mut self.statements {
            statement.at = at;
        }
        if let Some(encoded) = &mut self.encoded {
            *encoded = encoded.at_one_time(at);
        }
    }
}

/// Collects the statements of a push as they are read.
#[derive(Debug)]
pub struct NumberedBuilder {
    numbered: Numbered,
    encoder: Option<StatementEncoder>,
}

impl NumberedBuilder {
    /// A builder with capacity for `statements`. Unless they are `encoded`, no log can write them.
    pub fn new(statements: usize, encoded: bool) -> NumberedBuilder {
        let numbered = Numbered {
            statements: Vec::with_capacity(statements),
            ..Numbered::default()
        };
        let encoder = encoded.then(|| StatementEncoder::new(statements));
        NumberedBuilder { numbered, encoder }
    }

    /// The statements come with this lease.
    pub fn with_lease(mut self, lease: Option<Lease>) -> NumberedBuilder {
        self.numbered.lease = lease;
        self
    }

    /// Adds a term that has no id yet; a query-local id of its index stands for it.
    pub fn add_scoped(&mut self, term: Term) -> usize {
        self.numbered.scoped.push(term);
        self.numbered.scoped.len() - 1
    }

    /// Adds a statement. Equal ids mean equal terms.
    ///
    /// # Errors
    /// [`LogError::Unwritable`]: no log could write it.
    pub fn add(
        &mut self,
        at: EventTime,
        terms: QuadRef<'_>,
        quad: QuadIds,
    ) -> Result<(), LogError> {
        if let Some(encoder) = &mut self.encoder {
            let QuadIds {
                graph,
                subject,
                predicate,
                object,
            } = quad;
            let marks = [subject, predicate, object, graph].map(TermId::raw);
            encoder.add(at, terms, marks)?;
        }
        self.numbered
            .statements
            .push(NumberedStatement { at, quad });
        Ok(())
    }

    /// The statements.
    pub fn finish(self) -> Numbered {
        Numbered {
            encoded: self.encoder.map(StatementEncoder::finish),
            ..self.numbered
        }
    }
}
