//! Streams over HTTP: declaring, listing, dropping them, and moving their time. Pushing is in `push`.

use crate::app::App;
use crate::body;
use crate::error::{ApiError, ApiResult};
use crate::gate::Lane;
use crate::text::{Params, percent_decode, percent_encode};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use somersault::StreamInfo;

/// The name between a prefix and a suffix of the path, decoded. Read from the raw path, as a name may
/// hold an encoded `/`.
///
/// # Errors
/// 400 where it does not decode, is empty or longer than 2,048 bytes, or holds control characters.
pub(crate) fn name_of(path: &str, prefix: &str, suffix: &str) -> ApiResult<String> {
    let raw = path
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_suffix(suffix))
        .unwrap_or_default();
    let name = percent_decode(raw, false)?;
    if name.trim().is_empty() || name.len() > 2048 || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request(
            "bad_name",
            "The name in the URL must have 1 to 2048 bytes, not only blanks and no control characters. A name that is an IRI is percent-encoded, / as %2F.",
        ));
    }
    Ok(name)
}

fn stream_json(info: &StreamInfo) -> Value {
    json!({
        "iri": info.iri,
        "href": format!("/streams/{}", percent_encode(&info.iri)),
        "text": info.text,
        "batch_ms": info.batch_ms,
        "complete_through_ms": info.complete_through_ms,
        "stable_time_ms": info.stable_time_ms,
        "lag_ms": info.lag_ms,
        "tuples": info.tuples,
        "late": info.late,
        "batches": info.batches,
        "memory_bytes": info.memory_bytes,
        "budget_bytes": info.budget_bytes,
        "idle_ms": info.idle.map(|idle| u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)),
    })
}

pub(crate) async fn list(State(app): State<App>, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let engine = app.engine.clone();
    let streams = app
        .gate
        .run(Lane::Control, move || engine.streams())
        .await?;
    let streams: Vec<Value> = streams.iter().map(stream_json).collect();
    Ok(Json(json!({ "streams": streams })).into_response())
}

pub(crate) async fn show(State(app): State<App>, request: Request) -> ApiResult {
    let name = name_of(request.uri().path(), "/streams/", "")?;
    let engine = app.engine.clone();
    let info = app
        .gate
        .run(Lane::Control, move || engine.stream(&name))
        .await??;
    Ok(Json(stream_json(&info)).into_response())
}

/// Declares a stream: 201, or 200 where the same text declared it before.
pub(crate) async fn create(State(app): State<App>, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let name = name_of(head.uri.path(), "/streams/", "")?;
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
            let existed = shared.engine.stream(&name).is_ok();
            shared
                .engine
                .create_stream(Some(&name), &text)
                .map(|info| (existed, info))
        })
        .await??;
    Ok(declared(existed, stream_json(&info)))
}

pub(crate) async fn drop_stream(State(app): State<App>, request: Request) -> ApiResult {
    let name = name_of(request.uri().path(), "/streams/", "")?;
    let engine = app.engine.clone();
    app.gate
        .run(Lane::Control, move || engine.drop_stream(&name))
        .await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /streams/{name}/advance` with `{"to_ms": …}`: everything earlier has been sent.
pub(crate) async fn advance_one(State(app): State<App>, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let name = name_of(head.uri.path(), "/streams/", "/advance")?;
    let held = body::read(&app, &head.headers, body).await?;
    let object = json_object(held.text()?, &["to_ms"])?;
    let to_ms = millis(object.get("to_ms"), "to_ms")?;
    advance(&app, vec![(name, to_ms)]).await
}

/// `POST /advance` with `{"streams": {IRI: …, …}}` or, for all of them, `{"to_ms": …}`: several streams in
/// one record, hence in one snapshot.
pub(crate) async fn advance_several(State(app): State<App>, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let held = body::read(&app, &head.headers, body).await?;
    let object = json_object(held.text()?, &["to_ms", "streams"])?;
    let to = match (object.get("streams"), object.get("to_ms")) {
        (Some(Value::Object(streams)), None) => streams
            .iter()
            .map(|(iri, to)| Ok((iri.clone(), millis(Some(to), iri)?)))
            .collect::<ApiResult<Vec<_>>>()?,
        (None, Some(to)) => {
            let to_ms = millis(Some(to), "to_ms")?;
            let engine = app.engine.clone();
            let streams = app
                .gate
                .run(Lane::Control, move || engine.streams())
                .await?;
            streams
                .into_iter()
                .map(|stream| (stream.iri, to_ms))
                .collect()
        }
        _ => {
            return Err(ApiError::bad_request(
                "bad_json",
                "The body is {\"streams\": {\"IRI\": milliseconds, …}} or, for all streams, {\"to_ms\": milliseconds}.",
            ));
        }
    };
    advance(&app, to).await
}

async fn advance(app: &App, to: Vec<(String, i64)>) -> ApiResult {
    let engine = app.engine.clone();
    let sn = app
        .gate
        .run(Lane::Write, move || engine.advance(&to))
        .await??;
    Ok(Json(json!({ "sn": sn })).into_response())
}

/// A JSON object that has no other members than these.
fn json_object(text: &str, known: &[&str]) -> ApiResult<Map<String, Value>> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        ApiError::bad_request("bad_json", format!("The body is not JSON: {error}."))
            .at(error.line() as u64, error.column() as u64)
    })?;
    let Value::Object(object) = value else {
        return Err(ApiError::bad_request(
            "bad_json",
            format!(
                "The body must be a JSON object with {}.",
                known.join(" or ")
            ),
        ));
    };
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(object),
        Some(key) => Err(ApiError::bad_request(
            "bad_json",
            format!(
                "The body has a member \"{}\"; known are {}.",
                crate::text::shorten(key),
                known.join(", ")
            ),
        )),
    }
}

fn millis(value: Option<&Value>, member: &str) -> ApiResult<i64> {
    value.and_then(Value::as_i64).ok_or_else(|| {
        ApiError::bad_request(
            "bad_json",
            format!(
                "\"{}\" must be a whole number of milliseconds since 1970.",
                crate::text::shorten(member)
            ),
        )
    })
}

/// 201 or 200 with a body, for declarations.
pub(crate) fn declared(existed: bool, body: Value) -> Response {
    let status = if existed {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    (status, Json(body)).into_response()
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

    #[test]
    fn json_bodies_are_exact() {
        assert!(json_object("{\"to_ms\": 1}", &["to_ms"]).is_ok());
        for bad in ["", "[]", "{\"to\": 1}", "{\"to_ms\": 1, \"x\": 2}", "{"] {
            assert_eq!(
                json_object(bad, &["to_ms"])
                    .map_err(|error| error.status().as_u16())
                    .map(|_| ()),
                Err(400),
                "{bad}"
            );
        }
        for bad in [json!(1.5), json!("1"), json!(null), json!(u64::MAX)] {
            assert!(millis(Some(&bad), "to_ms").is_err());
        }
    }
}
