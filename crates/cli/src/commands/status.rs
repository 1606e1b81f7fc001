//! `status`: a server's condition, its connectors and durable subscriptions, its streams and its
//! continuous queries, a line each, for people.
//! Everything is in the server's JSON.

use crate::args::StatusArgs;
use crate::client::json_of;
use crate::commands::{connectors, subscriptions};
use crate::error::CliError;
use crate::target::client_for;
use crate::times;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints how the server is, how far each stream is, and what each query waits for.
///
/// # Errors
/// When the server cannot be reached, or answers what is no status.
pub(crate) fn run(args: &StatusArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let read =
        |path: &str| -> Result<Value, CliError> { json_of(client.get(path, &[])?.body_mut()) };
    let now_ms = now_ms();
    let mut out = io::stdout().lock();
    let health = client.health()?;
    writeln!(out, "{}", server_line(&health))?;
    for source in list(&health, "sources") {
        writeln!(out, "{}", connectors::source_line(source))?;
    }
    for sink in list(&health, "sinks") {
        writeln!(out, "{}", connectors::sink_line(sink))?;
    }
    for subscription in list(&health, "subscriptions") {
        writeln!(out, "{}", subscriptions::line(subscription))?;
    }
    for stream in list(&read("/streams")?, "streams") {
        writeln!(out, "{}", stream_line(stream))?;
    }
    // There may be a million of them: they come a page at a time.
    let mut next = Some("/queries".to_owned());
    while let Some(path) = next {
        let page = read(&path)?;
        for query in list(&page, "queries") {
            writeln!(out, "{}", query_line(query, now_ms))?;
        }
        next = page["next"].as_str().map(str::to_owned);
    }
    Ok(out.flush()?)
}

fn list<'a>(json: &'a Value, member: &str) -> &'a [Value] {
    json[member].as_array().map_or(&[], Vec::as_slice)
}

/// The clock's time, in milliseconds since the Unix epoch: people read how long ago a stream moved.
#[expect(
    clippy::disallowed_methods,
    reason = "it is compared with times of the server's clock, and decides nothing"
)]
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

fn name(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn time(value: &Value) -> String {
    match value.as_i64() {
        Some(ms) => times::shown(ms),
        None => "no time yet".to_owned(),
    }
}

fn server_line(health: &Value) -> String {
    // A token without the right monitor is shown the word alone.
    let said = match health["message"].is_string() {
        true => &health["message"],
        false => &health["status"],
    };
    let mut line = format!("server: {}", name(said));
    // A server that still reads its data folder takes no inputs.
    if health["inflight_bytes"].is_u64() {
        let _ = write!(
            line,
            "; {} of {} bytes of inputs are on their way",
            health["inflight_bytes"], health["inflight_limit_bytes"]
        );
    }
    let checkpoints = &health["checkpoints"];
    if let Some(restart) = checkpoints["restart_seconds"].as_f64() {
        let _ = write!(line, "; a restart would take about {restart:.1} s");
        if let Some(age) = checkpoints["newest"]["age_seconds"].as_f64() {
            let _ = write!(line, ", from a checkpoint {age:.0} s ago");
        }
    }
    line
}

fn stream_line(stream: &Value) -> String {
    let mut line = format!("stream <{}>: ", name(&stream["iri"]));
    let _ = match stream["complete_through_ms"].is_null() {
        true => write!(line, "no time yet"),
        false => write!(
            line,
            "complete through {}",
            time(&stream["complete_through_ms"])
        ),
    };
    let _ = write!(
        line,
        ", {} statements, {} late ones dropped, {} late ones accepted, {} of {} bytes",
        stream["tuples"],
        stream["late"],
        stream["amended"],
        stream["memory_bytes"],
        stream["budget_bytes"]
    );
    if let Some(query) = stream["derived_by"].as_str() {
        let _ = write!(line, "; derived by query {query}");
    }
    line
}

fn query_line(query: &Value, now_ms: i64) -> String {
    let mut line = format!(
        "query {}: {} firings",
        name(&query["name"]),
        query["firings"]
    );
    for (count, what) in [("amended", "amended"), ("skipped", "skipped")] {
        if query[count].as_u64().is_some_and(|count| count > 0) {
            let _ = write!(line, ", {} {what}", query[count]);
        }
    }
    let held = &query["held_up_by"];
    if query["paused"] == true {
        line.push_str("; paused");
    } else if held.is_object() {
        if !held["close_ms"].is_null() {
            let _ = write!(line, "; its next close {}", time(&held["close_ms"]));
        }
        let _ = write!(
            line,
            "{} waits for stream <{}>",
            if held["close_ms"].is_null() { ";" } else { "" },
            name(&held["stream"]),
        );
        match held["complete_through_ms"].as_i64() {
            Some(ms) => {
                let _ = write!(line, ", which is at {}", times::shown(ms));
            }
            None => line.push_str(", which has no time yet"),
        }
        if let Some(since_ms) = held["since_ms"].as_i64() {
            let seconds = (now_ms - since_ms).max(0) as f64 / 1000.0;
            let _ = write!(line, " and moved {seconds:.1} s ago");
        }
    }
    if let Some(error) = query["last_error"].as_str() {
        let _ = write!(line, "; its newest firing failed: {error}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_server_says_how_it_is() {
        let health = json!({
            "status": "ok", "message": "everything works", "inflight_bytes": 7, "inflight_limit_bytes": 100,
        });
        assert_eq!(
            server_line(&health),
            "server: everything works; 7 of 100 bytes of inputs are on their way"
        );
        let mut durable = health.clone();
        durable["checkpoints"] = json!({ "restart_seconds": 1.25, "newest": null });
        assert_eq!(
            server_line(&durable),
            "server: everything works; 7 of 100 bytes of inputs are on their way; a restart would take about 1.2 s"
        );
        durable["checkpoints"]["newest"] = json!({ "age_seconds": 61.4 });
        assert!(server_line(&durable).ends_with(" 1.2 s, from a checkpoint 61 s ago"));
        let recovering = json!({ "status": "recovering", "message": "wait", "progress": 0.5 });
        assert_eq!(server_line(&recovering), "server: wait");
    }

    #[test]
    fn a_query_says_what_it_waits_for() {
        let query = json!({
            "name": "q", "firings": 3, "amended": 1, "skipped": 0, "paused": false, "last_error": null,
            "held_up_by": { "stream": "http://e/s", "complete_through_ms": 2000, "since_ms": 10_000, "close_ms": 3000 },
        });
        assert_eq!(
            query_line(&query, 12_500),
            "query q: 3 firings, 1 amended; its next close 1970-01-01T00:00:03Z (3000 ms) waits for stream <http://e/s>, which is at 1970-01-01T00:00:02Z (2000 ms) and moved 2.5 s ago"
        );
        let silent = json!({
            "name": "q", "firings": 0, "paused": false,
            "held_up_by": { "stream": "http://e/s", "complete_through_ms": null, "since_ms": null, "close_ms": null },
        });
        assert_eq!(
            query_line(&silent, 0),
            "query q: 0 firings; waits for stream <http://e/s>, which has no time yet"
        );
        let paused = json!({ "name": "q", "firings": 0, "paused": true });
        assert_eq!(query_line(&paused, 0), "query q: 0 firings; paused");
    }

    #[test]
    fn a_stream_says_how_far_it_is() {
        let stream = json!({
            "iri": "http://e/d", "complete_through_ms": 2000, "tuples": 5, "late": 1, "amended": 2,
            "memory_bytes": 100, "budget_bytes": 200, "derived_by": "http://e/d",
        });
        assert_eq!(
            stream_line(&stream),
            "stream <http://e/d>: complete through 1970-01-01T00:00:02Z (2000 ms), 5 statements, 1 late ones dropped, 2 late ones accepted, 100 of 200 bytes; derived by query http://e/d"
        );
    }
}
