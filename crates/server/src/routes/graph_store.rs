//! The SPARQL 1.1 Graph Store HTTP Protocol at `/store`. A request names a graph by `?graph=IRI` or
//! `?default` (indirectly), or by the graph's own URL below `/store/` (directly). POST to `/store`
//! without a name creates a graph, or, with N-Quads or TriG, loads the graphs that the body names.
//! GET and PUT of `/store` without a name read and replace the whole dataset.

use crate::http::body::{self, BodyBytes};
use crate::http::error::{ApiError, ApiResult};
use crate::http::gate::Lane;
use crate::http::multipart;
use crate::http::negotiate::{self, Accept, RDF_INPUT, RDF_OFFERS, STORE_OFFERS, format_of};
use crate::http::nesting;
use crate::http::reading::{self, Reading};
use crate::http::text::Params;
use crate::routes::copies;
use crate::routes::results::Prepared;
use crate::routes::sparql::graph_iri;
use crate::state::App;
use axum::Json;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use oxrdfio::{RdfFormat, RdfParser, RdfSerializer};
use serde_json::json;
use somersault::oxrdf::GraphName;
use somersault::{
    Contexts, Engine, GraphWrite, LoadOptions, RightKind, UpdateSummary, document_loader,
};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Deref;

const MULTIPART: &str = "multipart/form-data";

/// The target that a request's URL names.
enum Target {
    Graph(GraphName),
    /// `/store` without a graph's name.
    Store,
}

pub(crate) async fn graph_store(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let target = target(&app, &head)?;
    check_right(&app, &head.method, &target)?;
    match (&head.method, target) {
        (&Method::GET | &Method::HEAD, Target::Graph(graph)) => {
            read_graph(&app, &head, graph).await
        }
        (&Method::DELETE, Target::Graph(graph)) => delete_graph(&app, graph).await,
        (&Method::PUT | &Method::POST, Target::Graph(graph)) => {
            let base = base_of(&app, &head, &graph);
            let document = document(&app, &head, body, base).await?;
            write_graph(&app, head.method == Method::PUT, graph, document).await
        }
        (&Method::POST, Target::Store) => post_to_store(&app, &head, body).await,
        (&Method::GET | &Method::HEAD, Target::Store) => read_dataset(&app, &head).await,
        (&Method::PUT, Target::Store) => replace_dataset(&app, &head, body).await,
        (_, Target::Store) => Err(ApiError::bad_request(
            "missing_parameter",
            "The request names no graph. Add ?graph=IRI (percent-encoded) or ?default.",
        )),
        // The router lets no other method through.
        (method, Target::Graph(_)) => Err(ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            format!("A graph takes no {method}. The Allow header lists the methods that it takes."),
        )),
    }
}

/// Refuses a graph that the sender may not read or write, before the body is read. The engine
/// checks the graphs that a body names.
fn check_right(app: &App, method: &Method, target: &Target) -> ApiResult<()> {
    let kind = match *method {
        Method::GET | Method::HEAD => RightKind::Read,
        _ => RightKind::Write,
    };
    let name = match target {
        Target::Graph(GraphName::NamedNode(name)) => name.as_str(),
        Target::Graph(_) => "default",
        // Which graphs a body names, the engine checks.
        Target::Store if *method == Method::POST => return Ok(()),
        Target::Store => {
            app.engine.access().require(kind, None)?;
            "default"
        }
    };
    Ok(app.engine.access().require(kind, Some(name))?)
}

fn target(app: &App, head: &Parts) -> ApiResult<Target> {
    let params = Params::of(&head.uri)?;
    params.only(&["graph", "default"])?;
    let direct = head
        .uri
        .path()
        .strip_prefix("/store/")
        .is_some_and(|rest| !rest.is_empty());
    match (params.one("graph")?, params.has("default"), direct) {
        (Some(iri), false, false) => Ok(Target::Graph(graph_iri("graph", iri)?.into())),
        (None, true, false) if params.one("default")?.is_some_and(str::is_empty) => {
            Ok(Target::Graph(GraphName::DefaultGraph))
        }
        (None, true, false) => Err(ApiError::bad_request(
            "bad_parameter",
            "\"default\" takes no value; a named graph is ?graph=IRI.",
        )),
        (None, false, true) => {
            let iri = app.public_url(&head.headers, head.uri.path());
            Ok(Target::Graph(graph_iri("the URL", &iri)?.into()))
        }
        (None, false, false) => Ok(Target::Store),
        _ => Err(ApiError::bad_request(
            "two_graphs",
            "The request names its graph in two ways. Use one of ?graph=IRI, ?default, and a path below /store/.",
        )),
    }
}

/// Returns the base against which a body's relative IRIs are resolved: the graph's own IRI, or for
/// the default graph the request's URL.
fn base_of(app: &App, head: &Parts, graph: &GraphName) -> String {
    match graph {
        GraphName::NamedNode(iri) => iri.as_str().to_owned(),
        _ => app.public_url(&head.headers, head.uri.path()),
    }
}

async fn read_graph(app: &App, head: &Parts, graph: GraphName) -> ApiResult {
    let accept = Accept::from_headers(&head.headers);
    let offer = accept.choose(RDF_OFFERS, "a graph")?;
    if head.method == Method::HEAD {
        let sn = app.engine.graph_sn(&graph)?;
        let mut response = Response::new(axum::body::Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, offer.content_type());
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        headers.insert("somersault-sn", HeaderValue::from(sn.0));
        return Ok(response);
    }
    let prepared = app
        .run(Lane::Query, move |engine| {
            Prepared::new(engine.graph(&graph)?, &accept)
        })
        .await?;
    prepared.into_response(app)
}

async fn delete_graph(app: &App, graph: GraphName) -> ApiResult {
    let done = app
        .run(Lane::Write, move |engine| engine.clear_graph(&graph))
        .await?;
    Ok(written(&done, false))
}

/// A body of RDF that is not yet read.
struct Document {
    held: BodyBytes,
    /// `None` for several documents, whose `Content-Type` has the boundary between them.
    format: Option<RdfFormat>,
    content_type: String,
    base: String,
}

/// The bytes of one document.
enum Bytes {
    Sent(BodyBytes),
    Joined(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Sent(held) => held,
            Bytes::Joined(bytes) => bytes,
        }
    }
}

impl Document {
    /// Whether reading it may take long.
    fn is_long(&self) -> bool {
        // The parts of a body may be in any syntax.
        let costly = RdfFormat::RdfXml;
        reading::is_long(self.held.len(), self.format.unwrap_or(costly))
    }

    /// Checks it, and joins several documents into one. This may take long.
    fn open(self, contexts: &Contexts, reading: &Reading) -> ApiResult<(Bytes, RdfFormat)> {
        match self.format {
            Some(format) => {
                nesting::check(&self.held, format)?;
                Ok((Bytes::Sent(self.held), format))
            }
            None => {
                let (content_type, held) = (&self.content_type, &self.held);
                let joined = join_parts(content_type, held, &self.base, contexts, reading)?;
                Ok((Bytes::Joined(joined), RdfFormat::NTriples))
            }
        }
    }
}

async fn document(
    app: &App,
    head: &Parts,
    body: axum::body::Body,
    base: String,
) -> ApiResult<Document> {
    let body_type = body::media_type(&head.headers)?;
    let multipart = body_type.as_deref() == Some(MULTIPART);
    let format = body_type
        .as_deref()
        .and_then(|essence| format_of(RDF_INPUT, essence));
    if format.is_none() && !multipart {
        let supported: Vec<&str> = RDF_INPUT
            .iter()
            .map(|offer| offer.media_type)
            .chain([MULTIPART])
            .collect();
        return Err(body::unsupported(body_type.as_deref(), &supported));
    }
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(Document {
        held: app.bodies.read(&head.headers, body).await?,
        format,
        content_type: content_type.unwrap_or_default().to_owned(),
        base,
    })
}

/// Joins several documents into one of N-Triples. Blank nodes of different documents stay distinct.
fn join_parts(
    content_type: &str,
    body: &[u8],
    base: &str,
    contexts: &Contexts,
    reading: &Reading,
) -> ApiResult<Vec<u8>> {
    let mut joined = RdfSerializer::from_format(RdfFormat::NTriples).for_writer(Vec::new());
    for part in multipart::parts(content_type, body)? {
        let essence = part.media_type.map(negotiate::essence);
        let format = essence
            .as_deref()
            .and_then(|essence| format_of(RDF_INPUT, essence))
            .ok_or_else(|| {
                let supported: Vec<&str> = RDF_INPUT.iter().map(|offer| offer.media_type).collect();
                body::unsupported(essence.as_deref(), &supported)
            })?;
        let parser = RdfParser::from_format(format)
            .without_named_graphs()
            .rename_blank_nodes()
            .with_base_iri(base)
            .map_err(|error| {
                ApiError::bad_request(
                    "bad_iri",
                    format!("\"{base}\" is not an absolute IRI ({error})."),
                )
            })?;
        nesting::check(part.content, format)?;
        let loader = document_loader(contexts);
        let quads = parser.for_reader(reading.reader(part.content));
        for quad in quads.with_document_loader(loader) {
            let quad = quad.map_err(|error| reading.refused(error))?;
            joined
                .serialize_triple(quad.as_ref())
                .map_err(ApiError::internal)?;
        }
    }
    joined.finish().map_err(ApiError::internal)
}

async fn write_graph(app: &App, replace: bool, graph: GraphName, document: Document) -> ApiResult {
    let done = app
        .read(document.is_long(), move |engine, reading| {
            let base = document.base.clone();
            let (bytes, format) = document.open(engine.context_table(), reading)?;
            let reader = reading.reader(&bytes);
            reading.ended(match replace {
                true => engine.replace_graph(&graph, reader, format, Some(&base)),
                false => engine.add_to_graph(&graph, reader, format, Some(&base)),
            })
        })
        .await?;
    Ok(written(&done, done.created))
}

/// Returns 201 for a graph that held nothing before, 200 otherwise.
fn written(done: &GraphWrite, created: bool) -> Response {
    let graph = match &done.graph {
        GraphName::NamedNode(iri) => json!(iri.as_str()),
        _ => json!(null),
    };
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let body = json!({ "graph": graph, "created": created, "inserted": done.inserted, "deleted": done.deleted, "sn": done.sn });
    (status, Json(body)).into_response()
}

async fn post_to_store(app: &App, head: &Parts, body: axum::body::Body) -> ApiResult {
    let path = format!("/store/{}", fresh_name());
    let iri = app.public_url(&head.headers, &path);
    let mut document = document(app, head, body, iri.clone()).await?;
    if let Some(RdfFormat::NQuads | RdfFormat::TriG) = document.format {
        document.base = app.public_url(&head.headers, "/store");
        return load_dataset(app, document).await;
    }
    let location = HeaderValue::from_str(&iri).map_err(ApiError::internal)?;
    let mut response = write_graph(
        app,
        false,
        graph_iri("the new graph", &iri)?.into(),
        document,
    )
    .await?;
    // This holds for an empty body too, which leaves no graph behind: the client may use the name.
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// Returns all graphs, written while they are sent.
async fn read_dataset(app: &App, head: &Parts) -> ApiResult {
    let accept = Accept::from_headers(&head.headers);
    let offer = accept.choose(STORE_OFFERS, "a whole dataset")?;
    if head.method == Method::HEAD {
        let content_type = [(header::CONTENT_TYPE, offer.content_type())];
        return Ok((content_type, axum::body::Body::empty()).into_response());
    }
    let begin = move |engine: &Engine| engine.dump_as(offer.format);
    copies::written_out(app, offer.content_type(), begin).await
}

/// Replaces all graphs.
async fn replace_dataset(app: &App, head: &Parts, body: axum::body::Body) -> ApiResult {
    let base = app.public_url(&head.headers, "/store");
    let document = document(app, head, body, base).await?;
    if !matches!(document.format, Some(RdfFormat::NQuads | RdfFormat::TriG)) {
        let supported = ["application/n-quads", "application/trig"];
        let given = Some(document.content_type.as_str());
        return Err(body::unsupported(given, &supported));
    }
    let done = app
        .read(document.is_long(), move |engine, reading| {
            let base = document.base.clone();
            let (bytes, format) = document.open(engine.context_table(), reading)?;
            let reader = reading.reader(&bytes);
            reading.ended(engine.replace_dataset(reader, format, Some(&base)))
        })
        .await?;
    let UpdateSummary {
        sn,
        inserted,
        deleted,
    } = done;
    Ok(Json(json!({ "sn": sn, "inserted": inserted, "deleted": deleted })).into_response())
}

async fn load_dataset(app: &App, document: Document) -> ApiResult {
    let done = app
        .read(document.is_long(), move |engine, reading| {
            let options = LoadOptions {
                base: Some(document.base.clone()),
                ..LoadOptions::default()
            };
            let (bytes, format) = document.open(engine.context_table(), reading)?;
            reading.ended(engine.load(reading.reader(&bytes), format, options))
        })
        .await?;
    Ok(
        Json(json!({ "statements": done.statements, "stored": done.stored, "sn": done.sn }))
            .into_response(),
    )
}

/// Returns a name that is unused and cannot be guessed: 128 bits from the standard library's random
/// hash keys.
fn fresh_name() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::CancelToken;
    use std::time::Duration;

    fn reading() -> Reading {
        Reading::start(CancelToken::new(), Duration::from_secs(60), None)
    }

    #[test]
    fn parts_are_joined_and_blank_nodes_kept_apart() {
        let body = b"--b\r\nContent-Type: text/turtle\r\n\r\n_:x <p> 1 .\r\n--b\r\nContent-Type: application/n-triples\r\n\r\n_:x <http://e/p> \"2\" .\r\n--b--\r\n";
        let joined = join_parts(
            "multipart/form-data; boundary=b",
            body,
            "http://e/g",
            &Contexts::default(),
            &reading(),
        )
        .expect("valid");
        let text = String::from_utf8(joined).expect("UTF-8");
        let subjects: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(subjects.len(), 2);
        assert_ne!(subjects[0], subjects[1]);
        assert!(text.contains("<http://e/p>"));
    }

    #[test]
    fn errors_say_the_place_once_and_count_from_one() {
        let body = b"--b\r\nContent-Type: text/turtle\r\n\r\n<a> <b> <c> .\n<a> <b> .\r\n--b--\r\n";
        let error = join_parts(
            "multipart/form-data; boundary=b",
            body,
            "http://e/g",
            &Contexts::default(),
            &reading(),
        )
        .expect_err("malformed");
        assert_eq!(error.status(), 400);
        assert_eq!(error.to_json()["line"], 2);
        assert_eq!(
            error.message().matches("line ").count(),
            1,
            "{}",
            error.message()
        );
    }

    #[test]
    fn fresh_names_differ() {
        assert_ne!(fresh_name(), fresh_name());
    }
}
