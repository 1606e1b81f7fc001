//! Live queries over HTTP: registered as plain SPARQL, followed as events, kept for a durable
//! subscription.

use crate::server::TestServer;
use serde_json::Value;

const TEXT: &str = "SELECT ?who { ?who <http://e/likes> <http://e/tea> }";

fn whos(firing: &Value) -> Vec<&str> {
    let rows = firing["results"]["results"]["bindings"].as_array();
    let rows = rows.expect("bindings").iter();
    rows.map(|row| row["who"]["value"].as_str().expect("an IRI"))
        .collect()
}

#[test]
fn an_event_for_each_answer() {
    let server = TestServer::start();
    let query = server.put("/queries/tea", TEXT).expect(201).json();
    assert_eq!(query["live"], true);
    assert_eq!(query["windows"], Value::Array(Vec::new()));
    server.put("/queries/tea", TEXT).expect(200);
    let mut events = server.events("/queries/tea/results", &[]);
    let first = events.firing();
    assert!(whos(&first).is_empty(), "{first}");
    server.update("INSERT DATA { <http://e/ann> <http://e/likes> <http://e/tea> }");
    assert_eq!(whos(&events.firing()), ["http://e/ann"]);
    server.update("INSERT DATA { <http://e/ann> <http://e/likes> <http://e/milk> }");
    server.update("DELETE DATA { <http://e/ann> <http://e/likes> <http://e/tea> }");
    // The last row has left, and that is news.
    let last = events.firing();
    assert!(whos(&last).is_empty(), "{last}");
    // A client that reconnects goes on behind the event that it has.
    let id = first["id"].as_str().expect("an id");
    let mut again = server.events("/queries/tea/results", &[("Last-Event-ID", id)]);
    assert_eq!(whos(&again.firing()), ["http://e/ann"]);
    assert_eq!(again.firing()["id"], last["id"]);
}

#[test]
fn a_durable_subscription_keeps_answers_without_rows() {
    let server = TestServer::start();
    server.put("/queries/tea", TEXT).expect(201);
    let path = "/queries/tea/subscriptions/billing";
    let made = server.put(path, "{\"from\": \"kept\"}").expect(201).json();
    assert_eq!(made["empties"], true, "{made}");
    server.update("INSERT DATA { <http://e/ann> <http://e/likes> <http://e/tea> }");
    server.update("DELETE DATA { <http://e/ann> <http://e/likes> <http://e/tea> }");
    let mut events = server.events(&format!("{path}/results"), &[]);
    let sizes = [(); 3].map(|()| whos(&events.firing()).len());
    assert_eq!(sizes, [0, 1, 0]);
}

#[test]
fn what_does_not_go_with_it_is_refused() {
    let server = TestServer::start();
    let describe = server.put("/queries/q", "DESCRIBE ?s { ?s ?p ?o }");
    describe.expect_error(400, "syntax", &["DESCRIBE may read anything", "CONSTRUCT"]);
    let every = "REGISTER QUERY q COMPUTED EVERY 5s AS SELECT * { ?s ?p ?o }";
    let every = server.put("/queries/q", every);
    every.expect_error(400, "syntax", &["write EVERY"]);
    let text = "REGISTER QUERY q EVERY 5s AS SELECT * { ?s ?p ?o }";
    let query = server.put("/queries/q", text).expect(201).json();
    assert_eq!(query["every_ms"], 5_000);
    let explained = server.get(&format!("/explain?query={}", crate::server::encode(text)));
    let explained = explained.expect(200);
    assert!(
        explained
            .text()
            .contains("reads ?s ?p ?o in the default graph"),
        "{}",
        explained.text()
    );
}
