//! Plain JSON and CSV over HTTP, for streams that are declared with MAPPED BY.

use crate::server::TestServer;
use serde_json::json;

const MAPPED: &str = "TIMELESS TIMESTAMP <http://e/at> MAPPED BY
    CONSTRUCT { ?d <http://e/at> ?ms ; <http://e/v> ?v }
    WHERE { ?d <http://sparql.xyz/facade-x/data/ms> ?text
            BIND(<http://www.w3.org/2001/XMLSchema#integer>(?text) AS ?ms)
            OPTIONAL { ?d <http://sparql.xyz/facade-x/data/v> ?v } }";

#[test]
fn json_ndjson_and_csv() {
    let server = TestServer::start();
    let path = server.stream("s", MAPPED);
    let bodies = [
        ("application/json", r#"{"ms": 1000, "v": "one"}"#, 1),
        (
            "application/json; charset=utf-8",
            r#"[{"ms": 1100}, {"ms": 1200}]"#,
            2,
        ),
        (
            "application/x-ndjson",
            "{\"ms\": 1300}\n{\"ms\": 1400}\n",
            2,
        ),
        ("text/csv", "ms,v\r\n1500,x\r\n1600,\r\n", 2),
    ];
    for (media_type, body, documents) in bodies {
        let answer = server.post(&path, media_type, body).expect(200).json();
        assert_eq!(answer["taken"], json!(documents), "{media_type}: {answer}");
        assert_eq!(answer["dead_letters"], json!(0));
    }
    server.advance(&path, 3_000);
    let rows = server.select("SELECT ?n { ?n <http://e/at> ?t }");
    assert_eq!(rows.len(), 7);
}

#[test]
fn refused_documents_are_listed() {
    let server = TestServer::start();
    let path = server.stream("s", MAPPED);
    let body = "{\"ms\": 1000}\n{\"ms\"}\n{\"v\": 1}\n{\"ms\": 500}\n";
    let path = format!("{path}?source=gateway&seq=5");
    let answer = server
        .post(&path, "application/x-ndjson", body)
        .expect(200)
        .json();
    assert_eq!(answer["numbers"]["taken"], json!([[5, 5]]), "{answer}");
    assert_eq!(answer["numbers"]["refused"], json!([[6, 8]]));
    let codes: Vec<_> = (0..3)
        .map(|at| answer["reasons"][at]["code"].clone())
        .collect();
    assert_eq!(codes, ["bad_rdf", "bad_rdf", "late"]);
    assert_eq!(answer["reasons"][0]["line"], json!(2));
}

#[test]
fn a_stream_without_a_mapping_takes_no_documents() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    for media_type in ["application/json", "application/x-ndjson", "text/csv"] {
        let answer = server.post(&path, media_type, "{}");
        answer.expect_error(415, "unsupported_media_type", &["MAPPED BY", media_type]);
    }
    let none = "/streams/http%3A%2F%2Fe%2Fnone";
    server
        .post(none, "application/json", "{}")
        .expect_error(404, "not_found", &["http://e/none"]);
}
