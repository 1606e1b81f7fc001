//! Checkpoints over HTTP: taking one, and what the server shows of them.

use crate::client::until;
use crate::server::{TestServer, encode, engine_config};
use somersault::{CheckpointConfig, EngineConfig};
use somersault_server::ServerConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server with a data folder of its own.
fn durable(folder: &tempfile::TempDir, checkpoints: CheckpointConfig) -> TestServer {
    let engine = EngineConfig {
        data: Some(folder.path().to_owned()),
        checkpoints,
        ..engine_config()
    };
    TestServer::with(engine, ServerConfig::default())
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for files that pass")
}

fn insert(server: &TestServer, number: usize) {
    let text = format!("INSERT DATA {{ <urn:s> <urn:p> {number} }}");
    let media_type = "application/sparql-update";
    server.post("/update", media_type, &text).expect(200);
}

/// The value of a sample in `/metrics`.
fn sample(server: &TestServer, name: &str) -> Option<f64> {
    let text = server.get("/metrics").expect(200).text().to_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().parse().expect("a number"))
}

#[test]
fn a_checkpoint_is_taken_and_shown() {
    let folder = folder();
    let server = durable(&folder, CheckpointConfig::default());
    let before = server.get("/health").expect(200).json();
    assert!(before["checkpoints"]["newest"].is_null(), "{before}");
    assert_eq!(sample(&server, "somersault_checkpoint_bytes "), None);
    insert(&server, 1);
    for number in 1..=2 {
        insert(&server, 10 + number);
        let taken = server
            .send("POST", "/checkpoint", &[], None)
            .expect(200)
            .json();
        assert_eq!(taken["number"], number, "{taken}");
        assert_eq!(taken["sn"], server.engine.stable().0, "{taken}");
        assert!(
            taken["seconds"].as_f64().is_some_and(|it| it >= 0.0),
            "{taken}"
        );
        let health = server.get("/health").expect(200).json();
        let shown = &health["checkpoints"];
        for field in ["number", "position", "sn", "bytes"] {
            assert_eq!(shown["newest"][field], taken[field], "{health}");
        }
        assert_eq!(
            (&shown["under_way"], &shown["failures"]),
            (&false.into(), &0.into())
        );
        assert!(shown["last_error"].is_null(), "{health}");
    }
    assert_eq!(sample(&server, "somersault_checkpoints_total "), Some(2.0));
    assert_eq!(
        sample(&server, "somersault_checkpoints_failed_total "),
        Some(0.0)
    );
    assert!(sample(&server, "somersault_checkpoint_bytes ").is_some_and(|it| it > 0.0));
    assert!(sample(&server, "somersault_checkpoint_seconds ").is_some());
    assert!(sample(&server, "somersault_restart_seconds ").is_some());
}

#[test]
fn the_log_behind_the_newest_checkpoint_is_shown() {
    let folder = folder();
    let server = durable(&folder, CheckpointConfig::default());
    let log_bytes =
        || server.get("/health").expect(200).json()["checkpoints"]["log_bytes"].as_u64();
    (0..50).for_each(|number| insert(&server, number));
    until("the log has grown", || log_bytes() > Some(2_000));
    server.send("POST", "/checkpoint", &[], None).expect(200);
    assert!(log_bytes() < Some(2_000));
}

#[test]
fn a_server_in_memory_takes_none() {
    let server = TestServer::start();
    let refused = server
        .send("POST", "/checkpoint", &[], None)
        .expect(409)
        .json();
    let said = refused["error"].as_str().expect("a sentence");
    assert!(said.contains("nothing is written to a folder"), "{said}");
    let health = server.get("/health").expect(200).json();
    assert!(health["checkpoints"].is_null(), "{health}");
    assert_eq!(sample(&server, "somersault_checkpoints_total "), None);
}

#[test]
fn a_second_checkpoint_is_refused_while_one_is_under_way() {
    let folder = folder();
    let holds = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&holds);
    let engine = EngineConfig {
        data: Some(folder.path().to_owned()),
        before_apply: Some(Arc::new(move |_| {
            while held.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        })),
        ..engine_config()
    };
    let server = TestServer::with(engine, ServerConfig::default());
    holds.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| insert(&server, 1));
        // Its SN is cut, and a shard does not get to it.
        until("the update is logged", || {
            server.engine.metrics().retained_sns > 1
        });
        let first = scope.spawn(|| server.send("POST", "/checkpoint", &[], None).expect(200));
        let under_way = || {
            server
                .engine
                .checkpoints()
                .is_some_and(|it| it.is_under_way)
        };
        until("a checkpoint is under way", under_way);
        let refused = server
            .send("POST", "/checkpoint", &[], None)
            .expect(409)
            .json();
        holds.store(false, Ordering::SeqCst);
        assert_eq!(refused["code"], "conflict", "{refused}");
        let said = refused["error"].as_str().expect("a sentence");
        assert!(said.contains("another one is being written"), "{said}");
        assert_eq!(first.join().expect("it is answered").json()["number"], 1);
    });
}

#[test]
fn a_folder_that_is_only_read_gets_no_checkpoint() {
    let folder = folder();
    drop(durable(&folder, CheckpointConfig::default()));
    let engine = EngineConfig {
        data: Some(folder.path().to_owned()),
        read_only: true,
        ..engine_config()
    };
    let server = TestServer::with(engine, ServerConfig::default());
    let refused = server
        .send("POST", "/checkpoint", &[], None)
        .expect(409)
        .json();
    let said = refused["error"].as_str().expect("a sentence");
    assert!(said.contains("opened to read only"), "{said}");
}

#[test]
fn a_source_sees_which_of_its_pushes_are_safe() {
    let folder = folder();
    let server = durable(&folder, CheckpointConfig::default());
    let stream = format!("/streams/{}", encode("http://e/s"));
    let text = "CREATE STREAM <http://e/s> TIMELESS BATCH 1s IDLE NEVER";
    let created = server.put(&stream, text).expect(201).json();
    assert_eq!(created["sources"], serde_json::json!([]), "{created}");
    let push = |source: &str, number: u32| {
        let headers = [
            ("Push-Source", source),
            ("Push-Sequence", &number.to_string()),
            ("Content-Type", "text/tab-separated-values"),
        ];
        let line = format!("1000\t<urn:a> <urn:p> <urn:o{number}> .\n");
        server
            .send("POST", &stream, &headers, Some(line.as_bytes()))
            .expect(200);
    };
    (1..=4).for_each(|number| push("meter", number));
    push("gauge", 90);
    let sources = || server.get(&stream).expect(200).json()["sources"].clone();
    assert_eq!(
        sources(),
        serde_json::json!([
            { "source": "gauge", "taken": 90, "durable": 90, "checkpointed": null },
            { "source": "meter", "taken": 4, "durable": 4, "checkpointed": null },
        ])
    );
    server.send("POST", "/checkpoint", &[], None).expect(200);
    push("meter", 5);
    push("new", 1);
    assert_eq!(
        sources(),
        serde_json::json!([
            { "source": "gauge", "taken": 90, "durable": 90, "checkpointed": 90 },
            { "source": "meter", "taken": 5, "durable": 5, "checkpointed": 4 },
            { "source": "new", "taken": 1, "durable": 1, "checkpointed": null },
        ])
    );
}
