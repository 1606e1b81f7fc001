//! Calls of procedures over HTTP: one with its arguments as JSON, or many as lines of JSON
//! (`pipeline`). CALL in a text comes to `sparql`.

pub(crate) mod answers;
pub(crate) mod arguments;
pub(crate) mod pipeline;

use crate::http::body;
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::negotiate::Accept;
use crate::http::text::Params;
use crate::routes::declarations::name_of;
use crate::routes::results::acceptable;
use crate::routes::sparql::{text_response, timeout};
use crate::state::App;
use axum::extract::Request;
use axum::http::{HeaderMap, Uri};
use somersault::{Argument, CallRequest, Engine};
use std::time::Duration;

/// The addresses of procedures.
const PATH: &str = "/procedures/";
/// The media type of arguments.
const JSON: &str = "application/json";

/// A call whose procedure and arguments are known.
pub(crate) struct NamedCall {
    pub(crate) procedure: String,
    pub(crate) arguments: Vec<(String, Argument)>,
    pub(crate) key: Option<CallNumber>,
}

/// Under which a call is remembered.
pub(crate) struct CallNumber {
    source: String,
    number: u64,
}

impl CallNumber {
    /// Reads `source/number`, with or without quotation marks.
    pub(crate) fn parse(text: &str) -> Result<CallNumber, String> {
        let inside = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let inside = inside.unwrap_or(text);
        let read = inside.rsplit_once('/').and_then(|(source, number)| {
            let is_name =
                !source.is_empty() && source.len() <= 256 && !source.chars().any(char::is_control);
            Some((source, number.parse().ok()?)).filter(|_| is_name)
        });
        match read {
            Some((source, number)) => Ok(CallNumber {
                source: source.to_owned(),
                number,
            }),
            None => Err(format!(
                "the key \"{}\" is not source/number: a name of 1 to 256 bytes, a slash, and a whole number",
                crate::http::text::shorten(text)
            )),
        }
    }

    /// The key in the header `Idempotency-Key`.
    ///
    /// # Errors
    /// 400 for one that is no source and number, and for two.
    pub(crate) fn of(headers: &HeaderMap) -> ApiResult<Option<CallNumber>> {
        let mut lines = headers.get_all("idempotency-key").iter();
        let line = match (lines.next(), lines.next()) {
            (None, _) => return Ok(None),
            (Some(line), None) => line.to_str().unwrap_or_default(),
            (Some(_), Some(_)) => {
                return Err(ApiError::bad_request(
                    "repeated_header",
                    "The header Idempotency-Key comes more than once. Send it once.",
                ));
            }
        };
        let key = CallNumber::parse(line);
        let refused =
            |said| ApiError::bad_request("bad_header", format!("Idempotency-Key: {said}."));
        key.map(Some).map_err(refused)
    }

    /// The call under this key.
    pub(crate) fn set(self, call: CallRequest<'_>) -> CallRequest<'_> {
        call.key(self.source, self.number)
    }
}

impl NamedCall {
    /// The engine's request for the call.
    pub(crate) fn request<'c>(
        &'c self,
        engine: &'c Engine,
        timeout: Option<Duration>,
    ) -> CallRequest<'c> {
        let call = engine.call(&self.procedure);
        let call = call.named_arguments(self.arguments.iter().cloned());
        let call = match &self.key {
            None => call,
            Some(key) => call.key(key.source.clone(), key.number),
        };
        match timeout {
            None => call,
            Some(timeout) => call.timeout(timeout),
        }
    }
}

/// Calls a procedure with the arguments in the body.
pub(crate) async fn call(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let (timeout, analyze) = settings_of_one(&app, &head.uri)?;
    let procedure = name_of(head.uri.path(), PATH, "/call")?;
    let accept = Accept::from_headers(&head.headers);
    acceptable(&accept)?;
    let key = CallNumber::of(&head.headers)?;
    let body_type = body::media_type(&head.headers)?;
    let held = app.bodies.read_text(&head.headers, body, false).await?;
    let arguments = match (body_type.as_deref(), held.text()?) {
        (None, "") => Vec::new(),
        (Some(JSON), text) => arguments::arguments(text).map_err(|said| {
            let sentence = format!("The arguments cannot be read: {said}.");
            ApiError::bad_request("bad_arguments", sentence)
        })?,
        (given, _) => return Err(body::unsupported(given, &[JSON])),
    };
    let call = NamedCall {
        procedure,
        arguments,
        key,
    };
    let place = app.gate.enter(Lane::Write).await?;
    if analyze {
        let engine = app.engine.clone();
        let analysed = move || call.request(&engine, timeout).explain_analyze();
        return Ok(text_response(app.gate.run_in(place, analysed).await??));
    }
    let call = call.request(&app.engine, timeout).begin()?;
    answers::answer(app.gate.wait(place, call).await?, &accept)
}

/// The time limit that a request sets.
fn settings(app: &App, uri: &Uri) -> ApiResult<Option<Duration>> {
    let params = Params::of(uri)?;
    params.only(&["timeout_ms"])?;
    timeout(app, &params)
}

/// The time limit of one call, and whether it is analysed instead.
fn settings_of_one(app: &App, uri: &Uri) -> ApiResult<(Option<Duration>, bool)> {
    let params = Params::of(uri)?;
    params.only(&["timeout_ms", "analyze"])?;
    Ok((timeout(app, &params)?, params.flag("analyze")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_a_source_and_a_number() {
        for (text, source, number) in [("till/7", "till", 7), ("\"a/b/0\"", "a/b", 0)] {
            let key = CallNumber::parse(text).expect(text);
            assert_eq!((&*key.source, key.number), (source, number));
        }
        for bad in ["", "till", "/7", "till/", "till/-1", "till/x", "t\u{1}/1"] {
            let Err(said) = CallNumber::parse(bad) else {
                panic!("{bad}")
            };
            assert!(said.contains("source/number"), "{said}");
        }
    }
}
