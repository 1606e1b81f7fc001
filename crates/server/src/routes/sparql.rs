//! The SPARQL 1.1 Protocol: `/query`, `/update`, and `/sparql`, which takes both. Also `/explain`.
//!
//! The dataset of the protocol (`default-graph-uri` …) takes precedence over a query's own, and
//! must not be combined with USING or WITH in updates. The engine enforces both.

use crate::http::body::{self, BodyBytes};
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::{CancelOnDrop, Lane, Reply};
use crate::http::negotiate::Accept;
use crate::http::text::{Params, shorten, without_mark};
use crate::routes::calls::{CallNumber, answers};
use crate::routes::description;
use crate::routes::results::{self, Prepared};
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use somersault::oxrdf::NamedNode;
use somersault::{
    BegunUpdate, CallRequest, FastPath, QueryOptions, UpdateOptions, UpdateSummary, syntax,
};
use std::time::Duration;

const FORM: &str = "application/x-www-form-urlencoded";
const QUERY: &str = "application/sparql-query";
const UPDATE: &str = "application/sparql-update";
const QUERY_METHOD: &str = "QUERY";

/// Longest text, in bytes, that is parsed at once, which takes some microseconds; its query is
/// answered at once if that takes no longer, and its update is handed in. A thread that may block
/// handles longer texts.
const SHORT_TEXT: usize = 16 * 1024;

/// The operations that an address accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Query,
    Update,
    Both,
}

/// The operation that a request asks for.
enum Operation {
    Query(String),
    Update(String),
}

pub(crate) async fn query(app: App, request: Request) -> ApiResult {
    sparql_request(&app, request, Takes::Query).await
}

pub(crate) async fn update(app: App, request: Request) -> ApiResult {
    sparql_request(&app, request, Takes::Update).await
}

pub(crate) async fn sparql(app: App, request: Request) -> ApiResult {
    let is_bare = request.method() != Method::POST && request.uri().query().is_none();
    match is_bare {
        true => description::service(&app, &request),
        false => sparql_request(&app, request, Takes::Both).await,
    }
}

/// Answers the HTTP method QUERY, which is a safe POST, and refuses other methods. The router has
/// no name for it.
pub(crate) async fn by_method_query(app: App, request: Request) -> ApiResult {
    if request.method().as_str() == QUERY_METHOD {
        return sparql_request(&app, request, Takes::Query).await;
    }
    let method = shorten(request.method().as_str());
    Err(ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!(
            "This address takes no {method}. The Allow header lists the methods that it takes."
        ),
    )
    .header(
        header::ALLOW,
        HeaderValue::from_static("GET,HEAD,POST,QUERY"),
    ))
}

async fn sparql_request(app: &App, request: Request, takes: Takes) -> ApiResult {
    let (head, body) = request.into_parts();
    let base = app.public_url(&head.headers, head.uri.path());
    let has_body = head.method == Method::POST || head.method.as_str() == QUERY_METHOD;
    let (operation, params) = if has_body {
        let body_type = body::media_type(&head.headers)?;
        let is_form = body_type.as_deref() == Some(FORM);
        let held = app.bodies.read_text(&head.headers, body, is_form).await?;
        posted(&head.uri, body_type.as_deref(), &held, takes)?
    } else {
        got(&head.uri)?
    };
    match operation {
        Operation::Query(text) => {
            let options = query_options(app, &params, base)?;
            run_query(app, &head.headers, text, options).await
        }
        Operation::Update(text) => {
            let options = update_options(app, &params, base)?;
            run_update(app, &head.headers, text, options).await
        }
    }
}

/// Returns the operation of a GET: always a query, because a GET must not change anything.
fn got(uri: &Uri) -> ApiResult<(Operation, Params)> {
    let params = Params::of(uri)?;
    if params.has("update") {
        return Err(ApiError::bad_request(
            "update_by_get",
            "An update must be sent with POST, as a form with \"update\" or as application/sparql-update.",
        ));
    }
    let text = params.one("query")?.map(without_mark);
    match text.map(str::to_owned) {
        Some(text) => Ok((Operation::Query(text), params)),
        None => Err(ApiError::bad_request(
            "missing_parameter",
            "The request has no query. Give it as ?query=…, percent-encoded, or POST it as application/sparql-query.",
        )),
    }
}

/// Returns the operation of a POST. The dataset's parameters may be in the URL and in the form.
fn posted(
    uri: &Uri,
    body_type: Option<&str>,
    held: &BodyBytes,
    takes: Takes,
) -> ApiResult<(Operation, Params)> {
    let mut params = Params::of(uri)?;
    let operation = match (body_type, takes) {
        (Some(FORM), _) => {
            params.extend(Params::parse(held.text()?)?);
            match (params.one("query")?, params.one("update")?) {
                (Some(_), Some(_)) => {
                    return Err(ApiError::bad_request(
                        "query_and_update",
                        "The request has a query and an update. Send one of them.",
                    ));
                }
                (Some(text), None) => Operation::Query(without_mark(text).to_owned()),
                (None, Some(text)) => Operation::Update(without_mark(text).to_owned()),
                (None, None) => {
                    return Err(ApiError::bad_request(
                        "missing_parameter",
                        "The form has neither \"query\" nor \"update\".",
                    ));
                }
            }
        }
        (Some(QUERY), Takes::Query | Takes::Both) => Operation::Query(held.text()?.to_owned()),
        (Some(UPDATE), Takes::Update | Takes::Both) => Operation::Update(held.text()?.to_owned()),
        (given, takes) => {
            let supported: &[&str] = match takes {
                Takes::Query => &[QUERY, FORM],
                Takes::Update => &[UPDATE, FORM],
                Takes::Both => &[QUERY, UPDATE, FORM],
            };
            return Err(body::unsupported(given, supported));
        }
    };
    if body_type != Some(FORM) && (params.has("query") || params.has("update")) {
        return Err(ApiError::bad_request(
            "query_and_update",
            "The request has a text in its body and another in its URL. Send one of them.",
        ));
    }
    match (&operation, takes) {
        (Operation::Query(_), Takes::Update) => Err(ApiError::bad_request(
            "wrong_address",
            "This is a query, and this address takes updates. Send it to /query.",
        )),
        (Operation::Update(_), Takes::Query) => Err(ApiError::bad_request(
            "wrong_address",
            "This is an update, and this address takes queries. Send it to /update.",
        )),
        _ => Ok((operation, params)),
    }
}

fn query_options(app: &App, params: &Params, base: String) -> ApiResult<QueryOptions> {
    for name in ["using-graph-uri", "using-named-graph-uri"] {
        if params.has(name) {
            return Err(ApiError::bad_request(
                "wrong_parameter",
                format!(
                    "\"{name}\" is for updates; a query takes default-graph-uri and named-graph-uri."
                ),
            ));
        }
    }
    Ok(QueryOptions {
        default_graphs: graphs(params, "default-graph-uri")?,
        named_graphs: graphs(params, "named-graph-uri")?,
        base: Some(base),
        timeout: timeout(app, params)?,
        ..QueryOptions::default()
    })
}

fn update_options(app: &App, params: &Params, base: String) -> ApiResult<UpdateOptions> {
    for name in ["default-graph-uri", "named-graph-uri"] {
        if params.has(name) {
            return Err(ApiError::bad_request(
                "wrong_parameter",
                format!(
                    "\"{name}\" is for queries; an update takes using-graph-uri and using-named-graph-uri."
                ),
            ));
        }
    }
    Ok(UpdateOptions {
        using_graphs: graphs(params, "using-graph-uri")?,
        using_named_graphs: graphs(params, "using-named-graph-uri")?,
        base: Some(base),
        timeout: timeout(app, params)?,
    })
}

fn graphs(params: &Params, name: &str) -> ApiResult<Vec<NamedNode>> {
    params.all(name).map(|iri| graph_iri(name, iri)).collect()
}

/// Parses a graph's IRI from a parameter.
///
/// # Errors
/// 400 if it is not an absolute IRI.
pub(crate) fn graph_iri(parameter: &str, iri: &str) -> ApiResult<NamedNode> {
    NamedNode::new(iri).map_err(|error| {
        ApiError::bad_request(
            "bad_iri",
            format!(
                "\"{parameter}\" must be an absolute IRI, and \"{}\" is not one ({error}).",
                shorten(iri)
            ),
        )
    })
}

/// Reads `timeout_ms`: a client may set a shorter timeout than the server's, not a longer one.
pub(crate) fn timeout(app: &App, params: &Params) -> ApiResult<Option<Duration>> {
    let Some(text) = params.one("timeout_ms")? else {
        return Ok(None);
    };
    let millis: u64 = text
        .parse()
        .ok()
        .filter(|millis| *millis > 0)
        .ok_or_else(|| {
            ApiError::bad_request(
                "bad_parameter",
                format!(
                    "\"timeout_ms\" is a whole number of milliseconds above 0, not \"{}\".",
                    shorten(text)
                ),
            )
        })?;
    Ok(Some(
        Duration::from_millis(millis).min(app.engine.config().limits.query_time),
    ))
}

async fn run_query(
    app: &App,
    headers: &HeaderMap,
    text: String,
    mut options: QueryOptions,
) -> ApiResult {
    let accept = Accept::from_headers(headers);
    results::acceptable(&accept)?;
    let gone = CancelOnDrop::default();
    options.cancel = Some(gone.token());
    let prepared = if text.len() > SHORT_TEXT {
        app.run(Lane::Query, move |engine| {
            Prepared::new(engine.query(&text).options(&options).run()?, &accept)
        })
        .await?
    } else {
        match app.engine.query(&text).options(&options).begin()? {
            FastPath::Answered(results) => {
                let begun = Prepared::begin(results, &accept)?;
                if begun.is_long() {
                    app.gate.run(Lane::Query, move || begun.finish()).await??
                } else {
                    begun.finish()?
                }
            }
            FastPath::Deferred(query) => {
                let ask = |reply: Reply<ApiResult<Prepared>>| {
                    query.submit(|results| reply.fulfil(move || Prepared::new(results?, &accept)));
                };
                app.gate.ask(Lane::Query, ask).await??
            }
        }
    };
    prepared.into_response(app)
}

/// Carries out an update, or the call of a procedure (CALL). A short one is handed in on this
/// thread and awaited.
async fn run_update(
    app: &App,
    headers: &HeaderMap,
    text: String,
    options: UpdateOptions,
) -> ApiResult {
    let accept = Accept::from_headers(headers);
    let key = CallNumber::of(headers);
    let place = app.gate.enter(Lane::Write).await?;
    if text.len() > SHORT_TEXT || syntax::is_explained_call(&text) {
        let engine = app.engine.clone();
        let carry_out = move || -> ApiResult<Response> {
            if let Some(shown) = engine.explain_call_text(&text, options.base.as_deref())? {
                return Ok(text_response(shown));
            }
            if let Some(call) = engine.call_text(&text, options.base.as_deref())? {
                let call = with_settings(call, key?, &options, &accept)?;
                return answers::answer(call.run()?, &accept);
            }
            Ok(done(engine.update(&text).options(&options).run()?))
        };
        return app.gate.run_in(place, carry_out).await?;
    }
    if let Some(call) = app.engine.call_text(&text, options.base.as_deref())? {
        let call = with_settings(call, key?, &options, &accept)?.begin()?;
        return answers::answer(app.gate.wait(place, call).await?, &accept);
    }
    let summary = match app.engine.update(&text).options(&options).begin()? {
        BegunUpdate::HandedIn(update) => app.gate.wait(place, update).await?,
        BegunUpdate::Deferred(update) => app.gate.run_in(place, move || update.run()).await??,
    };
    Ok(done(summary))
}

/// The answer of an update.
fn done(summary: UpdateSummary) -> Response {
    let UpdateSummary {
        sn,
        inserted,
        deleted,
    } = summary;
    Json(json!({ "sn": sn, "inserted": inserted, "deleted": deleted })).into_response()
}

fn with_settings<'c>(
    call: CallRequest<'c>,
    key: Option<CallNumber>,
    options: &UpdateOptions,
    accept: &Accept,
) -> ApiResult<CallRequest<'c>> {
    results::acceptable(accept)?;
    if !options.using_graphs.is_empty() || !options.using_named_graphs.is_empty() {
        return Err(ApiError::bad_request(
            "wrong_parameter",
            "A CALL takes no using-graph-uri and no using-named-graph-uri: the procedure names its graphs.",
        ));
    }
    let call = match key {
        None => call,
        Some(key) => key.set(call),
    };
    Ok(match options.timeout {
        None => call,
        Some(timeout) => call.timeout(timeout),
    })
}

/// Answers with the text that describes how a query would run.
pub(crate) async fn explain(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let (operation, params) = if head.method == Method::POST {
        let body_type = body::media_type(&head.headers)?;
        let is_form = body_type.as_deref() == Some(FORM);
        let held = app.bodies.read_text(&head.headers, body, is_form).await?;
        posted(&head.uri, body_type.as_deref(), &held, Takes::Query)?
    } else {
        got(&head.uri)?
    };
    let Operation::Query(text) = operation else {
        return Err(ApiError::bad_request(
            "wrong_address",
            "Only queries and CALL can be explained.",
        ));
    };
    let analyze = params.flag("analyze")?;
    let options = query_options(
        &app,
        &params,
        app.public_url(&head.headers, head.uri.path()),
    )?;
    let explanation = app
        .run(Lane::Query, move |engine| {
            let query = engine.query(&text).options(&options);
            match analyze {
                true => query.explain_analyze(),
                false => query.explain(),
            }
        })
        .await?;
    Ok(text_response(explanation))
}

/// Returns a plain text answer.
pub(crate) fn text_response(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
