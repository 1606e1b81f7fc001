//! State that all handlers share: the engine, the configuration, and the counters and limits that
//! span all requests.
//!
//! The one thing to know before changing it: a handler takes an [`App`], whose handle of the engine
//! has the rights of the request's sender. The handle with all rights is private to this file.

use crate::auth::principal::Principal;
use crate::auth::tickets::Tickets;
use crate::config::{Auth, ServerConfig};
use crate::event_stream::texts::Firings;
use crate::http::body::Bodies;
use crate::http::credentials;
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::{Gate, Lane};
use crate::http::hosts::Hosts;
use crate::http::metrics::HttpMetrics;
use crate::http::quotas::Quotas;
use crate::http::reading::Reading;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use somersault::{Backlog, Engine};
use somersault_connect::Connectors;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Large answers that are sent at one time; each holds its columns in memory until it is sent.
const LARGE_ANSWERS: usize = 64;
/// Bodies of messages that are read at one time while they come; each has a thread.
const FEEDS: usize = 48;

/// The state of one server; clones are handles to it.
#[derive(Clone)]
pub(crate) struct Service(Arc<Shared>);

/// The state of one server as the sender of one request may use it.
#[derive(Clone)]
pub(crate) struct App {
    shared: Arc<Shared>,
    /// With the rights of the sender.
    pub(crate) engine: Engine,
    pub(crate) principal: Arc<Principal>,
}

/// The fields behind [`Service`] and [`App`].
pub(crate) struct Shared {
    /// With all rights.
    engine: Engine,
    /// The sender of requests without credentials.
    anonymous: Arc<Principal>,
    pub(crate) config: ServerConfig,
    pub(crate) tickets: Tickets,
    pub(crate) quotas: Quotas,
    pub(crate) gate: Gate,
    pub(crate) hosts: Hosts,
    pub(crate) bodies: Bodies,
    pub(crate) connectors: Connectors,
    pub(crate) http: HttpMetrics,
    /// Held while a stream is declared or a query is registered.
    pub(crate) declarations: Mutex<()>,
    /// Memory of the firings that wait for subscribers.
    pub(crate) backlog: Backlog,
    /// Texts of firings, shared by their subscribers.
    pub(crate) firings: Firings,
    /// Permits for event streams.
    pub(crate) subscribers: Arc<Semaphore>,
    /// Permits for answers that are written while they are sent.
    pub(crate) large_answers: Arc<Semaphore>,
    /// Permits for bodies that are read while they come.
    pub(crate) feeds: Arc<Semaphore>,
    /// Becomes true when the server is asked to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Deref for Service {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl FromRequestParts<Service> for App {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<App, ApiError> {
        let principal = parts.extensions.get::<Arc<Principal>>();
        let principal = principal.ok_or_else(|| ApiError::internal("the sender is not known"))?;
        Ok(App {
            shared: Arc::clone(&service.0),
            engine: service.engine.with_access(principal.access().clone()),
            principal: Arc::clone(principal),
        })
    }
}

impl Service {
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new(
        engine: Engine,
        config: ServerConfig,
        hosts: Hosts,
        stopping: watch::Receiver<bool>,
    ) -> io::Result<Service> {
        let subscribers = config.subscribers.min(Semaphore::MAX_PERMITS);
        let connectors = config.connectors.clone();
        let connectors = connectors.unwrap_or_else(|| Connectors::in_memory(&engine));
        let anonymous = match config.auth {
            Auth::Off => Principal::trusted(),
            _ => Principal::unknown(),
        };
        Ok(Service(Arc::new(Shared {
            engine,
            anonymous: Arc::new(anonymous),
            tickets: Tickets::new()?,
            quotas: Quotas::new(&config),
            gate: Gate::new(&config),
            hosts,
            bodies: Bodies::new(&config),
            connectors,
            http: HttpMetrics::new(),
            declarations: Mutex::new(()),
            backlog: Backlog::new(
                config.subscriber_backlog_bytes,
                config.subscribers_backlog_bytes,
            ),
            firings: Firings::new(),
            subscribers: Arc::new(Semaphore::new(subscribers)),
            large_answers: Arc::new(Semaphore::new(LARGE_ANSWERS)),
            feeds: Arc::new(Semaphore::new(FEEDS)),
            stopping,
            config,
        })))
    }

    /// Finds out who sends a request with these headers.
    ///
    /// # Errors
    /// 401 for credentials that are none, and for a token that is not valid.
    pub(crate) async fn sender(&self, headers: &HeaderMap) -> ApiResult<Arc<Principal>> {
        if !self.asks_for_credentials() {
            return Ok(Arc::clone(&self.anonymous));
        }
        let Some(token) = credentials::bearer(headers)? else {
            return Ok(Arc::clone(&self.anonymous));
        };
        match &self.config.auth {
            Auth::Off => Ok(Arc::clone(&self.anonymous)),
            Auth::Tokens(tokens) => {
                (tokens.holder(token).await).ok_or_else(credentials::invalid_token)
            }
            #[cfg(feature = "jwt")]
            Auth::Jwt(jwt) => {
                let holder = jwt.holder(token);
                holder.map_err(|refusal| credentials::refused_token(&refusal.to_string()))
            }
        }
    }

    /// Whether requests need credentials.
    pub(crate) fn asks_for_credentials(&self) -> bool {
        !matches!(self.config.auth, Auth::Off)
    }
}

impl App {
    /// Runs work on the engine in a lane.
    pub(crate) async fn run<T: Send + 'static, E: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce(&Engine) -> Result<T, E> + Send + 'static,
    ) -> ApiResult<T>
    where
        ApiError: From<E>,
    {
        let engine = self.engine.clone();
        Ok(self.gate.run(lane, move || work(&engine)).await??)
    }

    /// Runs work on the engine that reads a body and writes what is in it.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        is_long: bool,
        work: impl FnOnce(&Engine, &mut Reading) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let engine = self.engine.clone();
        let read = move |reading: &mut Reading| work(&engine, reading);
        self.gate.read(is_long, read).await
    }

    /// Takes a place among the large answers that are sent at one time.
    pub(crate) fn large_answer(&self) -> ApiResult<OwnedSemaphorePermit> {
        let places = Arc::clone(&self.large_answers);
        places.try_acquire_owned().map_err(|_| {
            ApiError::busy(
                format!(
                    "This server is sending {LARGE_ANSWERS} large answers already. Try again in a few seconds, or ask a query for less with LIMIT."
                ),
                5,
            )
        })
    }

    /// Takes a place among the bodies that are read while they come.
    pub(crate) fn feed_place(&self) -> ApiResult<OwnedSemaphorePermit> {
        Arc::clone(&self.feeds).try_acquire_owned().map_err(|_| {
            ApiError::busy(
                format!("This server is reading {FEEDS} bodies of messages already. Try again in a second."),
                1,
            )
        })
    }

    /// Returns the URL of a path of this server as the client sees it. Relative IRIs are resolved
    /// against it, and a graph that is named by its URL has this name.
    pub(crate) fn public_url(&self, headers: &HeaderMap, path: &str) -> String {
        if let Some(url) = &self.config.public_url {
            return format!("{}{path}", url.trim_end_matches('/'));
        }
        // The middleware has already refused a `Host` header that is not a host.
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let scheme = self.config.scheme();
        format!("{scheme}://{}{path}", host.unwrap_or("localhost"))
    }
}

impl Shared {
    /// Completes when the server is asked to stop.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // Drop the borrow of the value here, before the caller awaits anything else.
        let _ = stopping.wait_for(|stop| *stop).await.map(|stop| *stop);
    }
}
