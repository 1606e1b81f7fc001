//! The cost of answers, and the server as a client: limits, large answers, formats that cannot
//! express an answer, SERVICE and LOAD.

use crate::server::{TestServer, encode, engine_config};
use somersault_server::ServerConfig;
use std::time::Duration;

const QUERY: &str = "application/sparql-query";
const UPDATE: &str = "application/sparql-update";

#[test]
fn a_large_answer_is_sent_in_pieces_and_whole() {
    let server = TestServer::start();
    let triples: String = (0..30_000)
        .map(|i| format!("<http://e/s{i}> <http://e/p> \"value number {i}\" .\n"))
        .collect();
    server
        .send(
            "PUT",
            "/store?default",
            &[("Content-Type", "application/n-triples")],
            Some(triples.as_bytes()),
        )
        .expect(200);
    let reply = server
        .send(
            "POST",
            "/query",
            &[("Content-Type", QUERY), ("Accept", "text/csv")],
            Some(b"SELECT ?s ?o { ?s <http://e/p> ?o }"),
        )
        .expect(200);
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    assert!(reply.complete);
    assert_eq!(reply.text().lines().count(), 30_001);
    let graph = server
        .get_as("/store?default", "application/n-triples")
        .expect(200);
    assert!(graph.complete);
    assert_eq!(graph.text().lines().count(), 30_000);
    // A client that disconnects in the middle of an answer leaves nothing occupied.
    for _ in 0..3 {
        let socket = crate::client::connect(server.address());
        let bytes = crate::client::request_bytes("GET", "/store?default", &[], None);
        std::io::Write::write_all(&mut &socket, &bytes).expect("sent");
        drop(socket);
    }
    assert!(server.ask("ASK {}"));
}

#[test]
fn limits_are_named_with_their_remedy() {
    let mut config = engine_config();
    config.limits.result_rows = 10;
    config.limits.query_time = Duration::from_millis(300);
    let server = TestServer::with(config, ServerConfig::default());
    let values: String = (0..400)
        .map(|i| format!("<http://e/s{i}> <http://e/p> {i} .\n"))
        .collect();
    let turtle = server.send(
        "PUT",
        "/store?default",
        &[("Content-Type", "text/turtle")],
        Some(values.as_bytes()),
    );
    assert!(turtle.status < 300, "{}", turtle.text());
    let json = server
        .post("/query", QUERY, "SELECT * { ?s ?p ?o }")
        .expect_error(422, "result_rows", &["result_rows"]);
    assert_eq!(json["limit"], "result_rows");
    let heavy =
        "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?p ?y . ?c ?p ?z . FILTER(?x + ?y + ?z < 0) }";
    server
        .post("/query", QUERY, heavy)
        .expect_error(422, "query_time", &["query_time"]);
    server
        .post("/query?timeout_ms=20", QUERY, heavy)
        .expect_error(422, "query_time", &[]);
    assert!(server.ask("ASK { ?s ?p ?o }"));
}

#[test]
fn remote_access_is_off_unless_allowed() {
    let server = TestServer::start();
    let service = "ASK { SERVICE <http://127.0.0.1:9/sparql> { ?s ?p ?o } }";
    let reply = server.post("/query", QUERY, service);
    assert!(
        (400..500).contains(&reply.status),
        "{}: {}",
        reply.status,
        reply.text()
    );
    let reply = server.post("/update", UPDATE, "LOAD <http://127.0.0.1:9/data.ttl>");
    assert!(
        (400..500).contains(&reply.status),
        "{}: {}",
        reply.status,
        reply.text()
    );
    assert!(reply.text().contains("allow"), "{}", reply.text());
}

#[test]
fn services_and_documents_of_another_server() {
    let other = TestServer::start();
    other.update("INSERT DATA { <http://e/a> <http://e/p> 1, 2 }");
    let mut config = engine_config();
    config.allow_remote = true;
    config.remote = Some(std::sync::Arc::new(somersault_server::HttpRemote::new()));
    let server = TestServer::with(config, ServerConfig::default());
    let address = other.address();
    let service =
        format!("SELECT ?o {{ SERVICE <http://{address}/query> {{ ?s <http://e/p> ?o }} }}");
    assert_eq!(server.select(&service).len(), 2);
    server.update(&format!(
        "LOAD <http://{address}/store?default> INTO GRAPH <http://e/g>"
    ));
    assert_eq!(
        server
            .select("SELECT ?o { GRAPH <http://e/g> { ?s <http://e/p> ?o } }")
            .len(),
        2
    );
    let nowhere = server.post(
        "/query",
        QUERY,
        &format!("SELECT * {{ SERVICE <http://{address}/nowhere> {{ ?s ?p ?o }} }}"),
    );
    assert!(
        (400..500).contains(&nowhere.status),
        "{}: {}",
        nowhere.status,
        nowhere.text()
    );
    assert!(nowhere.text().contains("404"), "{}", nowhere.text());
    let silent = server.select(&format!(
        "SELECT * {{ SERVICE SILENT <http://{address}/nowhere> {{ ?s ?p ?o }} }}"
    ));
    assert_eq!(silent.len(), 1);
    let broken = server.post(
        "/update",
        UPDATE,
        &format!("LOAD <http://{address}/health>"),
    );
    assert!(
        (400..500).contains(&broken.status),
        "{}: {}",
        broken.status,
        broken.text()
    );
}

#[test]
fn an_answer_that_a_format_cannot_hold_is_not_acceptable() {
    let server = TestServer::start();
    server.update("INSERT DATA { <http://e/a> <http://e/p> <<( <http://e/s> <http://e/p> 1 )>> }");
    let path = format!("/query?query={}", encode("CONSTRUCT WHERE { ?s ?p ?o }"));
    server.get_as(&path, "application/ld+json").expect_error(
        406,
        "not_acceptable",
        &["application/ld+json"],
    );
    server.get_as(&path, "text/turtle").expect(200);
}

#[test]
fn a_long_answer_in_xml_is_whole_or_refused() {
    let server = TestServer::start();
    let rows = |from: usize| -> String {
        let long = "long ".repeat(30);
        let row = |n: usize| format!("<http://e/s{n}> <http://e/p> \"{long}{n}\" .");
        (from..from + 4_000).map(row).collect()
    };
    // First an answer of several pieces, then one longer than the part written before sending.
    let path = format!("/query?query={}", encode("SELECT * { ?s ?p ?o }"));
    let ask = || server.get_as(&path, "application/sparql-results+xml");
    for (batches, count) in [(0..1, 4_000), (1..8, 32_000)] {
        for batch in batches {
            server.update(&format!("INSERT DATA {{ {} }}", rows(batch * 4_000)));
        }
        let reply = ask().expect(200);
        let text = reply.text();
        assert_eq!(text.matches("<result>").count(), count);
        assert!(text.ends_with("</results></sparql>"));
    }
    server.update("INSERT DATA { <http://e/z> <http://e/p> \"\\u0001\" }");
    ask().expect_error(406, "not_acceptable", &["U+0001"]);
}

#[test]
fn a_template_with_graphs_comes_in_formats_that_have_graphs() {
    let server = TestServer::start();
    server.update("INSERT DATA { <http://e/s> <http://e/p> <http://e/g> }");
    let query = "CONSTRUCT { ?s <http://e/seen> ?g . GRAPH ?g { ?s ?p ?g } } WHERE { ?s ?p ?g }";
    let ask = |accept: &str| {
        server.send(
            "POST",
            "/query",
            &[("Content-Type", QUERY), ("Accept", accept)],
            Some(query.as_bytes()),
        )
    };
    let reply = ask("*/*").expect(200);
    assert_eq!(reply.header("content-type"), Some("application/trig"));
    let lines = ask("application/n-quads").expect(200).text().to_owned();
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "<http://e/s> <http://e/p> <http://e/g> <http://e/g> .",
            "<http://e/s> <http://e/seen> <http://e/g> .",
        ]
    );
    let refused = ask("text/turtle").expect(406).json();
    assert!(
        refused["available"]
            .to_string()
            .contains("application/n-quads"),
        "{refused}"
    );
}
