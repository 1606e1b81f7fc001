//! Durable subscriptions over HTTP: created, shown, read, acknowledged and deleted.
//!
//! The one thing to know before changing it: a client reads the event stream of `events` or a
//! document of [`answers`], always from the first answer that is not acknowledged. The engine keeps
//! the place, and an acknowledgement moves it.

mod answers;

pub(crate) use answers::answers;

use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::text::{Params, percent_encode, shorten};
use crate::routes::declarations::{command, name_of, named, new_name};
use crate::routes::events;
use crate::routes::streams::json_object;
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use somersault::{DurableInfo, DurableOptions, FiringId, WhenFull};
use std::str::FromStr;
use std::sync::PoisonError;
use std::time::Duration;

const QUERIES: &str = "/queries/";
/// The path between the two names.
const BETWEEN: &str = "/subscriptions/";
/// The members of the terms in JSON.
const TERMS: &[&str] = &[
    "from",
    "answers",
    "bytes",
    "deadline_ms",
    "empties",
    "when_full",
];

pub(crate) fn subscription_json(info: &DurableInfo) -> Value {
    let id = |id: Option<FiringId>| id.map(|id| id.to_string());
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let href = format!(
        "{QUERIES}{}{BETWEEN}{}",
        percent_encode(&info.query),
        percent_encode(&info.name)
    );
    json!({
        "query": info.query,
        "uid": info.uid,
        "name": info.name,
        "results": format!("{href}/results"),
        "ack": format!("{href}/ack"),
        "href": href,
        "answers": info.options.answers,
        "bytes": info.options.bytes,
        "deadline_ms": info.options.deadline.map(millis),
        "empties": info.options.empties,
        "when_full": info.options.when_full.as_str(),
        "acknowledged": id(info.acknowledged),
        "waiting": info.waiting,
        "waiting_bytes": info.waiting_bytes,
        "handed": info.handed,
        "oldest": id(info.oldest),
        "oldest_age_ms": info.oldest_age.map(millis),
        "newest": id(info.newest),
        "acknowledged_total": info.acknowledged_total,
        "acknowledged_age_ms": info.acknowledged_age.map(millis),
        "repeats": info.repeats,
        "missed": info.missed,
        "ended": info.ended,
    })
}

/// Returns the query's name and the subscription's.
fn names(uri: &Uri, suffix: &str) -> ApiResult<(String, String)> {
    let path = uri.path();
    let (query, name) = path.split_once(BETWEEN).unwrap_or((path, ""));
    Ok((name_of(query, QUERIES, "")?, name_of(name, "", suffix)?))
}

/// Returns the durable subscriptions to a query.
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    let query = named(request.uri(), QUERIES, "/subscriptions")?;
    let all = app
        .run(Lane::Control, move |engine| {
            engine.durable_subscriptions(&query)
        })
        .await?;
    let list: Vec<Value> = all.iter().map(subscription_json).collect();
    Ok(Json(json!({ "subscriptions": list })).into_response())
}

pub(crate) async fn show(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let (query, name) = names(request.uri(), "")?;
    let info = app
        .run(Lane::Control, move |engine| {
            engine.durable_subscription(&query, &name)
        })
        .await?;
    Ok(Json(subscription_json(&info)).into_response())
}

/// Creates one. Returns 201, or 200 if it was there with the same terms.
pub(crate) async fn create(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    Params::of(&head.uri)?.only(&[])?;
    let (query, name) = names(&head.uri, "")?;
    let name = new_name(name)?;
    let held = app.bodies.read(&head.headers, body).await?;
    let shared = app.clone();
    let (is_new, info) = app
        .run(Lane::Control, move |engine| {
            let options = options(held.text()?)?;
            let turn = shared.declarations.lock();
            let _turn = turn.unwrap_or_else(PoisonError::into_inner);
            let is_new = engine.subscribe_durably(&query, &name, &options)?;
            let info = engine.durable_subscription(&query, &name)?;
            Ok::<_, ApiError>((is_new, info))
        })
        .await?;
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(subscription_json(&info))).into_response())
}

pub(crate) async fn delete(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let (query, name) = names(request.uri(), "")?;
    command(&app, move |engine| engine.unsubscribe(&query, &name)).await
}

/// `POST …/ack` with `{"id": …}`: all answers up to this one are not sent again.
pub(crate) async fn acknowledge(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    Params::of(&head.uri)?.only(&[])?;
    let (query, name) = names(&head.uri, "/ack")?;
    let held = app.bodies.read(&head.headers, body).await?;
    let info = app
        .run(Lane::Control, move |engine| {
            let object = json_object(held.text()?, &["id"])?;
            let id = firing_id(object.get("id"), "id")?;
            engine.acknowledge(&query, &name, id)?;
            Ok::<_, ApiError>(engine.durable_subscription(&query, &name)?)
        })
        .await?;
    Ok(Json(subscription_json(&info)).into_response())
}

/// `GET …/results`: the answers that are not acknowledged, then the live ones, as Server-Sent
/// Events.
pub(crate) async fn results(app: App, request: Request) -> ApiResult {
    let (head, _body) = request.into_parts();
    Params::of(&head.uri)?.only(&[])?;
    let (query, name) = names(&head.uri, "/results")?;
    events::check_accepts(&head.headers)?;
    let place = events::place(&app)?;
    let of = query.clone();
    let reader = app
        .run(Lane::Control, move |engine| engine.read_durably(&of, &name))
        .await?;
    Ok(events::durable(app, query, reader, place))
}

/// Reads the terms of a subscription; an empty body is the default.
fn options(text: &str) -> ApiResult<DurableOptions> {
    let mut options = DurableOptions::default();
    if text.trim().is_empty() {
        return Ok(options);
    }
    let object = json_object(text, TERMS)?;
    if let Some(start) = object.get("from") {
        options.start = parsed(Some(start), "from", "\"now\", \"kept\", or ")?;
    }
    if let Some(answers) = number(&object, "answers")? {
        options.answers = answers;
    }
    if let Some(bytes) = number(&object, "bytes")? {
        options.bytes = bytes;
    }
    options.deadline = number(&object, "deadline_ms")?.map(Duration::from_millis);
    options.empties = match object.get("empties") {
        None => options.empties,
        Some(Value::Bool(empties)) => *empties,
        Some(_) => return Err(bad_member("empties", "true or false")),
    };
    if let Some(term) = object.get("when_full") {
        let known = term.as_str().and_then(WhenFull::of_text);
        options.when_full = known.ok_or_else(|| bad_member("when_full", "\"end\" or \"skip\""))?;
    }
    Ok(options)
}

fn number(object: &Map<String, Value>, member: &str) -> ApiResult<Option<u64>> {
    match object.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => (value.as_u64().filter(|number| *number > 0).map(Some))
            .ok_or_else(|| bad_member(member, "a whole number above 0")),
    }
}

fn firing_id(value: Option<&Value>, member: &str) -> ApiResult<FiringId> {
    parsed(value, member, "")
}

/// Reads the id of an event, or one of the `others` that the type knows.
fn parsed<T: FromStr>(value: Option<&Value>, member: &str, others: &str) -> ApiResult<T> {
    let text = value.and_then(Value::as_str);
    let read = text.and_then(|text| text.trim().parse().ok());
    read.ok_or_else(|| {
        let given = value.map(|value| format!(", not {}", shorten(&value.to_string())));
        let given = given.unwrap_or_default();
        let expected =
            format!("{others}the id of an event as text, such as \"7:1700000001000\"{given}");
        bad_member(member, &expected)
    })
}

fn bad_member(member: &str, expected: &str) -> ApiError {
    ApiError::bad_request("bad_json", format!("\"{member}\" must be {expected}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::DurableStart;

    #[test]
    fn what_was_given_for_an_id_is_said() {
        for (given, said) in [
            (
                Some(Value::from(1_700_000_001_000_u64)),
                ", not 1700000001000.",
            ),
            (Some(Value::from("x")), ", not \"x\"."),
            (Some(Value::Null), ", not null."),
            (None, "\"7:1700000001000\"."),
        ] {
            let refused = firing_id(given.as_ref(), "id").expect_err("no id");
            let sentence = format!("{refused:?}");
            let said = said.replace('"', "\\\"");
            assert!(sentence.contains(&said), "{sentence}");
        }
        let id = Value::from("7:1700000001000");
        assert!(firing_id(Some(&id), "id").is_ok());
    }

    #[test]
    fn terms_are_read_strictly() {
        assert_eq!(options("").ok(), Some(DurableOptions::default()));
        let given = options(
            r#"{"from": "kept", "answers": 7, "deadline_ms": 20, "empties": true, "when_full": "skip"}"#,
        );
        let expected = DurableOptions {
            start: DurableStart::Kept,
            answers: 7,
            deadline: Some(Duration::from_millis(20)),
            empties: true,
            when_full: WhenFull::SkipOldest,
            ..DurableOptions::default()
        };
        assert_eq!(given.ok(), Some(expected));
        for bad in [
            r#"{"from": "then"}"#,
            r#"{"from": 7}"#,
            r#"{"answers": 0}"#,
            r#"{"answers": "many"}"#,
            r#"{"empties": 1}"#,
            r#"{"when_full": "stop"}"#,
            r#"{"limit": 3}"#,
            "[]",
        ] {
            let status = options(bad).map_err(|error| error.status().as_u16());
            assert_eq!(status, Err(400), "{bad}");
        }
    }

    #[test]
    fn both_names_are_in_the_path() {
        let names = |path: &'static str, suffix| {
            names(&Uri::from_static(path), suffix).map_err(|error| error.status().as_u16())
        };
        let found = names(
            "/queries/a%2Fb/subscriptions/c%2Fsubscriptions%2Fd/ack",
            "/ack",
        );
        assert_eq!(
            found,
            Ok(("a/b".to_owned(), "c/subscriptions/d".to_owned()))
        );
        assert_eq!(names("/queries/a/subscriptions/%20", ""), Err(400));
    }
}
