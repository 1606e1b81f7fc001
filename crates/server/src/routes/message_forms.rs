//! The forms in which messages are sent: RDF Messages, lines of JSON-LD, or Server-Sent Events.
//!
//! A message is closed by its delimiter at once, so that a client need not wait for the next.

use crate::http::connections::EventStream;
use crate::http::error::{ApiError, ApiResult};
use crate::http::negotiate::JSON_LINES;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use somersault::oxrdf::{GraphNameRef, QuadRef};
use somersault::{MessageSyntax, MessageWriter};

pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Messages(MessageSyntax),
    Events,
    /// A line of JSON for each event.
    Lines,
}

impl Form {
    /// The form that the client likes best, of messages and what there is beside them; `otherwise`
    /// for one that has no wish.
    ///
    /// # Errors
    /// 406 with the media types that there are.
    pub(crate) fn wanted(headers: &HeaderMap, otherwise: Form, beside: &[Form]) -> ApiResult<Form> {
        let lines = headers.get_all(header::ACCEPT).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let ranges: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
        if ranges.iter().all(|range| range.trim().is_empty()) {
            return Ok(otherwise);
        }
        let mut best: Option<(f32, Form)> = None;
        for range in ranges {
            let (Some(form), quality) = (Form::of(range, otherwise), quality(range)) else {
                continue;
            };
            let is_there = matches!(form, Form::Messages(_)) || beside.contains(&form);
            if is_there && quality > 0.0 && best.is_none_or(|(most, _)| quality > most) {
                best = Some((quality, form));
            }
        }
        best.map(|(_, form)| form).ok_or_else(|| {
            let messages = MessageSyntax::ALL.map(MessageSyntax::media_type);
            let beside = beside.iter().map(|form| form.media_type());
            let available: Vec<&str> = messages.into_iter().chain(beside).collect();
            ApiError::new(
                StatusCode::NOT_ACCEPTABLE,
                "not_acceptable",
                "None of the media types in the Accept header is available here. Ask for text/event-stream or another of those in \"available\", or leave Accept out.",
            )
            .detail("available", available)
        })
    }

    fn of(range: &str, otherwise: Form) -> Option<Form> {
        let name = range.split(';').next().unwrap_or_default().trim();
        match name {
            "*/*" => Some(otherwise),
            "application/*" => Some(Form::Messages(MessageSyntax::NQuads)),
            "text/*" => Some(Form::Events),
            _ if name.eq_ignore_ascii_case(EVENT_STREAM) => Some(Form::Events),
            _ if name.eq_ignore_ascii_case(JSON_LINES) => Some(Form::Lines),
            _ => MessageSyntax::of_media_type(range).map(Form::Messages),
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Form::Messages(syntax) => syntax.media_type(),
            Form::Events => EVENT_STREAM,
            Form::Lines => JSON_LINES,
        }
    }

    /// An answer that goes on until its body ends.
    pub(crate) fn response(self, body: Body) -> Response {
        let mut response = Response::new(body);
        response.extensions_mut().insert(EventStream);
        let headers = response.headers_mut();
        let media_type = HeaderValue::from_static(self.media_type());
        headers.insert(header::CONTENT_TYPE, media_type);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Without this header, nginx holds messages back until its buffer is full.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}

/// The `q` of a media range.
fn quality(range: &str) -> f32 {
    let mut parameters = range.split(';').map(str::trim);
    let q = parameters.find_map(|it| it.strip_prefix("q=").or(it.strip_prefix("Q=")));
    q.map_or(1.0, |q| q.parse().unwrap_or(0.0))
}

/// Writes messages one after the other.
pub(crate) struct MessageText {
    writer: MessageWriter<Vec<u8>>,
    syntax: MessageSyntax,
}

impl MessageText {
    pub(crate) fn new(syntax: MessageSyntax) -> MessageText {
        MessageText {
            writer: MessageWriter::new(Vec::new(), syntax),
            syntax,
        }
    }

    /// The bytes of a message, which is closed. In a syntax without graphs all of its statements
    /// are in the one graph, as BATCH shows them.
    ///
    /// # Errors
    /// A sentence: the message cannot be written in this syntax.
    pub(crate) fn message<'q>(
        &mut self,
        statements: impl Iterator<Item = QuadRef<'q>>,
    ) -> Result<Bytes, String> {
        let fault = |error: std::io::Error| error.to_string();
        let has_graphs = self.syntax.has_graphs();
        let quads = statements.map(|quad| match has_graphs {
            true => quad,
            false => QuadRef {
                graph_name: GraphNameRef::DefaultGraph,
                ..quad
            },
        });
        self.writer.write(quads).map_err(fault)?;
        self.writer.end_message().map_err(fault)?;
        Ok(std::mem::take(self.writer.get_mut()).into())
    }

    /// A line that readers pass over; none where the syntax has no comments.
    pub(crate) fn comment(&self, text: &str) -> Option<Bytes> {
        match self.syntax {
            MessageSyntax::NdJsonLd => None,
            _ => Some(format!("# {text}\n").into()),
        }
    }

    /// A sign of life.
    pub(crate) fn heartbeat() -> Bytes {
        Bytes::from_static(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_that_the_client_likes_best() {
        let nquads = Form::Messages(MessageSyntax::NQuads);
        let wanted = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            Form::wanted(&headers, nquads, &[Form::Events]).ok()
        };
        for otherwise in [nquads, Form::Events] {
            assert_eq!(
                Form::wanted(&HeaderMap::new(), otherwise, &[Form::Events]).ok(),
                Some(otherwise)
            );
        }
        assert_eq!(wanted("*/*"), Some(nquads));
        assert_eq!(wanted("text/event-stream"), Some(Form::Events));
        let turtle = "text/turtle;version=1.2-messages;q=0.9, application/x-ld+ndjson;q=0.2";
        assert_eq!(wanted(turtle), Some(Form::Messages(MessageSyntax::Turtle)));
        assert_eq!(wanted("text/turtle"), None, "it says nothing of messages");
        assert_eq!(wanted("text/event-stream;q=0"), None);
        assert_eq!(wanted("application/x-ndjson"), None);
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(JSON_LINES));
        let lines = Form::wanted(&headers, Form::Events, &[Form::Events, Form::Lines]);
        assert_eq!(lines.ok(), Some(Form::Lines));
    }
}
