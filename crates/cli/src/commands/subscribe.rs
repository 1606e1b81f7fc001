//! `subscribe`: a continuous query's answers as they come; reconnects and misses nothing that is
//! still kept.

use crate::args::{Stream, SubscribeArgs};
use crate::client::{Client, segment};
use crate::commands::query::print_results_json;
use crate::error::CliError;
use crate::sse::{Event, next_event};
use crate::times;
use serde_json::Value;
use std::io::{self, BufReader, Write};
use std::time::Duration;

/// The interval between attempts to reach a server.
const PAUSE: Duration = Duration::from_millis(500);

/// Prints events until the count is reached or the query is dropped.
///
/// # Errors
/// When the server refuses, or stays away for longer than `--retry` says.
pub(crate) fn run(args: &SubscribeArgs) -> Result<(), CliError> {
    let client = Client::new(&args.server.url)?;
    let attempts = args.retry.saturating_mul(2);
    let mut reading = Reading {
        args,
        last_id: args.after.map(|ms| ms.to_string()),
        seen: 0,
        has_met: false,
        failures: 0,
    };
    loop {
        let lost = match reading.read(&client) {
            Ok(Outcome::Finished) => return Ok(()),
            Ok(Outcome::Lost(why)) => why,
            Err(error) => {
                reading.has_met |= matches!(error, CliError::CutOff(_));
                if !reading.is_worth_another(&error) {
                    return Err(error);
                }
                error.to_string()
            }
        };
        if reading.failures >= attempts {
            return Err(CliError::Failed(format!(
                "{lost}; gave up after {} s (--retry); go on with --after {}",
                args.retry,
                reading.last_id.as_deref().unwrap_or("0")
            )));
        }
        if reading.failures == 0 {
            eprintln!("somersault: {lost}; connecting again");
        }
        reading.failures += 1;
        std::thread::sleep(PAUSE);
    }
}

/// The end of a connection.
enum Outcome {
    /// Everything that was asked for has come, or there is nothing more to come.
    Finished,
    /// More may come on another connection.
    Lost(String),
}

/// A subscription over one or more connections.
struct Reading<'a> {
    args: &'a SubscribeArgs,
    /// The newest event, after which the next connection begins.
    last_id: Option<String>,
    seen: u64,
    /// Whether a server was reached at the address.
    has_met: bool,
    /// Attempts since the last event.
    failures: u64,
}

impl Reading<'_> {
    /// Whether a failure to connect may pass. An address at which no server was met yet may be
    /// wrong; a server that was met may be starting again.
    fn is_worth_another(&self, error: &CliError) -> bool {
        match error {
            CliError::CutOff(_) => true,
            CliError::Unreachable(_) => self.has_met,
            CliError::Refused(refusal) => self.has_met && refusal.is_passing,
            _ => false,
        }
    }

    /// Reads one connection to its end.
    fn read(&mut self, client: &Client) -> Result<Outcome, CliError> {
        let mut headers = vec![("Accept", "text/event-stream")];
        if let Some(id) = &self.last_id {
            headers.push(("Last-Event-ID", id));
        }
        let response = client.get(&self.address(), &headers)?;
        self.has_met = true;
        let mut reader = BufReader::new(response.into_body().into_reader());
        loop {
            let event = match next_event(&mut reader) {
                Ok(Some(event)) => event,
                Ok(None) => {
                    return Ok(Outcome::Lost("the server closed the connection".to_owned()));
                }
                Err(error) => {
                    return Ok(Outcome::Lost(format!("the connection was lost ({error})")));
                }
            };
            self.failures = 0;
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            if event.kind == "end" {
                // A server that stops may come back, and a reader that fell behind may catch up.
                match data["reason"].as_str() {
                    Some("stopping") => {
                        return Ok(Outcome::Lost("the server is stopping".to_owned()));
                    }
                    Some("failed") => {
                        let why = data["message"].as_str().unwrap_or("the server has failed");
                        return Ok(Outcome::Lost(why.to_owned()));
                    }
                    Some("slow") => {
                        let why = "the answers were not read quickly enough";
                        return Ok(Outcome::Lost(why.to_owned()));
                    }
                    _ => {
                        print_event(&event, &data, self.args.format)?;
                        return Ok(Outcome::Finished);
                    }
                }
            }
            print_event(&event, &data, self.args.format)?;
            if let Some(id) = event.id {
                self.last_id = Some(id);
                self.seen += 1;
            }
            if self.args.count.is_some_and(|count| self.seen >= count) {
                return Ok(Outcome::Finished);
            }
        }
    }

    fn address(&self) -> String {
        let mut parameters = Vec::new();
        if self.args.empties {
            parameters.push("empties=true");
        }
        if self.args.from_now && self.last_id.is_none() {
            parameters.push("from=now");
        }
        let path = format!("/queries/{}/results", segment(&self.args.query));
        match parameters.is_empty() {
            true => path,
            false => format!("{path}?{}", parameters.join("&")),
        }
    }
}

fn print_event(event: &Event, data: &Value, format: Stream) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    if format == Stream::Json {
        writeln!(out, "{}", event.data)?;
        return Ok(out.flush()?);
    }
    if !data.is_object() {
        writeln!(out, "{}: {}", event.kind, event.data)?;
        return Ok(out.flush()?);
    }
    if event.id.is_none() {
        writeln!(out, "-- {}: {}", event.kind, event.data)?;
        return Ok(out.flush()?);
    }
    let close = match data["close_ms"].as_i64() {
        Some(ms) => times::shown(ms),
        None => data["close_ms"].to_string(),
    };
    write!(
        out,
        "-- {} at {close}",
        data["query"].as_str().unwrap_or_default()
    )?;
    match data["revision"].as_u64() {
        None | Some(0) => writeln!(out)?,
        Some(revision) => writeln!(out, ", amended (revision {revision})")?,
    }
    match &data["results"] {
        Value::String(graph) => writeln!(out, "{graph}")?,
        // A firing that failed has the reason in its place.
        Value::Null => writeln!(out, "{}", data["error"].as_str().unwrap_or("no answer"))?,
        results => print_results_json(results.to_string().as_bytes(), &mut out)?,
    }
    Ok(out.flush()?)
}
