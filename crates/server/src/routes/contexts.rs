//! `/contexts`: the JSON-LD contexts that are registered here, because the server fetches none.

use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::http::negotiate::JSON_LD;
use crate::http::nesting;
use crate::http::text::{Params, percent_encode};
use crate::routes::declarations::{in_turn, named};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault::ContextInfo;

const PATH: &str = "/contexts/";

fn context_json(info: &ContextInfo) -> Value {
    json!({
        "url": info.url,
        "href": format!("{PATH}{}", percent_encode(&info.url)),
        "bytes": info.bytes,
    })
}

/// Lists the contexts.
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let list: Vec<Value> = app.engine.contexts().iter().map(context_json).collect();
    Ok(Json(json!({ "contexts": list })).into_response())
}

/// Returns a context as it was registered.
pub(crate) async fn show(app: App, request: Request) -> ApiResult {
    let url = named(request.uri(), PATH, "")?;
    let text = app.engine.context(&url)?;
    let headers = [(header::CONTENT_TYPE, "application/ld+json")];
    Ok((headers, text.to_string()).into_response())
}

/// Registers a context. Returns 201, or 200 if it takes the place of another one.
pub(crate) async fn put(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let info = in_turn(app, request, PATH, |engine, url, text| {
        // A context is guarded as a document with it would be.
        if let Err(refused) = nesting::check(text.as_bytes(), JSON_LD) {
            return Ok(Err(refused));
        }
        let is_new = engine.put_context(url, text)?;
        let (url, bytes) = (url.to_owned(), text.len());
        Ok(Ok((is_new, ContextInfo { url, bytes })))
    });
    let (is_new, info) = info.await??;
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(context_json(&info))).into_response())
}

/// Takes a context away.
pub(crate) async fn delete(app: App, request: Request) -> ApiResult {
    let url = named(request.uri(), PATH, "")?;
    app.run(Lane::Control, move |engine| engine.drop_context(&url))
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
