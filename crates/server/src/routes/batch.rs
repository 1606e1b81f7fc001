//! `PUT /queries:batch`: many continuous queries in one request, one line of JSON each. The body is
//! read as it arrives and registered in parts, so it may be of any length. Each line is accepted or
//! refused on its own, as users of other bulk interfaces expect, and the answer lists the refused
//! lines with the reasons.

use crate::http::body::{self, unsupported};
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, shorten};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use somersault::{EngineError, NewQuery, Registered};

/// The media types of lines of JSON.
pub(crate) const LINES: &[&str] = &[
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json",
];
/// Lines that are registered at once.
const LINES_AT_ONCE: usize = 8192;
/// Bytes of lines that are held before they are registered.
const BYTES_AT_ONCE: usize = 8 << 20;
/// Refused lines that the answer lists.
const TOLD: usize = 1000;

/// Parses a line. The error is the sentence for the client.
fn query_of(line: &[u8]) -> Result<NewQuery, String> {
    let refuse = |what: &str| {
        format!(
            "{what}; a line is an object with \"query\", the text, and \"name\", which may be left out if the text has one"
        )
    };
    let value =
        serde_json::from_slice(line).map_err(|error| refuse(&format!("not JSON: {error}")))?;
    let Value::Object(members) = value else {
        return Err(refuse("not a JSON object"));
    };
    let (mut name, mut text) = (None, None);
    for (key, value) in members {
        match (key.as_str(), value) {
            ("name", Value::Null) => {}
            ("name", Value::String(given)) => name = Some(given),
            ("query", Value::String(given)) => text = Some(given),
            ("name" | "query", _) => return Err(refuse(&format!("\"{key}\" is not a string"))),
            _ => return Err(refuse(&format!("\"{}\" is not known", shorten(&key)))),
        }
    }
    if let Some(name) = &name {
        check_name(name).map_err(&refuse)?;
    }
    let text = text.ok_or_else(|| refuse("\"query\" is missing"))?;
    Ok(NewQuery { name, text })
}

/// Checks a name by the same rules as names in URLs.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.trim().is_empty() || name.len() > 2048 || name.chars().any(char::is_control) {
        return Err("a name has 1 to 2048 bytes, not only blanks and no control characters");
    }
    Ok(())
}

/// Counts of the lines so far, and the errors to report.
#[derive(Default)]
struct Summary {
    lines: u64,
    registered: u64,
    unchanged: u64,
    refused: u64,
    errors: Vec<Value>,
}

impl Summary {
    fn refuse(&mut self, line: u64, name: Option<&str>, message: &str) {
        self.refused += 1;
        if self.errors.len() < TOLD {
            self.errors
                .push(json!({ "line": line, "name": name, "error": message }));
        }
    }

    fn json(self) -> Value {
        let left_off = self.refused - self.errors.len() as u64;
        json!({
            "lines": self.lines,
            "registered": self.registered,
            "unchanged": self.unchanged,
            "refused": self.refused,
            "errors": self.errors,
            "errors_left_off": left_off,
        })
    }
}

/// Lines that are not yet registered.
#[derive(Default)]
struct Waiting {
    /// Line numbers, counted from 1, with the parsed queries.
    queries: Vec<(u64, NewQuery)>,
    bytes: usize,
}

pub(crate) async fn register(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    Params::of(&head.uri)?.only(&[])?;
    check_lines(&head.headers)?;
    let mut stream = body.into_data_stream();
    let (mut summary, mut waiting) = (Summary::default(), Waiting::default());
    let mut rest: Vec<u8> = Vec::new();
    let longest = app
        .engine
        .config()
        .limits
        .query_text_bytes
        .saturating_mul(2) as usize
        + 4096;
    let broken_off = loop {
        let next = tokio::time::timeout(app.config.stall_timeout, stream.next()).await;
        let chunk = match next {
            Ok(None) => break None,
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => break Some(BrokenOff::Ended(error)),
            Err(_elapsed) => break Some(BrokenOff::Stalled),
        };
        rest.extend_from_slice(&chunk);
        let whole = rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        for line in rest[..whole].split_inclusive(|byte| *byte == b'\n') {
            take(line, &mut summary, &mut waiting);
            if waiting.queries.len() >= LINES_AT_ONCE || waiting.bytes >= BYTES_AT_ONCE {
                (summary, waiting) = flush(&app, summary, waiting).await?;
            }
        }
        rest.drain(..whole);
        if rest.len() > longest {
            break Some(BrokenOff::LongLine { longest });
        }
    };
    if broken_off.is_none() && !rest.is_empty() {
        take(&rest, &mut summary, &mut waiting);
    }
    let (summary, _) = flush(&app, summary, waiting).await?;
    match broken_off {
        None => Ok(Json(summary.json()).into_response()),
        Some(broken_off) => Err(broken_off.after(&summary)),
    }
}

/// The reason why reading the lines stopped.
enum BrokenOff {
    Ended(axum::Error),
    Stalled,
    LongLine { longest: usize },
}

impl BrokenOff {
    /// Queries registered before the break stay registered; the answer says how many.
    fn after(self, summary: &Summary) -> ApiError {
        let (status, code, what) = match self {
            BrokenOff::Ended(error) => (
                StatusCode::BAD_REQUEST,
                "broken_body",
                format!("The body ended before it was complete ({error})"),
            ),
            BrokenOff::Stalled => (
                StatusCode::REQUEST_TIMEOUT,
                "stalled_body",
                "Nothing more of the body came".to_owned(),
            ),
            BrokenOff::LongLine { longest } => (
                StatusCode::BAD_REQUEST,
                "long_line",
                format!(
                    "Line {} is longer than {longest} bytes, the limit for a query: leave it out",
                    summary.lines + 1
                ),
            ),
        };
        let done = summary.registered;
        let message = format!(
            "{what}. {done} queries of the lines before it are registered; send all lines again, and these count as unchanged."
        );
        ApiError::new(status, code, message).detail("registered", done)
    }
}

/// Checks that a body is lines of JSON.
///
/// # Errors
/// 415 for another media type, and for a `Content-Encoding`.
pub(crate) fn check_lines(headers: &HeaderMap) -> ApiResult<()> {
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_encoding",
            "This server takes bodies without Content-Encoding only. Unpack the body before sending it.",
        ));
    }
    match body::media_type(headers)? {
        Some(given) if !LINES.contains(&given.as_str()) => Err(unsupported(Some(&given), LINES)),
        Some(_) => Ok(()),
        None => Err(unsupported(None, LINES)),
    }
}

/// Reads one line; a blank line is only counted.
fn take(line: &[u8], summary: &mut Summary, waiting: &mut Waiting) {
    summary.lines += 1;
    if line.trim_ascii().is_empty() {
        return;
    }
    match query_of(line) {
        Ok(query) => {
            waiting.bytes += line.len();
            waiting.queries.push((summary.lines, query));
        }
        Err(message) => summary.refuse(summary.lines, None, &message),
    }
}

/// Registers the waiting lines.
async fn flush(app: &App, mut summary: Summary, waiting: Waiting) -> ApiResult<(Summary, Waiting)> {
    if waiting.queries.is_empty() {
        return Ok((summary, waiting));
    }
    let engine = app.engine.clone();
    let work = move || -> Result<Summary, EngineError> {
        let (lines, queries): (Vec<u64>, Vec<NewQuery>) = waiting.queries.into_iter().unzip();
        let names: Vec<Option<String>> = queries.iter().map(|query| query.name.clone()).collect();
        let outcomes = engine.register_many(queries)?;
        for ((line, name), outcome) in lines.into_iter().zip(names).zip(outcomes) {
            match outcome {
                Ok(Registered::New) => summary.registered += 1,
                Ok(Registered::Unchanged) => summary.unchanged += 1,
                Err(error) => summary.refuse(line, name.as_deref(), &error.to_string()),
            }
        }
        Ok(summary)
    };
    let summary = app.gate.run(Lane::Control, work).await??;
    Ok((summary, Waiting::default()))
}
