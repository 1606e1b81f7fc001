//! `/ready`: whether requests should be sent to this server.
//!
//! Before changing it: a balancer takes a server that is not ready out of service. A server whose
//! disk is full answers queries, so it is ready; `/health` tells the rest.

use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::http::probe;
use crate::state::App;
use axum::http::StatusCode;
use somersault::HealthStatus;

/// Returns 200 for an engine that is open, has not failed and is not stopping, and 503 otherwise.
pub(crate) async fn ready(app: App) -> ApiResult {
    let engine = app.engine.clone();
    let health = app.gate.run(Lane::Control, move || engine.health()).await?;
    let stopping = *app.stopping.borrow();
    let (status, word) = match health.status {
        HealthStatus::Ok | HealthStatus::ReadOnly if !stopping => (StatusCode::OK, "ready"),
        HealthStatus::Ok | HealthStatus::ReadOnly | HealthStatus::Stopping => {
            (StatusCode::SERVICE_UNAVAILABLE, "stopping")
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    Ok(probe::answer(status, word))
}
