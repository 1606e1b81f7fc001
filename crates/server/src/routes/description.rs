//! What the server says about itself in RDF: the SPARQL 1.1 Service Description at `GET /sparql`
//! without a query, and VoID at `/.well-known/void`.
//!
//! The one thing to know: neither says anything of the stored data to a sender who may not read
//! all of it.

use crate::http::error::{ApiError, ApiResult};
use crate::http::negotiate::{Accept, RDF_INPUT, RDF_OFFERS, RESULT_OFFERS, ResultFormat};
use crate::http::text::Params;
use crate::state::App;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use oxrdfio::{RdfFormat, RdfSerializer};
use somersault::RightKind;
use somersault::oxrdf::vocab::rdf;
use somersault::oxrdf::{BlankNode, Literal, NamedNode, NamedOrBlankNode, Term, Triple};
use std::collections::BTreeSet;

const SD: &str = "http://www.w3.org/ns/sparql-service-description#";
const VOID: &str = "http://rdfs.org/ns/void#";

/// The triples of a description, about one thing after the other.
#[derive(Default)]
struct Description(Vec<Triple>);

impl Description {
    fn add(
        &mut self,
        subject: impl Into<NamedOrBlankNode>,
        predicate: NamedNode,
        object: impl Into<Term>,
    ) {
        self.0.push(Triple::new(subject, predicate, object));
    }

    /// The triples in the syntax that the client likes best.
    fn response(self, request: &Request) -> ApiResult<Response> {
        let accept = Accept::from_headers(request.headers());
        let offer = accept.choose(RDF_OFFERS, "a description")?;
        let serializer = RdfSerializer::from_format(offer.format);
        let serializer = serializer
            .with_prefix("sd", SD)
            .and_then(|it| it.with_prefix("void", VOID))
            .map_err(ApiError::internal)?;
        let mut writer = serializer.for_writer(Vec::new());
        for triple in &self.0 {
            let written = writer.serialize_triple(triple.as_ref());
            written.map_err(ApiError::internal)?;
        }
        let text = writer.finish().map_err(ApiError::internal)?;
        let headers = [
            (header::CONTENT_TYPE, offer.content_type()),
            (header::VARY, HeaderValue::from_static("Accept")),
        ];
        Ok((headers, text).into_response())
    }
}

fn sd(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("{SD}{name}"))
}

fn void(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("{VOID}{name}"))
}

fn absolute(url: &str) -> ApiResult<NamedNode> {
    NamedNode::new(url).map_err(|error| {
        ApiError::bad_request(
            "bad_host",
            format!(
                "The address {url} of this server is no IRI ({error}). Start it with --public-url."
            ),
        )
    })
}

/// The IRIs by which W3C names the formats of graphs.
fn graph_formats(formats: impl Iterator<Item = RdfFormat>) -> BTreeSet<&'static str> {
    formats.map(|format| format.iri()).collect()
}

/// The service description (SPARQL 1.1 Service Description).
pub(crate) fn service(app: &App, request: &Request) -> ApiResult {
    let endpoint = absolute(&app.public_url(request.headers(), "/sparql"))?;
    let mut about = Description::default();
    about.add(endpoint.clone(), rdf::TYPE.into(), sd("Service"));
    about.add(endpoint.clone(), sd("endpoint"), endpoint.clone());
    for language in ["SPARQL11Query", "SPARQL11Update"] {
        about.add(endpoint.clone(), sd("supportedLanguage"), sd(language));
    }
    let results = RESULT_OFFERS.iter().filter_map(|offer| match offer.format {
        ResultFormat::Sparql(format) => Some(format.iri()),
        ResultFormat::Lines => None,
    });
    let mut formats = graph_formats(RDF_OFFERS.iter().map(|offer| offer.format));
    formats.extend(results);
    for format in formats {
        let format = NamedNode::new_unchecked(format);
        about.add(endpoint.clone(), sd("resultFormat"), format);
    }
    for format in graph_formats(RDF_INPUT.iter().map(|offer| offer.format)) {
        let format = NamedNode::new_unchecked(format);
        about.add(endpoint.clone(), sd("inputFormat"), format);
    }
    let dataset = BlankNode::new_unchecked("dataset");
    let graph = BlankNode::new_unchecked("default");
    about.add(endpoint, sd("defaultDataset"), dataset.clone());
    about.add(dataset.clone(), rdf::TYPE.into(), sd("Dataset"));
    about.add(dataset, sd("defaultGraph"), graph.clone());
    about.add(graph, rdf::TYPE.into(), sd("Graph"));
    about.response(request)
}

/// The description of the dataset (VoID).
pub(crate) async fn dataset(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let address = |path: &str| absolute(&app.public_url(request.headers(), path));
    let dataset = address("/.well-known/void#dataset")?;
    let mut about = Description::default();
    about.add(dataset.clone(), rdf::TYPE.into(), void("Dataset"));
    about.add(dataset.clone(), void("sparqlEndpoint"), address("/sparql")?);
    for format in graph_formats(RDF_OFFERS.iter().map(|offer| offer.format)) {
        let format = NamedNode::new_unchecked(format);
        about.add(dataset.clone(), void("feature"), format);
    }
    let access = app.engine.access();
    let reads_all = access.require(RightKind::Read, None).is_ok()
        && access.require(RightKind::Read, Some("default")).is_ok();
    if reads_all {
        about.add(dataset.clone(), void("dataDump"), address("/store")?);
        let count = app.engine.health().stored_statements;
        about.add(dataset, void("triples"), Literal::from(count));
    }
    about.response(&request)
}
