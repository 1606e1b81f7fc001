//! Plain JSON and CSV through the whole engine: mapped to messages, refused one by one, sent to
//! dead letters, the same after a restart.

use crate::support::scenario::*;
use somersault::disk::SimDisk;
use somersault::{
    DocumentPush, DocumentSyntax, Engine, EngineError, MessageSender, MessagesReceipt,
};
use std::sync::Arc;

const JSON: DocumentSyntax = DocumentSyntax::Json;

/// Declares the stream `s` of readings, with further clauses.
fn declare(engine: &Engine, clauses: &str) {
    let text = format!(
        "PREFIX : <{NS}> PREFIX xyz: <http://sparql.xyz/facade-x/data/>
         PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
         CREATE STREAM :s IDLE NEVER TIMELESS BATCH 1s TIMESTAMP :at
         MAPPED BY CONSTRUCT {{ ?sensor :reads ?value . [] :of ?sensor ; :at ?at }}
           WHERE {{ ?d xyz:sensor ?name ; xyz:ms ?ms OPTIONAL {{ ?d xyz:celsius ?value }}
                    BIND(IRI(CONCAT(\"{NS}\", ?name)) AS ?sensor) BIND(xsd:integer(?ms) AS ?at) }}
         {clauses}"
    );
    engine.create_stream(None, &text).unwrap();
}

fn mapped(clauses: &str) -> Engine {
    let engine = engine();
    declare(&engine, clauses);
    engine
}

fn push(engine: &Engine, seq: Option<u64>, syntax: DocumentSyntax, text: &str) -> MessagesReceipt {
    let sender = MessageSender {
        source: Some("gateway".to_owned()),
        seq,
        at: None,
    };
    let push = DocumentPush { sender, syntax };
    engine
        .push_documents(&format!("{NS}s"), push, text.as_bytes())
        .unwrap()
}

fn readings(engine: &Engine) -> Vec<String> {
    advance(engine, 60_000);
    ask(engine, "SELECT ?s ?v { ?s :reads ?v }")
}

#[test]
fn the_three_syntaxes_say_the_same() {
    for (syntax, text, type_of_value) in [
        (
            JSON,
            r#"[{"sensor": "a", "ms": 1000, "celsius": 20.5}, {"sensor": "b", "ms": 2000, "celsius": 21.0}]"#,
            "^^<http://www.w3.org/2001/XMLSchema#decimal",
        ),
        (
            DocumentSyntax::NdJson,
            "{\"sensor\": \"a\", \"ms\": 1000, \"celsius\": 20.5}\n{\"sensor\": \"b\", \"ms\": 2000, \"celsius\": 21.0}\n",
            "^^<http://www.w3.org/2001/XMLSchema#decimal",
        ),
        (
            DocumentSyntax::Csv,
            "ms,sensor,celsius\r\n1000,a,20.5\r\n2000,b,21.0\r\n",
            "",
        ),
    ] {
        let engine = mapped("");
        let receipt = push(&engine, Some(1), syntax, text);
        assert_eq!(receipt.taken.runs(), [(1, 2)], "{:?}", receipt.reasons);
        assert_eq!(receipt.accepted, 6);
        let expected = [("a", "20.5"), ("b", "21.0")]
            .map(|(sensor, value)| format!("{sensor} \"{value}\"{type_of_value}"));
        assert_eq!(readings(&engine), expected);
        let again = push(&engine, Some(1), syntax, text);
        assert_eq!((again.taken.count(), again.repeated.count()), (0, 2));
        let apart = "SELECT (COUNT(DISTINCT ?n) AS ?c) { ?n :of ?s }";
        assert!(
            ask(&engine, apart)[0].starts_with("\"2\""),
            "each message has its own blank nodes"
        );
    }
}

#[test]
fn a_window_sees_documents_at_the_time_of_their_timestamp() {
    let engine = mapped("");
    let text = format!(
        "PREFIX : <{NS}> SELECT ?s FROM NAMED STREAM :s [RANGE 2s STEP 2s] WHERE {{ GRAPH :s {{ ?n :of ?s }} }}"
    );
    engine.register(Some("seen"), &text).unwrap();
    let lines = "{\"sensor\":\"a\",\"ms\":500}\n{\"sensor\":\"b\",\"ms\":2500}";
    push(&engine, None, DocumentSyntax::NdJson, lines);
    advance(&engine, 4_000);
    assert_eq!(
        firings(&engine, "seen", Some(0)),
        expected(&[(2_000, &["a"]), (4_000, &["b"])])
    );
}

#[test]
fn a_document_that_does_not_map_refuses_itself_alone() {
    let engine = mapped("");
    let lines = "{\"sensor\": \"a\", \"ms\": 1000}
{\"sensor\": \"a\"
{\"sensor\": \"a\"}
{\"sensor\": \"a\", \"ms\": \"soon\"}
{\"sensor\": \"a\", \"ms\": 500}
{\"sensor\": \"b\", \"ms\": 2000}";
    let receipt = push(&engine, Some(11), DocumentSyntax::NdJson, lines);
    assert_eq!(receipt.taken.runs(), [(11, 11), (16, 16)]);
    assert_eq!(receipt.refused.runs(), [(12, 15)]);
    assert_eq!((receipt.dead_letters, receipt.ended.is_none()), (0, true));
    let said: Vec<String> = receipt
        .reasons
        .iter()
        .map(|it| it.error.to_string())
        .collect();
    assert_eq!(receipt.reasons[0].line, 2);
    for (said, words) in said.iter().zip([
        "no JSON",
        "makes no statement",
        "no value at",
        "complete through",
    ]) {
        assert!(said.contains(words), "{said}");
    }
    // The numbers of refused documents stay free.
    let again = push(
        &engine,
        Some(13),
        DocumentSyntax::NdJson,
        "{\"sensor\": \"c\", \"ms\": 3000}",
    );
    assert_eq!(again.taken.runs(), [(13, 13)]);
}

#[test]
fn refused_documents_go_to_the_dead_letters() {
    let engine = engine();
    let dead = format!("CREATE STREAM <{NS}dead> ARRIVAL TIME TIMELESS BATCH 1s");
    engine.create_stream(None, &dead).unwrap();
    declare(&engine, "DEAD LETTER INTO :dead");
    let text = "[{\"sensor\": \"a\", \"ms\": 1000}, {\"sensor\"}, {\"sensor\": \"b\"}]";
    let receipt = push(&engine, Some(1), JSON, text);
    assert_eq!(receipt.taken.runs(), [(1, 1)]);
    assert_eq!((receipt.refused.count(), receipt.dead_letters), (2, 2));
    assert!(receipt.dead_letter_fault.is_none());
    // Sent again, they leave no second letter.
    let again = push(&engine, Some(1), JSON, text);
    assert_eq!((again.repeated.count(), again.dead_letters), (1, 2));
    advance(&engine, 60_000);
    let letters = "PREFIX l: <urn:somersault:>
        SELECT ?n ?line ?text { ?l a l:DeadLetter ; l:stream :s ; l:source \"gateway\" ; l:number ?n ; l:line ?line ; l:reason ?r ; l:text ?text }";
    // As they are shown, without the last bracket.
    let integer = "^^<http://www.w3.org/2001/XMLSchema#integer";
    assert_eq!(
        ask(&engine, letters),
        [
            format!("\"2\"{integer} \"1\"{integer} \" {{\\\"sensor\\\"}}\""),
            format!("\"3\"{integer} \"1\"{integer} \" {{\\\"sensor\\\": \\\"b\\\"}}\""),
        ]
    );
    // Without the stream for them, the refusal stays and is said.
    engine.drop_stream(&format!("{NS}dead")).unwrap();
    let lost = push(&engine, Some(9), JSON, "{}");
    assert_eq!((lost.refused.count(), lost.dead_letters), (1, 0));
    let fault = lost.dead_letter_fault.expect("it is said").to_string();
    assert!(fault.contains("no stream"), "{fault}");
}

#[test]
fn dead_letters_need_a_stream_that_suits() {
    let engine = engine();
    let create = |clauses: &str| {
        let text = format!(
            "CREATE STREAM <{NS}s> MAPPED BY CONSTRUCT WHERE {{ ?d <urn:a> ?v }} DEAD LETTER INTO <{NS}dead> {clauses}"
        );
        engine.create_stream(None, &text)
    };
    assert!(matches!(create(""), Err(EngineError::NotFound(_))));
    engine
        .create_stream(None, &format!("CREATE STREAM <{NS}dead>"))
        .unwrap();
    let refused = create("").unwrap_err().to_string();
    assert!(refused.contains("ARRIVAL TIME"), "{refused}");
    engine.drop_stream(&format!("{NS}dead")).unwrap();
    engine
        .create_stream(None, &format!("CREATE STREAM <{NS}dead> ARRIVAL TIME"))
        .unwrap();
    create("").unwrap();
}

#[test]
fn a_mapping_is_there_after_a_restart_and_after_a_checkpoint() {
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
    let engine = open(&disk);
    declare(&engine, "");
    push(
        &engine,
        Some(1),
        JSON,
        "{\"sensor\": \"a\", \"ms\": 1000, \"celsius\": 1}",
    );
    engine.shutdown().unwrap();
    drop(engine);
    let engine = open(&disk);
    push(
        &engine,
        Some(2),
        JSON,
        "{\"sensor\": \"b\", \"ms\": 2000, \"celsius\": 2}",
    );
    engine.checkpoint().unwrap();
    engine.shutdown().unwrap();
    drop(engine);
    let engine = open(&disk);
    let receipt = push(
        &engine,
        Some(3),
        JSON,
        "[{}, {\"sensor\": \"c\", \"ms\": 3000, \"celsius\": 3}]",
    );
    assert_eq!(
        (receipt.refused.runs(), receipt.taken.runs()),
        (&[(3, 3)][..], &[(4, 4)][..])
    );
    assert_eq!(readings(&engine).len(), 3);
}

#[test]
fn a_stream_that_is_declared_again_has_its_new_mapping() {
    let engine = mapped("");
    push(&engine, None, JSON, "{\"sensor\": \"a\", \"ms\": 1000}");
    engine.drop_stream(&format!("{NS}s")).unwrap();
    let text = format!(
        "CREATE STREAM <{NS}s> ARRIVAL TIME TIMELESS BATCH 1s MAPPED BY
         CONSTRUCT {{ <{NS}x> <{NS}reads> ?v }} WHERE {{ ?d <http://sparql.xyz/facade-x/data/v> ?v }}"
    );
    engine.create_stream(None, &text).unwrap();
    let receipt = push(
        &engine,
        None,
        JSON,
        "[{\"sensor\": \"a\", \"ms\": 1000}, {\"v\": \"new\"}]",
    );
    assert_eq!(receipt.refused.runs(), [(1, 1)]);
    assert_eq!(readings(&engine), ["x \"new\""]);
    engine.drop_stream(&format!("{NS}s")).unwrap();
    engine
        .create_stream(None, &format!("CREATE STREAM <{NS}s>"))
        .unwrap();
    let refused = engine.push_documents(&format!("{NS}s"), DocumentPush::new(JSON), &b"{}"[..]);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("MAPPED BY"), "{refused}");
    assert!(engine.mapping(&format!("{NS}s")).unwrap().is_none());
}

#[test]
fn random_values_of_documents_differ() {
    let engine = engine();
    let text = format!(
        "CREATE STREAM <{NS}s> ARRIVAL TIME TIMELESS BATCH 1s MAPPED BY
         CONSTRUCT {{ ?id <{NS}reads> ?v }} WHERE {{ ?d <http://sparql.xyz/facade-x/data/v> ?v BIND(UUID() AS ?id) }}"
    );
    engine.create_stream(None, &text).unwrap();
    push(&engine, None, JSON, "[{\"v\": 1}, {\"v\": 1}]");
    push(&engine, None, JSON, "{\"v\": 1}");
    assert_eq!(readings(&engine).len(), 3);
}
