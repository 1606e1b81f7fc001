//! SPARQL 1.1 Protocol, Graph Store Protocol, streams and continuous queries over HTTP.
//!
//! [`serve`] is the server for asynchronous programs, [`Running`] the one for all others; both take
//! an [`Engine`](somersault::Engine), a bound listener and a [`ServerConfig`]. `GET /openapi.json`
//! describes every address. The engine's calls block, so that they are made through `http::gate`
//! and not on an async thread; a light query, which is answered in microseconds, is the one
//! exception (`routes::sparql`).
//!
//! **Invariant:** this crate decides nothing about data. What a request means is the engine's to
//! say; here it is read, bounded, and its answer or error put into words of HTTP.

#[cfg(test)]
mod any_input;
mod config;
mod http;
mod remote;
mod routes;
mod state;

pub use config::{Cors, ServerConfig};
pub use http::recovering::serve_while_opening;
pub use http::serve::{Running, serve};
pub use http::time::parse_rfc3339;
pub use remote::HttpRemote;
