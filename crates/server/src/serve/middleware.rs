//! Wraps every request: catches faults, puts errors into the form that the client reads, refuses
//! foreign web pages and senders that may not use the address, and counts requests.

use crate::http::body;
use crate::http::coding::Coding;
use crate::http::connections::Reserved;
use crate::http::credentials;
use crate::http::error::{self, ApiError, ApiResult};
use crate::http::head;
use crate::http::hosts::Visitor;
use crate::http::packed;
use crate::http::{quotas, ticket};
use crate::routes::needs::Needs;
use crate::routes::{is_always_answered, is_query, needs_of, takes_ticket};
use crate::state::Service;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;

/// The methods of each address, with what they need.
pub(super) type NeedsTable = HashMap<&'static str, &'static [(&'static str, Needs)]>;

/// Headers of a request that are still needed after it has been handled.
struct RequestInfo {
    accept: Vec<HeaderValue>,
    origin: Option<HeaderValue>,
    coding: Option<Coding>,
}

pub(crate) async fn middleware(
    State((app, table)): State<(Service, Arc<NeedsTable>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let headers = request.headers();
    let info = RequestInfo {
        accept: headers.get_all(header::ACCEPT).iter().cloned().collect(),
        origin: headers.get(header::ORIGIN).cloned(),
        coding: packed::wish(&method, headers),
    };
    let route = request.extensions().get::<MatchedPath>().cloned();
    let is_refused = request.extensions().get::<Reserved>().is_some()
        && route
            .as_ref()
            .is_none_or(|route| !is_always_answered(route.as_str()));
    let admitted = head::check(&request)
        .and_then(|()| body::check_transfer_coding(request.headers()))
        .and_then(|()| app.hosts.check(&mut request));
    let mut response = match admitted {
        Err(error) => error.into_response(),
        Ok(Visitor::Preflight) => preflight(),
        Ok(Visitor::Welcome) if is_refused => full(&app).into_response(),
        Ok(Visitor::Welcome) => match identify(&app, &table, &mut request, route.as_ref()).await {
            Err(error) => {
                // A client that is cut off while it sends never sees why.
                body::discard(request.into_body()).await;
                error.into_response()
            }
            Ok(place) => {
                let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
                let response = answered.unwrap_or_else(|_panic| {
                    ApiError::internal("the handler was broken off").into_response()
                });
                quotas::hold(response, place)
            }
        },
    };
    response = packed::pack(error::finish(response, &info.accept), info.coding);
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if let Some(origin) = &info.origin {
        allow_origin(&app, origin, &mut response);
    }
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    app.http
        .count(route, &method, response.status(), started.elapsed());
    response
}

/// Finds out who sends a request, and refuses what the sender may not do. The request then says
/// who its sender is. Returns the place of a query among those of its sender.
async fn identify(
    app: &Service,
    table: &NeedsTable,
    request: &mut Request,
    route: Option<&MatchedPath>,
) -> ApiResult<Option<OwnedSemaphorePermit>> {
    let route = route.map_or("", MatchedPath::as_str);
    let ticket = match takes_ticket(route) {
        true => take_ticket(request)?,
        false => None,
    };
    let (sender, is_unknown) = match ticket {
        Some(ticket) => {
            let holder = app.tickets.redeem(&ticket, Instant::now());
            (holder.ok_or_else(credentials::invalid_ticket)?, false)
        }
        None => {
            let has_token = request.headers().contains_key(header::AUTHORIZATION);
            let sender = app.sender(request.headers()).await?;
            (sender, app.asks_for_credentials() && !has_token)
        }
    };
    let methods = table.get(route).copied().unwrap_or_default();
    let needs = needs_of(methods, request.method());
    needs.check(&sender, is_unknown, (route, request.uri().path()))?;
    let place = match app.asks_for_credentials() && needs != Needs::Nothing {
        true => (app.quotas).admit(&sender, is_query(route), Instant::now())?,
        false => None,
    };
    request.extensions_mut().insert(sender);
    Ok(place)
}

/// Takes the ticket out of the URL of a request.
fn take_ticket(request: &mut Request) -> ApiResult<Option<String>> {
    let mut uri = std::mem::take(request.uri_mut());
    let taken = ticket::take(&mut uri, request.headers());
    *request.uri_mut() = uri;
    taken
}

fn full(app: &Service) -> ApiError {
    ApiError::busy(
        format!(
            "All {} connections of this server are in use. Try again in a second.",
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
        HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, QUERY"),
    );
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("accept, authorization, content-type, idempotency-key, last-event-id, event-time, event-time-ms, push-source, push-sequence"),
    );
    headers.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("600"),
    );
    response
}

fn allow_origin(app: &Service, origin: &HeaderValue, response: &mut Response) {
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
