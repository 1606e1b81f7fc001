//! Messages over HTTP: every syntax, what is refused and where, bodies that come slowly or end too
//! early, and streams that have no room.

use crate::client::{connect, read_reply, request_bytes};
use crate::server::{TestServer, encode};
use serde_json::json;
use somersault::{MessageLimits, MessageReader};
use std::io::{BufReader, Write};
use std::time::Duration;

const TIMESTAMP: &str = "TIMESTAMP <http://e/at>";
const TURTLE: &str = "text/turtle; version=1.2-messages";

fn numbered(path: &str, seq: u64) -> String {
    format!("{path}?source=feed&seq={seq}")
}

#[test]
fn messages_in_all_five_syntaxes() {
    let server = TestServer::start();
    let path = server.stream("s", &format!("TIMELESS {TIMESTAMP}"));
    let int = "^^<http://www.w3.org/2001/XMLSchema#integer>";
    let line = |n: u32, graph: &str| format!("_:x <http://e/at> \"{n}\"{int}{graph} .\n");
    let lines = |n: u32, graph: &str| {
        let (first, second) = (line(n, graph), line(n + 1, graph));
        format!("VERSION \"1.2-messages\"\n{first}MESSAGE\n{second}")
    };
    let bodies = [
        ("application/n-triples;version=1.2-messages", lines(10, "")),
        (
            "application/n-quads; version=\"1.2-messages\"",
            lines(20, " <http://e/g>"),
        ),
        (
            TURTLE,
            "_:x <http://e/at> 30 .\n@message .\n_:x <http://e/at> 31 .".to_owned(),
        ),
        (
            "application/trig;version=1.2-messages",
            "<http://e/g> { _:x <http://e/at> 40 }\nMESSAGE\n_:x <http://e/at> 41 .".to_owned(),
        ),
        (
            "application/x-ld+ndjson",
            "{\"@context\": {\"at\": \"http://e/at\"}}\n{\"at\": 50}\n{\"at\": 51}\n".to_owned(),
        ),
    ];
    for (index, (media_type, body)) in bodies.iter().enumerate() {
        let address = numbered(&path, 2 * index as u64 + 1);
        let answer = server.post(&address, media_type, body).expect(200).json();
        let first = 2 * index + 1;
        assert_eq!(
            answer,
            json!({
                "taken": 2, "repeated": 0, "refused": 0, "accepted": 2, "dropped": 0, "dead_letters": 0, "reasons": [],
                "numbers": { "taken": [[first, first + 1]], "repeated": [], "refused": [] },
            }),
            "{media_type}"
        );
        let again = server.post(&address, media_type, body).expect(200).json();
        assert_eq!(
            (again["taken"].as_u64(), again["repeated"].as_u64()),
            (Some(0), Some(2))
        );
    }
    server.advance(&path, 2_000);
    let count = "SELECT (COUNT(DISTINCT ?x) AS ?n) { { ?x <http://e/at> ?t } UNION { GRAPH <http://e/g> { ?x <http://e/at> ?t } } }";
    assert_eq!(server.select(count)[0]["n"]["value"], "10");
}

#[test]
fn a_refused_message_is_listed_with_its_number_place_and_reason() {
    let server = TestServer::start();
    let path = server.stream("s", TIMESTAMP);
    let body = "<http://e/a> <http://e/at> 1000 .\nMESSAGE\n<http://e/b> <http://e/p> .\nMESSAGE\n<http://e/c> <http://e/at> 500 .\nMESSAGE\n<http://e/d> <http://e/p> 1 .\nMESSAGE\n<http://e/e> <http://e/at> 1500 .";
    let answer = server
        .post(&numbered(&path, 7), TURTLE, body)
        .expect(200)
        .json();
    assert_eq!(
        answer["numbers"]["taken"],
        json!([[7, 7], [11, 11]]),
        "{answer}"
    );
    assert_eq!(answer["numbers"]["refused"], json!([[8, 10]]));
    let reasons = answer["reasons"].as_array().expect("a list");
    let shown: Vec<_> = reasons
        .iter()
        .map(|it| {
            (
                it["number"].as_u64(),
                it["line"].as_u64(),
                it["code"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (Some(8), Some(3), Some("bad_rdf")),
            (Some(9), Some(5), Some("late")),
            (Some(10), Some(7), Some("invalid")),
        ]
    );
    let sentence = reasons[2]["error"].as_str().expect("a sentence");
    assert!(
        sentence.contains("has no value at <http://e/at>"),
        "{sentence}"
    );
    let metrics = server.get("/metrics").expect(200);
    assert!(
        metrics.text().contains("somersault_pushes_total 2"),
        "two were taken"
    );
}

#[test]
fn requests_that_cannot_be_read_take_nothing() {
    let server = TestServer::start();
    let path = server.stream("s", TIMESTAMP);
    let body = "<http://e/a> <http://e/at> 1000 .";
    server
        .post("/streams/http%3A%2F%2Fe%2Fnone", TURTLE, body)
        .expect_error(404, "not_found", &["http://e/none"]);
    server
        .post(&format!("{path}?event_time_ms=5"), TURTLE, body)
        .expect_error(400, "invalid", &["TIMESTAMP", "leave out"]);
    server
        .post(&format!("{path}?number=5"), TURTLE, body)
        .expect_error(400, "unknown_parameter", &["number"]);
    let supported = server.post(&path, "text/html", body).expect(415).json();
    let supported = supported["supported"].to_string();
    assert!(supported.contains("application/x-ld+ndjson"), "{supported}");
    let packed = [("Content-Type", TURTLE), ("Content-Encoding", "br")];
    server
        .send("POST", &path, &packed, Some(b""))
        .expect_error(415, "unsupported_encoding", &[]);
    let open = "<http://e/a> <http://e/at> 1000 .\nMESSAGE\n<http://e/b> <http://e/p> [\nMESSAGE\n";
    let ended = server.post(&numbered(&path, 1), TURTLE, open).expect_error(
        400,
        "bad_rdf",
        &["nothing behind it is read"],
    );
    assert_eq!(
        (&ended["taken"], &ended["from"]),
        (&json!(1), &json!(3)),
        "{ended}"
    );
}

#[test]
fn a_full_stream_answers_from_which_message_on_to_send_again() {
    let server = TestServer::start();
    let path = server.stream("s", &format!("BUDGET 2 KB {TIMESTAMP}"));
    let message = |n: u32| format!("<http://e/m{n}> <http://e/at> {} .", 1_000 + 100 * n);
    let body: Vec<String> = (0..60).map(message).collect();
    let reply = server.post(&numbered(&path, 100), TURTLE, &body.join("\nMESSAGE\n"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    let answer = reply.expect_error(429, "stream_budget", &["BUDGET"]);
    let taken = answer["taken"].as_u64().expect("a number");
    assert!((20..30).contains(&taken), "{answer}");
    assert_eq!(answer["from"], 100 + taken);
    // Batches close while messages come, so there is room again for those behind them.
    let mut next = taken as usize;
    crate::client::until("all are taken", || {
        let rest = body[next..].join("\nMESSAGE\n");
        let answer = server.post(&numbered(&path, 100 + next as u64), TURTLE, &rest);
        next += answer.json()["taken"].as_u64().unwrap_or(0) as usize;
        next == body.len()
    });
}

/// A chunk of a body.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[test]
fn messages_are_taken_while_their_body_comes() {
    let server = TestServer::start();
    let path = server.stream("s", TIMESTAMP);
    let taken = || server.get(&path).expect(200).json()["tuples"].as_u64();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {TURTLE}\r\nTransfer-Encoding: chunked\r\n\r\n",
        numbered(&path, 1)
    );
    let mut socket = connect(server.address());
    let mut send = |text: &str| socket.write_all(text.as_bytes()).expect("the server reads");
    send(&head);
    let message = |n: u32| format!("<http://e/m{n}> <http://e/at> {n} .\nMESSAGE\n");
    let first: String = (0..3_000).map(message).collect();
    send(&chunk(&first));
    // What makes a group is taken before the rest has come.
    crate::client::until("messages are taken", || taken() > Some(1_000));
    send(&chunk("<http://e/last> <http://e/at> 5000 ."));
    send("0\r\n\r\n");
    let reply = read_reply(&mut BufReader::new(socket), false);
    assert_eq!(reply.expect(200).json()["taken"], 3_001);
}

#[test]
fn the_end_of_a_body_that_is_cut_off_is_no_message() {
    let server = TestServer::start();
    let path = server.stream("s", TIMESTAMP);
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {TURTLE}\r\nContent-Length: 1000\r\n\r\n",
        numbered(&path, 1)
    );
    let mut socket = connect(server.address());
    let body = "<http://e/a> <http://e/at> 1 .\nMESSAGE\n<http://e/b> <http://e/at> 20 .";
    socket
        .write_all(format!("{head}{body}").as_bytes())
        .expect("the server reads");
    std::thread::sleep(Duration::from_millis(200));
    drop(socket);
    crate::client::until("the first message is taken", || {
        let sources = server.get(&path).expect(200).json();
        sources["tuples"].as_u64() == Some(1)
    });
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.get(&path).expect(200).json()["tuples"], 1);
}

/// What is sent out is read again by the reader of what is sent in.
#[test]
fn messages_of_an_interior_stream_are_followed_in_every_form() {
    let server = TestServer::start();
    let put = |path: &str, text: &str| server.put(path, text).expect(201);
    let path = format!("/streams/{}", encode("http://e/out"));
    put(&path, "CREATE STREAM <http://e/out> INTERIOR");
    put(
        "/procedures/say",
        "CREATE PROCEDURE say(?what) AS {
            EMIT INTO <http://e/out> CONSTRUCT { _:b <http://e/says> ?what, \"é\"@fr } WHERE { } }",
    );
    let say = |what: i64| {
        let arguments = format!("{{\"what\": {what}}}");
        let call = server.post("/procedures/say/call", "application/json", &arguments);
        call.expect(200);
    };
    // The first client begins the feed.
    let none = server.get(&format!("{path}/messages?count=0")).expect(200);
    assert_eq!(none.header("message-place"), Some("1"));
    (1..=3).for_each(say);
    let limits = MessageLimits {
        bytes: 1 << 20,
        statements: 100,
    };
    for syntax in somersault::MessageSyntax::ALL {
        let address = format!("{path}/messages?from=kept&count=3");
        let reply = server.get_as(&address, syntax.media_type()).expect(200);
        assert_eq!(reply.header("content-type"), Some(syntax.media_type()));
        let read = MessageReader::new(reply.text().as_bytes(), syntax, limits);
        let messages: Vec<Vec<String>> = read
            .map(|message| {
                let quads = message
                    .expect("it is read")
                    .statements
                    .expect("it is whole");
                let objects = quads.iter().map(|quad| quad.object.to_string());
                let mut objects: Vec<String> = objects.collect();
                objects.sort();
                objects
            })
            .collect();
        let integer = "^^<http://www.w3.org/2001/XMLSchema#integer>";
        let expected = (1..=3).map(|what| {
            let mut objects = vec![format!("\"{what}\"{integer}"), "\"é\"@fr".to_owned()];
            objects.sort();
            objects
        });
        assert_eq!(messages, expected.collect::<Vec<_>>(), "{syntax:?}");
    }
    let headers = [("Last-Event-ID", "1"), ("Accept", "text/event-stream")];
    let mut events = server.events(&format!("{path}/messages?count=2"), &headers);
    for place in [2, 3] {
        let event = events.next().expect("a message");
        assert_eq!(event.json()["place"], place);
        assert!(
            event.json()["message"]
                .as_str()
                .unwrap()
                .contains(&format!("\"{place}\""))
        );
    }
    let after = server.send(
        "GET",
        &format!("{path}/messages?lastEventId=9"),
        &[("Accept", "text/html")],
        None,
    );
    after.expect_error(406, "not_acceptable", &["Accept"]);
    let pushed = format!("/streams/{}", encode("http://e/in"));
    put(&pushed, "CREATE STREAM <http://e/in>");
    let refused = server.get(&format!("{pushed}/messages"));
    refused.expect_error(400, "invalid", &["no interior stream"]);
    let unknown = format!("/streams/{}/messages", encode("http://e/none"));
    server.get(&unknown).expect(404);
}

/// Reads the answers of a query in a syntax, until the query is dropped.
fn followed(server: &TestServer, query: &str, headers: &[(&str, &str)]) -> String {
    let address = format!("/queries/{query}/results?empties=true");
    let mut socket = connect(server.address());
    let request = request_bytes("GET", &address, headers, None);
    socket.write_all(&request).expect("sent");
    // It is subscribed when the head of the answer comes.
    socket.peek(&mut [0]).expect("an answer");
    server.delete(&format!("/queries/{query}")).expect(204);
    let reply = read_reply(&mut BufReader::new(socket), false).expect(200);
    assert!(reply.complete);
    reply.text().to_owned()
}

#[test]
fn answers_of_a_construct_are_followed_as_messages() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    let text = "CONSTRUCT { GRAPH <http://e/g> { ?s <http://e/of> ?o } } FROM NAMED STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { GRAPH <http://e/s> { ?s <http://e/p> ?o } }";
    let limits = MessageLimits {
        bytes: 1 << 20,
        statements: 100,
    };
    for (number, syntax) in (0..).zip(somersault::MessageSyntax::ALL) {
        let name = format!("q{number}");
        let begin = number * 10_000;
        server.advance(&path, begin);
        server.put(&format!("/queries/{name}"), text).expect(201);
        for second in [0, 2] {
            let at = begin + second * 1_000;
            let line = format!("{at}\t<http://e/a> <http://e/p> \"{second}\" .\n");
            server.push(&path, &line).expect(200);
        }
        server.advance(&path, begin + 3_000);
        let has_comments = syntax != somersault::MessageSyntax::NdJsonLd;
        let body = followed(&server, &name, &[("Accept", syntax.media_type())]);
        let read = MessageReader::new(body.as_bytes(), syntax, limits);
        let subjects: Vec<String> = read
            .map(|message| {
                let quads = message.expect("read").statements.expect("whole");
                assert_eq!(quads.len(), 1);
                quads[0].subject.to_string() + &quads[0].predicate.to_string()
            })
            .collect();
        assert_eq!(subjects.len(), 2, "{syntax:?}: {body}");
        let ids = body.lines().filter(|line| line.starts_with("# id: "));
        let ids: Vec<&str> = ids.collect();
        assert_eq!(ids.len(), if has_comments { 3 } else { 0 }, "{body}");
        if has_comments {
            assert!(ids[1].ends_with(&format!(":{}", begin + 2_000)), "{body}");
            assert!(body.contains("# end: the query was dropped"), "{body}");
        }
    }
}

#[test]
fn a_client_of_messages_goes_on_behind_an_id() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    server.advance(&path, 0);
    let text = "CONSTRUCT { ?s <http://e/q> ?o } FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s <http://e/p> ?o }";
    server.put("/queries/q", text).expect(201);
    for second in 0..3 {
        let line = format!(
            "{}\t<http://e/a> <http://e/p> <http://e/{second}> .\n",
            second * 1_000
        );
        server.push(&path, &line).expect(200);
    }
    server.advance(&path, 3_000);
    let headers = [
        ("Accept", "application/n-triples;version=1.2-messages"),
        ("Last-Event-ID", "1000"),
    ];
    let body = followed(&server, "q", &headers);
    assert!(!body.contains("<http://e/0>"), "{body}");
    assert!(
        body.contains("<http://e/1>") && body.contains("<http://e/2>"),
        "{body}"
    );
}

#[test]
fn answers_that_are_no_graphs_are_no_messages() {
    let server = TestServer::start();
    server.stream("s", "");
    let window = "FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s ?p ?o }";
    for (name, form) in [("rows", "SELECT ?s"), ("yes", "ASK")] {
        let address = format!("/queries/{name}");
        server
            .put(&address, &format!("{form} {window}"))
            .expect(201);
        let accept = "text/turtle;version=1.2-messages";
        let refused = server.get_as(&format!("{address}/results"), accept);
        refused.expect_error(406, "not_acceptable", &["CONSTRUCT", "text/event-stream"]);
    }
}
