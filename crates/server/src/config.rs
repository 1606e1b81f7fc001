//! What a server can be told. The defaults are those of a server on loopback for trusted clients;
//! each limit that a client can reach is named, with its way to be raised, in the error that it
//! causes.

use somersault::Limits;
use std::time::Duration;

/// Limits and habits of one server. `ServerConfig::default()` is ready for use.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Longest body of a request, in bytes.
    pub body_limit: u64,
    /// Bytes of request bodies that the server holds at one time, over all requests.
    pub body_budget: u64,
    /// Queries that run or wait in the engine at one time; more are answered 503.
    pub concurrent_queries: usize,
    /// Pushes, updates and graph writes in the engine at one time.
    pub concurrent_writes: usize,
    /// Open `results` event streams at one time.
    pub subscribers: usize,
    /// Events that may wait for one slow subscriber before it is told so and disconnected.
    pub subscriber_backlog: usize,
    /// Bytes of firings that may wait for one slow subscriber before that happens. A firing that
    /// waits alone may have more.
    pub subscriber_backlog_bytes: u64,
    /// Bytes of firings that may wait for all subscribers together; a firing that several of them
    /// wait for counts once. Beyond it, those for whom more than a few wait are disconnected.
    pub subscribers_backlog_bytes: u64,
    /// Open connections at one time. For a further one the connection that idles for the longest is
    /// closed; while all are in use, further ones are answered 503, except at `/health`.
    pub connections: usize,
    /// Which web pages of other origins may use this server.
    pub cors: Cors,
    /// `http://name:port` as clients see it, where that is not what their `Host` header says
    /// (behind a proxy): graphs named by their URL, and relative IRIs, are resolved against it. The
    /// server answers for its host, and its pages are the server's own.
    pub public_url: Option<String>,
    /// Further hosts, `name` or `name:port`, that the server answers for. A server on a loopback
    /// address answers for loopback names, the host of `public_url` and these; any other server for
    /// all hosts, unless `public_url` or hosts are given here.
    pub allowed_hosts: Vec<String>,
    /// How long a client may take to send a request's head, or leave a connection idle.
    pub head_timeout: Duration,
    /// How long a client may pause inside a body that it sends, or one that it receives.
    pub stall_timeout: Duration,
    /// Time between the comments that keep an idle event stream open.
    pub heartbeat: Duration,
    /// How long running requests may go on after the server was asked to stop.
    pub shutdown_grace: Duration,
}

/// Cross-origin resource sharing: which web pages of other origins may use the server. The requests
/// of all others are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cors {
    /// No page of another origin.
    #[default]
    Off,
    /// Every page. Only sensible where whoever can reach the server may also write to it.
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
    /// The defaults, with the body size of the engine's limits.
    pub fn with_limits(limits: &Limits) -> ServerConfig {
        ServerConfig {
            body_limit: limits.body_bytes,
            body_budget: limits.body_bytes.saturating_mul(4),
            concurrent_queries: 128,
            concurrent_writes: 128,
            subscribers: 1024,
            subscriber_backlog: 1024,
            subscriber_backlog_bytes: 32 << 20,
            subscribers_backlog_bytes: 128 << 20,
            connections: 4096,
            cors: Cors::Off,
            public_url: None,
            allowed_hosts: Vec::new(),
            head_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
