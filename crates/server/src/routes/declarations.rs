//! Declarations under a name: streams and continuous queries. Showing, declaring and dropping are
//! the same for both.

use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_decode};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use serde_json::Value;
use somersault::{Engine, EngineError};
use std::sync::PoisonError;

/// A kind of thing that a text declares under a name.
pub(crate) trait Declared: 'static {
    /// The engine's information about one declaration.
    type Info: Send + 'static;
    /// The path before the name.
    const PATH: &str;

    fn one(engine: &Engine, name: &str) -> Result<Self::Info, EngineError>;
    fn declare(engine: &Engine, name: &str, text: &str) -> Result<Self::Info, EngineError>;
    fn drop(engine: &Engine, name: &str) -> Result<(), EngineError>;
    fn json(info: &Self::Info) -> Value;
}

pub(crate) async fn show<D: Declared>(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), D::PATH, "")?;
    let info = app
        .run(Lane::Control, move |engine| D::one(engine, &name))
        .await?;
    Ok(Json(D::json(&info)).into_response())
}

/// Declares one. Returns 201, or 200 if the same text was already declared under this name.
pub(crate) async fn declare<D: Declared>(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    declare_new::<D>(app, request).await
}

/// Declares one without checking the parameters.
pub(crate) async fn declare_new<D: Declared>(app: App, request: Request) -> ApiResult {
    let (existed, info) = in_turn(app, request, D::PATH, |engine, name, text| {
        let existed = D::one(engine, name).is_ok();
        D::declare(engine, name, text).map(|info| (existed, info))
    })
    .await?;
    let status = if existed {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((status, Json(D::json(&info))).into_response())
}

/// Runs `declare` with the name and the text of a request, one request at a time, so that of two
/// equal declarations exactly one is the first.
pub(crate) async fn in_turn<T: Send + 'static>(
    app: App,
    request: Request,
    path: &'static str,
    declare: impl FnOnce(&Engine, &str, &str) -> Result<T, EngineError> + Send + 'static,
) -> Result<T, ApiError> {
    let (head, body) = request.into_parts();
    let name = new_name(name_of(head.uri.path(), path, "")?)?;
    let held = app.bodies.read_text(&head.headers, body, false).await?;
    let text = held.text()?.to_owned();
    let shared = app.clone();
    let declared = (app.gate)
        .run(Lane::Control, move || {
            let turn = shared.declarations.lock();
            let _turn = turn.unwrap_or_else(PoisonError::into_inner);
            declare(&shared.engine, &name, &text)
        })
        .await??;
    Ok(declared)
}

pub(crate) async fn drop<D: Declared>(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), D::PATH, "")?;
    command(&app, move |engine| D::drop(engine, &name)).await
}

/// Runs work that has no answer; returns 204.
pub(crate) async fn command(
    app: &App,
    work: impl FnOnce(&Engine) -> Result<(), EngineError> + Send + 'static,
) -> ApiResult {
    app.run(Lane::Control, work).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Returns the decoded name between a prefix and a suffix of the path. It reads the raw path,
/// because a name may contain an encoded `/`.
///
/// # Errors
/// 400 if it does not decode, is empty or longer than 2,048 bytes, or contains control characters.
pub(crate) fn name_of(path: &str, prefix: &str, suffix: &str) -> ApiResult<String> {
    let raw = path
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_suffix(suffix))
        .unwrap_or_default();
    let name = percent_decode(raw, false)?;
    if name.trim().is_empty() || name.len() > 2048 || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request(
            "bad_name",
            "The name in the URL must have 1 to 2048 bytes, with no control characters, and not only blanks. A name that is an IRI is percent-encoded, / as %2F.",
        ));
    }
    Ok(name)
}

/// Returns the name if something new may have it.
///
/// # Errors
/// 400 for `.` and `..`: clients take them out of an address, also when they are percent-encoded.
pub(crate) fn new_name(name: String) -> ApiResult<String> {
    match name.as_str() {
        "." | ".." => Err(ApiError::bad_request(
            "bad_name",
            format!(
                "\"{name}\" is not a name over HTTP, because clients take it out of an address; choose another name."
            ),
        )),
        _ => Ok(name),
    }
}

/// Like [`name_of`], for an address that takes no parameters.
///
/// # Errors
/// Those of [`name_of`], and 400 if there are parameters.
pub(crate) fn named(uri: &Uri, prefix: &str, suffix: &str) -> ApiResult<String> {
    Params::of(uri)?.only(&[])?;
    name_of(uri.path(), prefix, suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_once_and_checked() {
        let name =
            |path: &str| name_of(path, "/streams/", "").map_err(|error| error.status().as_u16());
        assert_eq!(
            name("/streams/http%3A%2F%2Fe.org%2Fs"),
            Ok("http://e.org/s".to_owned())
        );
        assert_eq!(name("/streams/a%252Fb"), Ok("a%2Fb".to_owned()));
        assert_eq!(name("/streams/a+b"), Ok("a+b".to_owned()));
        for bad in [
            "/streams/",
            "/streams/%20",
            "/streams/a%0D%0Ab",
            "/streams/%ff",
            "/streams/%2",
            "/streams/%00",
        ] {
            assert_eq!(name(bad), Err(400), "{bad}");
        }
        assert_eq!(name(&format!("/streams/{}", "x".repeat(3000))), Err(400));
        assert_eq!(
            name_of("/streams/x/advance", "/streams/", "/advance").map_err(|_| ()),
            Ok("x".to_owned())
        );
    }
}
