//! Tickets in URLs of event streams, and what one token may ask for.

use crate::client::{Events, Reply};
use crate::server::{TestServer, engine_config};
use somersault_server::{Auth, ServerConfig, TokenFile, Tokens};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A server with a query, and tokens for it.
struct Guarded {
    server: TestServer,
    file: TokenFile,
    _folder: TempDir,
}

impl Guarded {
    fn start(change: impl FnOnce(&mut ServerConfig)) -> Guarded {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::of_folder(folder.path());
        let mut config = ServerConfig::default();
        config.heartbeat = Duration::from_millis(200);
        let tokens = Tokens::open(file.clone()).expect("no file is no tokens");
        config.auth = Auth::Tokens(Arc::new(tokens));
        change(&mut config);
        let server = TestServer::with(engine_config(), config);
        let engine = &server.engine;
        let stream = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER";
        engine.create_stream(None, stream).expect("a stream");
        let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?x ?p ?o }";
        engine.register(Some("q"), text).expect("a query");
        Guarded {
            server,
            file,
            _folder: folder,
        }
    }

    fn token(&self, name: &str, right: &str) -> String {
        let rights = [right.parse().expect("a right")];
        let (_, token) = self.file.create(name, &rights, None).expect("made");
        // The server looks once a second.
        std::thread::sleep(Duration::from_millis(1_100));
        let known = self.send(&token, "GET", "/queries");
        known.expect(200);
        token
    }

    fn send(&self, token: &str, method: &str, path: &str) -> Reply {
        let credentials = format!("Bearer {token}");
        let headers = [("Authorization", credentials.as_str())];
        self.server.send(method, path, &headers, None)
    }

    fn ticket(&self, token: &str) -> String {
        let made = self.send(token, "POST", "/tickets").expect(201);
        assert_eq!(made.header("cache-control"), Some("no-store"));
        let ticket = made.json()["ticket"].as_str().map(str::to_owned);
        ticket.expect("a ticket")
    }

    fn follow(&self, path: &str) -> Events {
        self.server.events(path, &[])
    }
}

#[test]
fn a_ticket_opens_one_event_stream_with_the_rights_of_its_token() {
    let guarded = Guarded::start(|_| {});
    let reader = guarded.token("reader", "subscribe:q");
    let results = "/queries/q/results";
    guarded.server.get(results).expect(401);
    let ticket = guarded.ticket(&reader);
    let with = |ticket: &str| format!("{results}?empties=true&ticket={ticket}");
    assert_eq!(guarded.follow(&with(&ticket)).status, 200);
    guarded.server.get(&with(&ticket)).expect_error(
        401,
        "unauthorized",
        &["it was used", "POST /tickets"],
    );
    guarded.server.get(&with("smt_wrong")).expect(401);
    // It gives no more rights than the token has.
    let other = format!("/queries/other/results?ticket={}", guarded.ticket(&reader));
    guarded
        .server
        .get(&other)
        .expect_error(403, "forbidden", &["other"]);
    let messages = format!(
        "/streams/urn%3As/messages?ticket={}",
        guarded.ticket(&reader)
    );
    guarded
        .server
        .get(&messages)
        .expect_error(403, "forbidden", &["window"]);
    // It is no token for anything else.
    let ticket = guarded.ticket(&reader);
    for path in ["/queries", "/query", "/queries/q", "/metrics"] {
        guarded
            .server
            .get(&format!("{path}?ticket={ticket}"))
            .expect(401);
    }
    guarded.send(&ticket, "GET", "/queries").expect(401);
    guarded
        .send(&reader, "GET", &with(&ticket))
        .expect_error(400, "contradiction", &["ticket"]);
    assert_eq!(guarded.follow(&with(&ticket)).status, 200);
    guarded
        .server
        .send("POST", "/tickets", &[], None)
        .expect(401);
}

#[test]
fn an_event_stream_of_a_ticket_ends_with_its_token() {
    let guarded = Guarded::start(|_| {});
    let reader = guarded.token("reader", "subscribe:q");
    let path = format!("/queries/q/results?ticket={}", guarded.ticket(&reader));
    let mut events = guarded.follow(&path);
    assert_eq!(events.status, 200);
    let unused = guarded.ticket(&reader);
    guarded.file.revoke("reader").expect("revoked");
    // The next request lets the server see it.
    std::thread::sleep(Duration::from_millis(1_100));
    guarded.send(&reader, "GET", "/queries").expect(401);
    let end = events.next().expect("the last event");
    assert_eq!(end.json()["reason"], "revoked");
    let late = format!("/queries/q/results?ticket={unused}");
    guarded.server.get(&late).expect(401);
}

#[test]
fn tickets_work_where_no_tokens_are_asked_for() {
    let server = TestServer::start();
    let stream = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER";
    server.engine.create_stream(None, stream).expect("a stream");
    let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?x ?p ?o }";
    server.engine.register(Some("q"), text).expect("a query");
    let made = server
        .send("POST", "/tickets", &[], None)
        .expect(201)
        .json();
    let ticket = made["ticket"].as_str().expect("a ticket");
    let path = format!("/queries/q/results?ticket={ticket}");
    assert_eq!(server.events(&path, &[]).status, 200);
}

#[test]
fn a_token_has_a_number_of_requests_a_second() {
    let guarded = Guarded::start(|config| config.sender_requests = Some(20));
    let (one, other) = (guarded.token("one", "read"), guarded.token("other", "read"));
    let sent = (0..40).map(|_| guarded.send(&one, "GET", "/queries"));
    let sent: Vec<Reply> = sent.collect();
    let refused = sent.into_iter().find(|reply| reply.status == 429);
    // A slow machine may give the requests back as quickly as they are sent.
    if let Some(refused) = refused {
        assert_eq!(refused.header("retry-after"), Some("1"));
        refused.expect_error(429, "token_requests", &["20", "--token-requests"]);
    }
    guarded.send(&other, "GET", "/queries").expect(200);
    for _ in 0..40 {
        guarded.server.get("/ready").expect(200);
    }
}

#[test]
fn a_token_has_a_number_of_queries_at_one_time() {
    let guarded = Guarded::start(|config| config.sender_queries = Some(1));
    let (one, other) = (guarded.token("one", "read"), guarded.token("other", "read"));
    let triples: String = (0..60_000)
        .map(|i| format!("<http://e/s{i}> <http://e/p> \"{}\" .\n", "x".repeat(100)))
        .collect();
    let format = oxrdfio::RdfFormat::NTriples;
    let engine = &guarded.server.engine;
    engine
        .load(triples.as_bytes(), format, Default::default())
        .expect("it is stored");
    // An answer that is not read stays in its place.
    let all = "/query?query=SELECT%20%2A%20%7B%3Fs%20%3Fp%20%3Fo%7D";
    let credentials = format!("Bearer {one}");
    let headers = [("Authorization", credentials.as_str())];
    let unread = guarded.server.events(all, &headers);
    assert_eq!(unread.status, 200);
    let ask = "/query?query=ASK%7B%7D";
    let refused = guarded.send(&one, "GET", ask);
    refused.expect_error(429, "token_queries", &["--token-queries"]);
    guarded.send(&one, "GET", "/queries").expect(200);
    guarded.send(&other, "GET", ask).expect(200);
    drop(unread);
    crate::client::until("the place is free", || {
        guarded.send(&one, "GET", ask).status == 200
    });
}
