//! `GET /streams/{name}/messages`: the messages of an interior stream as they are emitted, as RDF
//! Messages, lines of JSON-LD, or Server-Sent Events.
//!
//! The places of messages follow each other, and the header `message-place` gives that of the
//! first: a client that was cut off goes on behind the last that it has. The socket pulls: what a
//! slow client has not taken waits in the stream's feed, and a client that falls behind that is cut
//! off.

use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, shorten};
use crate::routes::declarations::name_of;
use crate::routes::events::place;
use crate::routes::message_forms::{Form, MessageText};
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::json;
use somersault::oxrdf::Quad;
use somersault::{Engine, FeedEnd, FeedReader, FeedStart, MessageSyntax, Place, StreamMessage};
use std::convert::Infallible;
use std::future::poll_fn;
use tokio::sync::OwnedSemaphorePermit;

/// Sends the messages of an interior stream.
pub(crate) async fn messages(app: App, request: Request) -> ApiResult {
    let (head, _body) = request.into_parts();
    let name = name_of(head.uri.path(), "/streams/", "/messages")?;
    let params = Params::of(&head.uri)?;
    params.only(&["lastEventId", "from", "count"])?;
    let form = Form::wanted(
        &head.headers,
        Form::Messages(MessageSyntax::NQuads),
        &[Form::Events],
    )?;
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
    Messages(MessageText),
    Events,
}

impl Writer {
    fn new(form: Form) -> Writer {
        match form {
            Form::Messages(syntax) => Writer::Messages(MessageText::new(syntax)),
            Form::Events | Form::Lines => Writer::Events,
        }
    }

    fn message(&mut self, message: &StreamMessage) -> Result<Bytes, String> {
        match self {
            Writer::Messages(text) => text.message(message.statements.iter().map(Quad::as_ref)),
            Writer::Events => {
                let mut lines = String::new();
                for quad in message.statements.iter() {
                    lines.push_str(&format!("{quad} .\n"));
                }
                let (place, at) = (message.place.0, message.at);
                let data = json!({ "place": place, "time_ms": at, "message": lines });
                Ok(format!("id: {place}\nevent: message\ndata: {data}\n\n").into())
            }
        }
    }

    fn heartbeat(&self) -> Bytes {
        match self {
            Writer::Events => Bytes::from_static(b": still here\n\n"),
            Writer::Messages(_) => MessageText::heartbeat(),
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
        let mut response = form.response(body);
        let headers = response.headers_mut();
        headers.insert("message-place", HeaderValue::from(first));
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
