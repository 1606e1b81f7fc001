//! Answers to probes: a word, for programs that start, stop and balance servers.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The answer to a probe.
pub(crate) fn answer(status: StatusCode, word: &str) -> Response {
    let mut response = (status, Json(json!({ "status": word }))).into_response();
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

/// `/livez`: the process answers requests. It asks nothing else, so that a server which is slow or
/// has failed is not taken for a dead one.
pub(crate) async fn live() -> Response {
    answer(StatusCode::OK, "live")
}
