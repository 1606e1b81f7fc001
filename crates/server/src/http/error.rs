//! Error answers: a status, a sentence that names the place and the remedy, and a stable code.
//! Every error that leaves the server is an [`ApiError`]; `finish` turns it into JSON, or into
//! plain text for a client that prefers that.

use crate::http::negotiate::Accept;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use std::fmt::{self, Display};

/// A refused or failed request.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// Further members of the JSON body: `line`, `column`, `available`, `limit_bytes`…
    details: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The result of a handler.
pub(crate) type ApiResult<T = Response> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
    ) -> ApiError {
        ApiError {
            status,
            code,
            message: message.into(),
            details: Map::new(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Returns a 503 for a temporary condition; the client may try again after `seconds`.
    pub(crate) fn busy(message: impl Into<String>, seconds: u32) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).retry_after(seconds)
    }

    pub(crate) fn internal(message: impl Display) -> ApiError {
        tracing::error!(%message, "a request failed inside the server");
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!(
                "Something inside the server failed: {message}. Whether this request was applied is not known, unless the message says so; please report it with the server's log."
            ),
        )
    }

    pub(crate) fn detail(mut self, name: &str, value: impl Into<Value>) -> ApiError {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the position in the client's text, line and column both counted from 1.
    pub(crate) fn at(self, line: u64, column: u64) -> ApiError {
        self.detail("line", line).detail("column", column)
    }

    pub(crate) fn retry_after(self, seconds: u32) -> ApiError {
        self.header(header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> ApiError {
        self.headers.push((name, value));
        self
    }

    #[cfg(test)]
    /// Returns the HTTP status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    #[cfg(test)]
    /// Returns the sentence alone.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the body as JSON: `{"error": …, "code": …, …}`.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("error".to_owned(), self.message.clone().into());
        object.insert("code".to_owned(), self.code.into());
        object.extend(self.details.clone());
        Value::Object(object)
    }

    fn to_text(&self) -> String {
        let mut text = self.message.clone();
        if let (Some(line), Some(column)) = (self.details.get("line"), self.details.get("column")) {
            // The parsers' sentences already name the position; others do not.
            if !text.contains("line ") {
                text = format!("line {line}, column {column}: {text}");
            }
        }
        for list in ["available", "supported"] {
            if let Some(Value::Array(items)) = self.details.get(list) {
                for item in items.iter().filter_map(Value::as_str) {
                    text.push_str("\n  ");
                    text.push_str(item);
                }
            }
        }
        text.push('\n');
        text
    }

    fn render(&self, as_text: bool) -> Response {
        let (media_type, body) = if as_text {
            ("text/plain; charset=utf-8", self.to_text())
        } else {
            ("application/json", format!("{}\n", self.to_json()))
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        response
    }
}

impl Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.render(false);
        response.extensions_mut().insert(self);
        response
    }
}

/// Rewrites an error's body as plain text where the request's `Accept` lines prefer that to JSON;
/// every other response passes unchanged.
pub(crate) fn finish<'a>(
    response: Response,
    accept: impl IntoIterator<Item = &'a HeaderValue>,
) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else {
        return response;
    };
    let accept = Accept::from_lines(accept);
    if accept.quality("text/plain") <= accept.quality("application/json") {
        return response;
    }
    let mut text = error.render(true);
    // Keep headers that later stages added (Allow, CORS), but not those that describe the JSON
    // body.
    for (name, value) in response.headers() {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            text.headers_mut().insert(name, value.clone());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_unless_text_is_preferred() {
        let error = || {
            ApiError::bad_request("syntax", "A triple has no object.")
                .at(3, 7)
                .into_response()
        };
        let media = |response: &Response| {
            response.headers()[header::CONTENT_TYPE]
                .to_str()
                .map(str::to_owned)
        };
        for accept in [
            "*/*",
            "application/sparql-results+json",
            "application/json, text/plain;q=0.9",
        ] {
            let response = finish(error(), [&HeaderValue::from_static(accept)]);
            assert_eq!(
                media(&response).ok().as_deref(),
                Some("application/json"),
                "{accept}"
            );
        }
        let response = finish(error(), [&HeaderValue::from_static("text/plain")]);
        assert_eq!(
            media(&response).ok().as_deref(),
            Some("text/plain; charset=utf-8")
        );
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn text_names_the_place_once() {
        let error = ApiError::bad_request("syntax", "A triple has no object.").at(3, 7);
        assert_eq!(
            error.to_text(),
            "line 3, column 7: A triple has no object.\n"
        );
        let error = ApiError::bad_request("syntax", "line 3, column 7: no object.").at(3, 7);
        assert_eq!(error.to_text(), "line 3, column 7: no object.\n");
    }
}
