//! What all handlers share, the table of addresses, and what happens around every request: faults are
//! caught, errors put into the form that the client reads, foreign web pages kept out, requests counted.

use crate::body::Budget;
use crate::config::ServerConfig;
use crate::connections::Reserved;
use crate::error::{self, ApiError};
use crate::firings::Firings;
use crate::gate::Gate;
use crate::hosts::{Hosts, Visitor};
use crate::metrics::HttpMetrics;
use crate::queries::Queries;
use crate::streams::Streams;
use crate::{
    batch, declarations, events, graph_store, health, index, metrics, openapi, protocol, push,
    queries, results, streams,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use futures_util::FutureExt as _;
use somersault::{Backlog, Engine};
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{Semaphore, watch};

/// The state of one server; clones are handles to it.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// See [`App`].
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) config: ServerConfig,
    pub(crate) gate: Gate,
    pub(crate) hosts: Hosts,
    pub(crate) budget: Budget,
    pub(crate) http: HttpMetrics,
    /// Held while a stream is declared or a query registered.
    pub(crate) declarations: Mutex<()>,
    /// The memory of firings that wait for subscribers.
    pub(crate) backlog: Backlog,
    /// The texts of firings for subscribers.
    pub(crate) firings: Firings,
    /// Places for event streams.
    pub(crate) subscribers: Arc<Semaphore>,
    /// Places for answers that are written while they are sent.
    pub(crate) large_answers: Arc<Semaphore>,
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
        hosts: Hosts,
        stopping: watch::Receiver<bool>,
    ) -> App {
        let subscribers = config.subscribers.min(Semaphore::MAX_PERMITS);
        App(Arc::new(Shared {
            engine,
            gate: Gate::new(&config),
            hosts,
            budget: Budget::new(config.body_budget),
            http: HttpMetrics::new(),
            declarations: Mutex::new(()),
            backlog: Backlog::new(
                config.subscriber_backlog_bytes,
                config.subscribers_backlog_bytes,
            ),
            firings: Firings::new(),
            subscribers: Arc::new(Semaphore::new(subscribers)),
            large_answers: results::large_answer_places(),
            stopping,
            config,
        }))
    }

    /// Completes when the server is asked to stop.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // The borrow of the value must end here, before anyone awaits further.
        let _ = stopping.wait_for(|stop| *stop).await.map(|stop| *stop);
    }

    /// The URL of a path of this server as the client sees it: what relative IRIs are resolved against,
    /// and what a graph that is named by its URL is called.
    pub(crate) fn public_url(&self, headers: &HeaderMap, path: &str) -> String {
        if let Some(url) = &self.config.public_url {
            return format!("{}{path}", url.trim_end_matches('/'));
        }
        // The middleware has refused what is no host.
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        format!("http://{}{path}", host.unwrap_or("localhost"))
    }
}

/// Every address with its methods. The OpenAPI description is checked against this table.
pub(crate) fn routes() -> Vec<(&'static str, &'static [&'static str], MethodRouter<App>)> {
    vec![
        ("/", &["GET"], get(index::index)),
        (
            "/query",
            &["GET", "POST"],
            get(protocol::query).post(protocol::query),
        ),
        ("/update", &["POST"], post(protocol::update)),
        (
            "/sparql",
            &["GET", "POST"],
            get(protocol::sparql).post(protocol::sparql),
        ),
        (
            "/sparql/",
            &["GET", "POST"],
            get(protocol::sparql).post(protocol::sparql),
        ),
        (
            "/explain",
            &["GET", "POST"],
            get(protocol::explain).post(protocol::explain),
        ),
        ("/store", GRAPH_METHODS, graph_methods()),
        ("/store/{*path}", GRAPH_METHODS, graph_methods()),
        ("/streams", &["GET"], get(streams::list)),
        (
            "/streams/{name}",
            &["GET", "PUT", "POST", "DELETE"],
            get(declarations::show::<Streams>)
                .put(declarations::declare::<Streams>)
                .post(push::push)
                .delete(declarations::drop::<Streams>),
        ),
        (
            "/streams/{name}/advance",
            &["POST"],
            post(streams::advance_one),
        ),
        (
            "/streams/{name}/reset-time",
            &["POST"],
            post(streams::reset),
        ),
        ("/advance", &["POST"], post(streams::advance_several)),
        ("/queries", &["GET"], get(queries::list)),
        ("/queries:batch", &["PUT"], put(batch::register)),
        (
            "/queries/{name}",
            &["GET", "PUT", "DELETE"],
            get(declarations::show::<Queries>)
                .put(queries::register)
                .delete(declarations::drop::<Queries>),
        ),
        ("/queries/{name}/pause", &["POST"], post(queries::pause)),
        ("/queries/{name}/resume", &["POST"], post(queries::resume)),
        ("/queries/{name}/results", &["GET"], get(events::results)),
        (HEALTH, &["GET"], get(health::health)),
        ("/metrics", &["GET"], get(metrics::metrics)),
        ("/openapi.json", &["GET"], get(openapi::openapi)),
    ]
}

/// Answered also when all connections are in use.
const HEALTH: &str = "/health";
const GRAPH_METHODS: &[&str] = &["GET", "HEAD", "PUT", "POST", "DELETE"];

fn graph_methods() -> MethodRouter<App> {
    let handler = graph_store::graph_store;
    put(handler)
        .merge(get(handler))
        .merge(post(handler))
        .merge(delete(handler))
}

/// The whole service.
pub(crate) fn router(app: App) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, (path, _, methods)| {
            router.route(path, methods)
        })
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), around))
        .with_state(app)
}

async fn nothing_here(uri: Uri) -> ApiError {
    let path = uri.path();
    for (kind, what) in [("/streams/", "stream"), ("/queries/", "query")] {
        if path.starts_with(kind) {
            return ApiError::not_found(format!(
                "There is nothing at this address. If the name of the {what} holds a /, percent-encode it as %2F: {kind}http%3A%2F%2Fexample.org%2Fname."
            ));
        }
    }
    ApiError::not_found(
        "There is nothing at this address. GET / lists what there is, GET /openapi.json describes it.",
    )
}

async fn wrong_method(method: Method) -> ApiError {
    let method = crate::text::shorten(method.as_str());
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("This address cannot be asked to {method}. The Allow header lists what it takes."),
    )
}

/// What is still needed of a request's headers when it has been handled.
struct Asked {
    accept: Vec<HeaderValue>,
    origin: Option<HeaderValue>,
}

async fn around(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let headers = request.headers();
    let asked = Asked {
        accept: headers.get_all(header::ACCEPT).iter().cloned().collect(),
        origin: headers.get(header::ORIGIN).cloned(),
    };
    let route = request.extensions().get::<MatchedPath>().cloned();
    let is_refused = request.extensions().get::<Reserved>().is_some()
        && route.as_ref().is_none_or(|route| route.as_str() != HEALTH);
    let mut response = match app.hosts.check(&mut request) {
        Err(error) => error.into_response(),
        Ok(Visitor::Preflight) => preflight(),
        Ok(Visitor::Welcome) if is_refused => full(&app).into_response(),
        Ok(Visitor::Welcome) => AssertUnwindSafe(next.run(request))
            .catch_unwind()
            .await
            .unwrap_or_else(|_panic| {
                ApiError::internal("the handler was broken off").into_response()
            }),
    };
    response = error::finish(response, &asked.accept);
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if let Some(origin) = &asked.origin {
        allow_origin(&app, origin, &mut response);
    }
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    app.http
        .count(route, &method, response.status(), started.elapsed());
    response
}

fn full(app: &App) -> ApiError {
    ApiError::busy(
        format!(
            "All {} connections that this server takes at one time are in use. Try again in a second.",
            app.config.connections
        ),
        1,
    )
}

fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE"),
    );
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("accept, content-type, last-event-id, event-time, event-time-ms, push-source, push-sequence"),
    );
    headers.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("600"),
    );
    response
}

fn allow_origin(app: &App, origin: &HeaderValue, response: &mut Response) {
    if origin
        .to_str()
        .is_ok_and(|origin| app.config.cors.allows(origin))
    {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(
                "location, retry-after, somersault-sn, somersault-execution-us",
            ),
        );
    }
}
