//! Packed bodies and packed answers.

use crate::server::{TestServer, encode, engine_config};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use somersault_server::ServerConfig;
use std::io::{Read, Write};

const UPDATE: &str = "application/sparql-update";

fn packed(coding: &str, bytes: &[u8]) -> Vec<u8> {
    if coding == "zstd" {
        return zstd::stream::encode_all(bytes, 3).expect("memory");
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn unpacked(coding: &str, bytes: &[u8]) -> Vec<u8> {
    if coding == "zstd" {
        return zstd::stream::decode_all(bytes).expect("it is packed so");
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes)
        .read_to_end(&mut unpacked)
        .expect("it is packed so");
    unpacked
}

#[test]
fn bodies_of_all_kinds_may_be_packed() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMELESS TIMESTAMP <http://e/at>");
    for (coding, n) in [("gzip", 1), ("zstd", 2)] {
        let send = |path: &str, media_type: &str, body: &str| {
            let headers = [("Content-Type", media_type), ("Content-Encoding", coding)];
            server.send(
                "POST",
                path,
                &headers,
                Some(&packed(coding, body.as_bytes())),
            )
        };
        let update = format!("INSERT DATA {{ <http://e/u{n}> <http://e/p> 1 }}");
        send("/update", UPDATE, &update).expect(200);
        let graph = format!("/store?graph={}", encode(&format!("http://e/g{n}")));
        send(&graph, "text/turtle", "<http://e/a> <http://e/p> 1 .").expect(201);
        let messages = format!(
            "<http://e/m{n}> <http://e/at> {n}000 .\nMESSAGE\n<http://e/x{n}> <http://e/at> {n}500 ."
        );
        let answer = send(&path, "text/turtle;version=1.2-messages", &messages);
        assert_eq!(answer.expect(200).json()["taken"], json!(2));
        assert!(server.ask(&format!(
            "ASK {{ <http://e/u{n}> ?p 1 GRAPH <http://e/g{n}> {{ ?s ?p 1 }} }}"
        )));
    }
}

#[test]
fn what_unpacks_to_too_much_is_refused() {
    let mut config = ServerConfig::default();
    (config.body_limit, config.text_limit) = (1 << 20, 1 << 16);
    let server = TestServer::with(engine_config(), config);
    let path = server.stream("s", "TIMESTAMP <http://e/at>");
    let bomb = vec![b' '; 64 << 20];
    for coding in ["gzip", "zstd"] {
        let bomb = packed(coding, &bomb);
        assert!(bomb.len() < 1 << 17);
        for (path, media_type, code) in [
            ("/store?default", "text/turtle", "body_too_large"),
            ("/update", UPDATE, "text_too_large"),
            (&*path, "application/n-quads", "body_too_large"),
            (
                &*path,
                "application/n-quads;version=1.2-messages",
                "body_too_large",
            ),
        ] {
            let headers = [("Content-Type", media_type), ("Content-Encoding", coding)];
            let reply = server.send("POST", path, &headers, Some(&bomb));
            reply.expect_error(413, code, &[]);
        }
    }
}

#[test]
fn what_is_not_packed_as_it_says_is_refused() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMESTAMP <http://e/at>");
    let whole = packed(
        "gzip",
        b"<http://e/a> <http://e/at> 1 .\nMESSAGE\n<http://e/b> <http://e/at> 2 .",
    );
    let messages = "text/turtle;version=1.2-messages";
    for (coding, body) in [
        ("gzip", &b"plain"[..]),
        ("zstd", b"plain"),
        ("gzip", &whole[..whole.len() - 9]),
    ] {
        for media_type in ["text/turtle", messages] {
            let headers = [("Content-Type", media_type), ("Content-Encoding", coding)];
            let reply = server.send("POST", &path, &headers, Some(body));
            reply.expect_error(400, "bad_encoding", &["Content-Encoding"]);
        }
    }
    let headers = [("Content-Type", UPDATE), ("Content-Encoding", "deflate")];
    let refused = server.send("POST", "/update", &headers, Some(b"x"));
    assert_eq!(refused.header("accept-encoding"), Some("gzip, zstd"));
    refused.expect_error(415, "unsupported_encoding", &["gzip", "zstd"]);
}

#[test]
fn answers_are_packed_for_clients_that_ask() {
    let server = TestServer::start();
    let rows: String = (0..30_000)
        .map(|n| format!("<http://e/s{n}> <http://e/p> {n} . "))
        .collect();
    server
        .send(
            "POST",
            "/store?default",
            &[("Content-Type", "text/turtle")],
            Some(rows.as_bytes()),
        )
        .expect(200);
    let query = format!("/query?query={}", encode("SELECT ?s ?o { ?s ?p ?o }"));
    let plain = server.get(&query).expect(200);
    assert_eq!(plain.header("content-encoding"), None);
    for coding in ["gzip", "zstd"] {
        for path in [&*query, "/store?default", "/dump/statements"] {
            let asked = [("Accept-Encoding", coding)];
            let reply = server.send("GET", path, &asked, None).expect(200);
            assert_eq!(reply.header("content-encoding"), Some(coding), "{path}");
            let text = unpacked(coding, &reply.body);
            assert!(text.len() > 5 * reply.body.len(), "{path}");
            if path == query {
                let read: Value = serde_json::from_slice(&text).expect("JSON");
                let of_plain = plain.json();
                let count = |it: &Value| it["results"]["bindings"].as_array().map(Vec::len);
                assert_eq!(
                    (count(&read), count(&of_plain)),
                    (Some(30_000), Some(30_000))
                );
            }
        }
    }
}

#[test]
fn short_answers_and_errors_are_sent_as_they_are() {
    let server = TestServer::start();
    for path in [
        "/query?query=ASK%20%7B%7D",
        "/query",
        "/openapi.json",
        "/health",
    ] {
        let reply = server.send("GET", path, &[("Accept-Encoding", "gzip")], None);
        assert_eq!(reply.header("content-encoding"), None, "{path}");
    }
    let head = server.send(
        "HEAD",
        "/query?query=ASK%20%7B%7D",
        &[("Accept-Encoding", "gzip")],
        None,
    );
    assert_eq!((head.status, head.header("content-encoding")), (200, None));
}
