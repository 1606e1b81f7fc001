//! The router of the whole service: the table of addresses, the answers to requests that match none
//! of them, and the middleware around all.

use super::middleware::{NeedsTable, middleware};
use crate::http::error::ApiError;
use crate::http::text::shorten;
use crate::routes::routes;
use crate::state::Service;
use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use std::sync::Arc;

/// Builds the router of the whole service.
pub(crate) fn router(service: Service) -> Router {
    let mut table = NeedsTable::new();
    let mut router = Router::new();
    for (path, needs, methods) in routes() {
        table.insert(path, needs);
        router = router.route(path, methods);
    }
    let table = Arc::new(table);
    router
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state((service.clone(), table), middleware))
        .with_state(service)
}

async fn nothing_here(uri: Uri) -> ApiError {
    let path = uri.path();
    for (kind, what) in [
        ("/streams/", "stream"),
        ("/queries/", "query"),
        ("/procedures/", "procedure"),
        ("/dataflows/", "dataflow"),
    ] {
        if path.starts_with(kind) {
            return ApiError::not_found(format!(
                "There is nothing at this address. If the name of the {what} holds a /, percent-encode it as %2F: {kind}http%3A%2F%2Fexample.org%2Fname."
            ));
        }
    }
    ApiError::not_found(
        "There is nothing at this address. GET / lists the addresses, and GET /openapi.json describes them.",
    )
}

async fn wrong_method(method: Method) -> ApiError {
    let method = shorten(method.as_str());
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!(
            "This address takes no {method}. The Allow header lists the methods that it takes."
        ),
    )
}
