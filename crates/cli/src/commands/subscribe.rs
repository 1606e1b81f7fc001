//! `subscribe`: a continuous query's answers as they come; reconnects and misses nothing that is still kept.

use crate::args::{Stream, SubscribeArgs};
use crate::client::{Client, segment};
use crate::commands::query::print_results_json;
use crate::error::CliError;
use crate::sse::{Event, next_event};
use std::io::{self, BufReader, Write};
use std::time::Duration;

/// How often, and how long apart, a lost connection is tried again.
const RECONNECTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

/// Prints events until the count is reached or the query is dropped.
///
/// # Errors
/// When the server refuses, or stays away.
pub(crate) fn run(args: &SubscribeArgs) -> Result<(), CliError> {
    let client = Client::new(&args.server.url)?;
    let mut address = format!("/queries/{}/results", segment(&args.query));
    if args.empties {
        address.push_str("?empties=true");
    }
    let mut last_id = args.after.map(|ms| ms.to_string());
    let mut seen = 0_u64;
    let mut failures = 0;
    loop {
        let mut headers = vec![("Accept", "text/event-stream")];
        if let Some(id) = &last_id {
            headers.push(("Last-Event-ID", id));
        }
        let response = client.get(&address, &headers)?;
        let mut reader = BufReader::new(response.into_body().into_reader());
        loop {
            match next_event(&mut reader) {
                Ok(Some(event)) => {
                    failures = 0;
                    print_event(&event, args.format)?;
                    if event.kind == "end" {
                        if event.data.contains("\"slow\"") {
                            // The server let go of a reader that fell behind; what it still keeps can be read again.
                            break;
                        }
                        return Ok(());
                    }
                    if let Some(id) = event.id {
                        last_id = Some(id);
                        seen += 1;
                    }
                    if args.count.is_some_and(|count| seen >= count) {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    failures += 1;
                    if failures > RECONNECTS {
                        return Err(CliError::failed("the connection was lost", error));
                    }
                    eprintln!("somersault: connection lost ({error}); connecting again");
                    std::thread::sleep(PAUSE);
                    break;
                }
            }
        }
    }
}

fn print_event(event: &Event, format: Stream) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    if format == Stream::Json {
        writeln!(out, "{}", event.data)?;
        return Ok(out.flush()?);
    }
    let Ok(data) = serde_json::from_str::<serde_json::Value>(&event.data) else {
        writeln!(out, "{}: {}", event.kind, event.data)?;
        return Ok(());
    };
    if event.id.is_none() {
        writeln!(out, "-- {}: {}", event.kind, event.data)?;
        return Ok(());
    }
    write!(
        out,
        "-- {} at {}",
        data["query"].as_str().unwrap_or_default(),
        data["close_ms"]
    )?;
    match data["revision"].as_u64() {
        None | Some(0) => writeln!(out)?,
        Some(revision) => writeln!(out, ", amended (revision {revision})")?,
    }
    match &data["results"] {
        serde_json::Value::String(graph) => writeln!(out, "{graph}")?,
        results => print_results_json(results.to_string().as_bytes(), &mut out)?,
    }
    Ok(out.flush()?)
}
