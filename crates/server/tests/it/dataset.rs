//! The whole dataset, and what the server says about itself; the method QUERY and lines of JSON.

use crate::server::{TestServer, encode, engine_config};
use oxrdfio::{RdfFormat, RdfParser};
use serde_json::{Value, json};
use somersault::oxrdf::dataset::CanonicalizationAlgorithm;
use somersault::oxrdf::{Dataset, Quad};
use somersault_server::{Auth, ServerConfig, TokenFile, Tokens};
use std::sync::Arc;

const TRIG: &str = "application/trig";
const NQUADS: &str = "application/n-quads";

fn dataset(format: RdfFormat, text: &str) -> Dataset {
    let quads = RdfParser::from_format(format).for_slice(text);
    let mut dataset: Dataset = quads
        .collect::<Result<Vec<Quad>, _>>()
        .expect("well formed")
        .into_iter()
        .collect();
    dataset.canonicalize(CanonicalizationAlgorithm::Unstable);
    dataset
}

#[test]
fn the_whole_dataset_is_read_and_replaced() {
    let server = TestServer::start();
    assert_eq!(server.get_as("/store", TRIG).expect(200).text(), "");
    let put = |media_type: &str, text: &str| {
        server.send(
            "PUT",
            "/store",
            &[("Content-Type", media_type)],
            Some(text.as_bytes()),
        )
    };
    let first = "<http://e/a> <http://e/p> 1, \"x\"@en . _:n <http://e/p> _:n .
        <http://e/g> { <http://e/a> <http://e/p> <http://e/b> } _:h { _:n <http://e/q> 2.5 }";
    let done = put(TRIG, first).expect(200).json();
    assert_eq!(
        (&done["inserted"], &done["deleted"]),
        (&json!(5), &json!(0))
    );
    let expected = dataset(RdfFormat::TriG, first);
    for (media_type, format) in [(TRIG, RdfFormat::TriG), (NQUADS, RdfFormat::NQuads)] {
        let reply = server.get_as("/store", media_type).expect(200);
        assert_eq!(reply.header("content-type"), Some(media_type));
        assert_eq!(dataset(format, reply.text()), expected, "{}", reply.text());
        assert_eq!(
            server
                .send("HEAD", "/store", &[("Accept", media_type)], None)
                .status,
            200
        );
    }
    let second = "<http://e/a> <http://e/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n<http://e/c> <http://e/p> \"y\" <http://e/k> .\n";
    let done = put(NQUADS, second).expect(200).json();
    assert_eq!(
        (&done["inserted"], &done["deleted"]),
        (&json!(1), &json!(4)),
        "{done}"
    );
    let now = server.get_as("/store", NQUADS).expect(200);
    assert_eq!(
        dataset(RdfFormat::NQuads, now.text()),
        dataset(RdfFormat::NQuads, second)
    );
    let same = put(NQUADS, second).expect(200).json();
    assert_eq!(
        (&same["inserted"], &same["deleted"]),
        (&json!(0), &json!(0))
    );
    put(TRIG, "").expect(200);
    assert_eq!(server.get_as("/store", NQUADS).expect(200).text(), "");
    put(NQUADS, "<http://e/a> <http://e/p> .").expect_error(400, "bad_rdf", &[]);
    put("text/turtle", "<http://e/a> <http://e/p> 1 .").expect_error(
        415,
        "unsupported_media_type",
        &[],
    );
    server
        .get_as("/store", "text/turtle")
        .expect_error(406, "not_acceptable", &["whole dataset"]);
    server
        .delete("/store")
        .expect_error(400, "missing_parameter", &["?graph="]);
}

#[test]
fn the_whole_dataset_takes_rights_to_all_graphs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = TokenFile::of_folder(folder.path());
    let token = |name: &str, rights: &[&str]| {
        let rights: Vec<_> = rights
            .iter()
            .map(|it| it.parse().expect("a right"))
            .collect();
        let (_, text) = file.create(name, &rights, None).expect("a token");
        format!("Bearer {text}")
    };
    let some = token(
        "some",
        &["read:http://e/g", "read:default", "write:http://e/g"],
    );
    let reader = token("reader", &["read"]);
    let writer = token("writer", &["write"]);
    let mut config = ServerConfig::default();
    config.auth = Auth::Tokens(Arc::new(Tokens::open(file).expect("a file of tokens")));
    let server = TestServer::with(engine_config(), config);
    let send = |method: &str, token: &str, body: Option<&[u8]>| {
        let headers = [("Authorization", token), ("Content-Type", NQUADS)];
        server.send(method, "/store", &headers, body)
    };
    send("GET", &some, None).expect_error(403, "forbidden", &["read"]);
    send("HEAD", &some, None).expect(403);
    send("PUT", &some, Some(b"")).expect_error(403, "forbidden", &["write"]);
    send("PUT", &reader, Some(b"")).expect_error(403, "forbidden", &["write"]);
    send("GET", &writer, None).expect_error(403, "forbidden", &["read"]);
    send("PUT", &writer, Some(b"<http://e/a> <http://e/p> \"x\" .\n")).expect(200);
    assert_eq!(
        send("GET", &reader, None).expect(200).text(),
        "<http://e/a> <http://e/p> \"x\" .\n"
    );
    let void = |token: &str| {
        let headers = [
            ("Authorization", token),
            ("Accept", "application/n-triples"),
        ];
        server
            .send("GET", "/.well-known/void", &headers, None)
            .expect(200)
    };
    assert!(void(&reader).text().contains("void#triples> \"1\""));
    assert!(!void(&some).text().contains("void#triples"));
}

#[test]
fn the_service_and_its_dataset_are_described() {
    let server = TestServer::start();
    server.update("INSERT DATA { <http://e/a> <http://e/p> 1, 2 }");
    // By the name under which the client asks.
    let endpoint = "<http://localhost/sparql>";
    for path in ["/sparql", "/sparql/"] {
        let about = server.get_as(path, "application/n-triples").expect(200);
        let sd = "http://www.w3.org/ns/sparql-service-description#";
        for said in [
            format!("{endpoint} <{sd}endpoint> {endpoint} ."),
            format!("{endpoint} <{sd}supportedLanguage> <{sd}SPARQL11Update> ."),
            format!(
                "{endpoint} <{sd}resultFormat> <http://www.w3.org/ns/formats/SPARQL_Results_JSON> ."
            ),
            format!("{endpoint} <{sd}inputFormat> <http://www.w3.org/ns/formats/TriG> ."),
        ] {
            assert!(about.text().contains(&said), "{said}\n{}", about.text());
        }
    }
    server
        .get("/sparql?timeout_ms=5")
        .expect_error(400, "missing_parameter", &[]);
    let void = server
        .get_as("/.well-known/void", "text/turtle")
        .expect(200);
    let read = RdfParser::from_format(RdfFormat::Turtle).for_slice(void.text());
    let read: Vec<Quad> = read.collect::<Result<_, _>>().expect("well formed");
    let triples = read
        .iter()
        .find(|it| it.predicate.as_str().ends_with("#triples"));
    assert!(
        triples
            .expect("a count")
            .object
            .to_string()
            .starts_with("\"2\"")
    );
    server
        .get_as("/.well-known/void", "image/png")
        .expect_error(406, "not_acceptable", &[]);
}

#[test]
fn the_method_query_asks_and_changes_nothing() {
    let server = TestServer::start();
    let send = |path: &str, media_type: &str, body: &str| {
        server.send(
            "QUERY",
            path,
            &[("Content-Type", media_type)],
            Some(body.as_bytes()),
        )
    };
    for path in ["/sparql", "/sparql/", "/query"] {
        let asked = send(path, "application/sparql-query", "ASK {}").expect(200);
        assert_eq!(asked.json()["boolean"], json!(true), "{path}");
        let form = send(
            path,
            "application/x-www-form-urlencoded",
            "query=ASK%20%7B%7D",
        );
        form.expect(200);
        send(path, "application/sparql-update", "CLEAR ALL").expect_error(
            415,
            "unsupported_media_type",
            &[],
        );
        send(
            path,
            "application/x-www-form-urlencoded",
            "update=CLEAR%20ALL",
        )
        .expect_error(400, "wrong_address", &[]);
        let refused = server.send("PATCH", path, &[], None);
        assert!(
            refused
                .header("allow")
                .is_some_and(|allow| allow.contains("QUERY"))
        );
        refused.expect_error(405, "method_not_allowed", &["PATCH"]);
    }
    server.send("QUERY", "/update", &[], Some(b"")).expect(405);
}

#[test]
fn rows_as_lines_of_json() {
    let server = TestServer::start();
    server.update(
        "INSERT DATA { <http://e/a> <http://e/p> \"x\\ny\"@en . <http://e/b> <http://e/q> 1 }",
    );
    let ask = |query: &str| {
        server
            .get_as(
                &format!("/query?query={}", encode(query)),
                "application/x-ndjson",
            )
            .expect(200)
    };
    let reply = ask("SELECT ?s ?o { ?s ?any ?v OPTIONAL { ?s <http://e/p> ?o } } ORDER BY ?s");
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let rows: Vec<Value> = reply
        .text()
        .lines()
        .map(|it| serde_json::from_str(it).expect("JSON"))
        .collect();
    assert_eq!(
        rows,
        [
            json!({ "s": { "type": "uri", "value": "http://e/a" }, "o": { "type": "literal", "value": "x\ny", "xml:lang": "en" } }),
            json!({ "s": { "type": "uri", "value": "http://e/b" } }),
        ]
    );
    assert_eq!(ask("ASK {}").text(), "{\"boolean\":true}\n");
    assert_eq!(ask("SELECT ?s { ?s <http://e/none> ?o }").text(), "");
    let graph = format!("/query?query={}", encode("CONSTRUCT WHERE { ?s ?p ?o }"));
    server
        .get_as(&graph, "application/x-ndjson")
        .expect_error(406, "not_acceptable", &[]);
}
