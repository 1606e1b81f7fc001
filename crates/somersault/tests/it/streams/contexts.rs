//! JSON-LD contexts: registered, named by documents, laid over plain JSON, there after a restart
//! and in a copy.

use crate::support::scenario::*;
use somersault::disk::{Disk, SimDisk};
use somersault::folder::{receive_backup, start_branch, verify_folder};
use somersault::{
    Access, DocumentPush, DocumentSyntax, Engine, EngineError, LoadOptions, MessagePush,
    MessageSyntax, MessagesReceipt, RdfFormat,
};
use std::sync::Arc;

const URL: &str = "https://example.org/context";
const CONTEXT: &str = r#"{"@context": {"at": "http://example.org/at", "of": {"@id": "http://example.org/of", "@type": "@id"}}}"#;

fn open(disk: &SimDisk) -> Engine {
    Engine::open_on(config(), Arc::new(disk.clone())).unwrap()
}

fn push_lines(engine: &Engine, text: &str) -> MessagesReceipt {
    let push = MessagePush {
        source: None,
        seq: None,
        at: None,
        syntax: MessageSyntax::NdJsonLd,
    };
    engine
        .push_messages(&format!("{NS}s"), push, text.as_bytes())
        .unwrap()
}

fn declare(engine: &Engine, clauses: &str) {
    let text =
        format!("CREATE STREAM <{NS}s> TIMELESS BATCH 1s IDLE NEVER TIMESTAMP <{NS}at> {clauses}");
    engine.create_stream(None, &text).unwrap();
}

#[test]
fn documents_name_contexts_that_are_registered() {
    let engine = engine();
    declare(&engine, "");
    let line = format!("{{\"@context\": \"{URL}\", \"at\": 1000, \"of\": \"{NS}a\"}}");
    let refused = push_lines(&engine, &line);
    let said = refused.reasons[0].error.to_string();
    assert!(
        said.contains("is not registered here, and nothing is fetched"),
        "{said}"
    );
    assert!(engine.put_context(URL, CONTEXT).unwrap());
    assert!(!engine.put_context(URL, CONTEXT).unwrap());
    // Also as the context of the lines that follow.
    let lines = format!("{line}\n{{\"@context\": \"{URL}\"}}\n{{\"at\": 2000, \"of\": \"{NS}b\"}}");
    assert_eq!(push_lines(&engine, &lines).accepted, 4);
    advance(&engine, 60_000);
    assert_eq!(ask(&engine, "SELECT ?x { ?m :of ?x }"), ["a", "b"]);
    let format = RdfFormat::JsonLd {
        profile: Default::default(),
    };
    let loaded = engine.load(line.as_bytes(), format, LoadOptions::default());
    assert_eq!(loaded.unwrap().statements, 2);
    engine.drop_context(URL).unwrap();
    assert_eq!(push_lines(&engine, &line).refused.count(), 1);
    assert!(matches!(
        engine.drop_context(URL),
        Err(EngineError::NotFound(_))
    ));
}

#[test]
fn a_context_is_laid_over_plain_json() {
    let engine = engine();
    declare(&engine, &format!("CONTEXT <{URL}>"));
    let push = |syntax, text: &str| {
        let push = DocumentPush::new(syntax);
        engine
            .push_documents(&format!("{NS}s"), push, text.as_bytes())
            .unwrap()
    };
    let text = format!(
        "[{{\"at\": 1000, \"of\": \"{NS}a\"}}, {{\"@context\": {{\"more\": \"{NS}of\"}}, \"at\": 2000, \"more\": {{\"@id\": \"{NS}b\"}}}}, {{\"none\": 1}}]"
    );
    let before = push(DocumentSyntax::Json, &text);
    assert_eq!(before.refused.count(), 3, "no context is registered");
    engine.put_context(URL, CONTEXT).unwrap();
    let receipt = push(DocumentSyntax::Json, &text);
    assert_eq!(
        (receipt.taken.runs(), receipt.refused.runs()),
        (&[(1, 2)][..], &[(3, 3)][..]),
        "{:?}",
        receipt.reasons
    );
    let said = receipt.reasons[0].error.to_string();
    assert!(said.contains("makes no statement"), "{said}");
    let csv = push(DocumentSyntax::Csv, "at\n3000\n");
    assert_eq!(csv.refused.count(), 1);
    advance(&engine, 60_000);
    assert_eq!(ask(&engine, "SELECT ?x { ?m :of ?x }"), ["a", "b"]);
}

#[test]
fn what_is_no_context_is_refused() {
    let engine = engine();
    let deep = format!("{{\"@context\": {}{}}}", "[".repeat(100), "]".repeat(100));
    for (url, text, said) in [
        ("context", CONTEXT, "no absolute IRI"),
        (URL, "{", "no JSON"),
        (URL, "[]", "no \"@context\""),
        (URL, "{\"at\": 1}", "no \"@context\""),
        (URL, &deep, "nested"),
        (URL, &" ".repeat((1 << 20) + 1), "bytes"),
    ] {
        let refused = engine.put_context(url, text).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
    let stranger = engine.with_access(Access::of(&["push".parse().unwrap()]));
    assert!(matches!(
        stranger.put_context(URL, CONTEXT),
        Err(EngineError::Forbidden { .. })
    ));
    assert!(matches!(
        stranger.drop_context(URL),
        Err(EngineError::Forbidden { .. })
    ));
    assert!(engine.contexts().is_empty());
}

#[test]
fn contexts_outlive_restarts_and_are_in_backups() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    engine.put_context(URL, CONTEXT).unwrap();
    engine.put_context("urn:other", CONTEXT).unwrap();
    engine.drop_context("urn:other").unwrap();
    let mut archive = Vec::new();
    engine.backup().unwrap().write_to(&mut archive).unwrap();
    drop(engine);
    let restarted = open(&disk.restarted());
    assert_eq!(&*restarted.context(URL).unwrap(), CONTEXT);
    assert_eq!(restarted.contexts().len(), 1);
    let copy = SimDisk::new();
    receive_backup(&archive[..], &copy).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(copy.clone());
    let report =
        verify_folder(Arc::clone(&shared), Default::default(), &Default::default()).unwrap();
    assert!(
        report.is_sound()
            && report
                .groups
                .iter()
                .any(|group| group.what == "contexts of JSON-LD"),
        "{report:?}"
    );
    start_branch(shared).unwrap();
    assert_eq!(&*open(&copy).context(URL).unwrap(), CONTEXT);
}

#[test]
fn a_damaged_file_of_contexts_is_named() {
    let disk = SimDisk::new();
    drop(open(&disk));
    let mut file = disk.create("contexts.json").unwrap();
    file.append(b"{\"version\": 9}").unwrap();
    file.sync().unwrap();
    drop(file);
    let refused = Engine::open_on(config(), Arc::new(disk.clone()))
        .map(drop)
        .unwrap_err();
    assert!(
        matches!(refused, EngineError::Damaged { .. }) && refused.to_string().contains("version 9"),
        "{refused}"
    );
    let report = verify_folder(Arc::new(disk), Default::default(), &Default::default()).unwrap();
    assert!(
        report.damage.iter().any(|it| it.contains("contexts.json")),
        "{report:?}"
    );
}
