//! JSON-LD contexts over HTTP.

use crate::server::TestServer;
use serde_json::json;

const PATH: &str = "/contexts/https%3A%2F%2Fexample.org%2Fc";
const CONTEXT: &str = r#"{"@context": {"at": "http://e/at", "v": "http://e/v"}}"#;
const LD: &str = "application/ld+json";

#[test]
fn contexts_are_registered_listed_and_deleted() {
    let server = TestServer::start();
    assert_eq!(
        server.get("/contexts").expect(200).json(),
        json!({ "contexts": [] })
    );
    let made = server.put(PATH, CONTEXT).expect(201).json();
    assert_eq!(
        made,
        json!({ "url": "https://example.org/c", "href": PATH, "bytes": CONTEXT.len() })
    );
    server.put(PATH, CONTEXT).expect(200);
    assert_eq!(
        server.get("/contexts").expect(200).json()["contexts"],
        json!([made])
    );
    let shown = server.get(PATH).expect(200);
    assert_eq!(
        (shown.text(), shown.header("content-type")),
        (CONTEXT, Some(LD))
    );
    server.delete(PATH).expect(204);
    server
        .get(PATH)
        .expect_error(404, "not_found", &["https://example.org/c"]);
    server.delete(PATH).expect_error(404, "not_found", &[]);
}

#[test]
fn what_is_no_context_is_refused() {
    let server = TestServer::start();
    server
        .put(PATH, "{")
        .expect_error(400, "bad_rdf", &["no JSON"]);
    server
        .put(PATH, "{}")
        .expect_error(400, "invalid", &["@context"]);
    server
        .put("/contexts/c", CONTEXT)
        .expect_error(400, "invalid", &["absolute IRI"]);
    // Each term is made of the next one, which a parser follows by recursion.
    let terms = (0..1_000).map(|n| format!("\"t{n}\": \"t{}:x\"", n + 1));
    let chain = format!(
        "{{\"@context\": {{{}}}}}",
        terms.collect::<Vec<_>>().join(",")
    );
    server
        .put(PATH, &chain)
        .expect_error(400, "nested_too_deeply", &[]);
}

#[test]
fn documents_in_pushes_and_in_the_store_name_them() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMELESS TIMESTAMP <http://e/at>");
    let document = r#"{"@context": "https://example.org/c", "at": 1000, "v": "x"}"#;
    let refused = server.post(&path, LD, document);
    refused.expect_error(400, "bad_rdf", &["not registered here"]);
    server.put(PATH, CONTEXT).expect(201);
    assert_eq!(
        server.post(&path, LD, document).expect(200).json()["accepted"],
        json!(2)
    );
    server
        .post("/store?graph=http://e/g", LD, document)
        .expect(201);
    assert!(server.ask("ASK { GRAPH <http://e/g> { ?x <http://e/v> \"x\" } }"));
}

#[test]
fn a_stream_lays_a_context_over_plain_json() {
    let server = TestServer::start();
    server.put(PATH, CONTEXT).expect(201);
    let path = server.stream(
        "s",
        "TIMELESS TIMESTAMP <http://e/at> CONTEXT <https://example.org/c>",
    );
    let answer = server.post(
        &path,
        "application/json",
        r#"[{"at": 1000, "v": 1}, {"v": 2}]"#,
    );
    let answer = answer.expect(200).json();
    assert_eq!(
        (&answer["taken"], &answer["refused"]),
        (&json!(1), &json!(1)),
        "{answer}"
    );
    server.post(&path, "text/csv", "at\n1\n").expect_error(
        415,
        "unsupported_media_type",
        &["MAPPED BY"],
    );
}
