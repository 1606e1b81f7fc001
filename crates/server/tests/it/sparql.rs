//! `/query`, `/update`, `/sparql`, `/explain`: the protocol, formats, and what bad requests get.

use crate::server::{TestServer, encode};

const FORM: &str = "application/x-www-form-urlencoded";
const QUERY: &str = "application/sparql-query";
const UPDATE: &str = "application/sparql-update";

#[test]
fn a_query_by_get_form_and_body() {
    let server = TestServer::start();
    let done = server.update("INSERT DATA { <http://e/a> <http://e/p> 1, 2 . GRAPH <http://e/g> { <http://e/a> <http://e/p> 3 } }");
    assert_eq!(
        (done["inserted"].as_u64(), done["deleted"].as_u64()),
        (Some(3), Some(0))
    );
    let query = "SELECT ?o { <http://e/a> <http://e/p> ?o } ORDER BY ?o";
    let encoded = encode(query);
    for path in ["/query", "/sparql", "/sparql/"] {
        let replies = [
            server.get(&format!("{path}?query={encoded}")),
            server.post(path, FORM, &format!("query={encoded}")),
            server.post(path, QUERY, query),
            server.post(path, "application/sparql-query; charset=UTF-8", query),
        ];
        for reply in replies {
            let reply = reply.expect(200);
            assert_eq!(
                reply.header("content-type"),
                Some("application/sparql-results+json")
            );
            assert!(reply.header("somersault-sn").is_some());
            let values: Vec<String> = reply.json()["results"]["bindings"]
                .as_array()
                .expect("bindings")
                .iter()
                .map(|row| row["o"]["value"].as_str().expect("a value").to_owned())
                .collect();
            assert_eq!(values, ["1", "2"]);
        }
    }
}

#[test]
fn the_protocols_dataset_wins() {
    let server = TestServer::start();
    server.update("INSERT DATA { <http://e/d> a <http://e/C> . GRAPH <http://e/g> { <http://e/a> a <http://e/C> } GRAPH <http://e/h> { <http://e/b> a <http://e/C> } }");
    let count = |path: String, query: &str| {
        server.post(&path, QUERY, query).expect(200).json()["results"]["bindings"]
            .as_array()
            .map(Vec::len)
    };
    let all = "SELECT ?s FROM <http://e/h> { ?s a ?t }";
    let g = encode("http://e/g");
    let h = encode("http://e/h");
    assert_eq!(count("/query".into(), all), Some(1));
    assert_eq!(
        count(
            format!("/query?default-graph-uri={g}&default-graph-uri={h}"),
            all
        ),
        Some(2)
    );
    assert_eq!(
        count(
            format!("/query?named-graph-uri={g}"),
            "SELECT ?s { GRAPH ?g { ?s a ?t } }"
        ),
        Some(1)
    );
    assert_eq!(
        count(
            format!("/query?named-graph-uri={g}"),
            "SELECT ?s { ?s a ?t }"
        ),
        Some(0)
    );
    let form = format!(
        "default-graph-uri={g}&query={}",
        encode("ASK { <http://e/a> a ?t }")
    );
    assert_eq!(
        server.post("/query", FORM, &form).expect(200).json()["boolean"],
        true
    );
    server
        .post(
            &format!("/update?using-graph-uri={g}"),
            UPDATE,
            "INSERT { GRAPH <http://e/x> { ?s a <http://e/X> } } WHERE { ?s a <http://e/C> }",
        )
        .expect(200);
    assert_eq!(
        server
            .select("SELECT ?s { GRAPH <http://e/x> { ?s a ?t } }")
            .len(),
        1
    );
    let conflict = server.post(
        &format!("/update?using-named-graph-uri={g}"),
        UPDATE,
        "WITH <http://e/g> DELETE { ?s a ?t } WHERE { ?s a ?t }",
    );
    assert!((400..500).contains(&conflict.status), "{}", conflict.text());
    assert_eq!(
        server
            .select("SELECT ?s { GRAPH <http://e/g> { ?s a ?t } }")
            .len(),
        1,
        "the refused request leaves nothing behind"
    );
}

#[test]
fn relative_iris_are_resolved_against_the_service() {
    let server = TestServer::answering_for("www.example");
    server
        .send(
            "POST",
            "/update",
            &[("Host", "www.example"), ("Content-Type", UPDATE)],
            Some(b"INSERT DATA { <http://e/s> <http://e/p> <test> }"),
        )
        .expect(200);
    assert!(server.ask("ASK { <http://e/s> <http://e/p> <http://www.example/test> }"));
}

#[test]
fn every_format_can_be_had() {
    let server = TestServer::start();
    server.update("INSERT DATA { <http://e/a> <http://e/p> \"x\" }");
    let select = format!("/query?query={}", encode("SELECT ?o { ?s ?p ?o }"));
    let ask = format!("/query?query={}", encode("ASK { ?s ?p ?o }"));
    let construct = format!("/query?query={}", encode("CONSTRUCT WHERE { ?s ?p ?o }"));
    let cases = [
        (
            &select,
            "*/*",
            "application/sparql-results+json",
            "\"value\":\"x\"",
        ),
        (
            &select,
            "application/sparql-results+xml",
            "application/sparql-results+xml",
            "<literal>x</literal>",
        ),
        (&select, "text/csv", "text/csv; charset=utf-8", "o\r\nx"),
        (
            &select,
            "text/tab-separated-values",
            "text/tab-separated-values; charset=utf-8",
            "?o\n\"x\"",
        ),
        (
            &select,
            "application/json",
            "application/json",
            "\"value\":\"x\"",
        ),
        (
            &select,
            "text/turtle, application/xml;q=0.5, text/csv;q=0.4",
            "application/xml",
            "<literal>x</literal>",
        ),
        (&ask, "*/*", "application/sparql-results+json", "true"),
        (
            &ask,
            "application/sparql-results+xml",
            "application/sparql-results+xml",
            "<boolean>true</boolean>",
        ),
        (
            &construct,
            "*/*",
            "text/turtle; charset=utf-8",
            "<http://e/p> \"x\"",
        ),
        (
            &construct,
            "application/n-triples",
            "application/n-triples",
            "<http://e/a> <http://e/p> \"x\" .",
        ),
        (
            &construct,
            "application/rdf+xml",
            "application/rdf+xml",
            "rdf:RDF",
        ),
        (
            &construct,
            "application/ld+json",
            "application/ld+json",
            "\"http://e/p\"",
        ),
        (&construct, "application/trig", "application/trig", "\"x\""),
        (
            &construct,
            "application/n-quads",
            "application/n-quads",
            "\"x\" .",
        ),
        (&construct, "text/n3", "text/n3; charset=utf-8", "\"x\""),
        (
            &construct,
            "application/sparql-results+json, application/n-triples;q=0.1",
            "application/n-triples",
            "\"x\"",
        ),
    ];
    for (path, accept, content_type, words) in cases {
        let reply = server.get_as(path, accept).expect(200);
        assert_eq!(reply.header("content-type"), Some(content_type), "{accept}");
        assert!(reply.text().contains(words), "{accept}: {}", reply.text());
        assert_eq!(reply.header("vary"), Some("Accept"));
    }
    for (path, accept) in [
        (&select, "image/png"),
        (&select, "text/turtle"),
        (&construct, "text/csv"),
        (&select, "*/*;q=0"),
    ] {
        let json = server
            .get_as(path, accept)
            .expect_error(406, "not_acceptable", &["Accept"]);
        assert!(
            json["available"]
                .as_array()
                .is_some_and(|list| list.len() > 5),
            "{json}"
        );
    }
}

/// Method, path, headers, body; status and code.
type Case<'a> = (
    &'a str,
    String,
    &'a [(&'a str, &'a str)],
    Option<&'a [u8]>,
    u16,
    &'a str,
);

#[test]
fn the_protocol_refuses_wrong_requests() {
    let server = TestServer::start();
    let ask = encode("ASK {}");
    let cases: &[Case<'_>] = &[
        (
            "PUT",
            format!("/query?query={ask}"),
            &[],
            None,
            405,
            "method_not_allowed",
        ),
        (
            "GET",
            format!("/query?query={ask}&query={ask}"),
            &[],
            None,
            400,
            "repeated_parameter",
        ),
        ("GET", "/query".into(), &[], None, 400, "missing_parameter"),
        (
            "GET",
            format!("/query?update={}", encode("CLEAR ALL")),
            &[],
            None,
            400,
            "update_by_get",
        ),
        (
            "GET",
            "/update".into(),
            &[],
            None,
            405,
            "method_not_allowed",
        ),
        (
            "POST",
            "/query".into(),
            &[("Content-Type", "text/plain")],
            Some(b"ASK {}"),
            415,
            "unsupported_media_type",
        ),
        (
            "POST",
            "/query".into(),
            &[],
            Some(b"ASK {}"),
            415,
            "unsupported_media_type",
        ),
        (
            "POST",
            "/query".into(),
            &[("Content-Type", "application/sparql-query; charset=UTF-16")],
            Some(b"\xFF\xFEA\0"),
            415,
            "unsupported_charset",
        ),
        (
            "POST",
            "/query".into(),
            &[("Content-Type", QUERY)],
            Some(b"ASK \xFF{}"),
            400,
            "bad_encoding",
        ),
        (
            "POST",
            "/query".into(),
            &[("Content-Type", UPDATE)],
            Some(b"CLEAR ALL"),
            415,
            "unsupported_media_type",
        ),
        (
            "POST",
            "/query".into(),
            &[("Content-Type", FORM)],
            Some(b"update=CLEAR+ALL"),
            400,
            "wrong_address",
        ),
        (
            "POST",
            "/update".into(),
            &[("Content-Type", FORM)],
            Some(b"update=CLEAR+NAMED&update=CLEAR+DEFAULT"),
            400,
            "repeated_parameter",
        ),
        (
            "POST",
            "/update".into(),
            &[("Content-Type", FORM)],
            Some(b"query=ASK+%7B%7D"),
            400,
            "wrong_address",
        ),
        (
            "POST",
            "/update".into(),
            &[("Content-Type", FORM)],
            Some(b"update=CLEAR%20XYZ"),
            400,
            "syntax",
        ),
        (
            "POST",
            "/sparql".into(),
            &[("Content-Type", FORM)],
            Some(b"update=CLEAR+ALL&query=ASK%7B%7D"),
            400,
            "query_and_update",
        ),
        (
            "POST",
            format!("/sparql?query={ask}"),
            &[("Content-Type", QUERY)],
            Some(b"ASK {}"),
            400,
            "query_and_update",
        ),
        (
            "GET",
            format!("/query?query={ask}&default-graph-uri=relative"),
            &[],
            None,
            400,
            "bad_iri",
        ),
        (
            "GET",
            format!("/query?query={ask}&using-graph-uri=http%3A%2F%2Fe%2Fg"),
            &[],
            None,
            400,
            "wrong_parameter",
        ),
        (
            "GET",
            format!("/query?query={ask}&timeout_ms=soon"),
            &[],
            None,
            400,
            "bad_parameter",
        ),
        (
            "GET",
            "/query?query=ASK%7".into(),
            &[],
            None,
            400,
            "bad_encoding",
        ),
        (
            "GET",
            "/query?query=ASK%FF".into(),
            &[],
            None,
            400,
            "bad_encoding",
        ),
        (
            "POST",
            "/query".into(),
            &[("Content-Type", QUERY), ("Content-Encoding", "br")],
            Some(b"ASK {}"),
            415,
            "unsupported_encoding",
        ),
    ];
    for (method, path, headers, body, status, code) in cases {
        server
            .send(method, path, headers, *body)
            .expect_error(*status, code, &[]);
    }
    let reply = server.send("PUT", "/query", &[], None).expect(405);
    let allow = reply
        .header("allow")
        .expect("a 405 names the allowed methods");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[test]
fn a_query_that_does_not_parse_is_told_where() {
    let server = TestServer::start();
    let json = server
        .post("/query", QUERY, "SELECT ?s {\n  ?s ?p .\n}")
        .expect_error(400, "syntax", &[]);
    assert_eq!(json["line"], 2, "{json}");
    assert!(
        json["column"].as_u64().is_some_and(|column| column > 1),
        "{json}"
    );
    let reply = server
        .send(
            "POST",
            "/query",
            &[("Content-Type", QUERY), ("Accept", "text/plain")],
            Some(b"ASK {"),
        )
        .expect(400);
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(reply.text().contains("line 1"), "{}", reply.text());
    assert!(!reply.text().contains("ParseError"), "{}", reply.text());
}

#[test]
fn a_text_that_is_nested_too_deeply_does_not_end_the_server() {
    let server = TestServer::start();
    for (open, close) in [("(", ")"), ("!", ""), ("-", "")] {
        let filter = format!(
            "ASK {{ FILTER({}1{}) }}",
            open.repeat(200_000),
            close.repeat(200_000)
        );
        let reply = server.post("/query", QUERY, &filter);
        assert!(
            (400..500).contains(&reply.status),
            "{open}: {}",
            reply.status
        );
    }
    for (open, close) in [
        ("{", "}"),
        ("[ <http://e/p> ", "]"),
        ("( ", ")"),
        ("OPTIONAL {", "}"),
    ] {
        let pattern = if open.starts_with('[') || open.starts_with('(') {
            ("<http://e/s> <http://e/p> ", " .")
        } else {
            ("", "")
        };
        let query = format!(
            "ASK {{ {}{}{}{} }}",
            pattern.0,
            open.repeat(100_000),
            close.repeat(100_000),
            pattern.1
        );
        let reply = server.post("/query", QUERY, &query);
        assert!(
            (200..500).contains(&reply.status),
            "{open}: {}",
            reply.status
        );
    }
    server.get("/health").expect(200);
}

#[test]
fn explanations_are_text() {
    let server = TestServer::start();
    let get = server
        .get(&format!(
            "/explain?query={}",
            encode("SELECT * { ?s a ?t . ?s ?p ?o }")
        ))
        .expect(200);
    assert_eq!(
        get.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(!get.text().is_empty());
    server
        .post("/explain?analyze=true", QUERY, "SELECT * { ?s a ?t }")
        .expect(200);
    server
        .post("/explain?analyze=perhaps", QUERY, "ASK {}")
        .expect_error(400, "bad_parameter", &[]);
}
