//! The declarations of the public suites, from their texts to the core.

use serde_json::Value;
use somersault_lang::{Parser, Statement};
use somersault_model::{Millis, StreamUid};
use somersault_txn::{
    BatchShape, Command, Consumption, Core, DataflowShape, Event, Extent, OnAbort, Part,
    ProcedureShape, Recovery, StreamShape, TriggerEvent, TriggerShape, WindowShape,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn test_data() -> Option<PathBuf> {
    let named = std::env::var_os("SOMERSAULT_TESTDATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(3);
    let beside = beside
        .map(|up| up.join("shared/data"))
        .find(|path| path.is_dir());
    let found = named.filter(|path| path.is_dir()).or(beside);
    if found.is_none() {
        println!("skipped: no test data ($SOMERSAULT_TESTDATA names no folder)");
    }
    found
}

fn parsed(text: &str) -> Result<Statement, String> {
    let parser = Parser::new();
    let statement = parser.parse_statement(text);
    statement.map_err(|error| error.to_string())
}

/// A core, and the uids of its streams by their IRIs.
#[derive(Default)]
struct Declared {
    core: Core,
    uids: BTreeMap<String, StreamUid>,
}

impl Declared {
    /// A core with what a suite declares.
    fn of(suite: &Path) -> Declared {
        let mut declared = Declared::default();
        let text = std::fs::read_to_string(suite).expect("the suite can be read");
        let suite_json: Value = serde_json::from_str(&text).expect("the suite is JSON");
        let folder = suite.parent().expect("the suite is in a folder");
        let files = suite_json["declare"].as_array().expect("files are listed");
        for file in files {
            let file = folder.join(file.as_str().expect("a file has a name"));
            let text = std::fs::read_to_string(&file).expect("the statement can be read");
            let done = declared.execute(&text);
            assert_eq!(done, Ok(()), "{}", file.display());
        }
        declared
    }

    fn command(&mut self, statement: Statement) -> Result<Command, String> {
        Ok(match statement {
            Statement::CreateStream(stream) => {
                let uid = StreamUid(self.uids.len() as u32 + 1);
                self.uids.insert(stream.iri.as_str().to_owned(), uid);
                Command::CreateStream(StreamShape::of(&stream, uid))
            }
            Statement::CreateProcedure(procedure) => {
                let shape = ProcedureShape::of(&procedure, |stream| {
                    self.uids.get(stream.as_str()).copied()
                });
                Command::CreateProcedure {
                    shape: shape.map_err(|refusal| refusal.to_string())?,
                    or_replace: procedure.or_replace,
                    begins: Vec::new(),
                }
            }
            Statement::CreateDataflow(dataflow) => Command::CreateDataflow {
                shape: DataflowShape::of(&dataflow),
                or_replace: dataflow.or_replace,
            },
            Statement::DropProcedure(dropped) => Command::DropProcedure {
                name: dropped.name,
                discard: dropped.discard,
            },
            Statement::DropDataflow(name) => Command::DropDataflow { name },
            Statement::PauseDataflow(name) => Command::PauseDataflow { name },
            Statement::ResumeDataflow(name) => Command::ResumeDataflow { name },
            other => panic!("{other:?} declares nothing"),
        })
    }

    fn execute(&mut self, text: &str) -> Result<(), String> {
        let command = self.command(parsed(text)?)?;
        let admitted = self.core.admit(&command);
        admitted.map_err(|refusal| refusal.to_string())?;
        let applied = self.core.apply(&Event::Command(command));
        applied.expect("an admitted command applies");
        Ok(())
    }
}

#[test]
fn the_declarations_of_every_suite_fit_together() {
    let Some(data) = test_data() else { return };
    let mut suites = Vec::new();
    let mut folders = vec![data.join("transactions")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder can be read") {
            let path = entry.expect("its entries can be read").path();
            let name = path.file_name().map(|name| name.to_string_lossy());
            let is_suite =
                name.is_some_and(|name| name.starts_with("suite") && name.ends_with(".json"));
            if path.is_dir() {
                folders.push(path);
            } else if is_suite {
                suites.push(path);
            }
        }
    }
    assert!(suites.len() > 30, "only {} suites found", suites.len());
    for suite in suites {
        Declared::of(&suite);
    }
}

#[test]
fn the_26_statements_are_accepted_or_refused_as_their_suite_says() {
    let Some(data) = test_data() else { return };
    let folder = data.join("transactions/batches/declarations");
    let mut declared = Declared::of(&folder.join("suite.json"));
    let steps = std::fs::read_to_string(folder.join("steps.jsonl"));
    let steps = steps.expect("the steps can be read");
    let mut refused = 0;
    for line in steps.lines() {
        let step: Value = serde_json::from_str(line).expect("a step is JSON");
        let text = step["statement"].as_str().expect("a step is a statement");
        let before = declared.core.freeze();
        let done = declared.execute(text);
        if step["oracle"] == "accepted" {
            assert_eq!(done, Ok(()), "{text}");
        } else {
            let sentence = done.expect_err(text);
            assert_eq!(declared.core.freeze(), before, "{text}");
            println!("{}: {sentence}", step["why"]);
            refused += 1;
        }
    }
    assert_eq!((steps.lines().count(), refused), (26, 17));
}

fn shape_of(text: &str, streams: &[&str]) -> Result<ProcedureShape, String> {
    let Ok(Statement::CreateProcedure(procedure)) = parsed(text) else {
        panic!("{text} is no procedure");
    };
    let number = |iri: &str| streams.iter().position(|stream| *stream == iri);
    let uid = |iri: &oxrdf::NamedNode| Some(StreamUid(number(iri.as_str())? as u32 + 1));
    ProcedureShape::of(&procedure, uid).map_err(|refusal| refusal.to_string())
}

/// Its steps emit into `urn:b` inside a branch, its triggers into `urn:b` and `urn:c`.
const PROCEDURE: &str = "CREATE PROCEDURE p ON STREAM <urn:a> BATCH 3 MESSAGES \
     ON STREAM <urn:d> BATCH 5s \
     OWNS WINDOW <urn:w> ON <urn:a> [LAST 7 MESSAGES SLIDE 2] \
     OWNS WINDOW <urn:v> ON <urn:d> [RANGE 10s SLIDE 5s] \
     WHEN <urn:w> SLIDES { EMIT INTO <urn:c> CONSTRUCT { ?s ?p 1 } WHERE { WINDOW <urn:w> { ?s ?p ?o } } } \
     WHEN INTO <urn:c> { EMIT INTO <urn:b> CONSTRUCT { ?s ?p 1 } WHERE { BATCH <urn:c> { ?s ?p ?o } } } \
     AS { IF ASK { ?s ?p 1 } { EMIT INTO <urn:b> CONSTRUCT { ?s ?p 2 } WHERE { ?s ?p 1 } } }";

#[test]
fn the_shape_of_a_procedure_is_what_its_text_says() {
    let (a, b, c, d) = (StreamUid(1), StreamUid(2), StreamUid(3), StreamUid(4));
    let consumes = |stream, batch| Consumption { stream, batch };
    let window = |name: &str, stream, extent| WindowShape {
        name: name.to_owned(),
        stream,
        extent,
    };
    let (messages, slide) = (7, 2);
    let expected = ProcedureShape {
        name: "p".to_owned(),
        consumes: vec![
            consumes(a, BatchShape::Messages(3)),
            consumes(d, BatchShape::Span(Millis(5_000))),
        ],
        windows: vec![
            window("urn:w", a, Extent::Last { messages, slide }),
            window(
                "urn:v",
                d,
                Extent::Range {
                    range: Millis(10_000),
                    slide: Millis(5_000),
                },
            ),
        ],
        triggers: vec![
            TriggerShape {
                on: TriggerEvent::Slides("urn:w".to_owned()),
                emits: vec![c],
            },
            TriggerShape {
                on: TriggerEvent::Into(c),
                emits: vec![b],
            },
        ],
        emits: vec![c, b],
    };
    let streams = ["urn:a", "urn:b", "urn:c", "urn:d"];
    assert_eq!(shape_of(PROCEDURE, &streams), Ok(expected));
}

#[test]
fn a_stream_without_a_uid_refuses_the_procedure() {
    for missing in ["urn:a", "urn:b", "urn:c", "urn:d"] {
        let streams: Vec<&str> = ["urn:a", "urn:b", "urn:c", "urn:d"]
            .into_iter()
            .map(|stream| {
                if stream == missing {
                    "urn:other"
                } else {
                    stream
                }
            })
            .collect();
        let sentence = format!(
            "procedure p names stream <{missing}>, which does not exist; create the stream first"
        );
        assert_eq!(shape_of(PROCEDURE, &streams), Err(sentence));
    }
}

#[test]
fn the_shape_of_a_dataflow_is_what_its_text_says() {
    let text = "CREATE DATAFLOW d { a, NEST { b, c } ORDER (c < b) } RECOVERY WEAK ON ABORT STOP";
    let Ok(Statement::CreateDataflow(dataflow)) = parsed(text) else {
        panic!("{text} is no dataflow");
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected = DataflowShape {
        name: "d".to_owned(),
        parts: vec![
            Part::One("a".to_owned()),
            Part::Nest {
                names: names(&["b", "c"]),
                order: vec![("c".to_owned(), "b".to_owned())],
            },
        ],
        recovery: Recovery::Weak,
        on_abort: OnAbort::Stop,
    };
    assert_eq!(DataflowShape::of(&dataflow), expected);
}

#[test]
fn the_shape_of_a_stream_says_what_fills_it_and_whether_it_amends() {
    let shape = |text: &str| match parsed(text) {
        Ok(Statement::CreateStream(stream)) => StreamShape::of(&stream, StreamUid(4)),
        other => panic!("{text} is no stream: {other:?}"),
    };
    let interior = shape("CREATE STREAM <urn:a> INTERIOR");
    assert_eq!(interior.source, somersault_txn::StreamSource::Interior);
    assert_eq!(
        (interior.uid, interior.name.as_str()),
        (StreamUid(4), "urn:a")
    );
    let late = shape("CREATE STREAM <urn:a> LATENESS 0s LATE AMEND");
    assert_eq!(late.source, somersault_txn::StreamSource::Pushed);
    assert_eq!((late.amends, interior.amends), (true, false));
}
