//! Health, metrics, the description, the index page, many clients at once, and stopping.

use crate::client::{connect, read_head, request_bytes, until};
use crate::server::{TestServer, engine_config};
use somersault_server::ServerConfig;
use std::io::{BufReader, Read, Write};
use std::time::{Duration, Instant};

#[test]
fn health_is_json() {
    let server = TestServer::start();
    server.update("INSERT DATA { <http://e/a> <http://e/p> 1 }");
    let json = server.get("/health").expect(200).json();
    assert_eq!(
        (json["status"].as_str(), json["stored_statements"].as_u64()),
        (Some("ok"), Some(1)),
        "{json}"
    );
    assert!(
        json["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty())
    );
    assert_eq!(
        (&json["inflight_bytes"], &json["inflight_limit_bytes"]),
        (&0.into(), &(1_u64 << 30).into())
    );
}

#[test]
fn probes_tell_a_process_that_works_from_one_that_is_ready() {
    let server = TestServer::start();
    for (path, word) in [("/livez", "live"), ("/ready", "ready")] {
        let reply = server.get(path).expect(200);
        assert_eq!(reply.json()["status"], word);
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
    server.engine.shutdown().expect("it stops");
    assert_eq!(server.get("/livez").expect(200).json()["status"], "live");
    assert_eq!(
        server.get("/ready").expect(503).json()["status"],
        "stopping"
    );
}

#[test]
fn metrics_count_events() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMELESS");
    server
        .put(
            "/queries/seen",
            "SELECT ?s FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s ?p ?o }",
        )
        .expect(201);
    server
        .push(&path, "500\t<http://e/a> <http://e/p> \"1\" .\n")
        .expect(200);
    server.advance(&path, 2000);
    server
        .engine
        .quiesce(Duration::from_secs(10))
        .expect("everything that is due is answered");
    server.get("/nowhere").expect(404);
    let reply = server.get("/metrics").expect(200);
    assert!(
        reply
            .header("content-type")
            .is_some_and(|media_type| media_type.starts_with("text/plain; version=0.0.4"))
    );
    let text = reply.text();
    let value = |sample: &str| -> f64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(sample))
            .unwrap_or_else(|| panic!("no {sample} in\n{text}"));
        line.trim().parse().expect("a number")
    };
    assert_eq!(value("somersault_tuples_total "), 1.0);
    assert_eq!(value("somersault_stored_statements "), 1.0);
    assert_eq!(
        value("somersault_stream_tuples_total{stream=\"http://e/s\"}"),
        1.0
    );
    assert_eq!(
        value("somersault_stream_complete_through_seconds{stream=\"http://e/s\"}"),
        2.0
    );
    assert!(value("somersault_stream_lag_seconds{stream=\"http://e/s\"}") >= 0.0);
    assert!(value("somersault_query_firings_total{query=\"seen\"}") >= 1.0);
    assert!(value("somersault_query_execution_seconds_count{query=\"seen\"}") >= 1.0);
    assert!(value("somersault_query_execution_seconds_bucket{query=\"seen\",le=\"+Inf\"}") >= 1.0);
    assert!(value("somersault_memory_bytes{part=\"dictionary\"}") > 0.0);
    assert!(value("somersault_shard_injected_total{shard=\"0\"}") >= 0.0);
    assert_eq!(
        value(
            "somersault_http_requests_total{route=\"/streams/{name}\",method=\"POST\",status=\"200\"}"
        ),
        1.0
    );
    assert_eq!(
        value("somersault_http_requests_total{route=\"other\",method=\"GET\",status=\"404\"}"),
        1.0
    );
}

/// The value of a sample in `/metrics`.
#[track_caller]
fn sample(server: &TestServer, name: &str) -> f64 {
    let reply = server.get("/metrics").expect(200);
    let text = reply.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    value.trim().parse().expect("a number")
}

#[test]
fn metrics_report_snapshot_memory_and_query_groups() {
    let mut config = engine_config();
    config.limits.query_time = Duration::from_secs(600);
    let server = TestServer::with(config, ServerConfig::default());
    let retained = || sample(&server, "somersault_retained_sns ");
    let bytes = || sample(&server, "somersault_snapshots_bytes ");
    let values: String = (0..400)
        .map(|i| format!("<http://e/s> <http://e/p> {i} .\n"))
        .collect();
    let turtle = [("Content-Type", "text/turtle")];
    server.send("PUT", "/store?default", &turtle, Some(values.as_bytes()));
    until("it is quiet", || retained() == 1.0);
    let quiet_bytes = bytes();
    // A query runs for longer than the test takes, until its client disconnects.
    let heavy = "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?p ?y . ?c ?p ?z . ?d ?p ?u FILTER(?x + ?y + ?z + ?u < 0) }";
    let mut socket = connect(server.address());
    let headers = [("Content-Type", "application/sparql-query")];
    let request = request_bytes("POST", "/query", &headers, Some(heavy.as_bytes()));
    socket.write_all(&request).expect("the request is sent");
    until("the query runs", || {
        sample(&server, "somersault_pins ") > 0.0
    });
    for value in 0..400 {
        server.update(&format!(
            "DELETE DATA {{ <http://e/s> <http://e/p> {value} }}"
        ));
    }
    assert!(retained() >= 2.0);
    assert!(bytes() > quiet_bytes);
    drop(socket);
    until("no query reads the snapshot", || retained() == 1.0);

    server.stream("s", "");
    for who in ["a", "b", "c"] {
        let text = format!(
            "SELECT ?o FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE {{ <http://e/{who}> <http://e/p> ?o }}"
        );
        server.put(&format!("/queries/{who}"), &text).expect(201);
    }
    assert_eq!(
        sample(&server, "somersault_query_group_members{query=\"a\"}"),
        3.0
    );
}

#[test]
fn the_description_and_the_index_page() {
    let server = TestServer::start();
    let json = server.get("/openapi.json").expect(200).json();
    assert_eq!(json["openapi"], "3.1.0");
    assert!(json["paths"]["/queries/{name}/results"]["get"].is_object());
    let text = server.get("/").expect(200);
    assert!(
        text.text().contains("/query") && text.text().contains("/queries/{name}/results"),
        "{}",
        text.text()
    );
    let html = server
        .get_as("/", "text/html,application/xhtml+xml,*/*;q=0.8")
        .expect(200);
    assert_eq!(
        html.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(html.text().starts_with("<!DOCTYPE html>"));
    server
        .get("/nowhere")
        .expect_error(404, "not_found", &["GET /"]);
}

#[test]
fn many_clients_at_once() {
    let server = TestServer::start();
    let paths: Vec<String> = (0..4)
        .map(|client| server.stream(&format!("s{client}"), "TIMELESS"))
        .collect();
    std::thread::scope(|scope| {
        for (client, path) in paths.iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                for push in 0..20 {
                    let line = format!("{push}\t<http://e/{client}-{push}> <http://e/p> \"x\" .\n");
                    server.push(path, &line).expect(200);
                    assert!(server.ask("ASK {}"));
                    server.update(&format!(
                        "INSERT DATA {{ <http://e/u{client}-{push}> <http://e/u> {push} }}"
                    ));
                }
            });
        }
    });
    server
        .post("/advance", "application/json", "{\"to_ms\": 1000}")
        .expect(200);
    assert_eq!(server.select("SELECT ?s { ?s <http://e/p> ?o }").len(), 80);
    assert_eq!(server.select("SELECT ?s { ?s <http://e/u> ?o }").len(), 80);
}

#[test]
fn one_connection_carries_many_requests() {
    let server = TestServer::start();
    let mut reader = BufReader::new(connect(server.address()));
    for _ in 0..5 {
        reader
            .get_mut()
            .write_all(&request_bytes("GET", "/health", &[], None))
            .expect("sent");
        let (status, headers) = read_head(&mut reader);
        assert_eq!(status, 200);
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .and_then(|(_, value)| value.parse().ok())
            .expect("a length");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body");
    }
}

#[test]
fn stopping_finishes_running_requests_and_takes_no_new_ones() {
    let mut server = TestServer::start();
    let path = server.stream("s", "");
    // The body of a request is still under way when the server is asked to stop.
    let body = b"1\t<http://e/a> <http://e/p> \"x\" .\n";
    let bytes = request_bytes(
        "POST",
        &path,
        &[("Content-Type", "text/tab-separated-values")],
        Some(body),
    );
    let (first, rest) = bytes.split_at(bytes.len() - 10);
    let mut socket = connect(server.address());
    socket.write_all(first).expect("sent");
    let idle = connect(server.address());
    std::thread::sleep(Duration::from_millis(100));
    let address = server.address();
    let stopping = std::thread::spawn(move || {
        let started = Instant::now();
        server.stop();
        (server, started.elapsed())
    });
    std::thread::sleep(Duration::from_millis(100));
    socket.write_all(rest).expect("sent");
    let (status, _) = read_head(&mut BufReader::new(socket));
    assert_eq!(status, 200);
    let (server, took) = stopping.join().expect("stopped");
    assert!(
        took < Duration::from_secs(9),
        "an idle connection does not use up the grace period: {took:?}"
    );
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!(server.engine.streams()[0].tuples, 1);
    drop(idle);
}

#[test]
fn a_restart_keeps_what_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || {
        let mut config = engine_config();
        config.data = Some(folder.path().to_owned());
        TestServer::with(config, ServerConfig::default())
    };
    let server = start();
    let path = server.stream("s", "TIMELESS");
    server.advance(&path, 0);
    server
        .put(
            "/queries/seen",
            "SELECT ?s FROM STREAM <http://e/s> [RANGE 2s STEP 1s] WHERE { GRAPH <http://e/s> { ?s ?p ?o } }",
        )
        .expect(201);
    let pushed = |server: &TestServer, second: i64| {
        let line = format!(
            "{}\t<http://e/{second}> <http://e/p> \"x\" .\n",
            second * 1000
        );
        let path = format!("{path}?source=one&seq={second}");
        server.push(&path, &line).expect(200).json()["repeated"].as_bool()
    };
    assert_eq!(pushed(&server, 0), Some(false));
    assert_eq!(pushed(&server, 1), Some(false));
    server.advance(&path, 2000);
    let mut events = server.events("/queries/seen/results", &[]);
    assert_eq!(events.firing()["close_ms"], 1000);
    assert_eq!(events.firing()["close_ms"], 2000);
    drop(events);
    drop(server);
    let server = start();
    assert_eq!(
        pushed(&server, 1),
        Some(true),
        "a repeat is known after the restart"
    );
    assert_eq!(pushed(&server, 2), Some(false));
    server.advance(&path, 3000);
    let mut events = server.events("/queries/seen/results", &[("Last-Event-ID", "2000")]);
    let firing = events.firing();
    assert_eq!(firing["close_ms"], 3000);
    assert_eq!(
        firing["results"]["results"]["bindings"]
            .as_array()
            .map(Vec::len),
        Some(2),
        "the window reaches back"
    );
    assert_eq!(server.select("SELECT ?s { ?s <http://e/p> ?o }").len(), 3);
}
