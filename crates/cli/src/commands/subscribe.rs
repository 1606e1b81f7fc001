//! `subscribe`: a continuous query's answers as they come; reconnects and misses nothing that is
//! still kept.

use crate::args::{Stream, SubscribeArgs};
use crate::client::segment;
use crate::commands::query::print_results_json;
use crate::error::CliError;
use crate::follow::{Follower, follow};
use crate::sse::Event;
use crate::target::client_for;
use crate::times;
use serde_json::Value;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Prints events until the count is reached or the query is dropped.
///
/// # Errors
/// When the server refuses, or stays away for longer than `--retry` says.
pub(crate) fn run(args: &SubscribeArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let mut subscriber = Subscriber {
        args,
        last_id: args.after.map(|ms| ms.to_string()),
        seen: 0,
    };
    follow(&client, args.retry, &mut subscriber)
}

/// A subscriber over one or more connections.
struct Subscriber<'a> {
    args: &'a SubscribeArgs,
    /// The newest event, after which the next connection begins.
    last_id: Option<String>,
    seen: u64,
}

impl Follower for Subscriber<'_> {
    fn path(&self) -> String {
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

    fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    fn take(&mut self, event: Event, data: &Value) -> Result<ControlFlow<()>, CliError> {
        print_event(&event, data, self.args.format)?;
        let is_end = event.kind == "end";
        if let Some(id) = event.id {
            self.last_id = Some(id);
            self.seen += 1;
        }
        let is_enough = self.args.count.is_some_and(|count| self.seen >= count);
        Ok(match is_end || is_enough {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn advice(&self) -> String {
        let last = self.last_id.as_deref().unwrap_or("0");
        format!("go on with --after {last}")
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
