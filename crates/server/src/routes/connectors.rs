//! Sources and sinks over HTTP: listed, declared, dropped, paused and resumed.

use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_encode};
use crate::routes::declarations::{name_of, named, new_name};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault_connect::{
    ConnectError, ConnectorCommand, ConnectorSort, Connectors, Listed, ManageConnector, SinkStatus,
    SourceStatus,
};

impl From<ConnectError> for ApiError {
    fn from(error: ConnectError) -> ApiError {
        let sentence = error.to_string();
        match error {
            ConnectError::Engine(error) => error.into(),
            ConnectError::Invalid(_) => ApiError::bad_request("invalid", sentence),
            ConnectError::NotFound(_) => ApiError::not_found(sentence),
            ConnectError::Conflict(_) => ApiError::new(StatusCode::CONFLICT, "conflict", sentence),
            _ => ApiError::internal(sentence),
        }
    }
}

pub(crate) fn source_json(source: &Listed<SourceStatus>) -> Value {
    let status = &source.status;
    let refused = status.last_refused.as_ref();
    json!({
        "name": status.name,
        "href": format!("/sources/{}", percent_encode(&status.name)),
        "text": source.text,
        "stream": status.stream,
        "class": status.class.to_string(),
        "state": match (source.is_paused, status.is_open) {
            (true, _) => "paused",
            (false, true) => "running",
            (false, false) => "connecting",
        },
        "taken": status.counts.taken,
        "repeated": status.counts.repeated,
        "refused": status.counts.refused,
        "dead_letters": status.counts.dead_letters,
        "bytes": status.counts.bytes,
        "lag": status.lag,
        "last_refused": refused.map(|(partition, position, reason)| json!({
            "partition": partition,
            "position": position,
            "reason": reason,
        })),
        "failures": status.failures,
        "last_error": status.last_error,
        "trouble": status.trouble,
    })
}

pub(crate) fn sink_json(sink: &Listed<SinkStatus>) -> Value {
    let status = &sink.status;
    json!({
        "name": status.name,
        "text": sink.text,
        "query": status.query,
        "class": status.class.to_string(),
        "state": if sink.is_paused { "paused" } else { "running" },
        "delivered": status.delivered,
        "failures": status.failures,
        "last_error": status.last_error,
        "trouble": status.trouble,
    })
}

pub(crate) async fn list_sources(app: App, request: Request) -> ApiResult {
    list(&app, request.uri(), ConnectorSort::Source).await
}

pub(crate) async fn list_sinks(app: App, request: Request) -> ApiResult {
    list(&app, request.uri(), ConnectorSort::Sink).await
}

pub(crate) async fn show_source(app: App, request: Request) -> ApiResult {
    show(&app, request.uri(), ConnectorSort::Source).await
}

pub(crate) async fn show_sink(app: App, request: Request) -> ApiResult {
    show(&app, request.uri(), ConnectorSort::Sink).await
}

pub(crate) async fn create_source(app: App, request: Request) -> ApiResult {
    create(app, request, ConnectorSort::Source).await
}

pub(crate) async fn create_sink(app: App, request: Request) -> ApiResult {
    create(app, request, ConnectorSort::Sink).await
}

pub(crate) async fn drop_source(app: App, request: Request) -> ApiResult {
    manage(
        &app,
        request.uri(),
        ConnectorSort::Source,
        ConnectorCommand::Drop,
    )
    .await
}

pub(crate) async fn drop_sink(app: App, request: Request) -> ApiResult {
    manage(
        &app,
        request.uri(),
        ConnectorSort::Sink,
        ConnectorCommand::Drop,
    )
    .await
}

pub(crate) async fn pause_source(app: App, request: Request) -> ApiResult {
    manage(
        &app,
        request.uri(),
        ConnectorSort::Source,
        ConnectorCommand::Pause,
    )
    .await
}

pub(crate) async fn pause_sink(app: App, request: Request) -> ApiResult {
    manage(
        &app,
        request.uri(),
        ConnectorSort::Sink,
        ConnectorCommand::Pause,
    )
    .await
}

pub(crate) async fn resume_source(app: App, request: Request) -> ApiResult {
    manage(
        &app,
        request.uri(),
        ConnectorSort::Source,
        ConnectorCommand::Resume,
    )
    .await
}

pub(crate) async fn resume_sink(app: App, request: Request) -> ApiResult {
    manage(
        &app,
        request.uri(),
        ConnectorSort::Sink,
        ConnectorCommand::Resume,
    )
    .await
}

fn path(sort: ConnectorSort) -> &'static str {
    match sort {
        ConnectorSort::Source => "/sources/",
        ConnectorSort::Sink => "/sinks/",
    }
}

/// All of a sort, as JSON.
fn all(connectors: &Connectors, sort: ConnectorSort) -> Vec<Value> {
    match sort {
        ConnectorSort::Source => connectors.sources().iter().map(source_json).collect(),
        ConnectorSort::Sink => connectors.sinks().iter().map(sink_json).collect(),
    }
}

async fn list(app: &App, uri: &Uri, sort: ConnectorSort) -> ApiResult {
    Params::of(uri)?.only(&[])?;
    let member = format!("{}s", sort.as_str());
    Ok(Json(json!({ member: all(&app.connectors, sort) })).into_response())
}

async fn show(app: &App, uri: &Uri, sort: ConnectorSort) -> ApiResult {
    let name = named(uri, path(sort), "")?;
    Ok(Json(one(&app.connectors, sort, &name)?).into_response())
}

fn one(connectors: &Connectors, sort: ConnectorSort, name: &str) -> ApiResult<Value> {
    let found = all(connectors, sort)
        .into_iter()
        .find(|it| it["name"] == name);
    found.ok_or_else(|| {
        let sort = sort.as_str();
        ApiError::not_found(format!(
            "There is no {sort} of the name \"{name}\". GET /{sort}s lists them."
        ))
    })
}

/// Declares one. Returns 201, or 200 if one of this name was declared.
async fn create(app: App, request: Request, sort: ConnectorSort) -> ApiResult {
    let (head, body) = request.into_parts();
    Params::of(&head.uri)?.only(&[])?;
    let name = new_name(name_of(head.uri.path(), path(sort), "")?)?;
    let held = app.bodies.read_text(&head.headers, body, false).await?;
    let text = held.text()?.to_owned();
    let connectors = app.connectors.clone();
    let declare = move || -> ApiResult<(bool, Value)> {
        let is_new = connectors.declare(sort, &name, &text)?;
        Ok((is_new, one(&connectors, sort, &name)?))
    };
    let (is_new, json) = app.gate.run(Lane::Control, declare).await??;
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    tracing::info!(
        by = app.principal.name(),
        "a {} was declared",
        sort.as_str()
    );
    Ok((status, Json(json)).into_response())
}

async fn manage(app: &App, uri: &Uri, sort: ConnectorSort, command: ConnectorCommand) -> ApiResult {
    let suffix = match command {
        ConnectorCommand::Drop => "",
        ConnectorCommand::Pause => "/pause",
        ConnectorCommand::Resume => "/resume",
    };
    let what = ManageConnector {
        command,
        sort,
        name: named(uri, path(sort), suffix)?,
    };
    let connectors = app.connectors.clone();
    let work = move || connectors.manage(&what);
    app.gate.run(Lane::Control, work).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}
