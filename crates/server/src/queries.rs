//! Continuous queries over HTTP: registering, listing, dropping, pausing. Their answers are in `events`.

use crate::app::App;
use crate::body;
use crate::error::ApiResult;
use crate::gate::Lane;
use crate::streams::{declared, name_of};
use crate::text::{Params, percent_encode};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault::{EngineError, QueryInfo};
use std::time::Duration;

/// A duration in whole microseconds, for JSON.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn query_json(info: &QueryInfo) -> Value {
    let href = format!("/queries/{}", percent_encode(&info.name));
    let windows: Vec<Value> = info
        .windows
        .iter()
        .map(|window| json!({ "stream": window.stream, "range_ms": window.range_ms, "step_ms": window.step_ms }))
        .collect();
    let held_up_by = info.held_up_by.as_ref().map(|held| {
        json!({ "stream": held.stream, "complete_through_ms": held.complete_through_ms, "close_ms": held.close_ms })
    });
    json!({
        "name": info.name,
        "uid": info.uid,
        "results": format!("{href}/results"),
        "href": href,
        "text": info.text,
        "windows": windows,
        "paused": info.paused,
        "firings": info.firings,
        "rows": info.rows,
        "last_close_ms": info.last_close_ms,
        "held_up_by": held_up_by,
        "native": info.native,
        "fallback_reason": info.fallback_reason,
        "last_error": info.last_error,
        "subscribers": info.subscribers,
        "execution_us": { "p50": micros(info.execution_p50), "p99": micros(info.execution_p99) },
        "delay_us": { "p50": micros(info.delay_p50), "p99": micros(info.delay_p99) },
        "waiting_us": { "p50": micros(info.waiting_p50), "p99": micros(info.waiting_p99) },
    })
}

pub(crate) async fn list(State(app): State<App>, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let engine = app.engine.clone();
    let queries = app
        .gate
        .run(Lane::Control, move || engine.queries())
        .await?;
    let queries: Vec<Value> = queries.iter().map(query_json).collect();
    Ok(Json(json!({ "queries": queries })).into_response())
}

pub(crate) async fn show(State(app): State<App>, request: Request) -> ApiResult {
    let name = name_of(request.uri().path(), "/queries/", "")?;
    let engine = app.engine.clone();
    let info = app
        .gate
        .run(Lane::Control, move || engine.query_info(&name))
        .await??;
    Ok(Json(query_json(&info)).into_response())
}

/// Registers a query: 201, or 200 where the same text was registered under this name before.
pub(crate) async fn register(State(app): State<App>, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let name = name_of(head.uri.path(), "/queries/", "")?;
    Params::of(&head.uri)?.only(&[])?;
    let text = body::read(&app, &head.headers, body)
        .await?
        .text()?
        .to_owned();
    let shared = app.clone();
    let (existed, info) = app
        .gate
        .run(Lane::Control, move || {
            // One declaration at a time, so that of two equal ones exactly one is the first.
            let _turn = shared
                .declarations
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let existed = shared.engine.query_info(&name).is_ok();
            shared
                .engine
                .register(Some(&name), &text)
                .map(|info| (existed, info))
        })
        .await??;
    Ok(declared(existed, query_json(&info)))
}

pub(crate) async fn drop_query(State(app): State<App>, request: Request) -> ApiResult {
    let name = name_of(request.uri().path(), "/queries/", "")?;
    command(app, move |app| app.engine.drop_query(&name)).await
}

pub(crate) async fn pause(State(app): State<App>, request: Request) -> ApiResult {
    let name = name_of(request.uri().path(), "/queries/", "/pause")?;
    command(app, move |app| app.engine.pause_query(&name)).await
}

pub(crate) async fn resume(State(app): State<App>, request: Request) -> ApiResult {
    let name = name_of(request.uri().path(), "/queries/", "/resume")?;
    command(app, move |app| app.engine.resume_query(&name)).await
}

async fn command(
    app: App,
    work: impl FnOnce(&App) -> Result<(), EngineError> + Send + 'static,
) -> ApiResult {
    let shared = app.clone();
    app.gate.run(Lane::Control, move || work(&shared)).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}
