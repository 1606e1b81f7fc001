//! Streams over HTTP: `declarations` implemented for them, and moving their time. Pushing is in
//! `push`.

use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_encode};
use crate::routes::declarations::{Declared, named};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use somersault::{Engine, EngineError, EventTime, Sn, SourceInfo, StreamInfo};

/// At most this many sources of a stream are shown.
const SHOWN_SOURCES: usize = 1_000;

fn stream_json(info: &StreamInfo) -> Value {
    json!({
        "iri": info.iri,
        "href": format!("/streams/{}", percent_encode(&info.iri)),
        "text": info.text,
        "derived_by": info.derived_by,
        "batch_ms": info.batch_ms,
        "complete_through_ms": info.watermark,
        "stable_time_ms": info.stable_time,
        "lag_ms": info.lag_ms,
        "ahead_of_clock_ms": info.ahead_of_clock_ms,
        "tuples": info.tuples,
        "late": info.late,
        "amended": info.amended,
        "batches": info.batches,
        "memory_bytes": info.memory_bytes,
        "budget_bytes": info.budget_bytes,
        "idle_ms": info.idle.map(|idle| u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)),
    })
}

/// Streams as declarations under a name.
pub(crate) struct Streams;

impl Declared for Streams {
    type Info = (StreamInfo, Vec<SourceInfo>);
    const PATH: &str = "/streams/";

    fn one(engine: &Engine, name: &str) -> Result<Self::Info, EngineError> {
        Ok((engine.stream(name)?, engine.sources(name)?))
    }

    fn declare(engine: &Engine, name: &str, text: &str) -> Result<Self::Info, EngineError> {
        Ok((
            engine.create_stream(Some(name), text)?,
            engine.sources(name)?,
        ))
    }

    fn drop(engine: &Engine, name: &str) -> Result<(), EngineError> {
        engine.drop_stream(name)
    }

    fn json((info, sources): &Self::Info) -> Value {
        let mut stream = stream_json(info);
        stream["sources"] = sources
            .iter()
            .take(SHOWN_SOURCES)
            .map(source_json)
            .collect();
        stream["sources_left_off"] = sources.len().saturating_sub(SHOWN_SOURCES).into();
        stream
    }
}

fn source_json(source: &SourceInfo) -> Value {
    json!({
        "source": source.name,
        "taken": source.taken,
        "durable": source.durable,
        "checkpointed": source.checkpointed,
    })
}

/// Returns all streams.
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let engine = app.engine.clone();
    let all = (app.gate)
        .run(Lane::Control, move || engine.streams())
        .await?;
    let list: Vec<Value> = all.iter().map(stream_json).collect();
    Ok(Json(json!({ "streams": list })).into_response())
}

/// `POST /streams/{name}/advance` with `{"to_ms": …}`: everything earlier has been sent.
pub(crate) async fn advance_one(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let name = named(&head.uri, Streams::PATH, "/advance")?;
    let held = app.bodies.read(&head.headers, body).await?;
    advance(&app, move |engine| {
        let object = json_object(held.text()?, &["to_ms"])?;
        let to_ms = millis(object.get("to_ms"), "to_ms")?;
        Ok(engine.advance([(name, EventTime(to_ms))])?)
    })
    .await
}

/// `POST /streams/{name}/reset-time`: the stream starts again, without a time.
pub(crate) async fn reset(app: App, request: Request) -> ApiResult {
    let name = named(request.uri(), Streams::PATH, "/reset-time")?;
    let dropped = app
        .run(Lane::Write, move |engine| engine.reset_stream(&name))
        .await?;
    Ok(Json(json!({ "dropped": dropped })).into_response())
}

/// `POST /advance` with `{"streams": {IRI: …, …}}` or, for all streams, `{"to_ms": …}`. Advances
/// several streams in one log record, hence in one snapshot.
pub(crate) async fn advance_several(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    Params::of(&head.uri)?.only(&[])?;
    let held = app.bodies.read(&head.headers, body).await?;
    advance(&app, move |engine| {
        let object = json_object(held.text()?, &["to_ms", "streams"])?;
        match (object.get("streams"), object.get("to_ms")) {
            (Some(Value::Object(streams)), None) => {
                let to = streams
                    .iter()
                    .map(|(iri, to)| Ok((iri.clone(), EventTime(millis(Some(to), iri)?))))
                    .collect::<ApiResult<Vec<_>>>()?;
                Ok(engine.advance(to)?)
            }
            (None, Some(to)) => {
                let to_ms = millis(Some(to), "to_ms")?;
                Ok(advance_all(engine, EventTime(to_ms))?)
            }
            _ => Err(ApiError::bad_request(
                "bad_json",
                "The body is {\"streams\": {\"IRI\": milliseconds, …}} or, for all streams, {\"to_ms\": milliseconds}.",
            )),
        }
    })
    .await
}

/// Advances all streams. No client named them, so if one is dropped in the meantime, the others are
/// collected and advanced again.
fn advance_all(engine: &Engine, to: EventTime) -> Result<Sn, EngineError> {
    loop {
        // The time of a derived or interior stream follows from the others.
        let mut streams = engine.streams();
        streams.retain(|stream| stream.derived_by.is_none() && !stream.is_interior);
        match engine.advance(streams.iter().map(|stream| (&stream.iri, to))) {
            Err(EngineError::NotFound(_)) => {}
            advanced => return advanced,
        }
    }
}

async fn advance(
    app: &App,
    work: impl FnOnce(&Engine) -> ApiResult<Sn> + Send + 'static,
) -> ApiResult {
    let sn = app.run(Lane::Write, work).await?;
    Ok(Json(json!({ "sn": sn })).into_response())
}

/// Parses a JSON object that has no members other than those in `known`.
pub(crate) fn json_object(text: &str, known: &[&str]) -> ApiResult<Map<String, Value>> {
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
                crate::http::text::shorten(key),
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
                crate::http::text::shorten(member)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
