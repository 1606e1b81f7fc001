//! Procedures, dataflows and calls over HTTP.

use crate::client::{connect, read_head, until};
use crate::server::TestServer;
use serde_json::{Value, json};
use somersault_server::ServerConfig;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::time::Duration;

const LINES: &str = "application/x-ndjson";
const JSON: &str = "application/json";

/// Adds to a number and returns it; above 100 it aborts.
const ADD: &str = "CREATE PROCEDURE raise(?of IRI, ?by) AS {
    LET (?sum) BE SELECT (?n + ?by AS ?sum) { ?of <http://e/n> ?n };
    IF ASK { FILTER(?sum > 100) } { ABORT \"too much\" };
    DELETE { ?of <http://e/n> ?n } INSERT { ?of <http://e/n> ?sum } WHERE { ?of <http://e/n> ?n };
    RETURN SELECT ?n { ?of <http://e/n> ?n }
}";

fn server() -> TestServer {
    let server = TestServer::start();
    server.update("INSERT DATA { <http://e/a> <http://e/n> 0 }");
    server.put("/procedures/raise", ADD).expect(201);
    server
}

fn number(json: &Value) -> &str {
    let value = &json["results"]["bindings"][0]["n"]["value"];
    value.as_str().unwrap_or_else(|| panic!("{json}"))
}

#[test]
fn procedures_are_declared_listed_and_dropped() {
    let server = server();
    // White space and comments do not count.
    let again = server
        .put("/procedures/raise", &format!("# again\n{ADD}"))
        .expect(200)
        .json();
    assert_eq!(
        again["parameters"],
        json!([{ "name": "of", "kind": "IRI" }, { "name": "by", "kind": "ANY" }])
    );
    assert_eq!(again["call"], "/procedures/raise/call");
    let other = "CREATE PROCEDURE raise() AS { RETURN ASK { } }";
    server
        .put("/procedures/raise", other)
        .expect_error(409, "conflict", &["CREATE OR REPLACE"]);
    let wrong = server.put("/procedures/lower", ADD);
    wrong.expect_error(400, "invalid", &["declares the procedure raise", "lower"]);
    let broken = server.put("/procedures/raise", "CREATE PROCEDURE raise( AS { }");
    broken.expect_error(400, "syntax", &["line 1"]);
    let replaced = server.put(
        "/procedures/raise",
        &other.replace("CREATE", "CREATE OR REPLACE"),
    );
    assert_eq!(replaced.expect(200).json()["parameters"], json!([]));
    let all = server.get("/procedures").expect(200).json();
    assert_eq!(all["procedures"][0]["name"], "raise");
    server.delete("/procedures/raise").expect(204);
    server
        .get("/procedures/raise")
        .expect_error(404, "not_found", &["procedure raise"]);
    server
        .delete("/procedures/raise")
        .expect_error(404, "not_found", &["procedure raise"]);
}

#[test]
fn one_call_is_answered_in_the_format_that_is_asked_for() {
    let server = server();
    let call = |body: &str, accept: &str| {
        let headers = [("Content-Type", JSON), ("Accept", accept)];
        server.send(
            "POST",
            "/procedures/raise/call",
            &headers,
            Some(body.as_bytes()),
        )
    };
    let answer = call("{\"of\": \"http://e/a\", \"by\": 5}", "*/*").expect(200);
    assert_eq!(
        answer.header("content-type"),
        Some("application/sparql-results+json")
    );
    assert_eq!(number(&answer.json()), "5");
    let term = "{\"of\": {\"type\": \"uri\", \"value\": \"http://e/a\"}, \"by\": {\"type\": \"literal\", \"value\": \"2\", \"datatype\": \"http://www.w3.org/2001/XMLSchema#integer\"}}";
    let answer = call(term, "text/csv").expect(200);
    assert_eq!(answer.text(), "n\r\n7\r\n");
    // It has committed, so another format is no error.
    assert_eq!(
        call(term, "text/turtle").expect(200).json()["head"]["vars"],
        json!(["n"])
    );
    call(term, "image/png").expect_error(406, "not_acceptable", &["Accept"]);
    assert_eq!(
        server.select("SELECT ?n { ?a <http://e/n> ?n }")[0]["n"]["value"],
        "9"
    );

    let abort = call("{\"of\": \"http://e/a\", \"by\": 99}", "*/*");
    assert_eq!(
        abort.expect_error(409, "aborted", &["too much"])["reason"],
        "too much"
    );
    for (body, code, words) in [
        ("{\"of\": \"http://e/a\"}", "invalid", "?by is missing"),
        (
            "{\"of\": \"http://e/a\", \"by\": 1, \"to\": 2}",
            "invalid",
            "?to",
        ),
        (
            "{\"of\": \"no iri\", \"by\": 1}",
            "invalid",
            "?of cannot be",
        ),
        ("{\"of\": 7, \"by\": 1}", "invalid", "?of cannot be"),
        ("{\"of\": null}", "bad_arguments", "null"),
        ("[1]", "bad_arguments", "object"),
    ] {
        call(body, "*/*").expect_error(400, code, &[words]);
    }
    let unknown = server.post("/procedures/lower/call", JSON, "{}");
    unknown.expect_error(404, "not_found", &["procedure lower"]);
    let form = server.post("/procedures/raise/call", "text/plain", "{}");
    form.expect_error(415, "unsupported_media_type", &[]);
    assert_eq!(
        server.select("SELECT ?n { ?a <http://e/n> ?n }")[0]["n"]["value"],
        "9"
    );
}

#[test]
fn every_kind_of_return_has_its_answer() {
    let server = TestServer::start();
    for (name, steps) in [
        ("nothing", "INSERT DATA { <http://e/a> <http://e/p> 1 }"),
        ("yes", "RETURN ASK { }"),
        (
            "triples",
            "RETURN CONSTRUCT { <http://e/a> <http://e/p> 1 } WHERE { }",
        ),
    ] {
        let text = format!("CREATE PROCEDURE {name}() AS {{ {steps} }}");
        server
            .put(&format!("/procedures/{name}"), &text)
            .expect(201);
    }
    let call = |name: &str, accept: &str| {
        let path = format!("/procedures/{name}/call");
        server
            .send("POST", &path, &[("Accept", accept)], None)
            .expect(200)
    };
    assert_eq!(call("nothing", "text/csv").json(), json!({ "done": true }));
    assert_eq!(call("yes", "*/*").json()["boolean"], true);
    assert!(
        call("yes", "application/sparql-results+xml")
            .text()
            .contains("<boolean>true")
    );
    let graph = call("triples", "application/n-triples");
    assert_eq!(
        graph.text(),
        "<http://e/a> <http://e/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
    );
    let lines = "{\"call\": \"nothing\"}\n{\"call\": \"yes\"}\n{\"call\": \"triples\"}\n";
    let reply = server.post("/calls", LINES, lines).expect(200);
    let lines: Vec<Value> = reply
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0], json!({ "done": true }));
    assert_eq!(lines[1]["boolean"], true);
    assert_eq!(lines[2]["graph"], graph.text());
}

#[test]
fn a_key_makes_a_call_that_is_sent_again_harmless() {
    let server = server();
    let body = "{\"of\": \"http://e/a\", \"by\": 5}";
    let call = |key: &str| {
        let headers = [("Content-Type", JSON), ("Idempotency-Key", key)];
        server.send(
            "POST",
            "/procedures/raise/call",
            &headers,
            Some(body.as_bytes()),
        )
    };
    assert_eq!(number(&call("till/1").expect(200).json()), "5");
    assert_eq!(number(&call("\"till/1\"").expect(200).json()), "5");
    assert_eq!(number(&call("till/2").expect(200).json()), "10");
    call("till").expect_error(400, "bad_header", &["source/number"]);
    let text = "PREFIX e: <http://e/> # a call\ncall raise(e:a, 1)";
    let update = |text: &str, key: &str| {
        let headers = [
            ("Content-Type", "application/sparql-update"),
            ("Idempotency-Key", key),
        ];
        server.send("POST", "/update", &headers, Some(text.as_bytes()))
    };
    assert_eq!(number(&update(text, "till/2").expect(200).json()), "10");
    assert_eq!(number(&update(text, "till/3").expect(200).json()), "11");
    let two = "CALL raise(<http://e/a>, 1); CALL raise(<http://e/a>, 1)";
    update(two, "till/4").expect_error(400, "syntax", &["end of the statement"]);
    let abort = update("CALL raise(<http://e/a>, 1000)", "till/5");
    abort.expect_error(409, "aborted", &["too much"]);
    assert_eq!(
        server.select("SELECT ?n { ?a <http://e/n> ?n }")[0]["n"]["value"],
        "11"
    );
}

#[test]
fn lines_are_answered_in_their_order_and_a_refusal_stops_nothing() {
    let server = server();
    let lines = [
        "{\"args\": {\"of\": \"http://e/a\", \"by\": 1}, \"key\": \"till/1\"}",
        "",
        "{\"args\": {\"of\": \"http://e/a\", \"by\": 1}, \"key\": \"till/1\"}",
        "{\"args\": {\"of\": \"http://e/a\", \"by\": 1000}}",
        "{\"args\": {\"of\": \"http://e/a\"}}",
        "no json",
        "{\"call\": \"lower\", \"args\": {}}",
        "{\"call\": \"raise\", \"args\": {\"of\": \"http://e/a\", \"by\": 1}}",
    ];
    let reply = server
        .post("/procedures/raise/calls", LINES, &lines.join("\n"))
        .expect(200);
    assert_eq!(reply.header("content-type"), Some(LINES));
    let answers: Vec<Value> = reply
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 7, "{}", reply.text());
    assert_eq!(
        [
            number(&answers[0]),
            number(&answers[1]),
            number(&answers[6])
        ],
        ["1", "1", "2"]
    );
    assert_eq!(answers[2], json!({ "aborted": "too much" }));
    for (answer, line, words) in [
        (&answers[3], 5, "?by is missing"),
        (&answers[4], 6, "not JSON"),
        (&answers[5], 7, "/calls"),
    ] {
        let said = answer["error"].as_str().unwrap();
        assert!(said.contains(words), "{said}");
        assert_eq!(answer["line"], line);
    }
    let unnamed = server.post("/calls", LINES, "{}\n").expect(200).json();
    assert!(
        unnamed["error"].as_str().unwrap().contains("\"call\""),
        "{unnamed}"
    );
    server
        .post("/calls", "text/csv", "{}\n")
        .expect_error(415, "unsupported_media_type", &[]);
}

#[test]
fn an_answer_comes_before_the_next_line_is_sent() {
    let server = server();
    let mut socket = connect(server.address());
    let head = format!(
        "POST /procedures/raise/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: {LINES}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    let line = "{\"args\": {\"of\": \"http://e/a\", \"by\": 1}}\n";
    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
    socket.write_all(chunk.as_bytes()).unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    assert_eq!(read_head(&mut reader).0, 200);
    let mut answer = |expected: &str| {
        let mut text = String::new();
        reader.read_line(&mut text).unwrap();
        let mut piece = vec![0; usize::from_str_radix(text.trim(), 16).unwrap() + 2];
        reader.read_exact(&mut piece).unwrap();
        let json: Value = serde_json::from_slice(&piece).unwrap();
        assert_eq!(number(&json), expected);
    };
    answer("1");
    socket.write_all(chunk.as_bytes()).unwrap();
    answer("2");
    socket.write_all(b"0\r\n\r\n").unwrap();
}

#[test]
fn a_client_that_reads_nothing_holds_up_no_other() {
    let mut config = ServerConfig::default();
    config.stall_timeout = Duration::from_secs(1);
    let server = TestServer::with(crate::server::engine_config(), config);
    let text = format!(
        "CREATE PROCEDURE much() AS {{ RETURN SELECT (\"{}\" AS ?x) {{ }} }}",
        "x".repeat(40_000)
    );
    server.put("/procedures/much", &text).expect(201);
    let mut socket = connect(server.address());
    let head = format!(
        "POST /procedures/much/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: {LINES}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    let line = "{}\n".repeat(1_000);
    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
    let sender = std::thread::spawn(move || {
        // The server ends the connection, or takes no more.
        socket
            .set_write_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        while socket.write_all(chunk.as_bytes()).is_ok() {}
        socket
    });
    let calls = || server.engine.metrics().transactions.calls;
    until("some calls are answered", || calls() > 100);
    let reply = server.post("/procedures/much/call", JSON, "{}").expect(200);
    assert!(reply.body.len() > 40_000);
    sender.join().unwrap();
    // What is held for the client is bounded: 1,024 calls, and what two sockets hold.
    let taken = calls();
    assert!(taken < 3_000, "{taken} calls were carried out");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(calls(), taken, "it was given up");
}

/// 300 answers of 400,000 bytes are 120 MB; the server holds 32 MiB of them at most.
#[test]
fn long_answers_wait_until_their_client_reads() {
    let server = TestServer::start();
    let text = format!(
        "CREATE PROCEDURE much() AS {{ RETURN SELECT (\"{}\" AS ?x) {{ }} }}",
        "x".repeat(400_000)
    );
    server.put("/procedures/much", &text).expect(201);
    let mut socket = connect(server.address());
    let lines = "{}\n".repeat(300);
    let request = format!(
        "POST /procedures/much/calls HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {LINES}\r\nContent-Length: {}\r\n\r\n{lines}",
        lines.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let calls = || server.engine.metrics().transactions.calls;
    let mut before = 0;
    until("no more calls are carried out", || {
        let is_still = before > 0 && calls() == before;
        before = calls();
        std::thread::sleep(Duration::from_millis(300));
        is_still
    });
    assert!(before < 150, "{before} answers are held");
    // Every line is answered when the client reads, in one way or the other.
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let answered = text.matches("{\"head\"").count();
    let refused = text.matches("are not read yet").count();
    assert_eq!(answered + refused, 300, "{answered} and {refused}");
    assert_eq!(calls(), answered as u64);
    assert!(answered > 200, "{answered}");
}

#[test]
fn dataflows_are_declared_paused_and_say_what_aborted() {
    let server = TestServer::start();
    let stream = server.stream("in", "");
    let take = "CREATE PROCEDURE take ON STREAM <http://e/in> BATCH 1 MESSAGE AS {
        IF ASK { BATCH { ?s <http://e/p> 13 } } { ABORT \"unlucky\" };
        INSERT { ?s <http://e/p> ?o } WHERE { BATCH { ?s <http://e/p> ?o } }
    }";
    server.put("/procedures/take", take).expect(201);
    server
        .post("/procedures/take/call", JSON, "{}")
        .expect_error(400, "invalid", &["cannot be called"]);
    server
        .put(
            "/dataflows/flow",
            "CREATE DATAFLOW flow { take } ON ABORT STOP",
        )
        .expect(201);
    server
        .delete("/procedures/take")
        .expect_error(409, "conflict", &["dataflow flow"]);
    let push = |number: u32| {
        let line = format!(
            "{number}\t<http://e/s{number}> <http://e/p> \"{number}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
        );
        server.push(&stream, &line).expect(200);
    };
    let flow = || server.get("/dataflows/flow").expect(200).json();
    server
        .send("POST", "/dataflows/flow/pause", &[], None)
        .expect(204);
    push(1);
    assert_eq!(
        (&flow()["state"], &flow()["waiting_batches"]),
        (&json!("paused"), &json!(1))
    );
    server.delete("/procedures/take").expect(409);
    server
        .send("POST", "/dataflows/flow/resume", &[], None)
        .expect(204);
    push(13);
    push(14);
    until("the dataflow stops", || flow()["state"] == "stopped");
    let abort = json!({ "procedure": "take", "round": 2, "of_call": false, "reason": "unlucky", "time_ms": 13 });
    let shown = flow();
    assert_eq!(
        (&shown["stopped_by"], &shown["last_abort"], &shown["aborts"]),
        (&abort, &abort, &json!(1))
    );
    assert_eq!(
        (&shown["rounds"], &shown["recovery"], &shown["on_abort"]),
        (&json!(2), &json!("STRONG"), &json!("STOP"))
    );
    let list = json!({ "aborted": [abort], "dropped": 0 });
    assert_eq!(
        server.get("/dataflows/flow/aborted").expect(200).json(),
        list
    );
    assert_eq!(
        server.get("/procedures/take/aborted").expect(200).json(),
        list
    );
    let health = server.get("/health").expect(200).json();
    assert_eq!(
        (
            &health["status"],
            &health["stopped_dataflows"][0]["dataflow"]
        ),
        (&json!("degraded"), &json!("flow"))
    );
    assert!(
        health["message"]
            .as_str()
            .unwrap()
            .contains("RESUME DATAFLOW flow"),
        "{health}"
    );
    let metrics = server.get("/metrics").expect(200);
    for sample in [
        "somersault_transactions_aborted_total{cause=\"abort\"} 1",
        "somersault_waiting_batches 1",
        "somersault_rounds_total 2",
    ] {
        assert!(metrics.text().contains(sample), "{sample}");
    }
    server
        .send("POST", "/dataflows/flow/resume", &[], None)
        .expect(204);
    until("it goes on", || flow()["rounds"] == 3);
    assert_eq!(server.get("/health").expect(200).json()["status"], "ok");
    assert_eq!(
        server.get("/dataflows").expect(200).json()["dataflows"][0]["name"],
        "flow"
    );
    server.delete("/dataflows/flow").expect(204);
    server
        .get("/dataflows/flow/aborted")
        .expect_error(404, "not_found", &["dataflow flow"]);
    server.delete("/procedures/take?discard=true").expect(204);
}

#[test]
fn procedures_and_dataflows_are_explained() {
    let server = server();
    server.stream("in", "");
    let interior = "CREATE STREAM <http://e/out> INTERIOR BATCH 1s";
    server
        .put("/streams/http%3A%2F%2Fe%2Fout", interior)
        .expect(201);
    for (name, text) in [
        ("first", "CREATE PROCEDURE first ON STREAM <http://e/in> BATCH 1 MESSAGE OWNS WINDOW <http://e/w> ON <http://e/in> [LAST 2 MESSAGES]
            AS { EMIT INTO <http://e/out> CONSTRUCT WHERE { BATCH { ?s ?p ?o } } }"),
        ("second", "CREATE PROCEDURE second ON STREAM <http://e/out> BATCH 2 MESSAGES AS { INSERT { ?s ?p ?o } WHERE { BATCH { ?s ?p ?o } } }"),
    ] {
        let text = text.replace("CONSTRUCT WHERE", "CONSTRUCT { ?s ?p ?o } WHERE");
        server.put(&format!("/procedures/{name}"), &text).expect(201);
    }
    server
        .put(
            "/dataflows/flow",
            "CREATE DATAFLOW flow { NEST { first, second } } ON ABORT STOP",
        )
        .expect(201);
    let drawn = server.get("/dataflows/flow/explain").expect(200);
    assert_eq!(
        drawn.text(),
        "DATAFLOW flow RECOVERY STRONG ON ABORT STOP\n\
         <http://e/in>\n\
         └▶ first  BATCH 1 MESSAGE  WINDOW <http://e/w> [LAST 2 MESSAGES SLIDE 1]  NEST 1\n   \
            └▶ <http://e/out>\n      \
               └▶ second  BATCH 2 MESSAGES  NEST 1\n"
    );
    let dot = server.get("/dataflows/flow/explain?format=dot").expect(200);
    for line in [
        "digraph \"flow\" {",
        "\"<http://e/in>\" [shape=ellipse];",
        "label=\"NEST\"; \"first\"; \"second\"; }",
        "\"<http://e/in>\" -> \"first\" [label=\"BATCH 1 MESSAGE\"];",
        "\"first\" -> \"<http://e/out>\";",
    ] {
        assert!(dot.text().contains(line), "{line}: {}", dot.text());
    }
    server
        .get("/dataflows/flow/explain?format=svg")
        .expect_error(400, "bad_parameter", &["text or dot"]);
    let steps = server.get("/procedures/raise/explain").expect(200);
    for line in [
        "PROCEDURE raise (?of IRI, ?by ANY)",
        "  1. LET (?sum) BE",
        "  2. IF ASK",
        "    1. ABORT \"too much\"",
        "  4. RETURN SELECT ?n",
    ] {
        assert!(steps.text().contains(line), "{line}: {}", steps.text());
    }
    assert!(steps.text().contains("scan ?of <n> ?n"), "{}", steps.text());
    server
        .get("/procedures/lower/explain")
        .expect_error(404, "not_found", &["procedure lower"]);
}

#[test]
fn a_call_is_analysed_and_leaves_nothing() {
    let server = server();
    let arguments = Some("{\"of\": \"http://e/a\", \"by\": 5}".as_bytes());
    let headers = [("Idempotency-Key", "till/1"), ("Content-Type", JSON)];
    let path = "/procedures/raise/call?analyze=true";
    let text = |answer: crate::client::Reply| answer.expect(200).text().to_owned();
    let shown = text(server.send("POST", path, &headers, arguments));
    assert!(
        shown.contains("2. IF ASK { FILTER(?sum > 100) }"),
        "{shown}"
    );
    assert!(shown.contains("?n = \"5\""), "{shown}");
    let call = "EXPLAIN ANALYZE CALL raise(<http://e/a>, 500)";
    let shown = text(server.post("/update", "application/sparql-update", call));
    assert!(shown.contains("it would have aborted: too much"), "{shown}");
    let (query, call) = ("application/sparql-query", "CALL raise(<http://e/a>, 5)");
    let shown = text(server.post("/explain?analyze=true", query, call));
    assert!(shown.contains("?n = \"5\""), "{shown}");
    let shown = text(server.post("/explain", query, call));
    assert!(shown.starts_with("PROCEDURE raise"), "{shown}");
    let done = server.send("POST", "/procedures/raise/call", &headers, arguments);
    assert_eq!(
        number(&done.expect(200).json()),
        "5",
        "nothing had remained"
    );
}

#[test]
fn a_native_procedure_without_a_body_is_named_in_health() {
    let server = server();
    let native = server.put("/procedures/late", "CREATE PROCEDURE late() AS NATIVE");
    let native = native.expect(201).json();
    assert_eq!(native["body"], "NATIVE");
    assert!(
        native["waits"]
            .as_str()
            .unwrap()
            .contains("has not registered")
    );
    let health = server.get("/health").expect(200).json();
    assert_eq!(health["absent_procedures"], json!(["late"]));
    assert_eq!(health["status"], "degraded");
    let path = "/procedures/late/call?timeout_ms=10";
    let waited = server.send("POST", path, &[], None);
    waited.expect_error(503, "no_body", &["Engine::procedure"]);
    let steps = server.get("/procedures/raise").expect(200).json();
    assert_eq!(
        (&steps["body"], &steps["waits"]),
        (&json!("STEPS"), &Value::Null)
    );
}
