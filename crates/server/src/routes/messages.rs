//! Messages: a body of several, read while it comes. Each is taken or refused by itself, and the
//! answer says which, and why.

use crate::http::body::LINGER;
use crate::http::error::{ApiError, ApiResult};
use crate::routes::push::Sender;
use crate::state::App;
use axum::Json;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use somersault::{
    EngineError, EventTime, MessageNumbers, MessagePush, MessageRefusal, MessageSyntax,
    MessagesReceipt,
};
use std::pin::pin;

/// A request whose body is messages.
pub(crate) struct MessagesRequest {
    pub(crate) stream: String,
    pub(crate) sender: Sender,
    pub(crate) at: Option<EventTime>,
    pub(crate) syntax: MessageSyntax,
}

impl MessagesRequest {
    /// Pushes the messages of a body.
    pub(crate) async fn push(self, app: &App, headers: &HeaderMap, body: Body) -> ApiResult {
        let _place = app.feed_place()?;
        let (pump, mut feed) = app.bodies.feed(headers, body)?;
        let (source, seq) = self.sender.into_parts();
        let push = MessagePush {
            source,
            seq,
            at: self.at,
            syntax: self.syntax,
        };
        let stream = self.stream;
        let read = app.read(false, move |engine, _| {
            let receipt = engine.push_messages(&stream, push, &mut feed);
            Ok((receipt?, feed.take_failure()))
        });
        let (mut pump, mut read) = (pin!(pump), pin!(read));
        let read = tokio::select! {
            read = &mut read => {
                // Whatever the client still sends is taken from the connection for a while.
                let _ = tokio::time::timeout(LINGER, pump).await;
                read
            }
            () = &mut pump => read.await,
        };
        let (receipt, broken) = read?;
        answer(receipt, broken)
    }
}

fn answer(receipt: MessagesReceipt, broken: Option<ApiError>) -> ApiResult {
    let fields = fields(&receipt);
    let Some(MessageRefusal {
        number,
        error,
        line,
        column,
    }) = receipt.ended
    else {
        return Ok(Json(Value::Object(fields)).into_response());
    };
    let error = match (broken, error) {
        (Some(broken), _) => broken,
        (None, EngineError::Io { .. }) => ApiError::bad_request(
            "broken_body",
            "The body ended before it was complete. The messages that were taken are listed; send those from \"from\" on again.",
        ),
        (None, error) if line > 0 => ApiError::from(error).at(line, column),
        (None, error) => error.into(),
    };
    let with_fields = |error: ApiError, (name, value): (String, Value)| error.detail(&name, value);
    let error = fields.into_iter().fold(error, with_fields);
    Err(error.detail("from", number))
}

/// What became of the messages that were looked at.
fn fields(receipt: &MessagesReceipt) -> Map<String, Value> {
    let runs = |numbers: &MessageNumbers| numbers.runs().to_vec();
    let reasons = receipt.reasons.iter().map(reason);
    let fields = json!({
        "taken": receipt.taken.count(),
        "repeated": receipt.repeated.count(),
        "refused": receipt.refused.count(),
        "numbers": {
            "taken": runs(&receipt.taken),
            "repeated": runs(&receipt.repeated),
            "refused": runs(&receipt.refused),
        },
        "reasons": reasons.collect::<Vec<_>>(),
        "accepted": receipt.accepted,
        "dropped": receipt.dropped,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn reason(refusal: &MessageRefusal) -> Value {
    let code = match &refusal.error {
        EngineError::Late(_) => "late",
        EngineError::Data { .. } => "bad_rdf",
        EngineError::Conflict(_) => "conflict",
        _ => "invalid",
    };
    let error = match &refusal.error {
        EngineError::Data { message, .. } => message.clone(),
        error => error.to_string(),
    };
    json!({
        "number": refusal.number,
        "line": refusal.line,
        "column": refusal.column,
        "code": code,
        "error": error,
    })
}
