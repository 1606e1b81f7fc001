//! `/tokens`: an administrator lists, makes and revokes tokens of the running server.

use crate::auth::token_file::{TokenError, TokenInfo};
use crate::auth::tokens::Tokens;
use crate::config::Auth;
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_decode, shorten};
use crate::routes::streams::json_object;
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use somersault::Right;
use std::sync::Arc;

/// The members of a new token in JSON.
const MEMBERS: &[&str] = &["name", "rights", "expires_ms"];

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> ApiError {
        let sentence = error.to_string();
        match error {
            TokenError::Invalid(_) => ApiError::bad_request("bad_token", sentence),
            TokenError::NotFound(_) => ApiError::not_found(sentence),
            TokenError::Io { .. } | TokenError::Damaged { .. } => ApiError::internal(sentence),
        }
    }
}

/// Returns all tokens, without their secrets.
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let all = change(&app, |tokens| Ok(tokens.file().list()?)).await?;
    let list: Vec<Value> = all.iter().map(TokenInfo::to_json).collect();
    Ok(no_store(StatusCode::OK, json!({ "tokens": list })))
}

/// Makes a token. The answer is the only one that has its text.
pub(crate) async fn create(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    Params::of(&head.uri)?.only(&[])?;
    let held = app.bodies.read(&head.headers, body).await?;
    let (info, text) = change(&app, move |tokens| {
        let object = json_object(held.text()?, MEMBERS)?;
        let name = object.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| bad_member("name", "a text"))?;
        let rights = object.get("rights").and_then(Value::as_array);
        let rights = rights.ok_or_else(|| bad_member("rights", "a list of texts"))?;
        let rights = rights.iter().map(right).collect::<ApiResult<Vec<_>>>()?;
        let expires = match object.get("expires_ms") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_u64().ok_or_else(|| {
                bad_member("expires_ms", "a whole number of milliseconds since 1970")
            })?),
        };
        Ok(tokens.file().create(name, &rights, expires)?)
    })
    .await?;
    tracing::info!(
        by = app.principal.name(),
        token = info.name,
        "a token was made"
    );
    let mut json = info.to_json();
    json["token"] = text.into();
    Ok(no_store(StatusCode::CREATED, json))
}

/// Revokes the token of an id or a name.
pub(crate) async fn revoke(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let path = request.uri().path();
    let which = percent_decode(path.strip_prefix("/tokens/").unwrap_or_default(), false)?;
    let gone = change(&app, move |tokens| Ok(tokens.file().revoke(&which)?)).await?;
    tracing::info!(
        by = app.principal.name(),
        token = gone.name,
        "a token was revoked"
    );
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Works on the tokens of the server, which then holds to what has changed.
async fn change<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Tokens) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let Auth::Tokens(tokens) = &app.config.auth else {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "no_tokens",
            "This server keeps no tokens of its own. Start it with --auth tokens.",
        ));
    };
    let tokens = Arc::clone(tokens);
    let work = move || {
        let outcome = work(&tokens);
        tokens.refresh();
        outcome
    };
    app.gate.run(Lane::Control, work).await?
}

fn right(value: &Value) -> ApiResult<Right> {
    let text = value
        .as_str()
        .ok_or_else(|| bad_member("rights", "a list of texts"))?;
    text.parse().map_err(|said: String| {
        ApiError::bad_request("bad_token", format!("The right {}.", shorten(&said)))
    })
}

fn bad_member(member: &str, expected: &str) -> ApiError {
    ApiError::bad_request("bad_json", format!("\"{member}\" must be {expected}."))
}

fn no_store(status: StatusCode, json: Value) -> Response {
    let mut response = (status, Json(json)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
