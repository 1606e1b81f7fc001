//! `/health`: the server's condition, in a word and a sentence.

use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::routes::checkpoint::status_json;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;
use somersault::HealthStatus;

/// Returns 200 if all is well, and 503 with the reason if something is not; the server may still
/// answer queries then.
pub(crate) async fn health(State(app): State<App>) -> ApiResult {
    let engine = app.engine.clone();
    let health = app.gate.run(Lane::Control, move || engine.health()).await?;
    let stopping = *app.stopping.borrow();
    let (status, word) = match health.status {
        HealthStatus::Ok if stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        HealthStatus::Ok => (StatusCode::OK, "ok"),
        HealthStatus::ReadOnly => (StatusCode::SERVICE_UNAVAILABLE, "read_only"),
        HealthStatus::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let body = json!({
        "status": word,
        "message": health.message,
        "stable_sn": health.stable_sn,
        "stored_statements": health.stored_statements,
        "inflight_bytes": health.inflight_bytes,
        "inflight_limit_bytes": health.inflight_limit_bytes,
        "checkpoints": health.checkpoints.as_ref().map(status_json),
        "version": env!("CARGO_PKG_VERSION"),
    });
    let mut response = (status, Json(body)).into_response();
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
