//! SERVICE and LOAD: the HTTP client that the engine uses if remote access is allowed. It speaks
//! `http` and `https` only, follows few redirects, and refuses answers that are larger or slower
//! than its limits. Which machines it reaches, `resolver` decides.
//!
//! The one thing to know before changing it: there are two agents. The one for https addresses
//! follows no redirect to an http address, so nothing that was to be encrypted is sent openly.

mod resolver;

use crate::http::hosts::Authority;
use crate::http::negotiate::{self, RDF_INPUT, format_of};
use crate::http::nesting;
use oxrdfio::{RdfFormat, RdfParser};
use resolver::CheckedResolver;
use somersault::oxrdf::{Quad, Term};
use somersault::{QueryResultsFormat, Remote, RemoteSolutions};
use somersault_connect::ClientTls;
use somersault_connect::tls::{is_distrust, is_reachable};
use sparesults::{QueryResultsParser, ReaderQueryResultsParserOutput};
use std::io::Read;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Response, header};
use ureq::unversioned::transport::DefaultConnector;

/// The time for one request.
const TIME: Duration = Duration::from_secs(60);
/// The size of one answer.
const ANSWER_BYTES: u64 = 256 << 20;
const RESULTS: &str = "application/sparql-results+json, application/sparql-results+xml;q=0.9, text/tab-separated-values;q=0.5";
const DOCUMENTS: &str = "text/turtle, application/n-triples, application/n-quads;q=0.9, application/trig;q=0.9, application/rdf+xml;q=0.8, application/ld+json;q=0.7";

/// Reaches SPARQL endpoints and documents over HTTP. Give it to an engine together with
/// `allow_remote`.
#[derive(Debug, Clone)]
pub struct HttpRemote {
    /// The hosts that may be reached; `None` = all.
    hosts: Option<Vec<Authority>>,
    /// The time for one request.
    time: Duration,
    answer_bytes: u64,
    /// For http addresses.
    open: Agent,
    /// For https addresses.
    secure: Agent,
}

impl Default for HttpRemote {
    fn default() -> HttpRemote {
        HttpRemote::new()
    }
}

impl HttpRemote {
    /// Returns a client that waits at most 60 s for an answer and reads at most 256 MiB of it.
    pub fn new() -> HttpRemote {
        HttpRemote::with_limits(TIME, ANSWER_BYTES)
    }

    /// Returns a client with the given limits: the time for one request, and the size of its answer
    /// in bytes.
    pub fn with_limits(time: Duration, answer_bytes: u64) -> HttpRemote {
        HttpRemote::reaching(None, time, answer_bytes)
    }

    /// Returns a client with the limits of [`HttpRemote::new`] that reaches these hosts alone, each
    /// `name` or `name:port`.
    ///
    /// # Errors
    /// A sentence that names the text which is no host.
    pub fn to_hosts<'h>(hosts: impl IntoIterator<Item = &'h str>) -> Result<HttpRemote, String> {
        let parse = |host: &str| {
            Authority::parse(host).ok_or_else(|| {
                format!("a host is a name or name:port such as graph.example.org, not {host}")
            })
        };
        let hosts = hosts.into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(HttpRemote::reaching(Some(hosts), TIME, ANSWER_BYTES))
    }

    /// Returns the same client with other certificates that it trusts, and shows, at https
    /// addresses.
    pub fn with_tls(self, tls: &ClientTls) -> HttpRemote {
        HttpRemote {
            secure: agent(self.hosts.clone(), self.time, tls, true),
            ..self
        }
    }

    fn reaching(hosts: Option<Vec<Authority>>, time: Duration, answer_bytes: u64) -> HttpRemote {
        let tls = ClientTls::default();
        HttpRemote {
            open: agent(hosts.clone(), time, &tls, false),
            secure: agent(hosts.clone(), time, &tls, true),
            hosts,
            time,
            answer_bytes,
        }
    }

    fn agent_for(&self, url: &str) -> &Agent {
        match url.starts_with("https://") {
            true => &self.secure,
            false => &self.open,
        }
    }

    /// Returns the answer's media type and bytes.
    fn read(
        &self,
        url: &str,
        answer: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<(String, Vec<u8>), String> {
        let mut answer = answer.map_err(|error| unreachable(url, &error))?;
        if !answer.status().is_success() {
            return Err(format!(
                "{url} answered with status {}.",
                answer.status().as_u16()
            ));
        }
        let media_type = answer
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let mut bytes = Vec::new();
        answer
            .body_mut()
            .as_reader()
            .take(self.answer_bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("The answer of {url} broke off: {error}."))?;
        if bytes.len() as u64 > self.answer_bytes {
            return Err(format!(
                "The answer of {url} is larger than {} bytes, the limit.",
                self.answer_bytes
            ));
        }
        Ok((media_type, bytes))
    }
}

/// Returns a client for http or https addresses.
fn agent(hosts: Option<Vec<Authority>>, time: Duration, tls: &ClientTls, is_secure: bool) -> Agent {
    let config = tls
        .agent()
        .https_only(is_secure)
        .timeout_global(Some(time))
        .timeout_connect(Some(Duration::from_secs(10).min(time)))
        .max_redirects(5)
        .http_status_as_error(false)
        // A proxy would resolve the names itself, and reach what is refused here.
        .proxy(None)
        .user_agent(concat!("somersault/", env!("CARGO_PKG_VERSION")))
        .build();
    let resolver = CheckedResolver::new(hosts);
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Why an address gave no answer.
fn unreachable(url: &str, error: &ureq::Error) -> String {
    let why = match error {
        ureq::Error::RequireHttpsOnly(to) => {
            return format!(
                "{url} redirects to {to}, which is not encrypted, and is not followed."
            );
        }
        error if is_distrust(error) => {
            "; the server trusts the public authorities, or those of serve --ca-file"
        }
        _ => "",
    };
    format!("{url} cannot be reached: {error}{why}.")
}

/// Checks that an IRI of LOAD or SERVICE is a URL of the web; no other scheme can be fetched.
fn check_url(url: &str) -> Result<(), String> {
    match is_reachable(url) {
        true => Ok(()),
        false => Err(format!(
            "<{url}> cannot be reached: SERVICE and LOAD reach http:// and https:// addresses only, and https:// only in a server that was built with TLS."
        )),
    }
}

impl Remote for HttpRemote {
    fn select(&self, endpoint: &str, query: &str) -> Result<RemoteSolutions, String> {
        check_url(endpoint)?;
        let answer = self
            .agent_for(endpoint)
            .post(endpoint)
            .header(header::CONTENT_TYPE, "application/sparql-query")
            .header(header::ACCEPT, RESULTS)
            .send(query);
        let (media_type, bytes) = self.read(endpoint, answer)?;
        let format = QueryResultsFormat::from_media_type(&media_type).ok_or_else(|| {
            format!("{endpoint} answered as {media_type}, which is not a format of SPARQL results.")
        })?;
        let broken = |error: &dyn std::fmt::Display| {
            format!("The answer of {endpoint} cannot be read: {error}.")
        };
        nesting::check_results(&bytes, format).map_err(|error| format!("{endpoint}: {error}"))?;
        let parsed = QueryResultsParser::from_format(format)
            .for_reader(bytes.as_slice())
            .map_err(|error| broken(&error))?;
        let ReaderQueryResultsParserOutput::Solutions(solutions) = parsed else {
            return Err(format!(
                "{endpoint} answered with a boolean in place of solutions."
            ));
        };
        let variables = solutions
            .variables()
            .iter()
            .map(|variable| variable.as_str().to_owned())
            .collect();
        let rows = solutions
            .map(|solution| solution.map(|solution| solution.values().to_vec()))
            .collect::<Result<Vec<Vec<Option<Term>>>, _>>()
            .map_err(|error| broken(&error))?;
        Ok(RemoteSolutions { variables, rows })
    }

    fn document(&self, iri: &str) -> Result<Vec<Quad>, String> {
        check_url(iri)?;
        let url = iri.split('#').next().unwrap_or(iri);
        let request = self.agent_for(url).get(url);
        let answer = request.header(header::ACCEPT, DOCUMENTS).call();
        let (media_type, bytes) = self.read(url, answer)?;
        let format = document_format(&media_type, url).ok_or_else(|| {
            format!("{url} was sent as {media_type}, which is not a supported format of RDF.")
        })?;
        nesting::check(&bytes, format).map_err(|error| format!("{url}: {error}"))?;
        RdfParser::from_format(format)
            .with_base_iri(url)
            .map_err(|error| format!("<{url}> is not an absolute IRI: {error}."))?
            .rename_blank_nodes()
            .for_slice(&bytes)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{url} cannot be read: {error}."))
    }
}

/// Returns the format by the media type, or by the name's extension if the media type says nothing
/// specific.
fn document_format(media_type: &str, url: &str) -> Option<RdfFormat> {
    let essence = negotiate::essence(media_type);
    let by_ending = || RdfFormat::from_extension(url.rsplit_once('.')?.1);
    match essence.as_str() {
        "" | "text/plain" | "application/octet-stream" | "application/json" => by_ending(),
        "application/xml" | "text/xml" => Some(RdfFormat::RdfXml),
        known => format_of(RDF_INPUT, known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_hosts_are_refused_before_anything_is_sent() {
        let remote = HttpRemote::new();
        for url in [
            "http://169.254.169.254/latest/meta-data/",
            "http://[fe80::1]/",
            "http://0.0.0.0:80/",
            "https://169.254.169.254/latest/meta-data/",
            "https://[fe80::1]/",
        ] {
            let said = remote.document(url).expect_err(url);
            assert!(said.contains("never reach"), "{said}");
        }
        let remote = HttpRemote::to_hosts(["graph.example.org"]).expect("a host");
        for url in ["http://127.0.0.1:1/x.ttl", "https://127.0.0.1:1/x.ttl"] {
            let said = remote.document(url).expect_err("not listed");
            assert!(said.contains("--remote-host"), "{said}");
        }
        assert!(HttpRemote::to_hosts(["not a host"]).is_err());
    }

    #[test]
    fn formats_and_schemes() {
        assert_eq!(
            document_format("text/turtle; charset=utf-8", "http://e/x"),
            Some(RdfFormat::Turtle)
        );
        assert_eq!(
            document_format("text/plain", "http://e/x.ttl"),
            Some(RdfFormat::Turtle)
        );
        assert_eq!(document_format("text/plain", "http://e/x"), None);
        assert_eq!(document_format("application/json", "http://e/x"), None);
        assert_eq!(document_format("text/html", "http://e/x.ttl"), None);
        let remote = HttpRemote::new();
        for url in ["file:///etc/passwd", "ftp://e.org/", "urn:x"] {
            assert!(
                remote
                    .document(url)
                    .is_err_and(|sentence| sentence.contains("https://")),
                "{url}"
            );
        }
    }
}
