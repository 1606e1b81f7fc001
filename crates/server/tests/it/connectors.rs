//! `/sources` and `/sinks`: declared, listed without passwords, paused, dropped, and in `/health`
//! and `/metrics`.

use crate::client::until;
use crate::server::{TestServer, encode};
use std::path::Path;

const STREAM: &str = "CREATE STREAM <http://e/s> TIMELESS IDLE NEVER";

fn server() -> TestServer {
    let server = TestServer::start();
    let path = format!("/streams/{}", encode("http://e/s"));
    server.put(&path, STREAM).expect(201);
    server
}

fn source(path: &Path, more: &str) -> String {
    format!(
        "CREATE SOURCE lines INTO <http://e/s> FROM FILE (path = '{}'{more}) FORMAT TSV",
        path.display()
    )
}

#[test]
fn a_source_is_declared_listed_paused_and_dropped() {
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines");
    std::fs::write(&path, "1000\t<urn:a> <urn:p> <urn:b> .\nsoon\n").expect("written");
    let text = source(&path, "");
    let json = server.put("/sources/lines", &text).expect(201).json();
    assert_eq!(
        (&json["stream"], &json["text"]),
        (&"http://e/s".into(), &text.as_str().into())
    );
    server.put("/sources/lines", &text).expect(200);
    let other = source(&path, ", from = end");
    server
        .put("/sources/lines", &other)
        .expect_error(409, "conflict", &["OR REPLACE"]);
    let shown = || server.get("/sources/lines").expect(200).json();
    until("a line and a refusal", || {
        let json = shown();
        json["taken"] == 1 && json["refused"] == 1
    });
    let json = shown();
    assert_eq!(
        (&json["lag"], &json["class"]),
        (&0.into(), &"exactly once".into())
    );
    assert!(
        json["last_refused"]["reason"]
            .as_str()
            .is_some_and(|it| it.contains("tab")),
        "{json}"
    );
    assert_eq!(server.get("/health").expect(200).json()["sources"][0], json);
    let metrics = server.get("/metrics").expect(200);
    let sample = "somersault_source_refused_total{source=\"lines\",stream=\"http://e/s\"} 1";
    assert!(metrics.text().contains(sample), "{}", metrics.text());
    server
        .send("POST", "/sources/lines/pause", &[], None)
        .expect(204);
    assert_eq!(shown()["state"], "paused");
    server
        .send("POST", "/sources/lines/resume", &[], None)
        .expect(204);
    until("it runs", || shown()["state"] == "running");
    server.delete("/sources/lines").expect(204);
    server
        .get("/sources/lines")
        .expect_error(404, "not_found", &["lines"]);
    server
        .delete("/sources/lines")
        .expect_error(404, "not_found", &["lines"]);
    let list = server.get("/sources").expect(200).json();
    assert_eq!(list["sources"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_declaration_that_cannot_be_is_refused() {
    let server = server();
    let file = source(Path::new("/x"), "");
    for (path, text, status, code, said) in [
        ("/sources/other", file.as_str(), 400, "invalid", "lines"),
        (
            "/sources/lines",
            "CREATE SOURCE lines INTO",
            400,
            "syntax",
            "IRI",
        ),
        (
            "/sources/lines",
            &file.replace("http://e/s", "http://e/no"),
            404,
            "not_found",
            "http://e/no",
        ),
        (
            "/sources/lines",
            &file.replace("path", "pfad"),
            400,
            "invalid",
            "path",
        ),
        ("/sinks/lines", &file, 400, "invalid", "declares no sink"),
        (
            "/sinks/s",
            "CREATE SINK s FROM QUERY q INTO FILE (path = 'x') FORMAT CSV",
            400,
            "invalid",
            "JSON",
        ),
    ] {
        server.put(path, text).expect_error(status, code, &[said]);
    }
}

#[test]
fn a_sink_is_listed_without_its_password() {
    let server = server();
    let text =
        "CREATE SINK bill FROM QUERY q INTO WEBHOOK (url = 'http://127.0.0.1:9/', from = kept)";
    server.put("/sinks/bill", text).expect(201);
    let json = server.get("/sinks").expect(200).json();
    let sink = &json["sinks"][0];
    assert_eq!(
        (&sink["name"], &sink["query"]),
        (&"bill".into(), &"q".into())
    );
    assert_eq!(sink["text"], text);
    server
        .send("POST", "/sinks/bill/pause", &[], None)
        .expect(204);
    server
        .send("POST", "/sinks/bill/resume", &[], None)
        .expect(204);
    server.delete("/sinks/bill").expect(204);
    server
        .send("POST", "/sinks/bill/pause", &[], None)
        .expect_error(404, "not_found", &["bill"]);
}
