//! `/queries/{name}/subscriptions`: durable subscriptions, created, read, acknowledged and deleted.

use crate::client::until;
use crate::server::TestServer;
use serde_json::{Value, json};

const SEEN: &str =
    "SELECT ?s FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s <http://e/p> ?o }";
const BILL: &str = "/queries/seen/subscriptions/bill";

/// A server with a stream and a query over it.
fn started() -> (TestServer, String) {
    let server = TestServer::start();
    let path = server.stream("s", "");
    server.advance(&path, 0);
    server.put("/queries/seen", SEEN).expect(201);
    (server, path)
}

/// One statement in each second from `from` up to `to`, and the close after each.
fn seconds(server: &TestServer, path: &str, from: i64, to: i64) {
    for second in from..to {
        let time = second * 1000;
        let line = format!("{time}\t<http://e/s{second}> <http://e/p> \"{second}\" .\n");
        server.push(path, &line).expect(200);
    }
    server.advance(path, to * 1000);
}

fn state(server: &TestServer) -> Value {
    server.get(BILL).expect(200).json()
}

#[test]
fn answers_come_until_they_are_acknowledged() {
    let (server, path) = started();
    let created = server.put(BILL, "").expect(201).json();
    assert_eq!(created["acknowledged"], Value::Null);
    assert_eq!(created["waiting"], 0);
    server.put(BILL, "{}").expect(200);
    let conflict = server
        .put(BILL, "{\"answers\": 7}")
        .expect(409)
        .text()
        .to_owned();
    assert!(conflict.contains("other terms"), "{conflict}");
    seconds(&server, &path, 0, 3);
    let read = |count: usize| -> Vec<(String, i64)> {
        let mut events = server.events(&format!("{BILL}/results"), &[]);
        let events = (0..count).map(|_| events.next().expect("an answer"));
        let answers = events.map(|event| {
            let close = event.json()["close_ms"].as_i64().expect("a close");
            (event.id.clone().expect("an id"), close)
        });
        answers.collect()
    };
    let first = read(3);
    let closes: Vec<i64> = first.iter().map(|(_, close)| *close).collect();
    assert_eq!(closes, [1000, 2000, 3000]);
    assert_eq!(read(3), first, "nothing was acknowledged");
    let second = &first[1].0;
    let post = |body: &str| server.post(&format!("{BILL}/ack"), "application/json", body);
    let ack = |id: &str| json!({ "id": id }).to_string();
    let acknowledged = post(&ack(second)).expect(200);
    assert_eq!(acknowledged.json()["acknowledged"], json!(second));
    assert_eq!(acknowledged.json()["waiting"], 1);
    // An old one again changes nothing.
    post(&ack(&first[0].0)).expect(200);
    assert_eq!(read(1), first[2..]);
    seconds(&server, &path, 3, 4);
    let closes: Vec<i64> = read(2).iter().map(|(_, close)| *close).collect();
    assert_eq!(closes, [3000, 4000]);
    assert_eq!(state(&server)["handed"], 2);
    for (body, status) in [
        (ack("77:5"), 400),
        (ack("when"), 400),
        ("{}".to_owned(), 400),
        ("{\"close\": 5}".to_owned(), 400),
    ] {
        post(&body).expect(status);
    }
    let list = server.get("/queries/seen/subscriptions").expect(200).json();
    assert_eq!(list["subscriptions"][0]["name"], "bill");
}

#[test]
fn answers_are_read_without_an_open_stream() {
    let (server, path) = started();
    server.put(BILL, "").expect(201);
    let next = |parameters: &str| {
        server
            .get(&format!("{BILL}/answers{parameters}"))
            .expect(200)
    };
    let nothing = json!({ "answers": [], "missed": 0, "ended": null });
    assert_eq!(next("").json(), nothing);
    assert_eq!(next("?wait_ms=20").json(), nothing);
    seconds(&server, &path, 0, 3);
    let closes = |document: &Value| -> Vec<i64> {
        let answers = document["answers"].as_array().expect("answers").iter();
        answers
            .map(|it| it["close_ms"].as_i64().expect("a close"))
            .collect()
    };
    until("three answers", || state(&server)["waiting"] == 3);
    let reply = next("?limit=2&wait_ms=60000");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let first = reply.json();
    assert_eq!(closes(&first), [1000, 2000]);
    assert_eq!(
        first["answers"][0]["results"]["results"]["bindings"][0]["s"]["value"],
        "http://e/s0"
    );
    assert_eq!(
        closes(&next("").json()),
        [1000, 2000, 3000],
        "nothing is acknowledged"
    );
    let ack = json!({ "id": first["answers"][1]["id"] }).to_string();
    server
        .post(&format!("{BILL}/ack"), "application/json", &ack)
        .expect(200);
    assert_eq!(closes(&next("?limit=1000").json()), [3000]);
    let ack = json!({ "id": next("").json()["answers"][0]["id"] }).to_string();
    server
        .post(&format!("{BILL}/ack"), "application/json", &ack)
        .expect(200);
    // A request that waits is answered with the next answer.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| closes(&next("?wait_ms=60000").json()));
        seconds(&server, &path, 3, 4);
        assert_eq!(waiting.join().expect("it is answered"), [4000]);
    });
    for bad in ["limit=0", "limit=1001", "limit=x", "wait_ms=-1", "max=3"] {
        server.get(&format!("{BILL}/answers?{bad}")).expect(400);
    }
    server
        .get("/queries/seen/subscriptions/none/answers")
        .expect(404);
}

#[test]
fn a_document_of_answers_says_what_is_lost() {
    let (server, path) = started();
    server.put(BILL, "{\"from\": \"kept\"}").expect(201);
    seconds(&server, &path, 0, 9);
    until("nine answers", || state(&server)["waiting"] == 9);
    for (when_full, answers, missed) in [("skip", 5, 4), ("end", 0, 4)] {
        let address = format!("/queries/seen/subscriptions/{when_full}");
        let terms = json!({ "from": "kept", "answers": 5, "when_full": when_full });
        server.put(&address, &terms.to_string()).expect(201);
        let document = server.get(&format!("{address}/answers")).expect(200).json();
        let count = document["answers"].as_array().map(Vec::len);
        assert_eq!(
            (count, &document["missed"]),
            (Some(answers), &json!(missed))
        );
        assert_eq!(
            document["ended"].is_string(),
            when_full == "end",
            "{document}"
        );
    }
}

#[test]
fn metrics_and_health_show_subscriptions() {
    let (server, path) = started();
    server.put(BILL, "").expect(201);
    seconds(&server, &path, 0, 3);
    until("three answers", || state(&server)["waiting"] == 3);
    let next = server.get(&format!("{BILL}/answers")).expect(200).json();
    server.get(&format!("{BILL}/answers?limit=2")).expect(200);
    let ack = json!({ "id": next["answers"][0]["id"] }).to_string();
    let ack = server.post(&format!("{BILL}/ack"), "application/json", &ack);
    let shown = ack.expect(200).json();
    assert_eq!(
        (&shown["acknowledged_total"], &shown["repeats"]),
        (&json!(1), &json!(2))
    );
    assert!(shown["acknowledged_age_ms"].is_u64(), "{shown}");
    let metrics = server.get("/metrics").expect(200).text().to_owned();
    for (name, value) in [
        ("waiting", "2"),
        ("acknowledged_total", "1"),
        ("acknowledged_seconds", "1"),
        ("repeats_total", "2"),
        ("missed", "0"),
        ("ended", "0"),
    ] {
        let line = format!(
            "somersault_subscription_{name}{{query=\"seen\",subscription=\"bill\"}} {value}"
        );
        assert!(
            metrics.lines().any(|other| other == line),
            "{line} in {metrics}"
        );
    }
    assert!(
        metrics.contains("\nsomersault_subscriptions 1\n"),
        "{metrics}"
    );
    let health = server.get("/health").expect(200).json();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["subscriptions"][0]["name"], "bill");
    assert_eq!(health["sinks"], json!([]));
}

#[test]
fn a_query_is_dropped_after_its_subscriptions() {
    let (server, path) = started();
    server.put(BILL, "{\"from\": \"kept\"}").expect(201);
    let refused = server.delete("/queries/seen").expect(409).text().to_owned();
    assert!(refused.contains("bill"), "{refused}");
    let mut events = server.events(&format!("{BILL}/results"), &[]);
    seconds(&server, &path, 0, 1);
    assert_eq!(events.firing()["close_ms"], 1000);
    server.delete(BILL).expect(204);
    let end = events.next().expect("an end");
    assert_eq!(end.event.as_deref(), Some("end"));
    assert_eq!(end.json()["reason"], "ended");
    assert_eq!(events.next(), None);
    server.get(BILL).expect(404);
    server.delete(BILL).expect(404);
    server.get(&format!("{BILL}/results")).expect(404);
    server.delete("/queries/seen").expect(204);
    server.put(BILL, "").expect(404);
}

#[test]
fn a_subscription_at_its_limit_says_so() {
    let (server, path) = started();
    server
        .put(BILL, "{\"answers\": 2, \"when_full\": \"skip\"}")
        .expect(201);
    // An advance is acknowledged when its snapshot is stable; the answers follow.
    let mut second = 0;
    until("answers are let go", || {
        seconds(&server, &path, second, second + 1);
        second += 1;
        state(&server)["missed"].as_u64() >= Some(3)
    });
    assert_eq!(state(&server)["ended"], Value::Null);
    let mut events = server.events(&format!("{BILL}/results"), &[]);
    let mut missed = 0;
    let next = loop {
        let event = events.next().expect("an event");
        if event.event.as_deref() != Some("gap") {
            break event.json();
        }
        missed += event.json()["missed"].as_i64().expect("a number");
    };
    assert!(missed >= 3, "{missed}");
    assert_eq!(next["close_ms"], (missed + 1) * 1000);
}

#[test]
fn a_limit_holds_for_the_answers_that_were_kept_before() {
    let (server, path) = started();
    server.put(BILL, "{\"from\": \"kept\"}").expect(201);
    seconds(&server, &path, 0, 9);
    until("nine answers", || state(&server)["waiting"] == 9);
    let skips = "/queries/seen/subscriptions/skips";
    let terms = "{\"from\": \"kept\", \"answers\": 5, \"when_full\": \"skip\"}";
    let created = server.put(skips, terms).expect(201).json();
    assert_eq!(
        (&created["waiting"], &created["missed"]),
        (&json!(5), &json!(4))
    );
    assert_eq!(created["ended"], Value::Null);
    let mut events = server.events(&format!("{skips}/results"), &[]);
    let gap = events.next().expect("an event").json();
    assert_eq!(gap["missed"], 4);
    assert_eq!(events.firing()["close_ms"], 5000);
    server.put(skips, terms).expect(200);
    let ends = "/queries/seen/subscriptions/ends";
    let terms = "{\"from\": \"kept\", \"answers\": 5}";
    let created = server.put(ends, terms).expect(201).json();
    assert_eq!(
        (&created["waiting"], &created["missed"]),
        (&json!(0), &json!(4))
    );
    let ended = created["ended"].as_str().expect("a sentence");
    assert!(ended.contains("larger limit"), "{ended}");
    assert_eq!(state(&server)["waiting"], 9);
}

#[test]
fn names_that_clients_remove_from_addresses_are_refused() {
    let (server, _path) = started();
    for dots in ["%2E", "%2E%2E"] {
        let refused = server.put(&format!("/queries/seen/subscriptions/{dots}"), "");
        let refused = refused.expect(400).text().to_owned();
        assert!(refused.contains("another name"), "{refused}");
        let refused = server.put(&format!("/queries/{dots}"), SEEN);
        let refused = refused.expect(400).text().to_owned();
        assert!(refused.contains("another name"), "{refused}");
    }
    server.put("/queries/...", SEEN).expect(201);
    server.put("/queries/.../subscriptions/...", "").expect(201);
}
