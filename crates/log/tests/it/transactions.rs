//! Records of transactions: any of them comes back from its bytes, those of a fixture do, and a
//! transfer between two accounts takes few bytes.

use crate::samples::{all_terms, iri, small};
use oxrdf::vocab::xsd;
use oxrdf::{GraphName, Literal, NamedNode, Quad, Term};
use proptest::prelude::*;
use somersault_disk::{RealDisk, SimDisk};
use somersault_log::{
    Command, CommandRecord, ConsumerBegin, Log, Record, Resolved, StatementTerms, StreamStatement,
    TxnBody, TxnCall, TxnChange, TxnConsumed, TxnEntry, TxnForm, TxnItem, TxnMessage, TxnOrigin,
    TxnOutcome, TxnPlaces, TxnRecord, TxnRound,
};
use somersault_model::{EventTime, Place, ProcedureUid, QuadIds, Sn, StreamUid, TermId};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Some statements, so that parts of them repeat.
fn quads() -> impl Strategy<Value = Vec<Quad>> {
    let quad = (0..3_u8, 0..3_u8, any::<prop::sample::Index>(), 0..3_u8);
    let quad = quad.prop_map(|(subject, predicate, object, graph)| {
        let terms = all_terms();
        Quad {
            subject: iri(&format!("s{subject}")).into(),
            predicate: iri(&format!("p{predicate}")),
            object: object.get(&terms).object.clone(),
            graph_name: match graph {
                0 => GraphName::DefaultGraph,
                graph => iri(&format!("g{graph}")).into(),
            },
        }
    });
    prop::collection::vec(quad, 0..6)
}

fn places() -> impl Strategy<Value = TxnPlaces> {
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(first, count)| TxnPlaces::Run {
            first: Place(first),
            count
        }),
        prop::collection::vec(any::<u64>().prop_map(Place), 0..4).prop_map(TxnPlaces::List),
    ]
}

prop_compose! {
    fn consumed()(procedure in any::<u32>(), stream in any::<u32>(), places in places()) -> TxnConsumed {
        TxnConsumed { procedure: ProcedureUid(procedure), stream: StreamUid(stream), places }
    }
}

fn origin() -> impl Strategy<Value = TxnOrigin> {
    let round = (
        any::<(bool, u64)>(),
        prop::collection::vec(consumed(), 0..3),
    );
    let round = round.prop_map(|((is_call, number), consumed)| TxnOrigin::Round {
        round: match is_call {
            true => TxnRound::Call(number),
            false => TxnRound::Batch(number),
        },
        consumed,
    });
    let call = (
        any::<(u32, u64, i64)>(),
        prop::option::of((".{0,5}", any::<u64>())),
        quads(),
    );
    let call = call.prop_map(|((procedure, number, received), key, arguments)| {
        TxnOrigin::Call(TxnCall {
            procedure: ProcedureUid(procedure),
            number,
            key,
            received: EventTime(received),
            arguments: arguments.into_iter().map(|quad| quad.object).collect(),
        })
    });
    prop_oneof![round, call, Just(TxnOrigin::Update)]
}

prop_compose! {
    fn message()(stream in any::<u32>(), place in any::<u64>(), at in any::<i64>(), statements in quads()) -> TxnMessage {
        TxnMessage { stream: StreamUid(stream), place: Place(place), at: EventTime(at), statements }
    }
}

fn outcome() -> impl Strategy<Value = TxnOutcome> {
    let changes =
        (quads(), prop::collection::vec(any::<bool>(), 6)).prop_map(|(quads, inserts)| {
            let changes = quads.into_iter().zip(inserts);
            changes
                .map(|(quad, inserts)| TxnChange { quad, inserts })
                .collect()
        });
    let committed = (
        changes,
        prop::collection::vec(message(), 0..3),
        prop::collection::vec(any::<u8>(), 0..5),
    );
    prop_oneof![
        4 => committed.prop_map(|(changes, emitted, answer)| TxnOutcome::Committed { changes, emitted, answer }),
        1 => (any::<u32>(), ".{0,9}").prop_map(|(uid, reason)| TxnOutcome::Aborted { procedure: ProcedureUid(uid), reason }),
        1 => Just(TxnOutcome::Rerun),
    ]
}

fn times() -> impl Strategy<Value = Vec<(StreamUid, EventTime)>> {
    let time = any::<(u32, i64)>().prop_map(|(uid, at)| (StreamUid(uid), EventTime(at)));
    prop::collection::vec(time, 0..3)
}

fn item() -> impl Strategy<Value = TxnItem> {
    prop_oneof![
        5 => (origin(), outcome()).prop_map(|(origin, outcome)| TxnItem::Entry(TxnEntry { origin, outcome })),
        1 => times().prop_map(TxnItem::Advance),
        1 => any::<u64>().prop_map(TxnItem::Triggered),
    ]
}

prop_compose! {
    fn record()(
        received_ms in any::<i64>(), items in prop::collection::vec(item(), 0..8), released in times(),
    ) -> Record {
        let released = released.into_iter();
        let released = released.map(|(uid, at)| (uid, Place(at.0 as u64))).collect();
        Record::Txn(TxnRecord { received_ms, items, released })
    }
}

/// Numbers the terms of statements as a process does in memory.
#[derive(Default)]
struct Numbering {
    ids: HashMap<Term, TermId>,
    terms: HashMap<TermId, Term>,
}

impl Numbering {
    fn id(&mut self, term: Term) -> TermId {
        // Not in the order of the terms: what is written must not depend on ids.
        let next = TermId::from_raw(1_000 - self.ids.len() as u64);
        let id = *self.ids.entry(term.clone()).or_insert(next);
        self.terms.insert(id, term);
        id
    }

    fn quad(&mut self, quad: &Quad) -> QuadIds {
        QuadIds {
            graph: match quad.graph_name.clone() {
                GraphName::DefaultGraph => TermId::DEFAULT_GRAPH,
                GraphName::NamedNode(name) => self.id(name.into()),
                GraphName::BlankNode(node) => self.id(node.into()),
            },
            subject: self.id(quad.subject.clone().into()),
            predicate: self.id(quad.predicate.clone().into()),
            object: self.id(quad.object.clone()),
        }
    }

    fn item(&mut self, item: &TxnItem) -> TxnItem<QuadIds> {
        let entry = match item {
            TxnItem::Advance(times) => return TxnItem::Advance(times.clone()),
            TxnItem::Triggered(count) => return TxnItem::Triggered(*count),
            TxnItem::Entry(entry) => entry,
        };
        let outcome = match entry.outcome.clone() {
            TxnOutcome::Committed {
                changes,
                emitted,
                answer,
            } => TxnOutcome::Committed {
                changes: (changes.iter())
                    .map(|change| TxnChange {
                        quad: self.quad(&change.quad),
                        inserts: change.inserts,
                    })
                    .collect(),
                emitted: (emitted.iter())
                    .map(|message| TxnMessage {
                        stream: message.stream,
                        place: message.place,
                        at: message.at,
                        statements: (message.statements.iter())
                            .map(|statement| self.quad(statement))
                            .collect(),
                    })
                    .collect(),
                answer,
            },
            TxnOutcome::Aborted { procedure, reason } => TxnOutcome::Aborted { procedure, reason },
            TxnOutcome::Rerun => TxnOutcome::Rerun,
        };
        TxnItem::Entry(TxnEntry {
            origin: entry.origin.clone(),
            outcome,
        })
    }
}

/// Transactions with ids in their statements.
struct Numbered(TxnRecord<QuadIds>, StatementTerms);

impl TxnBody for Numbered {
    fn form(&self) -> TxnForm<'_> {
        TxnForm::Ids(&self.0, &self.1)
    }
}

proptest! {
    #[test]
    fn ids_are_written_as_their_terms(record in record()) {
        let Record::Txn(transactions) = &record else { unreachable!() };
        let mut numbering = Numbering::default();
        let numbered = TxnRecord {
            received_ms: transactions.received_ms,
            items: transactions.items.iter().map(|item| numbering.item(item)).collect(),
            released: transactions.released.clone(),
        };
        let numbered: Record<Vec<StreamStatement>, CommandRecord, Numbered> =
            Record::Txn({
                let terms = StatementTerms::of(&numbered, |id| numbering.terms[&id].clone());
                Numbered(numbered, terms)
            });
        prop_assert_eq!(numbered.to_bytes().unwrap(), record.to_bytes().unwrap());
    }

    #[test]
    fn any_transactions_read_back(record in record()) {
        let bytes = record.to_bytes().unwrap();
        prop_assert_eq!(Record::from_bytes(&bytes).unwrap(), record);
    }

    #[test]
    fn transactions_with_other_bytes_in_them(
        record in record(), at in any::<prop::sample::Index>(), bytes in any::<[u8; 3]>(),
    ) {
        let mut whole = record.to_bytes().unwrap();
        let at = at.index(whole.len());
        let end = whole.len().min(at + 3);
        whole[at..end].copy_from_slice(&bytes[..end - at]);
        if let Ok(read) = Record::from_bytes(&whole) {
            let again = read.to_bytes().unwrap();
            prop_assert_eq!(Record::from_bytes(&again).unwrap(), read);
        }
    }
}

/// The kind and the commands that were added with transactions, with every kind of term.
fn kinds_of_transactions() -> Vec<Record> {
    let change = |(number, quad)| TxnChange {
        quad,
        inserts: number % 2 == 0,
    };
    let changes: Vec<TxnChange> = all_terms().into_iter().enumerate().map(change).collect();
    let arguments: Vec<Term> = all_terms().into_iter().map(|quad| quad.object).collect();
    let call = TxnOrigin::Call(TxnCall {
        procedure: ProcedureUid(1),
        number: 300,
        key: Some(("till".to_owned(), u64::MAX)),
        received: EventTime(i64::MIN),
        arguments,
    });
    let consumed = |places| TxnConsumed {
        procedure: ProcedureUid(2),
        stream: StreamUid(5),
        places,
    };
    let run = TxnPlaces::Run {
        first: Place(7),
        count: 2,
    };
    let list = TxnPlaces::List(vec![Place(3), Place(5), Place(300)]);
    let round = |round| TxnOrigin::Round {
        round,
        consumed: vec![consumed(run.clone()), consumed(list.clone())],
    };
    let message = |place, at| TxnMessage {
        stream: StreamUid(6),
        place: Place(place),
        at: EventTime(at),
        statements: all_terms(),
    };
    let committed = |changes, emitted, answer: &[u8]| TxnOutcome::Committed {
        changes,
        emitted,
        answer: answer.to_vec(),
    };
    let aborted = TxnOutcome::Aborted {
        procedure: ProcedureUid(2),
        reason: "no".to_owned(),
    };
    let entries = [
        (call, committed(changes.clone(), Vec::new(), b"answer")),
        (
            round(TxnRound::Batch(4)),
            committed(changes, vec![message(1, 5), message(2, i64::MAX)], b""),
        ),
        (round(TxnRound::Call(300)), aborted),
        (round(TxnRound::Batch(5)), TxnOutcome::Rerun),
        (TxnOrigin::Update, committed(Vec::new(), Vec::new(), b"")),
    ];
    let entries = entries.map(|(origin, outcome)| TxnItem::Entry(TxnEntry { origin, outcome }));
    let mut items = entries.to_vec();
    items.push(TxnItem::Advance(vec![(StreamUid(6), EventTime(-1))]));
    let record = TxnRecord {
        received_ms: 1_700_000_000_000,
        items,
        released: vec![(StreamUid(5), Place(9))],
    };
    let mut records = vec![Record::Txn(record), Record::Txn(TxnRecord::default())];
    let name = || "pay".to_owned();
    let commands = [
        Command::CreateProcedure {
            name: name(),
            text: "CREATE PROCEDURE pay ON STREAM <urn:s> BATCH (1 MESSAGE) AS { }".to_owned(),
            namespace: Some("urn:".to_owned()),
        },
        Command::CreateDataflow {
            name: name(),
            text: "CREATE DATAFLOW pay { pay }".to_owned(),
            namespace: None,
        },
        Command::PauseDataflow { name: name() },
        Command::ResumeDataflow { name: name() },
        Command::DropDataflow { name: name() },
        Command::DropProcedure {
            name: name(),
            discard: true,
        },
    ];
    for command in commands {
        let begins = match command {
            Command::CreateProcedure { .. } => vec![ConsumerBegin {
                stream: StreamUid(5),
                next: Place(8),
                through: EventTime(-5),
            }],
            _ => Vec::new(),
        };
        records.push(Record::Command(CommandRecord {
            received_ms: -1,
            command,
            resolved: Resolved {
                sn: Sn(7),
                begins,
                ..Resolved::default()
            },
        }));
    }
    records
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v2-transactions")
}

#[test]
fn transactions_of_the_fixture_read_back() {
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(fixture()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        disk.plant(&name, std::fs::read(entry.path()).unwrap());
    }
    let (_log, recovered) = Log::open(Arc::new(disk), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kinds_of_transactions());
}

#[test]
#[ignore = "writes the fixture of transactions"]
fn write_fixture() {
    let folder = fixture();
    std::fs::create_dir_all(&folder).unwrap();
    let (log, recovered) = Log::open(Arc::new(RealDisk::new(&folder).unwrap()), small()).unwrap();
    assert!(recovered.is_empty(), "existing fixtures never change");
    for record in kinds_of_transactions() {
        let position = log.append(&record).unwrap();
        log.wait_durable(position).unwrap();
    }
    log.close().unwrap();
    for name in ["LOCK", "log.reserve"] {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
}

/// A transfer: the balances of two accounts change, and the call has a key.
fn transfer(number: u64, accounts: [u64; 2]) -> TxnItem {
    let balance = |account: u64, amount: u64| {
        Quad::new(
            NamedNode::new_unchecked(format!("http://example.org/account/{account}")),
            NamedNode::new_unchecked("http://example.org/balance"),
            Literal::new_typed_literal(amount.to_string(), xsd::INTEGER),
            NamedNode::new_unchecked("http://example.org/accounts"),
        )
    };
    let changes = accounts
        .into_iter()
        .zip([-10, 10])
        .flat_map(|(account, by)| {
            let before = 1_000 + (number * 7 + account) % 9_000;
            let changed = before.wrapping_add_signed(by);
            [(before, false), (changed, true)].map(|(amount, inserts)| TxnChange {
                quad: balance(account, amount),
                inserts,
            })
        });
    TxnItem::Entry(TxnEntry {
        origin: TxnOrigin::Call(TxnCall {
            procedure: ProcedureUid(1),
            number: 100_000 + number,
            key: Some(("till".to_owned(), 100_000 + number)),
            received: EventTime(1_700_000_000_000 + number as i64 / 50),
            arguments: Vec::new(),
        }),
        outcome: TxnOutcome::Committed {
            changes: changes.collect(),
            emitted: Vec::new(),
            answer: Vec::new(),
        },
    })
}

#[test]
fn a_transfer_takes_at_most_150_bytes() {
    for transfers in [1_u64, 10, 100, 1_000] {
        let of = |number: u64| {
            transfer(
                number,
                [number * 7_919 % 100_000, number * 104_729 % 100_000],
            )
        };
        let record: Record = Record::Txn(TxnRecord {
            received_ms: 1_700_000_000_000,
            items: (1..=transfers).map(of).collect(),
            released: Vec::new(),
        });
        let bytes = record.to_bytes().unwrap().len() as u64;
        println!(
            "{transfers} transfers in a record: {} bytes each",
            bytes / transfers
        );
        assert!(transfers < 10 || bytes / transfers <= 150);
    }
}
