//! SPARQL 1.1 Protocol, Graph Store Protocol, streams and continuous queries over HTTP.
//!
//! [`serve`] is the server for asynchronous programs, and [`Running`] is the one for all others.
//! Both take an [`Engine`](somersault::Engine), a bound listener and a [`ServerConfig`].
//! `GET /openapi.json` describes every address. The engine's calls block, so handlers make them
//! through `http::gate` and not on an async thread. The one exception is a light query, which is
//! answered in microseconds (`routes::sparql`).
//!
//! Rooms, lowest first: watch, auth, tls, config, http, remote, event_stream, state, routes, serve,
//! any_input.
//!
//! **Invariant:** this crate decides nothing about data. The engine decides what a request means;
//! this crate reads and bounds the request, and puts the answer or error into HTTP.

#[cfg(test)]
mod any_input;
mod auth;
mod config;
mod event_stream;
mod http;
mod remote;
mod routes;
mod serve;
mod state;
mod tls;
mod watch;

#[cfg(feature = "jwt")]
pub use auth::jwt::{Jwt, JwtError, JwtOptions};
pub use auth::token_file::{TokenError, TokenFile, TokenInfo};
pub use auth::tokens::Tokens;
pub use config::{Auth, Cors, ServerConfig};
pub use http::recovering::serve_while_opening;
pub use remote::HttpRemote;
pub use serve::{Running, STACK_BYTES, serve};
pub use tls::Tls;
#[cfg(feature = "tls")]
pub use tls::TlsFiles;
