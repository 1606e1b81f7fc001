//! Dataflows over HTTP: `declarations` implemented for them, pausing, and the transactions that
//! aborted.

use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_encode, shorten};
use crate::routes::declarations::{Declared, command, name_of, named};
use crate::routes::health::abort_json;
use crate::routes::sparql::text_response;
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault::{AbortedInfo, DataflowInfo, Engine, EngineError};

fn dataflow_json(info: &DataflowInfo) -> Value {
    let href = format!("/dataflows/{}", percent_encode(&info.name));
    json!({
        "name": info.name,
        "aborted": format!("{href}/aborted"),
        "href": href,
        "text": info.text,
        "state": info.state,
        "recovery": info.recovery,
        "on_abort": info.on_abort,
        "transactions": info.units,
        "rounds": info.rounds,
        "waiting_batches": info.waiting_batches,
        "aborts": info.aborts,
        "last_abort": info.last_abort.as_ref().map(abort_json),
        "stopped_by": info.stopped_by.as_ref().map(abort_json),
    })
}

pub(crate) fn aborted_json(list: &AbortedInfo) -> Value {
    let newest: Vec<Value> = list.newest.iter().map(abort_json).collect();
    json!({ "aborted": newest, "dropped": list.dropped })
}

/// Dataflows as declarations under a name.
pub(crate) struct Dataflows;

impl Declared for Dataflows {
    type Info = DataflowInfo;
    const PATH: &str = "/dataflows/";

    fn one(engine: &Engine, name: &str) -> Result<DataflowInfo, EngineError> {
        engine.dataflow_info(name)
    }

    fn declare(engine: &Engine, name: &str, text: &str) -> Result<DataflowInfo, EngineError> {
        engine.create_dataflow(Some(name), text)
    }

    fn drop(engine: &Engine, name: &str) -> Result<(), EngineError> {
        engine.drop_dataflow(name)
    }

    fn json(info: &DataflowInfo) -> Value {
        dataflow_json(info)
    }
}

pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let all = app.run(Lane::Control, Engine::dataflows).await?;
    let dataflows: Vec<Value> = all.iter().map(dataflow_json).collect();
    Ok(Json(json!({ "dataflows": dataflows })).into_response())
}

pub(crate) async fn pause(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Dataflows::PATH, "/pause")?;
    command(&app, move |engine| engine.pause_dataflow(&name)).await
}

pub(crate) async fn resume(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Dataflows::PATH, "/resume")?;
    command(&app, move |engine| engine.resume_dataflow(&name)).await
}

/// Returns the newest transactions of a dataflow that aborted.
pub(crate) async fn aborted(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Dataflows::PATH, "/aborted")?;
    let list = app
        .run(Lane::Control, move |engine| engine.aborted(&name))
        .await?;
    Ok(Json(aborted_json(&list)).into_response())
}

/// Draws the graph of a dataflow: as text, or with `?format=dot` in DOT.
pub(crate) async fn explain(app: App, request: Request) -> ApiResult {
    let params = Params::of(request.uri())?;
    params.only(&["format"])?;
    let is_dot = match params.one("format")? {
        None | Some("text") => false,
        Some("dot") => true,
        Some(other) => {
            let sentence = format!(
                "The parameter \"format\" is text or dot, not \"{}\".",
                shorten(other)
            );
            return Err(ApiError::bad_request("bad_parameter", sentence));
        }
    };
    let name = name_of(request.uri().path(), Dataflows::PATH, "/explain")?;
    let drawn = app
        .run(Lane::Control, move |engine| match is_dot {
            true => engine.dataflow_dot(&name),
            false => engine.explain_dataflow(&name),
        })
        .await?;
    Ok(text_response(drawn))
}
