//! `/store`: the Graph Store Protocol, with graphs named indirectly and by their URL.

use crate::server::{TestServer, encode, engine_config};
use somersault_server::ServerConfig;

const TURTLE: &str = "text/turtle; charset=utf-8";

fn put(server: &TestServer, path: &str, turtle: &str) -> crate::client::Reply {
    server.send(
        "PUT",
        path,
        &[("Content-Type", TURTLE)],
        Some(turtle.as_bytes()),
    )
}

#[test]
fn a_graph_from_its_first_put_to_its_deletion() {
    let server = TestServer::start();
    for path in ["/store?graph=http%3A%2F%2Fe%2Fg", "/store/people/1.ttl"] {
        server.get(path).expect_error(404, "not_found", &[]);
        let json = put(&server, path, "<a> <http://e/p> 1, 2 .")
            .expect(201)
            .json();
        assert_eq!(
            (json["created"].as_bool(), json["inserted"].as_u64()),
            (Some(true), Some(2)),
            "{json}"
        );
        let reply = server.get_as(path, "text/turtle").expect(200);
        assert_eq!(
            reply.header("content-type"),
            Some("text/turtle; charset=utf-8")
        );
        let head = server
            .send(
                "HEAD",
                path,
                &[("Accept", "text/turtle; charset=utf-8")],
                None,
            )
            .expect(200);
        assert_eq!(
            head.header("content-type"),
            Some("text/turtle; charset=utf-8")
        );
        for name in ["vary", "somersault-sn"] {
            assert!(head.header(name).is_some(), "{name}");
            assert_eq!(head.header(name), reply.header(name), "{name}");
        }
        let json = put(&server, path, "<a> <http://e/p> 2, 3, 4 .")
            .expect(200)
            .json();
        assert_eq!(
            (
                json["created"].as_bool(),
                json["inserted"].as_u64(),
                json["deleted"].as_u64()
            ),
            (Some(false), Some(2), Some(1)),
            "{json}"
        );
        server
            .post(path, TURTLE, "<a> <http://e/p> 9 .")
            .expect(200);
        assert_eq!(
            server
                .get_as(path, "application/n-triples")
                .expect(200)
                .text()
                .lines()
                .count(),
            4
        );
        let deleted = server.delete(path).expect(200).json();
        assert_eq!(deleted["deleted"], 4);
        server.get(path).expect(404);
        server.send("HEAD", path, &[], None).expect(404);
        server.delete(path).expect_error(404, "not_found", &[]);
    }
}

#[test]
fn head_tells_whether_a_graph_exists_without_reading_it() {
    let mut config = engine_config();
    config.limits.result_rows = 2;
    let server = TestServer::with(config, ServerConfig::default());
    for path in ["/store?graph=http%3A%2F%2Fe%2Fg", "/store?default"] {
        assert!(put(&server, path, "<http://e/a> <http://e/p> 1, 2, 3 .").status < 300);
        server.get(path).expect_error(422, "result_rows", &[]);
        server.send("HEAD", path, &[], None).expect(200);
    }
}

#[test]
fn relative_iris_are_the_graphs() {
    let server = TestServer::answering_for("www.example");
    server
        .send(
            "PUT",
            "/store/people/1.ttl",
            &[("Content-Type", TURTLE), ("Host", "www.example")],
            Some(b"<> <http://e/p> <x> ."),
        )
        .expect(201);
    let graph = "http://www.example/store/people/1.ttl";
    assert!(server.ask(&format!(
        "ASK {{ GRAPH <{graph}> {{ <{graph}> <http://e/p> <http://www.example/store/people/x> }} }}"
    )));
    let indirectly = server
        .get_as(
            &format!("/store?graph={}", encode(graph)),
            "application/n-triples",
        )
        .expect(200);
    assert!(indirectly.text().contains(graph));
}

#[test]
fn names_are_decoded_once() {
    let server = TestServer::start();
    put(
        &server,
        "/store?graph=http://e/%31",
        "<http://e/a> <http://e/p> 1 .",
    )
    .expect(201);
    put(
        &server,
        "/store?graph=http://e/%2531",
        "<http://e/a> <http://e/p> 2 .",
    )
    .expect(201);
    assert!(server.ask("ASK { GRAPH <http://e/1> { ?s ?p 1 } GRAPH <http://e/%31> { ?s ?p 2 } }"));
}

#[test]
fn the_default_graph_is_always_there() {
    let server = TestServer::start();
    server.get("/store?default").expect(200);
    assert!(put(&server, "/store?default", "<http://e/a> <http://e/p> 1 .").status < 300);
    assert!(server.ask("ASK { <http://e/a> ?p 1 }"));
    assert!(server.delete("/store?default").status < 300);
    assert!(!server.ask("ASK { ?s ?p ?o }"));
}

#[test]
fn several_documents_in_one_request() {
    let server = TestServer::start();
    let path = "/store/person/1.ttl";
    server
        .post(path, TURTLE, "<http://e/1> <http://e/fn> \"Jane Doe\" .")
        .expect(201);
    let body = "--b1\r\nContent-Disposition: form-data; name=\"a.ttl\"; filename=\"a.ttl\"\r\nContent-Type: text/turtle; charset=utf-8\r\n\r\n@prefix e: <http://e/> .\r\n<http://e/1> e:family \"Doe\" .\r\n\r\n--b1\r\nContent-Disposition: form-data; name=\"b.nt\"\r\nContent-Type: application/n-triples\r\n\r\n<http://e/1> <http://e/given> \"Jane\" .\r\n\r\n--b1--\r\n";
    server
        .post(path, "multipart/form-data; boundary=b1", body)
        .expect(200);
    assert_eq!(
        server
            .get_as(path, "application/n-triples")
            .expect(200)
            .text()
            .lines()
            .count(),
        3
    );
    server
        .post(path, "multipart/form-data; boundary=other", body)
        .expect_error(400, "bad_multipart", &[]);
    server.post(path, "multipart/form-data", body).expect_error(
        400,
        "bad_multipart",
        &["boundary"],
    );
    assert_eq!(
        server
            .get_as(path, "application/n-triples")
            .expect(200)
            .text()
            .lines()
            .count(),
        3
    );
}

#[test]
fn a_post_to_the_store_makes_a_new_graph() {
    let server = TestServer::start();
    let reply = server
        .post("/store", TURTLE, "[] a <http://e/Person> .")
        .expect(201);
    let location = reply.header("location").expect("a location").to_owned();
    let there = server
        .get_as(&format!("/store?graph={location}"), "application/n-triples")
        .expect(200);
    assert_eq!(there.text().lines().count(), 1);
    let path = location
        .strip_prefix("http://localhost")
        .expect("a URL of this server");
    assert_eq!(
        server
            .get_as(path, "application/n-triples")
            .expect(200)
            .text()
            .lines()
            .count(),
        1
    );
    let other = server
        .post("/store", TURTLE, "[] a <http://e/Person> .")
        .expect(201);
    assert_ne!(other.header("location"), Some(location.as_str()));
}

#[test]
fn quads_are_loaded_into_the_graphs_that_they_name() {
    let server = TestServer::start();
    let quads =
        "<http://e/a> <http://e/p> \"1\" <http://e/g> .\n<http://e/a> <http://e/p> \"2\" .\n";
    let json = server
        .post("/store", "application/n-quads", quads)
        .expect(200)
        .json();
    assert_eq!(
        (json["statements"].as_u64(), json["stored"].as_u64()),
        (Some(2), Some(2)),
        "{json}"
    );
    assert!(
        server.ask("ASK { <http://e/a> ?p \"2\" GRAPH <http://e/g> { <http://e/a> ?p \"1\" } }")
    );
}

#[test]
fn the_graph_store_refuses_wrong_requests() {
    let server = TestServer::start();
    put(
        &server,
        "/store?graph=http%3A%2F%2Fe%2Fg",
        "<http://e/a> <http://e/p> 1 .",
    )
    .expect(201);
    server
        .delete("/store")
        .expect_error(400, "missing_parameter", &["?graph=", "?default"]);
    server
        .get("/store?graph=http%3A%2F%2Fe%2Fg&default")
        .expect_error(400, "two_graphs", &[]);
    server
        .get("/store/x?default")
        .expect_error(400, "two_graphs", &[]);
    server
        .get("/store?graph=relative")
        .expect_error(400, "bad_iri", &["absolute"]);
    server
        .get("/store?graf=http%3A%2F%2Fe%2Fg")
        .expect_error(400, "unknown_parameter", &["graph"]);
    server
        .get_as("/store?graph=http%3A%2F%2Fe%2Fg", "text/csv")
        .expect_error(406, "not_acceptable", &[]);
    let json = server
        .send(
            "PUT",
            "/store?default",
            &[("Content-Type", "text/csv")],
            Some(b"a,b"),
        )
        .expect_error(415, "unsupported_media_type", &["text/csv"]);
    assert!(
        json["supported"]
            .as_array()
            .is_some_and(|list| list.len() >= 7),
        "{json}"
    );
    let patch = server.send(
        "PATCH",
        "/store?default",
        &[("Content-Type", "application/sparql-update")],
        Some(b"CLEAR ALL"),
    );
    assert!(
        patch
            .header("allow")
            .is_some_and(|allow| allow.contains("PUT")),
        "{patch:?}"
    );
    patch.expect_error(405, "method_not_allowed", &[]);
    let json = put(
        &server,
        "/store?graph=http%3A%2F%2Fe%2Fg",
        "<http://e/a> <http://e/p> 1 .\n<http://e/a> <http://e/p> .",
    )
    .expect_error(400, "bad_rdf", &["line 2"]);
    assert_eq!(json["line"], 2);
    let nested = format!(
        "<http://e/s> <http://e/p> {}<http://e/o>{} .",
        "<<( <http://e/s> <http://e/p> ".repeat(100_000),
        " )>>".repeat(100_000)
    );
    put(&server, "/store?default", &nested).expect_error(400, "nested_too_deeply", &["line 1"]);
    assert_eq!(
        server
            .get_as("/store?graph=http%3A%2F%2Fe%2Fg", "application/n-triples")
            .expect(200)
            .text()
            .lines()
            .count(),
        1,
        "the refused request changes nothing"
    );
}
