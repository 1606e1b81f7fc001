//! The addresses of the server: their table, and one file per address for its handlers.

pub(crate) mod batch;
pub(crate) mod declarations;
pub(crate) mod events;
pub(crate) mod exposition;
pub(crate) mod firings;
pub(crate) mod graph_store;
pub(crate) mod health;
pub(crate) mod index;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod push;
pub(crate) mod queries;
pub(crate) mod rdf;
pub(crate) mod results;
pub(crate) mod sparql;
pub(crate) mod streams;

use crate::http::error::ApiError;
use crate::http::middleware::middleware;
use crate::state::App;
use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};
use queries::Queries;
use streams::Streams;

/// Returns every address with its methods. The OpenAPI description is checked against this table.
pub(crate) fn routes() -> Vec<(&'static str, &'static [&'static str], MethodRouter<App>)> {
    vec![
        ("/", &["GET"], get(index::index)),
        (
            "/query",
            &["GET", "POST"],
            get(sparql::query).post(sparql::query),
        ),
        ("/update", &["POST"], post(sparql::update)),
        (
            "/sparql",
            &["GET", "POST"],
            get(sparql::sparql).post(sparql::sparql),
        ),
        (
            "/sparql/",
            &["GET", "POST"],
            get(sparql::sparql).post(sparql::sparql),
        ),
        (
            "/explain",
            &["GET", "POST"],
            get(sparql::explain).post(sparql::explain),
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

/// This address is answered even if all connections are in use.
pub(crate) const HEALTH: &str = "/health";
const GRAPH_METHODS: &[&str] = &["GET", "HEAD", "PUT", "POST", "DELETE"];

fn graph_methods() -> MethodRouter<App> {
    let handler = graph_store::graph_store;
    put(handler)
        .merge(get(handler))
        .merge(post(handler))
        .merge(delete(handler))
}

/// Builds the router of the whole service.
pub(crate) fn router(app: App) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, (path, _, methods)| {
            router.route(path, methods)
        })
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), middleware))
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
    let method = crate::http::text::shorten(method.as_str());
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!(
            "This address takes no {method}. The Allow header lists the methods that it takes."
        ),
    )
}
