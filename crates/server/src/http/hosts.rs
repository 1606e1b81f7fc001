//! Decides which hosts this server answers for, and which web pages may use it.
//!
//! The one thing to know before changing it: a browser sends whatever a foreign page asks it to
//! send. If the name of a page at `http://evil.example:7878` is rebound to 127.0.0.1, the browser
//! treats the server as the page's own origin. Only the `Host` header reveals it, so on loopback
//! the server answers known names only.

use crate::config::{Cors, ServerConfig};
use crate::http::error::{ApiError, ApiResult};
use crate::http::text::shorten;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The host of a URL without its port, and the port if one is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    /// In lower case, without the trailing dot of the DNS root; an IPv6 address keeps its brackets.
    name: String,
    port: Option<u16>,
}

impl Authority {
    /// Parses `name`, `name:port`, `[::1]` or `[::1]:port` (RFC 3986, section 3.2, without user and
    /// percent-encoding).
    pub(crate) fn parse(text: &str) -> Option<Authority> {
        let name_length = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, _) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                address.len() + 2
            }
            None => text.find(':').unwrap_or(text.len()),
        };
        let (name, port) = text.split_at(name_length);
        let port = match port.strip_prefix(':') {
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
            None if port.is_empty() => None,
            None => return None,
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_address = name.starts_with('[');
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() || !(is_address || name.bytes().all(is_plain)) {
            return None;
        }
        let name = name.to_ascii_lowercase();
        Some(Authority { name, port })
    }

    /// It with a port if it has none.
    pub(crate) fn or_port(self, port: u16) -> Authority {
        Authority {
            port: self.port.or(Some(port)),
            ..self
        }
    }

    /// Whether an entry of a list means this host: one without a port means all its ports.
    pub(crate) fn covers(&self, host: &Authority) -> bool {
        self.name == host.name && self.port.is_none_or(|port| host.port == Some(port))
    }

    /// Whether the name means this machine on every machine: `localhost` and the names below it
    /// (RFC 6761, section 6.3), 127.0.0.0/8 and ::1.
    fn is_loopback(&self) -> bool {
        if self.name == "localhost" || self.name.ends_with(".localhost") {
            return true;
        }
        self.address()
            .is_some_and(|address| address.to_canonical().is_loopback())
    }

    fn address(&self) -> Option<IpAddr> {
        let inside = self.name.strip_prefix('[');
        match inside.and_then(|inside| inside.strip_suffix(']')) {
            Some(inside) => inside.parse().ok().map(IpAddr::V6),
            None => self.name.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        }
    }
}

/// Scheme, host and port of a web page (RFC 6454), for the schemes of the web.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    is_https: bool,
    name: String,
    port: u16,
}

impl Origin {
    /// Parses an `Origin` header. Returns `None` for `null` and for the schemes of other
    /// applications.
    fn parse(text: &str) -> Option<Origin> {
        let (scheme, authority) = text.split_once("://")?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let Authority { name, port } = Authority::parse(authority)?;
        let port = port.unwrap_or(Origin::default_port(is_https));
        Some(Origin {
            is_https,
            name,
            port,
        })
    }

    /// Returns the origin of a whole URL.
    fn of_url(url: &str) -> Option<Origin> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split('/').next()?;
        Origin::parse(&format!("{scheme}://{authority}"))
    }

    fn default_port(is_https: bool) -> u16 {
        if is_https { 443 } else { 80 }
    }

    /// Whether a page at this authority, under the scheme of this origin, has this origin.
    fn is_at(&self, authority: &Authority) -> bool {
        let port = authority
            .port
            .unwrap_or(Origin::default_port(self.is_https));
        self.name == authority.name && self.port == port
    }
}

/// The outcome of `Hosts::check` for a request that is let through.
#[derive(Debug)]
pub(crate) enum Visitor {
    /// The request is handled.
    Welcome,
    /// The request asks whether another request is allowed (CORS), and it is.
    Preflight,
}

/// The hosts and origins of one server.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Whether unknown hosts are refused.
    is_restricted: bool,
    is_on_loopback: bool,
    /// Whether the server itself speaks HTTPS.
    has_tls: bool,
    public: Option<Origin>,
    allowed: Vec<Authority>,
    cors: Cors,
}

impl Hosts {
    /// Builds the hosts and origins of a server that listens on `address`.
    ///
    /// # Errors
    /// If `public_url` is not a URL, or an entry of `allowed_hosts` is not a host.
    pub(crate) fn new(config: &ServerConfig, address: SocketAddr) -> io::Result<Hosts> {
        let wrong = |sentence: String| io::Error::new(io::ErrorKind::InvalidInput, sentence);
        let public = config.public_url.as_deref().map(|url| {
            Origin::of_url(url).ok_or_else(|| {
                wrong(format!(
                    "the public URL must be like https://graph.example.org, and {url} is not"
                ))
            })
        });
        let allowed = config.allowed_hosts.iter().map(|host| {
            Authority::parse(host).ok_or_else(|| {
                wrong(format!(
                    "an allowed host is a name or name:port such as graph.example.org, not {host}"
                ))
            })
        });
        let is_on_loopback = address.ip().to_canonical().is_loopback();
        let is_named = config.public_url.is_some() || !config.allowed_hosts.is_empty();
        Ok(Hosts {
            is_restricted: is_on_loopback || is_named,
            is_on_loopback,
            has_tls: config.tls.is_some(),
            public: public.transpose()?,
            allowed: allowed.collect::<io::Result<_>>()?,
            cors: config.cors.clone(),
        })
    }

    /// Refuses a request for another host, and one that a page of another origin sends. In a
    /// request that is let through, the `Host` header names the requested host.
    ///
    /// # Errors
    /// 400 if the request names no host or several, 421 for a host that is not this server's, 403
    /// for a page of another origin.
    pub(crate) fn check(&self, request: &mut Request) -> ApiResult<Visitor> {
        let host = host_of(request)?;
        if let Some(host) = &host
            && !self.answers_for(host)
        {
            return Err(self.misdirected(host));
        }
        self.check_origin(request.method(), request.headers(), host.as_ref())
    }

    fn answers_for(&self, host: &Authority) -> bool {
        !self.is_restricted
            || host.is_loopback()
            // An IP address, unlike a name, cannot be rebound.
            || (!self.is_on_loopback && host.address().is_some())
            || self.public.as_ref().is_some_and(|public| public.name == host.name)
            || self.allowed.iter().any(|allowed| allowed.covers(host))
    }

    fn misdirected(&self, host: &Authority) -> ApiError {
        let name = shorten(&host.name);
        ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "misdirected",
            format!(
                "This server does not answer for the host \"{name}\". Ask for it as localhost or 127.0.0.1, or start it with --allowed-host {name}, or with --public-url and its URL where it is behind a proxy."
            ),
        )
    }

    /// Refuses foreign pages by the `Origin` header, which browsers add to requests that a page of
    /// another site causes. A form on such a page could change data here without a CORS check, and
    /// a page under a rebound name could read it.
    fn check_origin(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: Option<&Authority>,
    ) -> ApiResult<Visitor> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else {
            return Ok(Visitor::Welcome);
        };
        if origins.next().is_some() {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "The request has several Origin headers; a web page sends one.",
            ));
        }
        let origin = origin.to_str().unwrap_or("null");
        if self.cors.allows(origin) {
            let asks = method == Method::OPTIONS
                && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
            return Ok(if asks {
                Visitor::Preflight
            } else {
                Visitor::Welcome
            });
        }
        match Origin::parse(origin) {
            Some(origin) if self.is_own(&origin, host) => Ok(Visitor::Welcome),
            _ => Err(foreign(origin)),
        }
    }

    /// Whether pages of this origin come from this server itself.
    fn is_own(&self, origin: &Origin, host: Option<&Authority>) -> bool {
        if self.public.as_ref() == Some(origin) {
            return true;
        }
        // Under a name other than a loopback one, a proxy may add TLS to a server without.
        let has_scheme = |host: &Authority| match self.has_tls {
            true => origin.is_https,
            false => !origin.is_https || !host.is_loopback(),
        };
        let is_host = |host: &Authority| origin.is_at(host) && has_scheme(host);
        host.is_some_and(is_host) || self.allowed.iter().any(|allowed| origin.is_at(allowed))
    }
}

fn foreign(origin: &str) -> ApiError {
    let origin = shorten(origin);
    ApiError::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        format!(
            "A web page of \"{origin}\" may not use this server. Start the server with --cors {origin} if it should, or with --public-url where that is the server's own address behind a proxy."
        ),
    )
}

/// Returns the host that a request asks for. An absolute request target names it and replaces the
/// `Host` header (RFC 9112, section 3.2.2). Otherwise the `Host` header names it, which HTTP/1.1
/// requires.
fn host_of(request: &mut Request) -> ApiResult<Option<Authority>> {
    let mut lines = request.headers().get_all(header::HOST).iter();
    let (line, second) = (lines.next(), lines.next());
    if second.is_some() {
        return Err(ApiError::bad_request(
            "bad_host",
            "The request has several Host headers. Send one.",
        ));
    }
    let bad = |text: &str| {
        ApiError::bad_request(
            "bad_host",
            format!(
                "The request asks for the host \"{}\", which is not a name or an address with a port.",
                shorten(text)
            ),
        )
    };
    let parse = |text: &str| Authority::parse(text).ok_or_else(|| bad(text));
    let from_header = match line {
        Some(line) => Some(parse(line.to_str().unwrap_or("not text"))?),
        None if request.version() >= Version::HTTP_11 => {
            return Err(ApiError::bad_request(
                "bad_host",
                "The request has no Host header, which HTTP/1.1 requires. Send one.",
            ));
        }
        None => None,
    };
    let Some(target) = request.uri().authority() else {
        return Ok(from_header);
    };
    let host = parse(target.as_str())?;
    let value = HeaderValue::from_str(target.as_str()).map_err(|_| bad(target.as_str()))?;
    request.headers_mut().insert(header::HOST, value);
    Ok(Some(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, change: impl FnOnce(&mut ServerConfig)) -> Hosts {
        let mut config = ServerConfig::default();
        change(&mut config);
        Hosts::new(&config, listen.parse().expect("an address")).expect("valid")
    }

    fn answers(hosts: &Hosts, host: &str) -> bool {
        hosts.answers_for(&Authority::parse(host).expect(host))
    }

    #[test]
    fn hosts_that_would_break_an_iri_are_none() {
        for bad in [
            "",
            "a/b",
            "a b",
            "a>b",
            "user@host",
            "a\"b",
            "a:b",
            "a:99999",
            "[x]",
            ".",
        ] {
            assert_eq!(Authority::parse(bad), None, "{bad}");
        }
        let parsed = Authority::parse("WWW.Example.:80").expect("valid");
        assert_eq!(
            (parsed.name.as_str(), parsed.port),
            ("www.example", Some(80))
        );
    }

    #[test]
    fn loopback_answers_for_loopback_names() {
        let strict = hosts("127.0.0.1:7878", |_| {});
        for good in [
            "localhost",
            "LOCALHOST:1",
            "a.localhost",
            "127.9.9.9:7",
            "[::1]:80",
        ] {
            assert!(answers(&strict, good), "{good}");
        }
        for bad in [
            "evil.example:7878",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
        ] {
            assert!(!answers(&strict, bad), "{bad}");
        }
        let named = hosts("127.0.0.1:7878", |config| {
            config.public_url = Some("https://graph.example/base".to_owned());
            config.allowed_hosts = vec!["one.example".to_owned(), "two.example:81".to_owned()];
        });
        for good in [
            "graph.example",
            "graph.example:8",
            "one.example:7",
            "two.example:81",
            "localhost",
        ] {
            assert!(answers(&named, good), "{good}");
        }
        assert!(!answers(&named, "two.example:82") && !answers(&named, "evil.example"));
    }

    #[test]
    fn other_listeners_answer_for_all_hosts_until_some_are_named() {
        let open = hosts("0.0.0.0:7878", |_| {});
        assert!(answers(&open, "whatever.example"));
        let named = hosts("0.0.0.0:7878", |config| {
            config.allowed_hosts = vec!["one.example".to_owned()];
        });
        assert!(answers(&named, "one.example") && answers(&named, "10.0.0.7:7878"));
        assert!(!answers(&named, "whatever.example"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let own = |hosts: &Hosts, origin: &str, host: &str| {
            let host = Authority::parse(host);
            Origin::parse(origin).is_some_and(|origin| hosts.is_own(&origin, host.as_ref()))
        };
        let plain = hosts("127.0.0.1:7878", |_| {});
        assert!(own(&plain, "http://localhost:7878", "localhost:7878"));
        assert!(own(&plain, "http://localhost", "localhost:80"));
        assert!(!own(&plain, "https://localhost:7878", "localhost:7878"));
        assert!(!own(&plain, "http://localhost:7879", "localhost:7878"));
        assert!(!own(&plain, "http://127.0.0.1:7878", "localhost:7878"));
        assert!(!own(&plain, "null", "localhost:7878"));
        let secure = Hosts {
            has_tls: true,
            ..hosts("127.0.0.1:7878", |_| {})
        };
        assert!(own(&secure, "https://localhost:7878", "localhost:7878"));
        assert!(own(&secure, "https://localhost", "localhost:443"));
        assert!(own(&secure, "https://localhost", "localhost"));
        assert!(!own(&secure, "http://localhost:7878", "localhost:7878"));
        let named = hosts("127.0.0.1:7878", |config| {
            config.public_url = Some("https://graph.example".to_owned());
            config.allowed_hosts = vec!["one.example".to_owned()];
        });
        assert!(own(&named, "https://graph.example", "127.0.0.1:7878"));
        assert!(!own(&named, "http://graph.example", "127.0.0.1:7878"));
        assert!(own(&named, "https://one.example", "127.0.0.1:7878"));
        assert!(!own(&named, "https://one.example:81", "127.0.0.1:7878"));
    }

    #[test]
    fn an_invalid_host_is_refused_at_the_start() {
        let config = ServerConfig {
            allowed_hosts: vec!["http://one.example".to_owned()],
            ..ServerConfig::default()
        };
        let address = "127.0.0.1:7878".parse().expect("an address");
        let error = Hosts::new(&config, address).expect_err("no host");
        assert!(error.to_string().contains("http://one.example"), "{error}");
    }
}
