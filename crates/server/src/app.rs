//! What all handlers share, the table of addresses, and what happens around every request.

use crate::body::Budget;
use crate::config::ServerConfig;
use crate::error::ApiError;
use crate::gate::Gate;
use axum::Router;
use axum::routing::get;
use somersault::Engine;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::watch;

/// The state of one server; clones are handles to it.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// See [`App`].
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) config: ServerConfig,
    pub(crate) gate: Gate,
    pub(crate) budget: Budget,
    /// Turns true when the server is asked to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub(crate) fn new(
        engine: Engine,
        config: ServerConfig,
        stopping: watch::Receiver<bool>,
    ) -> App {
        let gate = Gate::new(&config);
        let budget = Budget::new(config.body_budget);
        App(Arc::new(Shared {
            engine,
            config,
            gate,
            budget,
            stopping,
        }))
    }

    /// Completes when the server is asked to stop.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // The borrow of the value must end here, before anyone awaits further.
        let _ = stopping.wait_for(|stop| *stop).await.map(|stop| *stop);
    }
}

/// Every address.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/", get(|| async { "Somersault\n" }))
        .fallback(|| async { ApiError::not_found("There is nothing at this address.") })
        .with_state(app)
}
