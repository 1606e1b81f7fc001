//! Clients that are slow, oversized, malformed, or not where they claim to be.

use crate::client::{PATIENCE, connect, exchange, read_reply, request_bytes, until};
use crate::server::{TestServer, engine_config};
use somersault_server::{Cors, ServerConfig};
use std::io::{BufReader, Read, Write};
use std::time::{Duration, Instant};

fn impatient() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.head_timeout = Duration::from_millis(300);
    config.stall_timeout = Duration::from_millis(800);
    config
}

#[test]
fn a_client_that_never_finishes_its_head_is_cut_off() {
    let server = TestServer::with(engine_config(), impatient());
    let mut sockets: Vec<_> = (0..20).map(|_| connect(server.address())).collect();
    let started = Instant::now();
    for socket in &mut sockets {
        socket
            .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            .expect("sent");
    }
    for mut socket in sockets {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    assert!(started.elapsed() < PATIENCE);
    server.get("/health").expect(200);
}

#[test]
fn a_client_that_stops_in_its_body_is_told() {
    let server = TestServer::with(engine_config(), impatient());
    let head = b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nContent-Length: 100\r\n\r\nASK";
    exchange(server.address(), head, false).expect_error(408, "stalled_body", &[]);
}

#[test]
fn a_client_that_stops_reading_is_cut_off() {
    let mut config = impatient();
    config.connections = 1;
    let server = TestServer::with(engine_config(), config);
    let triples: String = (0..60_000)
        .map(|i| format!("<http://e/s{i}> <http://e/p> \"{}\" .\n", "x".repeat(100)))
        .collect();
    server
        .send(
            "PUT",
            "/store?default",
            &[("Content-Type", "application/n-triples")],
            Some(triples.as_bytes()),
        )
        .expect(200);
    let mut socket = connect(server.address());
    socket
        .write_all(&request_bytes(
            "GET",
            "/store?default",
            &[("Accept", "application/n-triples")],
            None,
        ))
        .expect("sent");
    socket.peek(&mut [0]).expect("the answer begins");
    // Only one connection is allowed: others are refused until that of the other client has ended.
    until("there is room again", || {
        server.get("/queries").status == 200
    });
    let mut taken = Vec::new();
    let _ = socket.read_to_end(&mut taken);
    assert!(
        taken.len() < triples.len(),
        "the rest was not sent to a client that did not read"
    );
    assert!(
        !taken.ends_with(b"0\r\n\r\n"),
        "the answer must not look complete"
    );
}

#[test]
fn heads_have_a_limit() {
    let server = TestServer::start();
    let long = |length: usize| {
        let long = "x".repeat(length);
        let head = request_bytes("GET", "/health", &[("X-Long", &long)], None);
        exchange(server.address(), &head, false)
    };
    long(60_000).expect(200);
    for length in [66_000, 100_000, 120_000] {
        long(length).expect_error(431, "head_too_large", &["65536", "POST"]);
    }
    // Hyper answers this one, before the head is complete.
    long(200_000).expect(431);
    let lines = |count: usize| {
        let names: Vec<String> = (0..count).map(|i| format!("X-{i}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "y")).collect();
        let head = request_bytes("GET", "/health", &many, None);
        exchange(server.address(), &head, false)
    };
    lines(90).expect(200);
    lines(150).expect_error(431, "head_too_large", &["100"]);
    lines(500).expect(431);
    server.get("/health").expect(200);
}

/// The limit holds however the head arrives, and a refused head does not disturb the next one.
#[test]
fn a_long_head_in_pieces_is_refused_and_its_connection_goes_on() {
    let server = TestServer::start();
    let long = "x".repeat(100_000);
    let head = request_bytes("GET", "/health", &[("X-Long", &long)], None);
    let mut socket = connect(server.address());
    for piece in head.chunks(9_000) {
        socket.write_all(piece).expect("sent");
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
    read_reply(&mut reader, false).expect_error(431, "head_too_large", &["65536"]);
    let next = request_bytes("GET", "/health", &[], None);
    socket.write_all(&next).expect("sent");
    read_reply(&mut reader, false).expect(200);
}

#[test]
fn malformed_requests_end_their_connection_only() {
    let server = TestServer::start();
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nBad Header: x\r\n\r\n",
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nASK {}",
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut socket = connect(server.address());
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    server.get("/health").expect(200);
}

#[test]
fn bodies_over_the_limit() {
    let mut config = ServerConfig::default();
    config.body_limit = 1000;
    let server = TestServer::with(engine_config(), config);
    let long = " ".repeat(1001);
    server
        .post("/query", "application/sparql-query", &long)
        .expect_error(
            413,
            "body_too_large",
            &["1000 bytes", "1001", "--body-bytes"],
        );
    let mut chunked = b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".to_vec();
    for _ in 0..20 {
        chunked.extend_from_slice(format!("64\r\n{}\r\n", " ".repeat(100)).as_bytes());
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    exchange(server.address(), &chunked, false).expect_error(
        413,
        "body_too_large",
        &["1000 bytes"],
    );
    let fits = format!("ASK {{}}{}", " ".repeat(994));
    server
        .post("/query", "application/sparql-query", &fits)
        .expect(200);
    let huge = vec![b' '; 3_000_000];
    server
        .send(
            "POST",
            "/query",
            &[("Content-Type", "application/sparql-query")],
            Some(&huge),
        )
        .expect(413);
}

#[test]
fn texts_have_a_limit_of_their_own() {
    let (mut engine, mut config) = (engine_config(), ServerConfig::default());
    engine.limits.query_text_bytes = 1000;
    config.text_limit = 1000;
    let server = TestServer::with(engine, config);
    let spaces = |count: usize| format!("ASK {{}}{}", " ".repeat(count));
    let query = "application/sparql-query";
    server.post("/query", query, &spaces(994)).expect(200);
    let words = ["1000 bytes", "--text-bytes"];
    for (address, media_type) in [
        ("/query", query),
        ("/explain", query),
        ("/update", "application/sparql-update"),
    ] {
        let refused = server.post(address, media_type, &spaces(995));
        refused.expect_error(413, "text_too_large", &words);
    }
    for address in ["/queries/q", "/streams/s"] {
        let refused = server.put(address, &spaces(995));
        refused.expect_error(413, "text_too_large", &words);
    }
    let form = "application/x-www-form-urlencoded";
    let escaped = format!("query=ASK+%7B%7D{}", "%20".repeat(994));
    server.post("/query", form, &escaped).expect(200);
    let longer = server.post("/query", form, &format!("{escaped}+"));
    longer.expect_error(413, "text_too_large", &["query_text_bytes"]);
    let huge = server.post("/query", form, &"x".repeat(80_000));
    huge.expect_error(413, "text_too_large", &["--text-bytes"]);
    // Data are no text.
    let data = format!("<http://e/s> <http://e/p> \"{}\" .", "x".repeat(5000));
    server
        .post("/store?default", "application/n-triples", &data)
        .expect(200);
}

/// An overflow of a stack would end the process.
#[test]
fn the_deepest_texts_fit_into_the_stacks() {
    let server = TestServer::start();
    let stream = "http://e/s";
    server.stream("s", "");
    let columns: Vec<String> = (0..490).map(|n| format!("(1 AS ?c{n})")).collect();
    let nested = |link: &str, links: usize| {
        let level = format!("{}}}", link.repeat(links));
        format!("SELECT * {{ {}{{}} {} }}", "{".repeat(10), level.repeat(10))
    };
    let sum = format!(
        "({}1{}",
        "(".repeat(9),
        format!("{})", "+1".repeat(97)).repeat(10)
    );
    let texts = [
        format!("SELECT {} {{ ?x ?p ?o }}", columns.join(" ")),
        format!("SELECT * {{ {} }}", "?x <http://e/p>? ?o . ".repeat(490)),
        format!("SELECT ?x {{ ?x ?p ?o FILTER({sum} > 1) }}"),
        nested(" UNION {?x ?y 1}", 48),
        nested(" OPTIONAL {?x ?y 1}", 48),
        nested(" MINUS {?x ?y 1}", 48),
    ];
    for (number, text) in texts.iter().enumerate() {
        for address in ["/query", "/explain"] {
            let reply = server.post(address, "application/sparql-query", text);
            assert_eq!(reply.status, 200, "{address} {text}: {}", reply.text());
        }
        let windows = format!(" FROM NAMED STREAM <{stream}> [RANGE 1s STEP 1s] {{");
        let registered = server.put(
            &format!("/queries/q{number}"),
            &text.replacen(" {", &windows, 1),
        );
        assert!(
            matches!(registered.status, 201 | 400),
            "{}",
            registered.text()
        );
    }
    server.advance("/streams/http%3A%2F%2Fe%2Fs", 5_000);
    assert!(server.ask("ASK {}"));
}

/// JSON-LD for which the parser copies 1,500 terms at each of its nodes.
fn slow_document() -> String {
    let terms: Vec<String> = (0..1_500)
        .map(|term| format!("\"t{term}\":\"http://e/{term}\""))
        .collect();
    let nodes = vec!["{\"@context\":{\"z\":\"http://e/z\"},\"z\":1}"; 40_000].join(",");
    let context = terms.join(",");
    format!("{{\"@context\":{{{context}}},\"@graph\":[{nodes}]}}")
}

/// A request with the document, alone or as a part of several.
fn slow_request(is_part: bool) -> Vec<u8> {
    let document = slow_document();
    let (media_type, body) = match is_part {
        false => ("application/ld+json", document),
        true => (
            "multipart/form-data; boundary=b",
            format!("--b\r\nContent-Type: application/ld+json\r\n\r\n{document}\r\n--b--\r\n"),
        ),
    };
    let headers = [("Content-Type", media_type)];
    request_bytes("PUT", "/store?default", &headers, Some(body.as_bytes()))
}

#[test]
fn documents_that_are_read_for_long_hold_up_no_other_client() {
    let server = TestServer::start();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let mut uploads = Vec::new();
    for number in 0..2 * cores {
        let mut socket = connect(server.address());
        let request = slow_request(number % 2 == 0);
        socket.write_all(&request).expect("sent");
        uploads.push(socket);
    }
    for number in 0..20 {
        server.get("/health").expect(200);
        assert!(!server.ask("ASK { ?s ?p ?o }"));
        let text = format!(
            "INSERT DATA {{ GRAPH <http://e/g> {{ <http://e/s> <http://e/p> {number} }} }}"
        );
        server.update(&text);
    }
    for upload in &uploads {
        upload.set_nonblocking(true).expect("a socket can be asked");
        let answer = upload.peek(&mut [0]);
        assert!(answer.is_err(), "it is still being read");
    }
    // Reading ends when its client is gone: others get their turn.
    drop(uploads);
    let filled = format!("[{}{{}}]", "{},".repeat(10_000));
    server
        .post("/store?default", "application/ld+json", &filled)
        .expect(200);
    assert!(!server.ask("ASK { ?s ?p ?o }"));
}

#[test]
fn reading_a_document_has_a_time_limit() {
    let mut config = ServerConfig::default();
    config.document_time = Duration::from_millis(200);
    let server = TestServer::with(engine_config(), config);
    let path = server.stream("s", "ARRIVAL TIME");
    for is_part in [false, true] {
        let refused = exchange(server.address(), &slow_request(is_part), false);
        refused.expect_error(422, "document_time", &["0.2 s", "Nothing"]);
    }
    let pushed = server.post(&path, "application/ld+json", &slow_document());
    pushed.expect_error(422, "document_time", &["Nothing"]);
    assert!(!server.ask("ASK { ?s ?p ?o }"));
}

#[test]
fn bodies_over_the_servers_budget() {
    let mut config = ServerConfig::default();
    config.body_budget = 64 * 1024;
    let server = TestServer::with(engine_config(), config);
    let reply = server.send(
        "POST",
        "/query",
        &[("Content-Type", "application/sparql-query")],
        Some(&vec![b' '; 500_000]),
    );
    assert_eq!(reply.header("retry-after"), Some("1"));
    reply.expect_error(503, "busy", &[]);
    assert!(server.ask("ASK {}"));
}

#[test]
fn pages_of_other_sites_may_neither_write_nor_read() {
    let server = TestServer::start();
    let clear = |headers: &[(&str, &str)]| {
        let mut all = vec![("Content-Type", "application/x-www-form-urlencoded")];
        all.extend_from_slice(headers);
        server.send("POST", "/update", &all, Some(b"update=CLEAR+ALL"))
    };
    clear(&[("Origin", "http://evil.example")]).expect_error(
        403,
        "foreign_origin",
        &["http://evil.example", "--cors"],
    );
    clear(&[("Origin", "null")]).expect_error(403, "foreign_origin", &[]);
    let own = ("Origin", "http://localhost");
    clear(&[own, ("Host", "localhost")]).expect(200);
    clear(&[]).expect(200);
    // Another scheme or port is another origin, and several origins are refused.
    for other in [
        "https://localhost",
        "http://localhost:81",
        "http://127.0.0.1",
    ] {
        clear(&[("Origin", other)]).expect_error(403, "foreign_origin", &[other]);
    }
    let foreign = ("Origin", "http://evil.example");
    clear(&[own, foreign]).expect_error(403, "foreign_origin", &["several"]);
    let read = server.send("GET", "/health", &[foreign], None);
    assert_eq!(read.header("access-control-allow-origin"), None);
    read.expect_error(403, "foreign_origin", &[]);
    server.send("GET", "/health", &[own], None).expect(200);
}

/// A page of `evil.example`, a name that the browser now resolves to 127.0.0.1.
#[test]
fn a_name_that_was_rebound_reaches_nothing() {
    let server = TestServer::start();
    let port = server.address().port();
    let evil = format!("evil.example:{port}");
    let origin = format!("http://{evil}");
    let headers = [
        ("Host", evil.as_str()),
        ("Origin", origin.as_str()),
        ("Content-Type", "application/sparql-update"),
    ];
    let refused = server.send("POST", "/update", &headers, Some(b"CLEAR ALL"));
    refused.expect_error(421, "misdirected", &["evil.example", "--allowed-host"]);
    let read = server.send("GET", "/store?default", &headers[..1], None);
    read.expect_error(421, "misdirected", &[]);
    // The host of an absolute request target replaces that of the header.
    let absolute = |target: &str| {
        let bytes =
            format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        exchange(server.address(), bytes.as_bytes(), false)
    };
    absolute(&format!("http://{evil}/health")).expect_error(421, "misdirected", &[]);
    absolute(&format!("http://127.0.0.1:{port}/health")).expect(200);
    for good in ["localhost:1", "127.0.0.1", "[::1]:80", "graph.localhost"] {
        server
            .send("GET", "/health", &[("Host", good)], None)
            .expect(200);
    }
}

#[test]
fn a_request_names_one_host() {
    let server = TestServer::start();
    for head in [
        "GET /health HTTP/1.1\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
        "GET /health HTTP/1.1\r\nHost: a/b>c\r\n",
        "GET /health HTTP/1.1\r\nHost:\r\n",
    ] {
        let bytes = format!("{head}Connection: close\r\n\r\n");
        exchange(server.address(), bytes.as_bytes(), false).expect_error(400, "bad_host", &[]);
    }
    exchange(server.address(), b"GET /health HTTP/1.0\r\n\r\n", false).expect(200);
}

#[test]
fn hosts_that_are_allowed_are_answered() {
    let mut config = ServerConfig::default();
    config.allowed_hosts = vec!["graph.example".to_owned()];
    config.public_url = Some("https://www.example".to_owned());
    let server = TestServer::with(engine_config(), config);
    let ask = |host: &str, origin: &str| {
        let headers = [("Host", host), ("Origin", origin)];
        server.send("GET", "/health", &headers, None).status
    };
    assert_eq!(ask("graph.example", "http://graph.example"), 200);
    assert_eq!(ask("www.example", "https://www.example"), 200);
    assert_eq!(ask("localhost", "https://www.example"), 200);
    assert_eq!(ask("localhost", "http://www.example"), 403);
    assert_eq!(ask("evil.example", "http://evil.example"), 421);
}

#[test]
fn cors_where_it_is_asked_for() {
    let mut config = ServerConfig::default();
    config.cors = Cors::Origins(vec!["https://console.example".to_owned()]);
    let server = TestServer::with(engine_config(), config);
    let origin = ("Origin", "https://console.example");
    let preflight = server
        .send(
            "OPTIONS",
            "/update",
            &[origin, ("Access-Control-Request-Method", "POST")],
            None,
        )
        .expect(204);
    assert_eq!(
        preflight.header("access-control-allow-origin"),
        Some("https://console.example")
    );
    assert!(
        preflight
            .header("access-control-allow-methods")
            .is_some_and(|methods| methods.contains("PUT"))
    );
    let read = server.send("GET", "/health", &[origin], None).expect(200);
    assert_eq!(
        read.header("access-control-allow-origin"),
        Some("https://console.example")
    );
    server
        .send(
            "POST",
            "/update",
            &[origin, ("Content-Type", "application/sparql-update")],
            Some(b"CLEAR ALL"),
        )
        .expect(200);
    server
        .send(
            "POST",
            "/update",
            &[("Origin", "https://other.example")],
            Some(b""),
        )
        .expect(403);
    server.send("OPTIONS", "/update", &[], None).expect(405);
}

#[test]
fn a_host_that_lies_breaks_nothing() {
    let server = TestServer::start();
    let reply = server.send(
        "POST",
        "/store",
        &[("Host", "a/b>c"), ("Content-Type", "text/turtle")],
        Some(b"<http://e/a> <http://e/p> 1 ."),
    );
    reply.expect_error(400, "bad_host", &[]);
    assert!(!server.ask("ASK { GRAPH ?g { ?s ?p ?o } }"));
    let injected = server.get("/streams/x%0D%0ASet-Cookie%3A%20a%3Db");
    assert_eq!(injected.header("set-cookie"), None);
    assert_eq!(injected.status, 400);
}

/// The JSON-LD parser defines a term after the terms that it is made of, by recursion.
#[test]
fn a_context_of_terms_made_of_each_other_does_not_end_the_server() {
    let server = TestServer::start();
    let path = server.stream("s", "ARRIVAL TIME");
    let of = |terms: usize| {
        let terms: Vec<String> = (0..terms)
            .map(|term| format!("\"a{term}\":\"a{}:x\"", term + 1))
            .collect();
        format!(
            "{{\"@context\":{{{}}},\"@id\":\"http://e/s\",\"a0\":\"x\"}}",
            terms.join(",")
        )
    };
    let json_ld = "application/ld+json";
    for address in ["/store?default", &path] {
        let refused = server.post(address, json_ld, &of(50_000));
        refused.expect_error(400, "nested_too_deeply", &["context"]);
        let taken = server.post(address, json_ld, &of(60));
        assert!(matches!(taken.status, 200 | 201), "{}", taken.text());
    }
}

/// A body in an unknown transfer coding would be taken as it is, still packed.
#[test]
fn unknown_transfer_codings_are_refused() {
    let server = TestServer::start();
    let send = |coding: &str| {
        let head = format!(
            "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nTransfer-Encoding: {coding}\r\n\r\n6\r\nASK {{}}\r\n0\r\n\r\n"
        );
        exchange(server.address(), head.as_bytes(), false)
    };
    send("chunked").expect(200);
    send("gzip, chunked").expect_error(501, "unsupported_encoding", &["chunked"]);
}
