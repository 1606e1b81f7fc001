//! `/checkpoint`, which takes a checkpoint, and the member `checkpoints` of `/health`.

use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::http::text::Params;
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault::CheckpointStatus;

/// `POST /checkpoint`: returns when the checkpoint is written.
pub(crate) async fn take(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let taken = app.run(Lane::Control, |engine| engine.checkpoint()).await?;
    let taken = json!({
        "number": taken.number,
        "position": taken.position,
        "sn": taken.sn,
        "bytes": taken.bytes,
        "written_bytes": taken.written_bytes,
        "seconds": taken.seconds,
    });
    Ok(Json(taken).into_response())
}

/// Returns what is known of the engine's checkpoints.
pub(crate) fn status_json(status: &CheckpointStatus) -> Value {
    let newest = status.newest.as_ref().map(|newest| {
        json!({
            "number": newest.number,
            "position": newest.position,
            "sn": newest.sn,
            "bytes": newest.bytes,
            "seconds": newest.took.map(|took| took.as_secs_f64()),
            "age_seconds": status.age.map(|age| age.as_secs_f64()),
        })
    });
    json!({
        "newest": newest,
        "under_way": status.is_under_way,
        "log_bytes": status.log_bytes,
        "restart_seconds": status.restart.total().as_secs_f64(),
        "failures": status.failures,
        "last_error": status.failure,
    })
}
