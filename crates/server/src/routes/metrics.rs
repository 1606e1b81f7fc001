//! `/metrics` in the Prometheus text format: the server's counts of its requests, then the engine's
//! counters.

use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::routes::exposition::{self, Family, count};
use crate::state::App;
use axum::http::header;
use axum::response::IntoResponse;

#[rustfmt::skip]
const SUBSCRIBERS: &[Family<App>] = &[
    ("somersault_http_subscribers", "gauge", |app| count(subscribed(app)),
        "Open event streams."),
    ("somersault_http_subscribers_queued_bytes", "gauge", |app| count(app.backlog.bytes()),
        "Approximate memory of the firings that wait for subscribers. A firing that several wait for counts once."),
    ("somersault_http_subscribers_written_bytes", "gauge", |app| count(app.firings.written_bytes()),
        "Bytes of the texts of events that subscribers have yet to take, or may ask for."),
    ("somersault_http_subscribers_slow_total", "counter", |app| count(app.backlog.slow()),
        "Event streams that ended because their clients read too slowly."),
];

pub(crate) async fn metrics(app: App) -> ApiResult {
    let engine = app.engine.clone();
    let look = move || (engine.metrics(), engine.all_durable_subscriptions());
    let (snapshot, subscriptions) = app.gate.run(Lane::Control, look).await?;
    let mut text = app.http.render();
    exposition::render(&snapshot, &mut text);
    exposition::subscriptions(&subscriptions, &mut text);
    let sources = app.connectors.sources().into_iter();
    let sinks = app.connectors.sinks().into_iter();
    exposition::sources(&sources.map(|it| it.status).collect::<Vec<_>>(), &mut text);
    exposition::sinks(&sinks.map(|it| it.status).collect::<Vec<_>>(), &mut text);
    exposition::one(&mut text, SUBSCRIBERS, &app);
    Ok((
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response())
}

fn subscribed(app: &App) -> u64 {
    let free = app.subscribers.available_permits();
    app.config.subscribers.saturating_sub(free) as u64
}
