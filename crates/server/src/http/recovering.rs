//! Answers requests while an engine is being opened: `/health` reports the progress, `/livez` says
//! that the process works, and every other address answers 503.
//!
//! The one thing to know: there is no engine yet, so nothing here knows any data. Every connection
//! is closed after one answer, so that the client's next one reaches the real server.

use crate::http::error::ApiError;
use crate::http::probe;
use crate::tls::{Tls, Wire};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use somersault::{OpenPhase, OpenProgress};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Seconds after which a client should ask again.
const PAUSE_S: u32 = 5;
/// Time limit for a request's head, and for the answers under way when the opening ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are served at one time; further ones wait to be accepted.
const CONNECTIONS: usize = 256;

/// Answers on `listener` until `opening` completes, and returns its output. `/health` says
/// `recovering` and how much is done, `/livez` answers 200, and all other requests are refused with
/// 503. With `tls` it speaks
/// HTTPS, as the server will.
pub async fn serve_while_opening<T>(
    listener: &TcpListener,
    tls: Option<Arc<Tls>>,
    progress: Arc<OpenProgress>,
    opening: impl Future<Output = T>,
) -> T {
    let router = Router::new()
        .route("/health", get(health))
        .route("/livez", get(probe::live))
        .route("/ready", get(not_ready))
        .fallback(not_yet)
        .with_state(progress);
    let mut opening = pin!(opening);
    let mut connections = JoinSet::new();
    let opened = loop {
        tokio::select! {
            opened = &mut opening => break opened,
            Some(_ended) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((socket, _peer)) => {
                    connections.spawn(connection(socket, tls.clone(), router.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    };
    let drained = async { while connections.join_next().await.is_some() {} };
    // A client that does not read its answer is cut off.
    let _ = tokio::time::timeout(PATIENCE, drained).await;
    opened
}

async fn connection(socket: TcpStream, tls: Option<Arc<Tls>>, router: Router) {
    let begun = Wire::begin(tls.as_deref(), socket, |socket| socket);
    let wire = match tokio::time::timeout(PATIENCE, begun).await {
        Ok(Ok(wire)) => wire,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection could not begin"),
        Err(_elapsed) => return tracing::debug!("the handshake of a connection took too long"),
    };
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false);
    let served = http.serve_connection(TokioIo::new(wire), TowerToHyperService::new(router));
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn sentence(progress: &OpenProgress) -> String {
    let what = match progress.phase() {
        OpenPhase::Checkpoint => "the newest checkpoint",
        OpenPhase::Begun | OpenPhase::Log => "the log",
    };
    format!(
        "The server is recovering its data: {:.0} % of {what} is read.",
        progress.fraction() * 100.0
    )
}

/// The word of `/health` for what is read.
fn word(phase: OpenPhase) -> &'static str {
    match phase {
        OpenPhase::Begun => "begun",
        OpenPhase::Checkpoint => "checkpoint",
        OpenPhase::Log => "log",
    }
}

async fn health(State(progress): State<Arc<OpenProgress>>) -> Response {
    let body = json!({
        "status": "recovering",
        "message": sentence(&progress),
        "phase": word(progress.phase()),
        "progress": progress.fraction(),
        "done_bytes": progress.done_bytes(),
        "total_bytes": progress.total_bytes(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from(PAUSE_S));
    response
}

async fn not_ready() -> Response {
    probe::answer(StatusCode::SERVICE_UNAVAILABLE, "recovering")
}

async fn not_yet(State(progress): State<Arc<OpenProgress>>) -> ApiError {
    let message = format!(
        "{} Send the request again when it is done; GET /health shows the progress.",
        sentence(&progress)
    );
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "recovering", message).retry_after(PAUSE_S)
}
