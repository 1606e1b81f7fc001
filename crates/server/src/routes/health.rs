//! `/health`: the server's condition, in a word and a sentence.
//!
//! Before changing it: a status other than 200 takes the server out of a load balancer. So a sink
//! that delivers nothing, a source that brings nothing, a dataflow that an abort has stopped, or a
//! changed file of certificates, tokens or keys that cannot be used makes it *degraded*, with 200:
//! all else works.

use crate::config::Auth;
use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::routes::checkpoint::status_json;
use crate::routes::connectors::{sink_json, source_json};
use crate::routes::subscriptions::subscription_json;
use crate::state::App;
use crate::tls::Tls;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use somersault::{AbortInfo, HealthStatus, RightKind, StoppedInfo};

/// The number of durable subscriptions that are shown: those with the most waiting answers.
const SHOWN: usize = 100;

/// Returns 200 if all is well, and 503 with the reason if something is not; the server may still
/// answer queries then.
pub(crate) async fn health(app: App) -> ApiResult {
    let engine = app.engine.clone();
    let look = move || (engine.health(), engine.all_durable_subscriptions());
    let (health, subscriptions) = app.gate.run(Lane::Control, look).await?;
    let stopping = *app.stopping.borrow();
    let (sources, sinks) = (app.connectors.sources(), app.connectors.sinks());
    let of_sources = sources
        .iter()
        .filter_map(|source| source.status.trouble.clone());
    let of_sinks = sinks.iter().filter_map(|sink| sink.status.trouble.clone());
    let stopped = health.stopped_dataflows.iter().map(stopped_sentence);
    let absent = health.absent_procedures.iter().map(absent_sentence);
    let tls = app.config.tls.as_deref();
    let certificate = tls.and_then(Tls::trouble);
    let senders = app.config.auth.trouble();
    let trouble = of_sources
        .chain(of_sinks)
        .chain(certificate.clone())
        .chain(senders.clone())
        .chain(stopped)
        .chain(absent)
        .collect::<Vec<_>>()
        .join("; ");
    let (status, word) = match health.status {
        HealthStatus::Ok if stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        HealthStatus::Ok if !trouble.is_empty() => (StatusCode::OK, "degraded"),
        HealthStatus::Ok => (StatusCode::OK, "ok"),
        HealthStatus::ReadOnly => (StatusCode::SERVICE_UNAVAILABLE, "read_only"),
        HealthStatus::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let message = match word {
        "degraded" => format!("{}; {trouble}", health.message),
        _ => health.message,
    };
    let shown = subscriptions.iter().take(SHOWN);
    let full = json!({
        "status": word,
        "message": message,
        "stable_sn": health.stable_sn,
        "stored_statements": health.stored_statements,
        "inflight_bytes": health.inflight_bytes,
        "inflight_limit_bytes": health.inflight_limit_bytes,
        "checkpoints": health.checkpoints.as_ref().map(status_json),
        "sources": sources.iter().map(source_json).collect::<Vec<_>>(),
        "sinks": sinks.iter().map(sink_json).collect::<Vec<_>>(),
        "auth": match app.config.auth {
            Auth::Off => Value::Null,
            _ => json!({ "trouble": senders }),
        },
        "tls": tls.map(|_| json!({ "trouble": certificate })),
        "subscriptions": shown.map(subscription_json).collect::<Vec<_>>(),
        "stopped_dataflows": health.stopped_dataflows.iter().map(stopped_json).collect::<Vec<_>>(),
        "absent_procedures": health.absent_procedures,
        "version": env!("CARGO_PKG_VERSION"),
    });
    // The message names dataflows and sinks, and the rest shows how much of what there is.
    let body = match app.principal.access().allows(RightKind::Monitor, None) {
        true => full,
        false => json!({ "status": word, "version": env!("CARGO_PKG_VERSION") }),
    };
    let mut response = (status, Json(body)).into_response();
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn stopped_sentence(stopped: &StoppedInfo) -> String {
    let StoppedInfo {
        dataflow, abort, ..
    } = stopped;
    let (procedure, round, reason) = (&abort.procedure, abort.round, &abort.reason);
    format!(
        "dataflow {dataflow} has stopped: procedure {procedure} aborted round {round}: {reason}. RESUME DATAFLOW {dataflow} lets it go on"
    )
}

fn absent_sentence(procedure: &String) -> String {
    format!(
        "native procedure {procedure} has no body: its calls and rounds wait until the program that runs this engine registers it (Engine::procedure)"
    )
}

fn stopped_json(stopped: &StoppedInfo) -> Value {
    let mut json = abort_json(&stopped.abort);
    json["dataflow"] = json!(stopped.dataflow);
    json
}

/// A transaction that aborted.
pub(crate) fn abort_json(abort: &AbortInfo) -> Value {
    json!({
        "procedure": abort.procedure,
        "round": abort.round,
        "of_call": abort.is_of_call,
        "reason": abort.reason,
        "time_ms": abort.time,
    })
}
