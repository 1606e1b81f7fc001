//! Messages: a body of several, read while it comes. Each is taken or refused by itself, and the
//! answer says which, and why.

use crate::http::body::LINGER;
use crate::http::error::{ApiError, ApiResult};
use crate::routes::push::{Sender, supported};
use crate::state::App;
use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use somersault::{
    DocumentPush, DocumentSyntax, Engine, EngineError, EventTime, MessageNumbers, MessagePush,
    MessageRefusal, MessageSender, MessageSyntax, MessagesReceipt,
};
use std::io::Read;
use std::pin::pin;

/// How a body of several messages is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ManySyntax {
    /// As messages.
    Messages(MessageSyntax),
    /// As documents, which the stream's mapping turns into messages.
    Documents(DocumentSyntax),
}

/// A request whose body is messages or documents.
pub(crate) struct MessagesRequest {
    pub(crate) stream: String,
    pub(crate) sender: Sender,
    pub(crate) at: Option<EventTime>,
    pub(crate) syntax: ManySyntax,
}

impl MessagesRequest {
    /// Pushes the messages of a body.
    pub(crate) async fn push(self, app: &App, headers: &HeaderMap, body: Body) -> ApiResult {
        let _place = app.feed_place()?;
        let (pump, mut feed) = app.bodies.feed(headers, body)?;
        let read = app.read(false, move |engine, _| {
            let receipt = self.take(engine, &mut feed);
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

    fn take(self, engine: &Engine, text: impl Read) -> ApiResult<MessagesReceipt> {
        let (source, seq) = self.sender.into_parts();
        let at = self.at;
        let taken = match self.syntax {
            ManySyntax::Messages(syntax) => {
                let push = MessagePush {
                    source,
                    seq,
                    at,
                    syntax,
                };
                engine.push_messages(&self.stream, push, text)
            }
            ManySyntax::Documents(syntax) => {
                let mapping = engine.mapping(&self.stream)?;
                if !mapping.is_some_and(|mapping| mapping.reads(syntax)) {
                    return Err(unmapped(syntax));
                }
                let sender = MessageSender { source, seq, at };
                engine.push_documents(&self.stream, DocumentPush { sender, syntax }, text)
            }
        };
        taken.map_err(ApiError::from)
    }
}

/// Returns a 415: the stream has no mapping.
fn unmapped(syntax: DocumentSyntax) -> ApiError {
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        format!(
            "The stream is not declared with MAPPED BY CONSTRUCT, or CONTEXT for JSON, which would say what {} means in it. Declare it so, or push RDF in one of the types in \"supported\".",
            syntax.media_type()
        ),
    )
    .detail("supported", supported())
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
        "dead_letters": receipt.dead_letters,
    });
    let mut fields = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    if let Some(fault) = &receipt.dead_letter_fault {
        fields.insert("dead_letter_error".to_owned(), fault.to_string().into());
    }
    fields
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
