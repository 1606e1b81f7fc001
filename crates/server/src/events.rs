//! `GET /queries/{name}/results`: the firings of a continuous query as Server-Sent Events.
//!
//! A firing is an event with the close time as its id, so that a client which comes back with
//! `Last-Event-ID` goes on where it was. Nothing is left out silently: what is no longer kept is announced
//! by a `gap` event, and a client that falls behind is sent an `end` event that says so, and may come back.
//! The stream is pulled by the socket: what a slow client has not taken waits in the engine's
//! subscription, which is bounded.

use crate::app::App;
use crate::declarations::name_of;
use crate::error::{ApiError, ApiResult};
use crate::gate::Lane;
use crate::negotiate::Accept;
use crate::queries::micros;
use crate::text::{Params, shorten};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use oxrdfio::RdfFormat;
use serde_json::json;
use somersault::{
    Answer, AnswerKind, EngineError, FiringId, FiringResult, QueryResultsFormat, SubscribeOptions,
    Subscription, SubscriptionEvent,
};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

const EVENT_STREAM: &str = "text/event-stream";
/// Answers with more rows are put into words on a blocking thread.
const ROWS_INLINE: usize = 1000;
/// What a browser waits before it reconnects.
const RETRY_MS: u32 = 2000;

pub(crate) async fn results(State(app): State<App>, request: Request) -> ApiResult {
    let (head, _body) = request.into_parts();
    let name = name_of(head.uri.path(), "/queries/", "/results")?;
    let params = Params::of(&head.uri)?;
    params.only(&["lastEventId", "empties", "from"])?;
    if Accept::from_headers(&head.headers).quality(EVENT_STREAM) == 0 {
        return Err(ApiError::new(
            StatusCode::NOT_ACCEPTABLE,
            "not_acceptable",
            "The answers of a continuous query come as text/event-stream only.",
        )
        .detail("available", vec![EVENT_STREAM]));
    }
    let after = after(&head.headers, &params)?;
    let options = SubscribeOptions {
        after,
        from_now: from_now(&params)?,
        empties: params.flag("empties")?,
        capacity: app.config.subscriber_backlog.max(1),
    };
    let place = Arc::clone(&app.subscribers).try_acquire_owned().map_err(|_| {
        ApiError::busy(format!("{} clients are subscribed already, as many as this server takes. Try again later.", app.config.subscribers), 10)
    })?;
    let (engine, query) = (app.engine.clone(), name.clone());
    let subscription = app
        .gate
        .run(Lane::Control, move || engine.subscribe(&query, options))
        .await??;
    let feed = Feed {
        app,
        name,
        subscription,
        last_id: after,
        events: 0,
        state: FeedState::Opening,
        _place: place,
    };
    let body = Body::from_stream(futures_util::stream::unfold(feed, |mut feed| async move {
        let bytes = feed.next().await?;
        Some((Ok::<_, Infallible>(bytes), feed))
    }));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would otherwise hold events back until its buffer is full.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The close after which a client wants to go on. The header, which browsers set when they reconnect, is
/// newer than the URL.
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
    let id = id.trim().parse().map_err(|()| {
        ApiError::bad_request("bad_event_id", format!("Last-Event-ID is the id of an event, or the close time of a firing in whole milliseconds, not \"{}\".", shorten(id)))
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedState {
    Opening,
    Open,
    Ended,
}

/// One subscriber.
struct Feed {
    app: App,
    name: String,
    subscription: Subscription,
    last_id: Option<FiringId>,
    /// Events sent so far, gaps included.
    events: u64,
    state: FeedState,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    /// The next bytes of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            FeedState::Ended => return None,
            FeedState::Opening => {
                self.state = FeedState::Open;
                return Some(
                    format!("retry: {RETRY_MS}\n: the firings of a continuous query follow\n\n")
                        .into(),
                );
            }
            FeedState::Open => {}
        }
        let subscription = &mut self.subscription;
        let event = tokio::select! {
            biased;
            () = self.app.stopped() => {
                return Some(self.end(": the server is stopping\n", json!({ "reason": "stopping" })));
            }
            event = poll_fn(move |context| subscription.poll_recv(context)) => event,
            () = tokio::time::sleep(self.app.config.heartbeat) => return Some(Bytes::from_static(b": still here\n\n")),
        };
        self.events += 1;
        match event {
            Some(SubscriptionEvent::Firing(firing)) => {
                self.last_id = Some(firing.id());
                Some(written(firing).await)
            }
            Some(SubscriptionEvent::Lagged { missed }) if self.events == 1 => {
                Some(event_bytes("gap", &json!({ "query": self.name, "missed": missed, "after_ms": self.last_id.map(|id| id.close_ms) }).to_string()))
            }
            Some(SubscriptionEvent::Lagged { missed }) => Some(self.end(
                "",
                json!({
                    "reason": "slow",
                    "message": "This client reads more slowly than the query fires. Reconnect with the Last-Event-ID to get what is still kept.",
                    "missed": missed,
                    "last_event_id": self.last_id.map(id_json),
                }),
            )),
            Some(_) => Some(Bytes::from_static(b": an event that this version does not know\n\n")),
            None => {
                let reason = match self.app.engine.query_info(&self.name) {
                    Err(EngineError::NotFound(_)) => "dropped",
                    // Another one bears its name.
                    Ok(info) if info.uid != self.subscription.uid() => "dropped",
                    _ => "stopping",
                };
                Some(self.end("", json!({ "reason": reason })))
            }
        }
    }

    fn end(&mut self, comment: &str, mut data: serde_json::Value) -> Bytes {
        self.state = FeedState::Ended;
        data["query"] = self.name.clone().into();
        let mut bytes = comment.as_bytes().to_vec();
        bytes.extend_from_slice(&event_bytes("end", &data.to_string()));
        bytes.into()
    }
}

/// An id is a number wherever it is a close alone.
fn id_json(id: FiringId) -> serde_json::Value {
    match (id.ordinal, id.revision) {
        (0, 0) => json!(id.close_ms),
        _ => json!(id.to_string()),
    }
}

/// An event other than a firing. `data` has no line breaks: it is JSON from one line.
fn event_bytes(event: &str, data: &str) -> Bytes {
    format!("event: {event}\ndata: {data}\n\n").into()
}

async fn written(firing: Arc<FiringResult>) -> Bytes {
    let rows = firing.answer.as_ref().map_or(0, Answer::len);
    if rows <= ROWS_INLINE {
        return firing_bytes(&firing);
    }
    let (close_ms, query) = (firing.close_ms, firing.query.clone());
    let made = tokio::task::spawn_blocking(move || firing_bytes(&firing)).await;
    made.unwrap_or_else(|_| {
        let data = json!({ "query": query, "close_ms": close_ms, "error": "The answer could not be written; this is a fault of the server." });
        event_bytes("fault", &data.to_string())
    })
}

/// A firing as an event: its id, and one line of JSON.
fn firing_bytes(firing: &FiringResult) -> Bytes {
    let mut data = json!({
        "query": firing.query,
        "uid": firing.uid,
        "close_ms": firing.close_ms,
        "revision": firing.revision,
        "ordinal": firing.ordinal,
        "sn": firing.sn,
        "execution_us": micros(firing.execution),
        "delay_us": micros(firing.delay),
        "waiting_us": micros(firing.waiting),
    });
    if let Some(complete_from_ms) = firing.complete_from_ms {
        data["complete_from_ms"] = complete_from_ms.into();
    }
    let (member, value) = match firing
        .answer
        .as_ref()
        .map_err(Clone::clone)
        .and_then(results_json)
    {
        Ok(results) => ("results", results),
        Err(sentence) => ("error", json!(sentence).to_string()),
    };
    let mut text = data.to_string();
    text.pop();
    format!(
        "id: {}\ndata: {text},\"{member}\":{value}}}\n\n",
        firing.id()
    )
    .into()
}

/// SPARQL JSON for SELECT and ASK, a string of N-Triples for CONSTRUCT and DESCRIBE, or of N-Quads where the template names
/// graphs; on one line.
fn results_json(answer: &Answer) -> Result<String, String> {
    let mut bytes = Vec::new();
    let (graph, wrote) = match answer.kind() {
        AnswerKind::Graph => (true, answer.write_graph(RdfFormat::NTriples, &mut bytes)),
        AnswerKind::Dataset => (true, answer.write_graph(RdfFormat::NQuads, &mut bytes)),
        AnswerKind::Solutions | AnswerKind::Boolean => {
            let wrote = answer.write_results(QueryResultsFormat::Json, &mut bytes);
            (false, wrote)
        }
    };
    wrote.map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes)
        .map_err(|_| "The answer is not UTF-8; this is a fault of the server.".to_owned())?;
    // Inside JSON's strings line breaks are escaped, so that a raw one can only be layout.
    Ok(if graph {
        json!(text).to_string()
    } else {
        text.replace(['\r', '\n'], " ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_go_on() {
        let params = |text: &str| Params::parse(text).expect("valid");
        let mut headers = HeaderMap::new();
        assert_eq!(after(&headers, &params("")).expect("none"), None);
        assert_eq!(
            after(&headers, &params("lastEventId=-5")).expect("valid"),
            Some(FiringId::at(-5))
        );
        let amended = after(&headers, &params("lastEventId=-5.0.2.17")).expect("valid");
        assert_eq!(amended.map(|id| (id.revision, id.sn)), Some((2, Some(17))));
        assert_eq!(
            amended.map(|id| id.to_string()),
            Some("-5.0.2.17".to_owned())
        );
        for bad in ["x", "5.0", "5.0.1", "5.0.1.2.3", "5.0.1.x", "5."] {
            let bad = format!("lastEventId={bad}");
            assert!(after(&headers, &params(&bad)).is_err(), "{bad}");
        }
        headers.insert("last-event-id", HeaderValue::from_static("7"));
        assert_eq!(
            after(&headers, &params("lastEventId=5")).expect("the header wins"),
            Some(FiringId::at(7))
        );
        headers.insert("last-event-id", HeaderValue::from_static(""));
        assert_eq!(after(&headers, &params("")).expect("empty is none"), None);
        assert!(from_now(&params("from=now")).expect("valid"));
        assert!(from_now(&params("from=then")).is_err());
    }
}
