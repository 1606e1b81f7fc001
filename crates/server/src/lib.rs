//! SPARQL 1.1 Protocol, Graph Store Protocol, streams and continuous queries over HTTP.
//!
//! [`serve`] is the server for asynchronous programs, [`Running`] the one for all others; both take an
//! [`Engine`](somersault::Engine), a bound listener and a [`ServerConfig`]. `GET /openapi.json` describes
//! every address. The engine's calls block, so that they are made through `gate` and not on an async thread;
//! a light query, which is answered in microseconds, is the one exception (`protocol`).
//!
//! **Invariant:** this crate decides nothing about data. What a request means is the engine's to say;
//! here it is read, bounded, and its answer or error put into words of HTTP.

mod again;
#[cfg(test)]
mod any_input;
mod app;
mod batch;
mod body;
mod config;
mod connections;
mod declarations;
mod engine_error;
mod entities;
mod error;
mod events;
mod exposition;
mod firings;
mod gate;
mod graph_store;
mod health;
mod hosts;
mod index;
mod metrics;
mod multipart;
mod negotiate;
mod nesting;
mod openapi;
mod protocol;
mod push;
mod queries;
mod rdf;
mod remote;
mod results;
mod serve;
mod streams;
mod text;
mod time;

pub use config::{Cors, ServerConfig};
pub use remote::HttpRemote;
pub use serve::{Running, serve};
pub use time::parse_rfc3339;
