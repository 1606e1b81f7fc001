//! `GET /queries/{name}/results` as RDF Messages: each answer of a CONSTRUCT is a message.
//!
//! The one thing to know before changing it: a message has no id. So a line of comment before each
//! gives that of its answer, with which a client that was cut off goes on, and a gap is one, too.
//! Lines of JSON-LD have no comments: there the body breaks off at a gap.

use crate::http::error::{ApiError, ApiResult};
use crate::routes::message_forms::{Form, MessageText};
use crate::routes::results::Turns;
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use somersault::oxrdf::{GraphNameRef, Quad, QuadRef, Triple};
use somersault::{
    Answer, AnswerKind, FiringResult, MessageSyntax, Subscription, SubscriptionEvent,
};
use std::collections::VecDeque;
use std::future::poll_fn;
use tokio::sync::OwnedSemaphorePermit;

/// Refuses queries whose answers are no graphs.
pub(crate) fn check_kind(kind: AnswerKind) -> ApiResult<()> {
    match kind {
        AnswerKind::Graph | AnswerKind::Dataset => Ok(()),
        AnswerKind::Solutions | AnswerKind::Boolean => Err(ApiError::new(
            StatusCode::NOT_ACCEPTABLE,
            "not_acceptable",
            "Only the answers of a CONSTRUCT or DESCRIBE are available as RDF Messages. Ask for text/event-stream, or leave Accept out.",
        )),
    }
}

/// Sends the answers of a query.
pub(crate) fn response(
    app: App,
    subscription: Subscription,
    syntax: MessageSyntax,
    place: OwnedSemaphorePermit,
) -> Response {
    let feed = FiringMessages {
        app,
        subscription,
        text: MessageText::new(syntax),
        ready: VecDeque::new(),
        has_ended: false,
        turns: Turns::default(),
        _place: place,
    };
    let body = Body::from_stream(futures_util::stream::unfold(feed, |mut feed| async move {
        poll_fn(|context| feed.turns.poll_next(context)).await;
        let bytes = feed.next().await?;
        Some((bytes, feed))
    }));
    Form::Messages(syntax).response(body)
}

/// The body breaks off, so that the client does not take what it has for all.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct AnswersMissing(String);

/// The answers for one client.
struct FiringMessages {
    app: App,
    subscription: Subscription,
    text: MessageText,
    /// What is to be sent next.
    ready: VecDeque<Result<Bytes, AnswersMissing>>,
    has_ended: bool,
    /// Yields to other connections between answers.
    turns: Turns,
    _place: OwnedSemaphorePermit,
}

impl FiringMessages {
    /// The next bytes of the body, or `None` at its end.
    async fn next(&mut self) -> Option<Result<Bytes, AnswersMissing>> {
        while self.ready.is_empty() {
            if self.has_ended {
                return None;
            }
            self.wait().await;
        }
        self.ready.pop_front()
    }

    /// Waits for an event, and makes ready what it leads to.
    async fn wait(&mut self) {
        let subscription = &mut self.subscription;
        let event = tokio::select! {
            biased;
            () = self.app.stopped() => return self.end("the server is stopping"),
            event = poll_fn(move |context| subscription.poll_recv(context)) => event,
            () = tokio::time::sleep(self.app.config.heartbeat) => {
                return match self.app.principal.is_current() {
                    true => self.ready.push_back(Ok(MessageText::heartbeat())),
                    false => self.end("the token of this client has expired or was revoked"),
                };
            }
        };
        match event {
            Some(_) if !self.app.principal.is_current() => {
                self.end("the token of this client has expired or was revoked");
            }
            Some(SubscriptionEvent::Firing(firing)) => self.firing(&firing),
            Some(SubscriptionEvent::Lagged { missed }) => {
                let number = missed.map_or("some".to_owned(), |missed| missed.to_string());
                self.tell(format!("gap: {number} answers are no longer kept"));
            }
            Some(SubscriptionEvent::Slow { missed }) => self.break_off(format!(
                "slow: this client reads more slowly than the query fires; {missed} answers were dropped for it"
            )),
            Some(_) => {}
            None => self.end("the query was dropped, or the engine stops"),
        }
    }

    fn firing(&mut self, firing: &FiringResult) {
        let id = firing.id();
        let answer = match &firing.answer {
            Ok(answer) => answer,
            Err(sentence) => return self.tell(format!("error: {id}: {sentence}")),
        };
        // A message is not empty. A client that asks for empty answers sees that there was one.
        let message = match answer.is_empty() {
            true => Ok(Bytes::new()),
            false => self.message(answer),
        };
        match message {
            Ok(message) => {
                self.ready
                    .extend(self.text.comment(&format!("id: {id}")).map(Ok));
                self.ready
                    .extend((!message.is_empty()).then_some(Ok(message)));
            }
            Err(sentence) => {
                tracing::error!(%sentence, "an answer could not be written as a message");
                self.tell(format!("error: {id}: {sentence}"));
            }
        }
    }

    fn message(&mut self, answer: &Answer) -> Result<Bytes, String> {
        match answer.kind() {
            AnswerKind::Dataset => self.text.message(answer.quads().iter().map(Quad::as_ref)),
            _ => {
                let triples: Vec<Triple> = answer.triples().collect();
                let quads = triples.iter().map(|triple| QuadRef {
                    subject: triple.subject.as_ref(),
                    predicate: triple.predicate.as_ref(),
                    object: triple.object.as_ref(),
                    graph_name: GraphNameRef::DefaultGraph,
                });
                self.text.message(quads)
            }
        }
    }

    /// Tells the client what it does not get.
    fn tell(&mut self, what: String) {
        let what = what.replace(['\n', '\r'], " ");
        match self.text.comment(&what) {
            Some(comment) => self.ready.push_back(Ok(comment)),
            None => self.break_off(what),
        }
    }

    fn break_off(&mut self, why: String) {
        self.has_ended = true;
        self.ready.extend(self.text.comment(&why).map(Ok));
        self.ready.push_back(Err(AnswersMissing(why)));
    }

    fn end(&mut self, why: &str) {
        self.has_ended = true;
        self.ready
            .extend(self.text.comment(&format!("end: {why}")).map(Ok));
    }
}
