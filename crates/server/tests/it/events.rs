//! `/queries/{name}/results`: Server-Sent Events, reconnecting, gaps, slow clients, the end.

use crate::client::{connect, read_chunk, read_head, request_bytes, until};
use crate::server::{TestServer, engine_config};
use serde_json::Value;
use somersault_server::ServerConfig;
use std::io::{BufReader, Write};
use std::time::Duration;

const SEEN: &str =
    "SELECT ?s FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s <http://e/p> ?o }";
const RESULTS: &str = "/queries/seen/results";

/// A server with a stream and a query over it.
fn started(server: TestServer) -> (TestServer, String) {
    let path = server.stream("s", "");
    server.advance(&path, 0);
    server.put("/queries/seen", SEEN).expect(201);
    (server, path)
}

/// One statement in each second from `from` up to `to`, and the close after each.
fn seconds(server: &TestServer, path: &str, from: i64, to: i64) {
    for second in from..to {
        server
            .push(
                path,
                &format!(
                    "{}\t<http://e/s{second}> <http://e/p> \"{second}\" .\n",
                    second * 1000
                ),
            )
            .expect(200);
    }
    server.advance(path, to * 1000);
}

fn subjects(firing: &Value) -> Vec<String> {
    let rows = firing["results"]["results"]["bindings"]
        .as_array()
        .expect("bindings");
    rows.iter()
        .map(|row| row["s"]["value"].as_str().expect("a value").to_owned())
        .collect()
}

#[test]
fn a_line_of_json_for_each_firing() {
    let (server, path) = started(TestServer::start());
    seconds(&server, &path, 0, 3);
    let mut socket = connect(server.address());
    let headers = [("Accept", "application/x-ndjson, text/event-stream;q=0.5")];
    socket
        .write_all(&request_bytes("GET", RESULTS, &headers, None))
        .expect("the request is sent");
    let mut reader = BufReader::new(socket);
    let (status, headers) = read_head(&mut reader);
    let content_type = headers.iter().find(|(name, _)| name == "content-type");
    assert_eq!(status, 200);
    assert_eq!(
        content_type.map(|it| it.1.as_str()),
        Some("application/x-ndjson")
    );
    let mut text = Vec::new();
    while text.iter().filter(|byte| **byte == b'}').count() < 3 || !text.ends_with(b"\n") {
        text.extend(read_chunk(&mut reader).expect("the answer goes on"));
    }
    server.delete("/queries/seen").expect(204);
    while !String::from_utf8_lossy(&text).contains("\"event\":\"end\"") {
        text.extend(read_chunk(&mut reader).expect("the end is said"));
    }
    let text = String::from_utf8(text).expect("UTF-8");
    let lines = text.lines().filter(|line| !line.is_empty());
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let (end, firings) = lines.split_last().expect("lines");
    assert_eq!(end["reason"], "dropped");
    let closes: Vec<_> = firings.iter().map(|it| it["close_ms"].as_i64()).collect();
    assert_eq!(closes, [Some(1_000), Some(2_000), Some(3_000)]);
    assert_eq!(subjects(&firings[1]), ["http://e/s1"]);
    assert!(
        firings[0]["id"]
            .as_str()
            .is_some_and(|id| id.ends_with(":1000"))
    );
}

#[test]
fn the_first_event_says_when_to_come_back() {
    let (server, path) = started(TestServer::start());
    seconds(&server, &path, 0, 1);
    let mut socket = connect(server.address());
    socket
        .write_all(&request_bytes("GET", RESULTS, &[], None))
        .expect("the request is sent");
    let mut reader = BufReader::new(socket);
    read_head(&mut reader);
    let mut text = Vec::new();
    while text.windows(2).filter(|pair| pair == b"\n\n").count() < 2 {
        text.extend(read_chunk(&mut reader).expect("the answer goes on"));
    }
    let text = String::from_utf8(text).expect("UTF-8");
    let blocks: Vec<&str> = text.split("\n\n").collect();
    assert!(!blocks[0].contains("retry:"), "{text}");
    assert!(
        blocks[1].starts_with("retry: ") && blocks[1].contains("\ndata: {"),
        "{text}"
    );
}

#[test]
fn one_event_for_each_firing() {
    let (server, path) = started(TestServer::start());
    let mut events = server.events(RESULTS, &[("Accept", "text/event-stream")]);
    assert_eq!(events.status, 200);
    seconds(&server, &path, 0, 3);
    for second in 0..3 {
        let firing = events.firing();
        assert_eq!(
            (
                firing["query"].as_str(),
                firing["close_ms"].as_i64(),
                firing["revision"].as_i64()
            ),
            (Some("seen"), Some((second + 1) * 1000), Some(0))
        );
        assert_eq!(subjects(&firing), [format!("http://e/s{second}")]);
        for figure in [
            "ordinal",
            "uid",
            "sn",
            "execution_us",
            "delay_us",
            "waiting_us",
        ] {
            assert!(firing[figure].is_u64(), "{figure}: {firing}");
        }
    }
}

#[test]
fn a_reconnecting_client_misses_nothing() {
    let (server, path) = started(TestServer::start());
    seconds(&server, &path, 0, 5);
    let mut events = server.events(RESULTS, &[]);
    let mut seen: Vec<i64> = (0..2)
        .map(|_| events.firing()["close_ms"].as_i64().expect("a close"))
        .collect();
    drop(events);
    seconds(&server, &path, 5, 8);
    let last = seen.last().expect("events have arrived").to_string();
    let mut by_header = server.events(RESULTS, &[("Last-Event-ID", &last)]);
    let mut by_parameter = server.events(&format!("{RESULTS}?lastEventId={last}"), &[]);
    for _ in 0..6 {
        let close = by_header.firing()["close_ms"].as_i64().expect("a close");
        assert_eq!(by_parameter.firing()["close_ms"].as_i64(), Some(close));
        seen.push(close);
    }
    assert_eq!(
        seen,
        (1..=8).map(|second| second * 1000).collect::<Vec<_>>()
    );
    let mut from_now = server.events(&format!("{RESULTS}?from=now"), &[]);
    seconds(&server, &path, 8, 9);
    assert_eq!(from_now.firing()["close_ms"], 9000);
}

#[test]
fn an_amended_close_is_answered_again_and_has_an_id_of_its_own() {
    let server = TestServer::start();
    let path = server.stream("s", "LATENESS 0s LATE AMEND WITHIN 1m");
    server.advance(&path, 0);
    server.put("/queries/seen", SEEN).expect(201);
    seconds(&server, &path, 0, 3);
    let mut events = server.events(RESULTS, &[]);
    for second in 1..=3 {
        assert_eq!(events.firing()["close_ms"], second * 1000);
    }
    let late = "500\t<http://e/late> <http://e/p> \"x\" .\n";
    let receipt = server.push(&path, late).expect(200).json();
    assert_eq!(
        (&receipt["accepted"], &receipt["dropped"]),
        (&1.into(), &0.into())
    );
    let amended = events.next().expect("an event");
    let firing = amended.json();
    assert_eq!(
        (&firing["close_ms"], &firing["revision"]),
        (&1000.into(), &1.into())
    );
    let mut rows = subjects(&firing);
    rows.sort();
    assert_eq!(rows, ["http://e/late", "http://e/s0"]);
    let id = amended.id.expect("an id");
    assert_eq!(id, format!("{}:1000.0.1.{}", firing["uid"], firing["sn"]));
    seconds(&server, &path, 3, 4);
    assert_eq!(events.firing()["close_ms"], 4000);

    // After the amended answer come the later firings; after the third close comes the amended
    // answer too.
    let mut after_it = server.events(RESULTS, &[("Last-Event-ID", &id)]);
    assert_eq!(after_it.firing()["close_ms"], 4000);
    let mut after_the_third = server.events(RESULTS, &[("Last-Event-ID", "3000")]);
    assert_eq!(after_the_third.firing()["revision"], 1);
    assert_eq!(after_the_third.firing()["close_ms"], 4000);
    let mut after_the_fourth = server.events(RESULTS, &[("Last-Event-ID", "4000")]);
    seconds(&server, &path, 4, 5);
    assert_eq!(after_the_fourth.firing()["close_ms"], 5000);

    let quiet = server.engine.quiesce(Duration::from_secs(10));
    quiet.expect("all is answered");
    let stream = server.get(&path).expect(200).json();
    assert_eq!(
        (&stream["amended"], &stream["late"]),
        (&1.into(), &0.into())
    );
    let query = server.get("/queries/seen").expect(200).json();
    assert_eq!(
        (&query["firings"], &query["amended"]),
        (&6.into(), &1.into())
    );
}

#[test]
fn a_gap_reports_firings_that_are_no_longer_kept() {
    let mut config = engine_config();
    config.kept_firings = 3;
    let (server, path) = started(TestServer::with(config, ServerConfig::default()));
    seconds(&server, &path, 0, 8);
    server
        .engine
        .quiesce(Duration::from_secs(10))
        .expect("everything that is due is answered");
    let mut events = server.events(RESULTS, &[("Last-Event-ID", "2000")]);
    let gap = events.next().expect("an event");
    assert_eq!(gap.event.as_deref(), Some("gap"), "{gap:?}");
    assert_eq!(gap.json()["after_ms"], 2000, "{gap:?}");
    assert_eq!(events.firing()["close_ms"], 6000);
    let mut nothing_missed = server.events(RESULTS, &[("Last-Event-ID", "5000")]);
    assert_eq!(nothing_missed.firing()["close_ms"], 6000);
}

#[test]
fn empty_answers_come_only_when_asked_for() {
    let (server, path) = started(TestServer::start());
    let mut full = server.events(RESULTS, &[]);
    let mut all = server.events(&format!("{RESULTS}?empties=true"), &[]);
    server
        .push(&path, "0\t<http://e/a> <http://e/p> \"1\" .\n")
        .expect(200);
    server.advance(&path, 2000);
    server
        .push(&path, "2000\t<http://e/b> <http://e/p> \"1\" .\n")
        .expect(200);
    server.advance(&path, 3000);
    assert_eq!(full.firing()["close_ms"], 1000);
    assert_eq!(full.firing()["close_ms"], 3000);
    assert_eq!(all.firing()["close_ms"], 1000);
    let next = all.firing();
    if next["close_ms"] == 2000 {
        assert_eq!(subjects(&next).len(), 0);
        assert_eq!(all.firing()["close_ms"], 3000);
    } else {
        // A close that provably shows nothing may be skipped.
        assert_eq!(next["close_ms"], 3000);
    }
}

#[test]
fn graphs_come_as_n_triples_and_booleans_as_booleans() {
    let server = TestServer::start();
    let path = server.stream("s", "");
    server.advance(&path, 0);
    server.put("/queries/made", "CONSTRUCT { ?s <http://e/q> ?o } FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s <http://e/p> ?o }").expect(201);
    server
        .put(
            "/queries/asked",
            "ASK FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s <http://e/p> ?o }",
        )
        .expect(201);
    server
        .push(
            &path,
            "0\t<http://e/a> <http://e/p> \"line\\nbreak \\\"quoted\\\"\" .\n",
        )
        .expect(200);
    server.advance(&path, 1000);
    let made = server.events("/queries/made/results", &[]).firing();
    assert_eq!(
        made["results"],
        "<http://e/a> <http://e/q> \"line\\nbreak \\\"quoted\\\"\" .\n"
    );
    let asked = server.events("/queries/asked/results", &[]).firing();
    assert_eq!(asked["results"]["boolean"], true);
}

#[test]
fn dropping_a_query_sends_the_end() {
    let (mut server, path) = started(TestServer::start());
    seconds(&server, &path, 0, 1);
    let mut events = server.events(RESULTS, &[]);
    events.firing();
    server.delete("/queries/seen").expect(204);
    let end = events.next().expect("an end");
    assert_eq!(
        (end.event.as_deref(), end.json()["reason"].as_str()),
        (Some("end"), Some("dropped"))
    );
    assert_eq!(events.next(), None);
    server.put("/queries/seen", SEEN).expect(201);
    let mut events = server.events(RESULTS, &[]);
    assert!(events.comment());
    let other = SEEN.replace("?s", "?subject");
    server.put("/queries/seen?replace=true", &other).expect(200);
    let end = events.next().expect("an end");
    assert_eq!(
        end.json()["reason"],
        "dropped",
        "another query has its name"
    );
    let mut events = server.events(RESULTS, &[]);
    assert!(events.comment());
    server.stop();
    let end = events.next().expect("an end");
    assert_eq!(end.json()["reason"], "stopping");
    assert_eq!(events.next(), None);
}

/// The id of an event names its query, so another query of the same name does not continue it.
#[test]
fn a_client_of_a_query_that_was_dropped_is_not_resumed_into_another() {
    let (server, path) = started(TestServer::start());
    seconds(&server, &path, 0, 3);
    let mut events = server.events(RESULTS, &[]);
    let last = (0..3).filter_map(|_| events.next()?.id).last();
    let last = last.expect("ids");
    // A replacement continues the firings of the old query.
    let other = SEEN
        .replace("?s", "?subject")
        .replace("?subject FROM", "?subject (1 AS ?s) FROM");
    server.put("/queries/seen?replace=true", &other).expect(200);
    seconds(&server, &path, 3, 4);
    let mut back = server.events(RESULTS, &[("Last-Event-ID", &last)]);
    let next = back.next().expect("a firing");
    assert_eq!(
        (next.event.as_deref(), &next.json()["close_ms"]),
        (None, &4000.into())
    );
    let last = next.id.expect("an id");
    server.delete("/queries/seen").expect(204);
    server.put("/queries/seen", SEEN).expect(201);
    seconds(&server, &path, 4, 6);
    for address in [RESULTS, "/queries/seen/results?from=now"] {
        let mut back = server.events(address, &[("Last-Event-ID", &last)]);
        let gap = back.next().expect("an event");
        assert_eq!(gap.event.as_deref(), Some("gap"), "{gap:?}");
        assert_eq!(gap.json()["missed"], Value::Null);
        assert_eq!(back.firing()["close_ms"], 5000);
        assert_eq!(back.firing()["close_ms"], 6000);
    }
    // An id without a query is taken as one of this query.
    let mut back = server.events(RESULTS, &[("Last-Event-ID", "5000")]);
    assert_eq!(back.firing()["close_ms"], 6000);
}

#[test]
fn an_idle_stream_is_kept_open() {
    let mut config = ServerConfig::default();
    config.heartbeat = Duration::from_millis(50);
    let (server, path) = started(TestServer::with(engine_config(), config));
    let mut events = server.events(RESULTS, &[]);
    for _ in 0..4 {
        assert!(events.comment());
    }
    seconds(&server, &path, 0, 1);
    assert_eq!(events.firing()["close_ms"], 1000);
}

#[test]
fn a_slow_client_is_told_and_disconnected() {
    let mut config = ServerConfig::default();
    config.subscriber_backlog = 4;
    let (server, path) = started(TestServer::with(engine_config(), config));
    let mut slow = server.events(&format!("{RESULTS}?from=now"), &[]);
    // Answers large enough to fill the sockets' buffers while the client does not read.
    let value = "x".repeat(200_000);
    let mut last = None;
    for second in 0..60 {
        let line = format!(
            "{}\t<http://e/{value}{second}> <http://e/p> \"x\" .\n",
            second * 1000
        );
        server.push(&path, &line).expect(200);
        server.advance(&path, (second + 1) * 1000);
        if second == 0 {
            last = slow.next().expect("the first firing").id;
        }
    }
    server
        .engine
        .quiesce(Duration::from_secs(20))
        .expect("a slow client delays nothing");
    loop {
        let event = slow.next().expect("an end before the connection closes");
        let Some(kind) = event.event.as_deref() else {
            last = event.id;
            continue;
        };
        let json = event.json();
        assert_eq!(json["reason"], "slow", "{json}");
        let missed = json["missed"].as_u64();
        assert!(missed.is_some_and(|missed| missed > 0), "{json}");
        assert_eq!(json["last_event_id"].as_str(), last.as_deref());
        match kind {
            "slow" => assert_eq!(json["query"], "seen"),
            "end" => break,
            other => panic!("an event {other}"),
        }
    }
    let mut again = server.events(
        RESULTS,
        &[(
            "Last-Event-ID",
            &last.clone().expect("firings have arrived"),
        )],
    );
    let next = again.firing()["close_ms"].as_i64().expect("a close");
    assert_eq!(
        Some(next - 1000),
        last.and_then(|id| id.split(':').nth(1)?.parse().ok()),
        "the stream continues after the last event"
    );
}

/// The value of a metric.
fn measured(server: &TestServer, name: &str) -> u64 {
    let reply = server.get("/metrics").expect(200);
    let value = reply
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(name));
    let value = value.unwrap_or_else(|| panic!("no {name}"));
    value.trim().parse().expect("a number")
}

/// The texts that wait for subscribers that do not read are shared and limited; then each
/// subscriber is told that it is slow.
#[test]
fn subscribers_that_do_not_read_share_what_waits_for_them() {
    const SUBSCRIBERS: u64 = 12;
    let mut config = ServerConfig::default();
    config.subscriber_backlog_bytes = 400_000;
    // No subscriber is disconnected for reading nothing, however slow the machine is.
    config.stall_timeout = Duration::from_secs(3600);
    let (server, path) = started(TestServer::with(engine_config(), config));
    let open = || server.events(&format!("{RESULTS}?from=now"), &[]);
    let mut readers: Vec<_> = (0..SUBSCRIBERS).map(|_| open()).collect();
    assert!(readers.iter_mut().all(|reader| reader.comment()));
    let value = "x".repeat(1000);
    let (mut most_written, mut most_queued) = (0, 0);
    for second in 0..40 {
        let lines: String = (0..1000)
            .map(|row| {
                format!(
                    "{}\t<http://e/{value}{row}> <http://e/p> \"x\" .\n",
                    second * 1000
                )
            })
            .collect();
        server.push(&path, &lines).expect(200);
        server.advance(&path, (second + 1) * 1000);
        let written = measured(&server, "somersault_http_subscribers_written_bytes ");
        most_written = most_written.max(written);
        let queued = measured(&server, "somersault_http_subscribers_queued_bytes ");
        most_queued = most_queued.max(queued);
    }
    let quiet = server.engine.quiesce(Duration::from_secs(60));
    quiet.expect("slow clients delay nothing");
    let slow = || measured(&server, "somersault_http_subscribers_slow_total ");
    until("all of them are slow", || slow() == SUBSCRIBERS);
    // A firing's text has a megabyte, and at most 32 of them are kept, each of them once. Of other
    // texts only the pieces exist that the sockets have not taken.
    assert!(
        (1_000_000..60_000_000).contains(&most_written),
        "{most_written}"
    );
    assert!((1..40 * 100_000).contains(&most_queued), "{most_queued}");
    let queued = || measured(&server, "somersault_http_subscribers_queued_bytes ");
    until("nothing waits", || queued() == 0);
    for reader in &mut readers {
        let told = std::iter::from_fn(|| reader.next()).find(|event| event.event.is_some());
        let told = told.expect("the stream has an event that is not a firing");
        assert_eq!(told.event.as_deref(), Some("slow"));
        assert_eq!(reader.next().expect("the end").json()["reason"], "slow");
    }
    // A subscriber that reads gets everything.
    let mut reader = open();
    seconds(&server, &path, 40, 42);
    assert_eq!(reader.firing()["close_ms"], 41_000);
    assert_eq!(reader.firing()["close_ms"], 42_000);
}

/// The system holds little for a client that does not read; without a limit it takes megabytes. The
/// client can still read exactly these bytes before it is told that it is slow.
#[cfg(target_os = "linux")]
#[test]
fn little_waits_in_the_system_for_a_client_that_does_not_read() {
    let mut config = ServerConfig::default();
    config.subscriber_backlog_bytes = 1 << 20;
    config.stall_timeout = Duration::from_secs(3600);
    let (server, path) = started(TestServer::with(engine_config(), config));
    let mut reader = server.events(&format!("{RESULTS}?from=now"), &[]);
    assert!(reader.comment());
    let slow = || measured(&server, "somersault_http_subscribers_slow_total ");
    let value = "x".repeat(1000);
    let (mut second, mut sent) = (0, 0);
    while slow() == 0 {
        let lines: String = (0..500)
            .map(|row| {
                format!(
                    "{}\t<http://e/{value}{row}> <http://e/p> \"x\" .\n",
                    second * 1000
                )
            })
            .collect();
        server.push(&path, &lines).expect(200);
        second += 1;
        sent += lines.len();
        server.advance(&path, second * 1000);
        let quiet = server.engine.quiesce(Duration::from_secs(60));
        quiet.expect("a slow client delays nothing");
        assert!(sent < 100 << 20, "the client has not been counted as slow");
    }
    let told = std::iter::from_fn(|| reader.next());
    let taken: usize = told
        .take_while(|event| event.event.is_none())
        .map(|event| event.data.len())
        .sum();
    // An event that had begun is sent whole; without a limit the system takes several events.
    assert!(taken < 1_200_000, "{taken} bytes");
}

/// The grace of requests that are under way is not for clients that do not read.
#[test]
fn a_stop_does_not_wait_for_clients_that_do_not_read() {
    let mut config = ServerConfig::default();
    config.shutdown_grace = Duration::from_secs(3_600);
    config.stall_timeout = Duration::from_secs(3_600);
    let (mut server, path) = started(TestServer::with(engine_config(), config));
    let mut reader = server.events(&format!("{RESULTS}?from=now"), &[]);
    assert!(reader.comment());
    let value = "x".repeat(1_000);
    for second in 0..30 {
        let line = |row| {
            let at = second * 1000;
            format!("{at}\t<http://e/{value}{row}> <http://e/p> \"x\" .\n")
        };
        let lines: String = (0..500).map(line).collect();
        server.push(&path, &lines).expect(200);
        server.advance(&path, (second + 1) * 1000);
    }
    let quiet = server.engine.quiesce(Duration::from_secs(60));
    quiet.expect("a client that does not read delays nothing");
    let (stopped, is_stopped) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        server.stop();
        let _ = stopped.send(());
    });
    let waited = is_stopped.recv_timeout(Duration::from_secs(60));
    waited.expect("the server has stopped");
    drop(reader);
}

/// Events of several pieces are whole, including one that is too long for the cache.
#[test]
fn long_events_are_whole() {
    let (server, path) = started(TestServer::start());
    let made = "CONSTRUCT { ?s <http://e/made> ?o } FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s <http://e/p> ?o }";
    server.put("/queries/made", made).expect(201);
    let mut seen: Vec<_> = (0..2).map(|_| server.events(RESULTS, &[])).collect();
    let mut graph = server.events("/queries/made/results", &[]);
    for (second, rows, length) in [(0, 100, 1000), (1, 1500, 6000)] {
        let value = "\\n\\\"x".repeat(length / 5);
        let lines: String = (0..rows)
            .map(|row| {
                format!(
                    "{}\t<http://e/s> <http://e/p> \"{value}{row}\" .\n",
                    second * 1000
                )
            })
            .collect();
        server.push(&path, &lines).expect(200);
        server.advance(&path, (second + 1) * 1000);
        let expected = "\n\"x".repeat(length / 5);
        let firings: Vec<Value> = seen.iter_mut().map(|reader| reader.firing()).collect();
        assert_eq!(subjects(&firings[0]).len(), rows);
        assert_eq!(firings[0], firings[1]);
        let triples = graph.firing()["results"].as_str().expect("text").to_owned();
        assert_eq!(triples.lines().count(), rows);
        assert!(triples.len() > rows * expected.len());
    }
}

#[test]
fn a_subscription_refuses_wrong_parameters() {
    let mut config = ServerConfig::default();
    config.subscribers = 1;
    let (server, _path) = started(TestServer::with(engine_config(), config));
    server
        .get("/queries/nobody/results")
        .expect_error(404, "not_found", &["nobody"]);
    server.get_as(RESULTS, "application/json").expect_error(
        406,
        "not_acceptable",
        &["text/event-stream"],
    );
    server
        .get(&format!("{RESULTS}?lastEventId=yesterday"))
        .expect_error(400, "bad_event_id", &["yesterday"]);
    server
        .get(&format!("{RESULTS}?from=then"))
        .expect_error(400, "bad_parameter", &[]);
    server.get(&format!("{RESULTS}?empty=true")).expect_error(
        400,
        "unknown_parameter",
        &["empties"],
    );
    let mut first = server.events(RESULTS, &[]);
    assert!(first.comment());
    let refused = server.get(RESULTS);
    assert!(refused.header("retry-after").is_some());
    refused.expect_error(503, "busy", &["subscribed"]);
}
