//! Continuous queries over HTTP: `declarations` implemented for them, and pausing. Their answers
//! are in `events`.

use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_encode, shorten};
use crate::http::time::micros;
use crate::routes::declarations::{Declared, command, declare_new, in_turn, named};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault::{Engine, EngineError, QueryInfo, Replacement, StreamProgress};

fn progress_json(progress: &StreamProgress) -> Value {
    json!({ "stream": progress.stream, "complete_through_ms": progress.watermark, "since_ms": progress.since })
}

fn query_json(info: &QueryInfo) -> Value {
    let href = format!("/queries/{}", percent_encode(&info.name));
    let windows: Vec<Value> = info
        .windows
        .iter()
        .map(|window| json!({ "stream": window.stream, "window": window.extent, "range_ms": window.range_ms, "step_ms": window.step_ms }))
        .collect();
    let streams: Vec<Value> = info.streams.iter().map(progress_json).collect();
    let waiting_for = info.waiting_for.as_ref().map(|progress| {
        let mut waiting_for = progress_json(progress);
        waiting_for["close_ms"] = json!(info.next_close);
        waiting_for
    });
    json!({
        "name": info.name,
        "uid": info.uid,
        "results": format!("{href}/results"),
        "href": href,
        "text": info.text,
        "windows": windows,
        "live": info.live,
        "every_ms": info.every_ms,
        "paused": info.paused,
        "group": info.group.map(|group| json!({
            "queries": group.queries,
            "combinations": group.combinations,
            "together": group.together,
        })),
        "firings": info.firings,
        "amended": info.amended,
        "skipped": info.skipped,
        "derives": info.derives,
        "rows": info.rows,
        "last_close_ms": info.last_close,
        "next_close_ms": info.next_close,
        "streams": streams,
        "held_up_by": waiting_for,
        "passed_in_bulk": info.skipped_empty,
        "passed_while_paused": info.passed_while_paused,
        "last_error": info.last_error,
        "subscribers": info.subscribers,
        "execution_us": { "p50": micros(info.execution_p50), "p99": micros(info.execution_p99) },
        "delay_us": { "p50": micros(info.delay_p50), "p99": micros(info.delay_p99) },
        "waiting_us": { "p50": micros(info.waiting_p50), "p99": micros(info.waiting_p99) },
    })
}

/// Continuous queries as declarations under a name.
pub(crate) struct Queries;

impl Declared for Queries {
    type Info = QueryInfo;
    const PATH: &str = "/queries/";

    fn one(engine: &Engine, name: &str) -> Result<QueryInfo, EngineError> {
        engine.query_info(name)
    }

    fn declare(engine: &Engine, name: &str, text: &str) -> Result<QueryInfo, EngineError> {
        engine.register(Some(name), text)
    }

    fn drop(engine: &Engine, name: &str) -> Result<(), EngineError> {
        engine.drop_query(name)
    }

    fn json(info: &QueryInfo) -> Value {
        query_json(info)
    }
}

/// Registers a query, or with `?replace=true` replaces the one of the same name. Returns 201, or
/// 200 if there was one.
pub(crate) async fn register(app: App, request: Request) -> ApiResult {
    let params = Params::of(request.uri())?;
    params.only(&["replace"])?;
    if !params.flag("replace")? {
        return declare_new::<Queries>(app, request).await;
    }
    let (info, replacement) = in_turn(app, request, Queries::PATH, |engine, name, text| {
        engine.replace(Some(name), text)
    })
    .await?;
    let status = match replacement {
        Replacement::Created => StatusCode::CREATED,
        Replacement::Unchanged | Replacement::Replaced { .. } => StatusCode::OK,
    };
    let mut json = query_json(&info);
    json["replaced"] = match replacement {
        Replacement::Replaced { uid, after } => json!({ "uid": uid, "after_ms": after }),
        Replacement::Created | Replacement::Unchanged => Value::Null,
    };
    Ok((status, Json(json)).into_response())
}

/// Queries on a page: the default, and the maximum.
const PAGE: usize = 1_000;
const LARGEST_PAGE: usize = 10_000;

/// Returns a page of the queries, in the order of their names, and a link to the next page.
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    let params = Params::of(request.uri())?;
    params.only(&["after", "limit"])?;
    let after = params.one("after")?.map(str::to_owned);
    let limit = match params.one("limit")? {
        None => PAGE,
        Some(text) => (text.parse().ok())
            .filter(|limit| (1..=LARGEST_PAGE).contains(limit))
            .ok_or_else(|| {
                ApiError::bad_request(
                    "bad_parameter",
                    format!(
                        "The parameter \"limit\" is a whole number from 1 to {LARGEST_PAGE}, not \"{}\".",
                        shorten(text)
                    ),
                )
            })?,
    };
    let engine = app.engine.clone();
    let page = (app.gate)
        .run(Lane::Control, move || {
            engine.queries_after(after.as_deref(), limit)
        })
        .await?;
    let next = (page.queries.last().filter(|_| page.more)).map(|last| {
        format!(
            "/queries?limit={limit}&after={}",
            percent_encode(&last.name)
        )
    });
    let queries: Vec<Value> = page.queries.iter().map(query_json).collect();
    let page = json!({ "queries": queries, "total": page.total, "next": next });
    Ok(Json(page).into_response())
}

pub(crate) async fn pause(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Queries::PATH, "/pause")?;
    command(&app, move |engine| engine.pause_query(&name)).await
}

pub(crate) async fn resume(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Queries::PATH, "/resume")?;
    command(&app, move |engine| engine.resume_query(&name)).await
}
