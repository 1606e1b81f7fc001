//! The server's configuration. The defaults suit a server on loopback with trusted clients. If a
//! client reaches a limit, the error names the limit and how to raise it.

#[cfg(feature = "jwt")]
use crate::auth::jwt::Jwt;
use crate::auth::tokens::Tokens;
use crate::tls::Tls;
use somersault::Limits;
use somersault_connect::Connectors;
use std::sync::Arc;
use std::time::Duration;

/// Limits and other settings of one server. `ServerConfig::default()` is ready for use.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Longest body of a request, in bytes.
    pub body_limit: u64,
    /// Longest text of a query, an update or a declaration, in bytes.
    pub text_limit: u64,
    /// Bytes of request bodies that the server holds at one time, over all requests.
    pub body_budget: u64,
    /// Queries that run or wait in the engine at one time; more are answered 503.
    pub concurrent_queries: usize,
    /// Pushes, updates and graph writes in the engine at one time.
    pub concurrent_writes: usize,
    /// Open `results` event streams at one time.
    pub subscribers: usize,
    /// Events that may wait for one slow subscriber. Beyond this it is sent a notice and
    /// disconnected.
    pub subscriber_backlog: usize,
    /// Bytes of firings that may wait for one slow subscriber before it is disconnected. A firing
    /// that waits alone may be larger.
    pub subscriber_backlog_bytes: u64,
    /// Bytes of firings that may wait for all subscribers together; a firing that several of them
    /// wait for counts once. Beyond this, subscribers with more than a few waiting firings are
    /// disconnected.
    pub subscribers_backlog_bytes: u64,
    /// Open connections at one time. For a further one, the connection that has been idle longest
    /// is closed; while all are in use, further ones are answered 503, except at `/health`.
    pub connections: usize,
    /// How the server finds out who sends a request.
    pub auth: Auth,
    /// Requests that one sender may send in a second, where senders are known. `None` = any number.
    pub sender_requests: Option<u32>,
    /// Queries of one sender that run or are being answered at one time, where senders are known.
    /// `None` = any number.
    pub sender_queries: Option<usize>,
    /// The certificates with which the server speaks HTTPS. Without them it speaks HTTP.
    pub tls: Option<Arc<Tls>>,
    /// Web pages of other origins that may use this server.
    pub cors: Cors,
    /// `http://name:port` as clients see it, if that differs from their `Host` header (behind a
    /// proxy). Graphs named by their URL, and relative IRIs, are resolved against it. The server
    /// answers for its host, and treats its pages as the server's own.
    pub public_url: Option<String>,
    /// Further hosts, `name` or `name:port`, that the server answers for. A server on a loopback
    /// address answers for loopback names, the host of `public_url` and these. Any other server
    /// answers for all hosts, unless `public_url` or hosts are given here.
    pub allowed_hosts: Vec<String>,
    /// Time a client may take for the handshake of TLS, to send a request's head, or leave a
    /// connection idle.
    pub head_timeout: Duration,
    /// Time a client may pause while it sends or receives a body.
    pub stall_timeout: Duration,
    /// Time between the comments that keep an idle event stream open.
    pub heartbeat: Duration,
    /// Time that reading one document or push may take, once its body has arrived.
    pub document_time: Duration,
    /// Time that running requests may go on after the server is asked to stop.
    pub shutdown_grace: Duration,
    /// The sources and sinks that run beside the server. Without them, those that clients declare
    /// are in memory.
    pub connectors: Option<Connectors>,
}

/// How a server finds out who sends a request, and what they may do.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Auth {
    /// It does not: whoever reaches the server may do everything. Sensible on a loopback address of
    /// a machine whose users trust each other.
    #[default]
    Off,
    /// By the token of the request (`Authorization: Bearer smr_…`).
    Tokens(Arc<Tokens>),
    /// By a signed token of an identity provider (`Authorization: Bearer`, a JWT).
    #[cfg(feature = "jwt")]
    Jwt(Arc<Jwt>),
}

impl Auth {
    /// Why the file of tokens or keys cannot be used at present.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Auth::Off => None,
            Auth::Tokens(tokens) => tokens.trouble(),
            #[cfg(feature = "jwt")]
            Auth::Jwt(jwt) => jwt.trouble(),
        }
    }
}

/// Cross-origin resource sharing: which web pages of other origins may use the server. Requests of
/// all other pages are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cors {
    /// No page of another origin may use the server.
    #[default]
    Off,
    /// Every page. Sensible only if every client that can reach the server may also write to it.
    Any,
    /// Pages of these origins, such as `https://console.example.org`.
    Origins(Vec<String>),
}

impl Cors {
    /// Whether pages of `origin` may use this server.
    pub(crate) fn allows(&self, origin: &str) -> bool {
        match self {
            Cors::Off => false,
            Cors::Any => true,
            Cors::Origins(origins) => origins
                .iter()
                .any(|known| known.eq_ignore_ascii_case(origin)),
        }
    }
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig::with_limits(&Limits::default())
    }
}

impl ServerConfig {
    /// The scheme of the server's own addresses.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the defaults, with the body size of the engine's limits.
    pub fn with_limits(limits: &Limits) -> ServerConfig {
        ServerConfig {
            body_limit: limits.body_bytes,
            text_limit: limits.query_text_bytes,
            body_budget: limits.body_bytes.saturating_mul(4),
            concurrent_queries: 128,
            concurrent_writes: 128,
            subscribers: 1024,
            subscriber_backlog: 1024,
            subscriber_backlog_bytes: 32 << 20,
            subscribers_backlog_bytes: 128 << 20,
            connections: 4096,
            auth: Auth::Off,
            sender_requests: None,
            sender_queries: None,
            tls: None,
            cors: Cors::Off,
            public_url: None,
            allowed_hosts: Vec::new(),
            head_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            document_time: Duration::from_secs(300),
            shutdown_grace: Duration::from_secs(10),
            connectors: None,
        }
    }
}
