//! Encodes records. This runs under the log's lock for every push, so it allocates only two lists
//! per record: strings are borrowed from the record, and the table that finds repeated terms is
//! kept from record to record.

use super::statements::{EncodedStatements, PushBody, PushForm};
use super::transaction::TxnBody;
use super::{
    MAX_NESTING, MESSAGES_TAG, PUSH_TAG, WireAdvance, WireAnswerPosition, WireClearingLoad,
    WireClearingUpdate, WireCommand, WireCommandRecord, WireDelivered, WireDeliveredAt,
    WireDerived, WireHoldingPlan, WireLoad, WireMessageSpan, WireMessages, WirePlan, WirePush,
    WireQuad, WireRecord, WireResolved, WireStatement, WireSubscription, WireSubscriptionChange,
    WireSubscriptionLimit, WireTerm, WireUpdate, transaction,
};
use crate::error::LogError;
use crate::record::{
    AnswerPosition, Command, CommandRecord, DeliveredRecord, DerivedRecord, LoadRecord,
    LoggedMessage, MessagesRecord, PlanRecord, PushRecord, Record, StreamStatement,
    SubscriptionChange, SubscriptionLimit, SubscriptionRecord, SubscriptionTerms, UpdateRecord,
};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use oxrdf::vocab::xsd;
use oxrdf::{BaseDirection, GraphName, LiteralRef, NamedOrBlankNodeRef, Quad, TermRef};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

/// Why a record cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncodeError {
    /// A triple term is nested too deeply.
    Nesting,
    /// More than 2^32 different terms, or another limit of the format.
    Size,
}

impl From<EncodeError> for LogError {
    fn from(error: EncodeError) -> LogError {
        let what = match error {
            EncodeError::Nesting => format!(
                "a triple term is nested more than {MAX_NESTING} deep; name the inner ones with IRIs"
            ),
            EncodeError::Size => {
                "one record would be larger than 4 GiB; split it into smaller ones".to_owned()
            }
        };
        LogError::Unwritable { what }
    }
}

/// Encodes records; holds what can be reused between them.
#[derive(Default)]
pub(crate) struct Encoder {
    /// Indexes into the table of terms of the current record.
    index: HashTable<u32>,
}

impl Encoder {
    /// Appends the encoded record to `out`; after an error `out` may have grown.
    pub(crate) fn encode<P: PushBody, C: AsRef<CommandRecord>, T: TxnBody>(
        &mut self,
        record: &Record<P, C, T>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let wire = match record {
            Record::Push(push) => match push.statements.form() {
                PushForm::Terms(list) => WireRecord::Push(self.push(push, list)?),
                PushForm::Encoded(encoded) => return encoded_push(push, encoded, out),
            },
            Record::Messages(record) => match record.statements.form() {
                PushForm::Terms(list) => WireRecord::Messages(self.messages(record, list)?),
                PushForm::Encoded(encoded) => return encoded_messages(record, encoded, out),
            },
            Record::Advance(advance) => WireRecord::Advance(WireAdvance {
                received_ms: advance.received_ms,
                to: advance
                    .to
                    .iter()
                    .map(|(stream, to)| (stream.as_str(), to.0))
                    .collect(),
            }),
            Record::Command(command) => WireRecord::Command(command_record(command.as_ref())),
            Record::Load(load) => self.load(load)?,
            Record::Update(update) => self.update(update)?,
            Record::Plan(plan) => plan_record(plan),
            Record::Delivered(delivered) => delivered_record(delivered),
            Record::Derived(derived) => WireRecord::Derived(self.derived(derived)?),
            Record::Subscription(record) => WireRecord::Subscription(subscription(record)),
            Record::Txn(txn) => WireRecord::Txn(transaction::encoded(txn.form(), &mut self.index)?),
        };
        postcard::serialize_with_flavor(&wire, Appender(out)).map_err(|_| EncodeError::Size)
    }

    fn push<'a, P>(
        &mut self,
        push: &'a PushRecord<P>,
        list: &'a [StreamStatement],
    ) -> Result<WirePush<'a>, EncodeError> {
        let (terms, statements) = self.timed(list)?;
        Ok(WirePush {
            stream: &push.stream,
            source: &push.source,
            seq: push.seq,
            received_ms: push.received_ms,
            terms,
            statements,
        })
    }

    fn messages<'a, P>(
        &mut self,
        record: &'a MessagesRecord<P>,
        list: &'a [StreamStatement],
    ) -> Result<WireMessages<'a>, EncodeError> {
        let (terms, statements) = self.timed(list)?;
        Ok(WireMessages {
            stream: &record.stream,
            source: &record.source,
            received_ms: record.received_ms,
            messages: messages(&record.messages),
            terms,
            statements,
        })
    }

    /// The terms of statements with event times, and the statements.
    fn timed<'a>(
        &mut self,
        list: &'a [StreamStatement],
    ) -> Result<(Vec<WireTerm<'a>>, Vec<WireStatement>), EncodeError> {
        let mut terms = TermTable::new(&mut self.index, list.len());
        let mut statements = Vec::with_capacity(list.len());
        let mut before = 0_i64;
        for statement in list {
            let quad = terms.quad(&statement.quad)?;
            statements.push(WireStatement {
                later_by: statement.at.0.wrapping_sub(before),
                quad,
            });
            before = statement.at.0;
        }
        Ok((terms.list, statements))
    }

    fn derived<'a>(&mut self, derived: &'a DerivedRecord) -> Result<WireDerived<'a>, EncodeError> {
        let mut terms = TermTable::new(&mut self.index, derived.statements.len());
        let statements = derived
            .statements
            .iter()
            .map(|quad| terms.quad(quad))
            .collect::<Result<_, _>>()?;
        Ok(WireDerived {
            query: derived.query.0,
            close: derived.close.0,
            ordinal: derived.ordinal,
            revision: derived.revision,
            received_ms: derived.received_ms,
            terms: terms.list,
            statements,
        })
    }

    fn load<'a>(&mut self, load: &'a LoadRecord) -> Result<WireRecord<'a>, EncodeError> {
        let mut terms = TermTable::new(&mut self.index, load.clears.len());
        let clears: Vec<u32> = load
            .clears
            .iter()
            .map(|graph| terms.graph(graph))
            .collect::<Result<_, _>>()?;
        let terms = terms.list;
        let load = WireLoad {
            received_ms: load.received_ms,
            name: &load.segment.name,
            hash: load.segment.hash,
            statements: load.segment.statements,
        };
        Ok(if clears.is_empty() {
            WireRecord::Load(load)
        } else {
            WireRecord::ClearingLoad(WireClearingLoad {
                load,
                terms,
                clears,
            })
        })
    }

    fn update<'a>(&mut self, update: &'a UpdateRecord) -> Result<WireRecord<'a>, EncodeError> {
        let mut terms =
            TermTable::new(&mut self.index, update.deletes.len() + update.inserts.len());
        let deletes = update
            .deletes
            .iter()
            .map(|quad| terms.quad(quad))
            .collect::<Result<_, _>>()?;
        let inserts = update
            .inserts
            .iter()
            .map(|quad| terms.quad(quad))
            .collect::<Result<_, _>>()?;
        let clears: Vec<u32> = update
            .clears
            .iter()
            .map(|graph| terms.graph(graph))
            .collect::<Result<_, _>>()?;
        let update = WireUpdate {
            received_ms: update.received_ms,
            terms: terms.list,
            deletes,
            inserts,
        };
        Ok(if clears.is_empty() {
            WireRecord::Update(update)
        } else {
            WireRecord::ClearingUpdate(WireClearingUpdate { update, clears })
        })
    }
}

fn plan_record(plan: &PlanRecord) -> WireRecord<'_> {
    let times = plan.stream_times.iter();
    let wire = WirePlan {
        sn: plan.sn.0,
        through: plan.through.map(|time| time.0),
        log_end: plan.log_end.0,
        stream_times: times.map(|(uid, at)| (uid.0, at.0)).collect(),
    };
    if plan.held.is_empty() {
        return WireRecord::Plan(wire);
    }
    WireRecord::HoldingPlan(WireHoldingPlan {
        plan: wire,
        held: plan.held.iter().map(|query| query.0).collect(),
    })
}

fn delivered_record(delivered: &DeliveredRecord) -> WireRecord<'_> {
    let (query, close) = (delivered.query.0, delivered.close.0);
    match delivered.sn {
        None => WireRecord::Delivered(WireDelivered { query, close }),
        Some(sn) => WireRecord::DeliveredAt(WireDeliveredAt {
            query,
            close,
            sn: sn.0,
        }),
    }
}

fn subscription(record: &SubscriptionRecord) -> WireSubscription<'_> {
    WireSubscription {
        received_ms: record.received_ms,
        query: &record.query,
        name: &record.name,
        change: match record.change {
            SubscriptionChange::Created(SubscriptionTerms {
                after,
                answers,
                bytes,
                deadline_ms,
                empties,
                skips_oldest,
            }) => WireSubscriptionChange::Created {
                after: answer_position(after),
                answers,
                bytes,
                deadline_ms,
                empties,
                skips_oldest,
            },
            SubscriptionChange::Acknowledged(through) => {
                WireSubscriptionChange::Acknowledged(answer_position(through))
            }
            SubscriptionChange::Dropped => WireSubscriptionChange::Dropped,
            SubscriptionChange::LetGo {
                through,
                answers,
                why,
            } => WireSubscriptionChange::LetGo {
                through: answer_position(through),
                answers,
                why: match why {
                    SubscriptionLimit::Answers => WireSubscriptionLimit::Answers,
                    SubscriptionLimit::Bytes => WireSubscriptionLimit::Bytes,
                    SubscriptionLimit::Deadline => WireSubscriptionLimit::Deadline,
                },
            },
        },
    }
}

fn answer_position(position: AnswerPosition) -> WireAnswerPosition {
    WireAnswerPosition {
        sn: position.sn.0,
        close: position.close.0,
        ordinal: position.ordinal,
        revision: position.revision,
    }
}

/// A push whose statements were encoded when they were read.
fn encoded_push<P>(
    push: &PushRecord<P>,
    encoded: &EncodedStatements,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let head = (
        PUSH_TAG,
        push.stream.as_str(),
        push.source.as_str(),
        push.seq,
        push.received_ms,
    );
    postcard::serialize_with_flavor(&head, Appender(out)).map_err(|_| EncodeError::Size)?;
    encoded.append_to(out)
}

fn encoded_messages<P>(
    record: &MessagesRecord<P>,
    encoded: &EncodedStatements,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let head = (
        MESSAGES_TAG,
        record.stream.as_str(),
        record.source.as_str(),
        record.received_ms,
        messages(&record.messages),
    );
    postcard::serialize_with_flavor(&head, Appender(out)).map_err(|_| EncodeError::Size)?;
    encoded.append_to(out)
}

fn messages(list: &[LoggedMessage]) -> Vec<WireMessageSpan> {
    let mut before = 0_u64;
    let messages = list.iter().map(|message| WireMessageSpan {
        seq_later_by: message.seq.map(|seq| {
            let later_by = seq.wrapping_sub(before);
            before = seq;
            later_by
        }),
        statements: message.statements,
    });
    messages.collect()
}

fn borrowed(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// A command about streams or queries.
fn query_command(record: &CommandRecord) -> WireCommand<'_> {
    match &record.command {
        Command::CreateStream {
            iri,
            text,
            namespace,
        } => WireCommand::CreateStream {
            iri,
            text,
            namespace: namespace.as_deref(),
        },
        Command::DropStream { iri } => WireCommand::DropStream { iri },
        Command::ResetStream { iri } => WireCommand::ResetStream { iri },
        Command::RegisterQuery {
            name,
            text,
            namespace,
        } => WireCommand::RegisterQuery {
            name,
            text,
            namespace: namespace.as_deref(),
        },
        Command::ReplaceQuery {
            name,
            text,
            namespace,
        } => WireCommand::ReplaceQuery {
            name,
            text,
            namespace: namespace.as_deref(),
            replaced: (record.resolved.replaced).map(|it| (it.query.0, it.after.0)),
        },
        Command::DropQuery { name } => WireCommand::DropQuery { name },
        Command::PauseQuery { name } => WireCommand::PauseQuery { name },
        Command::ResumeQuery { name } => WireCommand::ResumeQuery { name },
        Command::RegisterQueries {
            pieces,
            namespace,
            members,
        } => WireCommand::RegisterQueries {
            pieces: borrowed(pieces),
            namespace: namespace.as_deref(),
            members: members
                .iter()
                .map(|(name, words)| (name.as_str(), borrowed(words)))
                .collect(),
        },
        Command::CreateProcedure { .. }
        | Command::DropProcedure { .. }
        | Command::CreateDataflow { .. }
        | Command::DropDataflow { .. }
        | Command::PauseDataflow { .. }
        | Command::ResumeDataflow { .. } => unreachable!("these are declarations"),
    }
}

/// A command about procedures or dataflows; `None` if it is another one.
fn declaration(record: &CommandRecord) -> Option<WireCommand<'_>> {
    Some(match &record.command {
        Command::CreateProcedure {
            name,
            text,
            namespace,
        } => WireCommand::CreateProcedure {
            name,
            text,
            namespace: namespace.as_deref(),
            begins: (record.resolved.begins.iter())
                .map(|it| (it.stream.0, it.next.0, it.through.0))
                .collect(),
        },
        Command::DropProcedure { name, discard } => WireCommand::DropProcedure {
            name,
            discard: *discard,
        },
        Command::CreateDataflow {
            name,
            text,
            namespace,
        } => WireCommand::CreateDataflow {
            name,
            text,
            namespace: namespace.as_deref(),
        },
        Command::DropDataflow { name } => WireCommand::DropDataflow { name },
        Command::PauseDataflow { name } => WireCommand::PauseDataflow { name },
        Command::ResumeDataflow { name } => WireCommand::ResumeDataflow { name },
        _ => return None,
    })
}

fn command_record(record: &CommandRecord) -> WireCommandRecord<'_> {
    let command = declaration(record).unwrap_or_else(|| query_command(record));
    let resolved = &record.resolved;
    WireCommandRecord {
        received_ms: record.received_ms,
        command,
        resolved: WireResolved {
            sn: resolved.sn.0,
            stream: resolved.stream.map(|uid| uid.0),
            query: resolved.query.map(|uid| uid.0),
            stream_times: resolved
                .stream_times
                .iter()
                .map(|(uid, at)| (uid.0, at.0))
                .collect(),
            first_close: resolved.first_close.map(|time| time.0),
        },
    }
}

/// The table of terms of one record while it is being made.
pub(super) struct TermTable<'a, 'i> {
    list: Vec<WireTerm<'a>>,
    index: &'i mut HashTable<u32>,
}

impl<'a, 'i> TermTable<'a, 'i> {
    pub(super) fn new(index: &'i mut HashTable<u32>, statements: usize) -> TermTable<'a, 'i> {
        index.clear();
        // Streams of this kind have about one new subject or object per statement.
        TermTable {
            list: Vec::with_capacity(statements + 8),
            index,
        }
    }

    /// The terms, in the order in which they were first named.
    pub(super) fn into_list(self) -> Vec<WireTerm<'a>> {
        self.list
    }

    /// The number of a graph in a [`WireQuad`].
    fn graph(&mut self, graph: &'a GraphName) -> Result<u32, EncodeError> {
        let name = match graph {
            GraphName::DefaultGraph => return Ok(0),
            GraphName::NamedNode(name) => WireTerm::Iri(name.as_str()),
            GraphName::BlankNode(name) => WireTerm::Blank(name.as_str()),
        };
        Ok(self.add(name)?.saturating_add(1))
    }

    pub(super) fn quad(&mut self, quad: &'a Quad) -> Result<WireQuad, EncodeError> {
        let graph = self.graph(&quad.graph_name)?;
        Ok(WireQuad {
            subject: self.subject(quad.subject.as_ref())?,
            predicate: self.add(WireTerm::Iri(quad.predicate.as_str()))?,
            object: self.term(quad.object.as_ref(), 0)?,
            graph,
        })
    }

    fn subject(&mut self, subject: NamedOrBlankNodeRef<'a>) -> Result<u32, EncodeError> {
        self.add(match subject {
            NamedOrBlankNodeRef::NamedNode(name) => WireTerm::Iri(name.as_str()),
            NamedOrBlankNodeRef::BlankNode(name) => WireTerm::Blank(name.as_str()),
        })
    }

    pub(super) fn term(&mut self, term: TermRef<'a>, nesting: usize) -> Result<u32, EncodeError> {
        match term {
            TermRef::NamedNode(name) => self.add(WireTerm::Iri(name.as_str())),
            TermRef::BlankNode(name) => self.add(WireTerm::Blank(name.as_str())),
            TermRef::Literal(literal) => self.literal(literal),
            TermRef::Triple(triple) => {
                if nesting == MAX_NESTING {
                    return Err(EncodeError::Nesting);
                }
                let subject = self.subject(triple.subject.as_ref())?;
                let predicate = self.add(WireTerm::Iri(triple.predicate.as_str()))?;
                let object = self.term(triple.object.as_ref(), nesting + 1)?;
                self.add(WireTerm::Triple {
                    subject,
                    predicate,
                    object,
                })
            }
        }
    }

    fn literal(&mut self, literal: LiteralRef<'a>) -> Result<u32, EncodeError> {
        let term = wire_literal(literal, |datatype| self.add(WireTerm::Iri(datatype)))?;
        self.add(term)
    }

    fn add(&mut self, term: WireTerm<'a>) -> Result<u32, EncodeError> {
        let list = &mut self.list;
        let hash = FxBuildHasher.hash_one(term);
        let entry = self.index.entry(
            hash,
            |&at| list[at as usize] == term,
            |&at| FxBuildHasher.hash_one(list[at as usize]),
        );
        match entry {
            Entry::Occupied(found) => Ok(*found.get()),
            Entry::Vacant(free) => {
                // u32::MAX itself is not used: a graph's number is its index plus 1.
                let at = u32::try_from(list.len()).ok().filter(|&at| at < u32::MAX);
                let at = at.ok_or(EncodeError::Size)?;
                free.insert(at);
                list.push(term);
                Ok(at)
            }
        }
    }
}

/// A literal as an entry of the table of terms; `place_of` returns the index of a datatype.
pub(super) fn wire_literal<'t>(
    literal: LiteralRef<'t>,
    place_of: impl FnOnce(&'t str) -> Result<u32, EncodeError>,
) -> Result<WireTerm<'t>, EncodeError> {
    let value = literal.value();
    Ok(match (literal.language(), literal.direction()) {
        (Some(language), Some(direction)) => WireTerm::Directed {
            value,
            language,
            right_to_left: direction == BaseDirection::Rtl,
        },
        (Some(language), None) => WireTerm::Tagged { value, language },
        (None, _) if literal.datatype() == xsd::STRING => WireTerm::String(value),
        (None, _) => WireTerm::Typed {
            value,
            datatype: place_of(literal.datatype().as_str())?,
        },
    })
}

/// Lets postcard write at the end of a buffer that is already in use.
pub(super) struct Appender<'a>(pub(super) &'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Appender<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
