//! `/tickets`: a ticket for a web page, which can then follow an event stream.

use crate::auth::principal::now_ms;
use crate::auth::tickets::LIFE;
use crate::http::error::{ApiError, ApiResult};
use crate::http::text::Params;
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;
use std::time::Instant;

/// Makes a ticket with the rights of the sender.
pub(crate) async fn create(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let seconds = u32::try_from(LIFE.as_secs()).unwrap_or(u32::MAX);
    let made = app.tickets.issue(&app.principal, Instant::now());
    let ticket = made.map_err(ApiError::internal)?.ok_or_else(|| {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_tickets",
            format!("Too many tickets wait to be used; each ends after {seconds} s. Use them, or try again later."),
        )
        .retry_after(seconds)
    })?;
    let body = json!({
        "ticket": ticket,
        "expires_ms": now_ms().saturating_add(u64::from(seconds) * 1_000),
    });
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    Ok(response)
}
