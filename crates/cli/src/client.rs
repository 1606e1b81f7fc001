//! A client of the server's HTTP interface: requests in, bodies out, every refusal as the server's
//! own sentence.

use crate::args::{SERVER_VARIABLE, TOKEN_VARIABLE};
use crate::error::{CliError, Refusal};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use somersault_connect::ClientTls;
use somersault_connect::tls::{is_distrust, is_reachable};
use std::io::{self, Read};
use std::time::Duration;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::{Agent, AsSendBody, Body, SendBody};

/// Attempts to push to a stream whose budget is used up.
const PUSH_ATTEMPTS: u32 = 60;

/// A server, by its URL.
pub(crate) struct Client {
    agent: Agent,
    base: String,
    /// The value of the Authorization header.
    credentials: Option<String>,
}

/// The answer to a request that may have been carried out in part.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    /// The seconds after which to try again.
    pub(crate) retry_after: Option<u64>,
    pub(crate) json: Value,
}

impl Client {
    /// A client for the server at `url`, with what it trusts if that is an https address; nothing
    /// is sent yet.
    ///
    /// # Errors
    /// When the URL is not one of the web.
    pub(crate) fn new(url: &str, tls: &ClientTls) -> Result<Self, CliError> {
        if !is_reachable(url) {
            return Err(CliError::Usage(match url.contains("://") {
                true => format!(
                    "the server URL {url} does not start with http:// or, in a program that was built with TLS, https://"
                ),
                false => format!("the server URL {url} has no scheme; write http://{url}"),
            }));
        }
        let agent = tls
            .agent()
            // A redirect must not lead what was to be encrypted to an open address.
            .https_only(url.starts_with("https://"))
            .http_status_as_error(false)
            .build()
            .into();
        Ok(Self {
            agent,
            base: url.trim_end_matches('/').to_owned(),
            credentials: credentials()?,
        })
    }

    /// GETs a path, with an Accept header.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) fn get(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response<Body>, CliError> {
        self.accept(self.send(Method::GET, path, headers, ()))
    }

    /// The server's condition, whether it is well or not.
    ///
    /// # Errors
    /// When the server cannot be reached, or its answer is not JSON.
    pub(crate) fn health(&self) -> Result<Value, CliError> {
        let outcome = self.send(Method::GET, "/health", &[], ());
        let mut response = outcome.map_err(|error| self.unanswered(&error))?;
        json_of(response.body_mut())
    }

    /// POSTs a body.
    ///
    /// # Errors
    /// When the body cannot be read, or the server cannot be reached or refuses.
    pub(crate) fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Read,
    ) -> Result<Response<Body>, CliError> {
        self.upload(Method::POST, path, headers, body)
    }

    /// POSTs a body that can be sent again. While the server asks to try later (429), it is sent
    /// again after the pause that the server names.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses for good, or has not taken it after
    /// `PUSH_ATTEMPTS` attempts.
    pub(crate) fn post_patiently(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response<Body>, CliError> {
        for _ in 0..PUSH_ATTEMPTS {
            let outcome = self.send(Method::POST, path, headers, body);
            match &outcome {
                Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS => {
                    let pause = response.headers().get("retry-after");
                    let pause = pause.and_then(|value| value.to_str().ok()?.parse().ok());
                    std::thread::sleep(Duration::from_secs(pause.unwrap_or(1)));
                }
                _ => return self.accept(outcome),
            }
        }
        self.post(path, headers, body)
    }

    /// POSTs a body once, and returns the server's answer whatever its status.
    ///
    /// # Errors
    /// When the server cannot be reached, or its answer is not JSON.
    pub(crate) fn post_once(
        &self,
        path: &str,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Result<Answered, CliError> {
        let headers: Vec<(&str, &str)> = headers.iter().map(|it| (it.0, it.1.as_str())).collect();
        let outcome = self.send(Method::POST, path, &headers, body);
        let mut response = outcome.map_err(|error| self.unanswered(&error))?;
        let pause = response.headers().get("retry-after");
        Ok(Answered {
            status: response.status(),
            retry_after: pause.and_then(|value| value.to_str().ok()?.parse().ok()),
            json: json_of(response.body_mut())?,
        })
    }

    /// PUTs a text.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) fn put(&self, path: &str, text: &str) -> Result<Response<Body>, CliError> {
        let headers = [("Content-Type", "text/plain; charset=utf-8")];
        self.accept(self.send(Method::PUT, path, &headers, text))
    }

    /// PUTs lines of JSON.
    ///
    /// # Errors
    /// When the lines cannot be read, or the server cannot be reached or refuses.
    pub(crate) fn put_lines(
        &self,
        path: &str,
        lines: impl Read,
    ) -> Result<Response<Body>, CliError> {
        let headers = [("Content-Type", "application/x-ndjson")];
        self.upload(Method::PUT, path, &headers, lines)
    }

    /// POSTs nothing: an address that is a command.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) fn command(&self, path: &str) -> Result<(), CliError> {
        self.accept(self.send(Method::POST, path, &[], &[]))
            .map(drop)
    }

    /// DELETEs what is at a path.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) fn delete(&self, path: &str) -> Result<(), CliError> {
        self.accept(self.send(Method::DELETE, path, &[], ()))
            .map(drop)
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsSendBody,
    ) -> Result<Response<Body>, ureq::Error> {
        let address = format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(credentials) = &self.credentials {
            request = request.header("Authorization", credentials);
        }
        self.agent.run(request.body(body)?)
    }

    /// Sends a body while it is read.
    fn upload(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Read,
    ) -> Result<Response<Body>, CliError> {
        let mut body = Watched {
            body,
            unreadable: None,
        };
        let outcome = self.send(method, path, headers, SendBody::from_reader(&mut body));
        match body.unreadable {
            Some(error) => Err(CliError::failed("it cannot be read to its end", error)),
            None => self.accept(outcome),
        }
    }

    fn unanswered(&self, error: &ureq::Error) -> CliError {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let base = &self.base;
        if let ureq::Error::Io(error) = error
            && matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
            )
        {
            // A server that refuses a body closes while it is still being sent.
            return CliError::CutOff(format!(
                "the server at {base} closed the connection before it answered: it has stopped, or the data exceeds its limit (serve --body-bytes); load large files into a data folder (load --data) or in parts"
            ));
        }
        let cause = match error {
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        if is_distrust(error) {
            return CliError::Unreachable(format!(
                "the server at {base} is not trusted: {cause}; name the certificate of its authority with --ca-file FILE or SOMERSAULT_CA_FILE"
            ));
        }
        CliError::Unreachable(format!(
            "no answer from the server at {base}: {cause}; is it running (somersault serve)? Name another server with --server URL or {SERVER_VARIABLE}"
        ))
    }

    fn accept(
        &self,
        outcome: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, CliError> {
        let mut response = outcome.map_err(|error| self.unanswered(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.body_mut().read_to_string().unwrap_or_default();
        let json: Value = serde_json::from_str(&body).unwrap_or_default();
        let number = |name: &str| json[name].as_u64().and_then(|n| u32::try_from(n).ok());
        Err(CliError::Refused(Refusal {
            sentence: json["error"]
                .as_str()
                .unwrap_or(&body)
                .trim_end()
                .to_owned(),
            code: json["code"].as_str().unwrap_or_default().to_owned(),
            place: number("line").zip(number("column")),
            is_passing: status == StatusCode::SERVICE_UNAVAILABLE,
            status: status.to_string(),
        }))
    }
}

/// The credentials that the environment gives.
fn credentials() -> Result<Option<String>, CliError> {
    let token = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
    let token = token.trim();
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CliError::Usage(format!(
            "{TOKEN_VARIABLE} holds more than a token: spaces or other characters that no token has"
        )));
    }
    Ok((!token.is_empty()).then(|| format!("Bearer {token}")))
}

/// The JSON of an answer.
///
/// # Errors
/// When the answer breaks off, or is not JSON.
pub(crate) fn json_of(body: &mut Body) -> Result<Value, CliError> {
    let text = body.read_to_string();
    let text = text.map_err(|error| CliError::failed("the answer broke off", error))?;
    serde_json::from_str(&text)
        .map_err(|error| CliError::failed("the server's answer is not JSON", error))
}

/// A body whose own failure is told apart from the connection's.
struct Watched<R> {
    body: R,
    unreadable: Option<String>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.unreadable = Some(error.to_string());
            }
        })
    }
}

/// All characters but the unreserved ones (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A name or IRI as one segment of a URL's path.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iri_is_one_path_segment() {
        assert_eq!(
            segment("http://a.b/c#d é"),
            "http%3A%2F%2Fa.b%2Fc%23d%20%C3%A9"
        );
    }

    #[test]
    fn an_address_that_is_not_of_the_web_is_refused_with_the_remedy() {
        for (url, word) in [("ftp://e.org", "http://"), ("e.org", "http://e.org")] {
            let error = Client::new(url, &ClientTls::default()).err().unwrap();
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
