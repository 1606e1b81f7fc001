//! The protocol tests, against our server on loopback: SPARQL Protocol, Graph Store Protocol, and
//! the federation tests, whose remote endpoints are servers of ours too. Requests are sent as the
//! manifests write them, with the paths of our server.

use super::evaluation;
use super::manifest::{Description, Folder, Test, format_of, vocabulary};
use super::outcome::{Outcome, graphs_of, same_graph};
use super::subject::{EngineSubject, Subject};
use oxrdf::Graph;
use oxrdfio::{RdfFormat, RdfParser};
use somersault_server::{Running, ServerConfig};
use sparesults::QueryResultsFormat;
use std::net::TcpListener;
use std::time::Duration;
use ureq::http;

/// A request that takes longer counts as stuck.
const REQUEST_TIME: Duration = Duration::from_secs(20);

/// An engine of its own behind a server of its own.
pub struct Endpoint {
    subject: EngineSubject,
    server: Running,
    client: ureq::Agent,
}

impl Endpoint {
    /// Starts one on a free port of loopback.
    pub fn start() -> Result<Self, String> {
        let subject = EngineSubject::open()?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .map_err(|error| format!("no free port on loopback: {error}"))?;
        let server = Running::start(subject.engine().clone(), listener, ServerConfig::default())
            .map_err(|error| format!("the server does not start: {error}"))?;
        let client = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .allow_non_standard_methods(true)
            .timeout_global(Some(REQUEST_TIME))
            .build()
            .new_agent();
        Ok(Self {
            subject,
            server,
            client,
        })
    }

    /// `ProtocolTest` and `GraphStoreProtocolTest`.
    pub fn run(&mut self, folder: &Folder, test: &Test) -> Result<(), String> {
        let description = test.description();
        let preloaded = graphs_of(
            &description,
            vocabulary::UPDATE_DATA,
            vocabulary::UPDATE_GRAPH_DATA,
        )?;
        self.subject.clear()?;
        evaluation::load(folder, &preloaded, &mut self.subject, &|text| text)?;
        let action = description.resource(vocabulary::ACTION)?;
        let mut locations: Vec<(String, String)> = Vec::new();
        for (at, request) in action
            .list(vocabulary::HTTP_REQUESTS)
            .into_iter()
            .enumerate()
        {
            self.exchange(&request, &mut locations)
                .map_err(|error| format!("request {}: {error}", at + 1))?;
        }
        Ok(())
    }

    fn exchange(
        &self,
        request: &Description<'_>,
        locations: &mut Vec<(String, String)>,
    ) -> Result<(), String> {
        let path = request
            .text(vocabulary::HTTP_PATH)
            .ok_or("a request without a path")?;
        let method = request
            .text(vocabulary::HTTP_METHOD)
            .ok_or("a request without a method")?;
        let path = with_locations(path.replacen("/gsp", "/store", 1), locations);
        let mut builder = http::Request::builder()
            .method(method.as_str())
            .uri(format!("{}{path}", self.server.url().trim_end_matches('/')));
        for header in request.list(vocabulary::HTTP_HEADERS) {
            if let (Some(name), Some(value)) = (
                header.text(vocabulary::HTTP_FIELD_NAME),
                header.text(vocabulary::HTTP_FIELD_VALUE),
            ) {
                builder = builder.header(name, value);
            }
        }
        let sent = match request.resource(vocabulary::HTTP_BODY) {
            Ok(body) => {
                let request = builder
                    .body(body_bytes(&body, locations)?)
                    .map_err(|error| error.to_string())?;
                self.client.run(request)
            }
            Err(_) => self
                .client
                .run(builder.body(()).map_err(|error| error.to_string())?),
        };
        let mut response = sent.map_err(|error| format!("{method} {path}: {error}"))?;
        let status = response.status().as_u16();
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let media_type = header("content-type").unwrap_or_default();
        let location = header("location");
        let body = response
            .body_mut()
            .read_to_vec()
            .map_err(|error| error.to_string())?;

        let expected = request.resource(vocabulary::HTTP_RESPONSE)?;
        check_status(&expected, status).map_err(|error| {
            format!(
                "{method} {path}: {error}: {}",
                String::from_utf8_lossy(&body)
            )
        })?;
        if let Some(placeholder) = expected.text(vocabulary::EXPECTED_LOCATION) {
            let location = location.ok_or("the answer has no Location")?;
            let absolute = if location.starts_with('/') {
                format!("{}{location}", self.server.url())
            } else {
                location
            };
            locations.push((placeholder, absolute));
        }
        check_content(&expected, &media_type, &body)
    }
}

fn with_locations(text: String, locations: &[(String, String)]) -> String {
    locations
        .iter()
        .fold(text, |text, (placeholder, location)| {
            text.replace(placeholder, location)
        })
}

fn body_bytes(body: &Description<'_>, locations: &[(String, String)]) -> Result<Vec<u8>, String> {
    let text = with_locations(
        body.text(vocabulary::CONTENT_CHARS)
            .ok_or("a body without text")?,
        locations,
    );
    match body.text(vocabulary::CONTENT_ENCODING).as_deref() {
        None | Some("UTF-8") => Ok(text.into_bytes()),
        Some("UTF-16") => Ok(std::iter::once(0xfeff)
            .chain(text.encode_utf16())
            .flat_map(u16::to_be_bytes)
            .collect()),
        Some(other) => Err(format!("no way to write the encoding {other}")),
    }
}

fn check_status(expected: &Description<'_>, status: u16) -> Result<(), String> {
    let allowed = expected.iris(vocabulary::EXPECTED_STATUS);
    let fits = |name: &str| match name {
        "StatusCode2xx" => (200..300).contains(&status),
        "StatusCode3xx" => (300..400).contains(&status),
        "StatusCode4xx" => (400..500).contains(&status),
        "OK" => status == 200,
        "Created" => status == 201,
        "NoContent" => status == 204,
        "NotFound" => status == 404,
        _ => false,
    };
    let names: Vec<&str> = allowed
        .iter()
        .filter_map(|iri| iri.as_str().rsplit('#').next())
        .collect();
    if names.is_empty() || names.iter().any(|name| fits(name)) {
        Ok(())
    } else {
        Err(format!(
            "expected the status {}, found {status}",
            names.join(" or ")
        ))
    }
}

fn check_content(expected: &Description<'_>, media_type: &str, body: &[u8]) -> Result<(), String> {
    let results = QueryResultsFormat::from_media_type(media_type);
    let rdf = RdfFormat::from_media_type(media_type);
    let unexpected = |kind: &str| {
        Err(format!(
            "expected {kind}, found the media type {media_type:?}"
        ))
    };
    match expected.text(vocabulary::EXPECTED_FORMAT).as_deref() {
        Some("boolean")
            if !matches!(
                results,
                Some(QueryResultsFormat::Xml | QueryResultsFormat::Json)
            ) =>
        {
            return unexpected("yes or no in XML or JSON");
        }
        Some("tabular") if results.is_none() => return unexpected("solutions"),
        Some("RDF") if rdf.is_none() => return unexpected("RDF"),
        _ => {}
    }
    if let Some(value) = expected.text(vocabulary::EXPECTED_BOOLEAN) {
        let format = results.ok_or("the answer is not in a format of SPARQL results")?;
        match Outcome::read(format, body)? {
            Outcome::Boolean(found) if found.to_string() == value => {}
            other => return Err(format!("expected {value}, found {other:?}")),
        }
    }
    if let Ok(content) = expected.resource(vocabulary::HTTP_BODY) {
        let text = content.text(vocabulary::CONTENT_CHARS).unwrap_or_default();
        let wanted = expected
            .list(vocabulary::HTTP_HEADERS)
            .iter()
            .find_map(|header| {
                RdfFormat::from_media_type(&header.text(vocabulary::HTTP_FIELD_VALUE)?)
            })
            .unwrap_or(RdfFormat::Turtle);
        if rdf != Some(wanted) {
            return unexpected(wanted.media_type());
        }
        same_graph(
            &read_graph(wanted, text.as_bytes())?,
            &read_graph(wanted, body)?,
        )?;
    }
    Ok(())
}

fn read_graph(format: RdfFormat, bytes: &[u8]) -> Result<Graph, String> {
    RdfParser::from_format(format)
        .for_slice(bytes)
        .map(|quad| {
            quad.map(oxrdf::Triple::from)
                .map_err(|error| error.to_string())
        })
        .collect()
}

/// A query test whose SERVICE patterns ask endpoints that the manifest describes: each becomes a
/// server of ours, and its address takes the place of the endpoint's IRI in the query, the data and
/// the expected answer.
pub fn federated_query(
    folder: &Folder,
    test: &Test,
    subject: &mut dyn Subject,
) -> Result<(), String> {
    let action = test.description().resource(vocabulary::ACTION)?;
    let mut endpoints: Vec<(String, Endpoint)> = Vec::new();
    for service in action.resources(vocabulary::SERVICE_DATA) {
        let mut endpoint = Endpoint::start()?;
        for file in service.iris(vocabulary::DATA) {
            endpoint.subject.load(
                None,
                &folder.bytes(file.as_str())?,
                format_of(file.as_str())?,
                file.as_str(),
            )?;
        }
        endpoints.push((service.iri(vocabulary::ENDPOINT)?, endpoint));
    }
    let addresses: Vec<(String, String)> = endpoints
        .iter()
        .map(|(iri, endpoint)| {
            (
                iri.clone(),
                format!("{}/query", endpoint.server.url().trim_end_matches('/')),
            )
        })
        .collect();
    evaluation::query_evaluation(folder, test, subject, &|text| {
        with_locations(text, &addresses)
    })
}

/// Whether a test has SERVICE endpoints.
pub fn is_federated(test: &Test) -> bool {
    let action = test.description().resource(vocabulary::ACTION);
    action.is_ok_and(|action| !action.terms(vocabulary::SERVICE_DATA).is_empty())
}
