//! Decodes records. Strings are borrowed from the segment until the last step, where oxrdf's terms
//! own theirs.
//!
//! The checksum has been verified before, so a failure here means a bug or a hand-made file. The
//! bytes are never trusted all the same: no input may cause a panic or unbounded recursion.

use super::{
    CLEARING_LOAD_TAG, COMMAND_TAG, DELIVERED_AT_TAG, DELIVERED_TAG, LOAD_TAG, MAX_NESTING,
    NEWEST_COMMAND, NEWEST_KIND, WireAdvance, WireAnswerPosition, WireClearingLoad, WireCommand,
    WireCommandRecord, WireDerived, WireLoad, WireMessageSpan, WireMessages, WirePlan, WirePush,
    WireQuad, WireRecord, WireStatement, WireSubscription, WireSubscriptionChange,
    WireSubscriptionLimit, WireTerm, WireUpdate, transaction,
};
use crate::error::LogError;
use crate::record::{
    AdvanceRecord, AnswerPosition, Command, CommandRecord, ConsumerBegin, DeliveredRecord,
    DerivedRecord, LoadRecord, LoadSegment, LoggedMessage, MessagesRecord, PlanRecord, Position,
    PushRecord, Record, Replaced, Resolved, StreamStatement, SubscriptionChange, SubscriptionLimit,
    SubscriptionRecord, SubscriptionTerms, UpdateRecord,
};
use oxrdf::{
    BaseDirection, BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term, Triple,
};
use somersault_model::{EventTime, Place, QueryUid, Sn, StreamUid};

/// The reason why a record does not decode, as the end of a sentence.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// A newer version wrote something that this version does not know.
    Newer(String),
    /// The bytes are no record.
    Damaged(&'static str),
}

impl From<&'static str> for DecodeError {
    fn from(what: &'static str) -> DecodeError {
        DecodeError::Damaged(what)
    }
}

impl DecodeError {
    /// The error for a record at this place.
    pub(crate) fn at(self, file: String, offset: u64, record: &str) -> LogError {
        match self {
            DecodeError::Newer(what) => LogError::Newer {
                file,
                offset,
                what: format!("{record}{what}"),
            },
            DecodeError::Damaged(what) => LogError::Damaged {
                file,
                offset,
                what: format!("{record}{what}"),
            },
        }
    }
}

/// Decodes one record; all bytes must be used.
pub(crate) fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    let (wire, rest) = match postcard::take_from_bytes::<WireRecord<'_>>(bytes) {
        Ok(read) => read,
        Err(_) => {
            let newer = newer_than_this(bytes).map(DecodeError::Newer);
            return Err(newer.unwrap_or("its fields do not fit the format".into()));
        }
    };
    if !rest.is_empty() {
        return Err("it is longer than its fields".into());
    }
    Ok(match wire {
        WireRecord::Push(push) => Record::Push(self::push(push)?),
        WireRecord::Advance(advance) => Record::Advance(self::advance(advance)),
        WireRecord::Command(command) => Record::Command(command_record(command)),
        WireRecord::Load(wire) => Record::Load(load(wire, Vec::new())),
        WireRecord::ClearingLoad(wire) => {
            let clears = graphs(&TermList::new(&wire.terms)?, &wire.clears)?;
            Record::Load(load(wire.load, clears))
        }
        WireRecord::Update(wire) => Record::Update(update(wire, &[])?),
        WireRecord::ClearingUpdate(wire) => Record::Update(update(wire.update, &wire.clears)?),
        WireRecord::Plan(wire) => Record::Plan(plan(wire, Vec::new())),
        WireRecord::HoldingPlan(wire) => Record::Plan(plan(wire.plan, wire.held)),
        WireRecord::Delivered(mark) => Record::Delivered(delivered(mark.query, mark.close, None)),
        WireRecord::DeliveredAt(mark) => {
            Record::Delivered(delivered(mark.query, mark.close, Some(mark.sn)))
        }
        WireRecord::Derived(derived) => Record::Derived(self::derived(derived)?),
        WireRecord::Subscription(wire) => Record::Subscription(subscription(wire)),
        WireRecord::Txn(wire) => Record::Txn(transaction::decoded(wire)?),
        WireRecord::Messages(wire) => Record::Messages(messages(wire)?),
    })
}

fn plan(wire: WirePlan, held: Vec<u64>) -> PlanRecord {
    PlanRecord {
        sn: Sn(wire.sn),
        through: wire.through.map(EventTime),
        log_end: Position(wire.log_end),
        stream_times: stream_times(wire.stream_times),
        held: held.into_iter().map(QueryUid).collect(),
    }
}

/// The part of the record that only newer versions know, if there is one.
fn newer_than_this(bytes: &[u8]) -> Option<String> {
    let (kind, rest) = postcard::take_from_bytes::<u32>(bytes).ok()?;
    if kind > NEWEST_KIND {
        return Some(format!(
            "it is of kind {kind}, and this version knows the kinds up to {NEWEST_KIND}"
        ));
    }
    if kind != COMMAND_TAG {
        return None;
    }
    let ((_, command), _) = postcard::take_from_bytes::<(i64, u32)>(rest).ok()?;
    (command > NEWEST_COMMAND).then(|| {
        format!(
            "it is command {command}, and this version knows the commands up to {NEWEST_COMMAND}"
        )
    })
}

/// The parts of records that opening needs.
pub(crate) enum Noted {
    /// The load segment that a record names.
    LoadSegment(String),
    /// A delivery mark.
    Delivered(DeliveredRecord),
}

/// Reads the few kinds of records that opening needs, without decoding the others.
pub(crate) fn note(bytes: &[u8]) -> Option<Noted> {
    if !matches!(
        bytes.first(),
        Some(&(LOAD_TAG | CLEARING_LOAD_TAG | DELIVERED_TAG | DELIVERED_AT_TAG))
    ) {
        return None;
    }
    match postcard::from_bytes::<WireRecord<'_>>(bytes) {
        Ok(WireRecord::Load(load) | WireRecord::ClearingLoad(WireClearingLoad { load, .. })) => {
            Some(Noted::LoadSegment(load.name.to_owned()))
        }
        Ok(WireRecord::Delivered(mark)) => {
            Some(Noted::Delivered(delivered(mark.query, mark.close, None)))
        }
        Ok(WireRecord::DeliveredAt(mark)) => Some(Noted::Delivered(delivered(
            mark.query,
            mark.close,
            Some(mark.sn),
        ))),
        _ => None,
    }
}

fn delivered(query: u64, close: i64, sn: Option<u64>) -> DeliveredRecord {
    DeliveredRecord {
        query: QueryUid(query),
        close: EventTime(close),
        sn: sn.map(Sn),
    }
}

fn subscription(wire: WireSubscription<'_>) -> SubscriptionRecord {
    SubscriptionRecord {
        received_ms: wire.received_ms,
        query: wire.query.to_owned(),
        name: wire.name.to_owned(),
        change: match wire.change {
            WireSubscriptionChange::Created {
                after,
                answers,
                bytes,
                deadline_ms,
                empties,
                skips_oldest,
            } => SubscriptionChange::Created(SubscriptionTerms {
                after: answer_position(&after),
                answers,
                bytes,
                deadline_ms,
                empties,
                skips_oldest,
            }),
            WireSubscriptionChange::Acknowledged(through) => {
                SubscriptionChange::Acknowledged(answer_position(&through))
            }
            WireSubscriptionChange::Dropped => SubscriptionChange::Dropped,
            WireSubscriptionChange::LetGo {
                through,
                answers,
                why,
            } => SubscriptionChange::LetGo {
                through: answer_position(&through),
                answers,
                why: match why {
                    WireSubscriptionLimit::Answers => SubscriptionLimit::Answers,
                    WireSubscriptionLimit::Bytes => SubscriptionLimit::Bytes,
                    WireSubscriptionLimit::Deadline => SubscriptionLimit::Deadline,
                },
            },
        },
    }
}

fn answer_position(wire: &WireAnswerPosition) -> AnswerPosition {
    AnswerPosition {
        sn: Sn(wire.sn),
        close: EventTime(wire.close),
        ordinal: wire.ordinal,
        revision: wire.revision,
    }
}

fn derived(wire: WireDerived<'_>) -> Result<DerivedRecord, &'static str> {
    let terms = TermList::new(&wire.terms)?;
    Ok(DerivedRecord {
        query: QueryUid(wire.query),
        close: EventTime(wire.close),
        ordinal: wire.ordinal,
        revision: wire.revision,
        received_ms: wire.received_ms,
        statements: wire
            .statements
            .into_iter()
            .map(|quad| terms.quad(quad))
            .collect::<Result<_, _>>()?,
    })
}

fn push(wire: WirePush<'_>) -> Result<PushRecord, &'static str> {
    Ok(PushRecord {
        stream: wire.stream.to_owned(),
        source: wire.source.to_owned(),
        seq: wire.seq,
        received_ms: wire.received_ms,
        statements: timed(&wire.terms, &wire.statements)?,
    })
}

fn messages(wire: WireMessages<'_>) -> Result<MessagesRecord, &'static str> {
    let statements = timed(&wire.terms, &wire.statements)?;
    Ok(MessagesRecord {
        stream: wire.stream.to_owned(),
        source: wire.source.to_owned(),
        received_ms: wire.received_ms,
        messages: message_list(&wire.messages, &statements)?,
        statements,
    })
}

/// The messages that these statements belong to, in order.
fn message_list(
    wire: &[WireMessageSpan],
    statements: &[StreamStatement],
) -> Result<Vec<LoggedMessage>, &'static str> {
    let (mut rest, mut before) = (statements, 0_u64);
    let mut messages = Vec::with_capacity(wire.len());
    for message in wire {
        let count = message.statements as usize;
        let (own, behind) = (rest.split_at_checked(count))
            .ok_or("its messages have more statements than there are")?;
        let is_whole = own
            .iter()
            .all(|it| Some(it.at) == own.first().map(|first| first.at));
        if own.is_empty() || !is_whole {
            return Err("a message has statements of one event time, and at least one of them");
        }
        rest = behind;
        let seq = message
            .seq_later_by
            .map(|later_by| before.wrapping_add(later_by));
        before = seq.unwrap_or(before);
        messages.push(LoggedMessage {
            seq,
            statements: message.statements,
        });
    }
    match rest.is_empty() {
        true => Ok(messages),
        false => Err("its messages have fewer statements than there are"),
    }
}

/// Statements with their event times.
fn timed(
    terms: &[WireTerm<'_>],
    wire: &[WireStatement],
) -> Result<Vec<StreamStatement>, &'static str> {
    let terms = TermList::new(terms)?;
    let mut statements = Vec::with_capacity(wire.len());
    let mut at = 0_i64;
    for statement in wire {
        at = at.wrapping_add(statement.later_by);
        statements.push(StreamStatement {
            at: EventTime(at),
            quad: terms.quad(statement.quad)?,
        });
    }
    Ok(statements)
}

fn advance(wire: WireAdvance<'_>) -> AdvanceRecord {
    let to = wire
        .to
        .into_iter()
        .map(|(stream, at)| (stream.to_owned(), EventTime(at)))
        .collect();
    AdvanceRecord {
        received_ms: wire.received_ms,
        to,
    }
}

fn load(wire: WireLoad<'_>, clears: Vec<GraphName>) -> LoadRecord {
    LoadRecord {
        received_ms: wire.received_ms,
        segment: LoadSegment {
            name: wire.name.to_owned(),
            hash: wire.hash,
            statements: wire.statements,
        },
        clears,
    }
}

fn graphs(terms: &TermList, graphs: &[u32]) -> Result<Vec<GraphName>, &'static str> {
    graphs.iter().map(|graph| terms.graph(*graph)).collect()
}

fn update(wire: WireUpdate<'_>, clears: &[u32]) -> Result<UpdateRecord, &'static str> {
    let terms = TermList::new(&wire.terms)?;
    Ok(UpdateRecord {
        received_ms: wire.received_ms,
        clears: graphs(&terms, clears)?,
        deletes: wire
            .deletes
            .into_iter()
            .map(|quad| terms.quad(quad))
            .collect::<Result<_, _>>()?,
        inserts: wire
            .inserts
            .into_iter()
            .map(|quad| terms.quad(quad))
            .collect::<Result<_, _>>()?,
    })
}

/// A command about streams or queries, and the query that it replaces.
fn query_command(wire: WireCommand<'_>) -> (Command, Option<Replaced>) {
    let owned = |name: &str| name.to_owned();
    let mut replaces = None;
    let command = match wire {
        WireCommand::CreateStream {
            iri,
            text,
            namespace,
        } => Command::CreateStream {
            iri: owned(iri),
            text: owned(text),
            namespace: namespace.map(owned),
        },
        WireCommand::DropStream { iri } => Command::DropStream { iri: owned(iri) },
        WireCommand::ResetStream { iri } => Command::ResetStream { iri: owned(iri) },
        WireCommand::RegisterQuery {
            name,
            text,
            namespace,
        } => Command::RegisterQuery {
            name: owned(name),
            text: owned(text),
            namespace: namespace.map(owned),
        },
        WireCommand::ReplaceQuery {
            name,
            text,
            namespace,
            replaced,
        } => {
            replaces = replaced.map(|(query, after)| Replaced {
                query: QueryUid(query),
                after: EventTime(after),
            });
            Command::ReplaceQuery {
                name: owned(name),
                text: owned(text),
                namespace: namespace.map(owned),
            }
        }
        WireCommand::DropQuery { name } => Command::DropQuery { name: owned(name) },
        WireCommand::PauseQuery { name } => Command::PauseQuery { name: owned(name) },
        WireCommand::ResumeQuery { name } => Command::ResumeQuery { name: owned(name) },
        WireCommand::RegisterQueries {
            pieces,
            namespace,
            members,
        } => Command::RegisterQueries {
            pieces: pieces.into_iter().map(owned).collect(),
            namespace: namespace.map(owned),
            members: members
                .into_iter()
                .map(|(name, words)| (owned(name), words.into_iter().map(owned).collect()))
                .collect(),
        },
        WireCommand::CreateProcedure { .. }
        | WireCommand::DropProcedure { .. }
        | WireCommand::CreateDataflow { .. }
        | WireCommand::DropDataflow { .. }
        | WireCommand::PauseDataflow { .. }
        | WireCommand::ResumeDataflow { .. } => unreachable!("these are declarations"),
    };
    (command, replaces)
}

/// A command about procedures or dataflows, and where streams stand that it consumes; `None` if it
/// is another one.
fn declaration(wire: &WireCommand<'_>) -> Option<(Command, Vec<ConsumerBegin>)> {
    let owned = |name: &str| name.to_owned();
    let mut begins = Vec::new();
    let command = match wire {
        WireCommand::CreateProcedure {
            name,
            text,
            namespace,
            begins: wire,
        } => {
            begins = wire.iter().copied().map(begin).collect();
            Command::CreateProcedure {
                name: owned(name),
                text: owned(text),
                namespace: namespace.map(owned),
            }
        }
        WireCommand::DropProcedure { name, discard } => Command::DropProcedure {
            name: owned(name),
            discard: *discard,
        },
        WireCommand::CreateDataflow {
            name,
            text,
            namespace,
        } => Command::CreateDataflow {
            name: owned(name),
            text: owned(text),
            namespace: namespace.map(owned),
        },
        WireCommand::DropDataflow { name } => Command::DropDataflow { name: owned(name) },
        WireCommand::PauseDataflow { name } => Command::PauseDataflow { name: owned(name) },
        WireCommand::ResumeDataflow { name } => Command::ResumeDataflow { name: owned(name) },
        _ => return None,
    };
    Some((command, begins))
}

fn command_record(wire: WireCommandRecord<'_>) -> CommandRecord {
    let (command, replaces, begins) = match declaration(&wire.command) {
        Some((command, begins)) => (command, None, begins),
        None => {
            let (command, replaces) = query_command(wire.command);
            (command, replaces, Vec::new())
        }
    };
    let resolved = wire.resolved;
    CommandRecord {
        received_ms: wire.received_ms,
        command,
        resolved: Resolved {
            sn: Sn(resolved.sn),
            stream: resolved.stream.map(StreamUid),
            query: resolved.query.map(QueryUid),
            stream_times: stream_times(resolved.stream_times),
            first_close: resolved.first_close.map(EventTime),
            replaced: replaces,
            begins,
        },
    }
}

fn begin((stream, next, through): (u32, u64, i64)) -> ConsumerBegin {
    ConsumerBegin {
        stream: StreamUid(stream),
        next: Place(next),
        through: EventTime(through),
    }
}

fn stream_times(wire: Vec<(u32, i64)>) -> Vec<(StreamUid, EventTime)> {
    wire.into_iter()
        .map(|(uid, at)| (StreamUid(uid), EventTime(at)))
        .collect()
}

const NO_TERM: &str = "it refers to a term that it does not hold";
const WRONG_TERM: &str = "it has a term in a place where such a term cannot stand";

/// The terms of one record, ready to be cloned into its statements.
pub(super) struct TermList(Vec<Term>);

impl TermList {
    pub(super) fn new(wire: &[WireTerm<'_>]) -> Result<TermList, &'static str> {
        let mut terms = TermList(Vec::with_capacity(wire.len()));
        let mut nesting: Vec<u8> = Vec::new();
        for (at, term) in wire.iter().enumerate() {
            let term = match *term {
                WireTerm::Iri(iri) => NamedNode::new_unchecked(iri).into(),
                WireTerm::Blank(label) => BlankNode::new_unchecked(label).into(),
                WireTerm::String(value) => Literal::new_simple_literal(value).into(),
                WireTerm::Typed { value, datatype } => {
                    Literal::new_typed_literal(value, terms.named(datatype)?).into()
                }
                WireTerm::Tagged { value, language } => {
                    Literal::new_language_tagged_literal_unchecked(value, language).into()
                }
                WireTerm::Directed {
                    value,
                    language,
                    right_to_left,
                } => {
                    let direction = if right_to_left {
                        BaseDirection::Rtl
                    } else {
                        BaseDirection::Ltr
                    };
                    Literal::new_directional_language_tagged_literal_unchecked(
                        value, language, direction,
                    )
                    .into()
                }
                WireTerm::Triple {
                    subject,
                    predicate,
                    object,
                } => {
                    // Triple terms are rare: the list of depths begins with the first of them.
                    let depth = nesting.get(object as usize).copied().unwrap_or(0) + 1;
                    if usize::from(depth) > MAX_NESTING {
                        return Err("a triple term is nested too deeply");
                    }
                    nesting.resize(at, 0);
                    nesting.push(depth);
                    let triple = Triple {
                        subject: terms.subject(subject)?,
                        predicate: terms.named(predicate)?,
                        object: terms.get(object)?.clone(),
                    };
                    triple.into()
                }
            };
            terms.0.push(term);
        }
        Ok(terms)
    }

    pub(super) fn get(&self, at: u32) -> Result<&Term, &'static str> {
        self.0.get(at as usize).ok_or(NO_TERM)
    }

    fn named(&self, at: u32) -> Result<NamedNode, &'static str> {
        match self.get(at)? {
            Term::NamedNode(name) => Ok(name.clone()),
            _ => Err(WRONG_TERM),
        }
    }

    fn subject(&self, at: u32) -> Result<NamedOrBlankNode, &'static str> {
        match self.get(at)? {
            Term::NamedNode(name) => Ok(name.clone().into()),
            Term::BlankNode(name) => Ok(name.clone().into()),
            _ => Err(WRONG_TERM),
        }
    }

    fn graph(&self, graph: u32) -> Result<GraphName, &'static str> {
        Ok(match graph.checked_sub(1) {
            None => GraphName::DefaultGraph,
            Some(at) => self.subject(at)?.into(),
        })
    }

    pub(super) fn quad(&self, wire: WireQuad) -> Result<Quad, &'static str> {
        let graph_name = self.graph(wire.graph)?;
        Ok(Quad {
            subject: self.subject(wire.subject)?,
            predicate: self.named(wire.predicate)?,
            object: self.get(wire.object)?.clone(),
            graph_name,
        })
    }
}
