//! `/queries`: registering, status, pausing, and what bad registrations get.

use crate::client::{exchange, request_bytes};
use crate::server::{TestServer, encode, engine_config};
use somersault_server::ServerConfig;
use std::time::Duration;

const SEEN: &str =
    "SELECT ?s FROM STREAM <http://e/s> [RANGE 2s STEP 1s] WHERE { ?s <http://e/p> ?o }";

#[test]
fn registered_once_shown_and_dropped() {
    let server = TestServer::start();
    server.stream("s", "");
    let json = server.put("/queries/seen", SEEN).expect(201).json();
    assert_eq!(json["name"], "seen");
    assert_eq!(
        (
            json["windows"][0]["range_ms"].as_i64(),
            json["windows"][0]["step_ms"].as_i64()
        ),
        (Some(2000), Some(1000))
    );
    server.put("/queries/seen", SEEN).expect(200);
    server
        .put("/queries/seen", &SEEN.replace("2s", "4s"))
        .expect_error(409, "conflict", &["seen"]);
    assert_eq!(
        server.get("/queries/seen").expect(200).json()["windows"][0]["range_ms"],
        2000
    );
    server
        .put("/queries/watch", &format!("REGISTER QUERY watch AS {SEEN}"))
        .expect(201);
    server
        .put("/queries/other", &format!("REGISTER QUERY watch AS {SEEN}"))
        .expect_error(400, "invalid", &["watch", "other"]);
    let name = "http://e/query 1";
    server
        .put(&format!("/queries/{}", encode(name)), SEEN)
        .expect(201);
    let list = server.get("/queries").expect(200).json();
    let names: Vec<&str> = list["queries"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|query| query["name"].as_str())
        .collect();
    assert_eq!(names.len(), 3);
    assert!(names.contains(&name), "{names:?}");
    for query in list["queries"].as_array().expect("a list") {
        server
            .get(query["href"].as_str().expect("an address"))
            .expect(200);
    }
    assert_eq!(
        (&list["total"], &list["next"]),
        (&3.into(), &serde_json::Value::Null)
    );
    server.delete("/queries/seen").expect(204);
    server
        .get("/queries/seen")
        .expect_error(404, "not_found", &["seen"]);
    server
        .delete("/queries/seen")
        .expect_error(404, "not_found", &[]);
}

#[test]
fn a_query_replaces_another() {
    let server = TestServer::start();
    server.stream("s", "");
    let put = |text: &str| server.put("/queries/seen?replace=true", text);
    let first = put(SEEN).expect(201).json();
    assert!(first["replaced"].is_null(), "{first}");
    let same = put(SEEN).expect(200).json();
    assert_eq!(
        (&same["uid"], &same["replaced"]),
        (&first["uid"], &serde_json::Value::Null)
    );
    let wider = SEEN.replace("2s", "4s");
    server
        .put("/queries/seen?replace=false", &wider)
        .expect_error(409, "conflict", &["seen", "replace"]);
    put("SELECT ?s FROM").expect_error(400, "syntax", &[]);
    put(&SEEN.replace("1s", "1500ms")).expect_error(400, "invalid", &["BATCH"]);
    server
        .put("/queries/seen?replace=perhaps", &wider)
        .expect_error(400, "bad_parameter", &["replace"]);
    let shown = server.get("/queries/seen").expect(200).json();
    assert_eq!(
        (&shown["uid"], &shown["text"]),
        (&first["uid"], &SEEN.into())
    );
    let replaced = put(&wider).expect(200).json();
    assert_eq!(replaced["replaced"]["uid"], first["uid"]);
    assert_ne!(replaced["uid"], first["uid"]);
    assert_eq!(replaced["windows"][0]["range_ms"], 4000);
    let listed = server.get("/queries").expect(200).json();
    assert_eq!(listed["total"], 1);
}

#[test]
fn registration_refuses_wrong_requests() {
    let server = TestServer::start();
    server.stream("s", "");
    let put = |text: &str| server.put("/queries/q", text);
    let json = put("SELECT ?s FROM STREAM <http://e/s> [RANGE 2s STEP 1s]\nWHERE { ?s ?p }")
        .expect_error(400, "syntax", &["line 2"]);
    assert_eq!(json["line"], 2, "{json}");
    assert!(json["column"].as_u64().is_some(), "{json}");
    let unknown =
        put("SELECT ?s FROM STREAM <http://e/nobody> [RANGE 2s STEP 1s] WHERE { ?s ?p ?o }");
    assert!([400, 404].contains(&unknown.status), "{}", unknown.text());
    assert!(
        unknown.text().contains("http://e/nobody"),
        "{}",
        unknown.text()
    );
    put("SELECT ?s FROM STREAM <http://e/s> [RANGE 3s STEP 1500ms] WHERE { ?s ?p ?o }")
        .expect_error(400, "invalid", &["BATCH"]);
    let none = put("DESCRIBE ?s WHERE { ?s ?p ?o }");
    assert!((400..500).contains(&none.status), "{}", none.text());
    assert_eq!(
        server.get("/queries").expect(200).json()["queries"]
            .as_array()
            .map(Vec::len),
        Some(0),
        "the refused request leaves nothing behind"
    );
}

#[test]
fn parameters_that_are_not_known_are_refused_everywhere() {
    let server = TestServer::start();
    let stream = server.stream("s", "");
    server.put("/queries/seen", SEEN).expect(201);
    let to = "{\"to_ms\": 1000}";
    let json = [("Content-Type", "application/json")];
    let advances = [format!("{stream}/advance"), "/advance".to_owned()];
    let posts = advances
        .iter()
        .map(|path| ("POST", path.as_str(), Some(to)));
    let others = [
        ("GET", stream.as_str(), None),
        ("DELETE", &stream, None),
        ("GET", "/queries/seen", None),
        ("POST", "/queries/seen/pause", None),
        ("POST", "/queries/seen/resume", None),
        ("DELETE", "/queries/seen", None),
    ];
    for (method, path, body) in posts.chain(others) {
        let path = format!("{path}?forse=true");
        let reply = server.send(method, &path, &json, body.map(str::as_bytes));
        reply.expect_error(400, "unknown_parameter", &["\"forse\""]);
    }
    let seen = server.get("/queries/seen").expect(200).json();
    assert_eq!(seen["paused"], false);
    let shown = server.get(&stream).expect(200).json();
    assert_eq!(shown["complete_through_ms"], serde_json::Value::Null);
}

#[test]
fn a_stream_that_is_windowed_stays() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    server.put("/queries/seen", SEEN).expect(201);
    server
        .delete(&path)
        .expect_error(409, "conflict", &["seen"]);
    server.delete("/queries/seen").expect(204);
    server.delete(&path).expect(204);
}

#[test]
fn status_names_the_stream_that_a_query_waits_for() {
    let server = TestServer::start();
    let (s, t) = (server.stream("s", ""), server.stream("t", ""));
    let text = "SELECT ?a FROM STREAM <http://e/s> [RANGE 2s STEP 1s] FROM STREAM <http://e/t> [RANGE 2s STEP 1s] WHERE { GRAPH <http://e/s> { ?a ?p ?b } GRAPH <http://e/t> { ?a ?q ?c } }";
    server.put("/queries/both", text).expect(201);
    server
        .push(&s, "1000\t<http://e/a> <http://e/p> \"1\" .\n")
        .expect(200);
    server.advance(&s, 10_000);
    let info = server.get("/queries/both").expect(200).json();
    let held_up_by = &info["held_up_by"];
    assert_eq!(held_up_by["stream"], "http://e/t", "{info}");
    assert!(
        held_up_by["since_ms"].is_null(),
        "t never had a time: {info}"
    );
    assert_eq!(info["firings"], 0);
    server.advance(&t, 10_500);
    let info = server.get("/queries/both").expect(200).json();
    let held_up_by = &info["held_up_by"];
    assert_eq!(held_up_by["stream"], "http://e/s", "{info}");
    assert_eq!(held_up_by["complete_through_ms"], 10_000, "{info}");
    assert_eq!(held_up_by["close_ms"], 11_000, "{info}");
    assert!(held_up_by["since_ms"].is_i64(), "{info}");
    let reached: Vec<_> = info["streams"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|stream| stream["complete_through_ms"].as_i64())
        .collect();
    assert_eq!(reached, [Some(10_000), Some(10_500)], "{info}");
}

#[test]
fn a_paused_query_does_not_fire() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    server.put("/queries/seen", SEEN).expect(201);
    server
        .push(&path, "500\t<http://e/a> <http://e/p> \"1\" .\n")
        .expect(200);
    server.advance(&path, 2000);
    let firings = || {
        server
            .engine
            .quiesce(std::time::Duration::from_secs(10))
            .expect("everything that is due is answered");
        server.get("/queries/seen").expect(200).json()["firings"]
            .as_u64()
            .expect("a count")
    };
    let before = firings();
    assert!(before > 0);
    server
        .send("POST", "/queries/seen/pause", &[], None)
        .expect(204);
    assert_eq!(
        server.get("/queries/seen").expect(200).json()["paused"],
        true
    );
    server
        .push(&path, "2500\t<http://e/b> <http://e/p> \"1\" .\n")
        .expect(200);
    server.advance(&path, 4000);
    assert_eq!(firings(), before);
    server
        .send("POST", "/queries/seen/resume", &[], None)
        .expect(204);
    server
        .push(&path, "4500\t<http://e/c> <http://e/p> \"1\" .\n")
        .expect(200);
    server.advance(&path, 6000);
    assert!(firings() > before);
    server
        .send("POST", "/queries/nobody/pause", &[], None)
        .expect_error(404, "not_found", &["nobody"]);
}

#[test]
fn a_derived_stream_is_registered_as_a_query_and_shown_as_a_stream() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    let name = encode("http://e/d");
    let (query, stream) = (format!("/queries/{name}"), format!("/streams/{name}"));
    let derive = "REGISTER STREAM <http://e/d> KEEP 10s AS CONSTRUCT { ?s <http://e/q> ?o } FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s <http://e/p> ?o }";
    server.put(&query, derive).expect(201);
    server
        .put(
            "/queries/reader",
            "SELECT ?s FROM STREAM <http://e/d> [RANGE 1s STEP 1s] WHERE { ?s <http://e/q> ?o }",
        )
        .expect(201);
    // Advances the streams that are pushed to; the derived stream follows.
    let all = |to_ms: i64| {
        server
            .post(
                "/advance",
                "application/json",
                &format!("{{\"to_ms\":{to_ms}}}"),
            )
            .expect(200);
    };
    all(0);
    server
        .push(&path, "500\t<http://e/a> <http://e/p> \"1\" .\n")
        .expect(200);
    all(1000);
    let firing = server.events("/queries/reader/results", &[]).firing();
    assert_eq!(
        (&firing["close_ms"], &firing["revision"]),
        (&2000.into(), &0.into())
    );
    let shown = server.get(&stream).expect(200).json();
    assert_eq!(shown["derived_by"], "http://e/d", "{shown}");
    assert_eq!(shown["complete_through_ms"], 2000, "{shown}");
    assert_eq!(
        server.get(&query).expect(200).json()["derives"],
        "http://e/d"
    );

    let line = "500\t<http://e/a> <http://e/p> \"1\" .\n";
    server
        .push(&stream, line)
        .expect_error(409, "conflict", &["derived by query"]);
    server
        .delete(&stream)
        .expect_error(409, "conflict", &["DROP QUERY"]);
    server
        .delete(&query)
        .expect_error(409, "conflict", &["windowed by reader"]);
    let circle = derive
        .replace("<http://e/s> [", "<http://e/d> [")
        .replace("STREAM <http://e/d> KEEP", "STREAM <http://e/s> KEEP");
    server
        .put(&format!("/queries/{}", encode("http://e/s")), &circle)
        .expect_error(
            400,
            "invalid",
            &["<http://e/s> from <http://e/d> from <http://e/s>"],
        );
    server.delete("/queries/reader").expect(204);
    server.delete(&query).expect(204);
    server
        .get(&stream)
        .expect_error(404, "not_found", &["http://e/d"]);
}

#[test]
fn many_are_registered_by_one_request() {
    let server = TestServer::start();
    server.stream("s", "");
    let line = |name: &str, object: usize| {
        let text = format!(
            "SELECT ?s FROM STREAM <http://e/s> [RANGE 2s STEP 1s] WHERE {{ ?s <http://e/p> <http://e/o{object}> }}"
        );
        serde_json::json!({ "name": name, "query": text }).to_string()
    };
    let mut lines: Vec<String> = (0..40).map(|at| line(&format!("q{at}"), at)).collect();
    lines.push(String::new());
    lines.push("{\"name\":\"x\"}".to_owned());
    lines.push(line("q1", 2));
    lines.push(line("q1", 1));
    let send = |body: &str| {
        let types = [("Content-Type", "application/x-ndjson")];
        server.send("PUT", "/queries:batch", &types, Some(body.as_bytes()))
    };
    let json = send(&lines.join("\n")).expect(200).json();
    let counts = [
        "lines",
        "registered",
        "unchanged",
        "refused",
        "errors_left_off",
    ];
    let counts = counts.map(|name| json[name].as_u64());
    assert_eq!(counts, [Some(44), Some(40), Some(1), Some(2), Some(0)]);
    assert_eq!(json["errors"][0]["line"], 42);
    assert_eq!(json["errors"][1]["name"], "q1");
    let json = server.get("/queries/q7").expect(200).json();
    assert_eq!(json["group"]["queries"], 40);
    let json = send(&(lines[..40].join("\r\n") + "\r\n"))
        .expect(200)
        .json();
    assert_eq!(
        (json["unchanged"].as_u64(), json["lines"].as_u64()),
        (Some(40), Some(40))
    );
    let plain = [("Content-Type", "text/plain")];
    let other = server.send("PUT", "/queries:batch", &plain, Some(b"x"));
    other.expect_error(415, "unsupported_media_type", &["text/plain"]);
}

/// The lines before the break are registered, however few they are.
#[test]
fn a_client_that_stops_in_the_middle_of_many_is_told_how_many_there_are() {
    let mut config = ServerConfig::default();
    config.stall_timeout = Duration::from_millis(300);
    let server = TestServer::with(engine_config(), config);
    server.stream("s", "");
    let line = |name: &str| serde_json::json!({ "name": name, "query": SEEN }).to_string();
    let body = format!("{}\n{}\n{{\"name\":\"c\"", line("a"), line("b"));
    let mut request = request_bytes(
        "PUT",
        "/queries:batch",
        &[("Content-Type", "application/x-ndjson")],
        Some(format!("{body}{}", " ".repeat(100)).as_bytes()),
    );
    request.truncate(request.len() - 100);
    let reply = exchange(server.address(), &request, false);
    let json = reply.expect_error(408, "stalled_body", &["2 queries", "send all lines again"]);
    assert_eq!(json["registered"], 2);
    for name in ["a", "b"] {
        server.get(&format!("/queries/{name}")).expect(200);
    }
}

/// Members of a group and other queries are listed in one order, for any size of page.
#[test]
fn queries_are_listed_a_page_at_a_time() {
    let server = TestServer::start();
    server.stream("s", "");
    let alone = SEEN.replace("SELECT", "BASE <http://e/> SELECT");
    let mut names: Vec<String> = (0..7).map(|at| format!("q {at}")).collect();
    for (at, name) in names.iter().enumerate() {
        let text = if at % 3 == 0 { &alone } else { SEEN };
        server
            .put(&format!("/queries/{}", encode(name)), text)
            .expect(201);
    }
    let pages = || -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut next = Some("/queries?limit=3".to_owned());
        while let Some(path) = next {
            let page = server.get(&path).expect(200).json();
            let queries = page["queries"].as_array().expect("a list");
            let name = |query: &serde_json::Value| query["name"].as_str().map(str::to_owned);
            pages.push(queries.iter().filter_map(name).collect());
            next = page["next"].as_str().map(str::to_owned);
        }
        pages
    };
    let expected = |names: &[String]| -> Vec<Vec<String>> {
        names.chunks(3).map(<[String]>::to_vec).collect()
    };
    assert_eq!(pages(), expected(&names));
    server
        .delete(&format!("/queries/{}", encode(&names[2])))
        .expect(204);
    // A client whose last query was dropped continues behind its name.
    let rest = server.get("/queries?after=q%202").expect(200).json();
    assert_eq!(rest["queries"].as_array().map(Vec::len), Some(4));
    assert_eq!(rest["queries"][0]["name"], "q 3");
    names.remove(2);
    assert_eq!(pages(), expected(&names));
    for bad in [
        "limit=0",
        "limit=10001",
        "limit=x",
        "limit=1&limit=2",
        "page=1",
    ] {
        assert_eq!(server.get(&format!("/queries?{bad}")).status, 400, "{bad}");
    }
}
