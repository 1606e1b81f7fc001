//! `/metrics` in the Prometheus text format: the server's counts of its requests, then the engine's
//! counters.

use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::routes::exposition;
use crate::state::App;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

pub(crate) async fn metrics(State(app): State<App>) -> ApiResult {
    let engine = app.engine.clone();
    let snapshot = app
        .gate
        .run(Lane::Control, move || engine.metrics())
        .await?;
    let mut text = app.http.render();
    exposition::render(&snapshot, &mut text);
    let subscribed = app
        .config
        .subscribers
        .saturating_sub(app.subscribers.available_permits());
    subscribers(&app, subscribed, &mut text);
    Ok((
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response())
}

fn subscribers(app: &App, subscribed: usize, text: &mut String) {
    let gauges = [
        (
            "somersault_http_subscribers",
            "Open event streams.",
            subscribed as f64,
        ),
        (
            "somersault_http_subscribers_queued_bytes",
            "Approximate memory of the firings that wait for subscribers. A firing that several wait for counts once.",
            app.backlog.bytes() as f64,
        ),
        (
            "somersault_http_subscribers_written_bytes",
            "Bytes of the texts of events that subscribers have yet to take, or may ask for.",
            app.firings.written_bytes() as f64,
        ),
    ];
    for (name, help, value) in gauges {
        exposition::gauge(text, name, help, value);
    }
    exposition::counter(
        text,
        "somersault_http_subscribers_slow_total",
        "Event streams that ended because their clients read too slowly.",
        app.backlog.slow(),
    );
}
