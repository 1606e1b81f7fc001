//! `GET …/answers`: the next answers of a durable subscription as one JSON document, for readers
//! that keep no connection open.
//!
//! The one thing to know before changing it: an answer is taken from the subscription when its turn
//! to be written has come, so a client that reads slowly holds one answer and not a batch of them.

use super::names;
use crate::event_stream::texts::{OwnText, TextFrame};
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, shorten};
use crate::routes::events;
use crate::routes::results::Turns;
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde_json::json;
use somersault::{DurableEvent, DurableReader};
use std::future::poll_fn;
use std::io;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// The number of answers without `limit`.
const USUAL: u64 = 100;
/// The highest `limit`.
const MOST: u64 = 1_000;
/// The longest wait for the first answer.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

pub(crate) async fn answers(app: App, request: Request) -> ApiResult {
    let uri = request.uri();
    let params = Params::of(uri)?;
    params.only(&["limit", "wait_ms"])?;
    let limit = number(&params, "limit", 1)?.unwrap_or(USUAL);
    if limit > MOST {
        let sentence = format!(
            "\"limit\" is at most {MOST}, not {limit}. Acknowledge what was read, and ask for the next ones."
        );
        return Err(ApiError::bad_request("bad_parameter", sentence));
    }
    let wait = number(&params, "wait_ms", 0)?.map_or(Duration::ZERO, Duration::from_millis);
    let (query, name) = names(uri, "/answers")?;
    let place = events::place(&app)?;
    let read = move |engine: &somersault::Engine| engine.read_durably(&query, &name);
    let mut reader = app.run(Lane::Control, read).await?;
    reader.limit(limit);
    let first = tokio::select! {
        biased;
        first = poll_fn(|context| reader.poll_recv(context)) => first,
        () = tokio::time::sleep(wait.min(LONGEST_WAIT)) => None,
        () = app.stopped() => None,
    };
    let document = AnswerDocument {
        app,
        reader,
        first,
        written: 0,
        missed: 0,
        state: DocumentState::Opening,
        turns: Turns::default(),
        _place: place,
    };
    Ok(document.response())
}

/// Reads a whole number that is not below `least`.
fn number(params: &Params, name: &str, least: u64) -> ApiResult<Option<u64>> {
    let Some(text) = params.one(name)? else {
        return Ok(None);
    };
    let read = text.parse().ok().filter(|number| *number >= least);
    read.map(Some).ok_or_else(|| {
        let sentence = format!(
            "\"{name}\" is a whole number from {least} on, not \"{}\".",
            shorten(text)
        );
        ApiError::bad_request("bad_parameter", sentence)
    })
}

enum DocumentState {
    Opening,
    /// Between two answers.
    Open,
    /// In the middle of an answer.
    Sending(OwnText),
    Ended,
}

/// The document, which is written while it is sent.
struct AnswerDocument {
    app: App,
    reader: DurableReader,
    /// The event for which the request has waited.
    first: Option<DurableEvent>,
    written: u64,
    /// The number of answers that the subscription has let go.
    missed: u64,
    state: DocumentState,
    /// Yields to other connections between pieces.
    turns: Turns,
    _place: OwnedSemaphorePermit,
}

impl AnswerDocument {
    fn response(self) -> Response {
        let written = futures_util::stream::unfold(self, |mut document| async move {
            poll_fn(|context| document.turns.poll_next(context)).await;
            let bytes = document.next()?;
            if bytes.is_err() {
                document.state = DocumentState::Ended;
            }
            Some((bytes, document))
        });
        let mut response = Response::new(Body::from_stream(written));
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Returns the next bytes, or `None` at the end. After an error the response breaks off.
    fn next(&mut self) -> Option<io::Result<Bytes>> {
        match std::mem::replace(&mut self.state, DocumentState::Open) {
            DocumentState::Opening => Some(Ok(Bytes::from_static(b"{\"answers\":["))),
            DocumentState::Open => Some(self.next_answer()),
            DocumentState::Sending(text) => Some(self.piece(text)),
            DocumentState::Ended => {
                self.state = DocumentState::Ended;
                None
            }
        }
    }

    fn next_answer(&mut self) -> io::Result<Bytes> {
        let mut ended = None;
        while ended.is_none() {
            match self.first.take().or_else(|| self.reader.try_recv()) {
                Some(DurableEvent::Firing(firing)) => {
                    let text = self.app.firings.own(&firing, TextFrame::Bare);
                    let text = text.map_err(io::Error::other)?;
                    self.written += 1;
                    if self.written == 1 {
                        return self.piece(text);
                    }
                    self.state = DocumentState::Sending(text);
                    return Ok(Bytes::from_static(b","));
                }
                Some(DurableEvent::Missed { answers }) => self.missed += answers,
                Some(DurableEvent::Ended { message }) => ended = Some(message),
                Some(_) => {}
                None => break,
            }
        }
        self.state = DocumentState::Ended;
        let end = format!(
            "],\"missed\":{},\"ended\":{}}}\n",
            self.missed,
            json!(ended)
        );
        Ok(end.into())
    }

    fn piece(&mut self, mut text: OwnText) -> io::Result<Bytes> {
        let (bytes, has_more) = text.next().map_err(io::Error::other)?;
        if has_more {
            self.state = DocumentState::Sending(text);
        }
        Ok(bytes)
    }
}
