//! Any record comes back from its bytes, and any bytes are refused or read, never trusted.

use crate::samples::{
    contents, encoded, every_kind, kind_of_messages, kinds_added_last, kinds_since_version_1, open,
    small, written,
};
use oxrdf::vocab::xsd;
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term, Triple};
use proptest::prelude::*;
use somersault_disk::SimDisk;
use somersault_log::{
    EncodedStatements, LoadSegment, Log, LogError, LoggedMessage, MessagesRecord, Position,
    PushRecord, Record, StreamStatement,
};
use somersault_model::EventTime;
use std::sync::Arc;

fn named() -> impl Strategy<Value = NamedNode> {
    "[a-z]{1,3}".prop_map(|name| NamedNode::new_unchecked(format!("http://example.org/{name}")))
}

fn blank() -> impl Strategy<Value = BlankNode> {
    "[a-z0-9]{1,3}".prop_map(BlankNode::new_unchecked)
}

fn subject() -> impl Strategy<Value = NamedOrBlankNode> {
    prop_oneof![named().prop_map(Into::into), blank().prop_map(Into::into)]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<String>().prop_map(Literal::new_simple_literal),
        any::<i64>().prop_map(Literal::from),
        (".{0,3}", named())
            .prop_map(|(value, datatype)| Literal::new_typed_literal(value, datatype)),
        ".{0,3}".prop_map(|value| Literal::new_typed_literal(value, xsd::STRING)),
        ".{0,3}".prop_map(|value| Literal::new_language_tagged_literal_unchecked(value, "de-at")),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        subject().prop_map(Into::into),
        literal().prop_map(Into::into)
    ];
    leaf.prop_recursive(4, 8, 1, |inner| {
        (subject(), named(), inner).prop_map(|(subject, predicate, object)| {
            Term::Triple(Box::new(Triple {
                subject,
                predicate,
                object,
            }))
        })
    })
}

fn graph() -> impl Strategy<Value = GraphName> {
    prop_oneof![
        Just(GraphName::DefaultGraph),
        subject().prop_map(Into::into)
    ]
}

prop_compose! {
    fn statement()(
        subject in subject(), predicate in named(), object in term(), graph_name in graph(), at in any::<i64>(),
    ) -> StreamStatement {
        StreamStatement { at: EventTime(at), quad: Quad { subject, predicate, object, graph_name } }
    }
}

proptest! {
    #[test]
    fn any_push_reads_back(
        statements in prop::collection::vec(statement(), 0..30),
        (stream, source) in (".*", ".*"),
        seq in any::<Option<u64>>(),
        received_ms in any::<i64>(),
    ) {
        let record: Record = Record::Push(PushRecord { stream, source, seq, received_ms, statements });
        let bytes = record.to_bytes().unwrap();
        prop_assert_eq!(Record::from_bytes(&bytes).unwrap(), record);
    }

    #[test]
    fn a_push_that_was_read_before_is_written_as_its_terms(
        statements in prop::collection::vec(statement(), 0..30), one_time in any::<Option<i64>>(),
    ) {
        let push: Record<EncodedStatements> = Record::Push(PushRecord {
            stream: "http://example.org/s".to_owned(), source: "a".to_owned(), seq: Some(7), received_ms: -1,
            statements: encoded(&statements, one_time),
        });
        let bytes = push.to_bytes().unwrap();
        let timed = |statement: StreamStatement| StreamStatement {
            at: one_time.map_or(statement.at, EventTime), ..statement
        };
        let terms: Vec<_> = statements.into_iter().map(timed).collect();
        let expected = push.with_forms(|_| terms, Ok::<_, LogError>, |it| it).unwrap();
        prop_assert_eq!(Record::from_bytes(&bytes).unwrap(), expected);
    }

    #[test]
    fn any_messages_read_back(
        messages in prop::collection::vec(
            (prop::collection::vec(statement(), 1..5), any::<Option<u64>>(), any::<bool>()), 0..8,
        ),
        (stream, source) in (".*", ".*"),
        received_ms in any::<i64>(),
    ) {
        let mut statements = Vec::new();
        let (mut list, mut are_taken, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for (own, seq, is_taken) in messages {
            let at = own[0].at;
            let logged = LoggedMessage { seq, statements: own.len() as u32 };
            list.extend(is_taken.then_some(logged));
            are_taken.extend(vec![is_taken; own.len()]);
            statements.extend(own.into_iter().map(|statement| StreamStatement { at, ..statement }));
        }
        for (statement, is_taken) in statements.iter().zip(&are_taken) {
            taken.extend(is_taken.then(|| statement.clone()));
        }
        // What is written of messages that were read before are those that were taken.
        let read = encoded(&statements, None).only(|index| are_taken[index]);
        let record: Record<EncodedStatements> = Record::Messages(MessagesRecord {
            stream, source, received_ms, messages: list, statements: read,
        });
        let bytes = record.to_bytes().unwrap();
        let expected: Record = record.with_forms(|_| taken, Ok::<_, LogError>, |it| it).unwrap();
        prop_assert_eq!(&Record::from_bytes(&bytes).unwrap(), &expected);
        let bytes = expected.to_bytes().unwrap();
        prop_assert_eq!(Record::from_bytes(&bytes).unwrap(), expected);
    }

    #[test]
    fn any_bytes_as_a_record(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Record::from_bytes(&bytes);
    }

    #[test]
    fn a_record_with_other_bytes_in_it(
        which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), bytes in any::<[u8; 3]>(),
    ) {
        let mut records = every_kind(LoadSegment { name: "load".to_owned(), hash: [1; 32], statements: 1 });
        records.extend(kinds_since_version_1());
        records.extend(kinds_added_last());
        records.extend(kind_of_messages());
        let mut whole = which.get(&records).to_bytes().unwrap();
        let at = at.index(whole.len());
        let end = whole.len().min(at + 3);
        whole[at..end].copy_from_slice(&bytes[..end - at]);
        let _ = Record::from_bytes(&whole);
    }

    #[test]
    fn any_claims_of_a_proof(
        version in 0_u32..4, closed in 0_u32..2, own in any::<bool>(),
        claims in prop::array::uniform5(prop_oneof![0_u64..4, any::<u64>()]),
    ) {
        let disk = written(2, 1, true);
        let [segment, length, durable, oldest, incarnation] = claims;
        let mut proof = b"SOMERPRF".to_vec();
        proof.extend(version.to_le_bytes());
        proof.extend(closed.to_le_bytes());
        proof.extend([segment, length, durable].map(u64::to_le_bytes).concat());
        if version >= 2 {
            proof.extend(oldest.to_le_bytes());
            let identity = disk.bytes("log.proof").unwrap()[48..64].to_vec();
            proof.extend(if own { identity } else { vec![9; 16] });
            proof.extend(incarnation.to_le_bytes());
        }
        proof.extend(crc32c::crc32c(&proof).to_le_bytes());
        disk.plant("log.proof", proof);
        let before = contents(&disk);
        match open(&disk) {
            Ok((_log, recovered)) => {
                prop_assert!((1..=2).contains(&version) && durable <= 2);
                prop_assert_eq!(recovered.count(), 2);
            }
            Err(_) => prop_assert_eq!(contents(&disk), before),
        }
    }

    #[test]
    fn any_bytes_as_the_second_segment(
        bytes in prop::collection::vec(any::<u8>(), 0..200), keep in 0_usize..300, after in 0_u64..6,
    ) {
        let disk = written(8, 1, true);
        let second = "log-0000000002.seg";
        let mut file = disk.bytes(second).unwrap();
        file.truncate(keep);
        file.extend(bytes);
        disk.plant(second, file);
        let before = contents(&disk);
        let opened = Log::open_after(Arc::new(disk.clone()), small(), Position(after));
        match opened {
            Ok((_log, recovered)) => recovered.for_each(drop),
            Err(_) => prop_assert_eq!(contents(&disk), before),
        }
    }

    #[test]
    fn any_bytes_as_a_segment(
        bytes in prop::collection::vec(any::<u8>(), 0..200), whole in any::<bool>(), keep in 0_usize..300,
    ) {
        let disk = SimDisk::new();
        let mut file = if whole { written(2, 2, true).bytes("log-0000000001.seg").unwrap() } else { Vec::new() };
        file.truncate(keep);
        file.extend(bytes);
        disk.plant("log-0000000001.seg", file);
        if let Ok((_log, recovered)) = open(&disk) {
            recovered.for_each(drop);
        }
    }
}

#[test]
fn a_repeated_term_is_written_once() {
    let quad = |n: i64| {
        Quad::new(
            NamedNode::new_unchecked("http://example.org/a-subject-with-a-long-name"),
            NamedNode::new_unchecked("http://example.org/a-predicate-with-a-long-name"),
            Literal::from(n),
            GraphName::DefaultGraph,
        )
    };
    let push = |count| {
        Record::<Vec<StreamStatement>>::Push(PushRecord {
            stream: "http://example.org/stream".to_owned(),
            source: String::new(),
            seq: None,
            received_ms: 0,
            statements: (0..count)
                .map(|n| StreamStatement {
                    at: EventTime(n),
                    quad: quad(n),
                })
                .collect::<Vec<_>>(),
        })
    };
    let (some, more) = (
        push(100).to_bytes().unwrap().len(),
        push(1_100).to_bytes().unwrap().len(),
    );
    assert!(
        more - some < 1_000 * 16,
        "{} bytes for 1,000 statements",
        more - some
    );
}
