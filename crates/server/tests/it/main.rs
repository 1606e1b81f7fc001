//! The server over real sockets: each test starts an engine and a server of its own on loopback.

#[cfg(feature = "tls")]
mod certificates;
mod client;
mod connectors;
mod server;

mod answers;
mod checkpoints;
mod contexts;
mod copies;
mod crowded;
mod dataset;
mod delivery;
mod documents;
mod events;
mod faults;
mod graph_store;
mod hardening;
#[cfg(feature = "jwt")]
mod jwt;
mod live;
mod manual;
mod messages;
mod operations;
mod packing;
mod queries;
mod recovering;
mod rights;
mod sparql;
mod streams;
mod subscriptions;
mod tickets;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
