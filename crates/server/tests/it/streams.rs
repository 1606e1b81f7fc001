//! `/streams`: declaring, pushing in every syntax, repeats, time, and what bad pushes get.

use crate::server::{TestServer, encode, engine_config};
use somersault::{Clock, EngineConfig};
use somersault_server::ServerConfig;

const A: &str = "<http://e/a> <http://e/p> <http://e/b>";

#[test]
fn declared_once_listed_and_dropped() {
    let server = TestServer::start();
    let path = format!("/streams/{}", encode("http://e/s"));
    let text = "CREATE STREAM <http://e/s> TIMELESS BATCH 1s IDLE NEVER";
    let json = server.put(&path, text).expect(201).json();
    assert_eq!(
        (json["iri"].as_str(), json["batch_ms"].as_i64()),
        (Some("http://e/s"), Some(1000))
    );
    server.put(&path, text).expect(200);
    server
        .put(&path, "CREATE STREAM <http://e/s> BATCH 2s IDLE NEVER")
        .expect_error(409, "conflict", &["http://e/s"]);
    server
        .put(&path, "CREATE STREAM <http://e/other> BATCH 1s")
        .expect_error(400, "invalid", &["http://e/other"]);
    let json = server
        .put(&path, "CREATE STREAM <http://e/s>\n  BATCH soon")
        .expect_error(400, "syntax", &[]);
    assert_eq!(json["line"], 2, "{json}");
    let streams = server.get("/streams").expect(200).json();
    assert_eq!(streams["streams"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        streams["streams"][0]["complete_through_ms"],
        serde_json::Value::Null
    );
    let href = streams["streams"][0]["href"]
        .as_str()
        .expect("an address")
        .to_owned();
    assert_eq!(
        server.get(&href).expect(200).json()["text"]
            .as_str()
            .map(|text| text.contains("TIMELESS")),
        Some(true)
    );
    server.delete(&path).expect(204);
    server
        .get(&path)
        .expect_error(404, "not_found", &["http://e/s"]);
    server.delete(&path).expect_error(404, "not_found", &[]);
}

#[test]
fn pushes_in_every_syntax() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMELESS");
    let time = |ms: &'static str| ("Event-Time-Ms", ms);
    let push = |media_type: &str, header: (&str, &str), body: &str| {
        server
            .send(
                "POST",
                &path,
                &[("Content-Type", media_type), header],
                Some(body.as_bytes()),
            )
            .expect(200)
            .json()["accepted"]
            .as_u64()
    };
    assert_eq!(
        push(
            "application/n-triples",
            time("1000"),
            "<http://e/1> <http://e/p> \"x\" .\n<http://e/2> <http://e/p> \"x\" ."
        ),
        Some(2)
    );
    assert_eq!(
        push(
            "text/turtle",
            ("Event-Time", "1970-01-01T00:00:01.5Z"),
            "@prefix e: <http://e/> . e:3 e:p \"x\", \"y\" ; e:q 1 ."
        ),
        Some(3)
    );
    assert_eq!(
        push(
            "application/n-quads",
            time("2000"),
            "<http://e/4> <http://e/p> \"x\" <http://e/g> ."
        ),
        Some(1)
    );
    assert_eq!(
        push(
            "application/trig",
            time("2100"),
            "<http://e/h> { <http://e/5> <http://e/p> \"x\" }"
        ),
        Some(1)
    );
    assert_eq!(
        push(
            "application/ld+json",
            time("2200"),
            "{\"@id\": \"http://e/6\", \"http://e/p\": \"x\"}"
        ),
        Some(1)
    );
    let lines = "2300\t<http://e/7> <http://e/p> \"x\" .\r\n# a comment\r\n\r\n2400\t<http://e/8> <http://e/p> \"x\" <http://e/g> .\r\n";
    assert_eq!(server.push(&path, lines).expect(200).json()["accepted"], 2);
    let by_parameter = server.post(
        &format!("{path}?event_time_ms=2500"),
        "application/n-triples",
        "<http://e/9> <http://e/p> \"x\" .",
    );
    assert_eq!(by_parameter.expect(200).json()["accepted"], 1);
    server.advance(&path, 3000);
    assert_eq!(server.select("SELECT ?s { { ?s <http://e/p> \"x\" } UNION { GRAPH ?g { ?s <http://e/p> \"x\" } } }").len(), 9);
    assert!(server.ask("ASK { GRAPH <http://e/g> { <http://e/4> ?p ?x . <http://e/8> ?p ?y } GRAPH <http://e/h> { <http://e/5> ?p ?z } }"));
    let info = server.get(&path).expect(200).json();
    assert_eq!(
        (
            info["tuples"].as_u64(),
            info["complete_through_ms"].as_i64()
        ),
        (Some(11), Some(3000)),
        "{info}"
    );
}

#[test]
fn repeats_are_dropped_and_reported() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMELESS");
    let numbered = |source: &str, seq: &str, line: &str| {
        server
            .send(
                "POST",
                &path,
                &[
                    ("Content-Type", "text/tab-separated-values"),
                    ("Push-Source", source),
                    ("Push-Sequence", seq),
                ],
                Some(line.as_bytes()),
            )
            .expect(200)
            .json()
    };
    let line = format!("1000\t{A} .");
    assert_eq!(numbered("one", "1", &line)["repeated"], false);
    let repeat = numbered("one", "1", &line);
    assert_eq!(
        (repeat["repeated"].as_bool(), repeat["accepted"].as_u64()),
        (Some(true), Some(0))
    );
    assert_eq!(numbered("two", "1", &line)["repeated"], false);
    let by_parameter = server
        .push(&format!("{path}?source=one&seq=1"), &line)
        .expect(200)
        .json();
    assert_eq!(by_parameter["repeated"], true);
    assert_eq!(server.get(&path).expect(200).json()["tuples"], 2);
}

#[test]
fn a_push_that_was_refused_is_taken_after_later_ones() {
    let server = TestServer::start();
    let path = server.stream("s", "BUDGET 1000");
    let push = |seq: u64, lines: &str| {
        let path = format!("{path}?source=one&seq={seq}");
        server.push(&path, lines)
    };
    let line = format!("1000\t{A} .\n");
    push(5, &line.repeat(100)).expect(429);
    assert_eq!(push(6, &line).expect(200).json()["repeated"], false);
    let again = push(5, &line).expect(200).json();
    assert_eq!(
        (again["repeated"].as_bool(), again["accepted"].as_u64()),
        (Some(false), Some(1))
    );
    assert_eq!(push(5, &line).expect(200).json()["repeated"], true);
}

#[test]
fn a_time_that_lies_too_far_ahead_is_refused_and_a_stream_can_begin_again() {
    let server = TestServer::with(
        EngineConfig {
            clock: Clock::System,
            ..engine_config()
        },
        ServerConfig::default(),
    );
    let path = server.stream("s", "");
    let line = |ms: i64| format!("{ms}\t{A} .");
    server.push(&path, &line(1_000)).expect(200);
    let refusal = server.push(&path, &line(9_223_372_036_854_774)).expect(400);
    let text = refusal.text();
    assert!(text.contains("294247-01-10T04:00:54.774Z"), "{text}");
    assert!(text.contains("more than 1d ahead"), "{text}");
    server.push(&path, &line(2_000)).expect(200);

    let wide = server.stream("wide", "AHEAD ANY");
    server.push(&wide, &line(1_000)).expect(200);
    server.push(&wide, &line(9_000_000_000_000)).expect(200);
    let info = server.get(&wide).expect(200).json();
    assert!(
        info["ahead_of_clock_ms"].as_i64() > Some(1_000_000),
        "{info}"
    );
    let late = server.push(&wide, &line(2_000)).expect(400);
    assert!(late.text().contains("/reset-time"), "{}", late.text());
    let reset = format!("{wide}/reset-time");
    let answer = server.send("POST", &reset, &[], None).expect(200).json();
    assert_eq!(answer["dropped"], 2);
    let info = server.get(&wide).expect(200).json();
    assert!(info["complete_through_ms"].is_null(), "{info}");
    server.push(&wide, &line(2_000)).expect(200);

    let query = "SELECT ?s FROM STREAM <http://e/wide> [RANGE 1s STEP 1s] WHERE { ?s ?p ?o }";
    server.put("/queries/q", query).expect(201);
    let in_use = server.send("POST", &reset, &[], None).expect(409);
    assert!(in_use.text().contains("windowed by q"), "{}", in_use.text());
    let unknown = format!("/streams/{}/reset-time", encode("http://e/none"));
    server.send("POST", &unknown, &[], None).expect(404);
}

#[test]
fn malformed_pushes_are_refused_whole_with_their_place() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMELESS");
    let good = "<http://e/good> <http://e/p> \"x\" .\n";
    let cases = [
        (
            "application/n-triples",
            format!("{good}<http://e/a> <http://e/p> oops .\n"),
            2,
        ),
        (
            "text/turtle",
            format!("{good}{good}<http://e/a> <http://e/p> .\n"),
            3,
        ),
        (
            "application/n-quads",
            format!("{good}<http://e/a> \"p\" <http://e/b> .\n"),
            2,
        ),
        (
            "application/trig",
            format!("{good}<http://e/g> {{ <http://e/a> }}\n"),
            2,
        ),
        (
            "text/tab-separated-values",
            format!("1000\t{good}1000\t<http://e/a> <http://e/p> _ .\n"),
            2,
        ),
        (
            "text/tab-separated-values",
            format!("1000\t{good}1000 {good}"),
            2,
        ),
    ];
    for (media_type, body, line) in cases {
        let headers: &[(&str, &str)] = if media_type == "text/tab-separated-values" {
            &[("Content-Type", media_type)]
        } else {
            &[("Content-Type", media_type), ("Event-Time-Ms", "1000")]
        };
        let reply = server
            .send("POST", &path, headers, Some(body.as_bytes()))
            .expect(400);
        let json = reply.json();
        assert_eq!(json["line"].as_u64(), Some(line), "{media_type}: {json}");
        assert!(
            json["column"].as_u64().is_some_and(|column| column >= 1),
            "{json}"
        );
        assert!(
            json["error"]
                .as_str()
                .is_some_and(|sentence| sentence.contains(&format!("line {line}"))),
            "{json}"
        );
    }
    let json = server
        .send(
            "POST",
            &path,
            &[
                ("Content-Type", "application/ld+json"),
                ("Event-Time-Ms", "1000"),
            ],
            Some(b"{\"@id\": \"http://e/a\",\n oops}"),
        )
        .expect_error(400, "bad_rdf", &[]);
    assert_eq!(json["line"], 2, "{json}");
    let deep = "{\"http://e/p\":".repeat(60_000);
    server
        .send(
            "POST",
            &path,
            &[
                ("Content-Type", "application/ld+json"),
                ("Event-Time-Ms", "1"),
            ],
            Some(deep.as_bytes()),
        )
        .expect_error(400, "nested_too_deeply", &[]);
    assert_eq!(server.get(&path).expect(200).json()["tuples"], 0);
    server.advance(&path, 5000);
    assert!(
        !server.ask("ASK { ?s ?p ?o }"),
        "nothing of a refused push is visible"
    );
}

#[test]
fn time_that_goes_backwards_is_refused_with_the_statement() {
    let server = TestServer::start();
    let path = server.stream("s", "TIMELESS");
    server.push(&path, &format!("5000\t{A} .")).expect(200);
    let line = "6000\t<http://e/later> <http://e/p> 1 .\n4000\t<http://e/early> <http://e/p> 2 ."
        .replace(" 1 ", " \"1\" ")
        .replace(" 2 ", " \"2\" ");
    let reply = server.push(&path, &line);
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert_eq!(reply.json()["code"], "late");
    let sentence = reply.json()["error"]
        .as_str()
        .expect("a sentence")
        .to_owned();
    assert!(
        sentence.contains("http://e/early") && sentence.contains("4000"),
        "{sentence}"
    );
    let reply = server.push(&path, "4000\t<http://e/early> <http://e/p> \"2\" .");
    let sentence = reply.json()["error"]
        .as_str()
        .expect("a sentence")
        .to_owned();
    assert!(sentence.contains("5000"), "the stream's time: {sentence}");
    assert_eq!(
        server.get(&path).expect(200).json()["tuples"],
        1,
        "the refused request changes nothing"
    );
}

#[test]
fn pushes_refuse_wrong_requests() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    let unknown = format!("/streams/{}", encode("http://e/nobody"));
    server.push(&unknown, &format!("1\t{A} .")).expect_error(
        404,
        "not_found",
        &["http://e/nobody"],
    );
    let json = server
        .post(&path, "application/x-www-form-urlencoded", A)
        .expect_error(415, "unsupported_media_type", &["Content-Type"]);
    assert!(
        json["supported"]
            .as_array()
            .is_some_and(|list| list.iter().any(|item| item == "text/tab-separated-values")),
        "{json}"
    );
    server
        .send("POST", &path, &[], Some(A.as_bytes()))
        .expect_error(415, "unsupported_media_type", &["no Content-Type"]);
    let timed = |headers: &[(&str, &str)], status: u16, code: &str| {
        let mut all = vec![("Content-Type", "application/n-triples")];
        all.extend_from_slice(headers);
        server
            .send("POST", &path, &all, Some(format!("{A} .").as_bytes()))
            .expect_error(status, code, &[]);
    };
    timed(&[], 400, "invalid");
    timed(&[("Event-Time-Ms", "soon")], 400, "bad_number");
    timed(
        &[("Event-Time-Ms", "99999999999999999999")],
        400,
        "bad_number",
    );
    timed(&[("Event-Time", "yesterday")], 400, "bad_header");
    timed(
        &[
            ("Event-Time-Ms", "1"),
            ("Event-Time", "2023-11-14T22:13:20Z"),
        ],
        400,
        "contradiction",
    );
    timed(
        &[("Event-Time-Ms", "1"), ("Push-Sequence", "-1")],
        400,
        "bad_number",
    );
    timed(
        &[("Event-Time-Ms", "1"), ("Push-Source", "")],
        400,
        "bad_parameter",
    );
    timed(
        &[("Event-Time-Ms", "1"), ("Event-Time-Ms", "1")],
        400,
        "repeated_header",
    );
    server
        .push(&format!("{path}?sequence=1"), "")
        .expect_error(400, "unknown_parameter", &["seq"]);
    server
        .send(
            "POST",
            &path,
            &[
                ("Content-Type", "text/tab-separated-values"),
                ("Event-Time-Ms", "1"),
            ],
            Some(b""),
        )
        .expect_error(400, "contradiction", &[]);
    assert_eq!(server.get(&path).expect(200).json()["tuples"], 0);
}

#[test]
fn several_streams_advance_in_one_snapshot() {
    let server = TestServer::start();
    let (one, two) = (server.stream("one", ""), server.stream("two", ""));
    let advance = |body: &str| server.post("/advance", "application/json", body);
    assert!(
        advance("{\"streams\": {\"http://e/one\": 1000, \"http://e/two\": 2000}}")
            .expect(200)
            .json()["sn"]
            .is_u64()
    );
    let time = |path: &str| server.get(path).expect(200).json()["complete_through_ms"].as_i64();
    assert_eq!((time(&one), time(&two)), (Some(1000), Some(2000)));
    advance("{\"to_ms\": 3000}").expect(200);
    assert_eq!((time(&one), time(&two)), (Some(3000), Some(3000)));
    advance("{\"streams\": {\"http://e/nobody\": 1}}").expect_error(
        404,
        "not_found",
        &["http://e/nobody"],
    );
    for bad in [
        "",
        "[]",
        "{}",
        "{\"to_ms\": \"1\"}",
        "{\"streams\": {\"http://e/one\": 1.5}}",
        "{\"to_ms\": 1, \"streams\": {}}",
        "{\"tom_s\": 1}",
    ] {
        advance(bad).expect_error(400, "bad_json", &[]);
    }
    server
        .post(&format!("{one}/advance"), "application/json", "{\"to\": 1}")
        .expect_error(400, "bad_json", &["to_ms"]);
}

#[test]
fn streams_that_go_while_all_advance_are_not_asked_for() {
    let server = TestServer::start();
    let stays = server.stream("stays", "");
    let passes = format!("/streams/{}", encode("http://e/passes"));
    let rounds = 300;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                server.stream("passes", "");
                server.delete(&passes).expect(204);
            }
        });
        for to_ms in 1..=rounds {
            let to = format!("{{\"to_ms\": {to_ms}}}");
            server.post("/advance", "application/json", &to).expect(200);
        }
    });
    let shown = server.get(&stays).expect(200).json();
    assert_eq!(shown["complete_through_ms"], rounds);
}

#[test]
fn names_in_urls() {
    let server = TestServer::start();
    let create = |path: &str| server.put(path, "CREATE STREAM <http://e/s> BATCH 1s");
    create("/streams/http://e/s").expect_error(404, "not_found", &["%2F"]);
    create("/streams/").expect(404);
    for bad in ["/streams/%20", "/streams/%0D%0Ax", "/streams/%00"] {
        create(bad).expect_error(400, "bad_name", &[]);
    }
    for bad in ["/streams/%", "/streams/%zz", "/streams/%FF"] {
        create(bad).expect_error(400, "bad_encoding", &[]);
    }
    for odd in [
        "/streams/..%2F..%2Fetc%2Fpasswd",
        "/streams/%2E%2E",
        "/streams/relative",
    ] {
        let reply = create(odd);
        assert!(
            [400, 404].contains(&reply.status),
            "{odd}: {}",
            reply.text()
        );
    }
    assert_eq!(
        server.get("/streams").expect(200).json()["streams"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
}

#[test]
fn a_push_over_a_limit() {
    let mut config = engine_config();
    config.limits.push_statements = 2;
    let mut server_config = ServerConfig::default();
    server_config.body_limit = 10_000;
    let server = TestServer::with(config, server_config);
    let path = server.stream("s", "");
    server
        .push(&path, &format!("1\t{A} .\n").repeat(2))
        .expect(200);
    server
        .push(&path, &format!("1\t{A} .\n").repeat(3))
        .expect_error(413, "push_statements", &["push_statements"]);
    let json = server.push(&path, &"#".repeat(10_001)).expect_error(
        413,
        "body_too_large",
        &["10000", "--body-bytes"],
    );
    assert_eq!(json["limit_bytes"], 10_000);
}

#[test]
fn a_stream_over_its_budget_slows_its_source_down() {
    let server = TestServer::start();
    let path = server.stream("s", "KEEP 1h BUDGET 20000");
    let mut refused = None;
    for second in 0..200_i64 {
        let lines: String = (0..50)
            .map(|i| {
                format!(
                    "{}\t<http://e/{second}-{i}> <http://e/p> \"{i}\" .\n",
                    second * 1000
                )
            })
            .collect();
        let reply = server.push(&path, &lines);
        if reply.status != 200 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("the budget is reached");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    refused.expect_error(429, "stream_budget", &["http://e/s"]);
}
