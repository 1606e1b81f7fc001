//! A server that is full: of queries, of connections that idle, of connections that are in use.

use crate::client::{Events, connect, read_reply, request_bytes, until};
use crate::server::{TestServer, encode, engine_config};
use somersault_server::ServerConfig;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

const QUERY: &str = "application/sparql-query";
/// Runs until its client disconnects.
const HEAVY: &str = "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?p ?y . ?c ?p ?z . ?d ?p ?u FILTER(?x + ?y + ?z + ?u < 0) }";

/// Asks, and leaves the answer in the socket.
fn ask(server: &TestServer, query: &str) -> TcpStream {
    let mut socket = connect(server.address());
    let headers = [("Content-Type", QUERY)];
    let bytes = request_bytes("POST", "/query", &headers, Some(query.as_bytes()));
    socket.write_all(&bytes).expect("the request is sent");
    socket
}

#[test]
fn queries_beyond_the_limit_come_again_later_and_light_ones_are_answered() {
    let mut config = engine_config();
    config.limits.query_time = Duration::from_secs(600);
    config.limits.concurrent_queries = 1;
    // Even a slow machine answers a light query within this time.
    config.in_place_time = Duration::from_secs(5);
    let server = TestServer::with(config, ServerConfig::default());
    let values: String = (0..400)
        .map(|i| format!("<http://e/s{i}> <http://e/p> {i} .\n"))
        .collect();
    let turtle = [("Content-Type", "text/turtle")];
    server.send("PUT", "/store?default", &turtle, Some(values.as_bytes()));
    let busy = ask(&server, HEAVY);
    until("the query runs", || server.engine.metrics().pins > 0);
    let refused = server.post("/query", QUERY, HEAVY);
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.expect_error(503, "busy", &["one-shot queries"]);
    assert!(server.ask("ASK { <http://e/s1> <http://e/p> 1 }"));
    drop(busy);
}

/// The body of the request is not read, so the connection can carry no further request.
#[test]
fn an_early_error_says_that_the_connection_ends() {
    let server = TestServer::start();
    let answer = |bytes: &[u8]| {
        let mut socket = connect(server.address());
        socket.write_all(bytes).expect("sent");
        read_reply(&mut BufReader::new(socket), false)
    };
    let body = b"<http://e/s> <http://e/p> 1 .";
    let early = answer(&request_bytes(
        "POST",
        "/streams/none?unknown=1",
        &[("Content-Type", "text/turtle")],
        Some(body),
    ));
    assert_eq!(early.header("connection"), Some("close"));
    early.expect_error(400, "unknown_parameter", &[]);
    let late = answer(&request_bytes(
        "POST",
        "/query",
        &[("Content-Type", QUERY)],
        Some(b"ASK"),
    ));
    assert_eq!(late.header("connection"), None, "the body was read");
    late.expect_error(400, "syntax", &[]);
    let without = answer(&request_bytes("GET", "/nothing", &[], None));
    assert_eq!(without.header("connection"), None, "there is no body");
    without.expect(404);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let server = TestServer::start();
    let update = "\u{feff}INSERT DATA { <http://e/s> <http://e/p> 1 }";
    server.update(update);
    assert!(server.ask("\u{feff}ASK { <http://e/s> <http://e/p> 1 }"));
    let query = encode("\u{feff}ASK { <http://e/s> <http://e/p> 1 }");
    server.get(&format!("/query?query={query}")).expect(200);
    let form = format!("query={query}");
    server
        .post("/query", "application/x-www-form-urlencoded", &form)
        .expect(200);
    // The mark does not count as a column.
    let error = server.post("/query", QUERY, "\u{feff}ASQ {}");
    let error = error.expect_error(400, "syntax", &[]);
    assert_eq!(error["column"], 1);
}

/// The maximum number of connections, all of them idle: some after a request, some before one, some
/// within its head. None of them times out within this test.
#[test]
fn idle_connections_make_way() {
    let mut config = ServerConfig::default();
    config.connections = 9;
    config.head_timeout = Duration::from_secs(3600);
    let server = TestServer::with(engine_config(), config);
    let mut idle: Vec<TcpStream> = Vec::new();
    for round in 0..18 {
        let mut socket = connect(server.address());
        match round % 3 {
            0 => {
                let bytes = request_bytes("GET", "/query?query=ASK%7B%7D", &[], None);
                socket.write_all(&bytes).expect("sent");
                read_reply(&mut BufReader::new(&socket), false).expect(200);
            }
            1 => socket
                .write_all(b"GET /query HTTP/1.1\r\nHo")
                .expect("sent"),
            _ => {}
        }
        idle.push(socket);
    }
    server.get("/health").expect(200);
    assert!(server.ask("ASK {}"));
    // The longest idle ones were closed first; this one is the newest that had an answer.
    let newest = &idle[15];
    (&mut &*newest)
        .write_all(&request_bytes("GET", "/health", &[], None))
        .expect("sent");
    read_reply(&mut BufReader::new(newest), false).expect(200);
}

/// The maximum number of connections, each in the middle of an answer.
#[test]
fn a_server_whose_connections_are_all_in_use_says_so() {
    let mut config = ServerConfig::default();
    config.connections = 2;
    let server = TestServer::with(engine_config(), config);
    server.stream("s", "");
    let text = "SELECT ?s FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s ?p ?o }";
    server.put("/queries/q", text).expect(201);
    let results = "/queries/q/results";
    let mut readers: Vec<Events> = (0..2).map(|_| server.events(results, &[])).collect();
    assert!(readers.iter_mut().all(Events::comment));
    let refused = server.get("/queries");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("connection"), Some("close"));
    refused.expect_error(503, "busy", &["connections"]);
    for probe in ["/health", "/livez", "/ready"] {
        server.get(probe).expect(200);
    }
    readers.pop();
    until("there is room again", || {
        server.get("/queries").status == 200
    });
}
