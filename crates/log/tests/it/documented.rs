//! docs/format.md shows the bytes of one record of each kind, of a segment and of a proof: here
//! they are made and compared.
//!
//! The page's blocks with the info string `hex NAME` are read. A line is bytes in hex, then two
//! spaces and an explanation.

use crate::samples::small;
use oxrdf::vocab::xsd;
use oxrdf::{
    BaseDirection, BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term, Triple,
};
use somersault_disk::SimDisk;
use somersault_log::{
    AdvanceRecord, AnswerPosition, Command, CommandRecord, DeliveredRecord, DerivedRecord,
    LoadRecord, LoadSegment, Log, LoggedMessage, MessagesRecord, PlanRecord, Position, PushRecord,
    Record, Resolved, StreamStatement, SubscriptionChange, SubscriptionRecord, TxnCall, TxnChange,
    TxnConsumed, TxnEntry, TxnItem, TxnMessage, TxnOrigin, TxnOutcome, TxnPlaces, TxnRecord,
    TxnRound, UpdateRecord,
};
use somersault_model::{EventTime, Place, ProcedureUid, QueryUid, Sn, StreamUid};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");

fn page() -> String {
    std::fs::read_to_string(PAGE).unwrap()
}

/// The bytes of each `hex` block of the page.
fn documented() -> BTreeMap<String, Vec<u8>> {
    let page = page();
    let blocks = page.split("\n```hex ").skip(1).map(|block| {
        let (name, rest) = block.split_once('\n').unwrap();
        let (body, _) = rest.split_once("\n```").unwrap();
        let shown = body.lines().map(|line| line.split("  ").next().unwrap());
        let bytes = shown.flat_map(|bytes| {
            let byte = |byte| u8::from_str_radix(byte, 16).unwrap();
            bytes.split(' ').map(byte).collect::<Vec<_>>()
        });
        (name.to_owned(), bytes.collect())
    });
    blocks.collect()
}

fn iri(iri: &str) -> NamedNode {
    NamedNode::new_unchecked(iri)
}

fn quad(predicate: &str, object: impl Into<Term>) -> Quad {
    Quad::new(
        iri("urn:ann"),
        iri(predicate),
        object,
        GraphName::DefaultGraph,
    )
}

fn push() -> Record {
    let tagged = Literal::new_language_tagged_literal_unchecked("thé", "fr");
    let mut quads = [
        quad("urn:likes", iri("urn:tea")),
        quad("urn:likes", tagged),
        quad("urn:likes", Literal::new_simple_literal("ok")),
    ];
    quads[1].graph_name = iri("urn:g").into();
    let times = [1_000, 1_005, 1_004].map(EventTime);
    let statements = times.into_iter().zip(quads);
    Record::Push(PushRecord {
        stream: "urn:likes".to_owned(),
        source: "app".to_owned(),
        seq: Some(7),
        received_ms: 1_000,
        statements: statements
            .map(|(at, quad)| StreamStatement { at, quad })
            .collect(),
    })
}

fn messages() -> Record {
    let quads = [
        ("urn:likes", "ok"),
        ("urn:likes", "no"),
        ("urn:hates", "ok"),
    ];
    let times = [1_000, 1_000, 1_005].map(EventTime);
    let statements = times
        .into_iter()
        .zip(quads)
        .map(|(at, (predicate, object))| {
            let quad = quad(predicate, Literal::new_simple_literal(object));
            StreamStatement { at, quad }
        });
    let messages = [(7, 2), (9, 1)].map(|(seq, statements)| LoggedMessage {
        seq: Some(seq),
        statements,
    });
    Record::Messages(MessagesRecord {
        stream: "urn:likes".to_owned(),
        source: "app".to_owned(),
        received_ms: 1_000,
        messages: messages.to_vec(),
        statements: statements.collect(),
    })
}

fn advance() -> Record {
    Record::Advance(AdvanceRecord {
        received_ms: 1_000,
        to: vec![("urn:likes".to_owned(), EventTime(2_000))],
    })
}

fn command(command: Command) -> Record {
    Record::Command(CommandRecord {
        received_ms: 1_000,
        command,
        resolved: Resolved {
            sn: Sn(7),
            stream: None,
            query: Some(QueryUid(3)),
            stream_times: vec![(StreamUid(1), EventTime(2_000))],
            first_close: Some(EventTime(3_000)),
            ..Resolved::default()
        },
    })
}

fn register() -> Record {
    command(Command::RegisterQuery {
        name: "q".to_owned(),
        text: "ASK {}".to_owned(),
        namespace: None,
    })
}

fn load() -> Record {
    Record::Load(LoadRecord {
        received_ms: 1_000,
        segment: LoadSegment {
            name: "load-0000000001.nq.zst".to_owned(),
            hash: std::array::from_fn(|at| at as u8),
            statements: 2,
        },
        clears: Vec::new(),
    })
}

fn clearing_load() -> Record {
    let Record::Load(mut load) = load() else {
        panic!("a load");
    };
    load.clears = vec![iri("urn:g").into(), GraphName::DefaultGraph];
    Record::Load(load)
}

fn update() -> Record {
    let age = |age| quad("urn:age", Literal::new_typed_literal(age, xsd::INTEGER));
    Record::Update(UpdateRecord {
        received_ms: 1_000,
        clears: Vec::new(),
        deletes: vec![age("41")],
        inserts: vec![age("42")],
    })
}

fn clearing_update() -> Record {
    Record::Update(UpdateRecord {
        received_ms: 1_000,
        clears: vec![iri("urn:g").into(), GraphName::DefaultGraph],
        ..UpdateRecord::default()
    })
}

fn plan(held: &[u64]) -> Record {
    Record::Plan(PlanRecord {
        sn: Sn(8),
        through: Some(EventTime(2_000)),
        log_end: Position(4),
        stream_times: vec![(StreamUid(1), EventTime(2_000))],
        held: held.iter().copied().map(QueryUid).collect(),
    })
}

fn delivered(sn: Option<Sn>) -> Record {
    Record::Delivered(DeliveredRecord {
        query: QueryUid(3),
        close: EventTime(2_000),
        sn,
    })
}

fn derived() -> Record {
    let directed =
        Literal::new_directional_language_tagged_literal_unchecked("x", "ar", BaseDirection::Rtl);
    let said = Triple::new(iri("urn:ann"), iri("urn:says"), directed);
    let mut statement = quad("urn:says", Term::Triple(Box::new(said)));
    statement.subject = NamedOrBlankNode::BlankNode(BlankNode::new_unchecked("b0"));
    Record::Derived(DerivedRecord {
        query: QueryUid(3),
        close: EventTime(2_000),
        ordinal: 0,
        revision: 1,
        received_ms: 2_010,
        statements: vec![statement],
    })
}

fn subscription() -> Record {
    Record::Subscription(SubscriptionRecord {
        received_ms: 1_000,
        query: "q".to_owned(),
        name: "bill".to_owned(),
        change: SubscriptionChange::Acknowledged(AnswerPosition {
            sn: Sn(8),
            close: EventTime(2_000),
            ordinal: 0,
            revision: 1,
        }),
    })
}

fn transactions() -> Record {
    let age = |age| quad("urn:age", Literal::new_typed_literal(age, xsd::INTEGER));
    let change = |quad, inserts| TxnChange { quad, inserts };
    let call = TxnEntry {
        origin: TxnOrigin::Call(TxnCall {
            procedure: ProcedureUid(1),
            number: 9,
            key: Some(("till".to_owned(), 4)),
            received: EventTime(1_002),
            arguments: Vec::new(),
        }),
        outcome: TxnOutcome::Committed {
            changes: vec![change(age("41"), false), change(age("42"), true)],
            emitted: Vec::new(),
            answer: b"ok".to_vec(),
        },
    };
    let round = |number, outcome| TxnEntry {
        origin: TxnOrigin::Round {
            round: TxnRound::Batch(number),
            consumed: vec![TxnConsumed {
                procedure: ProcedureUid(2),
                stream: StreamUid(1),
                places: TxnPlaces::Run {
                    first: Place(number),
                    count: 1,
                },
            }],
        },
        outcome,
    };
    let committed = TxnOutcome::Committed {
        changes: Vec::new(),
        emitted: vec![TxnMessage {
            stream: StreamUid(3),
            place: Place(5),
            at: EventTime(1_001),
            statements: vec![age("42")],
        }],
        answer: Vec::new(),
    };
    let aborted = TxnOutcome::Aborted {
        procedure: ProcedureUid(2),
        reason: "no".to_owned(),
    };
    let entries = [call, round(7, committed), round(8, aborted)];
    let mut items: Vec<TxnItem> = entries.into_iter().map(TxnItem::Entry).collect();
    items.push(TxnItem::Advance(vec![(StreamUid(3), EventTime(1_000))]));
    Record::Txn(TxnRecord {
        received_ms: 1_000,
        items,
        released: vec![(StreamUid(1), Place(9))],
    })
}

fn records() -> Vec<(&'static str, Record)> {
    vec![
        ("push", push()),
        ("advance", advance()),
        ("command", register()),
        ("load", load()),
        ("update", update()),
        ("plan", plan(&[])),
        ("delivered", delivered(None)),
        ("derived", derived()),
        ("delivered_at", delivered(Some(Sn(8)))),
        ("clearing_update", clearing_update()),
        ("clearing_load", clearing_load()),
        ("subscription", subscription()),
        ("transactions", transactions()),
        ("messages", messages()),
        ("holding_plan", plan(&[3])),
    ]
}

/// The two files of a log that holds the record of `advance` and was closed.
fn files() -> [(&'static str, Vec<u8>); 2] {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    let position = log.append(&advance()).unwrap();
    log.wait_durable(position).unwrap();
    log.close().unwrap();
    [("segment", "log-0000000001.seg"), ("proof", "log.proof")]
        .map(|(name, file)| (name, disk.bytes(file).unwrap()))
}

/// Bytes in hex, as the page shows them.
fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

#[test]
fn the_page_shows_the_bytes_of_every_kind_of_record() {
    let mut shown = documented();
    for (name, record) in records() {
        let documented = shown.remove(name).unwrap_or_default();
        assert_eq!(hex(&documented), hex(&record.to_bytes().unwrap()), "{name}");
        assert_eq!(Record::from_bytes(&documented).unwrap(), record, "{name}");
    }
    for (name, bytes) in files() {
        let documented = shown.remove(name).unwrap_or_default();
        assert_eq!(hex(&documented), hex(&bytes), "{name}");
    }
    assert!(shown.is_empty(), "not compared: {:?}", shown.keys());
}

#[test]
fn the_page_lists_every_kind_and_every_command_with_its_number() {
    let page = page();
    let has_row = |row: &str| assert!(page.contains(row), "docs/format.md has no row `{row}`");
    let mut kinds: Vec<u8> = Vec::new();
    for (name, record) in records() {
        let kind = record.to_bytes().unwrap()[0];
        kinds.push(kind);
        has_row(&format!("\n| {kind} | ["));
        assert_eq!(documented()[name][0], kind);
    }
    kinds.sort_unstable();
    // The next one belongs to no kind yet.
    assert_eq!(kinds, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    let next = Record::from_bytes(&[15]).unwrap_err().to_string();
    assert!(next.contains("newer version"), "{next}");

    let text = String::new;
    let commands = [
        ("CreateStream", create_stream()),
        ("DropStream", Command::DropStream { iri: text() }),
        ("RegisterQuery", register_query()),
        ("DropQuery", Command::DropQuery { name: text() }),
        ("PauseQuery", Command::PauseQuery { name: text() }),
        ("ResumeQuery", Command::ResumeQuery { name: text() }),
        ("RegisterQueries", register_queries()),
        ("ReplaceQuery", replace_query()),
        ("ResetStream", Command::ResetStream { iri: text() }),
        ("CreateProcedure", create_procedure()),
        ("DropProcedure", drop_procedure()),
        ("CreateDataflow", create_dataflow()),
        ("DropDataflow", Command::DropDataflow { name: text() }),
        ("PauseDataflow", Command::PauseDataflow { name: text() }),
        ("ResumeDataflow", Command::ResumeDataflow { name: text() }),
    ];
    for (expected, (name, sample)) in commands.into_iter().enumerate() {
        // The kind, a time of two bytes, then the command.
        let number = command(sample).to_bytes().unwrap()[3];
        assert_eq!(usize::from(number), expected, "{name}");
        has_row(&format!("\n| {number} | `{name}` | `"));
    }
}

fn create_stream() -> Command {
    Command::CreateStream {
        iri: String::new(),
        text: String::new(),
        namespace: None,
    }
}

fn create_procedure() -> Command {
    Command::CreateProcedure {
        name: String::new(),
        text: String::new(),
        namespace: None,
    }
}

fn drop_procedure() -> Command {
    Command::DropProcedure {
        name: String::new(),
        discard: false,
    }
}

fn create_dataflow() -> Command {
    Command::CreateDataflow {
        name: String::new(),
        text: String::new(),
        namespace: None,
    }
}

fn register_query() -> Command {
    Command::RegisterQuery {
        name: String::new(),
        text: String::new(),
        namespace: None,
    }
}

fn register_queries() -> Command {
    Command::RegisterQueries {
        pieces: Vec::new(),
        namespace: None,
        members: Vec::new(),
    }
}

fn replace_query() -> Command {
    Command::ReplaceQuery {
        name: String::new(),
        text: String::new(),
        namespace: None,
    }
}
