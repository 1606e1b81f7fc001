//! Records that the tests write: one of every kind with every kind of term, and small numbered
//! ones.

use oxrdf::vocab::xsd;
use oxrdf::{
    BaseDirection, BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term, Triple,
};
use somersault_disk::{CrashKeep, Disk, SimDisk};
use somersault_log::{
    AdvanceRecord, AnswerPosition, Command, CommandRecord, DeliveredRecord, DerivedRecord,
    EncodedStatements, LoadRecord, LoadSegment, Log, LogError, LogOptions, LoggedMessage,
    MessagesRecord, PlanRecord, Position, PushRecord, Record, Recovered, Replaced, Resolved,
    StatementEncoder, StreamStatement, SubscriptionChange, SubscriptionLimit, SubscriptionRecord,
    SubscriptionTerms, UpdateRecord,
};
use somersault_model::{EventTime, QueryUid, Sn, StreamUid};
use std::sync::Arc;
use std::time::Duration;

pub fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://example.org/{name}"))
}

pub fn quad(subject: &str, object: impl Into<Term>) -> Quad {
    Quad::new(iri(subject), iri("p"), object, GraphName::DefaultGraph)
}

pub fn number_of(subject: &str, number: i64) -> Quad {
    quad(subject, Literal::from(number))
}

/// A push with this number, unlike all others.
pub fn push(number: u64) -> Record {
    Record::Push(PushRecord {
        stream: "http://example.org/stream".to_owned(),
        source: "test".to_owned(),
        seq: Some(number),
        received_ms: 1_700_000_000_000,
        statements: (0..number % 4)
            .map(|n| StreamStatement {
                at: EventTime(number as i64),
                quad: quad(&format!("s{number}"), Literal::from(n as i64)),
            })
            .collect(),
    })
}

pub fn all_terms() -> Vec<Quad> {
    let blank = BlankNode::new_unchecked("b0");
    let inner = Triple::new(
        blank.clone(),
        iri("p"),
        Literal::new_simple_literal("inner"),
    );
    let outer = Triple::new(iri("s"), iri("q"), Term::Triple(Box::new(inner)));
    let literals = [
        Literal::new_simple_literal(""),
        Literal::new_simple_literal("a \"quoted\"\nline \u{1F600}"),
        Literal::new_typed_literal("01", xsd::INTEGER),
        Literal::new_typed_literal("not a number", iri("datatype")),
        Literal::new_language_tagged_literal_unchecked("chat", "fr"),
        Literal::new_directional_language_tagged_literal_unchecked("x", "ar", BaseDirection::Rtl),
        Literal::new_directional_language_tagged_literal_unchecked("x", "en", BaseDirection::Ltr),
    ];
    let mut objects: Vec<Term> = literals.into_iter().map(Term::from).collect();
    objects.extend([
        blank.clone().into(),
        iri("o").into(),
        Term::Triple(Box::new(outer)),
    ]);
    let mut quads: Vec<Quad> = objects
        .into_iter()
        .map(|object| quad("s", object))
        .collect();
    quads[0].graph_name = iri("g").into();
    quads[1].graph_name = blank.clone().into();
    quads[2].subject = NamedOrBlankNode::BlankNode(blank);
    quads
}

fn command(command: Command) -> Record {
    Record::Command(CommandRecord {
        received_ms: -1,
        command,
        resolved: Resolved {
            sn: Sn(7),
            stream: Some(StreamUid(3)),
            query: None,
            stream_times: vec![(StreamUid(3), EventTime(-5)), (StreamUid(4), EventTime(5))],
            first_close: Some(EventTime(1_000)),
            ..Resolved::default()
        },
    })
}

/// One record of every kind. `segment` is a load segment that exists.
pub fn every_kind(segment: LoadSegment) -> Vec<Record> {
    let text = "CREATE STREAM s BATCH 100ms".to_owned();
    let times = [0, 5, 5, 3, i64::MIN, i64::MAX, -1, 0, 1, 2].map(EventTime);
    let statements = times.into_iter().zip(all_terms());
    let name = || "q1".to_owned();
    let commands = [
        Command::CreateStream {
            iri: "http://example.org/s".to_owned(),
            text,
            namespace: None,
        },
        Command::RegisterQuery {
            name: name(),
            text: "SELECT * FROM s [RANGE 1s TUMBLING] WHERE { ?s p ?o }".to_owned(),
            namespace: Some("http://example.org/".to_owned()),
        },
        Command::PauseQuery { name: name() },
        Command::ResumeQuery { name: name() },
        Command::DropQuery { name: name() },
        Command::DropStream {
            iri: "http://example.org/s".to_owned(),
        },
    ];
    let mut records = vec![
        Record::Push(PushRecord {
            stream: "http://example.org/s".to_owned(),
            source: String::new(),
            seq: None,
            received_ms: i64::MAX,
            statements: statements
                .map(|(at, quad)| StreamStatement { at, quad })
                .collect(),
        }),
        Record::Advance(AdvanceRecord {
            received_ms: 12,
            to: vec![("http://example.org/s".to_owned(), EventTime(100))],
        }),
        Record::Load(LoadRecord {
            received_ms: 13,
            segment,
            clears: Vec::new(),
        }),
        Record::Update(UpdateRecord {
            clears: Vec::new(),
            received_ms: 14,
            deletes: all_terms(),
            inserts: all_terms().into_iter().rev().collect(),
        }),
        Record::Plan(PlanRecord {
            sn: Sn(u64::MAX),
            through: None,
            log_end: Position(4),
            stream_times: vec![(StreamUid(1), EventTime(100))],
            held: Vec::new(),
        }),
        Record::Plan(PlanRecord {
            sn: Sn(1),
            through: Some(EventTime(200)),
            log_end: Position(5),
            stream_times: Vec::new(),
            held: Vec::new(),
        }),
        Record::Delivered(DeliveredRecord {
            query: QueryUid(1),
            close: EventTime(200),
            sn: None,
        }),
    ];
    records.extend(commands.map(command));
    records
}

/// The statements encoded before their record is made.
pub fn encoded(statements: &[StreamStatement], one_time: Option<i64>) -> EncodedStatements {
    let mut terms: Vec<Term> = Vec::new();
    let mut mark = |term: Term| {
        let at = terms.iter().position(|known| *known == term);
        let at = at.unwrap_or_else(|| {
            terms.push(term);
            terms.len() - 1
        });
        at as u64 + 100
    };
    let mut encoder = StatementEncoder::new(statements.len());
    for StreamStatement { at, quad } in statements {
        let marks = [
            mark(quad.subject.clone().into()),
            mark(quad.predicate.clone().into()),
            mark(quad.object.clone()),
            match &quad.graph_name {
                GraphName::DefaultGraph => 0,
                GraphName::NamedNode(name) => mark(name.clone().into()),
                GraphName::BlankNode(name) => mark(name.clone().into()),
            },
        ];
        encoder.add(*at, quad.as_ref(), marks).unwrap();
    }
    let encoded = encoder.finish();
    match one_time {
        Some(at) => encoded.at_one_time(EventTime(at)),
        None => encoded,
    }
}

/// A push with every kind of term.
pub fn push_of_all_terms() -> Record {
    let times = [5, 5, 3, -1, 0, 1, 2, 7, 8, 9].map(EventTime);
    let statements = times.into_iter().zip(all_terms());
    Record::Push(PushRecord {
        stream: "http://example.org/s".to_owned(),
        source: "a source".to_owned(),
        seq: Some(u64::MAX),
        received_ms: -1,
        statements: statements
            .map(|(at, quad)| StreamStatement { at, quad })
            .collect(),
    })
}

/// The command that was added after the fixture `v1-replace` was written.
pub fn reset_command() -> Vec<Record> {
    vec![command(Command::ResetStream {
        iri: "http://example.org/s".to_owned(),
    })]
}

/// The kind that was added after the fixture `v2` was written.
pub fn kind_of_subscriptions() -> Vec<Record> {
    let after = AnswerPosition {
        sn: Sn(7),
        close: EventTime(-200),
        ordinal: 2,
        revision: 1,
    };
    let terms = SubscriptionTerms {
        after: AnswerPosition::through(Sn(7)),
        answers: 10_000,
        bytes: 1 << 40,
        deadline_ms: Some(30_000),
        empties: true,
        skips_oldest: false,
    };
    let let_go = |why| SubscriptionChange::LetGo {
        through: after,
        answers: 3,
        why,
    };
    let changes = [
        SubscriptionChange::Created(terms),
        SubscriptionChange::Acknowledged(after),
        let_go(SubscriptionLimit::Answers),
        let_go(SubscriptionLimit::Bytes),
        let_go(SubscriptionLimit::Deadline),
        SubscriptionChange::Dropped,
    ];
    let records = changes.map(|change| {
        Record::Subscription(SubscriptionRecord {
            received_ms: 1_700_000_000_000,
            query: "q1".to_owned(),
            name: "bill\u{e9}".to_owned(),
            change,
        })
    });
    records.to_vec()
}

/// Plans, some of which hold live queries back.
pub fn kind_that_holds() -> Vec<Record> {
    let plan = |sn: u64, through: Option<i64>, held: &[u64]| {
        Record::Plan(PlanRecord {
            sn: Sn(sn),
            through: through.map(EventTime),
            log_end: Position(sn + 1),
            stream_times: vec![(StreamUid(1), EventTime(-100))],
            held: held.iter().copied().map(QueryUid).collect(),
        })
    };
    vec![
        plan(1, None, &[7]),
        plan(2, Some(-5), &[3, u64::MAX]),
        plan(3, Some(5), &[]),
    ]
}

/// The kind that was added after the fixture `v2-subscriptions` was written: messages of one
/// statement and of several, with numbers that leave gaps, and without numbers.
pub fn kind_of_messages() -> Vec<Record> {
    let lengths = [1, 4, 3, 2];
    let times = [5, -7, -7, 9];
    let at = lengths
        .iter()
        .zip(times)
        .flat_map(|(length, at)| vec![at; *length]);
    let statements = at.zip(all_terms()).map(|(at, quad)| StreamStatement {
        at: EventTime(at),
        quad,
    });
    let statements: Vec<StreamStatement> = statements.collect();
    let with_numbers = |numbers: [Option<u64>; 4]| {
        let messages = numbers.into_iter().zip(lengths);
        Record::Messages(MessagesRecord {
            stream: "http://example.org/s".to_owned(),
            source: "a source".to_owned(),
            received_ms: -1,
            messages: messages
                .map(|(seq, length)| LoggedMessage {
                    seq,
                    statements: length as u32,
                })
                .collect(),
            statements: statements.clone(),
        })
    };
    vec![
        with_numbers([7, 8, 10, u64::MAX].map(Some)),
        with_numbers([None; 4]),
    ]
}

/// The kinds of records and commands that were added after the fixture of version 1 was written.
pub fn kinds_since_version_1() -> Vec<Record> {
    vec![
        Record::Derived(DerivedRecord {
            query: QueryUid(3),
            close: EventTime(-200),
            ordinal: 2,
            revision: 1,
            received_ms: 1_700_000_000_000,
            statements: all_terms(),
        }),
        Record::Delivered(DeliveredRecord {
            query: QueryUid(1),
            close: EventTime(200),
            sn: Some(Sn(7)),
        }),
        command(Command::RegisterQueries {
            pieces: ["REGISTER QUERY ", " AS ASK { ?x <p> ", " }"]
                .map(str::to_owned)
                .to_vec(),
            namespace: Some("http://example.org/".to_owned()),
            members: [("a", "1"), ("b", "'a word'")]
                .map(|(name, word)| (name.to_owned(), vec![name.to_owned(), word.to_owned()]))
                .to_vec(),
        }),
    ]
}

/// The command that was added after the fixture `v1-added` was written.
pub fn kinds_added_last() -> Vec<Record> {
    let replace = Command::ReplaceQuery {
        name: "q1".to_owned(),
        text: "SELECT * FROM s [RANGE 2s TUMBLING] WHERE { ?s p ?o }".to_owned(),
        namespace: Some("http://example.org/".to_owned()),
    };
    let [Record::Command(mut replaced), other] = [command(replace.clone()), command(replace)]
    else {
        unreachable!("a command makes a command's record")
    };
    replaced.resolved.query = Some(QueryUid(4));
    replaced.resolved.replaced = Some(Replaced {
        query: QueryUid(3),
        after: EventTime(i64::MIN),
    });
    vec![Record::Command(replaced), other]
}

/// Small segments, so that short tests roll; no idle witnesses, so that they are repeatable.
pub fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 400,
        idle_witness: Duration::from_secs(3_600),
        ..LogOptions::default()
    }
}

/// The bytes of a segment up to the zeros at its end, which groups are to be written over, and some
/// of these: a frame may end with a few zeros itself.
pub fn with_few_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    bytes.resize(end.map_or(0, |last| last + 1) + 20, 0);
    bytes
}

pub fn open(disk: &(impl Disk + Clone)) -> Result<(Log, Recovered), LogError> {
    Log::open(Arc::new(disk.clone()), small())
}

/// Opens, reads every record and checks that their positions are dense.
pub fn records_of(disk: &(impl Disk + Clone)) -> Result<Vec<Record>, LogError> {
    let (_log, recovered) = open(disk)?;
    let mut records = Vec::new();
    for item in recovered {
        let (position, record) = item?;
        records.push(record);
        assert_eq!(position, Position(records.len() as u64));
    }
    Ok(records)
}

/// A disk with a log of `groups` groups of `each` pushes, closed in order or killed.
pub fn written(groups: u64, each: u64, closed: bool) -> SimDisk {
    written_on(SimDisk::new(), groups, each, closed)
}

/// This empty disk with such a log.
pub fn written_on(disk: SimDisk, groups: u64, each: u64, closed: bool) -> SimDisk {
    let (log, _) = open(&disk).unwrap();
    for group in 0..groups {
        let first = group * each;
        let records = (first..first + each).map(push);
        let last = records.map(|record| log.append(&record).unwrap()).last();
        log.wait_durable(last.unwrap()).unwrap();
    }
    if closed {
        log.close().unwrap();
        disk
    } else {
        disk.crash(CrashKeep::Written)
    }
}

/// Every file with its bytes.
pub fn contents(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.names().into_iter();
    names
        .map(|name| {
            let bytes = disk.bytes(&name).unwrap();
            (name, bytes)
        })
        .collect()
}

/// An update that empties graphs, and one like it that changes statements only.
pub(crate) fn kind_that_clears() -> Vec<Record> {
    let graph = GraphName::from(NamedNode::new_unchecked("http://example.org/large"));
    let blank = GraphName::from(BlankNode::new_unchecked("g"));
    let clearing = UpdateRecord {
        received_ms: 31,
        clears: vec![graph, GraphName::DefaultGraph, blank],
        deletes: all_terms(),
        inserts: all_terms().into_iter().rev().collect(),
    };
    let without = UpdateRecord {
        clears: Vec::new(),
        ..clearing.clone()
    };
    vec![Record::Update(clearing), Record::Update(without)]
}

/// The kind that came with loads that empty graphs.
pub(crate) fn load_that_clears(segment: LoadSegment) -> Vec<Record> {
    let graph = GraphName::from(NamedNode::new_unchecked("http://example.org/large"));
    let blank = GraphName::from(BlankNode::new_unchecked("g"));
    let clearing = LoadRecord {
        received_ms: 41,
        segment,
        clears: vec![graph, GraphName::DefaultGraph, blank],
    };
    let without = LoadRecord {
        clears: Vec::new(),
        ..clearing.clone()
    };
    vec![Record::Load(clearing), Record::Load(without)]
}
