//! Any query string, headers and body at each address of the server: answered, and never with an
//! internal error. This is the way to percent-encoding, parameters, media types, multipart bodies,
//! documents of all RDF syntaxes, `Last-Event-ID` and the rest that the server reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault::{Engine, EngineConfig};
use somersault_server::{Running, ServerConfig};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];
const ADDRESSES: [&str; 14] = [
    "/query",
    "/update",
    "/explain",
    "/sparql",
    "/store",
    "/store/",
    "/streams",
    "/streams/s",
    "/streams/s/advance",
    "/advance",
    "/queries",
    "/queries/q",
    "/queries/q/results",
    "/queries:batch",
];
const CONTENT_TYPES: [&str; 10] = [
    "application/sparql-query",
    "application/sparql-update",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "application/n-triples",
    "application/n-quads",
    "text/turtle",
    "application/ld+json",
    "application/rdf+xml",
    "application/json",
];

static SERVER: LazyLock<Running> = LazyLock::new(|| {
    let config = EngineConfig {
        workers: 1,
        query_threads: 1,
        ..EngineConfig::default()
    };
    let engine = Engine::open(config).expect("an engine without a folder opens");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    Running::start(engine, listener, ServerConfig::default()).expect("the server starts")
});

/// What may stand in the head of a request; the rest is refused before the server reads it.
fn head_text(text: &str, also: char) -> String {
    let allowed = |c: &char| c.is_ascii_graphic() || *c == also;
    text.chars().filter(allowed).collect()
}

fuzz_target!(|request: (u8, u8, u8, &str, &str, &str, &[u8])| {
    let (method, address, content, query, accept, event, body) = request;
    let of = |list: &[&'static str], at: u8| list[usize::from(at) % list.len()];
    let (method, address) = (of(&METHODS, method), of(&ADDRESSES, address));
    let head = format!(
        "{method} {address}?{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         accept: {}\r\nlast-event-id: {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
        head_text(query, '&'),
        head_text(accept, ' '),
        head_text(event, ' '),
        of(&CONTENT_TYPES, content),
        body.len()
    );
    let mut connection = TcpStream::connect(SERVER.address()).expect("the server listens");
    let limit = Some(Duration::from_secs(30));
    connection
        .set_read_timeout(limit)
        .expect("a time limit can be set");
    // A server that refuses a head may close before it has read the body.
    let _ = connection
        .write_all(head.as_bytes())
        .and_then(|()| connection.write_all(body));
    let mut status = [0; 12];
    connection
        .read_exact(&mut status)
        .expect("the server answers");
    assert!(
        status.starts_with(b"HTTP/1.1 ") && &status[9..] != b"500",
        "{head}"
    );
});
