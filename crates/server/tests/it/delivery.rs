//! The delivery of answers: pieces make the whole, answers follow each other on one connection, a
//! slow reader sets the pace, and sending ends when the client disconnects.

use crate::client::{connect, read_body, read_head, read_reply, request_bytes, until};
use crate::server::{TestServer, encode, engine_config};
use somersault::{LoadOptions, QueryResultsFormat, RdfFormat};
use somersault_server::ServerConfig;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const QUERY: &str = "application/sparql-query";
const ALL: &str = "SELECT ?s ?o { ?s <http://e/p> ?o }";
/// More than the large answers that are sent at one time.
const MANY: usize = 80;

/// A server with an answer of some megabytes to [`ALL`].
fn server_with(triples: usize) -> TestServer {
    let server = TestServer::start();
    let data: String = (0..triples)
        .map(|i| format!("<http://e/s{i}> <http://e/p> \"\\\"value\\\" <{i}>, & tail\\n\" .\n"))
        .collect();
    let format = RdfFormat::NTriples;
    let loaded = server.engine.load(
        std::io::Cursor::new(data.into_bytes()),
        format,
        LoadOptions::default(),
    );
    assert_eq!(loaded.expect("it loads").stored as usize, triples);
    server
}

/// Asks for everything and leaves the answer in the socket.
fn ask_for_all(server: &TestServer) -> TcpStream {
    let mut socket = connect(server.address());
    let headers = [("Content-Type", QUERY)];
    let bytes = request_bytes("POST", "/query", &headers, Some(ALL.as_bytes()));
    socket.write_all(&bytes).expect("the request is sent");
    socket
}

#[test]
fn pieces_make_the_whole_in_every_format() {
    let server = server_with(40_000);
    let found = server.engine.query(ALL).run().expect("answered");
    for format in [
        QueryResultsFormat::Json,
        QueryResultsFormat::Xml,
        QueryResultsFormat::Csv,
        QueryResultsFormat::Tsv,
    ] {
        let mut whole = Vec::new();
        let wrote = found.answer.write_results(format, &mut whole);
        wrote.expect("it is written");
        let accept = [("Content-Type", QUERY), ("Accept", format.media_type())];
        let reply = server
            .send("POST", "/query", &accept, Some(ALL.as_bytes()))
            .expect(200);
        assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
        assert!(reply.complete);
        assert!(reply.body == whole, "{format}");
        let few = format!("{ALL} LIMIT 100");
        let reply = server
            .send("POST", "/query", &accept, Some(few.as_bytes()))
            .expect(200);
        let length = reply.body.len().to_string();
        assert_eq!(reply.header("content-length"), Some(length.as_str()));
    }
}

#[test]
fn requests_in_a_row_on_one_connection() {
    let server = server_with(20_000);
    let one = format!("/query?query={}", encode("SELECT (1 + 1 AS ?n) {}"));
    let all = format!("/query?query={}", encode(ALL));
    let mut bytes = Vec::new();
    for (method, path) in [
        ("GET", &one),
        ("HEAD", &one),
        ("GET", &all),
        ("HEAD", &all),
        ("GET", &one),
    ] {
        bytes.extend(request_bytes(method, path, &[("Accept", "text/csv")], None));
    }
    let mut socket = connect(server.address());
    socket.write_all(&bytes).expect("they are sent");
    let mut reader = BufReader::new(socket);
    let small = read_reply(&mut reader, false).expect(200);
    assert_eq!(small.text(), "n\r\n2\r\n");
    let head = read_reply(&mut reader, true).expect(200);
    assert_eq!(
        head.header("content-length"),
        small.header("content-length")
    );
    assert_eq!(head.header("content-type"), small.header("content-type"));
    let large = read_reply(&mut reader, false).expect(200);
    assert!(large.complete);
    // A line end stands in each value, inside its quotes.
    assert_eq!(large.text().matches("http://e/s").count(), 20_000);
    read_reply(&mut reader, true).expect(200);
    assert_eq!(
        read_reply(&mut reader, false).expect(200).text(),
        "n\r\n2\r\n"
    );
}

#[test]
fn slow_readers_hold_no_pin_and_no_thread() {
    let server = server_with(60_000);
    let slow = std::iter::repeat_with(|| BufReader::new(ask_for_all(&server)));
    let mut readers: Vec<_> = slow.take(32).collect();
    let heads: Vec<_> = readers.iter_mut().map(read_head).collect();
    assert!(heads.iter().all(|(status, _)| *status == 200));
    until("no pin is left", || server.engine.metrics().pins == 0);
    server.update("INSERT DATA { <http://e/new> <http://e/p> 1 }");
    assert!(server.ask("ASK { <http://e/new> <http://e/p> 1 }"));
    // They get the state at the time of their request, however late they read it.
    for (reader, head) in readers.iter_mut().zip(heads).take(2) {
        let reply = read_body(reader, head, false);
        assert!(reply.complete);
        let rows = reply.json()["results"]["bindings"].as_array().map(Vec::len);
        assert_eq!(rows, Some(60_000));
    }
}

#[test]
fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    let server = server_with(60_000);
    for _ in 0..MANY {
        let mut socket = ask_for_all(&server);
        let mut some = [0; 1000];
        socket.read_exact(&mut some).expect("a beginning");
        drop(socket);
    }
    // Every place for a large answer is free again, or becomes so.
    until("a large answer is sent", || {
        let headers = [("Content-Type", QUERY)];
        let reply = server.send("POST", "/query", &headers, Some(ALL.as_bytes()));
        reply.status == 200 && reply.complete
    });
    assert_eq!(server.engine.metrics().pins, 0);
}

#[test]
fn a_query_ends_when_its_client_hangs_up() {
    let mut config = engine_config();
    config.limits.query_time = Duration::from_secs(600);
    let server = TestServer::with(config, ServerConfig::default());
    let values: String = (0..400)
        .map(|i| format!("<http://e/s{i}> <http://e/p> {i} .\n"))
        .collect();
    let turtle = [("Content-Type", "text/turtle")];
    server.send("PUT", "/store?default", &turtle, Some(values.as_bytes()));
    let heavy = "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?p ?y . ?c ?p ?z . ?d ?p ?u FILTER(?x + ?y + ?z + ?u < 0) }";
    let mut socket = connect(server.address());
    let headers = [("Content-Type", QUERY)];
    let bytes = request_bytes("POST", "/query", &headers, Some(heavy.as_bytes()));
    socket.write_all(&bytes).expect("the request is sent");
    until("the query runs", || server.engine.metrics().pins > 0);
    drop(socket);
    until("the query is given up", || {
        let metrics = server.engine.metrics();
        metrics.pins == 0 && metrics.one_shot_failed == 1
    });
}
