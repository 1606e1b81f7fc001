//! The server over real sockets: each test starts an engine and a server of its own on loopback.

mod client;
mod connectors;
mod server;

mod answers;
mod checkpoints;
mod copies;
mod crowded;
mod delivery;
mod events;
mod faults;
mod graph_store;
mod hardening;
mod live;
mod manual;
mod messages;
mod operations;
mod queries;
mod recovering;
mod rights;
mod sparql;
mod streams;
mod subscriptions;
mod transactions;
