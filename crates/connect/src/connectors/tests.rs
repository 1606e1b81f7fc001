//! Sources and sinks that are declared, replaced, paused, dropped, and found again at the next
//! start.

use super::*;
use somersault::{EngineConfig, EventTime};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const STREAM: &str = "CREATE STREAM <urn:s> TIMELESS IDLE NEVER";

struct World {
    folder: tempfile::TempDir,
    engine: Engine,
    connectors: Connectors,
}

impl World {
    fn start() -> World {
        World::start_with(tempfile::tempdir().expect("a folder"), &[])
    }

    fn start_with(folder: tempfile::TempDir, fixed: &[SinkSpec]) -> World {
        let data = folder.path().join("data");
        let config = EngineConfig {
            data: Some(data.clone()),
            ..EngineConfig::default()
        };
        let engine = Engine::open(config).expect("an engine");
        engine.create_stream(None, STREAM).expect("a stream");
        let connectors = Connectors::open(&engine, Some(&data), fixed, &ClientTls::default())
            .expect("they start");
        World {
            folder,
            engine,
            connectors,
        }
    }

    /// Ends everything, and starts again on the same folder.
    fn restart(self) -> World {
        let World {
            folder,
            engine,
            connectors,
        } = self;
        connectors.stop();
        drop(connectors);
        engine.shutdown().expect("it stops");
        drop(engine);
        World::start_with(folder, &[])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn source_text(&self, or_replace: &str, more: &str) -> String {
        let path = self.path("lines");
        format!(
            "CREATE {or_replace} SOURCE a INTO <urn:s> FROM FILE (path = '{}'{more}) FORMAT TSV",
            path.display()
        )
    }

    fn append(&self, second: u64) {
        use std::io::Write as _;
        let line = format!("{}\t<urn:a{second}> <urn:p> <urn:b> .\n", second * 1_000);
        let mut options = std::fs::OpenOptions::new();
        let file = options.append(true).create(true).open(self.path("lines"));
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("written");
    }

    #[track_caller]
    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < PATIENCE,
                "in vain for {what}: {:?}",
                self.connectors.sources()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    fn has_statements(&self, count: u64) {
        self.until(&format!("{count} statements"), || {
            self.engine.stream("urn:s").expect("a stream").tuples == count
        });
    }

    fn manage(&self, command: ConnectorCommand, sort: ConnectorSort) -> Result<(), ConnectError> {
        self.connectors.manage(&ManageConnector {
            command,
            sort,
            name: "a".to_owned(),
        })
    }

    fn declare_source(&self, text: &str) -> Result<bool, ConnectError> {
        self.connectors.declare(ConnectorSort::Source, "a", text)
    }

    fn declare_sink(&self, text: &str) -> Result<bool, ConnectError> {
        self.connectors.declare(ConnectorSort::Sink, "a", text)
    }
}

use ConnectorCommand::{Drop as DropIt, Pause, Resume};
use ConnectorSort::{Sink, Source};

#[test]
fn a_source_goes_on_where_it_was_after_a_restart() {
    let world = World::start();
    world.append(1);
    assert!(
        world
            .declare_source(&world.source_text("", ""))
            .expect("declared")
    );
    world.has_statements(1);
    let world = world.restart();
    world.append(2);
    world.has_statements(2);
    let counts = world.connectors.sources()[0].status.counts;
    assert_eq!(
        (counts.taken, counts.repeated),
        (1, 0),
        "nothing is read again"
    );
    let same = world.declare_source(&world.source_text("", ""));
    assert!(!same.expect("the same text"));
}

#[test]
fn another_text_takes_the_place_of_one_only_with_or_replace() {
    let world = World::start();
    world.append(1);
    world
        .declare_source(&world.source_text("", ""))
        .expect("declared");
    world.has_statements(1);
    let refused = world.declare_source(&world.source_text("", ", from = end"));
    assert!(matches!(refused, Err(ConnectError::Conflict(_))));
    let text = world.source_text("OR REPLACE", ", from = end");
    assert!(!world.declare_source(&text).expect("replaced"));
    world.append(2);
    world.has_statements(2);
    assert_eq!(world.connectors.sources()[0].text.as_ref(), Some(&text));
}

#[test]
fn a_paused_source_brings_nothing_also_after_a_restart() {
    let world = World::start();
    world.append(1);
    world
        .declare_source(&world.source_text("", ""))
        .expect("declared");
    world.has_statements(1);
    world.manage(Pause, Source).expect("paused");
    world.manage(Pause, Source).expect("it is paused already");
    world.append(2);
    let world = world.restart();
    assert!(world.connectors.sources()[0].is_paused);
    std::thread::sleep(Duration::from_millis(300));
    world.has_statements(1);
    world.manage(Resume, Source).expect("resumed");
    world.has_statements(2);
}

#[test]
fn a_dropped_source_is_gone_and_its_stream_keeps_its_positions() {
    let world = World::start();
    world.append(1);
    let text = world.source_text("", "");
    world.declare_source(&text).expect("declared");
    world.has_statements(1);
    world.manage(DropIt, Source).expect("dropped");
    assert!(world.connectors.sources().is_empty());
    for command in [DropIt, Pause, Resume] {
        let refused = world.manage(command, Source);
        assert!(matches!(refused, Err(ConnectError::NotFound(_))));
    }
    let world = world.restart();
    assert!(world.connectors.sources().is_empty());
    world.append(2);
    assert!(world.declare_source(&text).expect("declared again"));
    world.has_statements(2);
}

#[test]
fn a_declaration_that_cannot_be_is_refused_and_changes_nothing() {
    let world = World::start();
    for (text, said) in [
        (
            "CREATE SOURCE a INTO <urn:none> FROM FILE (path = '/x') FORMAT TSV",
            "urn:none",
        ),
        (
            "CREATE SOURCE a INTO <urn:s> FROM FILE (path = '/x') FORMAT TSV DEAD LETTER INTO <urn:no>",
            "urn:no",
        ),
        (
            "CREATE SOURCE b INTO <urn:s> FROM FILE (path = '/x') FORMAT TSV",
            "the name given is a",
        ),
        (
            "CREATE SOURCE a INTO <urn:s> FROM FILE (path = '/x') FORMAT ODT",
            "FORMAT ODT",
        ),
        ("CREATE SOURCE a INTO", "line 1"),
        (
            "CREATE SINK a FROM QUERY q INTO FILE (path = '/x')",
            "declares no source",
        ),
    ] {
        let refused = world.declare_source(text).expect_err(text).to_string();
        assert!(refused.contains(said), "{refused}");
    }
    assert!(world.connectors.sources().is_empty());
}

#[test]
fn a_sink_is_declared_paused_and_dropped_with_its_subscription() {
    let world = World::start();
    let query = "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?x ?p ?o }";
    world
        .engine
        .advance([("urn:s", EventTime(0))])
        .expect("it moves");
    world.engine.register(Some("q"), query).expect("a query");
    let answers = world.path("answers");
    let text = |or_replace: &str, more: &str| {
        format!(
            "CREATE {or_replace} SINK a FROM QUERY q INTO FILE (path = '{}', empties = true{more})",
            answers.display()
        )
    };
    let lines = || {
        std::fs::read_to_string(&answers)
            .unwrap_or_default()
            .lines()
            .count()
    };
    let to = |second: i64| {
        let moved = world.engine.advance([("urn:s", EventTime(second * 1_000))]);
        moved.expect("it moves");
    };
    assert!(world.declare_sink(&text("", "")).expect("declared"));
    world.until("a subscription", || {
        world.engine.durable_subscription("q", "a").is_ok()
    });
    to(1);
    world.until("an answer", || lines() == 1);
    world.manage(Pause, Sink).expect("paused");
    to(2);
    world.manage(Resume, Sink).expect("resumed");
    world.until("the answer of the pause", || lines() == 2);
    let refused = world.declare_sink(&text("OR REPLACE", ", answers = 5"));
    assert!(
        matches!(refused, Err(ConnectError::Conflict(_))),
        "other terms"
    );
    let beside = text("", "").replace("SINK a", "SINK b");
    let refused = world.connectors.declare(Sink, "b", &beside);
    let refused = refused.expect_err("one file for two").to_string();
    assert!(refused.contains("same file"), "{refused}");
    world.manage(DropIt, Sink).expect("dropped");
    world
        .engine
        .drop_query("q")
        .expect("nothing subscribes to it");
}

#[test]
fn a_sink_of_the_operator_is_listed_and_not_managed() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("name=a,query=q,file={}", folder.path().join("x").display());
    let spec: SinkSpec = text.parse().expect("a sink");
    let world = World::start_with(folder, &[spec]);
    let listed = world.connectors.sinks();
    assert_eq!((listed.len(), listed[0].text.as_ref()), (1, None));
    assert_eq!(listed[0].status.name, "a");
    let refused = world
        .manage(DropIt, Sink)
        .expect_err("it is the operator's");
    assert!(refused.to_string().contains("--sink"), "{refused}");
}

#[test]
fn a_file_of_declarations_that_is_not_understood_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::open(EngineConfig::default()).expect("an engine");
    let file = folder.path().join("connectors.json");
    for (text, said) in [
        ("?", "not understood"),
        (
            r#"{"version": 1, "sources": [], "sinks": [{"name": "a", "text": "CREATE SINK a FROM QUERY q INTO PIGEON ()", "paused": false}]}"#,
            "the sink a, which is declared in the data folder, cannot run",
        ),
    ] {
        std::fs::write(&file, text).expect("written");
        let refused = Connectors::open(&engine, Some(folder.path()), &[], &ClientTls::default());
        let refused = refused.expect_err(text).to_string();
        assert!(refused.contains(said), "{refused}");
    }
}
