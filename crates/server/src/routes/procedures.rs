//! Procedures over HTTP: `declarations` implemented for them, and the transactions that they
//! aborted. Calls are in `calls`.

use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_encode};
use crate::routes::dataflows::aborted_json;
use crate::routes::declarations::{Declared, command, name_of, named};
use crate::routes::health::abort_json;
use crate::routes::sparql::text_response;
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault::{Engine, EngineError, ProcedureInfo};

fn procedure_json(info: &ProcedureInfo) -> Value {
    let href = format!("/procedures/{}", percent_encode(&info.name));
    let parameters = info.parameters.iter();
    let parameters = parameters.map(|it| json!({ "name": it.name, "kind": it.kind }));
    let streams = info.streams.iter().map(|it| {
        json!({
            "stream": it.stream,
            "batch": it.batch,
            "batches": it.batches,
            "waiting_batches": it.waiting_batches,
            "waiting_messages": it.waiting_messages,
        })
    });
    let windows = info.windows.iter();
    let windows =
        windows.map(|it| json!({ "name": it.name, "stream": it.stream, "window": it.extent }));
    json!({
        "name": info.name,
        "call": info.streams.is_empty().then(|| format!("{href}/call")),
        "href": href,
        "text": info.text,
        "body": info.body,
        "waits": info.waits,
        "parameters": parameters.collect::<Vec<_>>(),
        "streams": streams.collect::<Vec<_>>(),
        "windows": windows.collect::<Vec<_>>(),
        "emits": info.emits,
        "dataflow": info.dataflow,
        "last_abort": info.last_abort.as_ref().map(abort_json),
    })
}

/// Procedures as declarations under a name.
pub(crate) struct Procedures;

impl Declared for Procedures {
    type Info = ProcedureInfo;
    const PATH: &str = "/procedures/";

    fn one(engine: &Engine, name: &str) -> Result<ProcedureInfo, EngineError> {
        engine.procedure_info(name)
    }

    fn declare(engine: &Engine, name: &str, text: &str) -> Result<ProcedureInfo, EngineError> {
        engine.create_procedure(Some(name), text)
    }

    fn drop(engine: &Engine, name: &str) -> Result<(), EngineError> {
        engine.drop_procedure(name, false)
    }

    fn json(info: &ProcedureInfo) -> Value {
        procedure_json(info)
    }
}

pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let all = app.run(Lane::Control, Engine::procedures).await?;
    let procedures: Vec<Value> = all.iter().map(procedure_json).collect();
    Ok(Json(json!({ "procedures": procedures })).into_response())
}

/// Drops a procedure, with `?discard=true` also while messages wait for it.
pub(crate) async fn drop(app: App, request: Request) -> ApiResult {
    let params = Params::of(request.uri())?;
    params.only(&["discard"])?;
    let discard = params.flag("discard")?;
    let name = name_of(request.uri().path(), Procedures::PATH, "")?;
    command(&app, move |engine| engine.drop_procedure(&name, discard)).await
}

/// Returns the newest transactions that a procedure aborted.
pub(crate) async fn aborted(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Procedures::PATH, "/aborted")?;
    let list = app
        .run(Lane::Control, move |engine| engine.aborted_by(&name))
        .await?;
    Ok(Json(aborted_json(&list)).into_response())
}

/// Describes the steps of a procedure, each with the plan of its query.
pub(crate) async fn explain(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Procedures::PATH, "/explain")?;
    let described = app
        .run(Lane::Query, move |engine| engine.explain_procedure(&name))
        .await?;
    Ok(text_response(described))
}
