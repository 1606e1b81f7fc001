//! `GET /streams/{name}/messages`: the messages of an interior stream as they are emitted, as RDF
//! Messages, lines of JSON-LD, or Server-Sent Events.
//!
//! A message is closed by its delimiter at once, so that a client need not wait for the next. The
//! places of messages follow each other, and the header `message-place` gives that of the first: a
//! client that was cut off goes on behind the last that it has. The socket pulls: what a slow
//! client has not taken waits in the stream's feed, and a client that falls behind that is cut off.

use crate::http::connections::EventStream;
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, shorten};
use crate::routes::declarations::name_of;
use crate::routes::events::place;
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::json;
use somersault::oxrdf::{GraphNameRef, QuadRef};
use somersault::{
    Engine, FeedEnd, FeedReader, FeedStart, MessageSyntax, MessageWriter, Place, StreamMessage,
};
use std::convert::Infallible;
use std::future::poll_fn;
use tokio::sync::OwnedSemaphorePermit;

const EVENT_STREAM: &str = "text/event-stream";

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Messages(MessageSyntax),
    Events,
}

impl Form {
    /// The form that the client likes best; N-Quads for one that has no wish.
    fn wanted(headers: &HeaderMap) -> ApiResult<Form> {
        let lines = headers.get_all(header::ACCEPT).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let ranges: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
        if ranges.iter().all(|range| range.trim().is_empty()) {
            return Ok(Form::Messages(MessageSyntax::NQuads));
        }
        let mut best: Option<(f32, Form)> = None;
        for range in ranges {
            let (Some(form), quality) = (Form::of(range), quality(range)) else {
                continue;
            };
            if quality > 0.0 && best.is_none_or(|(most, _)| quality > most) {
                best = Some((quality, form));
            }
        }
        best.map(|(_, form)| form).ok_or_else(|| {
            let messages = MessageSyntax::ALL.map(MessageSyntax::media_type);
            let available: Vec<&str> = messages.into_iter().chain([EVENT_STREAM]).collect();
            ApiError::new(
                StatusCode::NOT_ACCEPTABLE,
                "not_acceptable",
                "None of the media types in the Accept header is available for messages. Ask for one of those in \"available\", or leave Accept out.",
            )
            .detail("available", available)
        })
    }

    fn of(range: &str) -> Option<Form> {
        let name = range.split(';').next().unwrap_or_default().trim();
        match name {
            "*/*" | "application/*" => Some(Form::Messages(MessageSyntax::NQuads)),
            _ if name.eq_ignore_ascii_case(EVENT_STREAM) => Some(Form::Events),
            _ => MessageSyntax::of_media_type(range).map(Form::Messages),
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Form::Messages(syntax) => syntax.media_type(),
            Form::Events => EVENT_STREAM,
        }
    }
}

/// The `q` of a media range.
fn quality(range: &str) -> f32 {
    let mut parameters = range.split(';').map(str::trim);
    let q = parameters.find_map(|it| it.strip_prefix("q=").or(it.strip_prefix("Q=")));
    q.map_or(1.0, |q| q.parse().unwrap_or(0.0))
}

/// Sends the messages of an interior stream.
pub(crate) async fn messages(app: App, request: Request) -> ApiResult {
    let (head, _body) = request.into_parts();
    let name = name_of(head.uri.path(), "/streams/", "/messages")?;
    let params = Params::of(&head.uri)?;
    params.only(&["lastEventId", "from", "count"])?;
    let form = Form::wanted(&head.headers)?;
    let start = start(&head.headers, &params)?;
    let count = params.one("count")?.map(|text| number(text, "count"));
    let place = place(&app)?;
    let read = move |engine: &Engine| engine.messages(&name, start);
    let reader = app.run(Lane::Control, read).await?;
    if let Some(end @ FeedEnd::NotKept { first, .. }) = reader.end() {
        let sentence = format!("{end}. Begin with ?from=kept, or with what comes: ?from=now.");
        return Err(ApiError::new(StatusCode::GONE, "not_kept", sentence).detail("first", first));
    }
    let first = reader.next_place();
    let feed = MessageFeed {
        app,
        reader,
        left: count.transpose()?,
        writer: Writer::new(form),
        has_ended: false,
        _place: place,
    };
    Ok(feed.response(form, first))
}

/// Where the client wants to begin. The header, which browsers set when they reconnect, is newer
/// than the URL and takes precedence.
fn start(headers: &HeaderMap, params: &Params) -> ApiResult<FeedStart> {
    let header = headers
        .get("last-event-id")
        .map(|value| value.to_str().unwrap_or("not text"));
    let after = header.or(params.one("lastEventId")?);
    if let Some(after) = after.filter(|it| !it.trim().is_empty()) {
        return Ok(FeedStart::After(Place(number(
            after.trim(),
            "Last-Event-ID",
        )?)));
    }
    match params.one("from")? {
        None | Some("now") => Ok(FeedStart::Now),
        Some("kept") => Ok(FeedStart::Kept),
        Some(other) => Err(ApiError::bad_request(
            "bad_parameter",
            format!(
                "\"from\" is now (the default) or kept (begin with the first message that is kept), not \"{}\".",
                shorten(other)
            ),
        )),
    }
}

fn number(text: &str, what: &str) -> ApiResult<u64> {
    text.parse().map_err(|_| {
        ApiError::bad_request(
            "bad_parameter",
            format!("{what} is a whole number, not \"{}\".", shorten(text)),
        )
    })
}

/// Writes messages in the form of a client.
enum Writer {
    Messages(MessageWriter<Vec<u8>>, MessageSyntax),
    Events,
}

impl Writer {
    fn new(form: Form) -> Writer {
        match form {
            Form::Messages(syntax) => {
                Writer::Messages(MessageWriter::new(Vec::new(), syntax), syntax)
            }
            Form::Events => Writer::Events,
        }
    }

    /// The bytes of a message, which is closed. In a syntax without graphs all of its statements
    /// are in the one graph, as BATCH shows them.
    fn message(&mut self, message: &StreamMessage) -> Result<Bytes, String> {
        let fault = |error: std::io::Error| error.to_string();
        match self {
            Writer::Events => {
                let mut lines = String::new();
                for quad in message.statements.iter() {
                    lines.push_str(&format!("{quad} .\n"));
                }
                let (place, at) = (message.place.0, message.at);
                let data = json!({ "place": place, "time_ms": at, "message": lines });
                Ok(format!("id: {place}\nevent: message\ndata: {data}\n\n").into())
            }
            Writer::Messages(writer, syntax) => {
                let has_graphs = syntax.has_graphs();
                let quads = message.statements.iter().map(|quad| {
                    let quad = quad.as_ref();
                    match has_graphs {
                        true => quad,
                        false => QuadRef {
                            graph_name: GraphNameRef::DefaultGraph,
                            ..quad
                        },
                    }
                });
                writer.write(quads).map_err(fault)?;
                writer.end_message().map_err(fault)?;
                Ok(std::mem::take(writer.get_mut()).into())
            }
        }
    }

    fn heartbeat(&self) -> Bytes {
        match self {
            Writer::Events => Bytes::from_static(b": still here\n\n"),
            Writer::Messages(..) => Bytes::from_static(b"\n"),
        }
    }

    /// The last bytes of the body.
    fn end(&self, reason: &str) -> Option<Bytes> {
        match self {
            Writer::Messages(..) => None,
            Writer::Events => {
                let data = json!({ "reason": reason });
                Some(format!("event: end\ndata: {data}\n\n").into())
            }
        }
    }
}

/// The messages of one client.
struct MessageFeed {
    app: App,
    reader: FeedReader,
    /// The messages that are still to be sent, if the client has asked for a number of them.
    left: Option<u64>,
    writer: Writer,
    has_ended: bool,
    _place: OwnedSemaphorePermit,
}

impl MessageFeed {
    fn response(self, form: Form, first: u64) -> Response {
        let body = Body::from_stream(futures_util::stream::unfold(self, |mut feed| async move {
            let bytes = feed.next().await?;
            Some((Ok::<_, Infallible>(bytes), feed))
        }));
        let mut response = Response::new(body);
        response.extensions_mut().insert(EventStream);
        let headers = response.headers_mut();
        let media_type = HeaderValue::from_static(form.media_type());
        headers.insert(header::CONTENT_TYPE, media_type);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("message-place", HeaderValue::from(first));
        // Without this header, nginx holds messages back until its buffer is full.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    /// The next bytes of the body, or `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if self.left == Some(0) {
            return self.end("count");
        }
        let reader = &mut self.reader;
        let read = tokio::select! {
            biased;
            () = self.app.stopped() => return self.end("stopping"),
            read = poll_fn(move |context| reader.poll_next(context)) => read,
            () = tokio::time::sleep(self.app.config.heartbeat) => {
                return match self.app.principal.is_current() {
                    true => Some(self.writer.heartbeat()),
                    false => self.end("revoked"),
                };
            }
        };
        if !self.app.principal.is_current() {
            return self.end("revoked");
        }
        let written = match read {
            Ok(message) => self.writer.message(&message),
            Err(end) => return self.end(&end.to_string()),
        };
        self.left = self.left.map(|left| left - 1);
        match written {
            Ok(bytes) => Some(bytes),
            Err(sentence) => {
                tracing::error!(%sentence, "a message could not be written");
                self.end(&sentence)
            }
        }
    }

    fn end(&mut self, reason: &str) -> Option<Bytes> {
        self.has_ended = true;
        self.writer.end(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_that_the_client_likes_best() {
        let wanted = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            Form::wanted(&headers).ok()
        };
        let nquads = Some(Form::Messages(MessageSyntax::NQuads));
        assert_eq!(Form::wanted(&HeaderMap::new()).ok(), nquads);
        assert_eq!(wanted("*/*"), nquads);
        assert_eq!(wanted("text/event-stream"), Some(Form::Events));
        let turtle = "text/turtle;version=1.2-messages;q=0.9, application/x-ld+ndjson;q=0.2";
        assert_eq!(wanted(turtle), Some(Form::Messages(MessageSyntax::Turtle)));
        assert_eq!(wanted("text/turtle"), None, "it says nothing of messages");
        assert_eq!(wanted("text/event-stream;q=0"), None);
    }

    #[test]
    fn the_start_is_read_from_the_request() {
        let params = |text: &str| Params::parse(text).expect("valid");
        let mut headers = HeaderMap::new();
        let of = |headers: &HeaderMap, text: &str| start(headers, &params(text)).ok();
        assert_eq!(of(&headers, ""), Some(FeedStart::Now));
        assert_eq!(of(&headers, "from=kept"), Some(FeedStart::Kept));
        assert_eq!(of(&headers, "from=then"), None);
        let after = |place| Some(FeedStart::After(Place(place)));
        assert_eq!(of(&headers, "lastEventId=7"), after(7));
        assert_eq!(of(&headers, "lastEventId=x"), None);
        headers.insert("last-event-id", HeaderValue::from_static("9"));
        assert_eq!(of(&headers, "lastEventId=7"), after(9), "the header wins");
    }
}
