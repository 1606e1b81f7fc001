//! Pushes: reads a request's body as timed statements. The whole body is parsed before the engine
//! sees any of it, so a malformed statement refuses the whole push with its line and column.
//!
//! The event time is given in a header for the whole body (any RDF syntax), or per line, as
//! `t_ms<TAB>statement .` in `text/tab-separated-values`. A body of messages, or of documents that
//! the stream maps to messages, goes to `messages`.

use crate::http::body::{self, BodyBytes};
use crate::http::error::{ApiError, ApiResult};
use crate::http::negotiate::{PUSH_INPUT, format_of};
use crate::http::nesting;
use crate::http::rdf::syntax_error;
use crate::http::reading::{self, Reading};
use crate::http::text::{Params, shorten};
use crate::routes::declarations::name_of;
use crate::routes::messages::{ManySyntax, MessagesRequest};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use oxrdfio::{RdfFormat, RdfParser};
use serde_json::json;
use somersault::{
    Contexts, DocumentSyntax, EventTime, MessageSyntax, Push, StreamStatement, TimedLines,
    document_loader,
};

/// The media type of lines `t_ms<TAB>statement .`.
pub(crate) const TIMED_LINES: &str = "text/tab-separated-values";
const PARAMETERS: &[&str] = &["event_time_ms", "source", "seq"];

pub(crate) async fn push(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let stream = name_of(head.uri.path(), "/streams/", "")?;
    let params = Params::of(&head.uri)?;
    params.only(PARAMETERS)?;
    let sender = Sender::of(&head.headers, &params)?;
    let event_time = event_time(&head.headers, &params)?;
    if let Some(syntax) = many_syntax(&head.headers)? {
        let request = MessagesRequest {
            stream,
            sender,
            at: event_time,
            syntax,
        };
        return request.push(&app, &head.headers, body).await;
    }
    let syntax = Syntax::of(&head.headers, event_time)?;
    let held = app.bodies.read(&head.headers, body).await?;
    let limit = app.engine.config().limits.push_statements;
    let receipt = app
        .read(
            reading::is_long(held.len(), syntax.format()),
            move |engine, reading| {
                if syntax == Syntax::TimedLines
                    && let Some(lines) = TimedLines::read(&held, limit)
                {
                    reading.done();
                    let Sender { source, seq } = sender;
                    let pushed = engine.push_timed(&stream, source, seq, &lines);
                    return pushed.map_err(ApiError::from);
                }
                let contexts = engine.context_table();
                let statements = statements(&held, syntax, &stream, (limit, contexts), reading)?;
                reading.done();
                drop(held);
                let push = Push {
                    source: sender.source,
                    seq: sender.seq,
                    statements,
                };
                engine.push(&stream, push).map_err(ApiError::from)
            },
        )
        .await?;
    let answer = json!({ "accepted": receipt.accepted, "dropped": receipt.dropped, "repeated": receipt.repeated });
    Ok(Json(answer).into_response())
}

/// The source of a push, and the seq by which a repeat is recognised.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    source: Option<String>,
    seq: Option<u64>,
}

impl Sender {
    pub(crate) fn into_parts(self) -> (Option<String>, Option<u64>) {
        (self.source, self.seq)
    }

    fn of(headers: &HeaderMap, params: &Params) -> ApiResult<Sender> {
        let source = given(headers, params, "push-source", "source")?;
        if let Some(name) = &source
            && (name.is_empty() || name.len() > 256 || name.chars().any(char::is_control))
        {
            return Err(ApiError::bad_request(
                "bad_parameter",
                "A source's name has 1 to 256 bytes and no control characters.",
            ));
        }
        let seq = given(headers, params, "push-sequence", "seq")?;
        let seq = seq
            .map(|text| whole_number::<u64>(&text, "The sequence number (Push-Sequence, or ?seq=)"))
            .transpose()?;
        Ok(Sender { source, seq })
    }
}

/// The syntax of a body of messages or documents; `None` for one push.
fn many_syntax(headers: &HeaderMap) -> ApiResult<Option<ManySyntax>> {
    if body::media_type(headers)?.is_none() {
        return Ok(None);
    }
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(content_type.and_then(|content_type| {
        let messages = MessageSyntax::of_media_type(content_type).map(ManySyntax::Messages);
        let documents = || DocumentSyntax::of_media_type(content_type).map(ManySyntax::Documents);
        messages.or_else(documents)
    }))
}

/// Returns a value that may be given as a header or as a parameter, but not as two different ones.
fn given(
    headers: &HeaderMap,
    params: &Params,
    header: &str,
    parameter: &str,
) -> ApiResult<Option<String>> {
    let mut lines = headers.get_all(header).iter();
    let in_header = match (lines.next(), lines.next()) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request(
                "repeated_header",
                format!("The header {header} comes more than once. Send it once."),
            ));
        }
        (line, _) => line,
    };
    let in_header = in_header
        .map(|line| std::str::from_utf8(line.as_bytes()).map(|text| text.trim().to_owned()))
        .transpose()
        .map_err(|_| {
            ApiError::bad_request("bad_header", format!("The header {header} is not UTF-8."))
        })?;
    match (in_header, params.one(parameter)?) {
        (Some(header_value), Some(value)) if header_value != value => Err(ApiError::bad_request(
            "contradiction",
            format!(
                "The header {header} says \"{}\" and the parameter {parameter} says \"{}\". Give one of them.",
                shorten(&header_value),
                shorten(value)
            ),
        )),
        (Some(value), _) => Ok(Some(value)),
        (None, value) => Ok(value.map(str::to_owned)),
    }
}

fn whole_number<N: std::str::FromStr>(text: &str, what: &str) -> ApiResult<N> {
    text.parse().map_err(|_| {
        ApiError::bad_request(
            "bad_number",
            format!("{what} is a whole number, not \"{}\".", shorten(text)),
        )
    })
}

/// Returns the event time of the whole body: `Event-Time-Ms`, `?event_time_ms=`, or `Event-Time` in
/// RFC 3339.
fn event_time(headers: &HeaderMap, params: &Params) -> ApiResult<Option<EventTime>> {
    let millis = given(headers, params, "event-time-ms", "event_time_ms")?
        .map(|text| {
            whole_number::<i64>(
                &text,
                "The event time (Event-Time-Ms, in milliseconds since 1970)",
            )
            .map(EventTime)
        })
        .transpose()?;
    let date = given(headers, &Params::default(), "event-time", "")?
        .map(|text| {
            text.parse::<EventTime>().map_err(|_| {
                ApiError::bad_request("bad_header", format!("Event-Time is an RFC 3339 date-time with at most three digits after the seconds, such as 2023-11-14T22:13:20.5Z, not \"{}\". For milliseconds since 1970 use Event-Time-Ms.", shorten(&text)))
            })
        })
        .transpose()?;
    match (millis, date) {
        (Some(a), Some(b)) if a != b => Err(ApiError::bad_request(
            "contradiction",
            "Event-Time-Ms and Event-Time say different times. Give one of them.",
        )),
        (a, b) => Ok(a.or(b)),
    }
}

/// The syntax of a body, with its event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// Each line has its own time.
    TimedLines,
    /// One time for all statements; `None` on a stream that has ARRIVAL TIME.
    Rdf {
        format: RdfFormat,
        at: Option<EventTime>,
    },
}

impl Syntax {
    fn format(self) -> RdfFormat {
        match self {
            Syntax::TimedLines => RdfFormat::NQuads,
            Syntax::Rdf { format, .. } => format,
        }
    }

    fn of(headers: &HeaderMap, event_time: Option<EventTime>) -> ApiResult<Syntax> {
        let body_type = body::media_type(headers)?;
        if body_type.as_deref() == Some(TIMED_LINES) {
            return match event_time {
                None => Ok(Syntax::TimedLines),
                Some(_) => Err(ApiError::bad_request(
                    "contradiction",
                    "The body has an event time in each line, but the request gives another for the whole body. Leave that one out.",
                )),
            };
        }
        match body_type
            .as_deref()
            .and_then(|essence| format_of(PUSH_INPUT, essence))
        {
            Some(format) => Ok(Syntax::Rdf {
                format,
                at: event_time,
            }),
            None => Err(body::unsupported(body_type.as_deref(), &supported())),
        }
    }
}

/// The media types that every stream takes.
pub(crate) fn supported() -> Vec<&'static str> {
    let one = PUSH_INPUT.iter().map(|offer| offer.media_type);
    one.chain([TIMED_LINES])
        .chain(MessageSyntax::ALL.map(MessageSyntax::media_type))
        .collect()
}

fn statements(
    held: &BodyBytes,
    syntax: Syntax,
    stream: &str,
    (limit, contexts): (u64, &Contexts),
    reading: &Reading,
) -> ApiResult<Vec<StreamStatement>> {
    match syntax {
        Syntax::TimedLines => timed_lines(held, limit),
        Syntax::Rdf { format, at } => rdf(held, (format, at), stream, (limit, contexts), reading),
    }
}

/// Parses one RDF document; relative IRIs are resolved against the stream's.
fn rdf(
    bytes: &[u8],
    (format, at): (RdfFormat, Option<EventTime>),
    stream: &str,
    (limit, contexts): (u64, &Contexts),
    reading: &Reading,
) -> ApiResult<Vec<StreamStatement>> {
    let mut parser = RdfParser::from_format(format);
    // The engine does not know a stream whose name is not an absolute IRI, and its error says so
    // better.
    if let Ok(based) = RdfParser::from_format(format).with_base_iri(stream) {
        parser = based;
    }
    let mut statements = Vec::new();
    nesting::check(bytes, format)?;
    let loader = document_loader(contexts);
    for quad in parser
        .for_reader(reading.reader(bytes))
        .with_document_loader(loader)
    {
        let quad = quad.map_err(|error| reading.refused(error))?;
        within(limit, statements.len())?;
        statements.push(StreamStatement { at, quad });
    }
    Ok(statements)
}

/// Parses those lines `t_ms<TAB>statement .`, in N-Triples or N-Quads, that [`TimedLines`] does not
/// read; skips empty lines and lines that begin with `#`. It blanks out the times in a copy and
/// parses the copy as one document of N-Quads, so that positions in error messages are those of the
/// body.
pub(crate) fn timed_lines(bytes: &[u8], limit: u64) -> ApiResult<Vec<StreamStatement>> {
    nesting::check(bytes, RdfFormat::NQuads)?;
    let mut blanked = bytes.to_vec();
    let mut times = Vec::new();
    let mut from = 0;
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let start = from;
        from += line.len() + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let (time, tab) = timed_line(line, index as u64 + 1)?;
        within(limit, times.len())?;
        times.push(time);
        blanked[start..=start + tab].fill(b' ');
    }
    let mut statements = Vec::with_capacity(times.len());
    let mut times = times.into_iter();
    for quad in RdfParser::from_format(RdfFormat::NQuads).for_slice(&blanked) {
        let quad = quad.map_err(|error| syntax_error(&error))?;
        let at = Some(times.next().ok_or_else(uneven)?);
        statements.push(StreamStatement { at, quad });
    }
    match times.next() {
        None => Ok(statements),
        Some(_) => Err(uneven()),
    }
}

/// Returns the time of a line, and the position of its tab.
fn timed_line(line: &[u8], number: u64) -> ApiResult<(EventTime, usize)> {
    let tab = line.iter().position(|byte| *byte == b'\t');
    let found = match tab {
        None => "there is no tab".to_owned(),
        Some(tab) => {
            let time = String::from_utf8_lossy(&line[..tab]);
            match (time.parse(), line[tab + 1..].trim_ascii_start()) {
                (Ok(_), [] | [b'#', ..]) => "there is no statement behind the tab".to_owned(),
                (Ok(time), _) => return Ok((EventTime(time), tab)),
                (Err(_), _) => format!("\"{}\" is not an event time", shorten(&time)),
            }
        }
    };
    Err(ApiError::bad_request(
        "bad_line",
        format!("line {number}, column 1 of the data: {found}; a line is the event time in milliseconds since 1970, a tab, and a statement that ends in a full stop. Nothing of the body was taken."),
    )
    .at(number, 1))
}

/// Returns the error for lines and parser disagreeing on where statements begin. No input is known
/// that causes it: every line has a statement, and the parser takes one for each line.
fn uneven() -> ApiError {
    ApiError::bad_request(
        "bad_line",
        "A line of the data does not hold exactly one statement. Write one statement a line, and comments in lines of their own. Nothing of the body was taken.",
    )
}

fn within(limit: u64, statements: usize) -> ApiResult<()> {
    if (statements as u64) < limit {
        return Ok(());
    }
    Err(somersault::EngineError::Limit {
        which: somersault::LimitKind::PushStatements,
        message: format!("A push may have at most {limit} statements, and this one has more. Send it in parts, or raise the limit push_statements."),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "<http://e/a> <http://e/b> <http://e/c>";

    #[test]
    fn timed_lines_of_triples_quads_comments_and_empty_lines() {
        let body = format!("# head\r\n1\t{A} .\r\n\n-5\t{A} <http://e/g> .\n7\t{A} .");
        let statements = timed_lines(body.as_bytes(), 10).expect("well formed");
        assert_eq!(
            statements.iter().map(|s| s.at).collect::<Vec<_>>(),
            [1, -5, 7].map(|at| Some(EventTime(at)))
        );
        assert!(!statements[1].quad.graph_name.is_default_graph());
        assert!(timed_lines(b"", 10).expect("empty").is_empty());
    }

    #[test]
    fn a_broken_line_is_named_with_its_place() {
        for (body, line, column, says) in [
            (format!("1\t{A} .\n2 {A} .\n"), 2, 1, "there is no tab"),
            (
                format!("1\t{A} .\n\nx\t{A} .\n"),
                3,
                1,
                "\"x\" is not an event time",
            ),
            (
                format!("1\t{A} .\n12\t<http://e/a> <http://e/b> oops .\n"),
                2,
                30,
                "",
            ),
        ] {
            let error = timed_lines(body.as_bytes(), 10).expect_err(&body);
            let json = error.to_json();
            assert_eq!(
                (json["line"].as_u64(), json["column"].as_u64()),
                (Some(line), Some(column)),
                "{json}"
            );
            assert!(error.message().contains(says), "{json}");
        }
    }

    #[test]
    fn one_statement_a_line() {
        for body in [
            format!("1\t{A} . {A} .\n"),
            format!("1\t{A} . {A} .\n2\t# nothing\n"),
            format!("1\t# nothing\n2\t{A} . {A} .\n"),
            format!("1\t{A}\n2\t.\n"),
            "1\t<http://e/a> <http://e/p> \"x\n2\ty\" .\n".to_owned(),
            "1\t# nothing\n".to_owned(),
            "1\t \n".to_owned(),
            "1\t".to_owned(),
        ] {
            assert_eq!(
                timed_lines(body.as_bytes(), 10).expect_err(&body).status(),
                400
            );
        }
    }

    #[test]
    fn the_limit_of_statements_is_named() {
        let body = format!("1\t{A} .\n").repeat(3);
        assert!(timed_lines(body.as_bytes(), 3).is_ok());
        let error = timed_lines(body.as_bytes(), 2).expect_err("one too many");
        assert_eq!(
            (
                error.status().as_u16(),
                error.message().contains("push_statements")
            ),
            (413, true)
        );
    }

    #[test]
    fn headers_and_parameters_agree_or_are_refused() {
        let mut headers = HeaderMap::new();
        headers.insert("event-time-ms", "1700000000000".parse().expect("valid"));
        headers.insert("event-time", "2023-11-14T22:13:20Z".parse().expect("valid"));
        headers.insert("push-sequence", "7".parse().expect("valid"));
        let none = Params::default();
        assert_eq!(
            event_time(&headers, &none).expect("equal"),
            Some(EventTime(1_700_000_000_000))
        );
        assert_eq!(
            Sender::of(&headers, &none).expect("valid"),
            Sender {
                source: None,
                seq: Some(7)
            }
        );
        let other = Params::parse("event_time_ms=1&seq=8").expect("valid");
        assert!(event_time(&headers, &other).is_err());
        assert!(Sender::of(&headers, &other).is_err());
        assert!(Sender::of(&HeaderMap::new(), &Params::parse("seq=-1").expect("valid")).is_err());
        assert!(Sender::of(&HeaderMap::new(), &Params::parse("source=").expect("valid")).is_err());
    }
}
