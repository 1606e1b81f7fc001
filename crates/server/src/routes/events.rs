//! `GET /queries/{name}/results`: the firings of a continuous query as Server-Sent Events, or as
//! lines of JSON.
//!
//! A firing is an event whose id gives its position, so that a client which reconnects with
//! `Last-Event-ID` continues where it stopped. Nothing is left out silently: a `gap` event
//! announces firings that are no longer kept. A client that falls behind is sent `slow` and `end`,
//! and may reconnect. [`firing_messages`] serves those that ask for RDF Messages. The socket pulls
//! the stream: firings that a slow client has not taken wait in the engine's subscription, whose
//! count and memory are bounded, and are written when their turn comes.

use crate::event_stream::texts::{OwnText, Piece, TextFrame};
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::negotiate::Accept;
use crate::http::text::{Params, shorten};
use crate::routes::declarations::name_of;
use crate::routes::firing_messages;
use crate::routes::message_forms::{EVENT_STREAM, Form};
use crate::routes::results::Turns;
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use somersault::{
    DurableEvent, DurableReader, Engine, EngineError, FiringId, FiringResult, HealthStatus,
    ParseFiringIdError, SubscribeOptions, Subscription, SubscriptionEvent, WhenSlow,
};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// Milliseconds that a browser waits before it reconnects.
const RETRY_MS: u32 = 2000;

pub(crate) async fn results(app: App, request: Request) -> ApiResult {
    let (head, _body) = request.into_parts();
    let name = name_of(head.uri.path(), "/queries/", "/results")?;
    let params = Params::of(&head.uri)?;
    params.only(&["lastEventId", "empties", "from"])?;
    let form = Form::wanted(&head.headers, Form::Events, &[Form::Events, Form::Lines])?;
    let after = after(&head.headers, &params)?;
    let options = SubscribeOptions {
        after,
        from_now: from_now(&params)?,
        empties: params.flag("empties")?,
        capacity: app.config.subscriber_backlog.max(1),
        backlog: Some(app.backlog.clone()),
        when_slow: WhenSlow::End,
    };
    let place = place(&app)?;
    let query = name.clone();
    let subscribed = move |engine: &Engine| {
        if let Form::Messages(_) = form {
            firing_messages::check_kind(engine.answer_kind(&query)?)?;
        }
        Ok::<_, ApiError>(engine.subscribe(&query, options)?)
    };
    let subscription = app.run(Lane::Control, subscribed).await?;
    let syntax = match form {
        Form::Messages(syntax) => {
            return Ok(firing_messages::response(app, subscription, syntax, place));
        }
        Form::Events => FeedSyntax::Events,
        Form::Lines => FeedSyntax::Lines,
    };
    let source = (Source::Live(subscription), syntax);
    Ok(Feed::new(app, name, source, after, place).response())
}

/// How the events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedSyntax {
    Events,
    Lines,
}

impl FeedSyntax {
    fn form(self) -> Form {
        match self {
            FeedSyntax::Events => Form::Events,
            FeedSyntax::Lines => Form::Lines,
        }
    }

    /// An event other than a firing. `data` has no line breaks: it is one line of JSON.
    fn event(self, event: &str, mut data: serde_json::Value) -> Bytes {
        match self {
            FeedSyntax::Events => format!("event: {event}\ndata: {data}\n\n").into(),
            FeedSyntax::Lines => {
                data["event"] = event.into();
                format!("{data}\n").into()
            }
        }
    }

    /// What only keeps the connection alive, or tells people something.
    fn comment(self, text: &'static str) -> Bytes {
        match self {
            FeedSyntax::Events => format!(": {text}\n\n").into(),
            FeedSyntax::Lines => Bytes::from_static(b"\n"),
        }
    }
}

/// Refuses a client that does not accept an event stream.
pub(crate) fn check_accepts(headers: &HeaderMap) -> ApiResult<()> {
    if Accept::from_headers(headers).quality(EVENT_STREAM) > 0 {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::NOT_ACCEPTABLE,
        "not_acceptable",
        "The answers of a durable subscription are available as text/event-stream only.",
    )
    .detail("available", vec![EVENT_STREAM]))
}

/// Takes a place among the event streams.
pub(crate) fn place(app: &App) -> ApiResult<OwnedSemaphorePermit> {
    let subscribers = Arc::clone(&app.subscribers);
    subscribers.try_acquire_owned().map_err(|_| {
        ApiError::busy(
            format!(
                "{} clients are subscribed, the maximum of this server. Try again later.",
                app.config.subscribers
            ),
            10,
        )
    })
}

/// Sends the answers of a durable subscription.
pub(crate) fn durable(
    app: App,
    query: String,
    reader: DurableReader,
    place: OwnedSemaphorePermit,
) -> Response {
    let source = Source::Durable {
        reader,
        message: None,
    };
    let source = (source, FeedSyntax::Events);
    Feed::new(app, query, source, None, place).response()
}

/// Returns the firing after which a client wants to continue. The header, which browsers set when
/// they reconnect, is newer than the URL and takes precedence.
fn after(headers: &HeaderMap, params: &Params) -> ApiResult<Option<FiringId>> {
    let from_header = headers
        .get("last-event-id")
        .map(|value| value.to_str().unwrap_or("not text"));
    let Some(id) = from_header
        .or(params.one("lastEventId")?)
        .filter(|id| !id.trim().is_empty())
    else {
        return Ok(None);
    };
    let id = id.trim().parse().map_err(|_: ParseFiringIdError| {
        ApiError::bad_request("bad_event_id", format!("Last-Event-ID is the id of an event, such as 7:1700000001000, or the close time of a firing in whole milliseconds, not \"{}\".", shorten(id)))
    })?;
    Ok(Some(id))
}

fn from_now(params: &Params) -> ApiResult<bool> {
    match params.one("from")? {
        None | Some("kept") => Ok(false),
        Some("now") => Ok(true),
        Some(other) => Err(ApiError::bad_request(
            "bad_parameter",
            format!(
                "\"from\" is kept (the default: begin with the oldest firing that is kept) or now, not \"{}\".",
                shorten(other)
            ),
        )),
    }
}

enum FeedState {
    Opening,
    /// Between two events.
    Open,
    /// In the middle of a firing, with the number of its next piece, counted from 0.
    Sending(Arc<FiringResult>, usize),
    /// In the middle of a long firing.
    SendingOwn(OwnText),
    Ended,
}

/// Where the events come from.
enum Source {
    Live(Subscription),
    Durable {
        reader: DurableReader,
        /// Why it has ended.
        message: Option<String>,
    },
}

impl Source {
    fn uid(&self) -> u64 {
        match self {
            Source::Live(subscription) => subscription.uid(),
            Source::Durable { reader, .. } => reader.uid(),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        let (reader, message) = match self {
            Source::Live(subscription) => return subscription.poll_recv(context),
            Source::Durable { reader, message } => (reader, message),
        };
        let Poll::Ready(event) = reader.poll_recv(context) else {
            return Poll::Pending;
        };
        Poll::Ready(event.and_then(|event| match event {
            DurableEvent::Firing(firing) => Some(SubscriptionEvent::Firing(firing)),
            DurableEvent::Missed { answers } => Some(SubscriptionEvent::Lagged {
                missed: Some(answers),
            }),
            DurableEvent::Ended { message: why } => {
                *message = Some(why);
                None
            }
            _ => None,
        }))
    }
}

/// The event stream of one subscriber.
struct Feed {
    app: App,
    name: String,
    source: Source,
    syntax: FeedSyntax,
    last_id: Option<FiringId>,
    /// Whether an event has carried the time before a reconnection.
    has_retry: bool,
    state: FeedState,
    /// Yields to other connections between pieces.
    turns: Turns,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    fn new(
        app: App,
        name: String,
        (source, syntax): (Source, FeedSyntax),
        last_id: Option<FiringId>,
        place: OwnedSemaphorePermit,
    ) -> Feed {
        Feed {
            app,
            name,
            source,
            syntax,
            last_id,
            has_retry: false,
            state: FeedState::Opening,
            turns: Turns::default(),
            _place: place,
        }
    }

    fn response(self) -> Response {
        let form = self.syntax.form();
        let body = Body::from_stream(futures_util::stream::unfold(self, |mut feed| async move {
            poll_fn(|context| feed.turns.poll_next(context)).await;
            let bytes = feed.next().await?;
            Some((Ok::<_, Infallible>(bytes), feed))
        }));
        form.response(body)
    }

    /// Returns the next bytes of the stream, or `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.state, FeedState::Open) {
            FeedState::Ended => {
                self.state = FeedState::Ended;
                None
            }
            FeedState::Opening => {
                let said = "the firings of a continuous query follow";
                Some(self.syntax.comment(said))
            }
            FeedState::Open => {
                let bytes = self.next_event().await;
                Some(self.with_retry(bytes))
            }
            FeedState::Sending(firing, at) => Some(self.piece(firing, at).await),
            FeedState::SendingOwn(text) => Some(self.own_piece(text)),
        }
    }

    /// Puts the time before a reconnection into the first event: a block of its own has no data, is
    /// no event, and some clients drop what it says.
    fn with_retry(&mut self, bytes: Bytes) -> Bytes {
        let is_comment = bytes.starts_with(b":");
        if self.has_retry || is_comment || self.syntax == FeedSyntax::Lines {
            return bytes;
        }
        self.has_retry = true;
        let mut first = format!("retry: {RETRY_MS}\n").into_bytes();
        first.extend_from_slice(&bytes);
        first.into()
    }

    /// Waits for an event, and begins to send it.
    async fn next_event(&mut self) -> Bytes {
        let source = &mut self.source;
        let event = tokio::select! {
            biased;
            () = self.app.stopped() => {
                return self.end(json!({ "reason": "stopping" }));
            }
            event = poll_fn(move |context| source.poll(context)) => event,
            () = tokio::time::sleep(self.app.config.heartbeat) => {
                return match self.app.principal.is_current() {
                    true => self.syntax.comment("still here"),
                    false => self.end(revoked()),
                };
            }
        };
        match event {
            Some(_) if !self.app.principal.is_current() => self.end(revoked()),
            Some(SubscriptionEvent::Firing(firing)) => {
                self.last_id = Some(firing.id());
                self.piece(firing, 0).await
            }
            Some(SubscriptionEvent::Lagged { missed }) => {
                let after = self.last_id.map(|id| id.close);
                let data = json!({ "query": self.name, "missed": missed, "after_ms": after });
                self.syntax.event("gap", data)
            }
            Some(SubscriptionEvent::Slow { missed }) => self.slow(missed),
            Some(_) => self
                .syntax
                .comment("an event that this version does not know"),
            None => {
                let why = self.why_ended();
                self.end(why)
            }
        }
    }

    /// Says why the subscription has ended.
    fn why_ended(&self) -> serde_json::Value {
        if let Source::Durable {
            message: Some(message),
            ..
        } = &self.source
        {
            return json!({ "reason": "ended", "message": message });
        }
        let engine = &self.app.engine;
        match engine.query_info(&self.name) {
            Err(EngineError::NotFound(_)) => return json!({ "reason": "dropped" }),
            // Another query has this name now.
            Ok(info) if info.uid != self.source.uid() => {
                return json!({ "reason": "dropped" });
            }
            _ => {}
        }
        let health = engine.health();
        match health.status {
            HealthStatus::Failed | HealthStatus::ReadOnly => {
                json!({ "reason": "failed", "message": health.message })
            }
            _ => json!({ "reason": "stopping" }),
        }
    }

    /// Returns a piece of a firing's event, counted from 0.
    async fn piece(&mut self, firing: Arc<FiringResult>, at: usize) -> Bytes {
        if self.syntax == FeedSyntax::Lines {
            return match self.app.firings.own(&firing, TextFrame::Line) {
                Ok(text) => self.own_piece(text),
                Err(sentence) => self.fault(&firing, &sentence),
            };
        }
        match self.app.firings.piece(&firing, at).await {
            Ok(Piece::Next(bytes, has_more)) => {
                if has_more {
                    self.state = FeedState::Sending(firing, at + 1);
                }
                bytes
            }
            Ok(Piece::Long) => match self.app.firings.own(&firing, TextFrame::Event) {
                Ok(text) => self.own_piece(text),
                Err(sentence) => self.fault(&firing, &sentence),
            },
            Err(sentence) => self.fault(&firing, &sentence),
        }
    }

    fn own_piece(&mut self, mut text: OwnText) -> Bytes {
        match text.next() {
            Ok((bytes, has_more)) => {
                if has_more {
                    self.state = FeedState::SendingOwn(text);
                }
                bytes
            }
            // The event has begun and cannot be taken back. A line break ends it, and the client
            // discards it.
            Err(sentence) => {
                tracing::error!(%sentence, "an event could not be written to its end");
                let broken = match self.syntax {
                    FeedSyntax::Events => "\n\n",
                    FeedSyntax::Lines => "\n",
                };
                let mut bytes = broken.as_bytes().to_vec();
                let why = json!({ "reason": "fault", "message": sentence });
                bytes.extend_from_slice(&self.end(why));
                bytes.into()
            }
        }
    }

    fn fault(&self, firing: &FiringResult, sentence: &str) -> Bytes {
        let data = json!({ "query": self.name, "close_ms": firing.close, "error": sentence });
        self.syntax.event("fault", data)
    }

    /// Tells the client that it reads too slowly, and ends the stream.
    fn slow(&mut self, missed: u64) -> Bytes {
        let data = json!({
            "query": self.name,
            "reason": "slow",
            "message": "This client reads more slowly than the query fires. Reconnect with the Last-Event-ID to get the firings that are still kept.",
            "missed": missed,
            "last_event_id": self.last_id.map(|id| id.to_string()),
        });
        let mut bytes = self.syntax.event("slow", data.clone()).to_vec();
        bytes.extend_from_slice(&self.end(data));
        bytes.into()
    }

    fn end(&mut self, mut data: serde_json::Value) -> Bytes {
        self.state = FeedState::Ended;
        data["query"] = self.name.clone().into();
        self.syntax.event("end", data)
    }
}

/// Why the stream ends of a client whose token is no longer valid.
fn revoked() -> serde_json::Value {
    json!({ "reason": "revoked", "message": "The token of this client has expired or was revoked." })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_resume_position_is_read_from_the_request() {
        let params = |text: &str| Params::parse(text).expect("valid");
        let mut headers = HeaderMap::new();
        assert_eq!(after(&headers, &params("")).expect("none"), None);
        assert_eq!(
            after(&headers, &params("lastEventId=-5")).expect("valid"),
            Some(FiringId::at(somersault::EventTime(-5)))
        );
        let amended = after(&headers, &params("lastEventId=-5.0.2.17")).expect("valid");
        assert_eq!(
            amended.map(|id| (id.revision, id.sn)),
            Some((2, Some(somersault::Sn(17))))
        );
        assert_eq!(
            amended.map(|id| id.to_string()),
            Some("-5.0.2.17".to_owned())
        );
        let of_a_query = after(&headers, &params("lastEventId=7:-5")).expect("valid");
        assert_eq!(
            of_a_query.map(|id| (id.uid, id.close.0)),
            Some((Some(7), -5))
        );
        assert_eq!(of_a_query.map(|id| id.to_string()), Some("7:-5".to_owned()));
        for bad in [
            "x",
            ":5",
            "7:",
            "7:8:9",
            "-7:5",
            "5.0",
            "5.0.1",
            "5.0.1.2.3",
            "5.0.1.x",
            "5.",
        ] {
            let bad = format!("lastEventId={bad}");
            assert!(after(&headers, &params(&bad)).is_err(), "{bad}");
        }
        headers.insert("last-event-id", HeaderValue::from_static("7"));
        assert_eq!(
            after(&headers, &params("lastEventId=5")).expect("the header wins"),
            Some(FiringId::at(somersault::EventTime(7)))
        );
        headers.insert("last-event-id", HeaderValue::from_static(""));
        assert_eq!(after(&headers, &params("")).expect("empty is none"), None);
        assert!(from_now(&params("from=now")).expect("valid"));
        assert!(from_now(&params("from=then")).is_err());
    }
}
